"""Allocation of packets from a free list, and their release."""

from softib.jit import inner, prefetch
from softib.sim.packet.constants import MARGIN


@inner
def blank_packet(state):
    """Allocate a row for a packet. Its columns still contain the values of the row's previous packet."""
    k = state.reg.free_packet
    following = state.packet[k].next
    prefetch(state.packet, following, 0)
    state.reg.free_packet = following
    state.reg.spare_packets -= 1
    state.reg.in_network += 1
    state.packet[k].next = 0
    return k


@inner
def new_packet(state, stream, psn, octets, dlid, level, kind, flags):
    """Allocate a packet with the common fields: its stream and headers."""
    k = blank_packet(state)
    state.packet[k].stream = stream
    state.packet[k].psn = psn
    state.packet[k].octets = octets
    state.packet[k].dlid = dlid
    state.packet[k].sl = level
    state.packet[k].kind = kind
    state.packet[k].marks = flags
    return k


@inner
def free_packet(state, k):
    """Free packet ``k``."""
    state.packet[k].next = state.reg.free_packet
    state.reg.free_packet = k
    state.reg.spare_packets += 1
    state.reg.in_network -= 1


@inner
def short(state):
    """Return whether a pool is nearly empty. The pool of events must also have rows for all distant events, which may
    enter the calendar at the same time."""
    return (
        state.reg.spare_events - state.reg.later_n < MARGIN
        or state.reg.spare_packets < MARGIN
        or state.reg.spare_credits < MARGIN
        or state.reg.heap_n + state.reg.due_n - state.reg.due_at > state.heap.shape[0] - MARGIN
        or state.reg.later_n > state.later.shape[0] - MARGIN
        or state.reg.timer_n > state.timer.shape[0] - MARGIN
        or state.reg.log_rows > state.log.shape[0] - MARGIN
    )
