# mypy: ignore-errors
"""Switches: forwarding by LFT, SL to VL, virtual output queues, cut-through (IBA chapter 18).

A packet waits in the receive buffer of the port that it came in by, in a queue of its own for each output port and VL. An
output port takes the inputs that have something for a VL in turn. In FIFO mode each input has one queue a VL, and only its first
packet is offered.
"""

import numpy as np

from softib.jit import inner
from softib.sim.packet.kernels.adaptive_routing import choose
from softib.sim.packet.kernels.bad_packets import check
from softib.sim.packet.kernels.congestion import mark
from softib.sim.packet.kernels.copies import begin_copies, copy_leaves
from softib.sim.packet.kernels.discards import discard, ends_discards, lose
from softib.sim.packet.kernels.events import push, push_timer, word
from softib.sim.packet.kernels.forwarding import by_table
from softib.sim.packet.kernels.links import blocks_of, grant, has_credit, put_on_wire, take_credits, wire_ps
from softib.sim.packet.kernels.rng import draw_for
from softib.sim.packet.kernels.sl_counters import count_received
from softib.sim.packet.tables import (
    AR,
    ARRIVE,
    BASE,
    BEHIND,
    BY_SL,
    CC,
    COPY,
    DELAY,
    DLID,
    END_PORT,
    ENTER,
    ENTERED,
    FCTBS,
    FIFO,
    FIRST,
    FLAGS,
    FREE,
    HEAD_SINCE,
    IN,
    INACTIVE,
    LAST_IN,
    LEAVING,
    LEVEL,
    LOSSY,
    MC_RCV,
    MTU,
    MULTICAST,
    MULTICAST_LID,
    NEXT,
    NEXT_IN,
    NEXT_KIND,
    NEXT_LATENCY,
    NUM,
    OCTETS,
    OPT_VLS,
    OUT,
    PEER,
    Q_HEAD,
    Q_NEXT,
    Q_TAIL,
    QUEUED,
    RCV_OCTETS,
    RCV_PACKETS,
    READY,
    RECEIVE,
    RELAY_ERRORS,
    RING,
    SMP,
    SWITCH,
    TAIL,
    TOO_LONG,
    VL,
    VLS,
    VOQ,
    WAITS,
    WHAT,
    WRAP,
    XMIT_OCTETS,
    XMIT_PACKETS,
)  # fmt: skip

NO_VL = 15


@inner
def vl_of(n, came_in, out, sl):
    """VL of a packet of ``sl`` from ``came_in`` to ``out``, two ports of one switch (SLtoVLMappingTable, IBA 7.6.6)."""
    if n.uniform[16]:
        return n.uniform[sl]
    pair = np.int64(n.sl2vl[n.sl2vl_base[out] + n.port[came_in, NUM], sl >> 1])
    return pair >> 4 if sl & 1 == 0 else pair & 15


@inner
def egress(n, s, k, came_in, now):
    """The output port of packet ``k``; -1: the tables have none for it."""
    out, base = by_table(n, came_in, s.packet[k, DLID]), np.int64(n.port[came_in, BASE])
    if n.opt[AR] and out > base:
        vl = vl_of(n, came_in, out, s.packet[k, LEVEL])
        if vl >= n.opt[OPT_VLS]:  # VL 15, or one that a manager wrote while packets moved: it is discarded
            return out
        return base + choose(n, s, k, n.port[came_in, SWITCH], base, out - base, vl, now)
    return out


