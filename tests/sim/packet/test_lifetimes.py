"""HOQLife, VLStallCount and the switch's lifetime to the picosecond, behind a link that a packet takes longer to leave by (IBA chapter 18)."""

from __future__ import annotations

import numpy as np
import pytest

from softib.fabric.builder import FabricBuilder
from softib.fabric.model import Fabric
from softib.iba.constants import NodeType
from softib.iba.smp import PortInfo, SwitchInfo
from softib.sim.messages import Transport, messages
from softib.sim.packet.engine import run
from softib.sim.packet.options import PacketOptions
from tests.sim.packet.fabrics import no_lifetimes, up
from tests.sim.packet.lab import IDEAL

UNIT_PS = 4_096_000
"""HOQLife 0 and LifeTimeValue 0."""
WIRE = 4096 + 34
"""Octets of a datagram of 4,096: LRH, BTH, DETH, ICRC, VCRC."""
SLOW_PS = WIRE * 8 * 500
"""It leaves by one lane of SDR."""
FOREVER = 20


def behind_a_slow_link(senders: int, hoq: int, life: int, stall: int) -> Fabric:
    """``senders`` hosts on one switch by 4x EDR, and the last host by 1x SDR."""
    b = FabricBuilder("slow")
    sw = b.nodes(1, NodeType.SWITCH, senders + 1, desc=["switch-0"], speed="EDR")
    host = b.nodes(senders + 1, NodeType.CA, 1, desc=[f"host-{i:04}" for i in range(senders + 1)], speed="EDR")
    b.links(sw[0], 1 + np.arange(senders), host[:-1], 1, length_m=2.0)
    b.links(sw[0], senders + 1, host[-1], 1, speed="SDR", lanes=1, length_m=2.0)
    fabric = no_lifetimes(up(b.build()))
    PortInfo.hoq_life.set(fabric.port_info, hoq)
    PortInfo.vl_stall_count.set(fabric.port_info, stall)
    SwitchInfo.life_time_value.set(fabric.switch_info, life)
    return fabric


def sent_at(starts_ps: list[int], **of_ports: int):
    """A datagram from each of as many hosts to the slow one; its arrival (-1: it was lost), and PortXmitDiscards of the slow port."""
    n = len(starts_ps)
    fabric = behind_a_slow_link(n, **of_ports)
    datagrams = messages(np.arange(n), n, 4096, qp=np.arange(n), transport=Transport.UD, start_ps=starts_ps)
    out = run(fabric, datagrams, PacketOptions(profile=IDEAL))
    slow = int(fabric.node_base[np.flatnonzero(fabric.is_switch)[0]]) + n + 1
    discards = out.counters["port_xmit_discards"]
    assert discards.sum() == discards[slow], "only the slow port discards"
    return out.arrived_ps, int(discards[slow])


def lost(arrived: np.ndarray) -> list[int]:
    return np.flatnonzero(arrived < 0).tolist()


def test_one_packet_after_another_is_overdue_while_the_link_is_busy():
    """While a packet leaves (16.5 us) four are at the head for 4.096 us each, and go; the next is sent."""
    went = SLOW_PS // UNIT_PS
    assert went == 4
    n = 2 * went + 3
    arrived, discards = sent_at([1000 * i for i in range(n)], hoq=0, life=FOREVER, stall=0)
    # The first is sent; four are lost; the sixth is sent, and is at the head only since the fourth went: four more are lost.
    assert lost(arrived) == [1, 2, 3, 4, 6, 7, 8, 9]
    assert discards == 2 * went


def test_a_packet_that_waits_less_is_sent():
    arrived, discards = sent_at([0, SLOW_PS - UNIT_PS + 1_000_000, 3 * SLOW_PS], hoq=0, life=FOREVER, stall=0)
    assert lost(arrived) == [] and discards == 0


@pytest.mark.parametrize(("late_ps", "is_lost"), [(-10_000, True), (10_000, False)])
def test_hoq_life_is_exact(late_ps, is_lost):
    """The second comes so that the link is free when its 4.096 us are just over, or not yet."""
    (first, second), discards = sent_at([0, SLOW_PS - UNIT_PS + late_ps], hoq=0, life=FOREVER, stall=0)
    assert first > 0 and (second < 0) == is_lost and discards == is_lost


@pytest.mark.parametrize(("late_ps", "is_lost"), [(-10_000, True), (10_000, False)])
def test_the_lifetime_counts_from_when_a_packet_came_in(late_ps, is_lost):
    """LifeTimeValue 2: 16.384 us in the switch, whoever is at the head."""
    (first, second), discards = sent_at([0, SLOW_PS - 4 * UNIT_PS + late_ps], hoq=FOREVER, life=2, stall=0)
    assert first > 0 and (second < 0) == is_lost and discards == is_lost


def test_vl_stall_count_stalls_the_vl_for_eight_lives():
    """Two discards in sequence stall the VL: what comes in the next 8 x 4.096 us is lost too, and what comes then is sent."""
    stalled_from = 2 * UNIT_PS
    over = stalled_from + 8 * UNIT_PS
    starts = [0, 100, 200, 300, stalled_from + SLOW_PS, over - 300_000, over + 100_000]
    arrived, discards = sent_at(starts, hoq=0, life=FOREVER, stall=2)
    assert lost(arrived) == [1, 2, 3, 4, 5]
    assert discards == 5
    arrived, discards = sent_at(starts, hoq=0, life=FOREVER, stall=0)
    # Without VLStallCount the VL goes on; the last comes while the one before it leaves, and is overdue by itself.
    assert lost(arrived) == [1, 2, 3, 6]


def test_a_packet_that_is_sent_ends_the_sequence():
    """One discard, one packet sent, one discard: two in all, but not in sequence, so VLStallCount 2 does not stall."""
    first = [0, 100]
    then = [2 * SLOW_PS, 2 * SLOW_PS + 100]
    arrived, _ = sent_at([*first, *then, 4 * SLOW_PS], hoq=0, life=FOREVER, stall=2)
    assert lost(arrived) == [1, 3]
