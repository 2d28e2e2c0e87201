# mypy: ignore-errors
"""READs and atomics: the responder answers in the order of requests, the requester counts responses (IBA 9.7.5)."""

import numpy as np

from softib.jit import inner
from softib.sim.packet.constants import ANSWER, WINDOW_PACKETS
from softib.sim.packet.kernels.engine.events import push, word
from softib.sim.packet.kernels.hca.hca import activate, slow_response
from softib.sim.packet.kernels.hca.messages import arrived, completed
from softib.sim.packet.kernels.hca.packet_sizes import READ_OP
from softib.sim.packet.kernels.hca.placement import LOST_PACKETS, forget, keep, kept
from softib.sim.packet.kernels.hca.streams import join_ring
from softib.sim.packet.kernels.transport.retransmission import acknowledged, go_back


@inner
def message_of(s, q, psn):
    """The message of ``q`` that packet ``psn`` belongs to, searched from the one that the receiver is at."""
    at = s.qp[q].rx_message
    while psn >= s.message[s.order[at]].psn + s.message[s.order[at]].packets:
        at += 1
    while psn < s.message[s.order[at]].psn:
        at -= 1
    return at


@inner
def read_request(n, s, port, q, k, now):
    """A READ or atomic arrived: its response takes turns with the other streams of ``port``. Returns the port to look at."""
    psn, expected = np.int64(s.packet[k].psn), s.rc[q].expected
    if psn > expected:
        if not s.rc[q].naked:
            s.rc[q].naked = 1
            push(s, now + n.opt.ack_delay_ps, word(port, ANSWER, q))
        return np.int64(-1)
    at = message_of(s, q, psn)
    m = s.order[at]
    s.qp[q].rx_message = at
    s.rc[q].naked = 0
    s.rc[q].expected = max(expected, s.message[m].psn + s.message[m].packets)
    if s.rc[q].response_ring and psn >= s.rc[q].response_psn:
        s.rc[q].response_end = max(s.rc[q].response_end, at + 1)
        return np.int64(-1)
    s.rc[q].back_fetched = max(s.rc[q].back_fetched, now + n.opt.fetch_ps)
    s.rc[q].response = at
    s.rc[q].response_end = at + 1
    s.rc[q].response_psn = psn
    if s.rc[q].response_ring:
        return np.int64(-1)
    if s.rc[q].back_not_before > now:
        slow_response(n, s, q)
        return np.int64(-1)
    return join_ring(n, s, 2 * q + 1)


@inner
def message_before(s, q):
    """The first READ or atomic of ``q`` that is not done."""
    at = s.qp[q].done_message
    while s.message[s.order[at]].opcode < READ_OP:
        at += 1
    return s.order[at]


@inner
def read_response(n, s, q, k, t, now):
    """A packet of an answer. Returns a port to look at: the sender may have room for another READ."""
    psn = np.int64(s.packet[k].psn)
    if psn < s.rc[q].acked:
        return np.int64(-1)
    if psn > s.rc[q].acked and s.message[s.order[s.qp[q].done_message]].opcode < READ_OP:
        # Writes before it have arrived: their acknowledgement was coalesced with this response.
        acknowledged(n, s, q, s.message[message_before(s, q)].psn - 1, now)
    if psn > s.rc[q].acked:
        if n.opt.placement and psn - s.rc[q].acked < WINDOW_PACKETS:
            keep(s, 2 * q + 1, psn, np.int64(0))
            if psn - s.rc[q].acked < LOST_PACKETS:
                return np.int64(-1)
        if s.rc[q].recovers == s.rc[q].acked + 1:
            return np.int64(-1)
        s.rc[q].recovers = s.rc[q].acked + 1
        return go_back(n, s, q, now)  # a response is missing: ask for it again, once (IBA 9.7.5.1)
    response_taken(n, s, q, psn, t, now)
    while n.opt.placement and kept(s, 2 * q + 1, s.rc[q].acked):
        forget(s, 2 * q + 1, s.rc[q].acked)
        response_taken(n, s, q, s.rc[q].acked, t, now)
    return activate(n, s, q, now)


@inner
def response_taken(n, s, q, psn, t, now):
    """Response ``psn`` is the one that was expected; the last of a message completes it."""
    s.rc[q].acked = psn + 1
    s.rc[q].progress = now
    s.rc[q].tries = 0
    at = s.qp[q].done_message
    m = s.order[at]
    if psn + 1 == s.message[m].psn + s.message[m].packets:
        if at > s.qp[q].first_message and s.message[s.order[at - 1]].opcode >= READ_OP:
            t = max(
                t, s.message[s.order[at - 1]].arrived
            )  # in the order of the requests, as a small one is written faster
        arrived(n, s, m, t)
        completed(n, s, m, t + n.opt.cqe_ps)
        s.qp[q].done_message = at + 1
        s.rc[q].reads_out = max(s.rc[q].reads_out - 1, np.int64(0))
