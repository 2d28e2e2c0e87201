# mypy: ignore-errors
"""Links: credits, the time that a packet takes on the wire, and ticks of waiting (IBA chapter 7, flow control; 16.1.3.5).

A receiver grants credits in blocks of 64 octets for each VL: FCCL, the block up to which the sender may send. The sender counts
blocks in FCTBS. Both have 12 bits. Each packet that leaves a receive buffer is a flow-control packet back; its octets are sent
before the next packet of that direction.
"""

import numpy as np

from softib.jit import inner
from softib.sim.packet.constants import (
    BLOCK,
    DATA,
    LOOK,
    MULTICAST_LID,
    READ_RESPONSE,
    STARVED,
    WINDOW,
    WRAP,
)
from softib.sim.packet.kernels.engine.events import push, word
from softib.sim.packet.kernels.engine.packet_log import log_sent
from softib.sim.packet.kernels.link.sl_counters import count_sent


@inner
def blocks_of(octets):
    """Blocks of credit that a packet takes."""
    return (octets + BLOCK - 1) // BLOCK


@inner
def wire_ps(n, port, octets):
    """Picoseconds that ``octets`` take on the link of ``port``."""
    return (octets * n.port[port].fs + 500) // 1000


@inner
def arm(s, port, t):
    """Let ``port`` look at ``t`` what it can send, unless it does so earlier."""
    armed = s.port[port].armed
    if armed == 0 or t + 1 < armed:
        s.port[port].armed = t + 1
        push(s, t, word(port, LOOK, 0))


@inner
def has_credit(s, row, octets):
    """May a packet of ``octets`` be sent on port VL ``row``? (FCCL - FCTBS, IBA chapter 7)"""
    return (s.vl[row].fccl - s.vl[row].fctbs - blocks_of(octets)) & WRAP <= WINDOW


@inner
def take_credits(s, row, now):
    """Take what flow-control packets brought to port VL ``row`` until ``now``."""
    while s.vl[row].first_blocks and s.vl[row].first_at <= now:
        s.vl[row].fccl = (s.vl[row].fccl + s.vl[row].first_blocks) & WRAP
        s.vl[row].first_blocks = s.vl[row].second_blocks
        s.vl[row].first_at = s.vl[row].second_at
        s.vl[row].second_blocks = 0
        c = np.int64(s.vl[row].credits)
        if c:
            s.vl[row].second_blocks = s.credit[c].blocks
            s.vl[row].second_at = s.credit[c].time
            forget_credit(s, row, c)


@inner
def forget_credit(s, row, c):
    """Credit ``c``, the first of the list of port VL ``row``, is one no more."""
    following = s.credit[c].next
    s.credit[c].next = s.reg.free_credit
    s.reg.free_credit = c
    s.reg.spare_credits += 1
    s.vl[row].credits = following
    if following == 0:
        s.vl[row].last_credit = 0


@inner
def starve(s, port, row):
    """Port VL ``row`` of ``port`` waits for credits: it looks again when the next ones arrive."""
    s.vl[row].waits |= STARVED
    if s.vl[row].first_blocks:
        arm(s, port, s.vl[row].first_at)


@inner
def grant(n, s, port, vl, octets, t):
    """At ``t`` a packet has left the receive buffer of ``port``: a flow-control packet tells the sender."""
    sender = n.port[port].peer
    if sender < 0:  # the link went down meanwhile: credits begin anew when it is up
        return
    if n.management.slow:
        t = drained(n, s, port, octets, t)
    row = sender * n.opt.vls + vl
    t += n.port[port].delay_ps + wire_ps(n, port, n.opt.fcp)
    credited(s, sender, row, blocks_of(octets), t)
    s.port[port].debt += n.opt.fcp


@inner
def credited(s, sender, row, blocks, t):
    """At ``t`` port VL ``row`` of ``sender`` has ``blocks`` more to send; if it waits for them it looks then."""
    if s.vl[row].first_blocks and s.vl[row].first_at <= t:
        after_first(s, row, blocks, t)
        return
    if s.vl[row].first_blocks:
        after_first(s, row, np.int64(s.vl[row].first_blocks), np.int64(s.vl[row].first_at))
    s.vl[row].first_blocks = blocks
    s.vl[row].first_at = t
    if s.vl[row].waits & STARVED:
        arm(s, sender, t)


