"""Capture of every MAD of a running fabric in a file for Wireshark: ``softib up --pcap FILE``.

A MAD is recorded as one packet when it leaves its sender. The answer of a device is recorded when it reaches its
requester. An RMPP message is recorded as its segments and their acknowledgements (:mod:`softib.mad.rmpp`). Without a
capture, the only cost is one attribute read per batch. With a capture, programs' requests pass through Python one batch
at a time. The format is that of :mod:`softib.iba.pcap`.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from softib.errors import InputError
from softib.fabric.model import Fabric
from softib.iba.constants import LID_PERMISSIVE, MAD_SIZE, RESPONSE_BIT, MgmtClass
from softib.iba.headers import LRH
from softib.iba.mad_codec import CM_CLASS
from softib.iba.mad_packets import MAD_AT, mad_packets
from softib.iba.pcap import PcapFile
from softib.iba.roce_frames import RoceEnds, roce_frames
from softib.iba.sa import RMPP_HEADER, RmppHeader
from softib.iba.smp import CLASS_AT, METHOD_AT, PortInfo
from softib.live.rdma_cm.over_ethernet import as_over_ethernet, ends_of
from softib.mad.batch import MadBatch, SendStatus
from softib.mad.rmpp import RMPP_END, conversation, is_whole

__all__ = ["MadCapture"]


class MadCapture:
    """Writes MADs of ``fabric`` to ``path``. Raises :class:`InputError` if the file cannot be
    written. A full file system ends the capture with one line on stderr, but never the fabric.
    ``clock``: ns since 1970."""

    def __init__(self, path: str | Path, fabric: Fabric, clock: Callable[[], int] = time.time_ns):
        self.path, self.fabric, self.clock = Path(path), fabric, clock
        self.packets = 0
        self.whole: Callable[[np.ndarray], bool] = lambda mad: True
        """Return whether this response (uint8[256]) is for an agent that receives whole RMPP messages,
        with acknowledged segments."""
        self.message: Callable[[], bytes | None] = lambda: None
        """Returns the whole RMPP message of a batch that contains only its first bytes; None for other batches."""
        self._file = PcapFile(self.path)

    def batch(self, sent: MadBatch, port: int, answers: MadBatch) -> None:
        """Record the MADs that ``port`` sent (for a manager, or as traps of a device), and the devices' answers."""
        self._send(sent, port, sent.payload)
        self._write_answers(answers, port)

    def exchange(self, port: int, sent: MadBatch, replies: MadBatch) -> None:
        """Record the MADs that a program on ``port`` sent, and the MADs that come back to it. A request that is
        returned as timed out is not recorded a second time, because no cable carried it back."""
        message = self.message()
        self._send(sent, port, {0: message} if message else None)
        self._write_answers(replies[replies.status == SendStatus.OK], port)

    def _write_answers(self, answers: MadBatch, port: int) -> None:
        pkeys = self._pkeys(port, answers.pkey_index)
        self._write(answers.mad, answers.slid, answers.dlid, answers.sl, pkeys, answers.sqp, answers.dqp)

    def _lids(self, mad: np.ndarray, port: int) -> np.ndarray:
        """Return the SLIDs of MADs that ``port`` sends; directed-route SMPs have the permissive LID (IBA 14.2.1.2)."""
        lid = int(PortInfo.lid.get(self.fabric.port_info[port]))
        return np.where(mad[:, CLASS_AT] == MgmtClass.SUBN_DR, LID_PERMISSIVE, lid)

    def _pkeys(self, port: int, index: np.ndarray) -> np.ndarray:
        f = self.fabric
        table = f.pkeys[int(f.pkey_base[port]) :][: int(f.pkey_cap[port])]
        index = np.asarray(index, np.int64)
        return table[np.where(index < len(table), index, 0)]

    def _send(self, sent: MadBatch, port: int, long: dict[int, bytes] | None) -> None:
        """Write the MADs that a program or manager sent from ``port``, RMPP messages as segments; ``long``: whole
        messages by row."""
        mad, pkeys = sent.mad, self._pkeys(port, sent.pkey_index)
        ends = (self._lids(mad, port), sent.dlid, sent.sl, pkeys, sent.sqp, sent.dqp)
        messages = dict(long or {})
        for row in np.flatnonzero(is_whole(mad)).tolist():
            if row not in messages and self.whole(mad[row]):
                length = int(RmppHeader.length.get(mad[row, RMPP_HEADER:RMPP_END]))
                messages[row] = mad[row, : min(MAD_SIZE, RMPP_END + length)].tobytes()
        done = 0
        for row in sorted(messages):
            self._write(mad[done:row], *(e[done:row] for e in ends))
            wire, on = conversation(messages[row], mad[row, METHOD_AT] < RESPONSE_BIT or self.whole(mad[row]))
            slid, dlid, sl, pkey, sqp, dqp = (np.full(len(wire), e[row]) for e in ends)
            self._write(
                wire,
                np.where(on, slid, dlid),
                np.where(on, dlid, slid),
                sl,
                pkey,
                np.where(on, sqp, dqp),
                np.where(on, dqp, sqp),
            )
            done = row + 1
        self._write(mad[done:], *(e[done:] for e in ends))

    def _write(self, mad: np.ndarray, slid: Any, dlid: Any, sl: Any, pkey: Any, sqp: Any, dqp: Any) -> None:
        n = len(mad)
        if not n or not self._file.is_open:
            return
        mad = np.ascontiguousarray(mad)
        ethernet = self._over_ethernet(mad, slid, dlid)
        if any(ethernet):
            mad = np.stack([as_over_ethernet(m, e) if e else m for m, e in zip(mad, ethernet, strict=True)])
        packets = mad_packets(mad, slid, dlid, sl=sl, pkey=pkey, sqp=sqp, dqp=dqp, first_psn=self.packets)
        self.packets += n
        if not any(ethernet):
            self._guarded(lambda: self._file.write(packets, self.clock()))
            return
        for packet, ends in zip(packets[:, None], ethernet, strict=True):
            frame = packet if ends is None else roce_frames(packet[:, LRH.size : MAD_AT + MAD_SIZE], ends)
            self._guarded(partial(self._file.write, frame, self.clock(), ends is not None))

    def _over_ethernet(self, mad: np.ndarray, slid: Any, dlid: Any) -> list[RoceEnds | None]:
        """Return the addresses of the MADs that adapters send as RoCE v2: MADs of the connection manager between
        Ethernet ports. MADs of subnet management are InfiniBand packets in every fabric."""
        n, f = len(mad), self.fabric
        ends: list[RoceEnds | None] = [None] * n
        if not f.node_ethernet.any():
            return ends
        lids = np.where(f.node_ethernet[f.port_node], PortInfo.lid.get(f.port_info), 0)
        slid, dlid = np.broadcast_to(slid, n), np.broadcast_to(dlid, n)
        for row in np.flatnonzero(mad[:, CLASS_AT] == CM_CLASS).tolist():
            source, destination = (np.flatnonzero(lids == lid) for lid in (slid[row], dlid[row]))
            if len(source) and len(destination):
                ends[row] = ends_of(int(source[0]), int(destination[0]))
        return ends

    def flush(self) -> None:
        """Flush the file for readers. Frequent calls cost little."""
        self._guarded(self._file.flush)

    def close(self) -> None:
        """End the file."""
        self._guarded(self._file.close)

    def _guarded(self, write: Callable[[], None]) -> None:
        try:
            write()
        except InputError as error:
            self._file.abandon()
            print(f"softib: {error}; the capture ends here", file=sys.stderr)
