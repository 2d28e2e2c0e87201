"""TCP's reaction to acknowledgements and silence: slow start, congestion avoidance (RFC 5681), fast
retransmit and recovery (NewReno, RFC 6582), the retransmission timeout (RFC 6298), DCTCP (RFC
8257)."""

import numpy as np

from softib.jit import inner
from softib.sim.packet.constants import FECN, MILLION
from softib.sim.packet.kernels.engine.rng import mixed
from softib.sim.packet.kernels.ethernet.tcp import set_rto, settle
from softib.sim.packet.kernels.transport.retransmission import acknowledged, skip_to

DUPLICATES = 3
"""Duplicate acknowledgements that mean a loss (RFC 5681)."""
ONE = 1000
"""A segment of the window."""


@inner
def measured(net, c, rtt):
    """A round trip was ``rtt``: the new RTO (RFC 6298, section 2)."""
    if c.srtt == 0:
        c.srtt = rtt
        c.rttvar = rtt // 2
    else:
        c.rttvar = (3 * c.rttvar + abs(c.srtt - rtt)) // 4
        c.srtt = (7 * c.srtt + rtt) // 8
    c.rto = min(max(c.srtt + 4 * c.rttvar, net.ethernet.rto_min_ps), net.ethernet.rto_max_ps)


@inner
def tcp_ack(net, state, q, k, sent, now):
    """Acknowledgement ``k`` of all segments below its number, which echoes the time ``sent``.
    Returns a port to look at."""
    c, upto, before = state.tcp[q], np.int64(state.packet[k].psn), state.rc[q].acked
    if net.ethernet.jitter_ps and state.qp[q].not_before <= now:
        z = mixed(np.uint64(now) ^ np.uint64(q) << np.uint64(40) ^ np.uint64(net.ethernet.seed))
        state.qp[q].not_before = now + np.int64(z >> np.uint64(33)) % (net.ethernet.jitter_ps + 1)
    flight = state.qp[q].next_psn - before
    if upto > before:
        measured(net, c, now - sent)
        acknowledged(net, state, q, upto - 1, now)
        if net.ethernet.dctcp:
            dctcp(net, state, q, upto, upto - before, state.packet[k].marks & FECN)
        if c.recover:
            recovers(c, upto, upto - before, flight)
        else:
            c.dup_acks = 0
            grows(net, c, upto, upto - before, flight)
        set_rto(state, q, now + c.rto if upto < c.highest and state.qp[q].end_message > 0 else np.int64(0))
    elif upto == before and flight > 0:
        duplicate(state, q, c, upto, flight)
    return settle(net, state, q, now)


@inner
def grows(net, c, upto, many, flight):
    """``many`` more segments were acknowledged: the window grows where it was used (RFC 5681 3.1;
    RFC 7661)."""
    if c.window < c.threshold:
        if 2 * ONE * flight >= c.window:
            c.window += many * ONE
    elif (flight + 1) * ONE >= c.window and (net.ethernet.dctcp == 0 or upto > c.cut_end):
        c.window += many * ONE * ONE // c.window
    c.window = min(c.window, net.ethernet.window_most * ONE)


@inner
def duplicate(state, q, c, upto, flight):
    """A duplicate acknowledgement: the third means that segment ``upto`` is lost. More duplicates
    than segments were under way when it was sent again come of later ones: it was lost again (as
    stacks with SACK find out)."""
    c.dup_acks += 1
    if c.recover:
        c.window += ONE
        if c.dup_acks > c.relost_after:
            c.retransmit = upto + 1
            c.relost_after = c.dup_acks + flight
    elif c.dup_acks == DUPLICATES and upto >= c.careful:
        c.threshold = max(flight * ONE // 2, np.int64(2 * ONE))
        c.window = c.threshold + DUPLICATES * ONE
        c.recover = state.qp[q].next_psn + 1
        c.retransmit = upto + 1
        c.relost_after = c.dup_acks + flight


@inner
def recovers(c, upto, many, flight):
    """In fast recovery: a partial acknowledgement names the next hole, a full one ends it (RFC
    6582, section 3.2)."""
    if upto + 1 >= c.recover:
        c.window = min(c.threshold, (max(flight - many, np.int64(1)) + 1) * ONE)
        c.recover = 0
        c.dup_acks = 0
        c.retransmit = 0
    else:
        c.retransmit = upto + 1
        c.relost_after = c.dup_acks + flight - many
        c.window = max(c.window - many * ONE + ONE, np.int64(ONE))


@inner
def dctcp(net, state, q, upto, many, marked):
    """``many`` segments were acknowledged, ``marked`` or not: alpha once a window, and at most one
    cut in it (RFC 8257, section 3.3)."""
    c = state.tcp[q]
    c.all_acks += many
    if marked:
        c.marked_acks += many
    if upto > c.window_end:
        share = c.marked_acks * MILLION // c.all_acks
        c.alpha += (share - c.alpha) * net.ethernet.dctcp_gain // MILLION
        c.all_acks = 0
        c.marked_acks = 0
        c.window_end = state.qp[q].next_psn
    if marked and upto > c.cut_end:
        c.window = max(c.window - c.window * c.alpha // (2 * MILLION), np.int64(2 * ONE))
        c.threshold = c.window
        c.cut_end = state.qp[q].next_psn


@inner
def retransmission_timeout(net, state, port, q, now):
    """The retransmission timer: back to the first segment that is not acknowledged, with a window
    of one and twice the RTO (RFC 6298 5.4 to 5.7). Returns a port to look at."""
    if state.rc[q].timed != now + 1:
        return np.int64(-1)  # another one was started since
    state.rc[q].timed = 0
    c = state.tcp[q]
    if c.rto_at == 0:
        return np.int64(-1)
    if c.rto_at > now:
        set_rto(state, q, c.rto_at)
        return np.int64(-1)
    c.timeouts += 1
    flight = state.qp[q].next_psn - state.rc[q].acked
    c.threshold = max(flight * ONE // 2, np.int64(2 * ONE))
    c.window = ONE
    c.rto = min(2 * c.rto, net.ethernet.rto_max_ps)
    c.careful = c.highest
    c.recover = 0
    c.dup_acks = 0
    c.retransmit = 0
    skip_to(state, q, state.rc[q].acked)
    c.rto_at = 0  # starts with the segment that is sent now
    return settle(net, state, q, now)
