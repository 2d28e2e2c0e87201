"""Messages from posting to completion, their dependencies, and the sizes of their packets (IBA 5.2,
9.2 to 9.4)."""

from softib.jit import inner
from softib.sim.packet.constants import POSTED
from softib.sim.packet.kernels.engine.events import push, word
from softib.sim.packet.kernels.switch.aggregation import add_up

HEADERS = 26
"""Bytes of LRH 8, BTH 12, ICRC 4 and VCRC 2 (IBA 5.2)."""
RETH, DETH, AETH, ATOMIC_ETH, ATOMIC_ACK_ETH, GRH, IMMDT = 16, 8, 4, 28, 8, 40, 4
WRITE_OP, SEND_OP, READ_OP, ATOMIC_OP, COMPUTE_OP = 0, 1, 2, 3, 4
RC, UC, UD = 0, 1, 2


@inner
def payload_of(state, q, m, psn):
    """Return the number of payload bytes in packet ``psn`` of message ``m``."""
    mtu = state.qp[q].payload
    return min(mtu, state.message[m].length - (psn - state.message[m].psn) * mtu)


@inner
def request_octets(state, q):
    """Return the size in bytes of the next request packet of ``q``."""
    m, psn = state.order[state.qp[q].current_message], state.qp[q].next_psn
    opcode = state.message[m].opcode
    if opcode == READ_OP:
        return HEADERS + RETH
    if opcode == ATOMIC_OP:
        return HEADERS + ATOMIC_ETH
    octets = HEADERS + (payload_of(state, q, m, psn) + 3 & ~3)
    if opcode == WRITE_OP and psn == state.message[m].psn:
        octets += RETH
    if state.message[m].immediate and psn + 1 == state.message[m].psn + state.message[m].packets:
        octets += IMMDT
    if state.qp[q].service == UD:
        octets += DETH
        if state.message[m].group:
            octets += GRH
    return octets


@inner
def response_octets(state, q):
    """Return the number of bytes in the next response packet of ``q``: the first and the last
    packet have an AETH (IBA chapter 9)."""
    m, psn = state.order[state.rc[q].response], state.rc[q].response_psn
    if state.message[m].opcode == ATOMIC_OP:
        return HEADERS + AETH + ATOMIC_ACK_ETH
    octets = HEADERS + (payload_of(state, q, m, psn) + 3 & ~3)
    first = state.message[m].psn
    if psn == first or psn == first + state.message[m].packets - 1:
        octets += AETH
    return octets


@inner
def stream_octets(state, stream):
    """Return the size in bytes of the next packet of a stream."""
    return response_octets(state, stream >> 1) if stream & 1 else request_octets(state, stream >> 1)


@inner
def release(net, state, first, waiting, m, t):
    """Release, at ``t``, the messages that wait for message ``m``."""
    for i in range(first[m], first[m + 1]):
        d = waiting[i]
        state.message[d].after = max(state.message[d].after, t)
        state.message[d].needs -= 1
        if state.message[d].needs == 0:
            at = max(state.message[d].start, state.message[d].after + state.message[d].delay)
            push(state, at, word(state.qp[state.message[d].qp].src, POSTED, d))


@inner
def arrived(net, state, m, t):
    """Record that the last byte of message ``m`` is in the destination's memory at ``t``."""
    if state.message[m].arrived < 0:
        state.message[m].arrived = t
        state.reg.last = max(state.reg.last, t)
        if net.opt.aggregates:
            add_up(net, state, m)
        release(net, state, state.arrival, state.after_arrival, m, t)


@inner
def completed(net, state, m, t):
    """Record that the sender of message ``m`` has its completion at ``t``."""
    if state.message[m].completed < 0:
        state.message[m].completed = t
        state.reg.left -= 1
        state.reg.last = max(state.reg.last, t)
        release(net, state, state.completion, state.after_completion, m, t)
