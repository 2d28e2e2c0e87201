"""TCP as a sender: segments, the window, and the CPU cost of the operating system's stack (RFC
9293, 5681, 6298). Each queue pair is an open connection. A message is one write to the socket. It costs the sender's
CPU a fixed time, and a time for each byte; the CPU works segment by segment, regardless of the window. A segment
belongs to one message. Sequence numbers count segments, not bytes. A flow may have as many segments in the network as
its congestion window allows. Segments that are acknowledged selectively, or lost, no longer count (RFC 6675).
Acknowledgements change the window: slow start and congestion avoidance (RFC 5681), DCTCP (RFC 8257).
:mod:`~softib.sim.packet.kernels.ethernet.tcp_recovery` finds losses.
"""

import numpy as np

from softib.jit import inner
from softib.sim.packet.constants import DATA, FECN, LAST_OF_MESSAGE, MILLION
from softib.sim.packet.kernels.engine.loop import compute
from softib.sim.packet.kernels.engine.pools import new_packet
from softib.sim.packet.kernels.engine.rng import mixed
from softib.sim.packet.kernels.ethernet.tcp_recovery import (
    LOST,
    ONE,
    PROBE,
    REORDERED,
    all_lost,
    detect,
    in_network,
    next_lost,
    probe,
    recovered,
    selective,
    set_timer,
    slot,
    start_timer,
)
from softib.sim.packet.kernels.hca.hca import activate, first_stream, leave_ring, rotate
from softib.sim.packet.kernels.hca.messages import COMPUTE_OP, payload_of
from softib.sim.packet.kernels.link.credits import put_on_wire
from softib.sim.packet.kernels.switch.switch import cross
from softib.sim.packet.kernels.transport.retransmission import acknowledged

SEGMENT_HEADERS = 70
"""Ethernet 14 and FCS 4, IPv4 20, TCP 20 with timestamps 12 (RFC 7323)."""
LEAST_FRAME = 64


@inner
def tcp_posted(net, state, m, now):
    """Handle a program's write of message ``m`` to its socket: set the time from which its bytes are in the socket's
    buffer. One core serves a connection, and all connections of a host share its cores. Returns the port to check."""
    if state.message[m].opcode == COMPUTE_OP:
        return compute(net, state, m, now)
    q = state.message[m].qp
    port, connection = state.qp[q].src, state.tcp[q]
    state.message[m].began = now
    work = net.ethernet.stack_send_ps + state.message[m].length * net.ethernet.send_fs // 1000
    work += state.message[m].packets * net.ethernet.segment_ps
    state.processor[port].send_ps += work
    state.port[port].dma_free = max(state.port[port].dma_free, now) + work // net.ethernet.cores
    begin = max(max(now, connection.sender_free), state.port[port].dma_free - work)
    connection.sender_free = begin + work
    state.message[m].posted = begin + net.ethernet.stack_send_ps + 1
    return activate(net, state, q, now)


@inner
def next_segment(state, q):
    """Return (message, number) of the segment that ``q`` sends next."""
    repeated = state.tcp[q].retransmit
    if repeated:
        return state.order[sender_message(state, q, repeated - 1)], repeated - 1
    return state.order[state.qp[q].current_message], state.qp[q].next_psn


@inner
def sender_message(state, q, psn):
    """Return the index, in order of sending, of the message of ``q`` that segment ``psn`` belongs
    to."""
    at = min(state.qp[q].current_message, state.qp[q].end_message - 1)
    while psn < state.message[state.order[at]].psn:
        at -= 1
    while psn >= state.message[state.order[at]].psn + state.message[state.order[at]].packets:
        at += 1
    return at


@inner
def segment_octets(state, q):
    """Return the bytes of the frame of the next segment of ``q``."""
    m, psn = next_segment(state, q)
    return max(SEGMENT_HEADERS + payload_of(state, q, m, psn), np.int64(LEAST_FRAME))


@inner
def stream_segment_octets(state, stream):
    """Return :func:`segment_octets` of the queue pair of ``stream``."""
    return segment_octets(state, stream >> 1)


@inner
def segment_not_before(net, state, q):
    """Return when the connection may send its next segment, -1 while it waits for a message
    or an acknowledgement."""
    connection = state.tcp[q]
    if connection.forced == 0 and in_network(state, q) >= connection.window // ONE:
        return np.int64(-1)
    if connection.retransmit:
        return state.qp[q].not_before
    at = state.qp[q].current_message
    if at >= state.qp[q].end_message:
        return np.int64(-1)
    m = state.order[at]
    posted, psn = state.message[m].posted, state.qp[q].next_psn
    if posted == 0 or psn - state.rc[q].acked >= net.ethernet.window_most:
        return np.int64(-1)
    segment = psn - state.message[m].psn
    octets = min((segment + 1) * state.qp[q].payload, state.message[m].length)
    ready = posted - 1 + octets * net.ethernet.send_fs // 1000 + (segment + 1) * net.ethernet.segment_ps
    return max(ready, state.qp[q].not_before)


@inner
def settle(net, state, q, now):
    """Add the connection to the ring of senders if it may send now, otherwise remove it. Returns a port to check."""
    if state.qp[q].in_ring and segment_not_before(net, state, q) < 0:
        port, vl = state.qp[q].src, state.qp[q].out_vl
        leave_ring(state, port, vl, port * net.opt.vls + vl, 2 * q)
    return activate(net, state, q, now)


