# mypy: ignore-errors
"""Links: credits, the time that a packet takes on the wire, and ticks of waiting (IBA chapter 7, flow control; 16.1.3.5).

A receiver grants credits in blocks of 64 octets for each VL: FCCL, the block up to which the sender may send. The sender counts
blocks in FCTBS. Both have 12 bits. Each packet that leaves a receive buffer is a flow-control packet back; its octets are sent
before the next packet of that direction.
"""

import numpy as np

from softib.jit import inner
from softib.sim.packet.kernels.events import push, word
from softib.sim.packet.kernels.packet_log import log_sent
from softib.sim.packet.kernels.sl_counters import count_sent
from softib.sim.packet.tables import (
    ARMED,
    BLOCK,
    BY_SL,
    C_BLOCKS,
    C_NEXT,
    C_TIME,
    CREDITS,
    DATA,
    DEBT,
    DELAY,
    DLID,
    DRAINED,
    FCCL,
    FCP,
    FCTBS,
    FIRST_AT,
    FIRST_BLOCKS,
    FREE,
    FREE_CREDIT,
    FS,
    GAP,
    HOPS,
    LAST_CREDIT,
    LOOK,
    MC_XMIT,
    MG_SLOW,
    MULTICAST,
    MULTICAST_LID,
    NOW,
    OCTETS,
    OPT_VLS,
    PEER,
    READ_RESPONSE,
    SECOND_AT,
    SECOND_BLOCKS,
    SMALLEST,
    SPARE_CREDITS,
    STARVED,
    TAIL,
    TICK,
    WAIT_TICKS,
    WAITING,
    WAITS,
    WHAT,
    WINDOW,
    WRAP,
    XMIT_OCTETS,
    XMIT_PACKETS,
)  # fmt: skip


@inner
def blocks_of(octets):
    """Blocks of credit that a packet takes."""
    return (octets + BLOCK - 1) // BLOCK


@inner
def wire_ps(n, port, octets):
    """Picoseconds that ``octets`` take on the link of ``port``."""
    return (octets * n.port[port, FS] + 500) // 1000


@inner
def arm(s, port, t):
    """Let ``port`` look at ``t`` what it can send, unless it does so earlier."""
    armed = s.port[port, ARMED]
    if armed == 0 or t + 1 < armed:
        s.port[port, ARMED] = t + 1
        push(s, t, word(port, LOOK, 0))


@inner
def has_credit(s, row, octets):
    """May a packet of ``octets`` be sent on port VL ``row``? (FCCL - FCTBS, IBA chapter 7)"""
    return (s.vl[row, FCCL] - s.vl[row, FCTBS] - blocks_of(octets)) & WRAP <= WINDOW


@inner
def take_credits(s, row, now):
    """Take what flow-control packets brought to port VL ``row`` until ``now``."""
    while s.vl[row, FIRST_BLOCKS] and s.vl_time[row, FIRST_AT] <= now:
        s.vl[row, FCCL] = (s.vl[row, FCCL] + s.vl[row, FIRST_BLOCKS]) & WRAP
        s.vl[row, FIRST_BLOCKS] = s.vl[row, SECOND_BLOCKS]
        s.vl_time[row, FIRST_AT] = s.vl_time[row, SECOND_AT]
        s.vl[row, SECOND_BLOCKS] = 0
        c = np.int64(s.vl[row, CREDITS])
        if c:
            s.vl[row, SECOND_BLOCKS] = s.credit[c, C_BLOCKS]
            s.vl_time[row, SECOND_AT] = s.credit[c, C_TIME]
            forget_credit(s, row, c)


@inner
def forget_credit(s, row, c):
    """Credit ``c``, the first of the list of port VL ``row``, is one no more."""
    following = s.credit[c, C_NEXT]
    s.credit[c, C_NEXT] = s.reg[FREE_CREDIT]
    s.reg[FREE_CREDIT] = c
    s.reg[SPARE_CREDITS] += 1
    s.vl[row, CREDITS] = following
    if following == 0:
        s.vl[row, LAST_CREDIT] = 0


@inner
def starve(s, port, row):
    """Port VL ``row`` of ``port`` waits for credits: it looks again when the next ones arrive."""
    s.vl[row, WAITS] |= STARVED
    if s.vl[row, FIRST_BLOCKS]:
        arm(s, port, s.vl_time[row, FIRST_AT])


@inner
def grant(n, s, port, vl, octets, t):
    """At ``t`` a packet has left the receive buffer of ``port``: a flow-control packet tells the sender."""
    sender = n.port[port, PEER]
    if sender < 0:  # the link went down meanwhile: credits begin anew when it is up
        return
    if n.management[MG_SLOW]:
        t = drained(n, s, port, octets, t)
    row = sender * n.opt[OPT_VLS] + vl
    t += n.port[port, DELAY] + wire_ps(n, port, n.opt[FCP])
    credited(s, sender, row, blocks_of(octets), t)
    s.ready[port, DEBT] += n.opt[FCP]


