# mypy: ignore-errors
"""Packets in memory: taken from a free list and given back."""

from softib.jit import inner, prefetch
from softib.sim.packet.tables import (
    DLID,
    DUE_AT,
    DUE_N,
    FLAGS,
    FREE_PACKET,
    HEAP_N,
    IN_NETWORK,
    L_ROWS,
    LATER_N,
    LEVEL,
    MARGIN,
    NEXT,
    OCTETS,
    PSN,
    QP,
    SPARE_CREDITS,
    SPARE_EVENTS,
    SPARE_PACKETS,
    TIMER_N,
    WHAT,
)  # fmt: skip


@inner
def blank_packet(s):
    """A packet; its columns are those of the one before."""
    k = s.reg[FREE_PACKET]
    following = s.packet[k, NEXT]
    prefetch(s.packet, following, 0)
    s.reg[FREE_PACKET] = following
    s.reg[SPARE_PACKETS] -= 1
    s.reg[IN_NETWORK] += 1
    s.packet[k, NEXT] = 0
    return k


@inner
def new_packet(s, stream, psn, octets, dlid, level, what, flags):
    """A packet with what all have: whose it is, and what its headers say."""
    k = blank_packet(s)
    s.packet[k, QP] = stream
    s.packet[k, PSN] = psn
    s.packet[k, OCTETS] = octets
    s.packet[k, DLID] = dlid
    s.packet[k, LEVEL] = level
    s.packet[k, WHAT] = what
    s.packet[k, FLAGS] = flags
    return k


@inner
def free_packet(s, k):
    """Packet ``k`` is no more."""
    s.packet[k, NEXT] = s.reg[FREE_PACKET]
    s.reg[FREE_PACKET] = k
    s.reg[SPARE_PACKETS] += 1
    s.reg[IN_NETWORK] -= 1


@inner
def short(s):
    """Is a pool nearly used up? What is far may come into the calendar all at once."""
    return (
        s.reg[SPARE_EVENTS] - s.reg[LATER_N] < MARGIN
        or s.reg[SPARE_PACKETS] < MARGIN
        or s.reg[SPARE_CREDITS] < MARGIN
        or s.reg[HEAP_N] + s.reg[DUE_N] - s.reg[DUE_AT] > s.heap.shape[0] - MARGIN
        or s.reg[LATER_N] > s.far.shape[0] - MARGIN
        or s.reg[TIMER_N] > s.timer.shape[0] - MARGIN
        or s.log[0, L_ROWS] > s.log.shape[0] - MARGIN
    )
