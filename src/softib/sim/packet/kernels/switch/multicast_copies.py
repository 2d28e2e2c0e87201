# mypy: ignore-errors
"""Copies of multicast packets in a switch share one place in the receive buffer: its credits go back when the last copy has left."""

from softib.jit import inner
from softib.sim.packet.constants import COPIES, COPY
from softib.sim.packet.kernels.engine.events import push, word
from softib.sim.packet.kernels.engine.pools import free_packet
from softib.sim.packet.kernels.link.credits import dropped_from_buffer, grant


@inner
def begin_copies(n, s, port, k, now):
    """Packet ``k``, for a multicast group, came in by ``port``: it holds the buffer, and its copies are made by an event at this time."""
    s.packet[k].out = 1  # copies that have not left, and the packet itself until all are made
    s.packet[k].next = 0  # the next portnum to look at
    s.packet[k].behind = 0
    s.packet[k].entered = dropped_from_buffer(n, s, port, s.packet[k].tail, now)  # when the last of them has left
    push(s, now, word(port, COPIES, k))


@inner
def one_less(n, s, k, t):
    """At ``t`` one copy of packet ``k`` has left the switch."""
    s.packet[k].entered = max(s.packet[k].entered, t)
    s.packet[k].out -= 1
    if s.packet[k].out == 0:
        grant(n, s, s.packet[k].came_in, s.packet[k].vl, s.packet[k].octets, s.packet[k].entered)
        free_packet(s, k)


@inner
def copy_leaves(n, s, k, t):
    """At ``t`` copy ``k`` has left the buffer; on the cable it is a packet like others."""
    s.packet[k].marks &= ~COPY
    one_less(n, s, s.packet[k].behind, t)
