"""Ethernet on two and three cores: frames, pause frames, ECN and CNPs cross the cables between parts, and the same bytes come out as on one."""

from __future__ import annotations

import numpy as np
import pytest

from softib.sim.messages import Opcode, messages
from softib.sim.packet import PacketOptions, run
from softib.sim.packet.engine import execute
from tests.sim.packet.fabrics import chain, tree
from tests.sim.packet.lab import same


def incast(hosts: int, size: int, seed: int):
    """All send to host 0, and to each other; some wait for messages that arrive elsewhere."""
    rng = np.random.default_rng(seed)
    n = 6 * hosts
    src = np.arange(n) % hosts
    dst = np.where(np.arange(n) < 2 * hosts, 0, rng.integers(0, hosts, n))
    dst = np.where(dst == src, (src + 1) % hosts, dst)
    first, needs = [0], []
    for i in range(n):
        if i > 10 and rng.random() < 0.2:
            needs.append(int(rng.integers(0, i)))
        first.append(len(needs))
    size_of = rng.choice([100, size // 4, size], n)
    return messages(
        src, dst, size_of, opcode=rng.integers(0, 2, n), start_ps=rng.integers(0, 10**6, n), first=first, needs=needs
    )


@pytest.mark.parametrize(
    ("network", "ethernet"),
    [
        ("roce", {"xoff_bytes": 20_000, "k_min_bytes": 5_000, "k_max_bytes": 50_000}),
        ("roce", {"pfc": False, "queue_bytes": 60_000}),
        ("tcp", {"queue_bytes": 60_000}),
        ("tcp", {"congestion": "dctcp", "mtu": 9000}),
    ],
)
def test_same_bytes_over_ethernet(network, ethernet):
    """Pauses that go from switch to switch, marks and CNPs, frames dropped at a full queue and sent again, segments and their acknowledgements."""
    fabric, sent = tree(8, 2), incast(32, 200_000, 1)
    options = {"network": network, "ethernet": ethernet, "ack_timeout": 8, "sample_ps": 5 * 10**6}
    assert len(execute(fabric, sent, PacketOptions(cores=2, **options))[1]) == 2
    out = run(fabric, sent, PacketOptions(**options))
    happened = {
        "roce": "pause frames" if ethernet.get("pfc", True) else "frames dropped",
        "tcp": "segments sent again",
    }[network]
    assert out.done and (out.work[happened] > 0 or "dctcp" in ethernet.values())
    between = fabric.is_switch[fabric.port_node] & fabric.is_switch[fabric.port_node[np.maximum(fabric.port_peer, 0)]]
    if happened == "pause frames":
        assert out.port_figures["pause_frames_sent"][between].sum() > 0, "a pause crosses a cable between switches"
    same(fabric, sent, **options)


def test_same_bytes_when_an_adapter_pauses_its_switch():
    """Host memory that is slower than the link: the adapter asks for pauses, and the last of them ends before the run does."""
    fabric, sent = chain(3, 2), messages([2, 3, 4], [0, 0, 1], 400_000, opcode=Opcode.SEND)
    options = {"network": "roce", "profile": {"pcie_gbps": 20.0}, "ethernet": {"xoff_bytes": 20_000}, "ack_timeout": 12}
    out = run(fabric, sent, PacketOptions(**options))
    assert out.work["pause frames"] > 0 and out.port_figures["paused_ps"].any()
    same(fabric, sent, **options)


def test_the_same_run_that_ends_in_the_middle_of_pauses():
    """Time is over; what is paused then counts until then."""
    fabric, sent = tree(8, 2), incast(32, 200_000, 2)
    same(fabric, sent, network="roce", ethernet={"xoff_bytes": 20_000}, until_ps=20 * 10**6)
