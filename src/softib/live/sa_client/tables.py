"""Asks the subnet administration of a running fabric for tables of records, as a program on one of
its hosts would.

The master answers: the daemon's manager or a stock one. Nothing but MADs goes there, through the
same socket as those of ``libsoftib-umad.so``; RMPP messages arrive whole.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from softib.errors import PeerError
from softib.iba.constants import MAD_SIZE, MgmtClass
from softib.iba.sa import SA_DATA, SaHeader, SaMethod, mask_of
from softib.iba.structure import Structure
from softib.live.umad.wire import HEAD_SIZE, MESSAGE_SIZE, constant, types
from softib.live.umad_client.fabric_port import request

__all__ = ["SaTables"]

WINDOW = 8
"""Queries at once: the administrator always has the next one, and none waits for its time-out."""
GETS = 64
"""Of queries with one record each: they take no turn of an RMPP window."""
TIMEOUT_MS, RETRIES = 10_000, 2
GSI_QKEY = 0x80010000
SA_HEADER = 20
"""Octets of the SA's own header, which PayloadLength counts, too."""
CLASS_VERSION = 2


class SaTables:
    """A umad device of the host that ``attached`` (the daemon's reply to ``attach``) describes,
    opened for one agent.

    ``lid`` and ``sl`` are those of the subnet manager, as the host's PortInfo says. A context
    manager. Raises :class:`PeerError` where the device cannot be opened.
    """

    def __init__(self, attached: dict[str, Any], lid: int, sl: int = 0, patience_s: float = 120.0):
        self.lid, self.sl, self.until = lid, sl, time.monotonic() + patience_s
        server, view = attached["env"]["SOFTIB_UMAD"], os.path.basename(attached["env"]["SOFTIB_VIEW"])
        self._serial = 0
        self.sock, handle = request(server, op=constant("OPEN"), view=view.encode(), path=b"0")
        sock, self.agent = request(
            server,
            op=constant("REGISTER"),
            handle=handle,
            qpn=1,
            mgmt_class=MgmtClass.SUBN_ADM,
            mgmt_class_version=CLASS_VERSION,
            rmpp_version=1,
        )
        sock.close()

    def __enter__(self) -> SaTables:
        return self

    def __exit__(self, *why: object) -> None:
        self.sock.close()

    def tables(
        self, record: type[Structure], queries: Sequence[dict[str, Any]], *, one: bool = False
    ) -> Iterator[tuple[int, np.ndarray]]:
        """SubnAdmGetTable of each query (component → value): its number and uint8[records,
        record.size], as answers come. ``one``: SubnAdmGet, for queries of which each has one
        record, or none.

        Raises :class:`PeerError` where the administration refuses, does not answer, or takes longer
        than its time.
        """
        method, window = (SaMethod.GET, GETS) if one else (SaMethod.GET_TABLE, WINDOW)
        waiting: dict[int, int] = {}
        rest = iter(enumerate(queries))
        while True:
            while len(waiting) < window and (query := next(rest, None)) is not None:
                waiting[self._send(record, query[1], method)] = query[0]
            if not waiting:
                return
            message = self._receive()
            number = waiting.pop(int.from_bytes(message[12:16], "big"), None)
            if number is not None:
                yield number, _records(message, record)

    def _send(self, record: type[Structure], fields: dict[str, Any], method: SaMethod) -> int:
        self._serial += 1
        head = np.zeros(1, types()["softib_umad_head"])
        head["id"], head["timeout_ms"], head["retries"], head["length"] = self.agent, TIMEOUT_MS, RETRIES, MESSAGE_SIZE
        head["qpn"], head["qkey"] = _big(1, 4), _big(GSI_QKEY, 4)
        head["lid"], head["sl"] = _big(self.lid, 2), self.sl
        mad = np.zeros(MAD_SIZE, np.uint8)
        mad[:SA_DATA] = SaHeader.pack(
            base_version=1,
            mgmt_class=MgmtClass.SUBN_ADM,
            class_version=CLASS_VERSION,
            method=method,
            tid=self._serial,
            attr_id=record.attr,
            rmpp_version=int(method == SaMethod.GET_TABLE),
            comp_mask=mask_of(record, *fields),
        )
        mad[SA_DATA : SA_DATA + record.size] = record.pack(**fields)
        self.sock.sendall(head.tobytes() + mad.tobytes())
        return self._serial

    def _receive(self) -> bytes:
        """The whole MAD of the next answer."""
        while True:
            left = self.until - time.monotonic()
            if left <= 0:
                raise PeerError("the subnet administration took too long")
            self.sock.settimeout(left)
            try:
                message, fds, _, _ = socket.recv_fds(self.sock, MESSAGE_SIZE, 1)
            except TimeoutError:
                continue
            if len(message) < HEAD_SIZE:
                raise PeerError("the fabric went down")
            head = np.frombuffer(message[:HEAD_SIZE], types()["softib_umad_head"])[0]
            octets = int(head["length"]) - HEAD_SIZE
            if fds:
                with open(fds[0], "rb") as whole:  # its offset is whose who wrote it
                    return os.pread(whole.fileno(), octets, 0)
            if head["status"]:
                raise PeerError("the subnet administration does not answer")
            if octets <= MAD_SIZE:  # longer: the announcement of what comes next
                return message[HEAD_SIZE:]


def _records(message: bytes, record: type[Structure]) -> np.ndarray:
    status = int.from_bytes(message[4:6], "big")
    if status == 0x0300:  # no record
        return np.zeros((0, record.size), np.uint8)
    if status:
        raise PeerError(f"the subnet administration refuses with status {status:#06x}")
    if message[3] == SaMethod.GET_RESP:
        return np.frombuffer(message[SA_DATA : SA_DATA + record.size], np.uint8).reshape(1, -1)
    step = 8 * int(SaHeader.attr_offset.get(np.frombuffer(message[:SA_DATA], np.uint8)))
    data = np.frombuffer(message[SA_DATA:], np.uint8)
    if step < record.size:
        return np.zeros((0, record.size), np.uint8)
    if (
        len(message) == MAD_SIZE
    ):  # one segment: PayloadLength says what of it is data (IBA 13.6.2.3), the rest is padding
        data = data[: max(int(SaHeader.length.get(np.frombuffer(message[:SA_DATA], np.uint8))) - SA_HEADER, 0)]
    return data[: len(data) // step * step].reshape(-1, step)[:, : record.size]


def _big(value: int, octets: int) -> int:
    """A value that the kernel's ABI has big endian, as this machine's integer."""
    return int.from_bytes(value.to_bytes(octets, "big"), "little" if np.little_endian else "big")
