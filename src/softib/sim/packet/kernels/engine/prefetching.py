"""Prefetching of memory for later events: in a large network, each event accesses a dozen rows that no cache contains.
A row must be fetched before it can name further rows, so there are six steps with some time between them. They fetch:
the rows that the event names; the rows that its packet or port refers to; the output port, or the queue or message
whose turn it is; the queue that a packet may have to wait in, or the packet that is sent next; the port through which
that packet entered; and the port that gets credits for it. The events of a bucket are sorted, so each step works a few
events ahead in that order (:func:`fetch_due`). If buckets hold few events, the first two steps work on the next two
buckets (:func:`scout`). Prefetching never changes a result.
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
"""Number of events by which each step is ahead of the event for which it fetches."""
CROWDED = 64
"""Number of events in a bucket above which prefetching follows their order."""


@inner
def fetch_qp(state, q):
    """Fetch queue pair ``q``."""
    for line in range(3):
        prefetch(state.qp, q, line)
    for line in range(2):
        prefetch(state.rc, q, line)


@inner
def output_of(net, state, entity, k):
    """Return the port in the forwarding table for packet ``k``, which entered through port ``entity``; -1 if there is
    none."""
    dlid = np.int64(state.packet[k].dlid)
    if dlid >= net.lft.shape[1]:
        return np.int64(-1)
    num = np.int64(net.lft[net.port[entity].switch, dlid])
    return net.port[entity].port_0 + num if num < net.port[entity].ports else np.int64(-1)


@inner
def fetch_named(net, state, event):
    """First step: fetch the rows that the event ``event`` names."""
    entity, kind, payload = event >> 32, event >> 28 & 15, event & 0xFFFFFFF
    prefetch(net.port, entity, 0)
    prefetch(state.port, entity, 0)
    if kind in (ARRIVE, RECEIVE):
        prefetch(state.packet, payload, 0)
        if kind == RECEIVE:
            prefetch(state.port, entity, 1)
    elif kind == LOOK:
        prefetch(state.vl, entity * net.opt.vls, 0)
    elif kind == ANSWER:
        fetch_qp(state, payload)


@inner
def fetch_of_packet(net, state, event):
    """Second step: fetch the rows that the event's packet refers to, and the port that sends on its link; for an event
    of a port, the queue that had the last turn there."""
    entity, kind, payload = event >> 32, event >> 28 & 15, event & 0xFFFFFFF
    if kind == ARRIVE:
        dlid = np.int64(state.packet[payload].dlid)
        if dlid < net.lft.shape[1]:
            prefetch(net.lft, net.port[entity].switch, dlid)
    elif kind == RECEIVE:
        fetch_qp(state, np.int64(state.packet[payload].stream) >> 1)
    if kind in (ARRIVE, RECEIVE):
        prefetch(state.vl, net.port[entity].peer * net.opt.vls, 0)
    elif kind == LOOK:
        row = entity * net.opt.vls
        last = state.vl[row].ring - 1
        if net.port[entity].kind == END_PORT:
            prefetch(state.vl_more, row, 0)
            prefetch(state.port, entity, 1)
            fetch_qp(state, last >> 1)
        else:
            prefetch(state.voq, last, 0)
    elif kind == ANSWER:
        prefetch(state.vl_more, entity * net.opt.vls, 0)
        prefetch(state.vl, entity * net.opt.vls, 0)


@inner
def fetch_message(state, q, at):
    """Fetch the message at ``at`` in the order of sending."""
    if 0 <= q < state.qp.shape[0] and 0 <= at < state.qp[q].end_message:
        m = state.order[at]
        prefetch(state.message, m, 0)
        prefetch(state.message, m, 1)


@inner
def fetch_output(net, state, event):
    """Third step: fetch the output port of the event's packet; for an event of a port, the queue or message that it
    sends from."""
    entity, kind, payload = event >> 32, event >> 28 & 15, event & 0xFFFFFFF
    if kind == ARRIVE:
        out = output_of(net, state, entity, payload)
        prefetch(net.port, out, 0)
        prefetch(state.port, out, 0)
        prefetch(state.vl, out * net.opt.vls, 0)
    elif kind == RECEIVE:
        q = np.int64(state.packet[payload].stream) >> 1
        if 0 <= q < state.qp.shape[0]:
            fetch_message(state, q, state.qp[q].rx_message)
    elif kind == LOOK:
        last = np.int64(state.vl[entity * net.opt.vls].ring) - 1
        if last >= 0:
            if net.port[entity].kind == END_PORT:
                fetch_message(state, last >> 1, state.qp[last >> 1].current_message)
            else:
                prefetch(state.voq, state.voq[last].next - 1, 0)
                if state.port[entity].waiting:
                    prefetch(net.rare, entity, 0)


@inner
def next_packet(net, state, entity):
    """Return the packet that switch port ``entity`` sends next on its first VL, 0 for none."""
    last = np.int64(state.vl[entity * net.opt.vls].ring)
    return np.int64(state.voq[state.voq[last - 1].next - 1].head) if last else np.int64(0)


@inner
def fetch_queue(net, state, event):
    """Fourth step: fetch the queue in which the event's packet may have to wait; for an event of a port, the packet
    that it sends next."""
    entity, kind, payload = event >> 32, event >> 28 & 15, event & 0xFFFFFFF
    if kind == ARRIVE:
        out = output_of(net, state, entity, payload)
        if out >= 0:
            if state.port[out].waiting:
                prefetch(net.rare, out, 0)
            if (
                state.port[out].ready or state.port[out].free_at > state.reg.now
            ):  # otherwise it most probably leaves without waiting
                prefetch(state.voq, net.port[out].voq + net.port[entity].num * net.opt.vls, 0)
    elif kind == LOOK and net.port[entity].kind != END_PORT:
        prefetch(state.packet, next_packet(net, state, entity), 0)


@inner
def fetch_input(net, state, event):
    """Fifth step: fetch the port through which the next packet entered."""
    entity = event >> 32
    if event >> 28 & 15 == LOOK and net.port[entity].kind != END_PORT:
        came_in = state.packet[next_packet(net, state, entity)].came_in
        prefetch(net.port, came_in, 0)
        prefetch(state.port, came_in, 0)


@inner
def fetch_credits(net, state, event):
    """Sixth step: fetch the port that gets credits when the next packet has left."""
    entity = event >> 32
    if event >> 28 & 15 == LOOK and net.port[entity].kind != END_PORT:
        came_in = state.packet[next_packet(net, state, entity)].came_in
        prefetch(state.vl, net.port[came_in].peer * net.opt.vls, 0)


@inner
def next_place(state, at):
    """Return the event after ``at`` (4 × block + index) in the list of its bucket, 0 for none."""
    e = at >> 2
    if (at & 3) + 1 < state.event[e].count:
        return at + 1
    prefetch(state.event, state.event[e].next, 0)
    return state.event[e].next << 2


@inner
def scout(net, state):
    """Prefetch the rows of one more event in each of the next two buckets. Their lists must not have changed since
    :func:`~softib.sim.packet.kernels.engine.events.load`."""
    at = state.reg.first_scout
    if at:
        state.reg.first_scout = next_place(state, at)
        fetch_named(net, state, state.event[at >> 2].what[at & 3])
    at = state.reg.second_scout
    if at:
        state.reg.second_scout = next_place(state, at)
        fetch_of_packet(net, state, state.event[at >> 2].what[at & 3])


@inner
def fetch_first(net, state):
    """Prefetch the output ports of a bucket's first events, for which no earlier event of the bucket could do so. In a
    bucket with few events, prefetch those of all events."""
    many = state.reg.due_n
    for i in range(many if many < CROWDED else OUTPUT_AHEAD):
        fetch_output(net, state, state.due[i].what)


@inner
def fetch_due(net, state):
    """Prefetch for later events of this bucket; each step is a fixed number of events ahead."""
    at = state.reg.due_at
    left = state.reg.due_n - at
    if state.reg.due_n < CROWDED:
        if left > 1:
            fetch_queue(net, state, state.due[at + 1].what)
        return
    block = state.reg.next_block
    if block:
        state.reg.next_block = state.event[block].next
        prefetch(state.event, state.reg.next_block, 0)
    if left > CREDITS_AHEAD:
        fetch_credits(net, state, state.due[at + CREDITS_AHEAD].what)
    if left > INPUT_AHEAD:
        fetch_input(net, state, state.due[at + INPUT_AHEAD].what)
    if left > QUEUE_AHEAD:
        fetch_queue(net, state, state.due[at + QUEUE_AHEAD].what)
    if left > OUTPUT_AHEAD:
        fetch_output(net, state, state.due[at + OUTPUT_AHEAD].what)
    if left > PACKET_AHEAD:
        fetch_of_packet(net, state, state.due[at + PACKET_AHEAD].what)
    if left > NAMED_AHEAD:
        fetch_named(net, state, state.due[at + NAMED_AHEAD].what)
