# mypy: ignore-errors
"""Memory is fetched ahead of events: in a large network each event touches a dozen rows that no cache has.

What an event names leads to rows that lead to others, so there are six steps, each with time before the next: what it names; what the packet or the port
leads to; the output port, or the queue or message whose turn it is; the queue that a packet may have to wait in, or the packet that is sent next; the port
that this one came in by; and who gets credits for it. The events of a bucket are sorted, so each
step goes a few events ahead in their order (:func:`fetch_due`). Where buckets hold few, the first two steps look at the next two buckets
(:func:`scout`). None of it changes what happens, or when.
"""

import numpy as np

from softib.jit import inner, prefetch
from softib.sim.packet.constants import (
    ANSWER,
    ARRIVE,
    END_PORT,
    LOOK,
    RECEIVE,
)

CREDITS_AHEAD, INPUT_AHEAD, QUEUE_AHEAD, OUTPUT_AHEAD, PACKET_AHEAD, NAMED_AHEAD = 1, 2, 4, 7, 10, 14
"""Events between a step and its event."""
CROWDED = 64
"""Events of a bucket from which on they are fetched in their order."""


@inner
def fetch_qp(s, q):
    """Fetch queue pair ``q``."""
    for line in range(3):
        prefetch(s.qp, q, line)
    for line in range(2):
        prefetch(s.rc, q, line)


@inner
def output_of(n, s, entity, k):
    """The port that the forwarding table has for packet ``k``, which came in by ``entity``; -1 for none."""
    dlid = np.int64(s.packet[k].dlid)
    if dlid >= n.lft.shape[1]:
        return np.int64(-1)
    num = np.int64(n.lft[n.port[entity].switch, dlid])
    return n.port[entity].port_0 + num if num < n.port[entity].ports else np.int64(-1)


@inner
def fetch_named(n, s, what):
    """First step: the rows that the event ``what`` names."""
    entity, kind, payload = what >> 32, what >> 28 & 15, what & 0xFFFFFFF
    prefetch(n.port, entity, 0)
    prefetch(s.port, entity, 0)
    if kind in (ARRIVE, RECEIVE):
        prefetch(s.packet, payload, 0)
        if kind == RECEIVE:
            prefetch(s.port, entity, 1)
    elif kind == LOOK:
        prefetch(s.vl, entity * n.opt.vls, 0)
    elif kind == ANSWER:
        fetch_qp(s, payload)


@inner
def fetch_of_packet(n, s, what):
    """Second step: what its packet leads to, and the sender of its link; the queue that had the last turn at a port."""
    entity, kind, payload = what >> 32, what >> 28 & 15, what & 0xFFFFFFF
    if kind == ARRIVE:
        dlid = np.int64(s.packet[payload].dlid)
        if dlid < n.lft.shape[1]:
            prefetch(n.lft, n.port[entity].switch, dlid)
    elif kind == RECEIVE:
        fetch_qp(s, np.int64(s.packet[payload].stream) >> 1)
    if kind in (ARRIVE, RECEIVE):
        prefetch(s.vl, n.port[entity].peer * n.opt.vls, 0)
    elif kind == LOOK:
        row = entity * n.opt.vls
        last = s.vl[row].ring - 1
        if n.port[entity].kind == END_PORT:
            prefetch(s.vl_more, row, 0)
            prefetch(s.port, entity, 1)
            fetch_qp(s, last >> 1)
        else:
            prefetch(s.voq, last, 0)
    elif kind == ANSWER:
        prefetch(s.vl_more, entity * n.opt.vls, 0)
        prefetch(s.vl, entity * n.opt.vls, 0)


@inner
def fetch_message(s, q, at):
    """Fetch the message whose place in the order is ``at``."""
    if 0 <= q < s.qp.shape[0] and 0 <= at < s.qp[q].end_message:
        m = s.order[at]
        prefetch(s.message, m, 0)
        prefetch(s.message, m, 1)


@inner
def fetch_output(n, s, what):
    """Third step: the output port; what a port has to send."""
    entity, kind, payload = what >> 32, what >> 28 & 15, what & 0xFFFFFFF
    if kind == ARRIVE:
        out = output_of(n, s, entity, payload)
        prefetch(n.port, out, 0)
        prefetch(s.port, out, 0)
        prefetch(s.vl, out * n.opt.vls, 0)
    elif kind == RECEIVE:
        q = np.int64(s.packet[payload].stream) >> 1
        if 0 <= q < s.qp.shape[0]:
            fetch_message(s, q, s.qp[q].rx_message)
    elif kind == LOOK:
        last = np.int64(s.vl[entity * n.opt.vls].ring) - 1
        if last >= 0:
            if n.port[entity].kind == END_PORT:
                fetch_message(s, last >> 1, s.qp[last >> 1].current_message)
            else:
                prefetch(s.voq, s.voq[last].next - 1, 0)
                if s.port[entity].waiting:
                    prefetch(n.rare, entity, 0)


