# mypy: ignore-errors
"""Senders of RC: what an acknowledgement completes, and what is sent again after a NAK or an ACK timeout (IBA 9.7.6.1)."""

import numpy as np

from softib.jit import inner
from softib.sim.packet.kernels.events import push_timer, word
from softib.sim.packet.kernels.hca import activate, not_before
from softib.sim.packet.kernels.streams import leave_ring
from softib.sim.packet.kernels.work import completed
from softib.sim.packet.tables import (
    ACKED,
    CQE,
    CURRENT_MESSAGE,
    DONE_MESSAGE,
    END_MESSAGE,
    FIRST_MESSAGE,
    IN_RING,
    LAST,
    LEFT,
    M_COMPLETED,
    M_PACKETS,
    M_PSN,
    NEXT_PSN,
    OPT_VLS,
    OUT_VL,
    PROGRESS,
    READS_OUT,
    RETRIES,
    RNR_TRIES,
    SRC,
    TIMED,
    TIMEOUT,
    TIMER,
    TRIES,
)  # fmt: skip


@inner
def acknowledged(n, s, q, psn, now):
    """All packets of ``q`` up to ``psn`` arrived (READs are done by their responses)."""
    if psn + 1 <= s.qp[q, ACKED]:
        return
    s.qp[q, ACKED] = psn + 1
    s.qp[q, PROGRESS] = now
    s.qp[q, TRIES] = 0
    s.qp[q, RNR_TRIES] = 0
    at = s.qp[q, DONE_MESSAGE]
    while at < s.qp[q, END_MESSAGE]:
        m = s.order[at]
        if s.message[m, M_PSN] + s.message[m, M_PACKETS] > psn + 1:
            break
        done = now + n.opt[CQE]
        if at > s.qp[q, FIRST_MESSAGE]:  # behind the data of a READ before it (IBA 9.7.5.1)
            done = max(done, s.message[s.order[at - 1], M_COMPLETED])
        completed(n, s, m, done)
        at += 1
    s.qp[q, DONE_MESSAGE] = at
    if s.qp[q, NEXT_PSN] < psn + 1:  # it had gone back for what arrived after all
        skip_to(s, q, psn + 1)
        if s.qp[q, IN_RING] and not 0 <= not_before(n, s, q) <= now:
            step_out(n, s, q)
            activate(n, s, q, now)


@inner
def step_out(n, s, q):
    """The requests of ``q`` do not take turns any more."""
    port, vl = s.qp[q, SRC], s.qp[q, OUT_VL]
    leave_ring(s, port, vl, port * n.opt[OPT_VLS] + vl, 2 * q)


@inner
def skip_to(s, q, psn):
    """The next packet that ``q`` sends is ``psn``."""
    at = s.qp[q, DONE_MESSAGE]
    while at < s.qp[q, END_MESSAGE]:
        m = s.order[at]
        if s.message[m, M_PSN] + s.message[m, M_PACKETS] > psn:
            break
        at += 1
    s.qp[q, CURRENT_MESSAGE] = at
    s.qp[q, NEXT_PSN] = psn


@inner
def go_back(n, s, q, now):
    """Send again from the first packet that is not acknowledged. Returns the port to look at."""
    if s.qp[q, ACKED] < s.qp[q, NEXT_PSN]:
        count_resent(s, q)
        skip_to(s, q, s.qp[q, ACKED])
        s.qp[q, READS_OUT] = 0
    s.qp[q, PROGRESS] = now
    return activate(n, s, q, now)


@inner
def count_resent(s, q):
    """The packets of ``q`` that are sent again, by message."""
    psn, end = s.qp[q, ACKED], s.qp[q, NEXT_PSN]
    at = s.qp[q, DONE_MESSAGE]
    while at < s.qp[q, END_MESSAGE] and s.message[s.order[at], M_PSN] < end:
        m = s.order[at]
        first, last = s.message[m, M_PSN], s.message[m, M_PSN] + s.message[m, M_PACKETS]
        s.resent[m] += max(min(last, end) - max(first, psn), np.int64(0))
        at += 1


@inner
def give_up(n, s, q, now):
    """The retries are exceeded: the queue pair is in error, and what it has not completed never will be. The run lasts until then."""
    s.reg[LAST] = max(s.reg[LAST], now)
    if s.qp[q, IN_RING]:
        step_out(n, s, q)
    s.reg[LEFT] -= s.qp[q, END_MESSAGE] - s.qp[q, DONE_MESSAGE]
    s.qp[q, END_MESSAGE] = s.qp[q, DONE_MESSAGE]
    s.qp[q, CURRENT_MESSAGE] = s.qp[q, DONE_MESSAGE]
    s.qp[q, TIMED] = 0


@inner
def timeout(n, s, port, q, now):
    """Nothing was acknowledged for the ACK timeout: send again, a limited number of times (IBA 9.7.6.1.3). Returns a port to look at."""
    if s.qp[q, ACKED] >= s.qp[q, NEXT_PSN]:
        s.qp[q, TIMED] = 0
        return np.int64(-1)
    due = s.qp[q, PROGRESS] + n.opt[TIMEOUT]
    if due > now:
        push_timer(s, due, word(port, TIMER, q))
        return np.int64(-1)
    s.qp[q, TRIES] += 1
    if s.qp[q, TRIES] > n.opt[RETRIES]:
        give_up(n, s, q, now)
        return np.int64(-1)
    push_timer(s, now + n.opt[TIMEOUT], word(port, TIMER, q))
    return go_back(n, s, q, now)
