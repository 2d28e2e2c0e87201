"""Captures the capsules and responses of a target for Wireshark (``softib target --pcap``)."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator

import numpy as np

from softib.iba.crc import ICRC_SIZE
from softib.iba.headers import BTH, LNH, LRH, Operation
from softib.iba.mad_packets import with_crcs
from softib.iba.pcap import PcapFile, pcap_records
from softib.iba.roce_frames import roce_frames, udp_source_port
from softib.ulp.nvmeof.rdma import Path

__all__ = ["CapsuleCapture"]

SEND_ONLY_WITH_INVALIDATE = 0x17
INCOMING, INVALIDATES = 0, 2
WORD, PSN_MASK = 4, 0xFFFFFF
KIND, SIZE, PSN, NS, MESSAGE = range(5)
"""Word indices in a row of a queue's trace. The message begins at MESSAGE and fills the rest of the row."""


class CapsuleCapture:
    """Writes the messages of all queues to ``path``. Raises :class:`InputError` if the file cannot be
    written."""

    def __init__(self, path: str | os.PathLike[str]):
        self._file, self._lock = PcapFile(path), threading.Lock()

    def write(self, rows: np.ndarray, path: Path) -> None:
        """Write the rows of a queue's trace in order. Packets of messages of the same kind and size are built
        together."""
        records: list[list[bytes]] = [[] for _ in rows]
        alike = rows[:, KIND] << 32 | rows[:, SIZE]
        for key in np.unique(alike).tolist():
            which = np.flatnonzero(alike == key)
            for packets in _packets(rows[which], path):
                made = pcap_records(packets, rows[which, NS], ethernet=path.roce is not None)
                for row, record in zip(which.tolist(), made, strict=True):
                    records[row].append(record.tobytes())
        with self._lock:
            self._file.put(b"".join(record for of_row in records for record in of_row))
            self._file.flush()  # readers see the packets at once, and a second signal loses none of them

    def close(self) -> None:
        """End the file."""
        self._file.close()


def _packets(rows: np.ndarray, path: Path) -> Iterator[np.ndarray]:
    """Yield the first packet of each SEND in ``rows``, then the second packet of each. All messages have the same kind
    and size."""
    kind, size = int(rows[0, KIND]), int(rows[0, SIZE])
    messages = np.ascontiguousarray(rows[:, MESSAGE:]).view(np.uint8)[:, :size]
    incoming = kind == INCOMING
    from_lid, to_lid = (path.peer_lid, path.lid) if incoming else (path.lid, path.peer_lid)
    from_qp, to_qp = (path.peer_qpn, path.qpn) if incoming else (path.qpn, path.peer_qpn)
    for number, at in enumerate(range(0, size, path.mtu)):
        part = messages[:, at : at + path.mtu]
        first, last = at == 0, at + path.mtu >= size
        place = {(True, True): "ONLY", (True, False): "FIRST", (False, True): "LAST"}.get((first, last), "MIDDLE")
        opcode = SEND_ONLY_WITH_INVALIDATE if kind == INVALIDATES else int(Operation[f"SEND_{place}"])
        pad = -part.shape[1] % WORD
        psn = (rows[:, PSN] + number) & PSN_MASK
        bth = BTH.pack(opcode=opcode, pad_count=pad, pkey=path.pkey, dest_qp=to_qp, ack_req=int(last), psn=psn)
        extended = np.zeros((len(rows), WORD if kind == INVALIDATES else 0), np.uint8)
        content = np.concatenate([bth, extended, part, np.zeros((len(rows), pad), np.uint8)], axis=1)
        if path.roce is not None:
            yield roce_frames(content, path.roce.back if incoming else path.roce, udp_source_port(from_qp, to_qp))
            continue
        dwords = (LRH.size + content.shape[1] + ICRC_SIZE) // WORD
        lrh = LRH.pack(sl=path.sl, lnh=int(LNH.BTH), slid=from_lid, dlid=to_lid, pkt_len=dwords)
        yield with_crcs(np.concatenate([np.broadcast_to(lrh, (len(rows), LRH.size)), content], axis=1))
