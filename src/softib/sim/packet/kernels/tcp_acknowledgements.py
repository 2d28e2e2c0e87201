# mypy: ignore-errors
"""TCP's reaction to acknowledgements and silence: slow start, congestion avoidance (RFC 5681), fast retransmit and recovery (NewReno, RFC 6582),
the retransmission timeout (RFC 6298), DCTCP (RFC 8257)."""

import numpy as np

from softib.jit import inner
from softib.sim.packet.ethernet_tables import (
    ALL_ACKS,
    ALPHA_T,
    CAREFUL,
    CUT_END,
    DCTCP,
    DCTCP_GAIN,
    DUP_ACKS,
    HIGHEST,
    JITTER_PS,
    MARKED_ACKS,
    MILLION,
    RECOVER,
    RELOST_AFTER,
    RETRANSMIT,
    RTO,
    RTO_AT,
    RTO_MAX_PS,
    RTO_MIN_PS,
    RTTVAR,
    SEED,
    SRTT,
    THRESHOLD,
    TIMEOUTS,
    WINDOW,
    WINDOW_END,
    WINDOW_MOST,
)
from softib.sim.packet.kernels.retransmission import acknowledged, skip_to
from softib.sim.packet.kernels.rng import mixed
from softib.sim.packet.kernels.tcp import set_rto, settle
from softib.sim.packet.tables import ACKED, END_MESSAGE, FECN, FLAGS, NEXT_PSN, NOT_BEFORE, PSN, TIMED

DUPLICATES = 3
"""Duplicate acknowledgements that mean a loss (RFC 5681)."""
ONE = 1000
"""A segment of the window."""


@inner
def measured(n, c, rtt):
    """A round trip was ``rtt``: the new RTO (RFC 6298, section 2)."""
    if c[SRTT] == 0:
        c[SRTT] = rtt
        c[RTTVAR] = rtt // 2
    else:
        c[RTTVAR] = (3 * c[RTTVAR] + abs(c[SRTT] - rtt)) // 4
        c[SRTT] = (7 * c[SRTT] + rtt) // 8
    c[RTO] = min(max(c[SRTT] + 4 * c[RTTVAR], n.ethernet[RTO_MIN_PS]), n.ethernet[RTO_MAX_PS])


@inner
def tcp_ack(n, s, q, k, sent, now):
    """Acknowledgement ``k`` of all segments below its number, which echoes the time ``sent``. Returns a port to look at."""
    c, upto, before = s.connection[q], np.int64(s.packet[k, PSN]), s.qp[q, ACKED]
    if n.ethernet[JITTER_PS] and s.qp[q, NOT_BEFORE] <= now:
        z = mixed(np.uint64(now) ^ np.uint64(q) << np.uint64(40) ^ np.uint64(n.ethernet[SEED]))
        s.qp[q, NOT_BEFORE] = now + np.int64(z >> np.uint64(33)) % (n.ethernet[JITTER_PS] + 1)
    flight = s.qp[q, NEXT_PSN] - before
    if upto > before:
        measured(n, c, now - sent)
        acknowledged(n, s, q, upto - 1, now)
        if n.ethernet[DCTCP]:
            dctcp(n, s, q, upto, upto - before, s.packet[k, FLAGS] & FECN)
        if c[RECOVER]:
            recovers(c, upto, upto - before, flight)
        else:
            c[DUP_ACKS] = 0
            grows(n, c, upto, upto - before, flight)
        set_rto(s, q, now + c[RTO] if upto < c[HIGHEST] and s.qp[q, END_MESSAGE] > 0 else np.int64(0))
    elif upto == before and flight > 0:
        duplicate(s, q, c, upto, flight)
    return settle(n, s, q, now)


@inner
def grows(n, c, upto, many, flight):
    """``many`` more segments were acknowledged: the window grows where it was used (RFC 5681 3.1; RFC 7661)."""
    if c[WINDOW] < c[THRESHOLD]:
        if 2 * ONE * flight >= c[WINDOW]:
            c[WINDOW] += many * ONE
    elif (flight + 1) * ONE >= c[WINDOW] and (n.ethernet[DCTCP] == 0 or upto > c[CUT_END]):
        c[WINDOW] += many * ONE * ONE // c[WINDOW]
    c[WINDOW] = min(c[WINDOW], n.ethernet[WINDOW_MOST] * ONE)


