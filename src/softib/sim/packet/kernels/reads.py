# mypy: ignore-errors
"""READs and atomics: the responder answers in the order of requests, the requester counts responses (IBA 9.7.5)."""

import numpy as np

from softib.jit import inner
from softib.sim.packet.kernels.events import push, word
from softib.sim.packet.kernels.hca import activate, slow_response
from softib.sim.packet.kernels.packet_sizes import READ_OP
from softib.sim.packet.kernels.placement import LOST_PACKETS, forget, keep, kept
from softib.sim.packet.kernels.retransmission import acknowledged, go_back
from softib.sim.packet.kernels.streams import join_ring
from softib.sim.packet.kernels.work import arrived, completed
from softib.sim.packet.tables import (
    ACK_DELAY,
    ACKED,
    ANSWER,
    BACK_FETCHED,
    BACK_NOT_BEFORE,
    CQE,
    DONE_MESSAGE,
    EXPECTED,
    FETCH,
    FIRST_MESSAGE,
    M_ARRIVED,
    M_OPCODE,
    M_PACKETS,
    M_PSN,
    NAKED,
    PLACEMENT,
    PROGRESS,
    PSN,
    READS_OUT,
    RECOVERS,
    RESPONSE,
    RESPONSE_END,
    RESPONSE_PSN,
    RESPONSE_RING,
    RX_MESSAGE,
    TRIES,
    WINDOW_PACKETS,
)  # fmt: skip


@inner
def message_of(s, q, psn):
    """The message of ``q`` that packet ``psn`` belongs to, searched from the one that the receiver is at."""
    at = s.qp[q, RX_MESSAGE]
    while psn >= s.message[s.order[at], M_PSN] + s.message[s.order[at], M_PACKETS]:
        at += 1
    while psn < s.message[s.order[at], M_PSN]:
        at -= 1
    return at


@inner
def read_request(n, s, port, q, k, now):
    """A READ or atomic arrived: its response takes turns with the other streams of ``port``. Returns the port to look at."""
    psn, expected = np.int64(s.packet[k, PSN]), s.qp[q, EXPECTED]
    if psn > expected:
        if not s.qp[q, NAKED]:
            s.qp[q, NAKED] = 1
            push(s, now + n.opt[ACK_DELAY], word(port, ANSWER, q))
        return np.int64(-1)
    at = message_of(s, q, psn)
    m = s.order[at]
    s.qp[q, RX_MESSAGE] = at
    s.qp[q, NAKED] = 0
    s.qp[q, EXPECTED] = max(expected, s.message[m, M_PSN] + s.message[m, M_PACKETS])
    if s.qp[q, RESPONSE_RING] and psn >= s.qp[q, RESPONSE_PSN]:
        s.qp[q, RESPONSE_END] = max(s.qp[q, RESPONSE_END], at + 1)
        return np.int64(-1)
    s.qp[q, BACK_FETCHED] = max(s.qp[q, BACK_FETCHED], now + n.opt[FETCH])
    s.qp[q, RESPONSE] = at
    s.qp[q, RESPONSE_END] = at + 1
    s.qp[q, RESPONSE_PSN] = psn
    if s.qp[q, RESPONSE_RING]:
        return np.int64(-1)
    if s.qp[q, BACK_NOT_BEFORE] > now:
        slow_response(n, s, q)
        return np.int64(-1)
    return join_ring(n, s, 2 * q + 1)


@inner
def message_before(s, q):
    """The first READ or atomic of ``q`` that is not done."""
    at = s.qp[q, DONE_MESSAGE]
    while s.message[s.order[at], M_OPCODE] < READ_OP:
        at += 1
    return s.order[at]


@inner
def read_response(n, s, q, k, t, now):
    """A packet of an answer. Returns a port to look at: the sender may have room for another READ."""
    psn = np.int64(s.packet[k, PSN])
    if psn < s.qp[q, ACKED]:
        return np.int64(-1)
    if psn > s.qp[q, ACKED] and s.message[s.order[s.qp[q, DONE_MESSAGE]], M_OPCODE] < READ_OP:
        # Writes before it have arrived: their acknowledgement was coalesced with this response.
        acknowledged(n, s, q, s.message[message_before(s, q), M_PSN] - 1, now)
    if psn > s.qp[q, ACKED]:
        if n.opt[PLACEMENT] and psn - s.qp[q, ACKED] < WINDOW_PACKETS:
            keep(s, 2 * q + 1, psn, np.int64(0))
            if psn - s.qp[q, ACKED] < LOST_PACKETS:
                return np.int64(-1)
        if s.qp[q, RECOVERS] == s.qp[q, ACKED] + 1:
            return np.int64(-1)
        s.qp[q, RECOVERS] = s.qp[q, ACKED] + 1
        return go_back(n, s, q, now)  # a response is missing: ask for it again, once (IBA 9.7.5.1)
    response_taken(n, s, q, psn, t, now)
    while n.opt[PLACEMENT] and kept(s, 2 * q + 1, s.qp[q, ACKED]):
        forget(s, 2 * q + 1, s.qp[q, ACKED])
        response_taken(n, s, q, s.qp[q, ACKED], t, now)
    return activate(n, s, q, now)


@inner
def response_taken(n, s, q, psn, t, now):
    """Response ``psn`` is the one that was expected; the last of a message completes it."""
    s.qp[q, ACKED] = psn + 1
    s.qp[q, PROGRESS] = now
    s.qp[q, TRIES] = 0
    at = s.qp[q, DONE_MESSAGE]
    m = s.order[at]
    if psn + 1 == s.message[m, M_PSN] + s.message[m, M_PACKETS]:
        if at > s.qp[q, FIRST_MESSAGE] and s.message[s.order[at - 1], M_OPCODE] >= READ_OP:
            t = max(
                t, s.message[s.order[at - 1], M_ARRIVED]
            )  # in the order of the requests, as a small one is written faster
        arrived(n, s, m, t)
        completed(n, s, m, t + n.opt[CQE])
        s.qp[q, DONE_MESSAGE] = at + 1
        s.qp[q, READS_OUT] = max(s.qp[q, READS_OUT] - 1, np.int64(0))
