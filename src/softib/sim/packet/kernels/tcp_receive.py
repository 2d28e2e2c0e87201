# mypy: ignore-errors
"""TCP as a receiver: what the stack costs, reassembly, delayed acknowledgements (RFC 9293 3.8.6.3, RFC 5681 4.2), ECN echo (RFC 8257).

With interrupt moderation (ixgbe's EITR: a timer that begins with each interrupt) a frame waits for the next interrupt; acknowledgements do not. A segment costs the receiver's CPU a time for each octet, one core a connection; only then the transport sees it. Every second segment is
acknowledged at once, and so is one out of order, one that fills a hole or a part of one (RFC 5681 4.2) and one that ends a message (its push flag wakes the
program, and reading sends the acknowledgement, as Linux does; here it does not wait for the program, so a sender may see a message completed before the
other program has it); a single one after the delay.
"""

import numpy as np

from softib.jit import inner
from softib.sim.packet.ethernet_tables import (
    CORES,
    CPU_RECEIVE,
    CPU_SEND,
    DCTCP,
    DELAYED_ACK_PS,
    DELAYED_AT,
    ECHO,
    ECN_SEEN,
    ETHERNET_TIMER,
    FURTHEST,
    INTERRUPT_AT,
    INTERRUPT_PS,
    RECEIVER_FREE,
    SEGMENT_PS,
    SEGMENTS_UNACKED,
    STACK_FS,
    STACK_RECEIVE_PS,
)
from softib.sim.packet.kernels.control import control
from softib.sim.packet.kernels.discards import corrupted
from softib.sim.packet.kernels.ethernet_switch import dropped
from softib.sim.packet.kernels.events import push, push_timer, word
from softib.sim.packet.kernels.placement import forget, keep, kept
from softib.sim.packet.kernels.pools import free_packet
from softib.sim.packet.kernels.reads import message_of
from softib.sim.packet.kernels.tcp import SEGMENT_HEADERS
from softib.sim.packet.kernels.tcp_acknowledgements import tcp_ack
from softib.sim.packet.kernels.work import arrived
from softib.sim.packet.tables import (
    ACK,
    ANSWER,
    BACK_LID,
    BACK_VL,
    ENTERED,
    EXPECTED,
    FECN,
    FLAGS,
    IN,
    LAST_CONTROL,
    LAST_OF_MESSAGE,
    M_PACKETS,
    M_PSN,
    OCTETS,
    OPT_VLS,
    PSN,
    QP,
    RCV_ERRORS,
    RCV_FECN,
    RCV_OCTETS,
    RCV_PACKETS,
    RX_FREE,
    RX_MESSAGE,
    WHAT,
    WINDOW_PACKETS,
)

SECOND = 2


@inner
def tcp_receive(n, s, port, k, now):
    """Frame ``k`` is whole at end port ``port``. Returns a port to look at, -1 for none."""
    octets = np.int64(s.packet[k, OCTETS])
    if s.packet[k, IN] == port and corrupted(n, s, port, octets, now):
        return dropped(s, k, port, RCV_ERRORS)
    s.count[port, RCV_OCTETS] += octets
    s.count[port, RCV_PACKETS] += 1
    q = np.int64(s.packet[k, QP]) >> 1
    if s.packet[k, WHAT] == ACK:
        s.processor[port, CPU_SEND] += n.ethernet[SEGMENT_PS]
        look = tcp_ack(n, s, q, k, s.when[k, ENTERED], now)
        free_packet(s, k)
        return look
    c = s.connection[q]
    work = (octets - SEGMENT_HEADERS) * n.ethernet[STACK_FS] // 1000 + n.ethernet[SEGMENT_PS]
    s.processor[port, CPU_RECEIVE] += work
    seen = interrupt(n, s, port, now)
    s.port[port, RX_FREE] = max(s.port[port, RX_FREE], seen) + work // n.ethernet[CORES]
    c[RECEIVER_FREE] = max(max(seen, c[RECEIVER_FREE]) + work, s.port[port, RX_FREE])
    if c[RECEIVER_FREE] > now:
        push(s, c[RECEIVER_FREE], word(port, ANSWER, k))
        return np.int64(-1)
    return segment(n, s, port, k, now)


