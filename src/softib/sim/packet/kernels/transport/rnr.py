"""Receiver not ready (IBA 9.7.5.2.8): a SEND of RC takes a posted receive.

A queue pair's program posts a number of receives at the start, and each again a given time after
its message arrived. The responder answers the first packet of a SEND that finds none with an RNR
NAK, which names a timer (table 45), takes nothing until that packet comes again, and the requester
waits for that time. After more RNR NAKs in a row than its RNR retry count (7: no limit) the queue
pair is in error.

UC and UD have no RNR NAK: a message that finds no receive is dropped, and its sender learns nothing
(IBA chapter 9, unreliable services). So which receives are taken follows from what was dropped, in
the order of arrival.

All of it is local: when a receive is there again follows from the arrival of an earlier message at
the same responder.
"""

import numpy as np

from softib.jit import inner
from softib.sim.packet.constants import HAS_RECEIVE, NEEDS_RECEIVE
from softib.sim.packet.kernels.hca.hca import activate
from softib.sim.packet.kernels.transport.retransmission import acknowledged, give_up, skip_to, step_out

NO_LIMIT = 7
"""RNR retry count without a limit (of its 3 bits the largest)."""


@inner
def ready_for(state, q, m, now):
    """Is a receive posted for message ``m`` of ``q``? It is that of the SEND so many before it,
    once its program has posted it again."""
    before = state.message[m].receive
    if before == 0:
        return True
    arrived_at = state.message[before - 1].arrived
    return arrived_at >= 0 and arrived_at + state.qp[q].repost <= now


@inner
def finds_receive(state, q, at, now):
    """UC and UD: does the message ``at`` of ``q`` find a receive, if it takes one? Receives are
    posted again in the order in which they were taken, which is not that of the messages where
    datagrams overtake each other (adaptive routing); those of messages that were lost on their way
    are free at once."""
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
    """An RNR NAK about packet ``psn`` came to the requester. Returns the port to look at."""
    state.rare_count[port].rnr_naks += 1
    if (
        psn < state.rc[q].acked or psn >= state.qp[q].next_psn
    ):  # of a packet that has arrived since, or is to be sent again
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
