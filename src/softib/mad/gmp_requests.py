"""Requests of a manager on QP 1 (GMPs, IBA 13.4.2), made from columns. They are addressed by LID,
and have 192 bytes of data and the key of their class."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from softib.iba.constants import GSI_QP, MgmtClass
from softib.iba.smp import DATA_AT, MadHeader
from softib.mad.batch import MadBatch

__all__ = ["GMP_DATA", "GmpRequests", "kind_of"]

GMP_DATA = 192
KEY_AT = 24
"""Offset of the key of congestion control and aggregation management."""


def kind_of(mgmt_class: int, attr: int) -> int:
    """Return class and attribute as one number. It is larger than the attribute of any SMP."""
    return int(mgmt_class) << 16 | int(attr)


@dataclass
class GmpRequests:
    """``n`` requests of one class, method and attribute, from which MADs are built later.

    ``dlid`` uint16[n]; ``tag`` int64[n] identifies each for the caller; ``modifier`` uint32[n] or one
    number; ``data`` uint8[n, 192] or None; ``sl`` uint8[n] or one number; ``key`` of the class.
    """

    mgmt_class: MgmtClass
    class_version: int
    method: int
    attr: int
    dlid: np.ndarray
    tag: np.ndarray
    modifier: Any = 0
    data: np.ndarray | None = None
    sl: Any = 0
    key: int = 0

    def __len__(self) -> int:
        return len(self.dlid)

    @property
    def kind(self) -> int:
        """:func:`kind_of` class and attribute."""
        return kind_of(self.mgmt_class, self.attr)

    def build(self, rows: slice) -> MadBatch:
        """Return the MADs of these rows, with TID 0."""
        dlid = self.dlid[rows]
        batch = MadBatch.zeros(len(dlid))
        header = batch.mad[:, : MadHeader.size]
        fixed = {
            "base_version": 1,
            "mgmt_class": int(self.mgmt_class),
            "class_version": self.class_version,
            "method": self.method,
            "attr_id": self.attr,
        }
        for name, value in fixed.items():
            MadHeader.fields[name].set(header, value)
        MadHeader.attr_mod.set(header, np.broadcast_to(np.asarray(self.modifier, np.uint32), (len(self),))[rows].copy())
        batch.mad[:, KEY_AT : KEY_AT + 8] = np.frombuffer(self.key.to_bytes(8, "big"), np.uint8)
        if self.data is not None:
            batch.mad[:, DATA_AT : DATA_AT + GMP_DATA] = self.data[rows]
        batch.dlid[:], batch.slid[:] = dlid, 0
        batch.dqp[:] = batch.sqp[:] = GSI_QP
        batch.sl[:] = np.broadcast_to(np.asarray(self.sl, np.uint8), (len(self),))[rows]
        return batch
