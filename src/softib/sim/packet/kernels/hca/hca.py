"""Channel adapters as senders: streams of queue pairs take turns, one packet at a time.

A queue pair has two streams: requests (``2 * qp``) and, at the other end, responses to READs (``2 *
qp + 1``). A message is cut into packets of the path MTU. Its data is fetched from memory while
earlier packets are on the wire.

Streams with data to send form a ring at their port and VL; ``State.vl`` names the last stream of the ring.
"""

import numpy as np

from softib.jit import inner
from softib.sim.packet.constants import (
    ANSWER,
    ASKS_ACK,
    DATA,
    LAST_OF_MESSAGE,
    READ_REQUEST,
    READ_RESPONSE,
    STREAM,
    TIMER,
)
from softib.sim.packet.kernels.congestion.cct import waits_until
from softib.sim.packet.kernels.congestion.hooks import packet_sent, within_window
from softib.sim.packet.kernels.engine.events import push, push_timer, word
from softib.sim.packet.kernels.engine.pools import new_packet
from softib.sim.packet.kernels.hca.messages import RC, READ_OP, completed, request_octets, response_octets
from softib.sim.packet.kernels.link.credits import put_on_wire
from softib.sim.packet.kernels.switch.aggregation import is_node
from softib.sim.packet.kernels.switch.switch import cross


@inner
def next_stream(state, stream):
    """Return the stream after ``stream`` in its ring, plus 1."""
    return state.rc[stream >> 1].response_next if stream & 1 else state.qp[stream >> 1].ring_next


@inner
def link_stream(state, stream, following):
    """Set the successor of ``stream`` in its ring to ``following`` (a stream plus 1)."""
    if stream & 1:
        state.rc[stream >> 1].response_next = following
    else:
        state.qp[stream >> 1].ring_next = following


@inner
def join_ring(net, state, stream):
    """Add a stream with data to send to the ring of its port. Returns the port."""
    q = stream >> 1
    if stream & 1:
        port, vl = state.qp[q].dst, state.qp[q].back_vl
        state.rc[q].response_ring = 1
    else:
        port, vl = state.qp[q].src, state.qp[q].out_vl
        state.qp[q].in_ring = 1
    row = port * net.opt.vls + vl
    last = state.vl[row].ring
    if last == 0:
        link_stream(state, stream, stream + 1)
        state.port[port].ready |= np.int64(1) << vl
    else:
        link_stream(state, stream, next_stream(state, last - 1))
        link_stream(state, last - 1, stream + 1)
    state.vl[row].ring = stream + 1
    return port


@inner
def first_stream(state, row):
    """Return the stream whose turn it is at port VL ``row``."""
    return next_stream(state, np.int64(state.vl[row].ring) - 1) - 1


@inner
def rotate(state, port, vl, row, stream, stays):
    """End the turn of the stream: if ``stays``, it becomes the last of the ring, otherwise it leaves the ring."""
    if stays:
        state.vl[row].ring = stream + 1
        return
    if stream & 1:
        state.rc[stream >> 1].response_ring = 0
    else:
        state.qp[stream >> 1].in_ring = 0
    last = np.int64(state.vl[row].ring) - 1
    if last == stream:
        state.vl[row].ring = 0
        if state.vl_more[row].control == 0:
            state.port[port].ready &= ~(np.int64(1) << vl)
        return
    link_stream(state, last, next_stream(state, stream))


@inner
def leave_ring(state, port, vl, row, stream):
    """Remove the stream from any position of the ring."""
    last = state.vl[row].ring
    while first_stream(state, row) != stream:
        state.vl[row].ring = first_stream(state, row) + 1
    rotate(state, port, vl, row, stream, False)
    if state.vl[row].ring and last != stream + 1:
        state.vl[row].ring = last


SLOWED = 2
"""Value of ``RESPONSE_RING``: there are responses to send, but they are delayed."""


@inner
def not_before(net, state, q):
    """Return when the queue pair may send its next request, -1 while it waits for another event: a
    message to be posted, a READ to end."""
    at = state.qp[q].current_message
    if at >= state.qp[q].end_message:
        return np.int64(-1)
    m = state.order[at]
    posted = state.message[m].posted
    if posted == 0:
        return np.int64(-1)
    opcode = state.message[m].opcode
    if (opcode >= READ_OP) and state.rc[q].reads_out >= net.opt.reads:
        return np.int64(-1)
    if not within_window(net, state, q):
        return np.int64(-1)
    return max(posted - 1, state.qp[q].not_before)


@inner
def activate(net, state, q, now):
    """Add the requests of ``q`` to the ring as soon as permitted. Returns the port to check, -1
    for none."""
    if state.qp[q].in_ring:
        return np.int64(-1)
    t = not_before(net, state, q)
    if t < 0:
        return np.int64(-1)
    if t <= now:
        return join_ring(net, state, 2 * q)
    if state.qp[q].wake <= now or t < state.qp[q].wake:
        state.qp[q].wake = t
        push(state, t, word(state.qp[q].src, STREAM, q))
    return np.int64(-1)


@inner
def send_stream(net, state, port, vl, row, now):
    """Send a packet of the stream whose turn it is; return its bytes."""
    stream = first_stream(state, row)
    if stream & 1:
        return send_response(net, state, port, vl, row, stream, now)
    return send_request(net, state, port, vl, row, stream, now)


@inner
def memory_fs(net, state, q, m, psn):
    """Return the time in fs per byte for a packet of message ``m`` from or to memory."""
    return net.opt.ramp_fs if (psn - state.message[m].psn) * state.qp[q].payload < net.opt.ramp else net.opt.dma_fs


