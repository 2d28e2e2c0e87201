# mypy: ignore-errors
"""End ports as receivers: the transport's state machine (IBA 9.7).

RC: a packet with the expected PSN is taken; one ahead is answered with a NAK (once), one behind with the acknowledgement again.
Acknowledgements are coalesced: the last packet of a message asks for one, and every so many packets of a long one. UC and UD take
what comes; a message with a hole never arrives.
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
from softib.sim.packet.kernels.congestion.congestion_control import backward, forward_notice
from softib.sim.packet.kernels.engine.events import push, word
from softib.sim.packet.kernels.engine.packet_log import log_received
from softib.sim.packet.kernels.engine.pools import free_packet
from softib.sim.packet.kernels.hca.acks import control
from softib.sim.packet.kernels.hca.hca import memory_fs
from softib.sim.packet.kernels.hca.messages import arrived
from softib.sim.packet.kernels.hca.packet_sizes import READ_OP, UD
from softib.sim.packet.kernels.hca.placement import LOST_PACKETS, forget, keep, kept
from softib.sim.packet.kernels.link.credits import grant
from softib.sim.packet.kernels.link.discards import check, refuse
from softib.sim.packet.kernels.link.sl_counters import count_received
from softib.sim.packet.kernels.management.smi import gmp_arrived
from softib.sim.packet.kernels.switch.aggregation import is_node, reduced_at
from softib.sim.packet.kernels.switch.multicast import delivered
from softib.sim.packet.kernels.switch.multicast_copies import copy_leaves
from softib.sim.packet.kernels.transport.reads_and_atomics import message_of, read_request, read_response
from softib.sim.packet.kernels.transport.retransmission import acknowledged, go_back
from softib.sim.packet.kernels.transport.rnr import finds_receive, not_ready, ready_for

NOT_READY = 3
"""Of ``NAKED``: an RNR NAK is to be sent. (1: a NAK is to be sent; 2: one was sent, and nothing is taken but the expected packet.)"""


@inner
def receive(n, s, port, k, now):
    """Packet ``k`` is whole at end port ``port``. Returns a port to look at, -1 for none."""
    octets, came_in = s.packet[k].octets, s.packet[k].came_in
    if n.opt.lossy:
        if came_in == port:
            check(n, s, port, k, now)
        if s.packet[k].marks & BAD:
            return refuse(n, s, port, k, now)
    if n.opt.by_sl:
        count_received(s, port, k)
    s.port[port].rcv_octets += octets
    s.port[port].rcv_packets += 1
    if is_node(n, port):
        in_memory = reduced_at(n, s, port, octets, now)
        written = in_memory + n.rare[port].reduce_ps
    else:
        in_memory = max(now, s.port[port].rx_free) + (octets * n.opt.rx_fs + 500) // 1000
        s.port[port].rx_free = in_memory
        half = np.int64(n.port[port].latency_ps)
        written = in_memory + half
        if n.opt.ramp:
            written = max(written, now + half + octets * ramp_of(n, s, k) // 1000)
    if n.watch_port.shape[0]:
        log_received(n, s, port, k, now, in_memory, written)
    if n.opt.multicast and s.packet[k].marks & COPY:  # for port 0 of a switch
        copy_leaves(n, s, k, in_memory)
    else:
        grant(n, s, came_in, s.packet[k].vl, octets, in_memory)
    what, q = s.packet[k].kind, np.int64(s.packet[k].stream) >> 1
    look = np.int64(-1)
    if what >= SMP:
        gmp_arrived(n, s, port, k, now)
        return look
    if s.packet[k].marks & FECN and what != CNP and s.packet[k].dlid < MULTICAST_LID:
        look = forward_notice(n, s, port, k)
    if what == DATA:
        if s.qp[q].service == 0:
            data(n, s, port, q, k, written, now)
        else:
            unreliable(n, s, port, q, k, written, now)
    elif what == ACK:
        acknowledged(n, s, q, np.int64(s.packet[k].psn), now)
    elif what == NAK:
        acknowledged(n, s, q, np.int64(s.packet[k].psn) - 1, now)
        look = max(look, go_back(n, s, q, now))
    elif what == CNP:
        backward(n, s, port, np.int64(s.packet[k].stream), now)
    elif what == RNR_NAK:
        look = max(look, not_ready(n, s, port, q, np.int64(s.packet[k].psn), now))
    elif what == READ_REQUEST:
        look = max(look, read_request(n, s, port, q, k, now))
    else:
        look = max(look, read_response(n, s, q, k, written, now))
    free_packet(s, k)
    return look


@inner
def ramp_of(n, s, k):
    """fs an octet that packet ``k`` takes to memory when it comes alone."""
    q = np.int64(s.packet[k].stream) >> 1
    psn = np.int64(s.packet[k].psn)
    if s.packet[k].kind == READ_RESPONSE:
        at = s.qp[q].done_message
        return memory_fs(n, s, q, s.order[at], psn) if at < s.qp[q].last_message else n.opt.dma_fs
    if s.packet[k].kind != DATA:
        return n.opt.dma_fs
    if s.qp[q].service == UD:  # a packet is a message
        return n.opt.ramp_fs
    return memory_fs(n, s, q, s.order[message_of(s, q, psn)], psn)


@inner
def data(n, s, port, q, k, t, now):
    """A data packet of RC."""
    psn, expected = np.int64(s.packet[k].psn), s.rc[q].expected
    if psn > expected:
        if n.opt.placement and psn - expected < WINDOW_PACKETS:
            keep(s, 2 * q, psn, s.packet[k].marks)
            if psn - expected < LOST_PACKETS:
                return
        if not s.rc[q].naked:
            s.rc[q].naked = 1
            push(s, now + n.opt.ack_delay_ps, word(port, ANSWER, q))
        return
    asks = psn < expected or s.packet[k].marks & ASKS_ACK
    if psn == expected:
        if n.opt.rnr and not may_take(n, s, port, q, psn, now):
            return
        s.rc[q].naked = 0
        taken(n, s, q, psn, s.packet[k].marks, t)
        while n.opt.placement and kept(s, 2 * q, s.rc[q].expected):
            asks |= take_kept(n, s, q, s.rc[q].expected, t)
    if asks:
        s.rc[q].unacked = 1
        push(s, now + n.opt.ack_delay_ps, word(port, ANSWER, q))


@inner
def takes_receive_at(s, m):
    """PSN of the packet of message ``m`` that takes a receive: the first of a SEND, the last of a WRITE with immediate."""
    return s.message[m].psn + (s.message[m].packets - 1 if s.message[m].immediate else 0)


@inner
def may_take(n, s, port, q, psn, now):
    """Is the expected packet ``psn`` none that takes a receive which is not there? (The first of a SEND, the last of a WRITE with immediate.)
    Else an RNR NAK is sent, after the responses before it."""
    m = s.order[message_of(s, q, psn)]
    if psn != takes_receive_at(s, m) or ready_for(s, q, m, now):
        return True
    if s.rc[q].naked != NOT_READY:
        s.rc[q].naked = NOT_READY
        s.rc[q].unacked = 1
        push(s, now + n.opt.ack_delay_ps, word(port, ANSWER, q))
    return False


@inner
def taken(n, s, q, psn, flags, t):
    """Packet ``psn`` is the one that was expected."""
    s.rc[q].expected = psn + 1
    if flags & LAST_OF_MESSAGE:
        at = message_of(s, q, psn)
        s.qp[q].rx_message = at
        arrived(n, s, s.order[at], in_order(s, q, at, t))


@inner
def in_order(s, q, at, t):
    """When the message ``at`` of ``q``, whose last packet is written at ``t``, is in memory: not before the message before it that went there, too (IBA chapter 9, ordering)."""
    if at == s.qp[q].first_message or s.message[s.order[at - 1]].opcode >= READ_OP:
        return t
    return max(t, s.message[s.order[at - 1]].arrived)


@inner
def take_kept(n, s, q, psn, t):
    """Count packet ``psn``, which has come before, as received; does it ask for an acknowledgement?"""
    asks = forget(s, 2 * q, psn)
    m = s.order[message_of(s, q, psn)]
    taken(n, s, q, psn, LAST_OF_MESSAGE if psn + 1 == s.message[m].psn + s.message[m].packets else 0, t)
    return asks


@inner
def unreliable(n, s, port, q, k, t, now):
    """A data packet of UC or UD. UC: a message of which a packet is missing is dropped (IBA chapter 9, unreliable connection), and so is, of both, one that finds no receive."""
    psn = np.int64(s.packet[k].psn)
    if s.qp[q].service == UD:  # a packet is a message, and the next one may have another destination
        m = s.order[s.qp[q].first_message + psn]
        if s.message[m].group:
            s.rare_count[port].multicast_rcv += 1
            delivered(n, s, port, m, t)
        elif not n.opt.rnr or finds_receive(s, q, s.qp[q].first_message + psn, now):
            arrived(n, s, m, t)
        return
    at = message_of(s, q, psn)
    s.qp[q].rx_message = at
    m = s.order[at]
    if psn == s.message[m].psn:
        s.unreliable[q].expected = psn
    if (
        n.opt.rnr
        and psn == s.unreliable[q].expected
        and psn == takes_receive_at(s, m)
        and not finds_receive(s, q, at, now)
    ):
        s.unreliable[q].expected = -1
        return
    if psn == s.unreliable[q].expected:
        s.unreliable[q].expected = psn + 1
        if s.packet[k].marks & LAST_OF_MESSAGE:
            arrived(n, s, m, in_order(s, q, at, t))


@inner
def answer(n, s, port, q, now):
    """The acknowledgement of ``q`` leaves: ACK of all that came in order, or NAK of what did not. Returns the port to look at."""
    not_ready_for = s.rc[q].naked == NOT_READY
    if s.rc[q].response_ring and (not s.rc[q].naked or not_ready_for):
        return np.int64(-1)  # responses are in the order of requests (IBA 9.7.5): after the READs before it
    if not s.rc[q].unacked and not s.rc[q].naked:
        return np.int64(-1)
    s.rc[q].unacked = 0
    is_nak = s.rc[q].naked == 1 or not_ready_for
    if is_nak:
        s.rc[q].naked = 2
    psn = s.rc[q].expected
    what, about = (NAK, psn) if is_nak else (ACK, psn - 1)
    if not_ready_for:
        what = RNR_NAK
    return control(n, s, port, 2 * q + 1, what, about, s.qp[q].back_lid, s.qp[q].back_vl)
