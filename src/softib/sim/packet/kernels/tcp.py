# mypy: ignore-errors
"""TCP as a sender: segments, the window, and what the kernel's stack costs (RFC 9293, 5681, 6298).

Each queue pair is an open connection. A message is one write to the socket: it takes the sender's CPU a fixed time and a time for each octet,
segment after segment, ahead of the window. A segment is of one message; its number stands for its octets. A flow may have as many segments
under way as its congestion window, and two more after duplicate acknowledgements (limited transmit, RFC 3042).
"""

import numpy as np

from softib.jit import inner
from softib.sim.packet.ethernet_tables import (
    CORES,
    CPU_SEND,
    DUP_ACKS,
    HIGHEST,
    RECOVER,
    RETRANSMIT,
    RETRANSMITS,
    RTO,
    RTO_AT,
    SEGMENT_PS,
    SEND_FS,
    SENDER_FREE,
    STACK_SEND_PS,
    WINDOW,
    WINDOW_MOST,
)
from softib.sim.packet.kernels.events import push_timer, word
from softib.sim.packet.kernels.hca import activate
from softib.sim.packet.kernels.links import put_on_wire
from softib.sim.packet.kernels.loop import compute
from softib.sim.packet.kernels.packet_sizes import COMPUTE_OP, payload_of
from softib.sim.packet.kernels.pools import new_packet
from softib.sim.packet.kernels.streams import first_stream, leave_ring, rotate
from softib.sim.packet.kernels.switch import cross
from softib.sim.packet.tables import (
    ACKED,
    CURRENT_MESSAGE,
    DATA,
    DMA_FREE,
    END_MESSAGE,
    ENTERED,
    IN_RING,
    LAST_OF_MESSAGE,
    M_BEGAN,
    M_LID,
    M_OPCODE,
    M_PACKETS,
    M_POSTED,
    M_PSN,
    M_QP,
    M_SIZE,
    NEXT_PSN,
    NOT_BEFORE,
    OPT_VLS,
    OUT_VL,
    PAYLOAD,
    PS_PACKET,
    SENT,
    SL,
    SRC,
    TIMED,
    TIMER,
)

SEGMENT_HEADERS = 70
"""Ethernet 14 and FCS 4, IPv4 20, TCP 20 with timestamps 12 (RFC 7323)."""
LEAST_FRAME = 64
LIMITED_TRANSMIT = 2


@inner
def tcp_posted(n, s, m, now):
    """A program writes message ``m`` to its socket: when its octets begin to be in the socket's buffer. One core serves a connection, and
    all connections of a host share its cores. Returns the port to look at."""
    if s.message[m, M_OPCODE] == COMPUTE_OP:
        return compute(n, s, m, now)
    q = s.message[m, M_QP]
    port, c = s.qp[q, SRC], s.connection[q]
    s.message[m, M_BEGAN] = now
    work = n.ethernet[STACK_SEND_PS] + s.message[m, M_SIZE] * n.ethernet[SEND_FS] // 1000
    work += s.message[m, M_PACKETS] * n.ethernet[SEGMENT_PS]
    s.processor[port, CPU_SEND] += work
    s.port[port, DMA_FREE] = max(s.port[port, DMA_FREE], now) + work // n.ethernet[CORES]
    begin = max(max(now, c[SENDER_FREE]), s.port[port, DMA_FREE] - work)
    c[SENDER_FREE] = begin + work
    s.message[m, M_POSTED] = begin + n.ethernet[STACK_SEND_PS] + 1
    return activate(n, s, q, now)


@inner
def next_segment(s, q):
    """(message, number) of the segment that ``q`` sends next."""
    repeated = s.connection[q, RETRANSMIT]
    if repeated:
        return s.order[sender_message(s, q, repeated - 1)], repeated - 1
    return s.order[s.qp[q, CURRENT_MESSAGE]], s.qp[q, NEXT_PSN]


@inner
def sender_message(s, q, psn):
    """The place in its order of the message of ``q`` that segment ``psn`` belongs to."""
    at = min(s.qp[q, CURRENT_MESSAGE], s.qp[q, END_MESSAGE] - 1)
    while psn < s.message[s.order[at], M_PSN]:
        at -= 1
    while psn >= s.message[s.order[at], M_PSN] + s.message[s.order[at], M_PACKETS]:
        at += 1
    return at


