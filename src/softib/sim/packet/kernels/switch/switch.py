"""Switches: forwarding by LFT, SL to VL, virtual output queues, cut-through (IBA chapter 18).

A packet waits in the receive buffer of its ingress port, in a separate queue for each output port
and VL. An output port serves, in turn, the inputs that have a packet for a VL. In FIFO mode, each
input has one queue per VL, and only the first packet of the queue is offered. Copies of a multicast
packet share one place in the receive buffer: its credits are returned when the last copy has left.
"""

import numpy as np

from softib.jit import inner
from softib.sim.packet.constants import (
    ARRIVE,
    COPIES,
    COPY,
    END_PORT,
    ENTER,
    INACTIVE,
    MULTICAST_LID,
    NEXT_IN,
    RECEIVE,
    RELAY_ERRORS,
    SMP,
    TOO_LONG,
    WRAP,
)
from softib.sim.packet.kernels.congestion.fecn_becn import mark
from softib.sim.packet.kernels.engine.events import push, push_timer, word
from softib.sim.packet.kernels.engine.pools import free_packet
from softib.sim.packet.kernels.engine.rng import draw_for
from softib.sim.packet.kernels.link.credits import (
    blocks_of,
    count_received,
    dropped_from_buffer,
    grant,
    has_credit,
    put_on_wire,
    take_credits,
    wire_ps,
)
from softib.sim.packet.kernels.link.discards import check, discard, lose
from softib.sim.packet.kernels.link.lifetime_limits import ends_discards
from softib.sim.packet.kernels.switch.adaptive_routing import choose

NO_ROUTE = 255


@inner
def by_table(net, came_in, dlid):
    """Return the port for ``dlid`` in the forwarding table of ``came_in``'s switch (port 0: the
    switch itself), -1 for none."""
    if dlid >= net.lft.shape[1]:
        return np.int64(-1)
    num = np.int64(net.lft[net.port[came_in].switch, dlid])
    if num == NO_ROUTE or num >= net.port[came_in].ports:
        return np.int64(-1)
    return np.int64(net.port[came_in].port_0) + num


@inner
def begin_copies(net, state, port, k, now):
    """Handle packet ``k``, for a multicast group, which has entered through ``port``: it holds the buffer, and an event
    at this time makes its copies."""
    state.packet[k].out = 1  # number of copies that have not left, plus 1 until all copies are made
    state.packet[k].next = 0  # the next port number to check
    state.packet[k].behind = 0
    state.packet[k].entered = dropped_from_buffer(
        net, state, port, state.packet[k].tail, now
    )  # time when the last copy has left
    push(state, now, word(port, COPIES, k))


@inner
def one_less(net, state, k, t):
    """Count one copy of packet ``k`` that has left the switch at ``t``."""
    state.packet[k].entered = max(state.packet[k].entered, t)
    state.packet[k].out -= 1
    if state.packet[k].out == 0:
        grant(net, state, state.packet[k].came_in, state.packet[k].vl, state.packet[k].octets, state.packet[k].entered)
        free_packet(state, k)


@inner
def copy_leaves(net, state, k, t):
    """Record that copy ``k`` has left the buffer at ``t``; on the cable it is an ordinary packet."""
    state.packet[k].marks &= ~COPY
    one_less(net, state, state.packet[k].behind, t)


NO_VL = 15


@inner
def vl_of(net, came_in, out, sl):
    """Return the VL of a packet of ``sl`` from ``came_in`` to ``out``, two ports of one switch
    (SLtoVLMappingTable, IBA 7.6.6)."""
    if net.opt.uniform_sl2vl:
        return net.uniform[sl]
    pair = np.int64(net.sl2vl[net.sl2vl_base[out] + net.port[came_in].num, sl >> 1])
    return pair >> 4 if sl & 1 == 0 else pair & 15


@inner
def egress(net, state, k, came_in, now):
    """Return the output port of packet ``k``; -1 if the tables have none for it."""
    out, base = by_table(net, came_in, state.packet[k].dlid), np.int64(net.port[came_in].port_0)
    if net.opt.ar and out > base:
        vl = vl_of(net, came_in, out, state.packet[k].sl)
        if vl >= net.opt.vls:  # VL 15, or a VL that a manager wrote during the run: discard
            return out
        return base + choose(net, state, k, net.port[came_in].switch, base, out - base, vl, now)
    return out


