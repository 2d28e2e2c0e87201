# mypy: ignore-errors
"""Channel adapters as senders: streams of queue pairs take turns, a packet at a time.

A queue pair has two streams: requests (``2 * qp``) and, at the other end, responses to READs (``2 * qp + 1``). A message is cut into
packets of the path MTU. Its data is fetched from memory while earlier packets are on the wire.
"""

import numpy as np

from softib.jit import inner
from softib.sim.packet.kernels.aggregation import is_node
from softib.sim.packet.kernels.events import push, push_timer, word
from softib.sim.packet.kernels.links import put_on_wire
from softib.sim.packet.kernels.pacing import waits_until
from softib.sim.packet.kernels.packet_sizes import RC, READ_OP, request_octets, response_octets
from softib.sim.packet.kernels.pools import new_packet
from softib.sim.packet.kernels.streams import first_stream, join_ring, rotate
from softib.sim.packet.kernels.switch import cross
from softib.sim.packet.kernels.work import completed
from softib.sim.packet.tables import (
    ACK_DELAY,
    ACK_EVERY,
    ANSWER,
    ASKS_ACK,
    BACK_FETCHED,
    BACK_LID,
    BACK_NOT_BEFORE,
    CQE,
    CURRENT_MESSAGE,
    DATA,
    DMA_FREE,
    DMA_FS,
    DONE_MESSAGE,
    DST,
    END_MESSAGE,
    FETCHED,
    GATE,
    IN_RING,
    INLINE,
    LAST_OF_MESSAGE,
    M_LID,
    M_OPCODE,
    M_PACKETS,
    M_POSTED,
    M_PSN,
    M_SIZE,
    MESSAGE_GAP,
    NEXT_PSN,
    NOT_BEFORE,
    PAYLOAD,
    PROGRESS,
    RAMP,
    RAMP_FS,
    READ_REQUEST,
    READ_RESPONSE,
    READS,
    READS_OUT,
    RESPONSE,
    RESPONSE_END,
    RESPONSE_PSN,
    RESPONSE_RING,
    SENT,
    SERVICE,
    SL,
    SRC,
    STREAM,
    TIMED,
    TIMEOUT,
    TIMER,
    UNACKED,
    WAKE,
)  # fmt: skip

SLOWED = 2
"""Of ``RESPONSE_RING``: there are responses to send, and they are slowed."""


@inner
def not_before(n, s, q):
    """When the queue pair may send its next request, -1 while it must wait for something else: a message to be posted, a READ to
    end."""
    at = s.qp[q, CURRENT_MESSAGE]
    if at >= s.qp[q, END_MESSAGE]:
        return np.int64(-1)
    m = s.order[at]
    posted = s.message[m, M_POSTED]
    if posted == 0:
        return np.int64(-1)
    opcode = s.message[m, M_OPCODE]
    if (opcode >= READ_OP) and s.qp[q, READS_OUT] >= n.opt[READS]:
        return np.int64(-1)
    return max(posted - 1, s.qp[q, NOT_BEFORE])


@inner
def activate(n, s, q, now):
    """Let the requests of ``q`` take turns as soon as they may. Returns the port to look at, -1 where there is none."""
    if s.qp[q, IN_RING]:
        return np.int64(-1)
    t = not_before(n, s, q)
    if t < 0:
        return np.int64(-1)
    if t <= now:
        return join_ring(n, s, 2 * q)
    if s.qp[q, WAKE] <= now or t < s.qp[q, WAKE]:
        s.qp[q, WAKE] = t
        push(s, t, word(s.qp[q, SRC], STREAM, q))
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
    return n.opt[RAMP_FS] if (psn - s.message[m, M_PSN]) * s.qp[q, PAYLOAD] < n.opt[RAMP] else n.opt[DMA_FS]


@inner
def fetched(n, s, port, q, column, octets, fs):
    """When the adapter of ``port`` has ``octets`` more from memory for a message, whose fetching ``column`` of the queue pair follows:
    one message comes at its own rate (``fs`` an octet), and all together at most at the port's."""
    since = s.qp[q, column]
    alone = since + (octets * fs + 500) // 1000
    together = max(s.port[port, DMA_FREE], since) + (octets * n.opt[DMA_FS] + 500) // 1000
    s.qp[q, column] = alone
    s.port[port, DMA_FREE] = together
    return max(alone, together)


