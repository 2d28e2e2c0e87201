"""MADs as the packets that cables carry: LRH, BTH, DETH, the MAD, invariant and variant CRC (IBA 7.7, 9.2, 9.3, 7.8)."""

from __future__ import annotations

import zlib

import numpy as np

from softib.iba.constants import MAD_SIZE, MgmtClass
from softib.iba.crc_kernels import vcrc

__all__ = ["PACKET_SIZE", "icrc", "packets"]

LRH, BTH, DETH, ICRC, VCRC = 8, 12, 8, 4, 2
MAD_AT = LRH + BTH + DETH
PACKET_SIZE = MAD_AT + MAD_SIZE + ICRC + VCRC
LENGTH_WORDS = (PACKET_SIZE - VCRC) // 4
"""LRH:PktLen: words from the LRH to the ICRC (IBA 7.7.8)."""
LNH_LOCAL, LNH_GLOBAL = 2, 3
UD_SEND_ONLY = 0x64
SMP_VL = 15
GSI_QKEY = 0x80010000
"""Q_Key of QP1 (IBA 10.2.5)."""
QP_MASK = 0xFFFFFF

_HEADS = np.dtype(
    [
        ("vl", "u1"), ("sl_lnh", "u1"), ("dlid", ">u2"), ("length", ">u2"), ("slid", ">u2"),
        ("opcode", "u1"), ("flags", "u1"), ("pkey", ">u2"), ("dqp", ">u4"), ("psn", ">u4"),
        ("qkey", ">u4"), ("sqp", ">u4"),
    ]
)  # fmt: skip


def packets(mad: np.ndarray, slid: np.ndarray, dlid: np.ndarray, sl: np.ndarray, pkey: np.ndarray, sqp: np.ndarray,
            dqp: np.ndarray, first_psn: int = 0) -> np.ndarray:  # fmt: skip
    """uint8[n, 290]: each row of ``mad`` (uint8[n, 256]) as one packet without GRH, CRCs computed.

    SMPs travel on VL15 with SL 0 between QPs 0 (IBA 13.5.1), other MADs on VL 0. PSNs count from ``first_psn``.
    """
    n = len(mad)
    out = np.zeros((n, PACKET_SIZE), np.uint8)
    head = np.zeros(n, _HEADS)
    smp = np.isin(mad[:, 1], (MgmtClass.SUBN_LID, MgmtClass.SUBN_DR))
    head["vl"] = np.where(smp, SMP_VL << 4, 0)
    head["sl_lnh"] = np.where(smp, 0, (np.asarray(sl) & 15) << 4) | LNH_LOCAL
    head["dlid"], head["slid"], head["length"] = dlid, slid, LENGTH_WORDS
    head["opcode"] = UD_SEND_ONLY
    head["pkey"] = np.where(smp, 0xFFFF, pkey)
    head["dqp"], head["sqp"] = (np.where(smp, 0, np.asarray(q, np.uint32) & QP_MASK) for q in (dqp, sqp))
    head["psn"] = (np.arange(n) + first_psn) & QP_MASK
    head["qkey"] = np.where(smp, 0, GSI_QKEY)
    out[:, :MAD_AT] = head.view(np.uint8).reshape(n, MAD_AT)
    out[:, MAD_AT : MAD_AT + MAD_SIZE] = mad
    for row in out:
        row[-VCRC - ICRC : -VCRC] = np.frombuffer(icrc(row[: -VCRC - ICRC].tobytes()), np.uint8)
    if n:
        vcrc(out[:, :-VCRC], out[:, -VCRC:])
    return out


def icrc(packet: bytes) -> bytes:
    """The four octets of the invariant CRC of ``packet`` (LRH to payload and pad), as they are sent (IBA 7.8.1).

    What routers and switches may change counts as ones: with a GRH all of the LRH, traffic class, flow label and hop
    limit; without one LRH:VL; and BTH:Resv8a. Raises :class:`ValueError` for a packet without a transport header.
    """
    octets = bytearray(packet)
    lnh = octets[1] & 3
    if lnh == LNH_LOCAL:
        octets[0] |= 0xF0
        bth = LRH
    elif lnh == LNH_GLOBAL:
        octets[:LRH] = b"\xff" * LRH
        octets[LRH] |= 0x0F
        octets[LRH + 1 : LRH + 4] = b"\xff\xff\xff"
        octets[LRH + 7] = 0xFF
        bth = LRH + 40
    else:
        raise ValueError(f"LNH {lnh}: a raw packet has no invariant CRC")
    octets[bth + 4] = 0xFF
    return zlib.crc32(octets).to_bytes(4, "little")
