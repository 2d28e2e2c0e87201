"""DCQCN against its paper (Zhu et al., SIGCOMM 2015) and the fixed point of its fluid model (Zhu et al., CoNEXT 2016, "ECN or Delay")."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from softib.sim.messages import Opcode, messages
from softib.sim.packet import PacketOptions, constants, run
from softib.sim.packet.engine import execute
from tests.sim.packet.fabrics import star
from tests.sim.packet.lab import jain

MS, US = 10**9, 10**6
WIRE = 4096 + 62 + 20
K_MIN, K_MAX = 5_000, 200_000


def fixed_point(flows: int, gbps: float) -> float:
    """Share p of packets that is marked in the steady state: the zero of the fluid model with the paper's constants, all flows at C / N.

    From dR_T/dt = 0 the gap between target and current rate, put into dR_C/dt = 0 with alpha = 1 - (1 - p)^(tau' R).
    """
    rate = gbps * 1e9 / 8 / WIRE / flows
    tau, alpha_timer, timer, steps = 50e-6, 55e-6, 55e-6, 5
    counter, additive = 10e6 / WIRE, 40e6 / 8 / WIRE

    def change(p: float) -> float:
        keep = 1 - p
        alpha, cut = 1 - keep ** (alpha_timer * rate), 1 - keep ** (tau * rate)
        by_bytes, by_time = p / (keep**-counter - 1), p / (keep ** (-timer * rate) - 1)
        later = by_bytes * keep ** (steps * counter) + by_time * keep ** (steps * timer * rate)
        gap = additive * rate * later * tau / cut
        return float(alpha / (2 * tau) * cut - gap / 2 * (by_bytes + by_time))

    low, high = 1e-9, 0.5
    for _ in range(100):
        middle = (low * high) ** 0.5
        low, high = (low, middle) if change(middle) > 0 else (middle, high)
    return low


@cache
def steady(flows: int, p_max: float, late_ms: int = 0):
    """(rate of each flow in Gb/s over the second half of 200 ms, mean queue in octets there, share of marked packets) of an incast at 40 Gb/s."""
    fabric = star(flows + 1)
    src = np.repeat(1 + np.arange(flows), 60)
    sent = messages(src, 0, 20_000_000, qp=src, start_ps=np.where(src == 1, 0, late_ms * MS))
    seen = []
    for until in (100, 200):
        options = PacketOptions(network="roce", until_ps=until * MS, ethernet={"gbps": 40, "p_max": p_max})
        _, s, status, _ = execute(fabric, sent, options)
        assert status == constants.TIME_OVER
        row = int(np.argmax(s.queue["peak_egress"]))
        seen.append((s.rc["acked"][:flows].copy(), int(s.queue["queue_area"][row]), int(s.queue["ecn_marked"].sum())))
    (acked, area, marked), (acked2, area2, marked2) = seen
    rates = (acked2 - acked) * 4096 * 8 / 0.1 / 1e9
    return rates, (area2 - area) * 1024 / (100 * MS), (marked2 - marked) / (acked2 - acked).sum()


@pytest.mark.parametrize(("flows", "p_max"), [(2, 0.01), (4, 0.1)])
def test_the_queue_stays_at_the_fixed_point(flows, p_max):
    """The mean queue is within a third of Kmin + p* / Pmax (Kmax - Kmin); the link is full, and the shares are even (Jain's index)."""
    rates, queue, _ = steady(flows, p_max)
    wanted = K_MIN + fixed_point(flows, 40) / p_max * (K_MAX - K_MIN)
    assert queue == pytest.approx(wanted, rel=1 / 3)
    assert rates.sum() == pytest.approx(40 * 4096 / WIRE, rel=0.03)
    assert jain(rates) > 0.99


@pytest.mark.slow
@pytest.mark.parametrize(("flows", "p_max"), [(8, 0.1), (16, 0.2)])
def test_the_share_of_marks_grows_with_the_flows(flows, p_max):
    """p* of more flows within a factor of 1.6: the receiver's CNP interval begins at a mark, the fluid model's does not."""
    rates, _, marked = steady(flows, p_max)
    assert fixed_point(flows, 40) < marked < 1.6 * fixed_point(flows, 40)
    assert jain(rates) > 0.98


def test_a_flow_that_comes_late_gets_its_half():
    """One flow has the whole link for 20 ms, then another one comes: half each."""
    rates, _, _ = steady(2, 0.01, late_ms=20)
    assert rates == pytest.approx(rates.mean(), rel=0.1)


def after_one_cnp(wait_us: int):
    """(rate, target) in kb/s of a flow that got one CNP for a collision with a short one, ``wait_us`` after it."""
    fabric = star(3)
    sent = messages([1, 2], 0, [50_000_000, 40_000], start_ps=[0, 20 * US])
    always = {"gbps": 40, "k_min_bytes": 8_000, "k_max_bytes": 8_001, "p_max": 1.0}
    for us in range(20, 80):
        _, s, _, _ = execute(fabric, sent, PacketOptions(network="roce", until_ps=us * US, ethernet=always))
        if s.cc["cnps"][0] == 1:
            break
    began = int(s.cc["rate_at"][0]) - 55 * US  # of the CNP: the timer began then
    _, s, _, _ = execute(fabric, sent, PacketOptions(network="roce", until_ps=began + wait_us * US, ethernet=always))
    assert s.cc["cnps"][0] == 1, "the short flow is over"
    return int(s.cc["rate_now"][0]), int(s.cc["rate_target"][0])


def test_one_notice_halves_the_rate_and_fast_recovery_halves_the_gap():
    """Equations 1 and 3: alpha is 1 at first, so R_C = R_T / 2; each timer step of 55 us makes R_C = (R_T + R_C) / 2, and R_T stays."""
    line = 40_000_000
    assert after_one_cnp(10) == (line // 2, line)
    assert after_one_cnp(10 + 55) == (line * 3 // 4, line)
    assert after_one_cnp(10 + 3 * 55) == (line * 15 // 16, line)


def test_notices_come_at_most_once_an_interval():
    """The notification point: one CNP every 50 us for each flow, however many packets are marked (rates that may not fall below 30 of 100 Gb/s
    keep the queue of four flows full)."""
    fabric = star(5)
    sent = messages(1 + np.arange(4), 0, 50_000_000)
    options = PacketOptions(network="roce", until_ps=3 * MS, ethernet={"rate_min_mbps": 30_000})
    _, s, _, _ = execute(fabric, sent, options)
    assert (s.cc["cnps"][:8:2] <= 3_000 // 50).all() and (s.cc["cnps"][:8:2] > 50).all()
    assert s.queue["ecn_marked"].sum() > 10 * s.cc["cnps"][:8:2].sum()


def test_responses_to_reads_obey_the_rate_of_their_stream():
    """Eight READs of one host: with DCQCN the responders slow down before anybody must be paused; a CNP leaves though nothing else does."""
    fabric = star(9)
    sent = messages([0] * 8, np.arange(1, 9), 4_000_000, opcode=Opcode.READ)
    made = {
        on: run(fabric, sent, PacketOptions(network="roce", ethernet={"cc": "dcqcn" if on else "none"}))
        for on in (True, False)
    }
    assert made[True].done and made[False].done
    assert made[True].port_figures["pause_frames_sent"].sum() < made[False].port_figures["pause_frames_sent"].sum() / 10