@inner
def send_request(n, s, port, vl, row, stream, now):
    """A packet of requests: data, or one that asks for data."""
    q = stream >> 1
    m, psn = s.order[s.qp[q, CURRENT_MESSAGE]], s.qp[q, NEXT_PSN]
    octets = request_octets(s, q)
    asks = s.message[m, M_OPCODE] >= READ_OP
    first = s.message[m, M_PSN]
    end_psn = first + s.message[m, M_PACKETS]
    last = asks or psn + 1 == end_psn
    start = now
    inside = is_node(n, port)
    if psn == first and not inside:
        start = max(start, s.port[port, GATE])
        s.port[port, GATE] = start + n.opt[MESSAGE_GAP]
    if not asks and s.message[m, M_SIZE] > n.opt[INLINE] and not inside:
        if psn == first:
            s.qp[q, FETCHED] = s.message[m, M_POSTED] - 1
        start = max(start, fetched(n, s, port, q, FETCHED, octets, memory_fs(n, s, q, m, psn)))
    flags = np.int64(0)
    if last:
        flags = LAST_OF_MESSAGE | ASKS_ACK
    elif s.qp[q, SERVICE] == RC and (psn - first) % n.opt[ACK_EVERY] == n.opt[ACK_EVERY] - 1:
        flags = ASKS_ACK
    what = READ_REQUEST if asks else DATA
    k = new_packet(s, stream, psn, octets, s.message[m, M_LID], s.qp[q, SL], what, flags)
    end = put_on_wire(n, s, port, row, k, start)
    cross(n, s, port, vl, k, start)
    s.reg[SENT] += 1
    s.qp[q, NEXT_PSN] = end_psn if asks else psn + 1
    if last:
        s.qp[q, CURRENT_MESSAGE] += 1
        if asks:
            s.qp[q, READS_OUT] += 1
        elif s.qp[q, SERVICE] != RC:
            s.qp[q, DONE_MESSAGE] += 1
            completed(n, s, m, end + n.opt[CQE])
    if s.qp[q, SERVICE] == RC and s.qp[q, TIMED] == 0:
        s.qp[q, TIMED] = 1
        s.qp[q, PROGRESS] = now
        push_timer(s, now + n.opt[TIMEOUT], word(port, TIMER, q))
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
        s.qp[q, NOT_BEFORE] = until


@inner
def resume(n, s, port, q, now):
    """A stream of ``q`` at ``port`` may go on: responses that were slowed, or requests. Returns the port to look at."""
    if s.qp[q, DST] == port and s.qp[q, RESPONSE_RING] == SLOWED and s.qp[q, BACK_NOT_BEFORE] <= now:
        join_ring(n, s, 2 * q + 1)
        if s.qp[q, SRC] != port:
            return port
    if s.qp[q, SRC] != port:
        return np.int64(-1)
    return activate(n, s, q, now)


@inner
def slow_response(n, s, q):
    """Responses of ``q`` wait outside the ring for their time, so that they hold up nobody."""
    s.qp[q, RESPONSE_RING] = SLOWED
    push(s, s.qp[q, BACK_NOT_BEFORE], word(s.qp[q, DST], STREAM, q))


@inner
def send_response(n, s, port, vl, row, stream, now):
    """A packet of the answer to a READ or atomic."""
    q = stream >> 1
    m, psn = s.order[s.qp[q, RESPONSE]], s.qp[q, RESPONSE_PSN]
    octets = response_octets(s, q)
    last = psn + 1 == s.message[m, M_PSN] + s.message[m, M_PACKETS]
    flags = LAST_OF_MESSAGE if last else 0
    k = new_packet(s, stream, psn, octets, s.qp[q, BACK_LID], s.qp[q, SL], READ_RESPONSE, flags)
    start = max(now, fetched(n, s, port, q, BACK_FETCHED, octets, memory_fs(n, s, q, m, psn)))
    end = put_on_wire(n, s, port, row, k, start)
    cross(n, s, port, vl, k, start)
    s.reg[SENT] += 1
    s.qp[q, BACK_NOT_BEFORE] = waits_until(n, s, stream, start, end)
    s.qp[q, RESPONSE_PSN] = psn + 1
    stays = True
    if last:
        at = s.qp[q, RESPONSE] + 1
        while at < s.qp[q, RESPONSE_END] and s.message[s.order[at], M_OPCODE] < READ_OP:
            at += 1
        s.qp[q, RESPONSE] = at
        stays = at < s.qp[q, RESPONSE_END]
        if stays:
            s.qp[q, RESPONSE_PSN] = s.message[s.order[at], M_PSN]
    slowed = s.qp[q, BACK_NOT_BEFORE] > end
    rotate(s, port, vl, row, stream, stays and not slowed)
    if stays and slowed:
        slow_response(n, s, q)
    if not stays and s.qp[q, UNACKED]:
        push(s, now + n.opt[ACK_DELAY], word(port, ANSWER, q))
    return octets
