"""TCP as a sender: segments, the window, and what the kernel's stack costs (RFC 9293, 5681, 6298).

Each queue pair is an open connection. A message is one write to the socket: it takes the sender's
CPU a fixed time and a time for each octet, segment after segment, ahead of the window. A segment is
of one message; its number stands for its octets. A flow may have as many segments under way as its
congestion window, and two more after duplicate acknowledgements (limited transmit, RFC 3042).
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
def tcp_posted(net, state, m, now):
    """A program writes message ``m`` to its socket: when its octets begin to be in the socket's
    buffer. One core serves a connection, and all connections of a host share its cores. Returns the
    port to look at."""
    if state.message[m].opcode == COMPUTE_OP:
        return compute(net, state, m, now)
    q = state.message[m].qp
    port, c = state.qp[q].src, state.tcp[q]
    state.message[m].began = now
    work = net.ethernet.stack_send_ps + state.message[m].length * net.ethernet.send_fs // 1000
    work += state.message[m].packets * net.ethernet.segment_ps
    state.processor[port].send_ps += work
    state.port[port].dma_free = max(state.port[port].dma_free, now) + work // net.ethernet.cores
    begin = max(max(now, c.sender_free), state.port[port].dma_free - work)
    c.sender_free = begin + work
    state.message[m].posted = begin + net.ethernet.stack_send_ps + 1
    return activate(net, state, q, now)


@inner
def next_segment(state, q):
    """(message, number) of the segment that ``q`` sends next."""
    repeated = state.tcp[q].retransmit
    if repeated:
        return state.order[sender_message(state, q, repeated - 1)], repeated - 1
    return state.order[state.qp[q].current_message], state.qp[q].next_psn


@inner
def sender_message(state, q, psn):
    """The place in its order of the message of ``q`` that segment ``psn`` belongs to."""
    at = min(state.qp[q].current_message, state.qp[q].end_message - 1)
    while psn < state.message[state.order[at]].psn:
        at -= 1
    while psn >= state.message[state.order[at]].psn + state.message[state.order[at]].packets:
        at += 1
    return at


@inner
def segment_octets(state, q):
    """Octets of the frame of the next segment of ``q``."""
    m, psn = next_segment(state, q)
    return max(SEGMENT_HEADERS + payload_of(state, q, m, psn), np.int64(LEAST_FRAME))


@inner
def stream_segment_octets(state, stream):
    """:func:`segment_octets` by stream."""
    return segment_octets(state, stream >> 1)


@inner
def window_of(net, state, q):
    """Segments that ``q`` may have under way."""
    c = state.tcp[q]
    window = c.window // 1000
    if c.recover == 0:
        window += min(c.dup_acks, np.int64(LIMITED_TRANSMIT))
    return min(window, net.ethernet.window_most)


@inner
def segment_not_before(net, state, q):
    """When the connection may send its next segment, -1 while it waits for a message or an
    acknowledgement."""
    if state.tcp[q].retransmit:
        return state.qp[q].not_before
    at = state.qp[q].current_message
    if at >= state.qp[q].end_message:
        return np.int64(-1)
    m = state.order[at]
    posted, psn = state.message[m].posted, state.qp[q].next_psn
    if posted == 0 or psn - state.rc[q].acked >= window_of(net, state, q):
        return np.int64(-1)
    segment = psn - state.message[m].psn
    octets = min((segment + 1) * state.qp[q].payload, state.message[m].length)
    ready = posted - 1 + octets * net.ethernet.send_fs // 1000 + (segment + 1) * net.ethernet.segment_ps
    return max(ready, state.qp[q].not_before)


@inner
def settle(net, state, q, now):
    """What the connection may send has changed: it takes its turns, or no more. Returns a port to
    look at."""
    if state.qp[q].in_ring and segment_not_before(net, state, q) < 0:
        port, vl = state.qp[q].src, state.qp[q].out_vl
        leave_ring(state, port, vl, port * net.opt.vls + vl, 2 * q)
    return activate(net, state, q, now)


@inner
def set_rto(state, q, at):
    """The retransmission timer of ``q`` is to run out at ``at`` (0: it stops)."""
    state.tcp[q].rto_at = at
    if at and (state.rc[q].timed == 0 or at + 1 < state.rc[q].timed):
        state.rc[q].timed = at + 1
        push_timer(state, at, word(state.qp[q].src, TIMER, q))


@inner
def send_segment(net, state, port, vl, row, now):
    """A segment of the connection whose turn it is leaves; returns the octets of its frame."""
    stream = first_stream(state, row)
    q = stream >> 1
    c = state.tcp[q]
    m, psn = next_segment(state, q)
    octets = segment_octets(state, q)
    last = psn + 1 == state.message[m].psn + state.message[m].packets
    flags = LAST_OF_MESSAGE if last else 0
    k = new_packet(state, stream, psn, octets, state.message[m].lid, state.qp[q].sl, DATA, flags)
    state.packet[k].entered = now  # the timestamp option
    end = put_on_wire(net, state, port, row, k, now)
    cross(net, state, port, vl, k, now)
    state.reg.sent += 1
    if c.retransmit or psn < c.highest:
        c.retransmits += 1
    if c.retransmit:
        c.retransmit = 0
    else:
        state.qp[q].next_psn = psn + 1
        c.highest = max(c.highest, psn + 1)
        if last:
            state.qp[q].current_message += 1
    if c.rto_at == 0:
        set_rto(state, q, now + c.rto)
    gap = state.qp[q].ps_packet
    if gap:
        state.qp[q].not_before = now + (end - now) * gap // 1000
    t = segment_not_before(net, state, q)
    rotate(state, port, vl, row, stream, 0 <= t <= end)
    if t > end:
        activate(net, state, q, now)
    return octets
