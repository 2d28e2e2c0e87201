"""MADs as packets on the wire: LRH, BTH, DETH, the MAD, ICRC and VCRC (IBA 7.7, 9.2, 9.3, 7.8)."""

from __future__ import annotations

from typing import Any

import numpy as np

from softib.iba.constants import DEFAULT_PKEY, MAD_SIZE, MgmtClass
from softib.iba.crc import ICRC_SIZE, VCRC_SIZE, icrc
from softib.iba.crc_kernels import vcrcs
from softib.iba.headers import BTH, DETH, LNH, LRH
from softib.iba.smp import MadHeader

__all__ = ["GSI_QKEY", "MAD_AT", "PACKET_SIZE", "mad_packets", "with_crcs"]

MAD_AT = LRH.size + BTH.size + DETH.size
ICRC_AT = MAD_AT + MAD_SIZE
PACKET_SIZE = ICRC_AT + ICRC_SIZE + VCRC_SIZE
PKT_LEN = (PACKET_SIZE - VCRC_SIZE) // 4
"""LRH.PktLen: the number of 4-byte words from the LRH to the ICRC (IBA 7.7.8)."""
UD_SEND_ONLY = 0x64
SMP_VL = 15
GSI_QKEY = 0x80010000
"""Q_Key of QP1 (IBA 10.2.5)."""
PSN_MASK = QP_MASK = 0xFFFFFF


def mad_packets(
    mad: np.ndarray, slid: Any, dlid: Any, *, sl: Any, pkey: Any, sqp: Any, dqp: Any, first_psn: int = 0, vl: Any = 0
) -> np.ndarray:
    """Return one packet per row of ``mad`` (uint8[n, 256]), as uint8[n, 290]. Packets have no GRH;
    their CRCs are computed.

    SMPs are sent on VL15 with SL 0 between QPs 0 (IBA 13.5.1), other MADs on ``vl``. The addresses
    are scalars or columns. PSNs count up from ``first_psn``.
    """
    n = len(mad)
    is_smp = np.isin(mad[:, MadHeader.mgmt_class.byte], (MgmtClass.SUBN_LID, MgmtClass.SUBN_DR))
    out = np.zeros((n, PACKET_SIZE), np.uint8)
    psn = (np.arange(n) + first_psn) & PSN_MASK
    dest_qp, src_qp = (np.where(is_smp, 0, np.asarray(qp, np.uint32) & QP_MASK) for qp in (dqp, sqp))
    headers = (
        LRH.pack(
            vl=np.where(is_smp, SMP_VL, vl),
            sl=np.where(is_smp, 0, np.asarray(sl) & 15),
            lnh=int(LNH.BTH),
            dlid=np.asarray(dlid),
            pkt_len=PKT_LEN,
            slid=np.asarray(slid),
        ),
        BTH.pack(opcode=UD_SEND_ONLY, pkey=np.where(is_smp, DEFAULT_PKEY, pkey), dest_qp=dest_qp, psn=psn),
        DETH.pack(qkey=np.where(is_smp, 0, GSI_QKEY), src_qp=src_qp),
    )
    out[:, :MAD_AT] = np.concatenate(headers, axis=1)
    out[:, MAD_AT:ICRC_AT] = mad
    _seal(out)
    return out


def with_crcs(content: np.ndarray) -> np.ndarray:
    """Return packets with both CRCs. ``content`` is the packet from LRH to padding (uint8[n]), or
    one such packet per row."""
    rows = np.atleast_2d(content)
    packets = np.zeros((len(rows), rows.shape[1] + ICRC_SIZE + VCRC_SIZE), np.uint8)
    packets[:, : rows.shape[1]] = rows
    _seal(packets)
    return packets.reshape(*content.shape[:-1], -1)


def _seal(packets: np.ndarray) -> None:
    """Compute both CRCs of each row, and write them to its end."""
    end = -ICRC_SIZE - VCRC_SIZE
    for row in packets:
        row[end:-VCRC_SIZE] = np.frombuffer(icrc(row[:end].tobytes()), np.uint8)
    if len(packets):
        vcrcs(packets)
