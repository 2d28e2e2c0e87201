"""Packets with wrong bits: found at their end, forwarded as bad by cut-through, dropped by the destination (IBA chapter 7, packet checks; 16.1.3.5)."""

from __future__ import annotations

import numpy as np
import pytest

from softib.fabric.end_ports import end_ports
from softib.sim.agreement import ALL
from softib.sim.messages import messages
from softib.sim.packet import PacketOptions, constants, run
from softib.sim.packet.engine import execute
from tests.sim.packet.fabrics import chain, no_lifetimes, star
from tests.sim.packet.lab import drained


def damaged_at_first_switch(switches: int, times: int = 1):
    """A chain, and the counters after packets that are all damaged on the way into the first switch."""
    fabric = chain(switches, 1)
    ends = end_ports(fabric)
    entry = int(fabric.port_peer[ends[0]])
    fabric.port_loss[entry, 0] = 100.0
    out = run(fabric, messages([0], [switches - 1], 2000), PacketOptions(ack_timeout=3, retries=times - 1))
    return ends, entry, out


@pytest.mark.parametrize("switches", [2, 4])
def test_cut_through_passes_a_bad_packet_on_and_every_port_further_on_counts_it(switches):
    """PortRcvErrors at the damaged link alone, PortRcvRemotePhysicalErrors at each receiver behind it; nothing arrives."""
    ends, entry, out = damaged_at_first_switch(switches, 3)
    errors, remote = out.counters["port_rcv_errors"], out.counters["port_rcv_remote_physical_errors"]
    assert errors[entry] == 3 and errors.sum() == 3
    behind = np.flatnonzero(remote)
    assert (remote[behind] == 3).all() and len(behind) == switches, "each further switch and the destination"
    assert ends[switches - 1] in behind
    assert not out.done and out.agreement == ALL, "the model holds; the message was lost"
    assert (out.arrived_ps < 0).all()


def test_a_switch_that_has_not_begun_to_forward_discards_it():
    """Behind a congested output the packet is whole, and known as bad, before its turn: it goes no further."""
    fabric = no_lifetimes(star(3))
    ends = end_ports(fabric)
    entry = int(fabric.port_peer[ends[1]])
    fabric.port_loss[entry, 0] = 100.0
    start = [0, 10_000_000]
    sent = messages([2, 1], [0, 0], [4_000_000, 100], start_ps=start)
    out = run(fabric, sent, PacketOptions(ack_timeout=10, retries=0, until_ps=10**9))
    assert out.counters["port_rcv_errors"][entry] >= 1
    assert out.counters["port_rcv_remote_physical_errors"].sum() == 0
    assert out.arrived_ps[0] > 0 > out.arrived_ps[1]


def test_packets_sent_are_packets_received_though_some_are_bad():
    """PortRcvPkts counts packets with errors too (IBA 16.1.3.5), and every credit comes back."""
    fabric = chain(3, 2)
    external = (fabric.port_num > 0) & (fabric.port_peer >= 0)
    fabric.port_loss[external, 1] = 1e-5
    src = np.repeat(np.arange(6), 40)
    sent = messages(src, (src + 3) % 6, 20000, qp=src)
    net, s, status, _ = execute(fabric, sent, PacketOptions(ack_timeout=6))
    assert status == constants.DONE and s.port["rcv_errors"].sum() > 50 and s.rare_count["remote_errors"].sum() > 20
    linked = np.flatnonzero(net.port["peer"] >= 0)
    peer = net.port["peer"][linked]
    out, into = linked[peer != linked], peer[peer != linked]
    assert np.array_equal(s.port["xmit_packets"][out], s.port["rcv_packets"][into])
    assert np.array_equal(s.port["xmit_octets"][out], s.port["rcv_octets"][into])
    assert np.array_equal(drained(net, s)[linked], net.rare["blocks"][peer])
    assert (s.message["arrived"] > 0).all()


def test_a_bad_packet_for_a_switch_itself_is_dropped_there():
    fabric = chain(2, 1)
    ends = end_ports(fabric)
    switch0 = int(np.flatnonzero(fabric.port_num[ends] == 0)[0])
    fabric.port_loss[:, 0] = 100.0
    out = run(fabric, messages([0], [switch0], 500), PacketOptions(ack_timeout=3, retries=0))
    assert not out.done and out.counters["port_rcv_errors"].sum() == 1
