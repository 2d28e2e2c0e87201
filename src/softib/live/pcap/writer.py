"""Every MAD of a running fabric in a capture file that Wireshark reads: ``softib up --pcap FILE``.

A MAD is one packet, as it leaves its sender; the answer of a device is one, as it reaches who asked; an RMPP message is its
segments and their acknowledgements (:mod:`softib.mad.rmpp_wire`). Off, this costs the
daemon one look at an attribute a burst; on, programs' requests come by Python one burst at a time. The format is that of
:mod:`softib.iba.pcap`.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from softib.errors import InputError
from softib.fabric.model import Fabric
from softib.iba.constants import LID_PERMISSIVE, MAD_SIZE, MgmtClass
from softib.iba.mad_packets import mad_packets
from softib.iba.pcap import FILE_HEADER, pcap_records
from softib.iba.sa import RmppHeader
from softib.iba.smp import PortInfo
from softib.mad.batch import MadBatch
from softib.mad.rmpp import RMPP_END
from softib.mad.rmpp_wire import conversation, is_whole

__all__ = ["PcapWriter"]

RESPONSE = 0x80


class PcapWriter:
    """Writes MADs of ``fabric`` to ``path``. Raises :class:`InputError` where the file cannot be written. A file
    system that is full ends the capture with one line on stderr, never the fabric. ``clock``: ns since 1970."""

    def __init__(self, path: str | Path, fabric: Fabric, clock: Callable[[], int] = time.time_ns):
        self.path, self.fabric, self.clock = Path(path), fabric, clock
        self.packets = 0
        self.whole: Callable[[np.ndarray], bool] = lambda mad: True
        """Is this response (uint8[256]) for somebody who takes RMPP messages whole, and acknowledges their segments?"""
        self.message: Callable[[], bytes | None] = lambda: None
        """All of the RMPP message of a burst whose first octets are the datagram."""
        try:
            self._file: Any = open(self.path, "wb", buffering=1 << 20)  # noqa: SIM115 – it lives as long as we do
            self._file.write(FILE_HEADER)
            self._file.flush()
        except OSError as error:
            raise InputError(f"{path}: {error.strerror or error}") from None

    def batch(self, sent: MadBatch, port: int, answers: MadBatch) -> None:
        """What a manager, or a device with a trap, sent from ``port``, and the devices' answers."""
        gsi = np.where(_is_smp(sent.mad), 0, 1)
        pkeys = self._pkeys(port, sent.pkey_index)
        self._send(sent.mad, (self._lids(sent.mad, port), sent.dlid, sent.sl, pkeys, gsi, sent.qp), sent.payload)
        gsi = np.where(_is_smp(answers.mad), 0, 1)
        self._write(
            answers.mad, answers.slid, answers.dlid, answers.sl, self._pkeys(port, answers.pkey_index), gsi, answers.qp
        )

    def burst(self, port: int, frames: np.ndarray, sl: np.ndarray, pkey_index: np.ndarray, replies: np.ndarray) -> None:
        """Datagrams (uint8[n, 288], :data:`softib.live.ibsim.wire.FRAME`) that a program on ``port`` sent, with SL and P_Key
        index of each, and what goes back; a request that comes back as timed out never was on a cable again."""
        mad, message = frames[:, 32:], self.message()
        ends = (
            self._lids(mad, port),
            _u16(frames, 0),
            sl,
            self._pkeys(port, pkey_index),
            _qp(frames, 12),
            _qp(frames, 8),
        )
        self._send(mad, ends, {0: message} if message else None)
        back = replies[~replies[:, 16:20].any(axis=1)]
        mad, pkey = back[:, 32:], self._pkeys(port, np.zeros(len(back), np.int64))
        self._write(mad, _u16(back, 4), _u16(back, 0), np.zeros(len(back), np.uint8), pkey, _qp(back, 12), _qp(back, 8))

    def _lids(self, mad: np.ndarray, port: int) -> np.ndarray:
        """SLIDs of what ``port`` sends: permissive in directed SMPs (IBA 14.2.1.2)."""
        lid = int(PortInfo.lid.get(self.fabric.port_info[port]))
        return np.where(mad[:, 1] == MgmtClass.SUBN_DR, LID_PERMISSIVE, lid)

    def _pkeys(self, port: int, index: np.ndarray) -> np.ndarray:
        f = self.fabric
        table = f.pkeys[int(f.pkey_base[port]) :][: int(f.pkey_cap[port])]
        index = np.asarray(index, np.int64)
        return table[np.where(index < len(table), index, 0)]

    def _send(self, mad: np.ndarray, ends: tuple[np.ndarray, ...], long: dict[int, bytes] | None) -> None:
        """Write what a program or manager sent, RMPP messages as segments. ``ends``: SLID, DLID, SL, P_Key, QPs from and to;
        ``long``: whole messages by row."""
        messages = dict(long or {})
        for row in np.flatnonzero(is_whole(mad)).tolist():
            if row not in messages and self.whole(mad[row]):
                messages[row] = mad[
                    row, : min(MAD_SIZE, RMPP_END + int(RmppHeader.length.get(mad[row, 24:36])))
                ].tobytes()
        done = 0
        for row in sorted(messages):
            self._write(mad[done:row], *(e[done:row] for e in ends))
            wire, on = conversation(messages[row], mad[row, 3] < RESPONSE or self.whole(mad[row]))
            slid, dlid, sl, pkey, sqp, dqp = (np.full(len(wire), e[row]) for e in ends)
            self._write(wire, np.where(on, slid, dlid), np.where(on, dlid, slid), sl, pkey, np.where(on, sqp, dqp),
                        np.where(on, dqp, sqp))  # fmt: skip
            done = row + 1
        self._write(mad[done:], *(e[done:] for e in ends))

    def _write(self, mad: np.ndarray, slid: Any, dlid: Any, sl: Any, pkey: Any, sqp: Any, dqp: Any) -> None:
        n = len(mad)
        if not n or self._file is None:
            return
        packets = mad_packets(np.ascontiguousarray(mad), slid, dlid, sl, pkey, sqp, dqp, self.packets)
        records = pcap_records(packets, self.clock())
        self.packets += n
        self._guarded(lambda: self._file.write(records.tobytes()))

    def flush(self) -> None:
        """Let readers see what was written; cheap to call often."""
        if self._file is not None:
            self._guarded(self._file.flush)

    def close(self) -> None:
        """End the file."""
        if self._file is not None:
            self._guarded(self._file.close)
            self._file = None

    def _guarded(self, write: Callable[[], Any]) -> None:
        try:
            write()
        except OSError as error:
            self._file = None
            print(f"softib: {self.path}: {error.strerror or error}; the capture ends here", file=sys.stderr)


def _is_smp(mad: np.ndarray) -> np.ndarray:
    return np.isin(mad[:, 1], (MgmtClass.SUBN_LID, MgmtClass.SUBN_DR))


def _u16(frames: np.ndarray, at: int) -> np.ndarray:
    return frames[:, at].astype(np.uint16) << 8 | frames[:, at + 1]


def _qp(frames: np.ndarray, at: int) -> np.ndarray:
    octets = frames[:, at : at + 4].astype(np.uint32)
    return octets[:, 0] << 24 | octets[:, 1] << 16 | octets[:, 2] << 8 | octets[:, 3]
