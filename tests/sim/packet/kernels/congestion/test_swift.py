"""Swift against its paper (Kumar et al., SIGCOMM 2020): the delay at its target, fair shares, convergence, windows below a packet.

Oracle: the target by the formula of section 3.5, computed here from the options' defaults, at the window that fair shares of the link mean.
"""

from __future__ import annotations

import math
from functools import cache

import numpy as np
import pytest

from softib.sim.messages import messages
from softib.sim.packet import PacketOptions, constants
from softib.sim.packet.congestion_control import congestion_control
from softib.sim.packet.engine import execute
from tests.sim.packet.fabrics import chain, star
from tests.sim.packet.lab import jain

US = 10**6
WIRE = 4096 + 62 + 20
GBPS = 100
PACKET_US = WIRE * 8e-3 / GBPS
DEFAULT = {o.name: o.default for o in congestion_control("swift").options}


def target_us(window: float, hops: int = 1, **other: float) -> float:
    """Section 3.5: base, hops, and the flow's part, which falls with the root of the window and is 0 from ``flow_most`` on."""
    o = DEFAULT | other
    alpha = o["flow_range_us"] / (1 / math.sqrt(o["flow_least"]) - 1 / math.sqrt(o["flow_most"]))
    flow = alpha / math.sqrt(window) - alpha / math.sqrt(o["flow_most"])
    return o["base_target_us"] + hops * o["hop_us"] + max(0.0, min(flow, o["flow_range_us"]))


def fair_delay_us(flows: int, hops: int = 1, **other: float) -> float:
    """The delay at which each of ``flows`` has its share of the link: a window of delay / (flows × packet time), whose target it is."""
    low, high = 1.0, 10_000.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if target_us(middle / (flows * PACKET_US), hops, **other) > middle else (low, middle)
    return low


@cache
def incast(flows: int, end_us: int, hops: int = 1, late: bool = False, **options: float):
    """(Gb/s of each flow, mean and least delay of its samples of the fabric in us) over the second half of ``end_us``; senders are on the last
    switch of a chain of ``hops``."""
    fabric = star(flows + 1) if hops == 1 else chain(hops, flows + 1)
    dst = 0
    src = np.repeat((hops - 1) * (flows + 1) + 1 + np.arange(flows) - (hops > 1), 30)
    start = np.where(src == src[0], 0, end_us * US // 4) if late else 0
    sent = messages(src, dst, 10_000_000, qp=src, start_ps=start)
    given = {"cc": "swift", **options}
    before, _, status, _ = None, None, None, None
    delays = []
    for until in np.linspace(end_us / 2, end_us, 9):
        _, s, status, _ = execute(fabric, sent, PacketOptions(network="roce", until_ps=int(until * US), ethernet=given))
        assert status == constants.TIME_OVER
        before = s.rc["acked"][:flows].copy() if before is None else before
        flow = s.cc[: 2 * flows : 2]
        delays.append((flow["rtt"] / US).mean())
    rates = (s.rc["acked"][:flows] - before) * 4096 * 8 / (end_us / 2 * 1e-6) / 1e9
    return rates, float(np.mean(delays)), s


@pytest.mark.parametrize("flows", [2, 8])
def test_an_incast_keeps_the_delay_at_its_target(flows):
    """N to 1: the round trip is within a tenth of the target for fair windows, the link is full, shares are even (Jain), no pause, no drop."""
    rates, delay, s = incast(flows, 4000)
    assert delay == pytest.approx(fair_delay_us(flows), rel=0.1)
    assert rates.sum() > 0.97 * GBPS * 4096 / WIRE and jain(rates) > 0.99
    assert s.queue["pauses_sent"].sum() == 0 and s.queue["tail_drops"].sum() == 0


def test_a_longer_path_has_a_larger_target():
    """Topology scaling: the delay over 4 switches is that of one and 3 times ``hop_us``."""
    far = incast(4, 4000, hops=4, hop_us=5.0)[1]
    assert far == pytest.approx(fair_delay_us(4, hops=4, hop_us=5.0), rel=0.1)
    assert far - incast(4, 4000, hop_us=5.0)[1] == pytest.approx(15, rel=0.25)


def test_a_flow_that_comes_late_gets_its_share():
    """Convergence: of four flows three come when the first has the whole link; in the second half of the run shares are even."""
    rates, _, _ = incast(4, 4000, late=True)
    assert jain(rates) > 0.98 and rates.sum() > 0.97 * GBPS * 4096 / WIRE


def test_a_large_incast_has_windows_below_a_packet():
    """96 to 1: a window of one packet each would be a queue of 96 packets, which takes longer than the target. Pauses between packets keep the
    delay at the target for a window below 1, and shares even; switches neither drop nor pause."""
    flows = 96
    options = {"base_target_us": 5.0, "flow_range_us": 20.0}
    rates, delay, s = incast(flows, 6000, start_window=1.0, increase=0.25, **options)
    assert s.cc["fabric"][: 2 * flows : 2].mean() < 0.9
    assert delay == pytest.approx(fair_delay_us(flows, **options), rel=1 / 3) and delay < 0.7 * flows * PACKET_US
    assert rates.sum() > 0.9 * GBPS * 4096 / WIRE and jain(rates) > 0.9
    assert s.queue["pauses_sent"].sum() == 0


def test_a_slow_host_is_held_by_its_own_window():
    """Section 3.4: the receiver's memory takes 50 of 100 Gb/s, so the delay arises in the host; its window falls, the fabric stays empty."""
    sent = messages(np.repeat([1, 2], 8), 0, 10_000_000, qp=np.repeat([1, 2], 8))
    given = PacketOptions(
        network="roce",
        until_ps=4000 * US,
        profile={"pcie_gbps": 50},
        ethernet={"cc": "swift", "xoff_bytes": 10_000_000},
    )
    _, s, _, _ = execute(star(3), sent, given)
    flow = s.cc[:4:2]
    assert (flow["host"] < flow["fabric"]).all(), "the host's window is the smaller one"
    assert s.rc["acked"][:2].sum() * 4096 * 8 / 4000e-6 / 1e9 == pytest.approx(50, rel=0.1)
    held = int(s.queue["peak_ingress"].max())
    assert held < 2 * DEFAULT["host_target_us"] * 1000 * 50 / 8, (
        "what waits for memory is at most what comes in within twice the target"
    )


def test_losses_lower_the_window():
    """Drop-tail queues of 60 KB, smaller than what the target lets in: frames are lost, windows fall, and all arrives in the end. Fewer than a quarter
    of the frames are lost that senders without control lose."""
    sent = messages(1 + np.arange(4), 0, 2_000_000)
    given = {"cc": "swift", "pfc": False, "queue_bytes": 60_000}
    _, s, status, _ = execute(star(5), sent, PacketOptions(network="roce", ack_timeout=6, ethernet=given))
    assert status == constants.DONE and (s.message["arrived"] >= 0).all() and s.queue["tail_drops"].sum() > 0
    _, without, _, _ = execute(
        star(5), sent, PacketOptions(network="roce", ack_timeout=6, ethernet=given | {"cc": "none"})
    )
    assert s.queue["tail_drops"].sum() < without.queue["tail_drops"].sum() / 4
