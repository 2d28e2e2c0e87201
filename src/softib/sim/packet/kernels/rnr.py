# mypy: ignore-errors
"""Receiver not ready (IBA 9.7.5.2.8): a SEND of RC takes a posted receive.

A queue pair's program posts so many receives at the begin, and each again a stated time after its message arrived. The responder answers the
first packet of a SEND that finds none with an RNR NAK, which names a timer (table 45), takes nothing until that packet comes again, and
the requester waits for that time. After more RNR NAKs in a row than its RNR retry count (7: no limit) the queue pair is in error.

UC and UD have no RNR NAK: a message that finds no receive is dropped, and its sender learns nothing (IBA chapter 9, unreliable services). So which receives are taken follows from
what was dropped, in the order of arrival.

All of it is local: when a receive is there again follows from the arrival of an earlier message at the same responder.
"""

import numpy as np

from softib.jit import inner
from softib.sim.packet.kernels.hca import activate
from softib.sim.packet.kernels.retransmission import acknowledged, give_up, skip_to, step_out
from softib.sim.packet.tables import (
    ACKED,
    HAS_RECEIVE,
    IN_RING,
    M_ARRIVED,
    M_RECEIVE,
    NEEDS_RECEIVE,
    NEXT_PSN,
    NOT_BEFORE,
    OUT_OF_BUFFER,
    PROGRESS,
    READS_OUT,
    RECEIVES_AT,
    RECEIVES_FREE,
    RECEIVES_LAST,
    REPOST,
    RNR_NAKS,
    RNR_PS,
    RNR_RETRIES,
    RNR_TRIES,
)  # fmt: skip

NO_LIMIT = 7
"""RNR retry count without a limit (of its 3 bits the largest)."""


@inner
def ready_for(s, q, m, now):
    """Is a receive posted for message ``m`` of ``q``? It is that of the SEND so many before it, once its program has posted it again."""
    before = s.message[m, M_RECEIVE]
    if before == 0:
        return True
    arrived_at = s.message[before - 1, M_ARRIVED]
    return arrived_at >= 0 and arrived_at + s.qp[q, REPOST] <= now


@inner
def finds_receive(s, q, at, now):
    """UC and UD: does the message ``at`` of ``q`` find a receive, if it takes one? Receives are posted again in the order in which they were taken, which is not that of the
    messages where datagrams overtake each other (adaptive routing); those of messages that were lost on their way are free at once."""
    m = s.order[at]
    if s.message[m, M_RECEIVE] != NEEDS_RECEIVE:
        return True
    while s.qp[q, RECEIVES_AT]:
        before = s.qp[q, RECEIVES_AT] - 1
        if s.message[before, M_ARRIVED] >= 0 and s.message[before, M_ARRIVED] + s.qp[q, REPOST] > now:
            break
        s.qp[q, RECEIVES_FREE] += 1
        s.qp[q, RECEIVES_AT] = HAS_RECEIVE - s.message[before, M_RECEIVE]
    if s.qp[q, RECEIVES_FREE] == 0:
        s.qp[q, OUT_OF_BUFFER] += 1
        return False
    s.qp[q, RECEIVES_FREE] -= 1
    s.message[m, M_RECEIVE] = HAS_RECEIVE
    if s.qp[q, RECEIVES_AT]:
        s.message[s.qp[q, RECEIVES_LAST], M_RECEIVE] = HAS_RECEIVE - (m + 1)
    else:
        s.qp[q, RECEIVES_AT] = m + 1
    s.qp[q, RECEIVES_LAST] = m
    return True


@inner
def not_ready(n, s, port, q, psn, now):
    """An RNR NAK about packet ``psn`` came to the requester. Returns the port to look at."""
    s.rare_count[port, RNR_NAKS] += 1
    if psn < s.qp[q, ACKED] or psn >= s.qp[q, NEXT_PSN]:  # of a packet that has arrived since, or is to be sent again
        return np.int64(-1)
    acknowledged(n, s, q, psn - 1, now)
    s.qp[q, RNR_TRIES] += 1
    if n.opt[RNR_RETRIES] < NO_LIMIT and s.qp[q, RNR_TRIES] > n.opt[RNR_RETRIES]:
        give_up(n, s, q, now)
        return np.int64(-1)
    skip_to(s, q, s.qp[q, ACKED])
    s.qp[q, READS_OUT] = 0
    s.qp[q, NOT_BEFORE] = now + n.opt[RNR_PS]
    s.qp[q, PROGRESS] = now + n.opt[RNR_PS]
    if s.qp[q, IN_RING]:
        step_out(n, s, q)
    return activate(n, s, q, now)
