# mypy: ignore-errors
"""End ports as receivers: the transport's state machine (IBA 9.7).

RC: a packet with the expected PSN is taken; one ahead is answered with a NAK (once), one behind with the acknowledgement again.
Acknowledgements are coalesced: the last packet of a message asks for one, and every so many packets of a long one. UC and UD take
what comes; a message with a hole never arrives.
"""

import numpy as np

from softib.jit import inner
from softib.sim.packet.kernels.congestion import backward, forward_notice
from softib.sim.packet.kernels.control import control
from softib.sim.packet.kernels.discards import corrupted, discard
from softib.sim.packet.kernels.events import push, push_timer, word
from softib.sim.packet.kernels.hca import READ_OP, activate, join_ring, leave_ring, memory_fs
from softib.sim.packet.kernels.links import grant
from softib.sim.packet.kernels.pools import free_packet
from softib.sim.packet.kernels.work import arrived, completed
from softib.sim.packet.tables import (
    ACK,
    ACK_DELAY,
    ACKED,
    ANSWER,
    ASKS_ACK,
    BACK_FETCHED,
    BACK_LID,
    BACK_VL,
    CNP,
    CQE,
    CURRENT_MESSAGE,
    DATA,
    DMA_FS,
    DONE_MESSAGE,
    END_MESSAGE,
    EXPECTED,
    FECN,
    FETCH,
    FLAGS,
    IN,
    IN_RING,
    LAST_OF_MESSAGE,
    LEFT,
    M_OPCODE,
    M_PACKETS,
    M_PSN,
    NAK,
    NAKED,
    NEXT_PSN,
    OCTETS,
    OPT_VLS,
    OUT_VL,
    PLACEMENT,
    PROGRESS,
    PSN,
    QP,
    RAMP,
    RCV_ERRORS,
    RCV_OCTETS,
    RCV_PACKETS,
    READ_REQUEST,
    READ_RESPONSE,
    READS_OUT,
    RECOVERS,
    RESPONSE,
    RESPONSE_END,
    RESPONSE_PSN,
    RESPONSE_RING,
    RETRIES,
    RX,
    RX_FREE,
    RX_FS,
    RX_MESSAGE,
    SERVICE,
    TIMED,
    TIMEOUT,
    TIMER,
    TRIES,
    UNACKED,
    VL,
    WHAT,
    WINDOW_PACKETS,
)  # fmt: skip

LOST_PACKETS = 256
"""A packet that is missing when one this far behind it arrives counts as lost, not as late."""