@inner
def fetched(net, state, port, since, octets, fs):
    """Return two times. The first is when ``octets`` further bytes of a message are fetched at its
    own rate, ``fs`` per byte, if earlier bytes were fetched at ``since``. The second is when the adapter of ``port``
    has them, which fetches all its messages together at the port's rate at most."""
    alone = since + (octets * fs + 500) // 1000
    together = max(state.port[port].dma_free, since) + (octets * net.opt.dma_fs + 500) // 1000
    state.port[port].dma_free = together
    return alone, max(alone, together)


@inner
def send_request(net, state, port, vl, row, stream, now):
    """Send a packet of requests: data, or a request for data."""
    q = stream >> 1
    m, psn = state.order[state.qp[q].current_message], state.qp[q].next_psn
    octets = request_octets(state, q)
    asks = state.message[m].opcode >= READ_OP
    first = state.message[m].psn
    end_psn = first + state.message[m].packets
    last = asks or psn + 1 == end_psn
    start = now
    inside = is_node(net, port)
    if psn == first and not inside:
        start = max(start, state.port[port].gate)
        state.port[port].gate = start + net.opt.message_gap_ps
    if not asks and state.message[m].length > net.opt.inline and not inside:
        if psn == first:
            state.qp[q].fetched = state.message[m].posted - 1
        state.qp[q].fetched, there = fetched(
            net, state, port, state.qp[q].fetched, octets, memory_fs(net, state, q, m, psn)
        )
        start = max(start, there)
    flags = np.int64(0)
    if last:
        flags = LAST_OF_MESSAGE | ASKS_ACK
    elif state.qp[q].service == RC and (psn - first) % net.opt.ack_every == net.opt.ack_every - 1:
        flags = ASKS_ACK
    kind = READ_REQUEST if asks else DATA
    k = new_packet(state, stream, psn, octets, state.message[m].lid, state.qp[q].sl, kind, flags)
    end = put_on_wire(net, state, port, row, k, start)
    cross(net, state, port, vl, k, start)
    state.reg.sent += 1
    state.qp[q].next_psn = end_psn if asks else psn + 1
    if last:
        state.qp[q].current_message += 1
        if asks:
            state.rc[q].reads_out += 1
        elif state.qp[q].service != RC:
            state.qp[q].done_message += 1
            completed(net, state, m, end + net.opt.cqe_ps)
    if state.qp[q].service == RC and state.rc[q].timed == 0:
        state.rc[q].timed = 1
        state.rc[q].progress = now
        push_timer(state, now + net.opt.timeout_ps, word(port, TIMER, q))
    pace(net, state, q, k, start, end)
    t = not_before(net, state, q)
    # A stream that can continue when the link is free keeps its turn; a stream that is delayed longer must not block
    # the others.
    rotate(state, port, vl, row, stream, 0 <= t <= end)
    if t > end:
        activate(net, state, q, now)
    return octets


@inner
def pace(net, state, q, k, start, end):
    """Set the time at which the requests of ``q`` may continue after packet ``k``, with their static rate and
    congestion control."""
    packet_sent(net, state, q, k, start, end)
    until = waits_until(net, state, 2 * q, start, end)
    if until:
        state.qp[q].not_before = until


@inner
def resume(net, state, port, q, now):
    """Resume a stream of ``q`` at ``port``: delayed responses, or requests. Returns the
    port to check."""
    if state.qp[q].dst == port and state.rc[q].response_ring == SLOWED and state.rc[q].back_not_before <= now:
        join_ring(net, state, 2 * q + 1)
        if state.qp[q].src != port:
            return port
    if state.qp[q].src != port:
        return np.int64(-1)
    return activate(net, state, q, now)


@inner
def slow_response(net, state, q):
    """Take delayed responses of ``q`` out of the ring, so that they do not block other streams."""
    state.rc[q].response_ring = SLOWED
    push(state, state.rc[q].back_not_before, word(state.qp[q].dst, STREAM, q))


@inner
def send_response(net, state, port, vl, row, stream, now):
    """Send the next packet of a response to a READ or atomic."""
    q = stream >> 1
    m, psn = state.order[state.rc[q].response], state.rc[q].response_psn
    octets = response_octets(state, q)
    last = psn + 1 == state.message[m].psn + state.message[m].packets
    flags = LAST_OF_MESSAGE if last else 0
    k = new_packet(state, stream, psn, octets, state.qp[q].back_lid, state.qp[q].sl, READ_RESPONSE, flags)
    state.rc[q].back_fetched, there = fetched(
        net, state, port, state.rc[q].back_fetched, octets, memory_fs(net, state, q, m, psn)
    )
    start = max(now, there)
    end = put_on_wire(net, state, port, row, k, start)
    cross(net, state, port, vl, k, start)
    state.reg.sent += 1
    state.rc[q].back_not_before = waits_until(net, state, stream, start, end)
    state.rc[q].response_psn = psn + 1
    stays = True
    if last:
        at = state.rc[q].response + 1
        while at < state.rc[q].response_end and state.message[state.order[at]].opcode < READ_OP:
            at += 1
        state.rc[q].response = at
        stays = at < state.rc[q].response_end
        if stays:
            state.rc[q].response_psn = state.message[state.order[at]].psn
    slowed = state.rc[q].back_not_before > end
    rotate(state, port, vl, row, stream, stays and not slowed)
    if stays and slowed:
        slow_response(net, state, q)
    if not stays and state.rc[q].unacked:
        push(state, now + net.opt.ack_delay_ps, word(port, ANSWER, q))
    return octets
