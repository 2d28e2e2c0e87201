"""TCP as a receiver: CPU cost of the stack, reassembly, delayed acknowledgements (RFC 9293 3.8.6.3,
RFC 5681 4.2), selective acknowledgements (RFC 2018), ECN echo (RFC 8257).

With interrupt moderation (ixgbe's EITR: a timer that begins with each interrupt), a frame waits for
the next interrupt; acknowledgements do not. A segment costs the receiver's CPU a time per byte, on one core per
connection; only then does the transport process it. It is acknowledged at once if it is the second one since the last
acknowledgement, is out of order, fills all or part of a hole (RFC 5681 4.2), or ends a message. Any other segment is
acknowledged after the delay. (In Linux the push flag wakes the program, whose read sends the acknowledgement. Here the
acknowledgement does not wait for the program, so a sender may see a message completed before the other program has it.)
"""

import numpy as np

from softib.jit import inner
from softib.sim.packet.constants import (
    ACK,
    ANSWER,
    ETHERNET_TIMER,
    FECN,
    LAST_OF_MESSAGE,
    RCV_ERRORS,
    WINDOW_PACKETS,
)
from softib.sim.packet.kernels.engine.events import push, push_timer, word
from softib.sim.packet.kernels.engine.pools import free_packet
from softib.sim.packet.kernels.ethernet.ethernet_switch import dropped
from softib.sim.packet.kernels.ethernet.tcp import SEGMENT_HEADERS, tcp_ack
from softib.sim.packet.kernels.hca.acks import control
from softib.sim.packet.kernels.hca.messages import arrived
from softib.sim.packet.kernels.hca.reorder_buffer import forget, keep, kept
from softib.sim.packet.kernels.link.discards import corrupted
from softib.sim.packet.kernels.transport.reads_and_atomics import message_of

SECOND = 2


@inner
def tcp_receive(net, state, port, k, now):
    """Handle frame ``k``, fully arrived at end port ``port``. Returns a port to check, -1 for none."""
    octets = np.int64(state.packet[k].octets)
    if state.packet[k].came_in == port and corrupted(net, state, port, octets, now):
        return dropped(state, k, port, RCV_ERRORS)
    state.port[port].rcv_octets += octets
    state.port[port].rcv_packets += 1
    q = np.int64(state.packet[k].stream) >> 1
    if state.packet[k].kind == ACK:
        state.processor[port].send_ps += net.ethernet.segment_ps
        look = tcp_ack(net, state, q, k, state.packet[k].entered, now)
        free_packet(state, k)
        return look
    connection = state.tcp[q]
    work = (octets - SEGMENT_HEADERS) * net.ethernet.stack_fs // 1000 + net.ethernet.segment_ps
    state.processor[port].receive_ps += work
    seen = interrupt(net, state, port, now)
    state.port[port].rx_free = max(state.port[port].rx_free, seen) + work // net.ethernet.cores
    # 1 ps later than the frame before it, so that frames of one interrupt keep their order
    connection.receiver_free = max(max(seen, connection.receiver_free + 1) + work, state.port[port].rx_free)
    if connection.receiver_free > now:
        push(state, connection.receiver_free, word(port, ANSWER, k))
        return np.int64(-1)
    return segment(net, state, port, k, now)


@inner
def interrupt(net, state, port, now):
    """Return when the processor sees a frame that arrives at ``now``: at the pending interrupt, or
    at a new one that keeps the minimum distance from the last."""
    gap = net.ethernet.interrupt_ps
    if gap == 0:
        return now
    last = state.processor[port].interrupt_at - 1
    if last < now:
        last = now if last < 0 else max(now, last + gap)
        state.processor[port].interrupt_at = last + 1
    return last