@inner
def next_packet(n, s, entity):
    """The packet that switch port ``entity`` sends next on its first VL, 0 for none."""
    last = np.int64(s.vl[entity * n.opt.vls].ring)
    return np.int64(s.voq[s.voq[last - 1].next - 1].head) if last else np.int64(0)


@inner
def fetch_queue(n, s, what):
    """Fourth step: the queue at the output port; or the packet that is sent next."""
    entity, kind, payload = what >> 32, what >> 28 & 15, what & 0xFFFFFFF
    if kind == ARRIVE:
        out = output_of(n, s, entity, payload)
        if out >= 0:
            if s.port[out].waiting:
                prefetch(n.rare, out, 0)
            if s.port[out].ready or s.port[out].free_at > s.reg.now:  # else it will most probably go straight
                prefetch(s.voq, n.port[out].voq + n.port[entity].num * n.opt.vls, 0)
    elif kind == LOOK and n.port[entity].kind != END_PORT:
        prefetch(s.packet, next_packet(n, s, entity), 0)


@inner
def fetch_input(n, s, what):
    """Fifth step: the port that the packet which is sent next came in by."""
    entity = what >> 32
    if what >> 28 & 15 == LOOK and n.port[entity].kind != END_PORT:
        came_in = s.packet[next_packet(n, s, entity)].came_in
        prefetch(n.port, came_in, 0)
        prefetch(s.port, came_in, 0)


@inner
def fetch_credits(n, s, what):
    """Sixth step: who gets credits when the packet that is sent next has left."""
    entity = what >> 32
    if what >> 28 & 15 == LOOK and n.port[entity].kind != END_PORT:
        came_in = s.packet[next_packet(n, s, entity)].came_in
        prefetch(s.vl, n.port[came_in].peer * n.opt.vls, 0)


@inner
def next_place(s, at):
    """The event after ``at`` (4 × block + place) in the list of its bucket, 0 for none."""
    e = at >> 2
    if (at & 3) + 1 < s.event[e].count:
        return at + 1
    prefetch(s.event, s.event[e].next, 0)
    return s.event[e].next << 2


@inner
def scout(n, s):
    """Go one event on in each of the next two buckets; the lists are as :func:`~softib.sim.packet.kernels.engine.events.load` found them."""
    at = s.reg.first_scout
    if at:
        s.reg.first_scout = next_place(s, at)
        fetch_named(n, s, s.event[at >> 2].what[at & 3])
    at = s.reg.second_scout
    if at:
        s.reg.second_scout = next_place(s, at)
        fetch_of_packet(n, s, s.event[at >> 2].what[at & 3])


@inner
def fetch_first(n, s):
    """Fetch the outputs of the first events of a bucket, which no event of it is ahead of; where it holds few, of all."""
    many = s.reg.due_n
    for i in range(many if many < CROWDED else OUTPUT_AHEAD):
        fetch_output(n, s, s.due[i].what)


@inner
def fetch_due(n, s):
    """Fetch for the events that follow in this bucket, each step so many events before its own."""
    at = s.reg.due_at
    left = s.reg.due_n - at
    if s.reg.due_n < CROWDED:
        if left > 1:
            fetch_queue(n, s, s.due[at + 1].what)
        return
    block = s.reg.next_block
    if block:
        s.reg.next_block = s.event[block].next
        prefetch(s.event, s.reg.next_block, 0)
    if left > CREDITS_AHEAD:
        fetch_credits(n, s, s.due[at + CREDITS_AHEAD].what)
    if left > INPUT_AHEAD:
        fetch_input(n, s, s.due[at + INPUT_AHEAD].what)
    if left > QUEUE_AHEAD:
        fetch_queue(n, s, s.due[at + QUEUE_AHEAD].what)
    if left > OUTPUT_AHEAD:
        fetch_output(n, s, s.due[at + OUTPUT_AHEAD].what)
    if left > PACKET_AHEAD:
        fetch_of_packet(n, s, s.due[at + PACKET_AHEAD].what)
    if left > NAMED_AHEAD:
        fetch_named(n, s, s.due[at + NAMED_AHEAD].what)
