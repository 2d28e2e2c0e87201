# mypy: ignore-errors
"""TCP as a sender: segments, the window, and what the kernel's stack costs (RFC 9293, 5681, 6298).

Each queue pair is an open connection. A message is one write to the socket: it takes the sender's CPU a fixed time and a time for each octet,
segment after segment, ahead of the window. A segment is of one message; its number stands for its octets. A flow may have as many segments
under way as its congestion window, and two more after duplicate acknowledgements (limited transmit, RFC 3042).
"""

import numpy as np

from softib.jit import inner
from softib.sim.packet.constants import DATA, LAST_OF_MESSAGE, TIMER
from softib.sim.packet.kernels.engine.events import push_timer, word
from softib.sim.packet.kernels.engine.loop import compute
from softib.sim.packet.kernels.engine.pools import new_packet
from softib.sim.packet.kernels.hca.hca import activate
from softib.sim.packet.kernels.hca.packet_sizes import COMPUTE_OP, payload_of
from softib.sim.packet.kernels.hca.streams import first_stream, leave_ring, rotate
from softib.sim.packet.kernels.link.credits import put_on_wire
from softib.sim.packet.kernels.switch.switch import cross

SEGMENT_HEADERS = 70
"""Ethernet 14 and FCS 4, IPv4 20, TCP 20 with timestamps 12 (RFC 7323)."""
LEAST_FRAME = 64
LIMITED_TRANSMIT = 2


@inner
def tcp_posted(n, s, m, now):
    """A program writes message ``m`` to its socket: when its octets begin to be in the socket's buffer. One core serves a connection, and
    all connections of a host share its cores. Returns the port to look at."""
    if s.message[m].opcode == COMPUTE_OP:
        return compute(n, s, m, now)
    q = s.message[m].qp
    port, c = s.qp[q].src, s.tcp[q]
    s.message[m].began = now
    work = n.ethernet.stack_send_ps + s.message[m].length * n.ethernet.send_fs // 1000
    work += s.message[m].packets * n.ethernet.segment_ps
    s.processor[port].send_ps += work
    s.port[port].dma_free = max(s.port[port].dma_free, now) + work // n.ethernet.cores
    begin = max(max(now, c.sender_free), s.port[port].dma_free - work)
    c.sender_free = begin + work
    s.message[m].posted = begin + n.ethernet.stack_send_ps + 1
    return activate(n, s, q, now)


@inner
def next_segment(s, q):
    """(message, number) of the segment that ``q`` sends next."""
    repeated = s.tcp[q].retransmit
    if repeated:
        return s.order[sender_message(s, q, repeated - 1)], repeated - 1
    return s.order[s.qp[q].current_message], s.qp[q].next_psn


@inner
def sender_message(s, q, psn):
    """The place in its order of the message of ``q`` that segment ``psn`` belongs to."""
    at = min(s.qp[q].current_message, s.qp[q].end_message - 1)
    while psn < s.message[s.order[at]].psn:
        at -= 1
    while psn >= s.message[s.order[at]].psn + s.message[s.order[at]].packets:
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
    c = s.tcp[q]
    window = c.window // 1000
    if c.recover == 0:
        window += min(c.dup_acks, np.int64(LIMITED_TRANSMIT))
    return min(window, n.ethernet.window_most)


@inner
def segment_not_before(n, s, q):
    """When the connection may send its next segment, -1 while it waits for a message or an acknowledgement."""
    if s.tcp[q].retransmit:
        return s.qp[q].not_before
    at = s.qp[q].current_message
    if at >= s.qp[q].end_message:
        return np.int64(-1)
    m = s.order[at]
    posted, psn = s.message[m].posted, s.qp[q].next_psn
    if posted == 0 or psn - s.rc[q].acked >= window_of(n, s, q):
        return np.int64(-1)
    segment = psn - s.message[m].psn
    octets = min((segment + 1) * s.qp[q].payload, s.message[m].length)
    ready = posted - 1 + octets * n.ethernet.send_fs // 1000 + (segment + 1) * n.ethernet.segment_ps
    return max(ready, s.qp[q].not_before)


@inner
def settle(n, s, q, now):
    """What the connection may send has changed: it takes its turns, or no more. Returns a port to look at."""
    if s.qp[q].in_ring and segment_not_before(n, s, q) < 0:
        port, vl = s.qp[q].src, s.qp[q].out_vl
        leave_ring(s, port, vl, port * n.opt.vls + vl, 2 * q)
    return activate(n, s, q, now)


@inner
def set_rto(s, q, at):
    """The retransmission timer of ``q`` is to run out at ``at`` (0: it stops)."""
    s.tcp[q].rto_at = at
    if at and (s.rc[q].timed == 0 or at + 1 < s.rc[q].timed):
        s.rc[q].timed = at + 1
        push_timer(s, at, word(s.qp[q].src, TIMER, q))


@inner
def send_segment(n, s, port, vl, row, now):
    """A segment of the connection whose turn it is leaves; returns the octets of its frame."""
    stream = first_stream(s, row)
    q = stream >> 1
    c = s.tcp[q]
    m, psn = next_segment(s, q)
    octets = segment_octets(s, q)
    last = psn + 1 == s.message[m].psn + s.message[m].packets
    flags = LAST_OF_MESSAGE if last else 0
    k = new_packet(s, stream, psn, octets, s.message[m].lid, s.qp[q].sl, DATA, flags)
    s.packet[k].entered = now  # the timestamp option
    end = put_on_wire(n, s, port, row, k, now)
    cross(n, s, port, vl, k, now)
    s.reg.sent += 1
    if c.retransmit or psn < c.highest:
        c.retransmits += 1
    if c.retransmit:
        c.retransmit = 0
    else:
        s.qp[q].next_psn = psn + 1
        c.highest = max(c.highest, psn + 1)
        if last:
            s.qp[q].current_message += 1
    if c.rto_at == 0:
        set_rto(s, q, now + c.rto)
    gap = s.qp[q].ps_packet
    if gap:
        s.qp[q].not_before = now + (end - now) * gap // 1000
    t = segment_not_before(n, s, q)
    rotate(s, port, vl, row, stream, 0 <= t <= end)
    if t > end:
        activate(n, s, q, now)
    return octets
