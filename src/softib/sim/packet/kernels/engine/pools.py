# mypy: ignore-errors
"""Packets in memory: taken from a free list and given back."""

from softib.jit import inner, prefetch
from softib.sim.packet.constants import MARGIN


@inner
def blank_packet(s):
    """A packet; its columns are those of the one before."""
    k = s.reg.free_packet
    following = s.packet[k].next
    prefetch(s.packet, following, 0)
    s.reg.free_packet = following
    s.reg.spare_packets -= 1
    s.reg.in_network += 1
    s.packet[k].next = 0
    return k


@inner
def new_packet(s, stream, psn, octets, dlid, level, what, flags):
    """A packet with what all have: whose it is, and what its headers say."""
    k = blank_packet(s)
    s.packet[k].stream = stream
    s.packet[k].psn = psn
    s.packet[k].octets = octets
    s.packet[k].dlid = dlid
    s.packet[k].sl = level
    s.packet[k].kind = what
    s.packet[k].marks = flags
    return k


@inner
def free_packet(s, k):
    """Packet ``k`` is no more."""
    s.packet[k].next = s.reg.free_packet
    s.reg.free_packet = k
    s.reg.spare_packets += 1
    s.reg.in_network -= 1


@inner
def short(s):
    """Is a pool nearly used up? What is far may come into the calendar all at once."""
    return (
        s.reg.spare_events - s.reg.far_n < MARGIN
        or s.reg.spare_packets < MARGIN
        or s.reg.spare_credits < MARGIN
        or s.reg.heap_n + s.reg.due_n - s.reg.due_at > s.heap.shape[0] - MARGIN
        or s.reg.far_n > s.far.shape[0] - MARGIN
        or s.reg.timer_n > s.timer.shape[0] - MARGIN
        or s.reg.log_rows > s.log.shape[0] - MARGIN
    )