@inner
def segment_octets(s, q):
    """Octets of the frame of the next segment of ``q``."""
    m, psn = next_segment(s, q)
    return max(SEGMENT_HEADERS + payload_of(s, q, m, psn), np.int64(LEAST_FRAME))


@inner
def stream_segment_octets(s, stream):
    """:func:`segment_octets` by stream."""
    return segment_octets(s, stream >> 1)


@inner
def window_of(n, s, q):
    """Segments that ``q`` may have under way."""
    c = s.connection[q]
    window = c[WINDOW] // 1000
    if c[RECOVER] == 0:
        window += min(c[DUP_ACKS], np.int64(LIMITED_TRANSMIT))
    return min(window, n.ethernet[WINDOW_MOST])


@inner
def segment_not_before(n, s, q):
    """When the connection may send its next segment, -1 while it waits for a message or an acknowledgement."""
    if s.connection[q, RETRANSMIT]:
        return s.qp[q, NOT_BEFORE]
    at = s.qp[q, CURRENT_MESSAGE]
    if at >= s.qp[q, END_MESSAGE]:
        return np.int64(-1)
    m = s.order[at]
    posted, psn = s.message[m, M_POSTED], s.qp[q, NEXT_PSN]
    if posted == 0 or psn - s.qp[q, ACKED] >= window_of(n, s, q):
        return np.int64(-1)
    segment = psn - s.message[m, M_PSN]
    octets = min((segment + 1) * s.qp[q, PAYLOAD], s.message[m, M_SIZE])
    ready = posted - 1 + octets * n.ethernet[SEND_FS] // 1000 + (segment + 1) * n.ethernet[SEGMENT_PS]
    return max(ready, s.qp[q, NOT_BEFORE])


@inner
def settle(n, s, q, now):
    """What the connection may send has changed: it takes its turns, or no more. Returns a port to look at."""
    if s.qp[q, IN_RING] and segment_not_before(n, s, q) < 0:
        port, vl = s.qp[q, SRC], s.qp[q, OUT_VL]
        leave_ring(s, port, vl, port * n.opt[OPT_VLS] + vl, 2 * q)
    return activate(n, s, q, now)


@inner
def set_rto(s, q, at):
    """The retransmission timer of ``q`` is to run out at ``at`` (0: it stops)."""
    s.connection[q, RTO_AT] = at
    if at and (s.qp[q, TIMED] == 0 or at + 1 < s.qp[q, TIMED]):
        s.qp[q, TIMED] = at + 1
        push_timer(s, at, word(s.qp[q, SRC], TIMER, q))


@inner
def send_segment(n, s, port, vl, row, now):
    """A segment of the connection whose turn it is leaves; returns the octets of its frame."""
    stream = first_stream(s, row)
    q = stream >> 1
    c = s.connection[q]
    m, psn = next_segment(s, q)
    octets = segment_octets(s, q)
    last = psn + 1 == s.message[m, M_PSN] + s.message[m, M_PACKETS]
    flags = LAST_OF_MESSAGE if last else 0
    k = new_packet(s, stream, psn, octets, s.message[m, M_LID], s.qp[q, SL], DATA, flags)
    s.when[k, ENTERED] = now  # the timestamp option
    end = put_on_wire(n, s, port, row, k, now)
    cross(n, s, port, vl, k, now)
    s.reg[SENT] += 1
    if c[RETRANSMIT] or psn < c[HIGHEST]:
        c[RETRANSMITS] += 1
    if c[RETRANSMIT]:
        c[RETRANSMIT] = 0
    else:
        s.qp[q, NEXT_PSN] = psn + 1
        c[HIGHEST] = max(c[HIGHEST], psn + 1)
        if last:
            s.qp[q, CURRENT_MESSAGE] += 1
    if c[RTO_AT] == 0:
        set_rto(s, q, now + c[RTO])
    gap = s.qp[q, PS_PACKET]
    if gap:
        s.qp[q, NOT_BEFORE] = now + (end - now) * gap // 1000
    t = segment_not_before(n, s, q)
    rotate(s, port, vl, row, stream, 0 <= t <= end)
    if t > end:
        activate(n, s, q, now)
    return octets
