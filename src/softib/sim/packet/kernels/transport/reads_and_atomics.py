"""READs and atomics: the responder answers requests in order, and the requester counts responses (IBA 9.7.5)."""

import numpy as np

from softib.jit import inner
from softib.sim.packet.constants import ANSWER, WINDOW_PACKETS
from softib.sim.packet.kernels.congestion.hooks import LOST_PACKETS
from softib.sim.packet.kernels.engine.events import push, word
from softib.sim.packet.kernels.hca.hca import activate, join_ring, slow_response
from softib.sim.packet.kernels.hca.messages import READ_OP, arrived, completed
from softib.sim.packet.kernels.hca.reorder_buffer import forget, keep, kept
from softib.sim.packet.kernels.transport.retransmission import acknowledged, go_back


@inner
def message_of(state, q, psn):
    """Return the message of ``q`` that packet ``psn`` belongs to, searched from the receiver's
    current one."""
    at = state.qp[q].rx_message
    while psn >= state.message[state.order[at]].psn + state.message[state.order[at]].packets:
        at += 1
    while psn < state.message[state.order[at]].psn:
        at -= 1
    return at


@inner
def read_request(net, state, port, q, k, now):
    """Handle a READ or atomic request: its response takes turns with the other streams of ``port``.
    Returns the port to check."""
    psn, expected = np.int64(state.packet[k].psn), state.rc[q].expected
    if psn > expected:
        if not state.rc[q].naked:
            state.rc[q].naked = 1
            push(state, now + net.opt.ack_delay_ps, word(port, ANSWER, q))
        return np.int64(-1)
    at = message_of(state, q, psn)
    m = state.order[at]
    state.qp[q].rx_message = at
    state.rc[q].naked = 0
    state.rc[q].expected = max(expected, state.message[m].psn + state.message[m].packets)
    if state.rc[q].response_ring and psn >= state.rc[q].response_psn:
        state.rc[q].response_end = max(state.rc[q].response_end, at + 1)
        return np.int64(-1)
    state.rc[q].back_fetched = max(state.rc[q].back_fetched, now + net.opt.fetch_ps)
    state.rc[q].response = at
    state.rc[q].response_end = at + 1
    state.rc[q].response_psn = psn
    if state.rc[q].response_ring:
        return np.int64(-1)
    if state.rc[q].back_not_before > now:
        slow_response(net, state, q)
        return np.int64(-1)
    return join_ring(net, state, 2 * q + 1)


@inner
def message_before(state, q):
    """Return the first READ or atomic of ``q`` that is not done."""
    at = state.qp[q].done_message
    while state.message[state.order[at]].opcode < READ_OP:
        at += 1
    return state.order[at]


@inner
def read_response(net, state, q, k, t, now):
    """Handle a packet of a response. Returns a port to check, because the sender may now have room
    for another READ."""
    psn = np.int64(state.packet[k].psn)
    if psn < state.rc[q].acked:
        return np.int64(-1)
    if psn > state.rc[q].acked and state.message[state.order[state.qp[q].done_message]].opcode < READ_OP:
        # Earlier WRITEs have arrived: their acknowledgement was coalesced with this response.
        acknowledged(net, state, q, state.message[message_before(state, q)].psn - 1, now)
    if psn > state.rc[q].acked:
        if net.opt.placement and psn - state.rc[q].acked < WINDOW_PACKETS:
            keep(state, 2 * q + 1, psn, np.int64(0))
            if psn - state.rc[q].acked < LOST_PACKETS:
                return np.int64(-1)
        if state.rc[q].recovers == state.rc[q].acked + 1:
            return np.int64(-1)
        state.rc[q].recovers = state.rc[q].acked + 1
        return go_back(net, state, q, now)  # a response is missing: request it again, once (IBA 9.7.5.1)
    response_taken(net, state, q, psn, t, now)
    while net.opt.placement and kept(state, 2 * q + 1, state.rc[q].acked):
        forget(state, 2 * q + 1, state.rc[q].acked)
        response_taken(net, state, q, state.rc[q].acked, t, now)
    return activate(net, state, q, now)


@inner
def response_taken(net, state, q, psn, t, now):
    """Accept response ``psn``, the expected one; the last of a message completes it."""
    state.rc[q].acked = psn + 1
    state.rc[q].progress = now
    state.rc[q].tries = 0
    at = state.qp[q].done_message
    m = state.order[at]
    if psn + 1 == state.message[m].psn + state.message[m].packets:
        if at > state.qp[q].first_message and state.message[state.order[at - 1]].opcode >= READ_OP:
            t = max(
                t, state.message[state.order[at - 1]].arrived
            )  # in the order of requests, although a small one is written faster
        arrived(net, state, m, t)
        completed(net, state, m, t + net.opt.cqe_ps)
        state.qp[q].done_message = at + 1
        state.rc[q].reads_out = max(state.rc[q].reads_out - 1, np.int64(0))
