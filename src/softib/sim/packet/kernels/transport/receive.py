"""End ports as receivers: the transport's state machine (IBA 9.7).

RC: a packet with the expected PSN is accepted. A later one is answered with a NAK (once), an
earlier one with the acknowledgement again. Acknowledgements are coalesced: the last packet of a
message, and every n-th packet of a long message, request one. UC and UD accept all packets; a
message with a missing packet never arrives.
"""

import numpy as np

from softib.jit import inner
from softib.sim.packet.constants import (
    ACK,
    ANSWER,
    ASKS_ACK,
    BAD,
    CNP,
    COPY,
    DATA,
    FECN,
    LAST_OF_MESSAGE,
    MULTICAST_LID,
    NAK,
    READ_REQUEST,
    READ_RESPONSE,
    RNR_NAK,
    SMP,
    WINDOW_PACKETS,
)
from softib.sim.packet.kernels.congestion.cct import backward
from softib.sim.packet.kernels.congestion.fecn_becn import forward_notice
from softib.sim.packet.kernels.congestion.hooks import ack_arrived, ack_leaves, data_arrived, is_overdue
from softib.sim.packet.kernels.engine.events import push, word
from softib.sim.packet.kernels.engine.packet_log import log_received
from softib.sim.packet.kernels.engine.pools import free_packet
from softib.sim.packet.kernels.hca.acks import control
from softib.sim.packet.kernels.hca.hca import memory_fs
from softib.sim.packet.kernels.hca.messages import READ_OP, UD, arrived
from softib.sim.packet.kernels.hca.reorder_buffer import forget, keep, kept
from softib.sim.packet.kernels.link.credits import count_received, grant
from softib.sim.packet.kernels.link.discards import check, refuse
from softib.sim.packet.kernels.management.smi import gmp_arrived
from softib.sim.packet.kernels.switch.aggregation import is_node, reduced_at
from softib.sim.packet.kernels.switch.multicast import delivered
from softib.sim.packet.kernels.switch.switch import copy_leaves
from softib.sim.packet.kernels.transport.reads_and_atomics import message_of, read_request, read_response
from softib.sim.packet.kernels.transport.retransmission import acknowledged, go_back
from softib.sim.packet.kernels.transport.rnr import finds_receive, not_ready, ready_for

NOT_READY = 3
"""Value of ``NAKED``: an RNR NAK must be sent. (1: a NAK must be sent; 2: a NAK was sent, and only
the expected packet is accepted.)"""


