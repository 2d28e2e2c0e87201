"""Sizes of messages on the wire: packets, and the bytes of their headers and payload."""

from __future__ import annotations

import numpy as np

from softib.sim.messages import Messages, Opcode, Transport

__all__ = ["ACK_DWORDS", "dwords_of", "packets_of", "wire_octets"]

HEADERS = 8 + 12 + 4
"""LRH, BTH, ICRC: the bytes of each packet in addition to its payload that data counters include (IBA 16.1.3.5). The
VCRC (2 bytes) is only on the wire."""
VCRC, RETH, DETH, AETH, ATOMIC, IMMDT = 2, 16, 8, 4, 28, 4
"""Sizes of headers in bytes (IBA 9.2 to 9.4): RETH in the first packet of a WRITE and in a READ's request, DETH in each
of UD, AETH in the first and the last packet of a READ's response and in acknowledgements, AtomicETH in an ATOMIC, ImmDt
in the last packet of a WRITE with immediate."""
ACK_DWORDS = np.insert((HEADERS + np.array([AETH, AETH, RETH, AETH + 8, AETH])) // 4, 4, 0)
"""Size of the packet that travels against the payload, in 4-byte units by opcode: an acknowledgement, the request of a
READ, or the response of an ATOMIC."""


def packets_of(m: Messages, mtu: np.ndarray) -> np.ndarray:
    """Return the number of packets into which each message's payload is divided."""
    return -(-m.size // np.maximum(mtu, 1))


def dwords_of(m: Messages, packets: np.ndarray) -> np.ndarray:
    """Return the size of each message in 4-byte units as PortXmitData counts them: headers, payload padded to 4, ICRC;
    no VCRC."""
    each = HEADERS + np.where(m.transport == Transport.UD, DETH, 0)
    once = np.array([RETH, 0, AETH * 2, ATOMIC, 0, RETH + IMMDT])[m.opcode]
    once = np.where((m.opcode == Opcode.READ) & (packets == 1), AETH, once)
    payload = np.where(m.opcode == Opcode.ATOMIC, 0, -(-m.size // 4) * 4)  # an ATOMIC's operands are in its header
    return np.where(m.computes, 0, (packets * each + once + payload) // 4)


def wire_octets(m: Messages, packets: np.ndarray) -> np.ndarray:
    """Return the size in bytes of each message on the wire (float64): the bytes that PortXmitData counts, and the VCRC
    of each packet."""
    return np.asarray(dwords_of(m, packets) * 4.0 + np.where(m.computes, 0, packets * VCRC))
