"""Copies of multicast packets in a switch share one place in the receive buffer: its credits go
back when the last copy has left."""

from softib.jit import inner
from softib.sim.packet.constants import COPIES, COPY
from softib.sim.packet.kernels.engine.events import push, word
from softib.sim.packet.kernels.engine.pools import free_packet
from softib.sim.packet.kernels.link.credits import dropped_from_buffer, grant


@inner
def begin_copies(net, state, port, k, now):
    """Packet ``k``, for a multicast group, came in by ``port``: it holds the buffer, and its copies
    are made by an event at this time."""
    state.packet[k].out = 1  # copies that have not left, and the packet itself until all are made
    state.packet[k].next = 0  # the next portnum to look at
    state.packet[k].behind = 0
    state.packet[k].entered = dropped_from_buffer(
        net, state, port, state.packet[k].tail, now
    )  # when the last of them has left
    push(state, now, word(port, COPIES, k))


@inner
def one_less(net, state, k, t):
    """At ``t`` one copy of packet ``k`` has left the switch."""
    state.packet[k].entered = max(state.packet[k].entered, t)
    state.packet[k].out -= 1
    if state.packet[k].out == 0:
        grant(net, state, state.packet[k].came_in, state.packet[k].vl, state.packet[k].octets, state.packet[k].entered)
        free_packet(state, k)


@inner
def copy_leaves(net, state, k, t):
    """At ``t`` copy ``k`` has left the buffer; on the cable it is a packet like others."""
    state.packet[k].marks &= ~COPY
    one_less(net, state, state.packet[k].behind, t)