@inner
def arrive(n, s, port, k, now):
    """The header of packet ``k``, which came in by ``port``, is through the switch. Returns the output port that it waits for, -1
    where there is none to look at."""
    octets = s.packet[k, OCTETS]
    if n.opt[LOSSY]:
        check(n, s, port, k, now)
    if n.opt[BY_SL]:
        count_received(s, port, k)
    s.count[port, RCV_OCTETS] += octets
    s.count[port, RCV_PACKETS] += 1
    out = egress(n, s, k, port, now)
    if out == n.port[port, BASE]:  # for the switch itself
        push(s, max(s.when[k, TAIL], now), word(port, ENTER, k))
        return np.int64(-1)
    if out < 0 and n.opt[MULTICAST] and s.packet[k, DLID] >= MULTICAST_LID:
        s.rare_count[port, MC_RCV] += 1
        begin_copies(n, s, port, k, now)
        return np.int64(-1)
    if out < 0 or out == port:
        return discard(n, s, k, port, RELAY_ERRORS, now)
    if n.port[out, PEER] < 0:
        return discard(n, s, k, out, INACTIVE, now)
    if octets > n.port[out, MTU]:
        return discard(n, s, k, out, TOO_LONG, now)
    vl = vl_of(n, port, out, s.packet[k, LEVEL])
    if vl >= n.port[out, VLS] or vl == NO_VL:
        return discard(n, s, k, port, RELAY_ERRORS, now)
    s.when[k, ENTERED] = now
    if n.opt[FIFO]:
        return behind_others(n, s, port, out, vl, k, now)
    if goes_straight(n, s, out, k, now):
        s.vl_time[out, HEAD_SINCE] = now
        pass_on(n, s, out, vl, out, k, now)
        return np.int64(-1)
    return offer(n, s, port, out, vl, k, now)


@inner
def goes_straight(n, s, out, k, now):
    """Can packet ``k`` leave by ``out`` at once? Nothing waits there, the link is free, and credits are there. So its queue, which nothing else of
    this packet touches, need not be looked at. With several VLs, or where more than that decides, packets go the long way."""
    if s.ready[out, READY] or s.port[out, FREE] > now or n.opt[OPT_VLS] > 1:
        return False
    if n.opt[CC] or n.opt[LOSSY] or n.opt[BY_SL] or s.vl[out, WAITS]:
        return False
    take_credits(s, out, now)
    return has_credit(s, out, s.packet[k, OCTETS])


@inner
def behind_others(n, s, port, out, vl, k, now):
    """FIFO mode: packet ``k`` is offered when those before it in the input have left."""
    row = port * n.opt[OPT_VLS] + s.packet[k, VL]
    s.packet[k, OUT] = out * 16 + vl
    s.packet[k, BEHIND] = 0
    if s.more[row, FIRST]:
        s.packet[s.more[row, LAST_IN], BEHIND] = k
        s.more[row, LAST_IN] = k
        return np.int64(-1)
    s.more[row, FIRST] = k
    s.more[row, LAST_IN] = k
    if s.more[row, LEAVING]:
        return np.int64(-1)
    return offer(n, s, port, out, vl, k, now)


@inner
def next_in(n, s, port, vl, now):
    """FIFO mode: the first packet of the input has left; offer the next. Returns its output port, -1 without one."""
    row = port * n.opt[OPT_VLS] + vl
    s.more[row, LEAVING] = 0
    k = s.more[row, FIRST]
    if k == 0:
        return np.int64(-1)
    return offer(n, s, port, s.packet[k, OUT] >> 4, s.packet[k, OUT] & 15, k, now)


@inner
def offer(n, s, port, out, vl, k, now):
    """Put packet ``k`` into the queue of input ``port`` for ``vl`` of ``out``; returns ``out``."""
    vls = n.opt[OPT_VLS]
    row = out * vls + vl
    voq = n.port[out, VOQ] + n.port[port, NUM] * vls + vl
    octets = s.packet[k, OCTETS]
    s.vl[row, QUEUED] += blocks_of(octets)
    if n.opt[CC]:
        mark(n, s, k, out, row)
    if s.voq[voq, Q_HEAD]:
        s.packet[s.voq[voq, Q_TAIL], NEXT] = k
        s.voq[voq, Q_TAIL] = k
        return out
    s.voq[voq, Q_HEAD] = k
    s.voq[voq, Q_TAIL] = k
    last = s.vl[row, RING]
    if last == 0:
        s.voq[voq, Q_NEXT] = voq + 1
        s.ready[out, READY] |= np.int64(1) << vl
        s.vl_time[row, HEAD_SINCE] = now
    else:
        s.voq[voq, Q_NEXT] = s.voq[last - 1, Q_NEXT]
        s.voq[last - 1, Q_NEXT] = voq + 1
    s.vl[row, RING] = voq + 1
    return out


