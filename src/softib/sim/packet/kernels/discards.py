# mypy: ignore-errors
"""Packets that are lost, each with its counter: bit errors, no route, HOQLife, the switch's lifetime (IBA 16.1.3.5, chapter 18)."""

import math

import numpy as np

from softib.jit import inner
from softib.sim.packet.kernels.links import arm, dropped_from_buffer, grant
from softib.sim.packet.kernels.packet_log import log_lost
from softib.sim.packet.kernels.pools import free_packet
from softib.sim.packet.kernels.rng import draw
from softib.sim.packet.tables import (
    ENTERED,
    HEAD_SINCE,
    HOQ,
    HOQ_DISCARDED,
    HOQ_DISCARDS,
    IN,
    IS_STALLED,
    LIFE,
    LIFE_DISCARDS,
    MADS_FREE,
    MADS_LOST,
    MADS_SPARE,
    MR_NEXT,
    OCTETS,
    PSN,
    SMP,
    STALL,
    STALLED,
    STALLS,
    TAIL,
    VL,
    WAITS,
    WHAT,
)  # fmt: skip

LIFE_UNIT_PS, FOREVER = 4_096_000, 19
"""HOQLife and LifeTimeValue: 4.096 us times 2^n; above 19 no limit (IBA 14.2.5.4, 14.2.5.6)."""
STALLED_TIMES_HOQ = 8
"""A VL that is stalled discards what comes for eight times HOQLife (VLStallCount, IBA chapter 18)."""


@inner
def corrupted(n, s, port, octets, now):
    """Does a packet that comes in by ``port`` have a wrong bit? The port's law: 1 - exp(-(a + b L)) of L octets."""
    a, b = n.loss[port, 0], n.loss[port, 1]
    if a == 0.0 and b == 0.0:
        return False
    return draw(s, port, now) < -math.expm1(-(a + b * octets))


@inner
def discard(n, s, k, port, column, now):
    """Packet ``k`` is lost and ``port`` counts it in ``column``. Returns -1."""
    s.count[port, column] += 1
    return drop(n, s, k, port, column, now)


@inner
def drop(n, s, k, port, column, now):
    """Packet ``k``, whatever it carries, is lost at ``port``, where ``column`` counts it; its buffer is free when it has come in whole. Returns -1."""
    if n.watch_port.shape[0]:
        log_lost(n, s, port, k, column, now)
    came_in = s.packet[k, IN]
    free_at = dropped_from_buffer(n, s, came_in, s.when[k, TAIL], now)
    grant(n, s, came_in, s.packet[k, VL], s.packet[k, OCTETS], free_at)
    lose(s, k)
    return np.int64(-1)


@inner
def lose_mad(s, k):
    """Packet ``k``, which carries a MAD, is no more: its row is free."""
    row = np.int64(s.packet[k, PSN])
    s.mad_row[row, MR_NEXT] = s.mads[MADS_FREE]
    s.mads[MADS_FREE] = row
    s.mads[MADS_SPARE] += 1
    s.mads[MADS_LOST] += 1
    free_packet(s, k)


@inner
def lose(s, k):
    """Packet ``k`` is no more, whatever it carries."""
    if s.packet[k, WHAT] >= SMP:
        lose_mad(s, k)
    else:
        free_packet(s, k)


@inner
def overdue_since(n, s, port, row, k, now):
    """When packet ``k``, at the head of port VL ``row`` of a switch, was to be discarded; -1 if it is not. Counts it.

    A port whose link is busy looks when the link is free. What was overdue before that went when its time was over, and the
    packet behind it was at the head from then on.
    """
    if s.vl[row, WAITS] & IS_STALLED:
        if s.more[row, STALLED] > now:
            s.count[port, HOQ_DISCARDS] += 1
            return now
        s.vl[row, WAITS] &= ~IS_STALLED
    since = s.vl_time[row, HEAD_SINCE]
    hoq = np.int64(n.port[port, HOQ])
    if hoq <= FOREVER and now - since >= LIFE_UNIT_PS << hoq:
        head_of_queue_discard(n, s, port, row, since + (LIFE_UNIT_PS << hoq), LIFE_UNIT_PS << hoq)
        return since + (LIFE_UNIT_PS << hoq)
    life = np.int64(n.port[port, LIFE])
    if life <= FOREVER and now - s.when[k, ENTERED] >= LIFE_UNIT_PS << life:
        s.count[port, LIFE_DISCARDS] += 1
        return max(since, s.when[k, ENTERED] + (LIFE_UNIT_PS << life))
    return np.int64(-1)


@inner
def head_of_queue_discard(n, s, port, row, at, hoq_ps):
    """Count a discard of HOQLife; VLStallCount of them, with no packet sent between, stall the VL."""
    s.count[port, HOQ_DISCARDS] += 1
    s.vl[row, WAITS] |= HOQ_DISCARDED
    s.more[row, STALLS] += 1
    if n.rare[port, STALL] and s.more[row, STALLS] >= n.rare[port, STALL]:
        s.more[row, STALLS] = 0
        s.more[row, STALLED] = at + STALLED_TIMES_HOQ * hoq_ps
        s.vl[row, WAITS] |= IS_STALLED


@inner
def ends_discards(s, row):
    """Port VL ``row`` sends a packet: discards of HOQLife before it are no longer sequential."""
    if s.vl[row, WAITS] & HOQ_DISCARDED:
        s.vl[row, WAITS] &= ~HOQ_DISCARDED
        s.more[row, STALLS] = 0


@inner
def await_deadline(n, s, port, row, k):
    """Let ``port`` look again when the packet at the head of port VL ``row`` is overdue."""
    hoq, life = np.int64(n.port[port, HOQ]), np.int64(n.port[port, LIFE])
    if hoq <= FOREVER:
        arm(s, port, s.vl_time[row, HEAD_SINCE] + (LIFE_UNIT_PS << hoq))
    if life <= FOREVER:
        arm(s, port, s.when[k, ENTERED] + (LIFE_UNIT_PS << life))
