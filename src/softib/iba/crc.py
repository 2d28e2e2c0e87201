"""The two checksums of a packet (IBA 7.8). The ICRC covers the fields that no switch changes, the
VCRC all fields.

The ICRC is Ethernet's CRC-32, which :mod:`zlib` computes. :func:`softib.iba.crc_kernels.vcrcs`
computes the VCRC of many packets at once.
"""

from __future__ import annotations

import zlib

from softib.iba.headers import BTH, GRH, LNH, LRH

__all__ = ["ICRC_SIZE", "VCRC_SIZE", "icrc"]


ICRC_SIZE, VCRC_SIZE = 4, 2
BECN_BYTE = BTH.fecn.byte
"""Byte of the BTH that holds FECN, BECN and Resv8a."""


def icrc(packet: bytes) -> bytes:
    """Return the ICRC of ``packet`` (LRH up to the payload and its padding), as the four bytes that
    are sent after it (IBA 7.8.1).

    The ICRC is computed as if all bits of fields that switches and routers may change were ones.
    With a GRH, these are the whole LRH and the GRH's traffic class, flow label and hop limit;
    without a GRH, LRH.VL. The byte of the BTH with FECN and BECN is always one of them. Raises
    :class:`ValueError` for a packet without a transport header.
    """
    masked = bytearray(packet)
    lnh = masked[LRH.lnh.byte] & LRH.lnh.mask
    if lnh == LNH.BTH:
        masked[LRH.vl.byte] |= 0xF0
        bth = LRH.size
    elif lnh == LNH.GRH:
        masked[: LRH.size] = b"\xff" * LRH.size
        masked[LRH.size] |= 0x0F
        masked[LRH.size + 1 : LRH.size + 4] = b"\xff\xff\xff"
        masked[LRH.size + GRH.hop_limit.byte] = 0xFF
        bth = LRH.size + GRH.size
    else:
        raise ValueError(f"LNH {lnh}: a raw packet has no invariant CRC")
    masked[bth + BECN_BYTE] = 0xFF
    return zlib.crc32(masked).to_bytes(ICRC_SIZE, "little")