@inner
def send_segment(net, state, port, vl, row, now):
    """Send a segment of the connection whose turn it is; return the bytes of its frame."""
    stream = first_stream(state, row)
    q = stream >> 1
    connection = state.tcp[q]
    m, psn = next_segment(state, q)
    octets = segment_octets(state, q)
    last = psn + 1 == state.message[m].psn + state.message[m].packets
    flags = LAST_OF_MESSAGE if last else 0
    k = new_packet(state, stream, psn, octets, state.message[m].lid, state.qp[q].sl, DATA, flags)
    state.packet[k].entered = now  # the timestamp option
    end = put_on_wire(net, state, port, row, k, now)
    cross(net, state, port, vl, k, now)
    state.reg.sent += 1
    resent, row_of = connection.retransmit, slot(connection, psn)
    connection.forced = 0
    if resent:
        connection.retransmits += 1
        if state.segment[row_of] == LOST:
            connection.lost -= 1
        state.segment[row_of] = now + 1
        connection.retransmit = next_lost(state, q, psn + 1)
    else:
        state.segment[row_of] = now + 1
        state.qp[q].next_psn = psn + 1
        if last:
            state.qp[q].current_message += 1
    if connection.rto_at == 0 or (resent == 0 and connection.timer == PROBE):
        start_timer(net, state, q, now)
    gap = state.qp[q].ps_packet
    if gap:
        state.qp[q].not_before = now + (end - now) * gap // 1000
    t = segment_not_before(net, state, q)
    rotate(state, port, vl, row, stream, 0 <= t <= end)
    if t > end:
        activate(net, state, q, now)
    return octets


@inner
def measured(net, connection, rtt):
    """Compute the new RTO after a round trip of ``rtt`` (RFC 6298, section 2)."""
    if connection.srtt == 0:
        connection.srtt = rtt
        connection.rttvar = rtt // 2
    else:
        connection.rttvar = (3 * connection.rttvar + abs(connection.srtt - rtt)) // 4
        connection.srtt = (7 * connection.srtt + rtt) // 8
    connection.least_rtt = min(connection.least_rtt, rtt) if connection.least_rtt else rtt
    connection.rto = min(max(connection.srtt + 4 * connection.rttvar, net.ethernet.rto_min_ps), net.ethernet.rto_max_ps)


@inner
def tcp_ack(net, state, q, k, sent, now):
    """Handle acknowledgement ``k``. It acknowledges all segments below its number, and echoes the time ``sent``.
    Returns a port to check."""
    connection, upto, before = state.tcp[q], np.int64(state.packet[k].psn), state.rc[q].acked
    if net.ethernet.jitter_ps and state.qp[q].not_before <= now:
        z = mixed(np.uint64(now) ^ np.uint64(q) << np.uint64(40) ^ np.uint64(net.ethernet.seed))
        state.qp[q].not_before = now + np.int64(z >> np.uint64(33)) % (net.ethernet.jitter_ps + 1)
    if upto < before:
        return np.int64(-1)
    flight, later = in_network(state, q), selective(state, q, k, upto, now)
    if upto > before:
        measured(net, connection, now - sent)
        acknowledged(net, state, q, upto - 1, now)
        if net.ethernet.dctcp:
            dctcp(net, state, q, upto, upto - before, state.packet[k].marks & FECN)
        if connection.recover == 0 or connection.timed_out:
            grows(net, connection, upto, upto - before, flight)
        recovered(connection, upto)
    pending = detect(net, state, q, now) if later or connection.recover else np.int64(0)
    if upto > before or (connection.recover and connection.timer == PROBE):
        start_timer(net, state, q, now)
    if pending:
        set_timer(state, q, pending, REORDERED)
    return settle(net, state, q, now)


@inner
def grows(net, connection, upto, many, flight):
    """Grow the window after ``many`` further segments were acknowledged, if the sender had used the window (RFC 5681
    3.1; RFC 7661)."""
    if connection.window < connection.threshold:
        if 2 * ONE * flight >= connection.window:
            connection.window += many * ONE
    elif (flight + 1) * ONE >= connection.window and (net.ethernet.dctcp == 0 or upto > connection.cut_end):
        connection.window += many * ONE * ONE // connection.window
    connection.window = min(connection.window, net.ethernet.window_most * ONE)


@inner
def dctcp(net, state, q, upto, many, marked):
    """Handle the acknowledgement of ``many`` segments, ``marked`` or not: update alpha once per window, and reduce the
    window at most once (RFC 8257, section 3.3)."""
    connection = state.tcp[q]
    connection.all_acks += many
    if marked:
        connection.marked_acks += many
    if upto > connection.window_end:
        share = connection.marked_acks * MILLION // connection.all_acks
        connection.alpha += (share - connection.alpha) * net.ethernet.dctcp_gain // MILLION
        connection.all_acks = 0
        connection.marked_acks = 0
        connection.window_end = state.qp[q].next_psn
    if marked and upto > connection.cut_end:
        connection.window = max(
            connection.window - connection.window * connection.alpha // (2 * MILLION), np.int64(2 * ONE)
        )
        connection.threshold = connection.window
        connection.cut_end = state.qp[q].next_psn


@inner
def retransmission_timeout(net, state, port, q, now):
    """Handle the expiry of the timer that the connection's event names. Returns a port to check."""
    if state.rc[q].timed != now + 1:
        return np.int64(-1)  # another timer was started since
    state.rc[q].timed = 0
    connection = state.tcp[q]
    if connection.rto_at == 0:
        return np.int64(-1)
    if connection.rto_at > now:
        set_timer(state, q, connection.rto_at, connection.timer)
        return np.int64(-1)
    if connection.timer == REORDERED:
        start_timer(net, state, q, now)
        pending = detect(net, state, q, now)
        if pending:
            set_timer(state, q, pending, REORDERED)
    elif connection.timer == PROBE:
        probe(net, state, q, now)
    else:
        all_lost(net, state, q)
    return settle(net, state, q, now)
