"""Ports that drain slower than they receive (``softib fault slow-port`` on the fabric that is simulated), against closed forms."""

from __future__ import annotations

import math

import numpy as np
import pytest

from softib.fabric.end_ports import end_ports
from softib.iba.smp import PortInfo
from softib.scenario.failures import ManagerSettings, run_failures
from softib.scenario.faults_in_time import TimedFault
from softib.sim.agreement import ALL
from softib.sim.messages import Transport, messages
from softib.sim.packet import PacketOptions, run
from tests.sim.packet.fabrics import chain, no_lifetimes, star

HEADERS = 26
"""LRH 8, BTH 12, ICRC 4, VCRC 2."""


def slow_receiver(gbps: float):
    """Two hosts on a switch; the second takes ``gbps`` of what arrives. Its port, and the port that faces it."""
    fabric = no_lifetimes(star(2, "HDR"))
    port = int(end_ports(fabric)[1])
    fabric.port_drain[port] = 8e3 / gbps if gbps else math.inf
    return fabric, port, int(fabric.port_peer[port])


@pytest.mark.parametrize("gbps", [2.0, 25.0])
def test_a_slow_port_takes_its_rate_and_its_peer_waits(gbps):
    """What is sent beyond the buffer goes at its rate, and PortXmitWait of the port that faces it is that time less the link's own."""
    size, n = 65536, 40
    fabric, _, facing = slow_receiver(gbps)
    out = run(fabric, messages(np.zeros(n, int), 1, size, qp=0))
    octets = n * (size + size // 4096 * HEADERS + 16)
    took = out.arrived_ps[-1] - out.arrived_ps[0]
    assert (n - 1) / n * octets * 8e3 / took == pytest.approx(gbps, rel=0.02)
    beyond = octets - 768 * 64
    waits_ps = beyond * 8e3 / gbps - beyond * 8e3 / 200
    tick_ps = 10e6 / 53.125 / 1000
    assert int(out.counters["port_xmit_wait"][facing]) * tick_ps == pytest.approx(waits_ps, rel=0.02)
    assert out.agreement == ALL and out.done


def test_slow_from_the_begin_is_slow_by_a_fault_at_the_begin():
    """The column of the fabric and the fault of a run mean the same: times and counters are equal."""
    fabric, port, _ = slow_receiver(5.0)
    sent = messages([0, 1], [1, 0], 500_000)
    healthy = no_lifetimes(star(2, "HDR"))
    fault = TimedFault(1, "slow-port", healthy.port_name(port), {"gbps": 5.0})
    by_fault = run_failures(healthy, sent, [fault], PacketOptions(), ManagerSettings(None)).outcome
    out = run(fabric, sent)
    assert np.array_equal(out.arrived_ps, by_fault.arrived_ps) and np.array_equal(out.counters, by_fault.counters)


def test_what_waits_for_a_blocked_port_dies_after_hoq_life():
    """The buffer of the port takes what it holds; the switch discards the others one HOQLife after another (IBA chapter 18)."""
    fabric, _, facing = slow_receiver(0.0)
    PortInfo.hoq_life.set(fabric.port_info, 2)  # 16.384 us
    n, wire = 30, 4096 + HEADERS + 8
    out = run(fabric, messages(np.zeros(n, int), 1, 4096, qp=0, transport=Transport.UD))
    held = 768 * 64 // (-(-wire // 64) * 64)
    assert out.counters["port_xmit_discards"][facing] == n - held
    assert out.counters["port_rcv_pkts"][int(fabric.port_peer[facing])] == held


def test_a_slow_port_between_switches_holds_up_what_comes_before_it():
    """Credits come back at the port's rate, hop by hop: a host two switches before it sends at that rate too."""
    fabric = no_lifetimes(chain(3, 1, "HDR"))
    last = int(end_ports(fabric)[2])
    into_last_switch = int(
        np.flatnonzero((fabric.port_node == fabric.port_node[fabric.port_peer[last]]) & (fabric.port_num == 3))[0]
    )
    fabric.port_drain[into_last_switch] = 8e3 / 10
    n, size = 60, 65536
    out = run(fabric, messages(np.zeros(n, int), 2, size, qp=0))
    wait = out.counters["port_xmit_wait"].astype(float)
    assert (n - 10) * (size + 16 * HEADERS + 16) * 8e3 / (out.arrived_ps[-1] - out.arrived_ps[9]) == pytest.approx(
        10, rel=0.02
    )
    assert wait[int(end_ports(fabric)[0])] > 0.5 * wait[int(fabric.port_peer[into_last_switch])] > 0
