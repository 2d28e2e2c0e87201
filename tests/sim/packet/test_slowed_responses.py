"""Congestion control and static rates of READ responses and datagrams: the sender of the marked packets is slowed (IBA annex A10; chapter 9, static rate)."""

from __future__ import annotations

import numpy as np
import pytest

from softib.iba.cc import SwitchCongestionSetting
from softib.scenario.bring_up import bring_up
from softib.sim.messages import Opcode, Transport, messages
from softib.sim.packet import PacketOptions, run
from softib.sim.packet.engine import execute
from softib.sm.config import config_of
from tests.sim.packet.fabrics import chain, congestion, no_lifetimes, star


def controlled(switches: int):
    fabric = chain(switches, 2)
    bring_up(fabric, config=config_of(congestion(8, 4, 20, 3) | {"engine": "minhop"}))
    return no_lifetimes(fabric)


def jain(got: np.ndarray) -> float:
    return float(got.sum() ** 2 / (len(got) * (got**2).sum()))


def test_congestion_control_makes_a_parking_lot_of_responses_fair():
    """One host reads from five along a chain: without congestion control the shares of the responses are 1/2, 1/4, …; with it
    they are even, at 0.9 of the link. The readers' requests are small and cause none of it."""
    fabric, end = controlled(5), 5 * 10**9
    far = np.repeat(2 * np.arange(5) + 1, 600)
    sent = messages(np.zeros(len(far), int), far, 65536, qp=far, opcode=Opcode.READ)
    shares = []
    for on in (False, True):
        out = run(fabric, sent, PacketOptions(until_ps=end, congestion_control=on))
        window = out.arrived_ps > end // 4
        shares.append(np.array([(window & (far == 2 * i + 1)).sum() for i in range(5)]))
    assert jain(shares[0]) < 0.75
    assert jain(shares[1]) >= 0.95
    assert shares[1].sum() * 65536 * 8e3 / (end * 0.75) / 100 >= 0.9


def test_datagrams_are_slowed_too():
    """UD: the destination sends a notice for a marked datagram, and the sender's queue pair waits."""
    fabric, end = controlled(3), 3 * 10**9
    src = np.repeat(2 * np.arange(3) + 1, 8000)
    sent = messages(src, 0, 4096, qp=src, transport=Transport.UD)
    _, s, _, _ = execute(fabric, sent, PacketOptions(until_ps=end))
    assert s.port["rcv_fecn"].sum() > 0 and s.port["rcv_becn"].sum() > 0
    at = s.message["arrived"]
    got = np.array([((at > end // 3) & (src == 2 * i + 1)).sum() for i in range(3)])
    assert jain(got) >= 0.95


def test_a_notice_is_not_answered_with_a_notice():
    """A CNP that a switch marks ends at its destination (annex A10, channel adapters). Two parking lots in opposite directions, packets of every size are
    marked: no notice goes to the port that it came from, which the switch would count as PortRcvSwitchRelayErrors."""
    fabric = controlled(3)
    SwitchCongestionSetting.packet_size.set(fabric.cc_switch_setting, 0)
    src, dst = np.repeat([3, 5, 1, 2], 400), np.repeat([0, 0, 4, 4], 400)
    _, s, _, _ = execute(fabric, messages(src, dst, 65536, qp=src), PacketOptions(until_ps=2 * 10**9))
    assert s.port["rcv_becn"].sum() > 100
    assert s.port["relay_errors"].sum() == 0


@pytest.mark.parametrize("rate", [25.0, 60.0])
def test_a_static_rate_slows_responses(rate):
    """A path of 25 Gb/s holds for what the responder sends (IBA chapter 9, static rate)."""
    n = 200
    sent = messages(np.zeros(n, int), 1, 65536, qp=0, rate_gbps=rate, opcode=Opcode.READ)
    out = run(star(2), sent)
    took = out.arrived_ps[-1] - out.arrived_ps[0]
    assert (n - 1) * 65536 * 8e3 / took == pytest.approx(rate, rel=0.01)


def test_slowed_responses_and_writes_of_one_queue_pair_all_complete():
    """Writes between READs: their acknowledgement stands behind responses that wait."""
    rng = np.random.default_rng(2)
    opcode = np.where(rng.random(200) < 0.5, Opcode.READ, Opcode.WRITE)
    sent = messages(np.zeros(200, int), 1, rng.integers(1, 30000, 200), qp=0, rate_gbps=10.0, opcode=opcode)
    fabric = star(2)
    fabric.port_loss[:, 1] = 1e-7
    out = run(fabric, sent, PacketOptions(ack_timeout=8))
    assert out.done
