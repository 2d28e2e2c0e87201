"""One law of time for ``--pace`` (C) and for the packet layer: links, cables, switches and adapters of an unloaded path take the same in
both, whatever their speeds, and a slow port makes the same counters (``softib.iba.link_speeds`` is the one table)."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from softib.fabric.builder import FabricBuilder
from softib.iba.constants import NodeType
from softib.iba.rates import SPEEDS
from softib.scenario.bring_up import bring_up
from softib.sim.fluid import run as fluid
from softib.sim.messages import messages
from softib.sim.packet import PacketOptions, run
from tests.preload.verbs.fabric_library import egress
from tests.preload.verbs.link_clocks import START, Clocks, port_of

WIRE_ALONE = {
    "fetch_ns": 0,
    "pcie_gbps": 0,
    "ramp_gbps": 0,
    "ramp_bytes": 0,
    "inline_ns": 0,
    "message_gap_ns": 0,
    "gap_bytes": 0,
}
"""What ``--pace`` does not model: memory, PCIe, message rates. Programs bring their own."""
EVERY_PACKET, FIRST, MTU = 8 + 12 + 4 + 2, 16, 4096
"""LRH, BTH, ICRC, VCRC; the RETH of a WRITE."""
WRITE = 3
"""SV_MSG_WRITE."""
NS = 1000


def chain(*speeds: str):
    """A host, switches, a host: the links between them have these speeds, as two neighbours agree on the slower one's."""
    b = FabricBuilder("chain")
    order = [s.name for s in SPEEDS]
    slower = lambda x, y: min(x, y, key=order.index)
    faster = lambda x, y: max(x, y, key=order.index)
    ends = [
        b.nodes(1, NodeType.CA, 1, desc=[name], speed=speed) for name, speed in (("a", speeds[0]), ("b", speeds[-1]))
    ]
    switches = [
        b.nodes(1, NodeType.SWITCH, 4, desc=[f"switch-{i}"], speed=faster(x, y))
        for i, (x, y) in enumerate(itertools.pairwise(speeds))
    ]
    assert all(slower(x, y) for x, y in itertools.pairwise(speeds))
    b.links(ends[0], 1, switches[0], 1, length_m=3.0)
    for left, right in itertools.pairwise(switches):
        b.links(left, 2, right, 1, length_m=17.0)
    b.links(switches[-1], 2, ends[1], 1, length_m=5.0)
    fabric = b.build()
    bring_up(fabric, "minhop")
    return fabric


def wire_octets(size: int) -> int:
    return size + -(-size // MTU) * EVERY_PACKET + FIRST


PATHS = [
    *[(s.name,) * 3 for s in SPEEDS if s.name != "FDR10"],
    ("NDR", "HDR", "EDR"),
    ("EDR", "HDR", "NDR"),
    ("HDR", "QDR", "XDR"),
    ("FDR", "FDR", "EDR", "NDR"),
]


@pytest.mark.parametrize("speeds", PATHS, ids="-".join)
@pytest.mark.parametrize("size", [4, 4096, 65536])
def test_an_unloaded_path_takes_the_same_in_c_and_in_the_packet_layer(tmp_path, speeds, size):
    fabric = chain(*speeds)
    made = Clocks(tmp_path, fabric, bring=False)
    try:
        timed = made.timed(0, 1)
        in_c = made.send(timed, wire_octets(size)) - START + timed.latency_ns
    finally:
        made.traffic.close()
    out = run(fabric, messages([0], [1], size), PacketOptions(profile=WIRE_ALONE))
    assert out.arrived_ps[0] / NS == pytest.approx(in_c, abs=3, rel=0)


@pytest.mark.parametrize("speeds", PATHS[-4:], ids="-".join)
def test_the_fluid_layer_has_the_same_law(speeds):
    """The fluid layer says what the packet layer says, on mixed speeds too: within 2 %, as it has HDR's ramp for the receiver's link, not
    for the slowest."""
    fabric = chain(*speeds)
    sent = messages([0], [1], 1 << 20)
    one, two = run(fabric, sent).arrived_ps[0], fluid(fabric, sent).arrived_ps[0]
    assert one == pytest.approx(two, rel=0.02)


@pytest.mark.parametrize(
    ("speeds", "waits"),
    [(("NDR", "NDR", "EDR"), True), (("EDR", "NDR", "EDR"), False), (("SDR", "EDR", "EDR", "SDR"), False)],
    ids=lambda v: "-".join(v) if isinstance(v, tuple) else "",
)
def test_a_slow_port_gives_the_same_counters_in_both(tmp_path, speeds, waits):
    """NDR onto one link of EDR: every port before it has data and no credits for 3/4 of the time (IBA 16.1.3.5). The packet layer's buffers
    take up less than 1 % of what is sent. A link that is faster than the one in front of it and the one after it idles, and does not wait."""
    fabric = chain(*speeds)
    n, size = 40, 1 << 20
    made = Clocks(tmp_path, fabric, bring=False)
    try:
        timed = made.timed(0, 1)
        path = egress(made.shared.walk(port_of(fabric, 0), fabric.lid[port_of(fabric, 1)]))
        words = made.c.sv_wire_size_of(WRITE, 0, size, MTU)
        for _ in range(n):
            made.send(timed, 4 * words.dwords + 2 * words.packets)
        for _ in range(2):
            made.traffic.fold(0)
        in_c = [int(made.fabric.counters[p]["port_xmit_wait"]) for p in path]
    finally:
        made.traffic.close()
    out = run(fabric, messages(np.zeros(n, int), 1, size, qp=0), PacketOptions(profile=WIRE_ALONE))
    ticks = out.arrived_ps[-1] / 1e12 * 25e9 / 10  # of the whole time, about
    assert out.counters["port_xmit_wait"][path].tolist() == pytest.approx(in_c, rel=0.02, abs=0.002 * ticks)
    assert in_c[-1] == 0 and (in_c[0] > 0) == waits
    assert (out.counters["port_xmit_data"][path] == n * words.dwords).all()
    assert (out.counters["port_xmit_pkts"][path] == n * words.packets).all()
