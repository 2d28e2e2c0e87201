"""The SLs of path records, as the manager's subnet administration gives them (IBA 15.2.5.16):
engine, QoS policy, partition."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from softib.iba.constants import MgmtClass
from softib.iba.sa import SA_DATA, PathRecord, SaHeader, SaMethod, mask_of
from softib.mad.batch import MadBatch

if TYPE_CHECKING:
    from softib.scenario.bring_up import BringUp

__all__ = ["NO_RECORD", "path_record_sls"]

NO_RECORD = -1
SA_CLASS_VERSION, SA_QP = 2, 1
AT_ONCE = 8192
"""Requests of one batch."""


def path_record_sls(up: BringUp, source: np.ndarray, target: np.ndarray) -> np.ndarray:
    """Return the SL (int16) of the path record from each end port ``source`` (rows of ports) to
    ``target``; :data:`NO_RECORD` without a record: the ports share no partition, or no route
    exists."""
    found = np.full(len(source), NO_RECORD, np.int16)
    for begin in range(0, len(source), AT_ONCE):
        part = slice(begin, min(begin + AT_ONCE, len(source)))
        found[part] = _queried(up, source[part], target[part])
    return found


def _queried(up: BringUp, source: np.ndarray, target: np.ndarray) -> np.ndarray:
    n, lid = len(source), up.fabric.lid
    head = SaHeader.pack(
        base_version=1,
        mgmt_class=int(MgmtClass.SUBN_ADM),
        class_version=SA_CLASS_VERSION,
        method=int(SaMethod.GET),
        attr_id=PathRecord.attr,
        comp_mask=mask_of(PathRecord, "slid", "dlid"),
    )
    inbox = MadBatch.zeros(n)
    inbox.mad[:, : len(head)] = head
    SaHeader.tid.set(inbox.mad, np.arange(1, n + 1, dtype=np.uint64))
    records = PathRecord.zeros(n)
    PathRecord.slid.set(records, lid[source])
    PathRecord.dlid.set(records, lid[target])
    inbox.mad[:, SA_DATA : SA_DATA + PathRecord.size] = records
    inbox.slid[:], inbox.dlid[:], inbox.dqp[:], inbox.sqp[:] = lid[source], lid[up.port], SA_QP, SA_QP
    found = np.full(n, NO_RECORD, np.int16)
    replies = up.to_administrator(inbox)
    good = replies[SaHeader.status.get(replies) == 0]
    found[SaHeader.tid.get(good).astype(np.int64) - 1] = PathRecord.sl.get(good[:, SA_DATA:][:, : PathRecord.size])
    return found