@inner
def duplicate(s, q, c, upto, flight):
    """A duplicate acknowledgement: the third means that segment ``upto`` is lost. More duplicates than segments were under way when it was sent
    again come of later ones: it was lost again (as stacks with SACK find out)."""
    c[DUP_ACKS] += 1
    if c[RECOVER]:
        c[WINDOW] += ONE
        if c[DUP_ACKS] > c[RELOST_AFTER]:
            c[RETRANSMIT] = upto + 1
            c[RELOST_AFTER] = c[DUP_ACKS] + flight
    elif c[DUP_ACKS] == DUPLICATES and upto >= c[CAREFUL]:
        c[THRESHOLD] = max(flight * ONE // 2, np.int64(2 * ONE))
        c[WINDOW] = c[THRESHOLD] + DUPLICATES * ONE
        c[RECOVER] = s.qp[q, NEXT_PSN] + 1
        c[RETRANSMIT] = upto + 1
        c[RELOST_AFTER] = c[DUP_ACKS] + flight


@inner
def recovers(c, upto, many, flight):
    """In fast recovery: a partial acknowledgement names the next hole, a full one ends it (RFC 6582, section 3.2)."""
    if upto + 1 >= c[RECOVER]:
        c[WINDOW] = min(c[THRESHOLD], (max(flight - many, np.int64(1)) + 1) * ONE)
        c[RECOVER] = 0
        c[DUP_ACKS] = 0
        c[RETRANSMIT] = 0
    else:
        c[RETRANSMIT] = upto + 1
        c[RELOST_AFTER] = c[DUP_ACKS] + flight - many
        c[WINDOW] = max(c[WINDOW] - many * ONE + ONE, np.int64(ONE))


@inner
def dctcp(n, s, q, upto, many, marked):
    """``many`` segments were acknowledged, ``marked`` or not: alpha once a window, and at most one cut in it (RFC 8257, section 3.3)."""
    c = s.connection[q]
    c[ALL_ACKS] += many
    if marked:
        c[MARKED_ACKS] += many
    if upto > c[WINDOW_END]:
        share = c[MARKED_ACKS] * MILLION // c[ALL_ACKS]
        c[ALPHA_T] += (share - c[ALPHA_T]) * n.ethernet[DCTCP_GAIN] // MILLION
        c[ALL_ACKS] = 0
        c[MARKED_ACKS] = 0
        c[WINDOW_END] = s.qp[q, NEXT_PSN]
    if marked and upto > c[CUT_END]:
        c[WINDOW] = max(c[WINDOW] - c[WINDOW] * c[ALPHA_T] // (2 * MILLION), np.int64(2 * ONE))
        c[THRESHOLD] = c[WINDOW]
        c[CUT_END] = s.qp[q, NEXT_PSN]


@inner
def retransmission_timeout(n, s, port, q, now):
    """The retransmission timer: back to the first segment that is not acknowledged, with a window of one and twice the RTO (RFC 6298 5.4 to
    5.7). Returns a port to look at."""
    if s.qp[q, TIMED] != now + 1:
        return np.int64(-1)  # another one was started since
    s.qp[q, TIMED] = 0
    c = s.connection[q]
    if c[RTO_AT] == 0:
        return np.int64(-1)
    if c[RTO_AT] > now:
        set_rto(s, q, c[RTO_AT])
        return np.int64(-1)
    c[TIMEOUTS] += 1
    flight = s.qp[q, NEXT_PSN] - s.qp[q, ACKED]
    c[THRESHOLD] = max(flight * ONE // 2, np.int64(2 * ONE))
    c[WINDOW] = ONE
    c[RTO] = min(2 * c[RTO], n.ethernet[RTO_MAX_PS])
    c[CAREFUL] = c[HIGHEST]
    c[RECOVER] = 0
    c[DUP_ACKS] = 0
    c[RETRANSMIT] = 0
    skip_to(s, q, s.qp[q, ACKED])
    c[RTO_AT] = 0  # starts with the segment that is sent now
    return settle(n, s, q, now)
