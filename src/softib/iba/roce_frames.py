"""RoCE packets as Ethernet frames, from the destination MAC to the FCS (IBA annexes A16 and A17).

In RoCE v1, a GRH and the BTH follow an EtherType; in RoCE v2, the BTH is in a UDP datagram over
IPv4 or IPv6. Both end with the ICRC, which covers the fields that no switch or router changes, and
with Ethernet's FCS.
"""

from __future__ import annotations

import zlib
from typing import NamedTuple

import numpy as np

from softib.iba.crc import ICRC_SIZE
from softib.iba.headers import BTH, GRH

__all__ = ["RoceEnds", "roce_frames", "udp_source_port"]

ROCE_V1, IPV4, IPV6 = 0x8915, 0x0800, 0x86DD
"""EtherTypes."""
ROCE_PORT = 4791
"""UDP port of RoCE v2 (IANA)."""
UDP, IBA_TRANSPORT = 17, 0x1B
IP_SIZE, UDP_SIZE, ETHERNET_SIZE, FCS_SIZE = 20, 8, 14, 4
DONT_FRAGMENT, TTL = 0x4000, 64
MAPPED = bytes(10) + b"\xff\xff"
"""First 12 bytes of an IPv4-mapped IPv6 address, which is the GID in RoCE v2 over IPv4."""
DYNAMIC_PORTS = 0xC000


class RoceEnds(NamedTuple):
    """Addresses of both ends of a frame."""

    source_mac: bytes
    source_gid: bytes
    destination_mac: bytes
    destination_gid: bytes
    version: int
    """Version of RoCE: 1 or 2."""

    @property
    def back(self) -> RoceEnds:
        """Return the addresses of frames in the other direction."""
        return RoceEnds(self.destination_mac, self.destination_gid, self.source_mac, self.source_gid, self.version)


def udp_source_port(source_qp: int, destination_qp: int) -> int:
    """Return the UDP source port of a connection, computed from its QP numbers in the same way as
    in Linux (``rdma_calc_flow_label``, ``rdma_flow_label_to_udp_sport``)."""
    mixed = source_qp * destination_qp
    mixed ^= mixed >> 20
    mixed ^= mixed >> 40
    label = mixed & 0xFFFFF
    return (label & 0x3FFF) ^ (label >> 14) | DYNAMIC_PORTS


def roce_frames(content: np.ndarray, ends: RoceEnds, source_port: int = DYNAMIC_PORTS) -> np.ndarray:
    """Return one frame per row of ``content`` as uint8[n, size]. ``content`` (uint8[n, bytes]) is a
    packet from the BTH to the padding of the payload."""
    n, size = content.shape
    head = _head(size + ICRC_SIZE, ends, source_port)
    out = np.zeros((n, len(head) + size + ICRC_SIZE + FCS_SIZE), np.uint8)
    out[:, : len(head)] = np.frombuffer(head, np.uint8)
    out[:, len(head) : len(head) + size] = content
    first = zlib.crc32(_masked(head))
    end = len(head) + size
    bth = content[:, : BTH.size].copy()
    bth[:, BTH.fecn.byte] = 0xFF
    for row, masked in zip(out, bth, strict=True):
        icrc = zlib.crc32(row[len(head) + BTH.size : end], zlib.crc32(masked, first))
        row[end : end + ICRC_SIZE] = np.frombuffer(icrc.to_bytes(ICRC_SIZE, "little"), np.uint8)
        fcs = zlib.crc32(row[:-FCS_SIZE])
        row[-FCS_SIZE:] = np.frombuffer(fcs.to_bytes(FCS_SIZE, "little"), np.uint8)
    return out


def _head(size: int, ends: RoceEnds, source_port: int) -> bytes:
    """Return the headers in front of a BTH. ``size`` is the number of bytes from the BTH to the
    ICRC."""
    macs = ends.destination_mac + ends.source_mac
    if ends.version == 1:
        return macs + ROCE_V1.to_bytes(2, "big") + _ip6(size, IBA_TRANSPORT, ends)
    ports = source_port.to_bytes(2, "big") + ROCE_PORT.to_bytes(2, "big")
    udp = ports + (size + UDP_SIZE).to_bytes(2, "big") + bytes(2)  # no UDP checksum (annex A17.3.1.2)
    if not ends.source_gid.startswith(MAPPED):
        return macs + IPV6.to_bytes(2, "big") + _ip6(size + UDP_SIZE, UDP, ends) + udp
    addresses = ends.source_gid[-4:] + ends.destination_gid[-4:]
    length = (IP_SIZE + UDP_SIZE + size).to_bytes(2, "big")
    ip = bytes([0x45, 0]) + length + bytes(2) + DONT_FRAGMENT.to_bytes(2, "big") + bytes([TTL, UDP, 0, 0]) + addresses
    return macs + IPV4.to_bytes(2, "big") + ip[:10] + _checksum(ip) + ip[12:] + udp


def _ip6(size: int, next_header: int, ends: RoceEnds) -> bytes:
    """Return the IPv6 header. It is also the GRH of RoCE v1."""
    head = GRH.pack(ip_ver=6, pay_len=size, next_header=next_header, hop_limit=TTL).tobytes()
    return head[:8] + ends.source_gid + ends.destination_gid


def _checksum(ip: bytes) -> bytes:
    """Return the checksum of an IPv4 header (RFC 791)."""
    total = sum(int.from_bytes(ip[at : at + 2], "big") for at in range(0, len(ip), 2))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return (~total & 0xFFFF).to_bytes(2, "big")


def _masked(head: bytes) -> bytes:
    """Return the bytes in front of the BTH that the ICRC covers: eight bytes of ones instead of an
    LRH, then the IP and UDP headers or the GRH, in which fields that routers change are ones (annex
    A17.3.3)."""
    masked = bytearray(b"\xff" * 8 + head[ETHERNET_SIZE:])
    if head[12:14] == IPV4.to_bytes(2, "big"):
        for at in (1, 8, 10, 11):  # type of service, TTL, checksum
            masked[8 + at] = 0xFF
        udp = 8 + IP_SIZE
    else:
        masked[8] |= 0x0F
        masked[9:12] = b"\xff\xff\xff"  # traffic class, flow label
        masked[8 + GRH.hop_limit.byte] = 0xFF
        udp = 8 + GRH.size
    if len(masked) > udp:
        masked[udp + 6 : udp + 8] = b"\xff\xff"
    return bytes(masked)
