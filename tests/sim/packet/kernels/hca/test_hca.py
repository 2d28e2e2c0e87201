"""What an adapter limits, one figure of its profile at a time: turns of queue pairs, PCIe, message rate, inline data, READs and atomics in flight."""

from __future__ import annotations

import numpy as np
import pytest

from softib.sim.messages import Opcode, Transport, messages
from softib.sim.packet.engine import run
from softib.sim.packet.options import PacketOptions
from tests.sim.packet.fabrics import no_lifetimes, star
from tests.sim.packet.lab import IDEAL

PS_AN_OCTET = 80
"""4x EDR carries 100 Gb/s."""


def took(size: int, opcode: Opcode = Opcode.WRITE, **profile: float) -> int:
    """Picoseconds of a message that is alone, from posting to arrival."""
    out = run(star(2), messages([0], [1], size, opcode=opcode), PacketOptions(profile=IDEAL | profile))
    return int(out.arrived_ps[0] - out.began_ps[0])


@pytest.mark.parametrize("sizes", [(65536, 16384, 4096), (262144, 4096, 65536)])
def test_queue_pairs_take_turns_packet_by_packet(sizes):
    """Three queue pairs of one port, each to a host of its own, with messages of different sizes: equal octets."""
    each = 3 << 20
    qp = np.repeat(np.arange(3), [each // size for size in sizes])
    size = np.asarray(sizes)[qp]
    until = 400_000_000
    out = run(
        no_lifetimes(star(4)),
        messages(np.zeros(len(qp), int), 1 + qp, size, qp=qp),
        PacketOptions(profile=IDEAL, until_ps=until),
    )
    there = np.bincount(qp, weights=np.where(out.arrived_ps > 0, size, 0), minlength=3)
    assert there.min() > 0.3 * until / PS_AN_OCTET, "the port is full"
    assert there.max() - there.min() <= max(sizes) + 2 * 4096, "no more than a message is under way"


@pytest.mark.parametrize("start_ps", [20_000_000, 20_050_000, 20_200_000])
def test_a_small_message_waits_for_its_turn_and_not_for_megabytes(start_ps):
    """Of another queue pair it waits for the packet that is leaving and at most one that is before it in turn."""
    fabric = no_lifetimes(star(3))
    alone = run(fabric, messages([0], [2], 64, start_ps=start_ps), PacketOptions(profile=IDEAL))
    both = run(
        fabric, messages([0, 0], [1, 2], [1 << 20, 64], qp=[0, 1], start_ps=[0, start_ps]), PacketOptions(profile=IDEAL)
    )
    waited = int(both.arrived_ps[1] - alone.arrived_ps[0])
    assert 0 < waited <= 2 * (4096 + 42) * PS_AN_OCTET


@pytest.mark.parametrize("fetch_ns", [0, 400, 1000])
def test_what_is_not_inline_is_fetched_first(fetch_ns):
    """128 octets travel with the request; four more begin to come ``fetch_ns`` later."""
    inline, fetched = (took(size, fetch_ns=fetch_ns, inline_ns=0, inline_bytes=128) for size in (128, 132))
    on_the_wire = 4 * PS_AN_OCTET
    assert fetched - inline - on_the_wire == pytest.approx(fetch_ns * 1000, abs=1000)


def test_inline_data_are_written_octet_by_octet():
    short, long = (took(size, inline_ns=2, inline_bytes=128) for size in (8, 128))
    assert long - short - 120 * PS_AN_OCTET == pytest.approx(120 * 2000, abs=1000)


@pytest.mark.parametrize("pcie_gbps", [20.0, 50.0, 80.0])
def test_pcie_caps_the_rate_of_long_messages(pcie_gbps):
    """What the adapter fetches a second; the profile's figure counts a packet's 26 octets of headers too, as measured plateaus do."""
    n, size = 16, 1 << 20
    out = run(
        no_lifetimes(star(2)),
        messages(np.zeros(n, int), 1, size, qp=0),
        PacketOptions(profile=IDEAL | {"pcie_gbps": pcie_gbps}),
    )
    gbps = (n - 4) * size * 8 / (int(out.arrived_ps[-1] - out.arrived_ps[3]) / 1000)
    assert gbps == pytest.approx(pcie_gbps * 4096 / (4096 + 26), rel=0.002)


@pytest.mark.parametrize("opcode", [Opcode.WRITE, Opcode.SEND])
@pytest.mark.parametrize("qps", [1, 4])
def test_the_message_rate_is_of_the_port_whatever_its_queue_pairs(opcode, qps):
    """A request every 250 ns, of one queue pair or four."""
    n = 400
    sent = messages(np.zeros(n, int), 1, 8, qp=np.arange(n) % qps, opcode=opcode)
    out = run(star(2), sent, PacketOptions(profile=IDEAL | {"message_gap_ns": 250}))
    at = np.sort(out.arrived_ps)
    assert (at[-1] - at[100]) / (n - 101) == pytest.approx(250_000, rel=0.001)


@pytest.mark.parametrize("opcode", [Opcode.READ, Opcode.ATOMIC])
@pytest.mark.parametrize("most", [1, 2, 4])
def test_reads_and_atomics_in_flight(opcode, most):
    """max_rd_atomic k: k of them a round trip (Little's law), as long as nothing else is the limit."""
    n = 240
    sent = messages(np.zeros(n, int), 1, 8, qp=0, opcode=opcode)
    many = run(star(2), sent, PacketOptions(profile=IDEAL | {"reads": most})).arrived_ps
    one = run(star(2), sent, PacketOptions(profile=IDEAL | {"reads": 1})).arrived_ps
    trip = (one[-1] - one[39]) / (n - 40)
    assert (many[-1] - many[39]) / (n - 40) == pytest.approx(trip / most, rel=0.02)


@pytest.mark.parametrize("transport", [Transport.RC, Transport.UC, Transport.UD])
def test_a_completion_says_what_its_service_knows(transport):
    """RC completes when the acknowledgement is there, so after the arrival; UC and UD when the message has left, before it."""
    out = run(star(2), messages([0], [1], 4096, transport=transport), PacketOptions(profile=IDEAL))
    assert (out.completed_ps[0] > out.arrived_ps[0]) == (transport == Transport.RC)