@inner
def interrupt(n, s, port, now):
    """When the processor sees a frame that is there ``now``: at an interrupt that waits already, else at one that keeps the distance to the last."""
    gap = n.ethernet[INTERRUPT_PS]
    if gap == 0:
        return now
    last = s.processor[port, INTERRUPT_AT] - 1
    if last < now:
        last = now if last < 0 else max(now, last + gap)
        s.processor[port, INTERRUPT_AT] = last + 1
    return last


@inner
def segment(n, s, port, k, now):
    """The transport has segment ``k``. Returns a port to look at."""
    q = np.int64(s.packet[k, QP]) >> 1
    c, psn, expected = s.connection[q], np.int64(s.packet[k, PSN]), s.qp[q, EXPECTED]
    flags, sent = np.int64(s.packet[k, FLAGS]), s.when[k, ENTERED]
    free_packet(s, k)
    marked = np.int64(1) if flags & FECN else np.int64(0)
    if marked:
        s.count[port, RCV_FECN] += 1
    look = np.int64(-1)
    if n.ethernet[DCTCP] and marked != c[ECN_SEEN]:
        if c[SEGMENTS_UNACKED]:
            look = acknowledge(n, s, port, q)
        c[ECN_SEEN] = marked
    c[FURTHEST] = max(c[FURTHEST], psn + 1)
    if psn != expected:
        if expected < psn < expected + WINDOW_PACKETS - 1:
            keep(s, 2 * q, psn, np.int64(0))
        return acknowledge(n, s, port, q)
    if c[SEGMENTS_UNACKED] == 0:
        c[ECHO] = sent
    in_order(n, s, port, q, psn, flags, now)
    c[SEGMENTS_UNACKED] += 1
    if psn + 1 < c[FURTHEST] or c[SEGMENTS_UNACKED] >= SECOND or flags & LAST_OF_MESSAGE:
        return acknowledge(n, s, port, q)
    c[DELAYED_AT] = now + n.ethernet[DELAYED_ACK_PS]
    push_timer(s, c[DELAYED_AT], word(port, ETHERNET_TIMER, 16 + q))
    return look


@inner
def in_order(n, s, port, q, psn, flags, now):
    """Segment ``psn`` is the next one; those behind it that are there already follow."""
    delivered(n, s, port, q, psn, flags & LAST_OF_MESSAGE, now)
    while kept(s, 2 * q, s.qp[q, EXPECTED]):
        at = s.qp[q, EXPECTED]
        forget(s, 2 * q, at)
        m = s.order[message_of(s, q, at)]
        delivered(n, s, port, q, at, at + 1 == s.message[m, M_PSN] + s.message[m, M_PACKETS], now)


@inner
def delivered(n, s, port, q, psn, last, now):
    """The program gets segment ``psn``; the last of a message wakes it."""
    s.qp[q, EXPECTED] = psn + 1
    if last:
        at = message_of(s, q, psn)
        s.qp[q, RX_MESSAGE] = at
        s.processor[port, CPU_RECEIVE] += n.ethernet[STACK_RECEIVE_PS]
        arrived(n, s, s.order[at], now + n.ethernet[STACK_RECEIVE_PS])


@inner
def acknowledge(n, s, port, q):
    """Acknowledge all that came in order. Returns the port to look at."""
    c = s.connection[q]
    c[SEGMENTS_UNACKED] = 0
    c[DELAYED_AT] = 0
    control(n, s, port, 2 * q + 1, ACK, s.qp[q, EXPECTED], s.qp[q, BACK_LID], s.qp[q, BACK_VL])
    k = s.more[port * n.opt[OPT_VLS] + s.qp[q, BACK_VL], LAST_CONTROL]
    s.when[k, ENTERED] = c[ECHO]
    if n.ethernet[DCTCP] and c[ECN_SEEN]:
        s.packet[k, FLAGS] = FECN  # the ECE flag
    return port


@inner
def tcp_event(n, s, port, kind, payload, now):
    """An acknowledgement was delayed long enough. Returns the port to look at."""
    q = payload - 16
    if s.connection[q, DELAYED_AT] == now and s.connection[q, SEGMENTS_UNACKED]:
        return acknowledge(n, s, port, q)
    return np.int64(-1)
