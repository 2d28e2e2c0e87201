"""Octets of a queue pair's packets: the next request, the next response (IBA 5.2, 9.2 to 9.4)."""

from softib.jit import inner

HEADERS = 26
"""Octets of LRH 8, BTH 12, ICRC 4 and VCRC 2 (IBA 5.2)."""
RETH, DETH, AETH, ATOMIC_ETH, ATOMIC_ACK_ETH, GRH, IMMDT = 16, 8, 4, 28, 8, 40, 4
WRITE_OP, SEND_OP, READ_OP, ATOMIC_OP, COMPUTE_OP = 0, 1, 2, 3, 4
RC, UC, UD = 0, 1, 2


@inner
def payload_of(state, q, m, psn):
    """Octets of payload in the packet ``psn`` of message ``m``."""
    mtu = state.qp[q].payload
    return min(mtu, state.message[m].length - (psn - state.message[m].psn) * mtu)


@inner
def request_octets(state, q):
    """Octets of the next packet of requests of ``q``."""
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
    """Octets of the next packet of responses of ``q``: the first and the last have an AETH (IBA
    chapter 9)."""
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
    """Octets of the next packet of a stream."""
    return response_octets(state, stream >> 1) if stream & 1 else request_octets(state, stream >> 1)