@inner
def arrive(net, state, port, k, now):
    """Handle packet ``k``, which entered through ``port`` and whose header has passed the switch.
    Return the output port for which the packet waits, -1 if no port must be checked."""
    octets = state.packet[k].octets
    if net.opt.lossy:
        check(net, state, port, k, now)
    if net.opt.by_sl:
        count_received(state, port, k)
    state.port[port].rcv_octets += octets
    state.port[port].rcv_packets += 1
    out = egress(net, state, k, port, now)
    if out == net.port[port].port_0:  # the packet is for the switch itself
        push(state, max(state.packet[k].tail, now), word(port, ENTER, k))
        return np.int64(-1)
    if out < 0 and net.opt.multicast and state.packet[k].dlid >= MULTICAST_LID:
        state.rare_count[port].multicast_rcv += 1
        begin_copies(net, state, port, k, now)
        return np.int64(-1)
    if out < 0 or out == port:
        return discard(net, state, k, port, RELAY_ERRORS, now)
    if net.port[out].peer < 0:
        return discard(net, state, k, out, INACTIVE, now)
    if octets > net.port[out].mtu:
        return discard(net, state, k, out, TOO_LONG, now)
    vl = vl_of(net, port, out, state.packet[k].sl)
    if vl >= net.port[out].vls or vl == NO_VL:
        return discard(net, state, k, port, RELAY_ERRORS, now)
    state.packet[k].entered = now
    if net.opt.fifo:
        return behind_others(net, state, port, out, vl, k, now)
    if goes_straight(net, state, out, k, now):
        state.vl[out].head_since = now
        pass_on(net, state, out, vl, out, k, now)
        return np.int64(-1)
    return offer(net, state, port, out, vl, k, now)


@inner
def goes_straight(net, state, out, k, now):
    """Return whether packet ``k`` can leave through ``out`` at once: no packet waits there, the link is free, and there
    are credits. Such a packet bypasses its virtual output queue, so that the queue's row need not be read from memory.
    With several VLs, or if other conditions matter, packets use the queue."""
    if state.port[out].ready or state.port[out].free_at > now or net.opt.vls > 1:
        return False
    if net.opt.cc or net.opt.lossy or net.opt.by_sl or state.vl[out].waits:
        return False
    take_credits(state, out, now)
    return has_credit(state, out, state.packet[k].octets)


@inner
def behind_others(net, state, port, out, vl, k, now):
    """FIFO mode: append packet ``k``; it is offered when the earlier packets of its input have left."""
    row = port * net.opt.vls + state.packet[k].vl
    state.packet[k].out = out * 16 + vl
    state.packet[k].behind = 0
    if state.vl_more[row].first:
        state.packet[state.vl_more[row].last_in].behind = k
        state.vl_more[row].last_in = k
        return np.int64(-1)
    state.vl_more[row].first = k
    state.vl_more[row].last_in = k
    if state.vl_more[row].leaving:
        return np.int64(-1)
    return offer(net, state, port, out, vl, k, now)


@inner
def next_in(net, state, port, vl, now):
    """FIFO mode: offer the next packet of an input whose first one has left. Returns the output
    port of that packet, -1 for none."""
    row = port * net.opt.vls + vl
    state.vl_more[row].leaving = 0
    k = state.vl_more[row].first
    if k == 0:
        return np.int64(-1)
    return offer(net, state, port, state.packet[k].out >> 4, state.packet[k].out & 15, k, now)


@inner
def offer(net, state, port, out, vl, k, now):
    """Put packet ``k`` into the queue of input ``port`` for ``vl`` of ``out``; returns ``out``."""
    vls = net.opt.vls
    row = out * vls + vl
    voq = net.port[out].voq + net.port[port].num * vls + vl
    octets = state.packet[k].octets
    state.vl[row].queued += blocks_of(octets)
    if net.opt.cc:
        mark(net, state, k, out, row)
    if state.voq[voq].head:
        state.packet[state.voq[voq].tail].next = k
        state.voq[voq].tail = k
        return out
    state.voq[voq].head = k
    state.voq[voq].tail = k
    last = state.vl[row].ring
    if last == 0:
        state.voq[voq].next = voq + 1
        state.port[out].ready |= np.int64(1) << vl
        state.vl[row].head_since = now
    else:
        state.voq[voq].next = state.voq[last - 1].next
        state.voq[last - 1].next = voq + 1
    state.vl[row].ring = voq + 1
    return out