@inner
def receive(net, state, port, k, now):
    """Handle packet ``k``, fully arrived at end port ``port``. Returns a port to check, -1 for none."""
    octets, came_in = state.packet[k].octets, state.packet[k].came_in
    if net.opt.lossy:
        if came_in == port:
            check(net, state, port, k, now)
        if state.packet[k].marks & BAD:
            return refuse(net, state, port, k, now)
    if net.opt.by_sl:
        count_received(state, port, k)
    state.port[port].rcv_octets += octets
    state.port[port].rcv_packets += 1
    if is_node(net, port):
        in_memory = reduced_at(net, state, port, octets, now)
        written = in_memory + net.rare[port].reduce_ps
    else:
        in_memory = max(now, state.port[port].rx_free) + (octets * net.opt.rx_fs + 500) // 1000
        state.port[port].rx_free = in_memory
        half = np.int64(net.port[port].latency_ps)
        written = in_memory + half
        if net.opt.ramp:
            written = max(written, now + half + octets * ramp_of(net, state, k) // 1000)
    if net.watch_port.shape[0]:
        log_received(net, state, port, k, now, in_memory, written)
    if net.opt.multicast and state.packet[k].marks & COPY:  # for port 0 of a switch
        copy_leaves(net, state, k, in_memory)
    else:
        grant(net, state, came_in, state.packet[k].vl, octets, in_memory)
    kind, q = state.packet[k].kind, np.int64(state.packet[k].stream) >> 1
    look = np.int64(-1)
    if kind >= SMP:
        gmp_arrived(net, state, port, k, now)
        return look
    if state.packet[k].marks & FECN and kind != CNP and state.packet[k].dlid < MULTICAST_LID:
        look = forward_notice(net, state, port, k)
    if kind == DATA:
        if state.qp[q].service == 0:
            data_arrived(net, state, q, k, in_memory, now)
            data(net, state, port, q, k, written, now)
        else:
            unreliable(net, state, port, q, k, written, now)
    elif kind == ACK:
        before = state.rc[q].acked
        acknowledged(net, state, q, np.int64(state.packet[k].psn), now)
        look = max(look, ack_arrived(net, state, q, k, before, now))
    elif kind == NAK:
        acknowledged(net, state, q, np.int64(state.packet[k].psn) - 1, now)
        look = max(look, go_back(net, state, q, now))
    elif kind == CNP:
        backward(net, state, port, np.int64(state.packet[k].stream), now)
    elif kind == RNR_NAK:
        look = max(look, not_ready(net, state, port, q, np.int64(state.packet[k].psn), now))
    elif kind == READ_REQUEST:
        look = max(look, read_request(net, state, port, q, k, now))
    else:
        look = max(look, read_response(net, state, q, k, written, now))
    free_packet(state, k)
    return look


@inner
def ramp_of(net, state, k):
    """Return the time in fs per byte at which packet ``k`` is written to memory if it arrives alone."""
    q = np.int64(state.packet[k].stream) >> 1
    psn = np.int64(state.packet[k].psn)
    if state.packet[k].kind == READ_RESPONSE:
        at = state.qp[q].done_message
        return memory_fs(net, state, q, state.order[at], psn) if at < state.qp[q].last_message else net.opt.dma_fs
    if state.packet[k].kind != DATA:
        return net.opt.dma_fs
    if state.qp[q].service == UD:  # a packet is a message
        return net.opt.ramp_fs
    return memory_fs(net, state, q, state.order[message_of(state, q, psn)], psn)


@inner
def data(net, state, port, q, k, t, now):
    """Handle a data packet of RC."""
    psn, expected = np.int64(state.packet[k].psn), state.rc[q].expected
    if psn > expected:
        if net.opt.placement and psn - expected < WINDOW_PACKETS:
            keep(state, 2 * q, psn, state.packet[k].marks)
            if not is_overdue(net, state, port, q, psn - expected, now):
                return
        if not state.rc[q].naked:
            state.rc[q].naked = 1
            push(state, now + net.opt.ack_delay_ps, word(port, ANSWER, q))
        return
    asks = psn < expected or state.packet[k].marks & ASKS_ACK
    if psn == expected:
        if net.opt.rnr and not may_take(net, state, port, q, psn, now):
            return
        state.rc[q].naked = 0
        taken(net, state, q, psn, state.packet[k].marks, t)
        while net.opt.placement and kept(state, 2 * q, state.rc[q].expected):
            asks |= take_kept(net, state, q, state.rc[q].expected, t)
    if asks:
        state.rc[q].unacked = 1
        push(state, now + net.opt.ack_delay_ps, word(port, ANSWER, q))


@inner
def takes_receive_at(state, m):
    """Return the PSN of the packet of message ``m`` that takes a receive: the first of a SEND, the
    last of a WRITE with immediate."""
    return state.message[m].psn + (state.message[m].packets - 1 if state.message[m].immediate else 0)


@inner
def may_take(net, state, port, q, psn, now):
    """Return whether the expected packet ``psn`` can be accepted. If it takes a receive (the first
    packet of a SEND, the last of a WRITE with immediate) and none is posted, an RNR NAK is sent
    after earlier responses."""
    m = state.order[message_of(state, q, psn)]
    if psn != takes_receive_at(state, m) or ready_for(state, q, m, now):
        return True
    if state.rc[q].naked != NOT_READY:
        state.rc[q].naked = NOT_READY
        state.rc[q].unacked = 1
        push(state, now + net.opt.ack_delay_ps, word(port, ANSWER, q))
    return False


@inner
def taken(net, state, q, psn, flags, t):
    """Accept packet ``psn``, the expected one."""
    state.rc[q].expected = psn + 1
    if flags & LAST_OF_MESSAGE:
        at = message_of(state, q, psn)
        state.qp[q].rx_message = at
        arrived(net, state, state.order[at], in_order(state, q, at, t))


@inner
def in_order(state, q, at, t):
    """Return when message ``at`` of ``q``, whose last packet is written at ``t``, is in memory: not
    before the previous message to the same memory (IBA chapter 9, ordering)."""
    if at == state.qp[q].first_message or state.message[state.order[at - 1]].opcode >= READ_OP:
        return t
    return max(t, state.message[state.order[at - 1]].arrived)


@inner
def take_kept(net, state, q, psn, t):
    """Count packet ``psn``, which arrived early, as received; return whether it requests an
    acknowledgement."""
    asks = forget(state, 2 * q, psn)
    m = state.order[message_of(state, q, psn)]
    taken(net, state, q, psn, LAST_OF_MESSAGE if psn + 1 == state.message[m].psn + state.message[m].packets else 0, t)
    return asks


@inner
def unreliable(net, state, port, q, k, t, now):
    """Handle a data packet of UC or UD. In UC, a message with a missing packet is dropped (IBA
    chapter 9, unreliable connection). In UC and UD, a message without a posted receive is
    dropped."""
    psn = np.int64(state.packet[k].psn)
    if state.qp[q].service == UD:  # one packet is a message, and the next one may have another destination
        m = state.order[state.qp[q].first_message + psn]
        if state.message[m].group:
            state.rare_count[port].multicast_rcv += 1
            delivered(net, state, port, m, t)
        elif not net.opt.rnr or finds_receive(state, q, state.qp[q].first_message + psn, now):
            arrived(net, state, m, t)
        return
    at = message_of(state, q, psn)
    state.qp[q].rx_message = at
    m = state.order[at]
    if psn == state.message[m].psn:
        state.unreliable[q].expected = psn
    if (
        net.opt.rnr
        and psn == state.unreliable[q].expected
        and psn == takes_receive_at(state, m)
        and not finds_receive(state, q, at, now)
    ):
        state.unreliable[q].expected = -1
        return
    if psn == state.unreliable[q].expected:
        state.unreliable[q].expected = psn + 1
        if state.packet[k].marks & LAST_OF_MESSAGE:
            arrived(net, state, m, in_order(state, q, at, t))


@inner
def answer(net, state, port, q, now):
    """Send the acknowledgement of ``q``: an ACK for all packets received in order, or a NAK for the
    missing one. Returns the port to check."""
    not_ready_for = state.rc[q].naked == NOT_READY
    if state.rc[q].response_ring and (not state.rc[q].naked or not_ready_for):
        return np.int64(-1)  # responses are in the order of requests (IBA 9.7.5): after those of earlier READs
    if not state.rc[q].unacked and not state.rc[q].naked:
        return np.int64(-1)
    state.rc[q].unacked = 0
    is_nak = state.rc[q].naked == 1 or not_ready_for
    if is_nak:
        state.rc[q].naked = 2
    psn = state.rc[q].expected
    kind, about = (NAK, psn) if is_nak else (ACK, psn - 1)
    if not_ready_for:
        kind = RNR_NAK
    look = control(net, state, port, 2 * q + 1, kind, about, state.qp[q].back_lid, state.qp[q].back_vl)
    ack_leaves(net, state, port, q, now)
    return look
