"""Congestion control piece by piece (IBA annex A10): which packets a switch marks, what each notice does to its flow, what the timer does."""

from __future__ import annotations

import numpy as np
import pytest

from softib.fabric.model import Fabric
from softib.scenario.bring_up import bring_up
from softib.sim.messages import messages
from softib.sim.packet.engine import execute, run
from softib.sim.packet.options import PacketOptions
from softib.sm.config import config_of
from softib.sm.options.file import read_options
from tests.sim.packet.fabrics import chain, no_lifetimes
from tests.sim.packet.lab import IDEAL

BLOCKS_A_PACKET = 65
"""4,096 octets and their headers, in credits."""
BUFFER = IDEAL["vl_blocks"]
TIMER_UNIT_PS = 1_024_000


def star_with(*, threshold=15, rate=0, size=0, increase=0, timer=0, table=(0,)) -> Fabric:
    """Three hosts on a switch. ``size``: Packet_Size in 64 octets; ``table``: CCT entries in eighths of a packet time; its last is CCTI_Limit."""
    text = (
        f"congestion_control TRUE\ncc_sw_cong_setting_control_map 0x1f\ncc_sw_cong_setting_threshold {threshold}\n"
        f"cc_sw_cong_setting_packet_size {size}\ncc_sw_cong_setting_marking_rate {rate}\ncc_ca_cong_setting_control_map 0xffff\n"
        f"cc_ca_cong_setting_ccti_timer 0 {timer}\ncc_ca_cong_setting_ccti_increase 0 {increase}\n"
        f"cc_cct {','.join(f'3:{i}' for i in table)}\n"
    )
    fabric = chain(1, 3)
    bring_up(fabric, config=config_of(read_options(text).options | {"engine": "minhop"}))
    return no_lifetimes(fabric)


def two_to_one(fabric: Fabric, packets: int, octets: int = 4096, until_ps: int = 1000 * 10**9):
    """Hosts 1 and 2 each send ``packets`` messages of one packet to host 0; counts of all ports, rows (switch port to host 0, host 0)."""
    src = np.repeat([1, 2], packets)
    _, state, _, _ = execute(fabric, messages(src, 0, octets, qp=src), PacketOptions(profile=IDEAL, until_ps=until_ps))
    sink = int(fabric.node_base[np.flatnonzero(~fabric.is_switch)[0]]) + 1
    return state.port, int(fabric.port_peer[sink]), sink


@pytest.mark.parametrize("rate", [0, 1, 3, 9])
def test_marking_rate_packets_go_between_two_marked_ones(rate):
    count, out, _ = two_to_one(star_with(rate=rate), 1000)
    waited = 2 * 1000 - 2 * BUFFER // 16 // BLOCKS_A_PACKET  # before that the queue is below the threshold
    assert count["marked"][out] == pytest.approx(waited / (rate + 1), rel=0.02)


def test_every_marked_packet_is_noticed_and_answered_once():
    count, out, sink = two_to_one(star_with(rate=2), 500)
    marked = count["marked"][out]
    assert marked > 100
    assert count["rcv_fecn"][sink] == marked == count["rcv_becn"].sum()
    assert count["marked"].sum() == marked, "only the port at the root marks"


@pytest.mark.parametrize(("octets", "are_marked"), [(256, False), (468, False), (472, True), (1024, True)])
def test_packets_below_packet_size_are_not_marked(octets, are_marked):
    """Packet_Size 8 is 512 octets, with the 42 of a WRITE's headers."""
    count, out, _ = two_to_one(star_with(size=8), 1000, octets)
    assert (count["marked"][out] > 0) == are_marked


@pytest.mark.parametrize("threshold", [1, 4, 8, 12, 13])
def test_the_threshold_is_of_the_queue(threshold):
    """n packets from each of two hosts make a queue of n, less or more one. Threshold w is (16 - w) / 16 of the buffer."""
    level = (16 - threshold) * BUFFER / 16 / BLOCKS_A_PACKET
    below, above = (two_to_one(star_with(threshold=threshold), n) for n in (int(level) - 2, int(level) + 3))
    assert below[0]["marked"].sum() == 0
    assert above[0]["marked"][above[1]] > 0


def test_threshold_0_marks_nothing():
    assert two_to_one(star_with(threshold=0), 500)[0]["marked"].sum() == 0


@pytest.mark.parametrize("limit", [8, 16, 24])
def test_a_flow_at_its_limit_waits_its_entry_of_the_table_after_each_packet(limit):
    """With no timer every notice is for ever: CCTI goes to CCTI_Limit (notices that are under way when the queue ends are enough for 24),
    where a flow has 1 / (1 + limit / 8) of its link."""
    fabric = star_with(increase=1, table=range(limit + 1))
    n = 3000
    src = np.repeat([1, 2], n)
    out = run(fabric, messages(src, 0, 4096, qp=src), PacketOptions(profile=IDEAL))
    for host in (1, 2):
        at = out.arrived_ps[src == host]
        gap = (at[-1] - at[n // 2]) / (n - 1 - n // 2)
        assert gap / (4122 * 80) == pytest.approx(max(2, 1 + limit / 8), rel=0.01)


@pytest.mark.parametrize(("increase", "notices"), [(1, 24), (3, 8), (8, 3)])
def test_each_notice_raises_ccti_by_its_increase(increase, notices):
    """From 0 to the limit 24 takes 24 / increase notices; afterwards the two flows need half of the link and nothing is marked."""
    fabric = star_with(threshold=1, increase=increase, table=[0] * 24 + [24])
    count, _, _ = two_to_one(fabric, 3000)
    few = count["rcv_becn"]
    slowed = few[few > 0]
    assert len(slowed) == 2 and (slowed >= notices).all()


@pytest.mark.parametrize("timer", [20, 100])
def test_the_timer_lowers_ccti_one_at_a_time(timer):
    """When the other flow has ended, the gaps between packets shrink by an eighth each CCTI_Timer x 1.024 us, to none."""
    limit = 24
    fabric = star_with(threshold=15, increase=limit, timer=timer, table=range(limit + 1))
    n, short = 12_000, 200
    src = np.concatenate([np.full(n, 1), np.full(short, 2)])
    out = run(fabric, messages(src, 0, 4096, qp=src), PacketOptions(profile=IDEAL))
    at = out.arrived_ps[:n]
    ccti = np.rint((np.diff(at) / (4122 * 80) - 1) * 8)
    last = at[:-1][ccti == limit][-1]
    when = {level: at[:-1][(ccti == level) & (at[:-1] > last)] for level in range(limit)}
    for level in range(2, limit):
        assert len(when[level]), f"CCTI {level} is passed"
        stays = when[level - 1][0] - when[level][0]
        assert stays == pytest.approx(timer * TIMER_UNIT_PS, abs=5 * 4122 * 80)
    assert (ccti[at[:-1] > last + (limit + 1) * timer * TIMER_UNIT_PS] == 0).all()