@inner
def draw_first(s, port, row, now):
    """RANDOM mode: of the inputs that have a packet for port VL ``row`` the one that draws the largest number is next. Whoever waits draws anew at each
    time, so neither the order of the ring nor another look at the same time changes who it is."""
    last = before = s.vl[row, RING]
    if last == 0:
        return
    drawn, most = last, -1.0
    while True:
        at = s.voq[before - 1, Q_NEXT]
        number = draw_for(s, port, at, now)
        if number > most:
            drawn, most = before, number
        before = at
        if before == last:
            break
    s.vl[row, RING] = drawn


@inner
def first_voq(s, row):
    """The queue whose turn it is at port VL ``row``."""
    return np.int64(s.voq[s.vl[row, RING] - 1, Q_NEXT]) - 1


@inner
def take_first(n, s, out, vl, row, voq, now):
    """Take the first packet of ``voq``, whose turn it is, out of its queue; the turn passes on."""
    k = np.int64(s.voq[voq, Q_HEAD])
    s.vl[row, QUEUED] -= blocks_of(s.packet[k, OCTETS])
    following = s.packet[k, NEXT]
    s.voq[voq, Q_HEAD] = following
    if following:
        s.vl[row, RING] = voq + 1
    else:
        last = s.vl[row, RING]
        if last == voq + 1:
            s.vl[row, RING] = 0
            s.ready[out, READY] &= ~(np.int64(1) << vl)
        else:
            s.voq[last - 1, Q_NEXT] = s.voq[voq, Q_NEXT]
    s.vl_time[row, HEAD_SINCE] = now
    return k


@inner
def leaves_input(n, s, k, t):
    """At ``t`` packet ``k`` has left the buffer of the port that it came in by."""
    if n.opt[MULTICAST] and s.packet[k, FLAGS] & COPY:
        copy_leaves(n, s, k, t)
        return
    port, vl = s.packet[k, IN], s.packet[k, VL]
    grant(n, s, port, vl, s.packet[k, OCTETS], t)
    if n.opt[FIFO]:
        row = port * n.opt[OPT_VLS] + vl
        s.more[row, FIRST] = s.packet[k, BEHIND]
        s.more[row, LEAVING] = 1
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
    octets, came_in = s.packet[k, OCTETS], s.when[k, TAIL]
    start = max(now, came_in - wire_ps(n, out, octets))
    leaves_input(n, s, k, put_on_wire(n, s, out, row, k, start))
    s.packet[k, NEXT] = 0
    cross(n, s, out, vl, k, start)
    return octets


@inner
def into_nothing(n, s, out, vl, k):
    """An end port whose link is down discards what it is given to send (IBA chapter 7, link states): it did not send it, and needed no credits."""
    octets = s.packet[k, OCTETS]
    row = out * n.opt[OPT_VLS] + vl
    s.vl[row, FCTBS] = (s.vl[row, FCTBS] - blocks_of(octets)) & WRAP
    s.count[out, XMIT_OCTETS] -= octets
    s.count[out, XMIT_PACKETS] -= 1
    s.count[out, INACTIVE] += 1
    lose(s, k)


@inner
def cross(n, s, out, vl, k, start):
    """Packet ``k`` is on the cable of ``out``: at a switch its header matters, at an end port its last octet."""
    peer = n.port[out, PEER]
    if peer < 0:
        into_nothing(n, s, out, vl, k)
        return
    s.packet[k, IN] = peer
    s.packet[k, VL] = vl
    if peer == out:  # port 0 of a switch sends into it
        push(s, start, word(peer, ARRIVE, k))
    elif n.port[out, NEXT_KIND] == END_PORT:
        if s.packet[k, WHAT] >= SMP:
            push_timer(s, s.when[k, TAIL], word(peer, RECEIVE, k))
        else:
            push(s, s.when[k, TAIL], word(peer, RECEIVE, k))
    else:
        s.when[k, TAIL] += n.port[out, NEXT_LATENCY]
        t = start + n.port[out, DELAY] + n.port[out, NEXT_LATENCY]
        push(s, t, word(peer, ARRIVE, k))
