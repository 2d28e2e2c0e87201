# mypy: ignore-errors
"""Memory is fetched ahead of events: in a large network each event touches a dozen rows that no cache has.

What an event names leads to rows that lead to others, so there are four steps, each with time before the next: ports and packets; then
destinations, queue pairs and who gets credits; then the output port; then its queue and its peer. The events of a bucket are sorted, so each
step goes a few events ahead in their order (:func:`fetch_due`). Where buckets hold few, the first two steps look at the next two buckets
(:func:`scout`). None of it changes what happens, or when.
"""

import numpy as np

from softib.jit import inner, prefetch
from softib.sim.packet.tables import (
    ARRIVE,
    BASE,
    CREDITS,
    DLID,
    DUE_AT,
    DUE_N,
    END_PORT,
    FIRST_SCOUT,
    FREE,
    KIND,
    LAST_CREDIT,
    LOOK,
    NOW,
    NUM,
    OPT_VLS,
    PEER,
    PORTS,
    Q_HEAD,
    Q_NEXT,
    QP,
    READY,
    RECEIVE,
    RING,
    SECOND_SCOUT,
    SWITCH,
    VOQ,
)  # fmt: skip

LINE = 8
"""int64 columns of a cache line."""
QUEUE_AHEAD, OUTPUT_AHEAD, PACKET_AHEAD, NAMED_AHEAD = 3, 7, 12, 18
"""Events between a step and its event."""
CROWDED = 64
"""Events of a bucket from which on they are fetched in their order."""
QP_LINES = (0, 1, 2, 4)
"""Cache lines of a queue pair that senders and receivers of data look at."""


@inner
def fetch_qp(s, q):
    """Fetch queue pair ``q``."""
    for line in QP_LINES:
        prefetch(s.qp, q, LINE * line)


@inner
def output_of(n, s, entity, k):
    """The port that the forwarding table has for packet ``k``, which came in by ``entity``; -1 for none."""
    dlid = np.int64(s.packet[k, DLID])
    if dlid >= n.lft.shape[1]:
        return np.int64(-1)
    num = np.int64(n.lft[n.port[entity, SWITCH], dlid])
    return n.port[entity, BASE] + num if num < n.port[entity, PORTS] else np.int64(-1)


@inner
def fetch_named(n, s, what):
    """First step: the rows that the event ``what`` names."""
    entity, kind, payload = what >> 32, what >> 28 & 15, what & 0xFFFFFFF
    prefetch(n.port, entity, 0)
    prefetch(s.port, entity, 0)
    if kind in (ARRIVE, RECEIVE):
        prefetch(s.packet, payload, 0)
        if kind == RECEIVE:
            prefetch(s.port, entity, LINE)
    elif kind == LOOK:
        prefetch(s.vl, entity * n.opt[OPT_VLS], 0)


@inner
def fetch_of_packet(n, s, what):
    """Second step: what its packet leads to, and the sender of its link."""
    entity, kind, payload = what >> 32, what >> 28 & 15, what & 0xFFFFFFF
    if kind == ARRIVE:
        dlid = np.int64(s.packet[payload, DLID])
        if dlid < n.lft.shape[1]:
            prefetch(n.lft, n.port[entity, SWITCH], dlid)
    elif kind == RECEIVE:
        fetch_qp(s, np.int64(s.packet[payload, QP]) >> 1)
    if kind in (ARRIVE, RECEIVE):
        prefetch(s.vl, n.port[entity, PEER] * n.opt[OPT_VLS], 0)


@inner
def fetch_output(n, s, what):
    """Third step: the output port, or what a port has to send."""
    entity, kind, payload = what >> 32, what >> 28 & 15, what & 0xFFFFFFF
    if kind in (ARRIVE, RECEIVE):
        prefetch(s.credit, s.vl[n.port[entity, PEER] * n.opt[OPT_VLS], LAST_CREDIT], 0)
    if kind == ARRIVE:
        out = output_of(n, s, entity, payload)
        prefetch(n.port, out, 0)
        prefetch(s.port, out, 0)
        prefetch(s.vl, out * n.opt[OPT_VLS], 0)
    elif kind == LOOK:
        row = entity * n.opt[OPT_VLS]
        last = s.vl[row, RING] - 1
        prefetch(s.credit, s.vl[row, CREDITS], 0)
        if n.port[entity, KIND] == END_PORT:
            fetch_qp(s, last >> 1)
        else:
            prefetch(s.voq, last, 0)


@inner
def fetch_queue(n, s, what):
    """Fourth step: the queue at the output port, its peer, its credits; or the packet that is sent next."""
    entity, kind, payload = what >> 32, what >> 28 & 15, what & 0xFFFFFFF
    if kind == ARRIVE:
        out = output_of(n, s, entity, payload)
        if out >= 0:
            if s.ready[out, READY] or s.port[out, FREE] > s.reg[NOW]:  # else it will most probably go straight
                prefetch(s.voq, n.port[out, VOQ] + n.port[entity, NUM] * n.opt[OPT_VLS], 0)
            prefetch(s.credit, s.vl[out * n.opt[OPT_VLS], CREDITS], 0)
    elif kind == LOOK and n.port[entity, KIND] != END_PORT:
        last = s.vl[entity * n.opt[OPT_VLS], RING]
        if last:
            prefetch(s.packet, s.voq[s.voq[last - 1, Q_NEXT] - 1, Q_HEAD], 0)


@inner
def scout(n, s):
    """Go one event on in each of the next two buckets; the lists are as :func:`~softib.sim.packet.kernels.events.load` found them."""
    e = s.reg[FIRST_SCOUT]
    if e:
        following = s.event[e, 2]
        s.reg[FIRST_SCOUT] = following
        prefetch(s.event, following, 0)
        fetch_named(n, s, s.event[e, 1])
    e = s.reg[SECOND_SCOUT]
    if e:
        s.reg[SECOND_SCOUT] = s.event[e, 2]
        fetch_of_packet(n, s, s.event[e, 1])


@inner
def fetch_first(n, s):
    """Fetch the outputs of the first events of a bucket, which no event of it is ahead of; where it holds few, of all."""
    many = s.reg[DUE_N]
    for i in range(many if many < CROWDED else OUTPUT_AHEAD):
        fetch_output(n, s, s.due[i, 1])


@inner
def fetch_due(n, s):
    """Fetch for the events that follow in this bucket, each step so many events before its own."""
    at = s.reg[DUE_AT]
    left = s.reg[DUE_N] - at
    if s.reg[DUE_N] < CROWDED:
        if left > 1:
            fetch_queue(n, s, s.due[at + 1, 1])
        return
    if left > OUTPUT_AHEAD:
        fetch_output(n, s, s.due[at + OUTPUT_AHEAD, 1])
    if left > QUEUE_AHEAD:
        fetch_queue(n, s, s.due[at + QUEUE_AHEAD, 1])
    if left > NAMED_AHEAD:
        fetch_named(n, s, s.due[at + NAMED_AHEAD, 1])
    if left > PACKET_AHEAD:
        fetch_of_packet(n, s, s.due[at + PACKET_AHEAD, 1])