@inner
def credited(s, sender, row, blocks, t):
    """At ``t`` port VL ``row`` of ``sender`` has ``blocks`` more to send; if it waits for them it looks then."""
    if s.vl[row, FIRST_BLOCKS] and s.vl_time[row, FIRST_AT] <= t:
        after_first(s, row, blocks, t)
        return
    if s.vl[row, FIRST_BLOCKS]:
        after_first(s, row, np.int64(s.vl[row, FIRST_BLOCKS]), np.int64(s.vl_time[row, FIRST_AT]))
    s.vl[row, FIRST_BLOCKS] = blocks
    s.vl_time[row, FIRST_AT] = t
    if s.vl[row, WAITS] & STARVED:
        arm(s, sender, t)


@inner
def after_first(s, row, blocks, t):
    """Put a credit that does not come first to port VL ``row`` where its time is."""
    if s.vl[row, SECOND_BLOCKS]:
        if s.vl_time[row, SECOND_AT] <= t:
            into_list(s, row, blocks, t)
            return
        into_list(s, row, np.int64(s.vl[row, SECOND_BLOCKS]), np.int64(s.vl_time[row, SECOND_AT]))
    s.vl[row, SECOND_BLOCKS] = blocks
    s.vl_time[row, SECOND_AT] = t


@inner
def into_list(s, row, blocks, t):
    """Put a credit that comes after two others into the list of port VL ``row``."""
    c = np.int64(s.reg[FREE_CREDIT])
    s.reg[FREE_CREDIT] = s.credit[c, C_NEXT]
    s.reg[SPARE_CREDITS] -= 1
    s.credit[c, C_TIME] = t
    s.credit[c, C_BLOCKS] = blocks
    s.credit[c, C_NEXT] = 0
    last = np.int64(s.vl[row, LAST_CREDIT])
    if last == 0:
        s.vl[row, CREDITS] = c
        s.vl[row, LAST_CREDIT] = c
    elif s.credit[last, C_TIME] <= t:
        s.credit[last, C_NEXT] = c
        s.vl[row, LAST_CREDIT] = c
    else:
        insert(s, row, c, t)


@inner
def dropped_from_buffer(n, s, port, tail, now):
    """When the octets of a packet that is dropped leave the receive buffer of ``port``: it has come in whole, and the time of the smallest
    packet has passed."""
    return max(now + wire_ps(n, port, n.opt[SMALLEST]), tail)


@inner
def drained(n, s, port, octets, t):
    """When the buffer of ``port`` is free of a packet that could leave it at ``t``: a slow port drains one after another."""
    if n.drain[port] == 0:
        return t
    done = max(t, s.arb[port, DRAINED]) + (octets * n.drain[port] + 500) // 1000
    s.arb[port, DRAINED] = done
    return done


@inner
def insert(s, row, c, t):
    """Put credit ``c`` where its time is: a packet on a slower output leaves the buffer later than one that began after it."""
    at = np.int64(s.vl[row, CREDITS])
    if s.credit[at, C_TIME] > t:
        s.credit[c, C_NEXT] = at
        s.vl[row, CREDITS] = c
        return
    while s.credit[s.credit[at, C_NEXT], C_TIME] <= t:
        at = s.credit[at, C_NEXT]
    s.credit[c, C_NEXT] = s.credit[at, C_NEXT]
    s.credit[at, C_NEXT] = c


@inner
def put_on_wire(n, s, port, row, k, start):
    """Send packet ``k`` from ``start`` on; returns when its last octet has left."""
    octets = s.packet[k, OCTETS]
    end = start + wire_ps(n, port, octets + n.opt[GAP])
    if s.ready[port, DEBT]:  # flow-control packets: what the link did not send while it was idle goes before
        end += max(wire_ps(n, port, s.ready[port, DEBT]) - max(start - s.port[port, FREE], 0), 0)
        s.ready[port, DEBT] = 0
    s.port[port, FREE] = end
    s.vl[row, FCTBS] = (s.vl[row, FCTBS] + blocks_of(octets)) & WRAP
    s.when[k, TAIL] = end + n.port[port, DELAY]
    s.count[port, XMIT_OCTETS] += octets
    s.count[port, XMIT_PACKETS] += 1
    if n.opt[BY_SL]:
        count_sent(n, s, port, row, k, start, end)
    if n.opt[MULTICAST] and s.packet[k, DLID] >= MULTICAST_LID:
        s.rare_count[port, MC_XMIT] += 1
    what = s.packet[k, WHAT]
    if what in (DATA, READ_RESPONSE):
        s.reg[HOPS] += 1
    if n.watch_port.shape[0]:
        log_sent(n, s, port, row - port * n.opt[OPT_VLS], k, s.reg[NOW], start, end)
    waits_no_more(n, s, port, start)
    return end


@inner
def waits_from(s, port, now):
    """``port`` has data and sends none from ``now`` on."""
    if s.port[port, WAITING] == 0:
        s.port[port, WAITING] = now + 1


@inner
def waits_no_more(n, s, port, now):
    """The whole ticks of waiting count as PortXmitWait."""
    since = s.port[port, WAITING]
    if since:
        s.port[port, WAITING] = 0
        s.count[port, WAIT_TICKS] += max(now - since + 1, np.int64(0)) // n.rare[port, TICK]
