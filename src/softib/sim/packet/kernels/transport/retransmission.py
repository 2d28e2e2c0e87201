# mypy: ignore-errors
"""Senders of RC: what an acknowledgement completes, and what is sent again after a NAK or an ACK timeout (IBA 9.7.6.1)."""

import numpy as np

from softib.jit import inner
from softib.sim.packet.constants import TIMER
from softib.sim.packet.kernels.engine.events import push_timer, word
from softib.sim.packet.kernels.hca.hca import activate, not_before
from softib.sim.packet.kernels.hca.messages import completed
from softib.sim.packet.kernels.hca.streams import leave_ring


@inner
def acknowledged(n, s, q, psn, now):
    """All packets of ``q`` up to ``psn`` arrived (READs are done by their responses)."""
    if psn + 1 <= s.rc[q].acked:
        return
    s.rc[q].acked = psn + 1
    s.rc[q].progress = now
    s.rc[q].tries = 0
    s.rc[q].rnr_tries = 0
    at = s.qp[q].done_message
    while at < s.qp[q].end_message:
        m = s.order[at]
        if s.message[m].psn + s.message[m].packets > psn + 1:
            break
        done = now + n.opt.cqe_ps
        if at > s.qp[q].first_message:  # behind the data of a READ before it (IBA 9.7.5.1)
            done = max(done, s.message[s.order[at - 1]].completed)
        completed(n, s, m, done)
        at += 1
    s.qp[q].done_message = at
    if s.qp[q].next_psn < psn + 1:  # it had gone back for what arrived after all
        skip_to(s, q, psn + 1)
        if s.qp[q].in_ring and not 0 <= not_before(n, s, q) <= now:
            step_out(n, s, q)
            activate(n, s, q, now)


@inner
def step_out(n, s, q):
    """The requests of ``q`` do not take turns any more."""
    port, vl = s.qp[q].src, s.qp[q].out_vl
    leave_ring(s, port, vl, port * n.opt.vls + vl, 2 * q)


@inner
def skip_to(s, q, psn):
    """The next packet that ``q`` sends is ``psn``."""
    at = s.qp[q].done_message
    while at < s.qp[q].end_message:
        m = s.order[at]
        if s.message[m].psn + s.message[m].packets > psn:
            break
        at += 1
    s.qp[q].current_message = at
    s.qp[q].next_psn = psn


@inner
def go_back(n, s, q, now):
    """Send again from the first packet that is not acknowledged. Returns the port to look at."""
    if s.rc[q].acked < s.qp[q].next_psn:
        count_resent(s, q)
        skip_to(s, q, s.rc[q].acked)
        s.rc[q].reads_out = 0
    s.rc[q].progress = now
    return activate(n, s, q, now)


@inner
def count_resent(s, q):
    """The packets of ``q`` that are sent again, by message."""
    psn, end = s.rc[q].acked, s.qp[q].next_psn
    at = s.qp[q].done_message
    while at < s.qp[q].end_message and s.message[s.order[at]].psn < end:
        m = s.order[at]
        first, last = s.message[m].psn, s.message[m].psn + s.message[m].packets
        s.resent[m] += max(min(last, end) - max(first, psn), np.int64(0))
        at += 1


@inner
def give_up(n, s, q, now):
    """The retries are exceeded: the queue pair is in error, and what it has not completed never will be. The run lasts until then."""
    s.reg.last = max(s.reg.last, now)
    if s.qp[q].in_ring:
        step_out(n, s, q)
    s.reg.left -= s.qp[q].end_message - s.qp[q].done_message
    s.qp[q].end_message = s.qp[q].done_message
    s.qp[q].current_message = s.qp[q].done_message
    s.rc[q].timed = 0


@inner
def timeout(n, s, port, q, now):
    """Nothing was acknowledged for the ACK timeout: send again, a limited number of times (IBA 9.7.6.1.3). Returns a port to look at."""
    if s.rc[q].acked >= s.qp[q].next_psn:
        s.rc[q].timed = 0
        return np.int64(-1)
    due = s.rc[q].progress + n.opt.timeout_ps
    if due > now:
        push_timer(s, due, word(port, TIMER, q))
        return np.int64(-1)
    s.rc[q].tries += 1
    if s.rc[q].tries > n.opt.retries:
        give_up(n, s, q, now)
        return np.int64(-1)
    push_timer(s, now + n.opt.timeout_ps, word(port, TIMER, q))
    return go_back(n, s, q, now)