@inner
def receive(n, s, port, k, now):
    """Packet ``k`` is whole at end port ``port``. Returns a port to look at, -1 for none."""
    octets, came_in = s.packet[k, OCTETS], s.packet[k, IN]
    if came_in == port and corrupted(n, s, port, octets):
        return discard(n, s, k, port, RCV_ERRORS, now)
    s.count[port, RCV_OCTETS] += octets
    s.count[port, RCV_PACKETS] += 1
    in_memory = max(now, s.port[port, RX_FREE]) + (octets * n.opt[RX_FS] + 500) // 1000
    s.port[port, RX_FREE] = in_memory
    written = in_memory + n.opt[RX]
    if n.opt[RAMP]:
        written = max(written, now + n.opt[RX] + octets * ramp_of(n, s, k) // 1000)
    grant(n, s, came_in, s.packet[k, VL], octets, in_memory)
    what, q = s.packet[k, WHAT], np.int64(s.packet[k, QP]) >> 1
    look = np.int64(-1)
    if s.packet[k, FLAGS] & FECN:
        look = forward_notice(n, s, port, k)
    if what == DATA:
        if s.qp[q, SERVICE] == 0:
            data(n, s, port, q, k, written, now)
        else:
            unreliable(n, s, q, k, written)
    elif what == ACK:
        acknowledged(n, s, q, np.int64(s.packet[k, PSN]), now)
    elif what == NAK:
        acknowledged(n, s, q, np.int64(s.packet[k, PSN]) - 1, now)
        look = go_back(n, s, q, now)
    elif what == CNP:
        backward(n, s, port, np.int64(s.packet[k, QP]), now)
    elif what == READ_REQUEST:
        look = read_request(n, s, port, q, k, now)
    else:
        look = read_response(n, s, q, k, written, now)
    free_packet(s, k)
    return look


@inner
def ramp_of(n, s, k):
    """fs an octet that packet ``k`` takes to memory when it comes alone."""
    q = np.int64(s.packet[k, QP]) >> 1
    at = s.qp[q, DONE_MESSAGE] if s.packet[k, WHAT] == READ_RESPONSE else s.qp[q, RX_MESSAGE]
    if at >= s.qp[q, END_MESSAGE]:
        return n.opt[DMA_FS]
    return memory_fs(n, s, q, s.order[at], np.int64(s.packet[k, PSN]))


@inner
def message_of(s, q, psn):
    """The message of ``q`` that packet ``psn`` belongs to, searched from the one that the receiver is at."""
    at = s.qp[q, RX_MESSAGE]
    while psn >= s.message[s.order[at], M_PSN] + s.message[s.order[at], M_PACKETS]:
        at += 1
    while psn < s.message[s.order[at], M_PSN]:
        at -= 1
    return at


@inner
def data(n, s, port, q, k, t, now):
    """A data packet of RC."""
    psn, expected = np.int64(s.packet[k, PSN]), s.qp[q, EXPECTED]
    if psn > expected:
        if n.opt[PLACEMENT] and psn - expected < WINDOW_PACKETS:
            keep(s, 2 * q, psn, s.packet[k, FLAGS])
            if psn - expected < LOST_PACKETS:
                return
        if not s.qp[q, NAKED]:
            s.qp[q, NAKED] = 1
            push(s, now + n.opt[ACK_DELAY], word(port, ANSWER, q))
        return
    asks = psn < expected or s.packet[k, FLAGS] & ASKS_ACK
    if psn == expected:
        s.qp[q, NAKED] = 0
        taken(n, s, q, psn, s.packet[k, FLAGS], t)
        while n.opt[PLACEMENT] and kept(s, 2 * q, s.qp[q, EXPECTED]):
            asks |= take_kept(n, s, q, s.qp[q, EXPECTED], t)
    if asks:
        s.qp[q, UNACKED] = 1
        push(s, now + n.opt[ACK_DELAY], word(port, ANSWER, q))


@inner
def taken(n, s, q, psn, flags, t):
    """Packet ``psn`` is the one that was expected."""
    s.qp[q, EXPECTED] = psn + 1
    if flags & LAST_OF_MESSAGE:
        at = message_of(s, q, psn)
        s.qp[q, RX_MESSAGE] = at
        arrived(n, s, s.order[at], t)


@inner
def keep(s, row, psn, flags):
    """Packet ``psn`` came ahead of others and is in its place: two bits say so, and whether it asks for an acknowledgement."""
    at = psn & (WINDOW_PACKETS - 1)
    s.place[row, at >> 6] |= np.uint64(1) << np.uint64(at & 63)
    if flags & ASKS_ACK:
        s.place[row, (WINDOW_PACKETS + at) >> 6] |= np.uint64(1) << np.uint64(at & 63)


@inner
def kept(s, row, psn):
    """Has packet ``psn`` come already?"""
    at = psn & (WINDOW_PACKETS - 1)
    return s.place[row, at >> 6] >> np.uint64(at & 63) & np.uint64(1) != 0


@inner
def take_kept(n, s, q, psn, t):
    """Count packet ``psn``, which has come before, as received; does it ask for an acknowledgement?"""
    asks = forget(s, 2 * q, psn)
    m = s.order[message_of(s, q, psn)]
    taken(n, s, q, psn, LAST_OF_MESSAGE if psn + 1 == s.message[m, M_PSN] + s.message[m, M_PACKETS] else 0, t)
    return asks


@inner
def forget(s, row, psn):
    """Packet ``psn`` is no longer ahead of others. Returns 1 if it asked for an acknowledgement, else 0."""
    at = psn & (WINDOW_PACKETS - 1)
    bit = np.uint64(1) << np.uint64(at & 63)
    s.place[row, at >> 6] &= ~bit
    wants_ack = s.place[row, (WINDOW_PACKETS + at) >> 6] & bit != 0
    s.place[row, (WINDOW_PACKETS + at) >> 6] &= ~bit
    return np.int64(wants_ack)


@inner
def unreliable(n, s, q, k, t):
    """A data packet of UC or UD. UC: a message of which a packet is missing is dropped (IBA 9.8.3)."""
    psn = np.int64(s.packet[k, PSN])
    at = message_of(s, q, psn)
    s.qp[q, RX_MESSAGE] = at
    m = s.order[at]
    if psn == s.message[m, M_PSN]:
        s.qp[q, EXPECTED] = psn
    if psn == s.qp[q, EXPECTED]:
        s.qp[q, EXPECTED] = psn + 1
        if s.packet[k, FLAGS] & LAST_OF_MESSAGE:
            arrived(n, s, m, t)


@inner
def answer(n, s, port, q, now):
    """The acknowledgement of ``q`` leaves: ACK of all that came in order, or NAK of what did not. Returns the port to look at."""
    if s.qp[q, RESPONSE_RING] and not s.qp[q, NAKED]:
        return np.int64(-1)  # responses are in the order of requests (IBA 9.7.5): after the READs before it
    if not s.qp[q, UNACKED] and not s.qp[q, NAKED]:
        return np.int64(-1)
    s.qp[q, UNACKED] = 0
    is_nak = s.qp[q, NAKED] == 1
    if is_nak:
        s.qp[q, NAKED] = 2
    psn = s.qp[q, EXPECTED]
    what, about = (NAK, psn) if is_nak else (ACK, psn - 1)
    return control(n, s, port, 2 * q + 1, what, about, s.qp[q, BACK_LID], s.qp[q, BACK_VL])


@inner
def acknowledged(n, s, q, psn, now):
    """All packets of ``q`` up to ``psn`` arrived (READs are done by their responses)."""
    if psn + 1 <= s.qp[q, ACKED]:
        return
    s.qp[q, ACKED] = psn + 1
    s.qp[q, PROGRESS] = now
    s.qp[q, TRIES] = 0
    at = s.qp[q, DONE_MESSAGE]
    while at < s.qp[q, END_MESSAGE]:
        m = s.order[at]
        if s.message[m, M_PSN] + s.message[m, M_PACKETS] > psn + 1:
            break
        completed(n, s, m, now + n.opt[CQE])
        at += 1
    s.qp[q, DONE_MESSAGE] = at
    if s.qp[q, NEXT_PSN] < psn + 1:  # it had gone back for what arrived after all
        skip_to(s, q, psn + 1)


@inner
def skip_to(s, q, psn):
    """The next packet that ``q`` sends is ``psn``."""
    at = s.qp[q, DONE_MESSAGE]
    while at < s.qp[q, END_MESSAGE]:
        m = s.order[at]
        if s.message[m, M_PSN] + s.message[m, M_PACKETS] > psn:
            break
        at += 1
    s.qp[q, CURRENT_MESSAGE] = at
    s.qp[q, NEXT_PSN] = psn


@inner
def go_back(n, s, q, now):
    """Send again from the first packet that is not acknowledged. Returns the port to look at."""
    if s.qp[q, ACKED] < s.qp[q, NEXT_PSN]:
        skip_to(s, q, s.qp[q, ACKED])
        s.qp[q, READS_OUT] = 0
    s.qp[q, PROGRESS] = now
    return activate(n, s, q, now)


@inner
def give_up(n, s, port, q):
    """The retries are exceeded: the queue pair is in error, and what it has not completed never will be."""
    if s.qp[q, IN_RING]:
        vl = s.qp[q, OUT_VL]
        leave_ring(s, port, vl, port * n.opt[OPT_VLS] + vl, 2 * q)
    s.reg[LEFT] -= s.qp[q, END_MESSAGE] - s.qp[q, DONE_MESSAGE]
    s.qp[q, END_MESSAGE] = s.qp[q, DONE_MESSAGE]
    s.qp[q, CURRENT_MESSAGE] = s.qp[q, DONE_MESSAGE]
    s.qp[q, TIMED] = 0


@inner
def timeout(n, s, port, q, now):
    """Nothing was acknowledged for the ACK timeout: send again, a limited number of times (IBA 9.7.6.1.3). Returns a port to look at."""
    if s.qp[q, ACKED] >= s.qp[q, NEXT_PSN]:
        s.qp[q, TIMED] = 0
        return np.int64(-1)
    due = s.qp[q, PROGRESS] + n.opt[TIMEOUT]
    if due > now:
        push_timer(s, due, word(port, TIMER, q))
        return np.int64(-1)
    s.qp[q, TRIES] += 1
    if s.qp[q, TRIES] > n.opt[RETRIES]:
        give_up(n, s, port, q)
        return np.int64(-1)
    push_timer(s, now + n.opt[TIMEOUT], word(port, TIMER, q))
    return go_back(n, s, q, now)


@inner
def read_request(n, s, port, q, k, now):
    """A READ or atomic arrived: its response takes turns with the other streams of ``port``. Returns the port to look at."""
    psn, expected = np.int64(s.packet[k, PSN]), s.qp[q, EXPECTED]
    if psn > expected:
        if not s.qp[q, NAKED]:
            s.qp[q, NAKED] = 1
            push(s, now + n.opt[ACK_DELAY], word(port, ANSWER, q))
        return np.int64(-1)
    at = message_of(s, q, psn)
    m = s.order[at]
    s.qp[q, RX_MESSAGE] = at
    s.qp[q, NAKED] = 0
    s.qp[q, EXPECTED] = max(expected, s.message[m, M_PSN] + s.message[m, M_PACKETS])
    if s.qp[q, RESPONSE_RING] and psn >= s.qp[q, RESPONSE_PSN]:
        s.qp[q, RESPONSE_END] = max(s.qp[q, RESPONSE_END], at + 1)
        return np.int64(-1)
    s.qp[q, BACK_FETCHED] = max(s.qp[q, BACK_FETCHED], now + n.opt[FETCH])
    s.qp[q, RESPONSE] = at
    s.qp[q, RESPONSE_END] = at + 1
    s.qp[q, RESPONSE_PSN] = psn
    if s.qp[q, RESPONSE_RING]:
        return np.int64(-1)
    return join_ring(n, s, 2 * q + 1)


@inner
def message_before(s, q):
    """The first READ or atomic of ``q`` that is not done."""
    at = s.qp[q, DONE_MESSAGE]
    while s.message[s.order[at], M_OPCODE] < READ_OP:
        at += 1
    return s.order[at]


@inner
def read_response(n, s, q, k, t, now):
    """A packet of an answer. Returns a port to look at: the sender may have room for another READ."""
    psn = np.int64(s.packet[k, PSN])
    if psn < s.qp[q, ACKED]:
        return np.int64(-1)
    if psn > s.qp[q, ACKED] and s.message[s.order[s.qp[q, DONE_MESSAGE]], M_OPCODE] < READ_OP:
        # Writes before it have arrived: their acknowledgement was coalesced with this response.
        acknowledged(n, s, q, s.message[message_before(s, q), M_PSN] - 1, now)
    if psn > s.qp[q, ACKED]:
        if n.opt[PLACEMENT] and psn - s.qp[q, ACKED] < WINDOW_PACKETS:
            keep(s, 2 * q + 1, psn, np.int64(0))
            if psn - s.qp[q, ACKED] < LOST_PACKETS:
                return np.int64(-1)
        if s.qp[q, RECOVERS] == s.qp[q, ACKED] + 1:
            return np.int64(-1)
        s.qp[q, RECOVERS] = s.qp[q, ACKED] + 1
        return go_back(n, s, q, now)  # a response is missing: ask for it again, once (IBA 9.7.5.1.3)
    response_taken(n, s, q, psn, t, now)
    while n.opt[PLACEMENT] and kept(s, 2 * q + 1, s.qp[q, ACKED]):
        forget(s, 2 * q + 1, s.qp[q, ACKED])
        response_taken(n, s, q, s.qp[q, ACKED], t, now)
    return activate(n, s, q, now)


@inner
def response_taken(n, s, q, psn, t, now):
    """Response ``psn`` is the one that was expected; the last of a message completes it."""
    s.qp[q, ACKED] = psn + 1
    s.qp[q, PROGRESS] = now
    s.qp[q, TRIES] = 0
    at = s.qp[q, DONE_MESSAGE]
    m = s.order[at]
    if psn + 1 == s.message[m, M_PSN] + s.message[m, M_PACKETS]:
        arrived(n, s, m, t)
        completed(n, s, m, t + n.opt[CQE])
        s.qp[q, DONE_MESSAGE] = at + 1
        s.qp[q, READS_OUT] = max(s.qp[q, READS_OUT] - 1, np.int64(0))
