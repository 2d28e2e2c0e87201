"""Timelines: every moment of a packet is accounted for, once (docs/simulate.md, ``--trace``)."""

from __future__ import annotations

import numpy as np
import pytest

from softib.errors import InputError
from softib.sim.messages import Opcode, Transport, messages
from softib.sim.packet import PacketOptions, constants, run
from softib.sim.packet.timeline import ports_of_message, timeline
from tests.sim.packet.fabrics import chain, fabric_copy, star, tree
from tests.sim.packet.traffic import mixture

EDR_PS = 80
"""An octet at 100 Gb/s."""


def every_port(fabric):
    return tuple(range(fabric.sizes.ports))


@pytest.mark.parametrize("seed", range(3))
def test_waits_and_times_of_every_packet_add_up_to_its_arrival(seed):
    """Of random messages of every kind: the parts, each by its own rule (other packets on the link, credits, cables, switches, octets, memory),
    leave no picosecond out and count none twice; the packet that a message arrives with ends at the message's arrival."""
    fabric, sent = tree(4, 2), mixture(14, 150, seed)
    # Receive buffers of 16 KiB, as FDR has them: credits run out.
    out = run(fabric, sent, PacketOptions(watch_ports=every_port(fabric), profile={"vl_blocks": 256}))
    seen = dict.fromkeys(("own", "queue", "credits"), 0)
    for i in range(len(sent)):
        found = timeline(out.log, i)
        assert found.last >= 0 and found.posted_ps == out.began_ps[i]
        assert found.flights[found.last].written_ps == out.arrived_ps[i]
        for flight in found.flights:
            parts = flight.parts(out.log)
            assert min(parts.values()) >= 0
            assert sum(parts.values()) == flight.written_ps - flight.hops[0].arrived_ps
            for hop in flight.hops:
                assert sum(hop.waits_ps.values()) == hop.sent_ps - hop.arrived_ps
            for name in seen:
                seen[name] += parts[name]
    assert all(seen.values()), "all these waits occur"


def test_a_packet_that_is_alone_waits_for_nothing_but_its_octets():
    """Three switches, cables of 2 m: 4 x 10 ns, 3 x 90 ns, 122 octets at 80 ps (payload 80, headers 42)."""
    out = run(fabric := chain(3), messages([0], [2], 80), PacketOptions(watch_ports=every_port(fabric)))
    found = timeline(out.log, 0)
    flight = found.flights[found.last]
    parts = flight.parts(out.log)
    assert [len(flight.hops), parts["cables"], parts["switches"], parts["wire"]] == [4, 40_000, 270_000, 122 * EDR_PS]
    assert not any(parts[k] for k in ("own", "queue", "other_vl", "credits", "held"))


def test_who_was_ahead_is_named():
    """Two hosts send to a third: each packet of the later message waits behind packets of the other one, and it says whose."""
    sent = messages([1, 2], 0, 40_000, start_ps=[0, 0])
    out = run(fabric := star(3), sent, PacketOptions(watch_ports=every_port(fabric)))
    for me, other in ((0, 1), (1, 0)):
        behind = [b for f in timeline(out.log, me).flights for h in f.hops for b in h.behind if f.kind == "data"]
        assert behind and {m for m, _ in behind} == {other}


def test_waiting_for_another_vl_is_arbitration(monkeypatch):
    """Two messages of one host on two SLs, mapped to two VLs: they wait for each other's VL, not in each other's queue."""
    fabric = star(3)
    sent = messages([0, 0], [1, 2], 60_000, sl=[0, 1], qp=[0, 1])
    out = run(fabric, sent, PacketOptions(watch_ports=every_port(fabric)))
    source = [f.hops[0].waits_ps for f in timeline(out.log, 0).flights if f.kind == "data"]
    assert sum(w["other_vl"] for w in source) > 0 and sum(w["queue"] for w in source) == 0


def test_watching_a_message_alone_finds_its_ports():
    """Also those of its acknowledgements; with them watched the parts are complete."""
    fabric, sent = tree(4, 2), mixture(14, 150, 1)
    row = int(np.flatnonzero((sent.transport == Transport.RC) & (sent.opcode == Opcode.WRITE))[0])
    first = run(fabric, sent, PacketOptions(watch_messages=(row,)))
    ports = ports_of_message(first.log, row)
    again = run(fabric, sent, PacketOptions(watch_messages=(row,), watch_ports=tuple(sorted(ports))))
    everything = run(fabric, sent, PacketOptions(watch_ports=every_port(fabric)))
    assert timeline(again.log, row) == timeline(everything.log, row)
    assert {"data", "ACK"} <= {f.kind for f in timeline(again.log, row).flights}


@pytest.mark.parametrize("seed", (1, 3, 27, 33, 37))
def test_packets_that_are_lost_say_where(seed):
    fabric = fabric_copy(star(2))
    fabric.port_loss[:, 1] = 3e-6
    out = run(
        fabric, messages([0], [1], 400_000), PacketOptions(watch_ports=every_port(fabric), ack_timeout=4, seed=seed)
    )
    found = timeline(out.log, 0)
    lost = [f for f in found.flights if f.lost_ps >= 0]
    assert len(lost) == out.counters["port_rcv_errors"].sum() > 0
    assert all(out.counters["port_rcv_errors"][f.lost_at] and f.parts(out.log) == {} for f in lost)
    assert found.flights[found.last].written_ps == out.arrived_ps[0]


def test_who_was_not_watched_has_no_timeline():
    out = run(star(3), messages([0, 1], [1, 2], 100), PacketOptions(watch_messages=(0,)))
    with pytest.raises(InputError, match="message 1 was not watched"):
        timeline(out.log, 1)
    with pytest.raises(InputError, match="message 7 does not exist"):
        run(star(3), messages([0], [1], 100), PacketOptions(watch_messages=(7,)))


def test_a_log_grows():
    """More rows than it begins with, none lost: each port's packets are its counter."""
    fabric, sent = star(3), messages([1, 2], 0, 1 << 23)
    out = run(fabric, sent, PacketOptions(watch_ports=every_port(fabric)))
    rows = out.log.kind == constants.LOG_SENT
    assert np.array_equal(np.bincount(out.log.port[rows], minlength=fabric.sizes.ports), out.counters["port_xmit_pkts"])
    assert len(out.log) > 8000