@inner
def after_first(s, row, blocks, t):
    """Put a credit that does not come first to port VL ``row`` where its time is."""
    if s.vl[row].second_blocks:
        if s.vl[row].second_at <= t:
            into_list(s, row, blocks, t)
            return
        into_list(s, row, np.int64(s.vl[row].second_blocks), np.int64(s.vl[row].second_at))
    s.vl[row].second_blocks = blocks
    s.vl[row].second_at = t


@inner
def into_list(s, row, blocks, t):
    """Put a credit that comes after two others into the list of port VL ``row``."""
    c = np.int64(s.reg.free_credit)
    s.reg.free_credit = s.credit[c].next
    s.reg.spare_credits -= 1
    s.credit[c].time = t
    s.credit[c].blocks = blocks
    s.credit[c].next = 0
    last = np.int64(s.vl[row].last_credit)
    if last == 0:
        s.vl[row].credits = c
        s.vl[row].last_credit = c
    elif s.credit[last].time <= t:
        s.credit[last].next = c
        s.vl[row].last_credit = c
    else:
        insert(s, row, c, t)


@inner
def dropped_from_buffer(n, s, port, tail, now):
    """When the octets of a packet that is dropped leave the receive buffer of ``port``: it has come in whole, and the time of the smallest
    packet has passed."""
    return max(now + wire_ps(n, port, n.opt.smallest), tail)


@inner
def drained(n, s, port, octets, t):
    """When the buffer of ``port`` is free of a packet that could leave it at ``t``: a slow port drains one after another."""
    if n.drain[port] == 0:
        return t
    done = max(t, s.arbiter[port].drained) + (octets * n.drain[port] + 500) // 1000
    s.arbiter[port].drained = done
    return done


@inner
def insert(s, row, c, t):
    """Put credit ``c`` where its time is: a packet on a slower output leaves the buffer later than one that began after it."""
    at = np.int64(s.vl[row].credits)
    if s.credit[at].time > t:
        s.credit[c].next = at
        s.vl[row].credits = c
        return
    while s.credit[s.credit[at].next].time <= t:
        at = s.credit[at].next
    s.credit[c].next = s.credit[at].next
    s.credit[at].next = c


@inner
def put_on_wire(n, s, port, row, k, start):
    """Send packet ``k`` from ``start`` on; returns when its last octet has left."""
    octets = s.packet[k].octets
    end = start + wire_ps(n, port, octets + n.opt.gap)
    if s.port[port].debt:  # flow-control packets: what the link did not send while it was idle goes before
        end += max(wire_ps(n, port, s.port[port].debt) - max(start - s.port[port].free_at, 0), 0)
        s.port[port].debt = 0
    s.port[port].free_at = end
    s.vl[row].fctbs = (s.vl[row].fctbs + blocks_of(octets)) & WRAP
    s.packet[k].tail = end + n.port[port].delay_ps
    s.port[port].xmit_octets += octets
    s.port[port].xmit_packets += 1
    if n.opt.by_sl:
        count_sent(n, s, port, row, k, start, end)
    if n.opt.multicast and s.packet[k].dlid >= MULTICAST_LID:
        s.rare_count[port].multicast_xmit += 1
    what = s.packet[k].kind
    if what in (DATA, READ_RESPONSE):
        s.reg.hops += 1
    if n.watch_port.shape[0]:
        log_sent(n, s, port, row - port * n.opt.vls, k, s.reg.now, start, end)
    waits_no_more(n, s, port, start)
    return end


@inner
def waits_from(s, port, now):
    """``port`` has data and sends none from ``now`` on."""
    if s.port[port].waiting == 0:
        s.port[port].waiting = now + 1


@inner
def waits_no_more(n, s, port, now):
    """The whole ticks of waiting count as PortXmitWait."""
    since = s.port[port].waiting
    if since:
        s.port[port].waiting = 0
        s.port[port].wait_ticks += max(now - since + 1, np.int64(0)) // n.rare[port].tick_ps
