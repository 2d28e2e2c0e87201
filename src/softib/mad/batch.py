"""MADs in the form that all of softib uses: the bytes as on the wire in one array, the addresses in
columns.

This is the only representation of a MAD inside softib. Other forms (a datagram of ibsim, a umad
message, a packet) are converted only by the package of that format. :class:`MadBatch` is for
Python; :data:`MadColumns` has the same columns for kernels.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import numpy as np

from softib.iba.constants import LID_PERMISSIVE, MAD_SIZE
from softib.jit import table

__all__ = ["COLUMNS", "MadBatch", "MadColumns", "SendStatus", "batch_of", "mad_columns"]


class SendStatus(IntEnum):
    """The result of sending a MAD (column ``status``). 110 is ETIMEDOUT, as umad reports it."""

    OK = 0
    TIMEOUT = 110


COLUMNS = {
    "dlid": np.uint16,
    "slid": np.uint16,
    "dqp": np.uint32,
    "sqp": np.uint32,
    "sl": np.uint8,
    "pkey_index": np.uint16,
    "tid": np.uint64,
    "status": np.uint16,
}
"""The columns of a batch and their types, without ``mad``."""


@dataclass
class MadBatch:
    """``n`` MADs with their addresses. Rows are independent of each other.

    ``mad`` uint8[n, 256]; ``dlid``/``slid`` uint16 (0xffff: directed route); ``dqp``/``sqp`` uint32 the destination
    and source QPs (0 SMI, 1 GSI); ``sl`` uint8; ``pkey_index`` uint16 in the table of the sending port; ``tid``
    uint64 as in the MAD; ``status`` uint16
    (:class:`SendStatus`). ``payload`` holds RMPP payloads longer than a MAD by row.
    """

    mad: np.ndarray
    dlid: np.ndarray
    slid: np.ndarray
    dqp: np.ndarray
    sqp: np.ndarray
    sl: np.ndarray
    pkey_index: np.ndarray
    tid: np.ndarray
    status: np.ndarray
    payload: dict[int, bytes] | None = None

    @classmethod
    def zeros(cls, n: int) -> MadBatch:
        """Return ``n`` MADs filled with zeros, except that they are directed (LIDs are permissive):
        between QPs 0, status OK."""
        columns: dict[str, Any] = {name: np.zeros(n, dtype) for name, dtype in COLUMNS.items()}
        batch = cls(np.zeros((n, MAD_SIZE), np.uint8), **columns)
        batch.dlid[:] = batch.slid[:] = LID_PERMISSIVE
        return batch

    def __len__(self) -> int:
        return len(self.mad)

    def __getitem__(self, rows: Any) -> MadBatch:
        """Return the rows of a slice, mask or index array (NumPy's rules on copies hold)."""
        picked = None
        if self.payload:
            numbers = np.arange(len(self))[rows]
            picked = {i: self.payload[int(n)] for i, n in enumerate(numbers) if int(n) in self.payload} or None
        columns: dict[str, Any] = {name: getattr(self, name)[rows] for name in COLUMNS}
        return MadBatch(self.mad[rows], **columns, payload=picked)

    def copy(self) -> MadBatch:
        """Return the same MADs in separate memory."""
        payload = None if self.payload is None else dict(self.payload)
        columns: dict[str, Any] = {name: getattr(self, name).copy() for name in COLUMNS}
        return MadBatch(self.mad.copy(), **columns, payload=payload)

    @staticmethod
    def concat(batches: Sequence[MadBatch]) -> MadBatch:
        """Return all batches joined into one, in their order."""
        if not batches:
            return MadBatch.zeros(0)
        if len(batches) == 1:
            return batches[0]
        payload: dict[int, bytes] = {}
        base = 0
        for b in batches:
            payload.update({base + i: p for i, p in (b.payload or {}).items()})
            base += len(b)
        columns = {n: np.concatenate([getattr(b, n) for b in batches]) for n in ("mad", *COLUMNS)}
        return MadBatch(**columns, payload=payload or None)


MadColumns: Any = table("MadColumns", ["mad", "mad64", *COLUMNS])
"""The columns of a :class:`MadBatch` as one argument of kernels; ``mad64`` uint64[n, 32] are the
bytes of ``mad``, eight at a time."""


def mad_columns(n: int, mads: int | None = None) -> Any:
    """Return :data:`MadColumns` of ``n`` zeroed rows, with MADs for the first ``mads`` of them
    (None: all)."""
    mad = np.zeros((n if mads is None else mads, MAD_SIZE), np.uint8)
    return MadColumns(
        mad=mad, mad64=mad.view(np.uint64), **{name: np.zeros(n, dtype) for name, dtype in COLUMNS.items()}
    )


def batch_of(columns: Any) -> MadBatch:
    """Return :data:`MadColumns` as a batch: views, no copies."""
    return MadBatch(columns.mad, *(getattr(columns, name) for name in COLUMNS))
