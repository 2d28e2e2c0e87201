"""Packets and words of messages on the wire, by arithmetic on the headers of IBA chapter 9."""

from __future__ import annotations

LRH, BTH, RETH, AETH, ATOMIC_ETH, ATOMIC_ACK, ICRC = 8, 12, 16, 4, 28, 8, 4


MTU = 4096


def dwords(octets: int) -> int:
    """PortXmitData counts in units of four octets, padding in (IBA 16.1.3.5)."""
    return -(-octets // 4)


def write(size: int) -> tuple[int, int, int, int]:
    """RDMA WRITE of ``size``: packets and words there, and back (one ACK a message)."""
    rest, packets, octets = size, 0, 0
    while rest > 0 or not packets:
        part = min(rest, MTU)
        octets += dwords(LRH + BTH + (RETH if not packets else 0) + part + ICRC)
        packets, rest = packets + 1, rest - part
    return packets, octets, 1, dwords(LRH + BTH + AETH + ICRC)