@inner
def segment(net, state, port, k, now):
    """Pass segment ``k`` to the transport. Returns a port to check."""
    q = np.int64(state.packet[k].stream) >> 1
    connection, psn, expected = state.tcp[q], np.int64(state.packet[k].psn), state.rc[q].expected
    flags, sent = np.int64(state.packet[k].marks), state.packet[k].entered
    free_packet(state, k)
    marked = np.int64(1) if flags & FECN else np.int64(0)
    if marked:
        state.port[port].rcv_fecn += 1
    look = np.int64(-1)
    if net.ethernet.dctcp and marked != connection.ecn_seen:
        if connection.unacked:
            look = acknowledge(net, state, port, q)
        connection.ecn_seen = marked
    connection.furthest = max(connection.furthest, psn + 1)
    if psn != expected:
        if expected < psn < expected + WINDOW_PACKETS - 1:
            keep(state, 2 * q, psn, np.int64(0))
            block(state, q, psn, expected)
        return acknowledge(net, state, port, q)
    if connection.unacked == 0:
        connection.echo = sent
    in_order(net, state, port, q, psn, flags, now)
    connection.unacked += 1
    if psn + 1 < connection.furthest or connection.unacked >= SECOND or flags & LAST_OF_MESSAGE:
        return acknowledge(net, state, port, q)
    connection.delayed_at = now + net.ethernet.delayed_ack_ps
    push_timer(state, connection.delayed_at, word(port, ETHERNET_TIMER, 16 + q))
    return look


@inner
def block(state, q, psn, expected):
    """Find the block of received segments that contains ``psn``, for the next acknowledgement to report (RFC 2018)."""
    connection = state.tcp[q]
    if not connection.block_begin <= psn <= connection.block_end:
        connection.block_begin = psn
        connection.block_end = psn + 1
    while kept(state, 2 * q, connection.block_end):
        connection.block_end += 1
    while connection.block_begin - 1 > expected and kept(state, 2 * q, connection.block_begin - 1):
        connection.block_begin -= 1


@inner
def in_order(net, state, port, q, psn, flags, now):
    """Deliver segment ``psn``, the expected one, and later segments that have already arrived."""
    delivered(net, state, port, q, psn, flags & LAST_OF_MESSAGE, now)
    while kept(state, 2 * q, state.rc[q].expected):
        at = state.rc[q].expected
        forget(state, 2 * q, at)
        m = state.order[message_of(state, q, at)]
        delivered(net, state, port, q, at, at + 1 == state.message[m].psn + state.message[m].packets, now)


@inner
def delivered(net, state, port, q, psn, last, now):
    """Deliver segment ``psn`` to the program; the last segment of a message wakes the program."""
    state.rc[q].expected = psn + 1
    if last:
        at = message_of(state, q, psn)
        state.qp[q].rx_message = at
        state.processor[port].receive_ps += net.ethernet.stack_receive_ps
        arrived(net, state, state.order[at], now + net.ethernet.stack_receive_ps)


@inner
def acknowledge(net, state, port, q):
    """Acknowledge all segments received in order. Returns the port to check."""
    connection = state.tcp[q]
    connection.unacked = 0
    connection.delayed_at = 0
    control(net, state, port, 2 * q + 1, ACK, state.rc[q].expected, state.qp[q].back_lid, state.qp[q].back_vl)
    k = state.vl_more[port * net.opt.vls + state.qp[q].back_vl].last_control
    state.packet[k].entered = connection.echo
    ahead = connection.block_begin - state.rc[q].expected
    state.packet[k].behind = ahead << 16 | connection.block_end - connection.block_begin if ahead > 0 else 0
    if net.ethernet.dctcp and connection.ecn_seen:
        state.packet[k].marks = FECN  # the ECE flag
    return port


@inner
def tcp_event(net, state, port, kind, payload, now):
    """Send an acknowledgement whose delay has passed. Returns the port to check."""
    q = payload - 16
    if state.tcp[q].delayed_at == now and state.tcp[q].unacked:
        return acknowledge(net, state, port, q)
    return np.int64(-1)
