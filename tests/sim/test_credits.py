"""Cables longer than credits reach: the bandwidth-delay product of a receive buffer (IBA chapter 7), the same in every layer."""

from __future__ import annotations

import numpy as np
import pytest

import softib
from softib.sim import fluid, packet, static_messages
from softib.sim.credits import vl_blocks
from softib.sim.messages import messages
from softib.sim.paths import Plane

NS_PER_M = 5


def pair(generation: str, metres: float, vls: int = 4):
    """Two leaves, one spine: hosts at 2 m, spine cables of ``metres``; ``vls`` is the code of max_op_vls."""
    made = softib.generate("fat-tree", m=(2, 2), w=(1, 1), p=(1, 1), generation=generation)
    fabric = made.arrays.copy()
    host = ~fabric.is_switch[fabric.port_node] & (fabric.port_cable >= 0)
    fabric.cable_length_m[:] = metres
    fabric.cable_length_m[fabric.port_cable[host]] = 2
    from softib.scenario.bring_up import bring_up
    from softib.sm.config import config_of

    bring_up(fabric, config=config_of({"engine": "updn", "max_op_vls": vls}))
    return fabric


def times(fabric, sent):
    """End of the run in ps, by layer."""
    return [layer.run(fabric, sent).end_ps for layer in (packet, fluid, static_messages)]


@pytest.mark.parametrize(
    ("generation", "metres"), [("EDR", 300), ("HDR", 200), ("NDR", 150), ("NDR", 500), ("XDR", 300)]
)
def test_a_long_cable_takes_what_its_buffer_allows(generation, metres):
    """One flow: each round trip of the cable moves one buffer, so the rate is at most buffer over round trip; all layers say so."""
    fabric, size = pair(generation, metres), 16_000_000
    by_packets, *others = times(fabric, messages([0], [2], size))
    assert others == pytest.approx([by_packets] * 2, rel=0.01)
    plane = Plane(fabric)
    buffer = plane.credits.octets[plane.table.peer >= 0].max()
    assert by_packets >= size / buffer * 2 * metres * NS_PER_M * 1000 * (1 - buffer / size)


@pytest.mark.parametrize("vls", [1, 3, 4])
def test_the_reach_is_where_the_link_begins_to_wait(vls):
    """A cable of nearly the reach costs its own delay and nothing else; one of 1.3 times the reach costs more. Fewer VLs have larger buffers."""
    near = pair("NDR", 10, vls)
    plane, sent = Plane(near), messages([0], [2], 8_000_000)
    between = (
        near.is_switch[near.port_node]
        & (plane.table.peer >= 0)
        & near.is_switch[near.port_node[np.maximum(plane.table.peer, 0)]]
    )
    reach = float(plane.credits.reach_m[between].min())
    at_10, inside, beyond = (packet.run(pair("NDR", m, vls), sent).end_ps for m in (10, reach * 0.98, reach * 1.3))
    delay = lambda metres: (
        4 * (metres - 10) * NS_PER_M * 1000
    )  # there and, with the acknowledgement, back, over two cables
    assert inside == pytest.approx(at_10 + delay(reach * 0.98), rel=2e-3)
    assert beyond > 1.15 * (at_10 + delay(reach * 1.3))


def test_operational_vls_divide_one_memory():
    """Eight have what the catalogue says, four twice that; one has no more than 12 bits of FCCL allow; a port without a manager has eight."""
    codes = np.array([0, 1, 2, 3, 4, 5])
    assert vl_blocks(np.full(6, 1024), codes).tolist() == [1024, 2048, 2048, 2048, 1024, 546]
    assert vl_blocks(np.full(6, 256), codes).tolist() == [256, 2048, 1024, 512, 256, 136]


def test_a_second_vl_fills_what_the_first_one_leaves():
    """Two flows on two VLs of a link of 500 m carry twice what one does."""
    fabric = pair("NDR", 500)
    fabric.sl2vl[:] = [0x01, 0x23, 0x45, 0x67, 0x01, 0x23, 0x45, 0x67]
    one = times(fabric, messages([0, 1], [2, 3], 8_000_000))
    two = times(fabric, messages([0, 1], [2, 3], 8_000_000, sl=[0, 1]))
    assert one == pytest.approx([one[0]] * 3, rel=0.01) and two == pytest.approx([two[0]] * 3, rel=0.01)
    assert two[0] == pytest.approx(one[0] / 2, rel=0.02)


def test_the_run_says_why(tmp_path):
    """The note and the cause name the reach and the cable."""
    (tmp_path / "long.yaml").write_text(
        "name: long\ngeneration: NDR\ntopology: {kind: fat-tree, levels: 2, radix: 4}\ncables: {length_m: {host-leaf: 2, leaf-spine: 150}}\n"
    )
    for layer in ("fluid", "static", "packet"):
        run = softib.simulate(tmp_path / "long.yaml", "shift:4MB,k=2", layer=layer)
        assert "credits of 64 KiB" in run.notes[0] and "150 m" in run.notes[0]
        assert "150 m" in run.busy_ports[0]["cause"] and "shorter cable" in run.busy_ports[0]["help"]
    assert not softib.simulate("examples/cluster.yaml", "shift:4MB").notes
