"""Capsules and responses of a target in a capture that Wireshark reads: ``softib target --pcap``."""

from __future__ import annotations

import os
import threading

import numpy as np

from softib.iba.crc import ICRC_SIZE
from softib.iba.headers import BTH, LNH, LRH, Operation
from softib.iba.mad_packets import with_crcs
from softib.iba.pcap import PcapFile
from softib.ulp.nvmeof.rdma import Path

__all__ = ["CapsuleCapture"]

SEND_ONLY_WITH_INVALIDATE = 0x17
INCOMING, INVALIDATES = 0, 2
WORD, PSN_MASK = 4, 0xFFFFFF


class CapsuleCapture:
    """Writes the messages of all queues to ``path``. Raises :class:`InputError` if the file cannot be
    written."""

    def __init__(self, path: str | os.PathLike[str]):
        self._file, self._lock = PcapFile(path), threading.Lock()

    def write(self, rows: np.ndarray, path: Path) -> None:
        """Write rows of a queue's trace."""
        with self._lock:
            for row in rows:
                kind, size, psn, ns = (int(v) for v in row[:4])
                for packet in _packets(kind, row[4:].view(np.uint8)[:size], psn, path):
                    self._file.write(packet[None, :], ns)

    def close(self) -> None:
        """End the file."""
        self._file.close()


def _packets(kind: int, message: np.ndarray, psn: int, path: Path) -> list[np.ndarray]:
    """Return the packets of a SEND."""
    ends = (path.peer_lid, path.lid, path.qpn) if kind == INCOMING else (path.lid, path.peer_lid, path.peer_qpn)
    parts = [message[at : at + path.mtu] for at in range(0, len(message), path.mtu)]
    packets = []
    for i, part in enumerate(parts):
        names = {(True, True): "ONLY", (True, False): "FIRST", (False, True): "LAST"}
        opcode = int(Operation[f"SEND_{names.get((i == 0, i == len(parts) - 1), 'MIDDLE')}"])
        extended = np.zeros(0, np.uint8)
        if kind == INVALIDATES:
            opcode, extended = SEND_ONLY_WITH_INVALIDATE, np.zeros(WORD, np.uint8)
        pad = -len(part) % WORD
        dwords = (LRH.size + BTH.size + len(extended) + len(part) + pad + ICRC_SIZE) // WORD
        lrh = LRH.pack(sl=path.sl, lnh=int(LNH.BTH), slid=ends[0], dlid=ends[1], pkt_len=dwords)
        bth = BTH.pack(
            opcode=opcode,
            pad_count=pad,
            pkey=path.pkey,
            dest_qp=ends[2],
            ack_req=i == len(parts) - 1,
            psn=(psn + i) & PSN_MASK,
        )
        packets.append(with_crcs(np.concatenate([lrh, bth, extended, part, np.zeros(pad, np.uint8)])))
    return packets
