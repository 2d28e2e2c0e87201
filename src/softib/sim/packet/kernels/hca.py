# mypy: ignore-errors
"""Channel adapters as senders: streams of queue pairs take turns, a packet at a time.

A queue pair has two streams: requests (``2 * qp``) and, at the other end, responses to READs (``2 * qp + 1``). A message is cut into
packets of the path MTU. Its data is fetched from memory while earlier packets are on the wire.
"""

import numpy as np

from softib.jit import inner
from softib.sim.packet.kernels.events import push, push_timer, word
from softib.sim.packet.kernels.links import put_on_wire
from softib.sim.packet.kernels.pools import new_packet
from softib.sim.packet.kernels.switch import cross
from softib.sim.packet.kernels.work import completed
from softib.sim.packet.tables import (
    ACK_DELAY,
    ACK_EVERY,
    ANSWER,
    ASKS_ACK,
    BACK_FETCHED,
    BACK_LID,
    BACK_VL,
    CC,
    CONTROL,
    CQE,
    CURRENT_MESSAGE,
    DATA,
    DLID,
    DMA_FREE,
    DMA_FS,
    DONE_MESSAGE,
    DST,
    END_MESSAGE,
    F_DELAY,
    F_ROW,
    FETCHED,
    FLAGS,
    GATE,
    IN_RING,
    INLINE,
    LAST_OF_MESSAGE,
    LEVEL,
    M_LID,
    M_OPCODE,
    M_PACKETS,
    M_POSTED,
    M_PSN,
    M_SIZE,
    MESSAGE_GAP,
    NEXT_PSN,
    NOT_BEFORE,
    OCTETS,
    OPT_VLS,
    OUT_VL,
    PAYLOAD,
    PROGRESS,
    PS_PACKET,
    PSN,
    QP,
    RAMP,
    RAMP_FS,
    READ_REQUEST,
    READ_RESPONSE,
    READS,
    READS_OUT,
    READY,
    RESPONSE,
    RESPONSE_END,
    RESPONSE_NEXT,
    RESPONSE_PSN,
    RESPONSE_RING,
    RING,
    RING_NEXT,
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
    WHAT,
)  # fmt: skip

HEADERS = 26
"""Octets of LRH 8, BTH 12, ICRC 4 and VCRC 2 (IBA 5.2)."""
RETH, DETH, AETH, ATOMIC_ETH, ATOMIC_ACK_ETH = 16, 8, 4, 28, 8
WRITE_OP, SEND_OP, READ_OP, ATOMIC_OP, COMPUTE_OP = 0, 1, 2, 3, 4
RC, UC, UD = 0, 1, 2


@inner
def payload_of(s, q, m, psn):
    """Octets of payload in the packet ``psn`` of message ``m``."""
    mtu = s.qp[q, PAYLOAD]
    return min(mtu, s.message[m, M_SIZE] - (psn - s.message[m, M_PSN]) * mtu)


@inner
def request_octets(s, q):
    """Octets of the next packet of requests of ``q``."""
    m, psn = s.order[s.qp[q, CURRENT_MESSAGE]], s.qp[q, NEXT_PSN]
    opcode = s.message[m, M_OPCODE]
    if opcode == READ_OP:
        return HEADERS + RETH
    if opcode == ATOMIC_OP:
        return HEADERS + ATOMIC_ETH
    octets = HEADERS + (payload_of(s, q, m, psn) + 3 & ~3)
    if opcode == WRITE_OP and psn == s.message[m, M_PSN]:
        octets += RETH
    if s.qp[q, SERVICE] == UD:
        octets += DETH
    return octets


@inner
def response_octets(s, q):
    """Octets of the next packet of responses of ``q``: the first and the last have an AETH (IBA 9.4.5)."""
    m, psn = s.order[s.qp[q, RESPONSE]], s.qp[q, RESPONSE_PSN]
    if s.message[m, M_OPCODE] == ATOMIC_OP:
        return HEADERS + AETH + ATOMIC_ACK_ETH
    octets = HEADERS + (payload_of(s, q, m, psn) + 3 & ~3)
    first = s.message[m, M_PSN]
    if psn == first or psn == first + s.message[m, M_PACKETS] - 1:
        octets += AETH
    return octets


@inner
def stream_octets(s, stream):
    """Octets of the next packet of a stream."""
    return response_octets(s, stream >> 1) if stream & 1 else request_octets(s, stream >> 1)


