"""Receiver not ready (IBA 9.7.5.2.8): a SEND of RC needs a posted receive.

The program of a queue pair posts a number of receives at the start; it posts each again a given
time after the message arrived. If none is posted, the responder answers the first packet of a SEND
with an RNR NAK, which contains a timer code (table 45), and accepts nothing until that packet is
resent. The requester waits for the time of the code. If more RNR NAKs follow each other than its
RNR retry count permits (7: no limit), the queue pair goes to the error state.

UC and UD have no RNR NAK: a message without a posted receive is dropped, and its sender gets no
notice (IBA chapter 9, unreliable services). So the receive that a message takes depends on which earlier messages were
dropped. All of this is local: the time when a receive is posted again depends only on an earlier message at the same
responder.
"""

import numpy as np

from softib.jit import inner
from softib.sim.packet.constants import HAS_RECEIVE, NEEDS_RECEIVE
from softib.sim.packet.kernels.hca.hca import activate
from softib.sim.packet.kernels.transport.retransmission import acknowledged, give_up, skip_to, step_out

NO_LIMIT = 7
"""RNR retry count that means no limit (the largest value of its 3 bits)."""


@inner
def ready_for(state, q, m, now):
    """Return whether a receive is posted for message ``m`` of ``q``. If there are n receives, it
    reuses the receive of the n-th SEND before it, once the program has posted that again."""
    before = state.message[m].receive
    if before == 0:
        return True
    arrived_at = state.message[before - 1].arrived
    return arrived_at >= 0 and arrived_at + state.qp[q].repost <= now


@inner
def finds_receive(state, q, at, now):
    """For UC and UD, return whether a receive is posted for message ``at`` of ``q``, if it needs
    one. Receives are posted again in the order in which they were taken. That order differs from
    the order of messages if datagrams overtake each other (adaptive routing); messages lost on the
    path take no receive."""
    m = state.order[at]
    if state.message[m].receive != NEEDS_RECEIVE:
        return True
    while state.unreliable[q].receives_at:
        before = state.unreliable[q].receives_at - 1
        if state.message[before].arrived >= 0 and state.message[before].arrived + state.qp[q].repost > now:
            break
        state.unreliable[q].receives_free += 1
        state.unreliable[q].receives_at = HAS_RECEIVE - state.message[before].receive
    if state.unreliable[q].receives_free == 0:
        state.unreliable[q].out_of_buffer += 1
        return False
    state.unreliable[q].receives_free -= 1
    state.message[m].receive = HAS_RECEIVE
    if state.unreliable[q].receives_at:
        state.message[state.unreliable[q].receives_last].receive = HAS_RECEIVE - (m + 1)
    else:
        state.unreliable[q].receives_at = m + 1
    state.unreliable[q].receives_last = m
    return True


@inner
def not_ready(net, state, port, q, psn, now):
    """Handle an RNR NAK of packet ``psn`` at the requester. Returns the port to check."""
    state.rare_count[port].rnr_naks += 1
    if psn < state.rc[q].acked or psn >= state.qp[q].next_psn:  # of a packet that has arrived since, or will be resent
        return np.int64(-1)
    acknowledged(net, state, q, psn - 1, now)
    state.rc[q].rnr_tries += 1
    if net.opt.rnr_retries < NO_LIMIT and state.rc[q].rnr_tries > net.opt.rnr_retries:
        give_up(net, state, q, now)
        return np.int64(-1)
    skip_to(state, q, state.rc[q].acked)
    state.rc[q].reads_out = 0
    state.qp[q].not_before = now + net.opt.rnr_ps
    state.rc[q].progress = now + net.opt.rnr_ps
    if state.qp[q].in_ring:
        step_out(net, state, q)
    return activate(net, state, q, now)
