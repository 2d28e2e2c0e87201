"""Senders of RC: completion by acknowledgements, and retransmission after a NAK or an ACK timeout
(IBA 9.7.6.1)."""

import numpy as np

from softib.jit import inner
from softib.sim.packet.constants import TIMER
from softib.sim.packet.kernels.congestion.hooks import lost
from softib.sim.packet.kernels.engine.events import push_timer, word
from softib.sim.packet.kernels.hca.hca import activate, leave_ring, not_before
from softib.sim.packet.kernels.hca.messages import completed


@inner
def acknowledged(net, state, q, psn, now):
    """Record that all packets of ``q`` up to ``psn`` are acknowledged (READs complete with their responses)."""
    if psn + 1 <= state.rc[q].acked:
        return
    state.rc[q].acked = psn + 1
    state.rc[q].progress = now
    state.rc[q].tries = 0
    state.rc[q].rnr_tries = 0
    at = state.qp[q].done_message
    while at < state.qp[q].end_message:
        m = state.order[at]
        if state.message[m].psn + state.message[m].packets > psn + 1:
            break
        done = now + net.opt.cqe_ps
        if at > state.qp[q].first_message:  # after the data of an earlier READ (IBA 9.7.5.1)
            done = max(done, state.message[state.order[at - 1]].completed)
        completed(net, state, m, done)
        at += 1
    state.qp[q].done_message = at
    if state.qp[q].next_psn < psn + 1:  # ``q`` went back for packets that had arrived
        skip_to(state, q, psn + 1)
        if state.qp[q].in_ring and not 0 <= not_before(net, state, q) <= now:
            step_out(net, state, q)
            activate(net, state, q, now)


@inner
def step_out(net, state, q):
    """Remove the requests of ``q`` from the ring."""
    port, vl = state.qp[q].src, state.qp[q].out_vl
    leave_ring(state, port, vl, port * net.opt.vls + vl, 2 * q)


@inner
def skip_to(state, q, psn):
    """Set the next packet that ``q`` sends to ``psn``."""
    at = state.qp[q].done_message
    while at < state.qp[q].end_message:
        m = state.order[at]
        if state.message[m].psn + state.message[m].packets > psn:
            break
        at += 1
    state.qp[q].current_message = at
    state.qp[q].next_psn = psn


@inner
def go_back(net, state, q, now):
    """Resend missing packets: by default go-back-N. Returns the port to check."""
    return go_back_n(net, state, q, now)


@inner
def go_back_n(net, state, q, now):
    """Resend from the first unacknowledged packet. Returns the port to check."""
    if state.rc[q].acked < state.qp[q].next_psn:
        lost(net, state, 2 * q, state.rc[q].tries, now)
        count_resent(state, q)
        skip_to(state, q, state.rc[q].acked)
        state.rc[q].reads_out = 0
    state.rc[q].progress = now
    return activate(net, state, q, now)


@inner
def count_resent(state, q):
    """Count the resent packets of ``q``, by message."""
    psn, end = state.rc[q].acked, state.qp[q].next_psn
    at = state.qp[q].done_message
    while at < state.qp[q].end_message and state.message[state.order[at]].psn < end:
        m = state.order[at]
        first, last = state.message[m].psn, state.message[m].psn + state.message[m].packets
        state.resent[m] += max(min(last, end) - max(first, psn), np.int64(0))
        at += 1


@inner
def give_up(net, state, q, now):
    """Retries are exhausted: set the queue pair to the error state; its incomplete messages never
    complete."""
    state.reg.last = max(state.reg.last, now)
    if state.qp[q].in_ring:
        step_out(net, state, q)
    state.reg.left -= state.qp[q].end_message - state.qp[q].done_message
    state.qp[q].end_message = state.qp[q].done_message
    state.qp[q].current_message = state.qp[q].done_message
    state.rc[q].timed = 0


@inner
def timeout(net, state, port, q, now):
    """Handle an ACK timeout: resend, a limited number of times (IBA 9.7.6.1.3). Returns a port to
    check."""
    if state.rc[q].acked >= state.qp[q].next_psn:
        state.rc[q].timed = 0
        return np.int64(-1)
    due = state.rc[q].progress + net.opt.timeout_ps
    if due > now:
        push_timer(state, due, word(port, TIMER, q))
        return np.int64(-1)
    state.rc[q].tries += 1
    if state.rc[q].tries > net.opt.retries:
        give_up(net, state, q, now)
        return np.int64(-1)
    push_timer(state, now + net.opt.timeout_ps, word(port, TIMER, q))
    return go_back(net, state, q, now)
