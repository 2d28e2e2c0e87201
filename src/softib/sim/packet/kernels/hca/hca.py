# mypy: ignore-errors
"""Channel adapters as senders: streams of queue pairs take turns, a packet at a time.

A queue pair has two streams: requests (``2 * qp``) and, at the other end, responses to READs (``2 * qp + 1``). A message is cut into
packets of the path MTU. Its data is fetched from memory while earlier packets are on the wire.
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
from softib.sim.packet.kernels.congestion.congestion_control import waits_until
from softib.sim.packet.kernels.engine.events import push, push_timer, word
from softib.sim.packet.kernels.engine.pools import new_packet
from softib.sim.packet.kernels.hca.messages import completed
from softib.sim.packet.kernels.hca.packet_sizes import RC, READ_OP, request_octets, response_octets
from softib.sim.packet.kernels.hca.streams import first_stream, join_ring, rotate
from softib.sim.packet.kernels.link.credits import put_on_wire
from softib.sim.packet.kernels.switch.aggregation import is_node
from softib.sim.packet.kernels.switch.switch import cross

SLOWED = 2
"""Of ``RESPONSE_RING``: there are responses to send, and they are slowed."""


@inner
def not_before(n, s, q):
    """When the queue pair may send its next request, -1 while it must wait for something else: a message to be posted, a READ to
    end."""
    at = s.qp[q].current_message
    if at >= s.qp[q].end_message:
        return np.int64(-1)
    m = s.order[at]
    posted = s.message[m].posted
    if posted == 0:
        return np.int64(-1)
    opcode = s.message[m].opcode
    if (opcode >= READ_OP) and s.rc[q].reads_out >= n.opt.reads:
        return np.int64(-1)
    return max(posted - 1, s.qp[q].not_before)


@inner
def activate(n, s, q, now):
    """Let the requests of ``q`` take turns as soon as they may. Returns the port to look at, -1 where there is none."""
    if s.qp[q].in_ring:
        return np.int64(-1)
    t = not_before(n, s, q)
    if t < 0:
        return np.int64(-1)
    if t <= now:
        return join_ring(n, s, 2 * q)
    if s.qp[q].wake <= now or t < s.qp[q].wake:
        s.qp[q].wake = t
        push(s, t, word(s.qp[q].src, STREAM, q))
    return np.int64(-1)


@inner
def send_stream(n, s, port, vl, row, now):
    """Send a packet of the stream whose turn it is; returns its octets."""
    stream = first_stream(s, row)
    if stream & 1:
        return send_response(n, s, port, vl, row, stream, now)
    return send_request(n, s, port, vl, row, stream, now)


@inner
def memory_fs(n, s, q, m, psn):
    """fs an octet that a packet of message ``m`` takes from or to memory."""
    return n.opt.ramp_fs if (psn - s.message[m].psn) * s.qp[q].payload < n.opt.ramp else n.opt.dma_fs


@inner
def fetched(n, s, port, since, octets, fs):
    """(when ``octets`` more of a message are fetched at its own rate, ``fs`` an octet, if the octets before them were at ``since``; when the adapter of ``port`` has
    them: all messages together come at most at the port's rate)"""
    alone = since + (octets * fs + 500) // 1000
    together = max(s.port[port].dma_free, since) + (octets * n.opt.dma_fs + 500) // 1000
    s.port[port].dma_free = together
    return alone, max(alone, together)


@inner
def send_request(n, s, port, vl, row, stream, now):
    """A packet of requests: data, or one that asks for data."""
    q = stream >> 1
    m, psn = s.order[s.qp[q].current_message], s.qp[q].next_psn
    octets = request_octets(s, q)
    asks = s.message[m].opcode >= READ_OP
    first = s.message[m].psn
    end_psn = first + s.message[m].packets
    last = asks or psn + 1 == end_psn
    start = now
    inside = is_node(n, port)
    if psn == first and not inside:
        start = max(start, s.port[port].gate)
        s.port[port].gate = start + n.opt.message_gap_ps
    if not asks and s.message[m].length > n.opt.inline and not inside:
        if psn == first:
            s.qp[q].fetched = s.message[m].posted - 1
        s.qp[q].fetched, there = fetched(n, s, port, s.qp[q].fetched, octets, memory_fs(n, s, q, m, psn))
        start = max(start, there)
    flags = np.int64(0)
    if last:
        flags = LAST_OF_MESSAGE | ASKS_ACK
    elif s.qp[q].service == RC and (psn - first) % n.opt.ack_every == n.opt.ack_every - 1:
        flags = ASKS_ACK
    what = READ_REQUEST if asks else DATA
    k = new_packet(s, stream, psn, octets, s.message[m].lid, s.qp[q].sl, what, flags)
    end = put_on_wire(n, s, port, row, k, start)
    cross(n, s, port, vl, k, start)
    s.reg.sent += 1
    s.qp[q].next_psn = end_psn if asks else psn + 1
    if last:
        s.qp[q].current_message += 1
        if asks:
            s.rc[q].reads_out += 1
        elif s.qp[q].service != RC:
            s.qp[q].done_message += 1
            completed(n, s, m, end + n.opt.cqe_ps)
    if s.qp[q].service == RC and s.rc[q].timed == 0:
        s.rc[q].timed = 1
        s.rc[q].progress = now
        push_timer(s, now + n.opt.timeout_ps, word(port, TIMER, q))
    pace(n, s, q, start, end)
    t = not_before(n, s, q)
    # What may go on when the link is free keeps its turn; what comes back later must not hold up the others.
    rotate(s, port, vl, row, stream, 0 <= t <= end)
    if t > end:
        activate(n, s, q, now)
    return octets


@inner
def pace(n, s, q, start, end):
    """When the requests of ``q`` may go on: their static rate, and what congestion control adds."""
    until = waits_until(n, s, 2 * q, start, end)
    if until:
        s.qp[q].not_before = until


@inner
def resume(n, s, port, q, now):
    """A stream of ``q`` at ``port`` may go on: responses that were slowed, or requests. Returns the port to look at."""
    if s.qp[q].dst == port and s.rc[q].response_ring == SLOWED and s.rc[q].back_not_before <= now:
        join_ring(n, s, 2 * q + 1)
        if s.qp[q].src != port:
            return port
    if s.qp[q].src != port:
        return np.int64(-1)
    return activate(n, s, q, now)


@inner
def slow_response(n, s, q):
    """Responses of ``q`` wait outside the ring for their time, so that they hold up nobody."""
    s.rc[q].response_ring = SLOWED
    push(s, s.rc[q].back_not_before, word(s.qp[q].dst, STREAM, q))


@inner
def send_response(n, s, port, vl, row, stream, now):
    """A packet of the answer to a READ or atomic."""
    q = stream >> 1
    m, psn = s.order[s.rc[q].response], s.rc[q].response_psn
    octets = response_octets(s, q)
    last = psn + 1 == s.message[m].psn + s.message[m].packets
    flags = LAST_OF_MESSAGE if last else 0
    k = new_packet(s, stream, psn, octets, s.qp[q].back_lid, s.qp[q].sl, READ_RESPONSE, flags)
    s.rc[q].back_fetched, there = fetched(n, s, port, s.rc[q].back_fetched, octets, memory_fs(n, s, q, m, psn))
    start = max(now, there)
    end = put_on_wire(n, s, port, row, k, start)
    cross(n, s, port, vl, k, start)
    s.reg.sent += 1
    s.rc[q].back_not_before = waits_until(n, s, stream, start, end)
    s.rc[q].response_psn = psn + 1
    stays = True
    if last:
        at = s.rc[q].response + 1
        while at < s.rc[q].response_end and s.message[s.order[at]].opcode < READ_OP:
            at += 1
        s.rc[q].response = at
        stays = at < s.rc[q].response_end
        if stays:
            s.rc[q].response_psn = s.message[s.order[at]].psn
    slowed = s.rc[q].back_not_before > end
    rotate(s, port, vl, row, stream, stays and not slowed)
    if stays and slowed:
        slow_response(n, s, q)
    if not stays and s.rc[q].unacked:
        push(s, now + n.opt.ack_delay_ps, word(port, ANSWER, q))
    return octets
