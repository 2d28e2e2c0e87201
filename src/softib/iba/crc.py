"""The two checksums of a packet (IBA 7.8): ICRC over what no switch changes, VCRC over everything."""

from __future__ import annotations

import functools
import zlib

import numpy as np

__all__ = ["icrc", "vcrc"]

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
