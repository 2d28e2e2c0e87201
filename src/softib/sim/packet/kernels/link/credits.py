"""Links: credits, the time of a packet on the wire, and the ticks that PortXmitWait counts (IBA chapter 7, flow
control; 16.1.3.5).

For each VL, a receiver grants credits in blocks of 64 bytes: FCCL is the block up to which the
sender may send. The sender counts blocks in FCTBS. Both have 12 bits. For each packet that leaves a receive buffer, a
flow-control packet is sent to the sender, ahead of the next data packet in that direction.

``opt.by_sl`` adds the optional counters of IBA 16.1.4: PortXmitDataSL and PortRcvDataSL by SL,
PortVLXmitWait by VL.
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

VCRC = 2


@inner
def count_sent(net, state, port, row, k, start, end):
    """Count packet ``k``, which leaves through port VL ``row`` of ``port`` from ``start`` to
    ``end``."""
    state.by_sl[port, state.packet[k].sl].sent += (state.packet[k].octets - VCRC) // 4
    waits_no_longer(net, state, port, row, start)
    state.vl_wait[row].busy = end


@inner
def count_received(state, port, k):
    """Count packet ``k``, which entered through ``port``."""
    state.by_sl[port, state.packet[k].sl].received += (state.packet[k].octets - VCRC) // 4


@inner
def waits_no_longer(net, state, port, row, now):
    """End the wait of port VL ``row`` at ``now``: count whole ticks."""
    since = state.vl_wait[row].since
    if since:
        state.vl_wait[row].since = 0
        state.vl_wait[row].ticks += max(now - since + 1, np.int64(0)) // net.rare[port].tick_ps


@inner
def note_waiting(net, state, port, now):
    """Start the waiting time of each VL of ``port`` that has data: at ``now``, or when the packet that is being sent
    has left."""
    for vl in range(net.opt.vls):
        row = port * net.opt.vls + vl
        if not state.port[port].ready >> vl & 1:
            state.vl_wait[row].since = 0
        elif state.vl_wait[row].since == 0:
            state.vl_wait[row].since = max(now, state.vl_wait[row].busy) + 1


@inner
def blocks_of(octets):
    """Return the number of credit blocks that a packet of ``octets`` bytes needs."""
    return (octets + BLOCK - 1) // BLOCK


@inner
def wire_ps(net, port, octets):
    """Return the time in ps of ``octets`` bytes on the link of ``port``."""
    return (octets * net.port[port].fs + 500) // 1000


@inner
def arm(state, port, t):
    """Schedule a check at ``t`` of what ``port`` can send, unless an earlier check is scheduled."""
    armed = state.port[port].armed
    if armed == 0 or t + 1 < armed:
        state.port[port].armed = t + 1
        push(state, t, word(port, LOOK, 0))


@inner
def has_credit(state, row, octets):
    """Return whether credits allow a packet of ``octets`` bytes on port VL ``row`` (FCCL - FCTBS, IBA
    chapter 7)."""
    return (state.vl[row].fccl - state.vl[row].fctbs - blocks_of(octets)) & WRAP <= WINDOW


@inner
def take_credits(state, row, now):
    """Apply the flow-control packets that have reached port VL ``row`` by ``now``."""
    while state.vl[row].first_blocks and state.vl[row].first_at <= now:
        state.vl[row].fccl = (state.vl[row].fccl + state.vl[row].first_blocks) & WRAP
        state.vl[row].first_blocks = state.vl[row].second_blocks
        state.vl[row].first_at = state.vl[row].second_at
        state.vl[row].second_blocks = 0
        c = np.int64(state.vl[row].credits)
        if c:
            state.vl[row].second_blocks = state.credit[c].blocks
            state.vl[row].second_at = state.credit[c].time
            forget_credit(state, row, c)


@inner
def forget_credit(state, row, c):
    """Remove credit ``c``, the first of the list of port VL ``row``."""
    following = state.credit[c].next
    state.credit[c].next = state.reg.free_credit
    state.reg.free_credit = c
    state.reg.spare_credits += 1
    state.vl[row].credits = following
    if following == 0:
        state.vl[row].last_credit = 0


@inner
def starve(state, port, row):
    """Handle a lack of credits at port VL ``row`` of ``port``: schedule a check for the arrival of the next credits."""
    state.vl[row].waits |= STARVED
    if state.vl[row].first_blocks:
        arm(state, port, state.vl[row].first_at)


@inner
def grant(net, state, port, vl, octets, t):
    """Handle the departure of a packet from the receive buffer of ``port`` at ``t``: send a flow-control packet to the
    sender."""
    sender = net.port[port].peer
    if sender < 0:  # the link went down meanwhile: credits restart when it is up
        return
    if net.management.slow:
        t = drained(net, state, port, octets, t)
    row = sender * net.opt.vls + vl
    t += net.port[port].delay_ps + wire_ps(net, port, net.opt.fcp)
    credited(state, sender, row, blocks_of(octets), t)
    state.port[port].debt += net.opt.fcp


@inner
def credited(state, sender, row, blocks, t):
    """Give port VL ``row`` of ``sender`` ``blocks`` more credits at ``t``; if it waits for them,
    schedule a check then."""
    if state.vl[row].first_blocks and state.vl[row].first_at <= t:
        after_first(state, row, blocks, t)
        return
    if state.vl[row].first_blocks:
        after_first(state, row, np.int64(state.vl[row].first_blocks), np.int64(state.vl[row].first_at))
    state.vl[row].first_blocks = blocks
    state.vl[row].first_at = t
    if state.vl[row].waits & STARVED:
        arm(state, sender, t)


@inner
def after_first(state, row, blocks, t):
    """Insert a credit that is not the first of port VL ``row``, by time."""
    if state.vl[row].second_blocks:
        if state.vl[row].second_at <= t:
            into_list(state, row, blocks, t)
            return
        into_list(state, row, np.int64(state.vl[row].second_blocks), np.int64(state.vl[row].second_at))
    state.vl[row].second_blocks = blocks
    state.vl[row].second_at = t


@inner
def into_list(state, row, blocks, t):
    """Insert a credit after two others into the list of port VL ``row``."""
    c = np.int64(state.reg.free_credit)
    state.reg.free_credit = state.credit[c].next
    state.reg.spare_credits -= 1
    state.credit[c].time = t
    state.credit[c].blocks = blocks
    state.credit[c].next = 0
    last = np.int64(state.vl[row].last_credit)
    if last == 0:
        state.vl[row].credits = c
        state.vl[row].last_credit = c
    elif state.credit[last].time <= t:
        state.credit[last].next = c
        state.vl[row].last_credit = c
    else:
        insert(state, row, c, t)


@inner
def dropped_from_buffer(net, state, port, tail, now):
    """Return when a dropped packet leaves the receive buffer of ``port``: when it has fully arrived, but not before the
    transmission time of the smallest packet has passed."""
    return max(now + wire_ps(net, port, net.opt.smallest), tail)


@inner
def drained(net, state, port, octets, t):
    """Return when a packet that could leave the buffer of ``port`` at ``t`` has left it: a slow
    port drains packets one after another."""
    if net.drain[port] == 0:
        return t
    done = max(t, state.arbiter[port].drained) + (octets * net.drain[port] + 500) // 1000
    state.arbiter[port].drained = done
    return done


@inner
def insert(state, row, c, t):
    """Insert credit ``c`` by time: a packet on a slower output may leave the buffer later than one
    that began after it."""
    at = np.int64(state.vl[row].credits)
    if state.credit[at].time > t:
        state.credit[c].next = at
        state.vl[row].credits = c
        return
    while state.credit[state.credit[at].next].time <= t:
        at = state.credit[at].next
    state.credit[c].next = state.credit[at].next
    state.credit[at].next = c


@inner
def put_on_wire(net, state, port, row, k, start):
    """Send packet ``k`` from ``start`` on; return when its last byte has left."""
    octets = state.packet[k].octets
    end = start + wire_ps(net, port, octets + net.opt.gap)
    if state.port[port].debt:  # flow-control packets still due from the time when the link was idle go first
        end += max(wire_ps(net, port, state.port[port].debt) - max(start - state.port[port].free_at, 0), 0)
        state.port[port].debt = 0
    state.port[port].free_at = end
    state.vl[row].fctbs = (state.vl[row].fctbs + blocks_of(octets)) & WRAP
    state.packet[k].tail = end + net.port[port].delay_ps
    state.port[port].xmit_octets += octets
    state.port[port].xmit_packets += 1
    if net.opt.by_sl:
        count_sent(net, state, port, row, k, start, end)
    if net.opt.multicast and state.packet[k].dlid >= MULTICAST_LID:
        state.rare_count[port].multicast_xmit += 1
    kind = state.packet[k].kind
    if kind in (DATA, READ_RESPONSE):
        state.reg.hops += 1
    if net.watch_port.shape[0]:
        log_sent(net, state, port, row - port * net.opt.vls, k, state.reg.now, start, end)
    waits_no_more(net, state, port, start)
    return end


@inner
def waits_from(state, port, now):
    """Record that ``port`` has data but sends none from ``now`` on."""
    if state.port[port].waiting == 0:
        state.port[port].waiting = now + 1


@inner
def waits_no_more(net, state, port, now):
    """Count whole ticks of waiting in PortXmitWait."""
    since = state.port[port].waiting
    if since:
        state.port[port].waiting = 0
        state.port[port].wait_ticks += max(now - since + 1, np.int64(0)) // net.rare[port].tick_ps
