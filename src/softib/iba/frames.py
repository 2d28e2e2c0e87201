"""MADs as packets on the wire, and packets as a pcap that Wireshark reads."""

from __future__ import annotations

import struct
from collections.abc import Iterable

import numpy as np

from softib.iba.constants import DEFAULT_PKEY, MAD_SIZE
from softib.iba.crc import icrc, vcrc
from softib.iba.headers import BTH, DETH, LNH, LRH

__all__ = ["GSI_QKEY", "LINKTYPE_ERF", "UD_SEND_ONLY", "mad_packet", "pcap"]

LINKTYPE_ERF, ERF_INFINIBAND = 197, 21
"""Captures of Endace's record format and its type of InfiniBand packets that begin with the LRH: what Wireshark reads.
(Link type 247, reserved for bare InfiniBand, is unknown to Wireshark 4.0.)"""
UD_SEND_ONLY = 0x64
GSI_QKEY = 0x80010000
"""Q_Key of QP1 (IBA 10.2.5)."""
NANOSECOND_MAGIC = 0xA1B23C4D


def mad_packet(
    mad: np.ndarray | bytes, dlid: int, slid: int, qp: int, *, src_qp: int | None = None, sl: int = 0,
    pkey: int = DEFAULT_PKEY, psn: int = 0,
) -> bytes:  # fmt: skip
    """The packet that carries ``mad`` (256 octets) to QP ``qp`` (0 SMI, 1 GSI): LRH, BTH, DETH, MAD, ICRC, VCRC.

    SMPs travel on VL15 (IBA 3.5.7). Raises :class:`ValueError` for a MAD of another size.
    """
    payload = bytes(mad)
    if len(payload) != MAD_SIZE:
        raise ValueError(f"a MAD has {MAD_SIZE} octets, not {len(payload)}")
    words = (LRH.size + BTH.size + DETH.size + MAD_SIZE + 4) // 4
    head = LRH.pack(vl=15 if qp == 0 else 0, sl=sl, lnh=int(LNH.BTH), dlid=dlid, pkt_len=words, slid=slid)
    base = BTH.pack(opcode=UD_SEND_ONLY, pkey=pkey, dest_qp=qp, psn=psn)
    datagram = DETH.pack(qkey=0 if qp == 0 else GSI_QKEY, src_qp=qp if src_qp is None else src_qp)
    packet = bytes(head) + bytes(base) + bytes(datagram) + payload
    packet += icrc(packet)
    return packet + vcrc(packet)


def pcap(packets: Iterable[tuple[int, bytes]]) -> bytes:
    """A pcap file of ``(time in ps, packet)``: nanosecond stamps, each packet in an ERF record."""
    out = [struct.pack("<IHHiIII", NANOSECOND_MAGIC, 2, 4, 0, 0, 65535, LINKTYPE_ERF)]
    for now_ps, packet in packets:
        seconds, rest = divmod(now_ps, 10**12)
        # ERF: time as 32.32 fixed point, little-endian; type; flags (varying record length); lengths.
        record = struct.pack("<II", (rest << 32) // 10**12, seconds)
        record += struct.pack(">BBHHH", ERF_INFINIBAND, 4, 16 + len(packet), 0, len(packet)) + packet
        out.append(struct.pack("<IIII", seconds, rest // 1000, len(record), len(record)) + record)
    return b"".join(out)
