# mypy: ignore-errors
"""Switches: forwarding by LFT, SL to VL, virtual output queues, cut-through (IBA chapter 18).

A packet waits in the receive buffer of the port that it came in by, in a queue of its own for each output port and VL. An
output port takes the inputs that have something for a VL in turn. In FIFO mode each input has one queue a VL, and only its first
packet is offered.
"""

import numpy as np

from softib.jit import inner
from softib.sim.packet.constants import (
    ARRIVE,
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
from softib.sim.packet.kernels.congestion.congestion_control import mark
from softib.sim.packet.kernels.engine.events import push, push_timer, word
from softib.sim.packet.kernels.engine.rng import draw_for
from softib.sim.packet.kernels.link.credits import blocks_of, grant, has_credit, put_on_wire, take_credits, wire_ps
from softib.sim.packet.kernels.link.discards import check, discard, ends_discards, lose
from softib.sim.packet.kernels.link.sl_counters import count_received
from softib.sim.packet.kernels.switch.adaptive_routing import choose
from softib.sim.packet.kernels.switch.forwarding import by_table
from softib.sim.packet.kernels.switch.multicast_copies import begin_copies, copy_leaves

NO_VL = 15


@inner
def vl_of(n, came_in, out, sl):
    """VL of a packet of ``sl`` from ``came_in`` to ``out``, two ports of one switch (SLtoVLMappingTable, IBA 7.6.6)."""
    if n.opt.uniform_sl2vl:
        return n.uniform[sl]
    pair = np.int64(n.sl2vl[n.sl2vl_base[out] + n.port[came_in].num, sl >> 1])
    return pair >> 4 if sl & 1 == 0 else pair & 15


@inner
def egress(n, s, k, came_in, now):
    """The output port of packet ``k``; -1: the tables have none for it."""
    out, base = by_table(n, came_in, s.packet[k].dlid), np.int64(n.port[came_in].port_0)
    if n.opt.ar and out > base:
        vl = vl_of(n, came_in, out, s.packet[k].sl)
        if vl >= n.opt.vls:  # VL 15, or one that a manager wrote while packets moved: it is discarded
            return out
        return base + choose(n, s, k, n.port[came_in].switch, base, out - base, vl, now)
    return out


@inner
def arrive(n, s, port, k, now):
    """The header of packet ``k``, which came in by ``port``, is through the switch. Returns the output port that it waits for, -1
    where there is none to look at."""
    octets = s.packet[k].octets
    if n.opt.lossy:
        check(n, s, port, k, now)
    if n.opt.by_sl:
        count_received(s, port, k)
    s.port[port].rcv_octets += octets
    s.port[port].rcv_packets += 1
    out = egress(n, s, k, port, now)
    if out == n.port[port].port_0:  # for the switch itself
        push(s, max(s.packet[k].tail, now), word(port, ENTER, k))
        return np.int64(-1)
    if out < 0 and n.opt.multicast and s.packet[k].dlid >= MULTICAST_LID:
        s.rare_count[port].multicast_rcv += 1
        begin_copies(n, s, port, k, now)
        return np.int64(-1)
    if out < 0 or out == port:
        return discard(n, s, k, port, RELAY_ERRORS, now)
    if n.port[out].peer < 0:
        return discard(n, s, k, out, INACTIVE, now)
    if octets > n.port[out].mtu:
        return discard(n, s, k, out, TOO_LONG, now)
    vl = vl_of(n, port, out, s.packet[k].sl)
    if vl >= n.port[out].vls or vl == NO_VL:
        return discard(n, s, k, port, RELAY_ERRORS, now)
    s.packet[k].entered = now
    if n.opt.fifo:
        return behind_others(n, s, port, out, vl, k, now)
    if goes_straight(n, s, out, k, now):
        s.vl[out].head_since = now
        pass_on(n, s, out, vl, out, k, now)
        return np.int64(-1)
    return offer(n, s, port, out, vl, k, now)


@inner
def goes_straight(n, s, out, k, now):
    """Can packet ``k`` leave by ``out`` at once? Nothing waits there, the link is free, and credits are there. So its queue, which nothing else of
    this packet touches, need not be looked at. With several VLs, or where more than that decides, packets go the long way."""
    if s.port[out].ready or s.port[out].free_at > now or n.opt.vls > 1:
        return False
    if n.opt.cc or n.opt.lossy or n.opt.by_sl or s.vl[out].waits:
        return False
    take_credits(s, out, now)
    return has_credit(s, out, s.packet[k].octets)


@inner
def behind_others(n, s, port, out, vl, k, now):
    """FIFO mode: packet ``k`` is offered when those before it in the input have left."""
    row = port * n.opt.vls + s.packet[k].vl
    s.packet[k].out = out * 16 + vl
    s.packet[k].behind = 0
    if s.vl_more[row].first:
        s.packet[s.vl_more[row].last_in].behind = k
        s.vl_more[row].last_in = k
        return np.int64(-1)
    s.vl_more[row].first = k
    s.vl_more[row].last_in = k
    if s.vl_more[row].leaving:
        return np.int64(-1)
    return offer(n, s, port, out, vl, k, now)


@inner
def next_in(n, s, port, vl, now):
    """FIFO mode: the first packet of the input has left; offer the next. Returns its output port, -1 without one."""
    row = port * n.opt.vls + vl
    s.vl_more[row].leaving = 0
    k = s.vl_more[row].first
    if k == 0:
        return np.int64(-1)
    return offer(n, s, port, s.packet[k].out >> 4, s.packet[k].out & 15, k, now)


@inner
def offer(n, s, port, out, vl, k, now):
    """Put packet ``k`` into the queue of input ``port`` for ``vl`` of ``out``; returns ``out``."""
    vls = n.opt.vls
    row = out * vls + vl
    voq = n.port[out].voq + n.port[port].num * vls + vl
    octets = s.packet[k].octets
    s.vl[row].queued += blocks_of(octets)
    if n.opt.cc:
        mark(n, s, k, out, row)
    if s.voq[voq].head:
        s.packet[s.voq[voq].tail].next = k
        s.voq[voq].tail = k
        return out
    s.voq[voq].head = k
    s.voq[voq].tail = k
    last = s.vl[row].ring
    if last == 0:
        s.voq[voq].next = voq + 1
        s.port[out].ready |= np.int64(1) << vl
        s.vl[row].head_since = now
    else:
        s.voq[voq].next = s.voq[last - 1].next
        s.voq[last - 1].next = voq + 1
    s.vl[row].ring = voq + 1
    return out


@inner
def draw_first(s, port, row, now):
    """RANDOM mode: of the inputs that have a packet for port VL ``row`` the one that draws the largest number is next. Whoever waits draws anew at each
    time, so neither the order of the ring nor another look at the same time changes who it is."""
    last = before = s.vl[row].ring
    if last == 0:
        return
    drawn, most = last, -1.0
    while True:
        at = s.voq[before - 1].next
        number = draw_for(s, port, at, now)
        if number > most:
            drawn, most = before, number
        before = at
        if before == last:
            break
    s.vl[row].ring = drawn


@inner
def first_voq(s, row):
    """The queue whose turn it is at port VL ``row``."""
    return np.int64(s.voq[s.vl[row].ring - 1].next) - 1


@inner
def take_first(n, s, out, vl, row, voq, now):
    """Take the first packet of ``voq``, whose turn it is, out of its queue; the turn passes on."""
    k = np.int64(s.voq[voq].head)
    s.vl[row].queued -= blocks_of(s.packet[k].octets)
    following = s.packet[k].next
    s.voq[voq].head = following
    if following:
        s.vl[row].ring = voq + 1
    else:
        last = s.vl[row].ring
        if last == voq + 1:
            s.vl[row].ring = 0
            s.port[out].ready &= ~(np.int64(1) << vl)
        else:
            s.voq[last - 1].next = s.voq[voq].next
    s.vl[row].head_since = now
    return k


@inner
def leaves_input(n, s, k, t):
    """At ``t`` packet ``k`` has left the buffer of the port that it came in by."""
    if n.opt.multicast and s.packet[k].marks & COPY:
        copy_leaves(n, s, k, t)
        return
    port, vl = s.packet[k].came_in, s.packet[k].vl
    grant(n, s, port, vl, s.packet[k].octets, t)
    if n.opt.fifo:
        row = port * n.opt.vls + vl
        s.vl_more[row].first = s.packet[k].behind
        s.vl_more[row].leaving = 1
        push(s, t, word(port, NEXT_IN, vl))


@inner
def forward(n, s, out, vl, row, voq, now):
    """Send the first packet of ``voq``. It may begin to leave before it has come in whole, but not faster than it comes in."""
    k = take_first(n, s, out, vl, row, voq, now)
    ends_discards(s, row)
    return pass_on(n, s, out, vl, row, k, now)


@inner
def pass_on(n, s, out, vl, row, k, now):
    """Packet ``k`` leaves its input for ``out``; returns its octets."""
    octets, came_in = s.packet[k].octets, s.packet[k].tail
    start = max(now, came_in - wire_ps(n, out, octets))
    leaves_input(n, s, k, put_on_wire(n, s, out, row, k, start))
    s.packet[k].next = 0
    cross(n, s, out, vl, k, start)
    return octets


@inner
def into_nothing(n, s, out, vl, k):
    """An end port whose link is down discards what it is given to send (IBA chapter 7, link states): it did not send it, and needed no credits."""
    octets = s.packet[k].octets
    row = out * n.opt.vls + vl
    s.vl[row].fctbs = (s.vl[row].fctbs - blocks_of(octets)) & WRAP
    s.port[out].xmit_octets -= octets
    s.port[out].xmit_packets -= 1
    s.port[out].inactive += 1
    lose(s, k)


@inner
def cross(n, s, out, vl, k, start):
    """Packet ``k`` is on the cable of ``out``: at a switch its header matters, at an end port its last octet."""
    peer = n.port[out].peer
    if peer < 0:
        into_nothing(n, s, out, vl, k)
        return
    s.packet[k].came_in = peer
    s.packet[k].vl = vl
    if peer == out:  # port 0 of a switch sends into it
        push(s, start, word(peer, ARRIVE, k))
    elif n.port[out].next_kind == END_PORT:
        if s.packet[k].kind >= SMP:
            push_timer(s, s.packet[k].tail, word(peer, RECEIVE, k))
        else:
            push(s, s.packet[k].tail, word(peer, RECEIVE, k))
    else:
        s.packet[k].tail += n.port[out].next_latency_ps
        t = start + n.port[out].delay_ps + n.port[out].next_latency_ps
        push(s, t, word(peer, ARRIVE, k))
