"""The two checksums of a packet (IBA 7.8): ICRC over what no switch changes, VCRC over everything."""

from __future__ import annotations

import functools
import zlib

import numpy as np

__all__ = ["icrc", "roce_icrc", "vcrc"]

VCRC_POLYNOMIAL = 0xD008
"""x^16 + x^12 + x^3 + x + 1 = 0x100B, its bits reversed: the least significant bit of an octet goes first."""


def icrc(packet: bytes) -> bytes:
    """The four octets of the ICRC behind ``packet`` (LRH up to the payload and its padding; IBA 7.8.1).

    What a switch or router may change counts as ones: LRH.VL, GRH traffic class, flow label and hop limit, and the
    octet of BTH that carries FECN and BECN.
    """
    masked = bytearray(packet)
    masked[0] |= 0xF0
    bth = 8
    if packet[1] & 3 == 3:
        masked[8] |= 0x0F
        masked[9:12] = b"\xff\xff\xff"
        masked[15] = 0xFF
        bth = 48
    masked[bth + 4] = 0xFF
    return zlib.crc32(masked).to_bytes(4, "little")


def roce_icrc(datagram: bytes) -> bytes:
    """The four octets of the ICRC of a RoCEv2 packet (annex A17.3): ``datagram`` from the IP header up to the payload.

    Eight octets of ones stand for the LRH; what routers change counts as ones: IPv4 type of service, time to live and
    checksum, IPv6 traffic class, flow label and hop limit, the UDP checksum, and the octet of BTH with FECN and BECN.
    Raises :class:`ValueError` for neither IPv4 nor IPv6.
    """
    masked = bytearray(datagram)
    version = masked[0] >> 4
    if version == 4:
        udp = (masked[0] & 15) * 4
        masked[1] = masked[8] = 0xFF
        masked[10:12] = b"\xff\xff"
    elif version == 6:
        udp = 40
        masked[0] |= 0x0F
        masked[1:4] = b"\xff\xff\xff"
        masked[7] = 0xFF
    else:
        raise ValueError(f"IP version {version}: RoCEv2 runs on IPv4 or IPv6")
    masked[udp + 6 : udp + 8] = b"\xff\xff"
    masked[udp + 12] = 0xFF
    return zlib.crc32(b"\xff" * 8 + masked).to_bytes(4, "little")


@functools.cache
def _table() -> np.ndarray:
    crc = np.arange(256, dtype=np.uint16)
    for _ in range(8):
        crc = np.where(crc & 1, (crc >> 1) ^ np.uint16(VCRC_POLYNOMIAL), crc >> 1)
    return crc


def vcrc(packet: bytes) -> bytes:
    """The two octets of the VCRC behind ``packet`` (LRH up to and with the ICRC; IBA 7.8.2)."""
    table = _table().tolist()
    crc = 0xFFFF
    for octet in packet:
        crc = (crc >> 8) ^ table[(crc ^ octet) & 0xFF]
    return (crc ^ 0xFFFF).to_bytes(2, "little")