@inner
def draw_first(state, port, row, now):
    """RANDOM mode: each input with a packet for port VL ``row`` draws a number, and the input with the largest number
    is next. The numbers depend only on port and time. So the choice depends neither on the order of the ring nor on the
    number of checks at this time."""
    last = before = state.vl[row].ring
    if last == 0:
        return
    drawn, most = last, -1.0
    while True:
        at = state.voq[before - 1].next
        number = draw_for(state, port, at, now)
        if number > most:
            drawn, most = before, number
        before = at
        if before == last:
            break
    state.vl[row].ring = drawn


@inner
def first_voq(state, row):
    """Return the queue whose turn it is at port VL ``row``."""
    return np.int64(state.voq[state.vl[row].ring - 1].next) - 1


@inner
def take_first(net, state, out, vl, row, voq, now):
    """Remove the first packet of ``voq``, whose turn it is; the turn moves to the next queue."""
    k = np.int64(state.voq[voq].head)
    state.vl[row].queued -= blocks_of(state.packet[k].octets)
    following = state.packet[k].next
    state.voq[voq].head = following
    if following:
        state.vl[row].ring = voq + 1
    else:
        last = state.vl[row].ring
        if last == voq + 1:
            state.vl[row].ring = 0
            state.port[out].ready &= ~(np.int64(1) << vl)
        else:
            state.voq[last - 1].next = state.voq[voq].next
    state.vl[row].head_since = now
    return k


@inner
def leaves_input(net, state, k, t):
    """Record that packet ``k`` has left the buffer of its ingress port at ``t``."""
    if net.opt.multicast and state.packet[k].marks & COPY:
        copy_leaves(net, state, k, t)
        return
    port, vl = state.packet[k].came_in, state.packet[k].vl
    grant(net, state, port, vl, state.packet[k].octets, t)
    if net.opt.fifo:
        row = port * net.opt.vls + vl
        state.vl_more[row].first = state.packet[k].behind
        state.vl_more[row].leaving = 1
        push(state, t, word(port, NEXT_IN, vl))


@inner
def forward(net, state, out, vl, row, voq, now):
    """Send the first packet of ``voq``. It may begin to leave before it has fully arrived, but not
    faster than it arrives."""
    k = take_first(net, state, out, vl, row, voq, now)
    ends_discards(state, row)
    return pass_on(net, state, out, vl, row, k, now)


@inner
def pass_on(net, state, out, vl, row, k, now):
    """Send packet ``k`` from its input through ``out``; return its bytes."""
    octets, came_in = state.packet[k].octets, state.packet[k].tail
    start = max(now, came_in - wire_ps(net, out, octets))
    leaves_input(net, state, k, put_on_wire(net, state, out, row, k, start))
    state.packet[k].next = 0
    cross(net, state, out, vl, k, start)
    return octets


@inner
def into_nothing(net, state, out, vl, k):
    """Discard a packet at an end port whose link is down (IBA chapter 7, link states): it is not
    sent and needs no credits."""
    octets = state.packet[k].octets
    row = out * net.opt.vls + vl
    state.vl[row].fctbs = (state.vl[row].fctbs - blocks_of(octets)) & WRAP
    state.port[out].xmit_octets -= octets
    state.port[out].xmit_packets -= 1
    state.port[out].inactive += 1
    lose(state, k)


@inner
def cross(net, state, out, vl, k, start):
    """Schedule the arrival of packet ``k``, which is on the cable of ``out``: at a switch, that of its header; at an
    end port, that of its last byte."""
    peer = net.port[out].peer
    if peer < 0:
        into_nothing(net, state, out, vl, k)
        return
    state.packet[k].came_in = peer
    state.packet[k].vl = vl
    if peer == out:  # port 0 of a switch sends into it
        push(state, start, word(peer, ARRIVE, k))
    elif net.port[out].next_kind == END_PORT:
        if state.packet[k].kind >= SMP:
            push_timer(state, state.packet[k].tail, word(peer, RECEIVE, k))
        else:
            push(state, state.packet[k].tail, word(peer, RECEIVE, k))
    else:
        state.packet[k].tail += net.port[out].next_latency_ps
        t = start + net.port[out].delay_ps + net.port[out].next_latency_ps
        push(state, t, word(peer, ARRIVE, k))