@inner
def join_ring(n, s, stream):
    """The stream has something to send: it takes turns at its port. Returns the port."""
    q = stream >> 1
    if stream & 1:
        port, vl, mark, link = s.qp[q, DST], s.qp[q, BACK_VL], RESPONSE_RING, RESPONSE_NEXT
    else:
        port, vl, mark, link = s.qp[q, SRC], s.qp[q, OUT_VL], IN_RING, RING_NEXT
    s.qp[q, mark] = 1
    row = port * n.opt[OPT_VLS] + vl
    last = s.vl[row, RING]
    if last == 0:
        s.qp[q, link] = stream + 1
        s.port[port, READY] |= np.int64(1) << vl
    else:
        s.qp[q, link] = s.qp[(last - 1) >> 1, RESPONSE_NEXT if (last - 1) & 1 else RING_NEXT]
        s.qp[(last - 1) >> 1, RESPONSE_NEXT if (last - 1) & 1 else RING_NEXT] = stream + 1
    s.vl[row, RING] = stream + 1
    return port


@inner
def first_stream(s, row):
    """The stream whose turn it is at port VL ``row``."""
    last = s.vl[row, RING] - 1
    return s.qp[last >> 1, RESPONSE_NEXT if last & 1 else RING_NEXT] - 1


@inner
def rotate(s, port, vl, row, stream, stays):
    """The stream had its turn; it ``stays`` as the last, or leaves the ring."""
    q = stream >> 1
    if stays:
        s.vl[row, RING] = stream + 1
        return
    s.qp[q, RESPONSE_RING if stream & 1 else IN_RING] = 0
    last = s.vl[row, RING] - 1
    if last == stream:
        s.vl[row, RING] = 0
        if s.more[row, CONTROL] == 0:
            s.port[port, READY] &= ~(np.int64(1) << vl)
        return
    following = s.qp[q, RESPONSE_NEXT if stream & 1 else RING_NEXT]
    s.qp[last >> 1, RESPONSE_NEXT if last & 1 else RING_NEXT] = following


@inner
def leave_ring(s, port, vl, row, stream):
    """Take the stream out of the ring, wherever its turn is."""
    last = s.vl[row, RING]
    while first_stream(s, row) != stream:
        s.vl[row, RING] = first_stream(s, row) + 1
    rotate(s, port, vl, row, stream, False)
    if s.vl[row, RING] and last != stream + 1:
        s.vl[row, RING] = last


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
    if psn == first:
        start = max(start, s.port[port, GATE])
        s.port[port, GATE] = start + n.opt[MESSAGE_GAP]
    if not asks and s.message[m, M_SIZE] > n.opt[INLINE]:
        if psn == first:
            s.qp[q, FETCHED] = s.message[m, M_POSTED] - 1
        start = max(start, fetched(n, s, port, q, FETCHED, octets, memory_fs(n, s, q, m, psn)))
    k = new_packet(s)
    s.packet[k, QP] = stream
    s.packet[k, PSN] = psn
    s.packet[k, OCTETS] = octets
    s.packet[k, DLID] = s.message[m, M_LID]
    s.packet[k, LEVEL] = s.qp[q, SL]
    s.packet[k, WHAT] = READ_REQUEST if asks else DATA
    flags = np.int64(0)
    if last:
        flags = LAST_OF_MESSAGE | ASKS_ACK
    elif s.qp[q, SERVICE] == RC and (psn - first) % n.opt[ACK_EVERY] == n.opt[ACK_EVERY] - 1:
        flags = ASKS_ACK
    s.packet[k, FLAGS] = flags
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
    """When ``q`` may send again: its static rate, and what congestion control adds (:mod:`~.congestion`)."""
    gap = s.qp[q, PS_PACKET]
    if gap:
        s.qp[q, NOT_BEFORE] = start + (end - start) * gap // 1000
    if n.opt[CC]:
        delay = s.throttle[s.flow[2 * q, F_ROW], F_DELAY]
        if delay:
            s.qp[q, NOT_BEFORE] = max(s.qp[q, NOT_BEFORE], end + (end - start) * delay // 1000)


@inner
def send_response(n, s, port, vl, row, stream, now):
    """A packet of the answer to a READ or atomic."""
    q = stream >> 1
    m, psn = s.order[s.qp[q, RESPONSE]], s.qp[q, RESPONSE_PSN]
    octets = response_octets(s, q)
    k = new_packet(s)
    s.packet[k, QP] = stream
    s.packet[k, PSN] = psn
    s.packet[k, OCTETS] = octets
    s.packet[k, DLID] = s.qp[q, BACK_LID]
    s.packet[k, LEVEL] = s.qp[q, SL]
    s.packet[k, WHAT] = READ_RESPONSE
    last = psn + 1 == s.message[m, M_PSN] + s.message[m, M_PACKETS]
    s.packet[k, FLAGS] = LAST_OF_MESSAGE if last else 0
    start = max(now, fetched(n, s, port, q, BACK_FETCHED, octets, memory_fs(n, s, q, m, psn)))
    put_on_wire(n, s, port, row, k, start)
    cross(n, s, port, vl, k, start)
    s.reg[SENT] += 1
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
    rotate(s, port, vl, row, stream, stays)
    if not stays and s.qp[q, UNACKED]:
        push(s, now + n.opt[ACK_DELAY], word(port, ANSWER, q))
    return octets
