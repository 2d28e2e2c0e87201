# mypy: ignore-errors
"""Octets of a queue pair's packets: the next request, the next response (IBA 5.2, 9.2 to 9.4)."""

from softib.jit import inner

HEADERS = 26
"""Octets of LRH 8, BTH 12, ICRC 4 and VCRC 2 (IBA 5.2)."""
RETH, DETH, AETH, ATOMIC_ETH, ATOMIC_ACK_ETH, GRH, IMMDT = 16, 8, 4, 28, 8, 40, 4
WRITE_OP, SEND_OP, READ_OP, ATOMIC_OP, COMPUTE_OP = 0, 1, 2, 3, 4
RC, UC, UD = 0, 1, 2


@inner
def payload_of(s, q, m, psn):
    """Octets of payload in the packet ``psn`` of message ``m``."""
    mtu = s.qp[q].payload
    return min(mtu, s.message[m].length - (psn - s.message[m].psn) * mtu)


@inner
def request_octets(s, q):
    """Octets of the next packet of requests of ``q``."""
    m, psn = s.order[s.qp[q].current_message], s.qp[q].next_psn
    opcode = s.message[m].opcode
    if opcode == READ_OP:
        return HEADERS + RETH
    if opcode == ATOMIC_OP:
        return HEADERS + ATOMIC_ETH
    octets = HEADERS + (payload_of(s, q, m, psn) + 3 & ~3)
    if opcode == WRITE_OP and psn == s.message[m].psn:
        octets += RETH
    if s.message[m].immediate and psn + 1 == s.message[m].psn + s.message[m].packets:
        octets += IMMDT
    if s.qp[q].service == UD:
        octets += DETH
        if s.message[m].group:
            octets += GRH
    return octets


@inner
def response_octets(s, q):
    """Octets of the next packet of responses of ``q``: the first and the last have an AETH (IBA chapter 9)."""
    m, psn = s.order[s.rc[q].response], s.rc[q].response_psn
    if s.message[m].opcode == ATOMIC_OP:
        return HEADERS + AETH + ATOMIC_ACK_ETH
    octets = HEADERS + (payload_of(s, q, m, psn) + 3 & ~3)
    first = s.message[m].psn
    if psn == first or psn == first + s.message[m].packets - 1:
        octets += AETH
    return octets


@inner
def stream_octets(s, stream):
    """Octets of the next packet of a stream."""
    return response_octets(s, stream >> 1) if stream & 1 else request_octets(s, stream >> 1)
