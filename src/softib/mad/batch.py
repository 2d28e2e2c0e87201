"""A batch of MADs: the wire octets as one array, the addresses beside them as columns (DESIGN decision 2)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import numpy as np

from softib.iba.constants import LID_PERMISSIVE, MAD_SIZE

__all__ = ["MadBatch", "SendStatus"]


class SendStatus(IntEnum):
    """What became of a MAD on its way (column ``status``); 110 is ETIMEDOUT, as umad reports it."""

    OK = 0
    TIMEOUT = 110


@dataclass
class MadBatch:
    """``n`` MADs and where they go. Rows are independent.

    ``mad`` uint8[n, 256]; ``dlid``/``slid`` uint16 (0xffff: directed route); ``qp`` uint32 (0 SMI, 1 GSI) of the
    destination in requests and of the source in what arrives; ``sl`` uint8; ``pkey_index`` uint16; ``tid`` uint64 as in
    the MAD; ``status`` uint16 (:class:`SendStatus`). ``payload`` holds RMPP payloads longer than a MAD by row.
    """

    mad: np.ndarray
    dlid: np.ndarray
    slid: np.ndarray
    qp: np.ndarray
    sl: np.ndarray
    pkey_index: np.ndarray
    tid: np.ndarray
    status: np.ndarray
    payload: dict[int, bytes] | None = None

    @classmethod
    def zeros(cls, n: int) -> MadBatch:
        """``n`` zeroed MADs, directed (LIDs permissive), status OK."""
        return cls(
            np.zeros((n, MAD_SIZE), np.uint8),
            np.full(n, LID_PERMISSIVE, np.uint16),
            np.full(n, LID_PERMISSIVE, np.uint16),
            np.zeros(n, np.uint32),
            np.zeros(n, np.uint8),
            np.zeros(n, np.uint16),
            np.zeros(n, np.uint64),
            np.zeros(n, np.uint16),
        )

    def __len__(self) -> int:
        return len(self.mad)

    def __getitem__(self, rows: Any) -> MadBatch:
        """The rows of a slice, mask or index array (NumPy's rules on copies hold)."""
        columns = (self.mad, self.dlid, self.slid, self.qp, self.sl, self.pkey_index, self.tid, self.status)
        picked = None
        if self.payload:
            numbers = np.arange(len(self))[rows]
            picked = {i: self.payload[int(n)] for i, n in enumerate(numbers) if int(n) in self.payload} or None
        mad, dlid, slid, qp, sl, pkey_index, tid, status = (c[rows] for c in columns)
        return MadBatch(mad, dlid, slid, qp, sl, pkey_index, tid, status, picked)

    @staticmethod
    def concat(batches: Sequence[MadBatch]) -> MadBatch:
        """One batch after the other."""
        if not batches:
            return MadBatch.zeros(0)
        if len(batches) == 1:
            return batches[0]
        payload: dict[int, bytes] = {}
        base = 0
        for b in batches:
            payload.update({base + i: p for i, p in (b.payload or {}).items()})
            base += len(b)
        names = ("mad", "dlid", "slid", "qp", "sl", "pkey_index", "tid", "status")
        columns = {n: np.concatenate([getattr(b, n) for b in batches]) for n in names}
        return MadBatch(**columns, payload=payload or None)
