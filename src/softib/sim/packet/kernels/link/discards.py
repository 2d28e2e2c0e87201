# mypy: ignore-errors
"""Packets that are lost, each with its counter: bit errors, no route, HOQLife, the switch's lifetime (IBA 16.1.3.5, chapter 18)."""

import math

import numpy as np

from softib.jit import inner
from softib.sim.packet.constants import BAD, DISCARDED, INACTIVE, RCV_ERRORS, RELAY_ERRORS, SMP, STALLED
from softib.sim.packet.kernels.engine.packet_log import log_lost
from softib.sim.packet.kernels.engine.pools import free_packet
from softib.sim.packet.kernels.engine.rng import draw
from softib.sim.packet.kernels.link.credits import arm, dropped_from_buffer, grant

LIFE_UNIT_PS, FOREVER = 4_096_000, 19
"""HOQLife and LifeTimeValue: 4.096 us times 2^n; above 19 no limit (IBA 14.2.5.4, 14.2.5.6)."""
STALLED_TIMES_HOQ = 8
"""A VL that is stalled discards what comes for eight times HOQLife (VLStallCount, IBA chapter 18)."""


@inner
def corrupted(n, s, port, octets, now):
    """Does a packet that comes in by ``port`` have a wrong bit? The port's law: 1 - exp(-(a + b L)) of L octets."""
    a, b = n.loss[port].packet, n.loss[port].byte
    if a == 0.0 and b == 0.0:
        return False
    return draw(s, port, now) < -math.expm1(-(a + b * octets))


@inner
def count_loss(s, port, reason):
    """``port`` counts a packet that is lost for ``reason``."""
    if reason == RCV_ERRORS:
        s.port[port].rcv_errors += 1
    elif reason == RELAY_ERRORS:
        s.port[port].relay_errors += 1
    elif reason == INACTIVE:
        s.port[port].inactive += 1
    else:
        s.port[port].too_long += 1


@inner
def discard(n, s, k, port, reason, now):
    """Packet ``k`` is lost for ``reason``, and ``port`` counts it. Returns -1."""
    count_loss(s, port, reason)
    return drop(n, s, k, port, reason, now)


@inner
def drop(n, s, k, port, reason, now):
    """Packet ``k``, whatever it carries, is lost at ``port`` for ``reason``; its buffer is free when it has come in whole. Returns -1."""
    if n.watch_port.shape[0]:
        log_lost(n, s, port, k, reason, now)
    came_in = s.packet[k].came_in
    free_at = dropped_from_buffer(n, s, came_in, s.packet[k].tail, now)
    grant(n, s, came_in, s.packet[k].vl, s.packet[k].octets, free_at)
    lose(s, k)
    return np.int64(-1)


@inner
def lose_mad(s, k):
    """Packet ``k``, which carries a MAD, is no more: its row is free."""
    row = np.int64(s.packet[k].psn)
    s.mad_row[row].next = s.mads.free
    s.mads.free = row
    s.mads.spare += 1
    s.mads.lost += 1
    free_packet(s, k)


@inner
def lose(s, k):
    """Packet ``k`` is no more, whatever it carries."""
    if s.packet[k].kind >= SMP:
        lose_mad(s, k)
    else:
        free_packet(s, k)


@inner
def overdue_since(n, s, port, row, k, now):
    """When packet ``k``, at the head of port VL ``row`` of a switch, was to be discarded; -1 if it is not. Counts it.

    A port whose link is busy looks when the link is free. What was overdue before that went when its time was over, and the
    packet behind it was at the head from then on.
    """
    if s.vl[row].waits & STALLED:
        if s.vl_more[row].stalled > now:
            s.port[port].hoq_discards += 1
            return now
        s.vl[row].waits &= ~STALLED
    since = s.vl[row].head_since
    hoq = np.int64(n.port[port].hoq)
    if hoq <= FOREVER and now - since >= LIFE_UNIT_PS << hoq:
        head_of_queue_discard(n, s, port, row, since + (LIFE_UNIT_PS << hoq), LIFE_UNIT_PS << hoq)
        return since + (LIFE_UNIT_PS << hoq)
    life = np.int64(n.port[port].life)
    if life <= FOREVER and now - s.packet[k].entered >= LIFE_UNIT_PS << life:
        s.port[port].life_discards += 1
        return max(since, s.packet[k].entered + (LIFE_UNIT_PS << life))
    return np.int64(-1)


@inner
def head_of_queue_discard(n, s, port, row, at, hoq_ps):
    """Count a discard of HOQLife; VLStallCount of them, with no packet sent between, stall the VL."""
    s.port[port].hoq_discards += 1
    s.vl[row].waits |= DISCARDED
    s.vl_more[row].stalls += 1
    if n.rare[port].stall_count and s.vl_more[row].stalls >= n.rare[port].stall_count:
        s.vl_more[row].stalls = 0
        s.vl_more[row].stalled = at + STALLED_TIMES_HOQ * hoq_ps
        s.vl[row].waits |= STALLED


@inner
def ends_discards(s, row):
    """Port VL ``row`` sends a packet: discards of HOQLife before it are no longer sequential."""
    if s.vl[row].waits & DISCARDED:
        s.vl[row].waits &= ~DISCARDED
        s.vl_more[row].stalls = 0


@inner
def await_deadline(n, s, port, row, k):
    """Let ``port`` look again when the packet at the head of port VL ``row`` is overdue."""
    hoq, life = np.int64(n.port[port].hoq), np.int64(n.port[port].life)
    if hoq <= FOREVER:
        arm(s, port, s.vl[row].head_since + (LIFE_UNIT_PS << hoq))
    if life <= FOREVER:
        arm(s, port, s.packet[k].entered + (LIFE_UNIT_PS << life))


@inner
def check(n, s, port, k, now):
    """Packet ``k`` came in by ``port``, its cable's end: count it if it is marked as bad, or damaged here."""
    if s.packet[k].marks & BAD:
        s.rare_count[port].remote_errors += 1
    elif corrupted(n, s, port, s.packet[k].octets, now):
        s.packet[k].marks |= BAD
        s.port[port].rcv_errors += 1


@inner
def known_bad(s, k, now):
    """Has packet ``k``, which waits in a switch, come in whole and been found bad?"""
    return s.packet[k].marks & BAD != 0 and s.packet[k].tail <= now


@inner
def refuse(n, s, port, k, now):
    """Packet ``k`` is whole at end port ``port`` and bad: its buffer is free. Returns -1."""
    if s.packet[k].came_in == port:  # port 0 of a switch: the port that it came in by has counted it
        s.port[port].rcv_octets += s.packet[k].octets
        s.port[port].rcv_packets += 1
    return drop(n, s, k, port, RCV_ERRORS, now)
