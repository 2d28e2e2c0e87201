"""How long clients' queries of the subnet administration wait at the manager: from their delivery
to the moment in which the answer leaves."""

from __future__ import annotations

from typing import Any

import numpy as np

from softib.iba.constants import RESPONSE_BIT, MgmtClass
from softib.iba.smp import CLASS_AT, METHOD_AT, TID_AT
from softib.mad.batch import MadBatch

__all__ = ["BOUNDS_S", "SaWait"]

BOUNDS_S = (0.0001, 0.0003, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)
"""Upper bounds of the histogram in seconds."""
FORGOTTEN_PS = 60 * 10**12
"""A query without an answer is one that gets none (a wrong SM_Key): nobody waits longer for it."""
PS = 1e12


class SaWait:
    """A cumulated histogram of waits, and the queries that wait now."""

    def __init__(self) -> None:
        self.buckets = np.zeros(len(BOUNDS_S) + 1, np.int64)
        self.sum_s = 0.0
        self._since: dict[tuple[int, int, bytes], int] = {}

    def came(self, batch: MadBatch, now_ps: int) -> None:
        """These were delivered to the manager. A repetition goes on waiting from the first time."""
        mad = batch.mad
        for i in np.flatnonzero((mad[:, CLASS_AT] == MgmtClass.SUBN_ADM) & (mad[:, METHOD_AT] < RESPONSE_BIT)).tolist():
            self._since.setdefault(
                (int(batch.slid[i]), int(batch.sqp[i]), mad[i, TID_AT : TID_AT + 8].tobytes()), now_ps
            )

    def left(self, outbox: MadBatch, now_ps: int) -> None:
        """These leave the manager."""
        if not self._since:
            return
        mad = outbox.mad
        for i in np.flatnonzero(
            (mad[:, CLASS_AT] == MgmtClass.SUBN_ADM) & (mad[:, METHOD_AT] >= RESPONSE_BIT)
        ).tolist():
            began = self._since.pop(
                (int(outbox.dlid[i]), int(outbox.dqp[i]), mad[i, TID_AT : TID_AT + 8].tobytes()), None
            )
            if began is not None:
                seconds = (now_ps - began) / PS
                self.buckets[int(np.searchsorted(BOUNDS_S, seconds))] += 1
                self.sum_s += seconds

    def status(self, now_ps: int) -> dict[str, Any]:
        """``buckets``: bound in s → queries that waited no longer (cumulated; ``inf``: all),
        ``sum_s``, ``oldest_s``: how long the oldest one that has no answer has waited."""
        if self._since and now_ps - min(self._since.values()) > FORGOTTEN_PS:
            self._since = {name: at for name, at in self._since.items() if now_ps - at <= FORGOTTEN_PS}
        seen = np.cumsum(self.buckets).tolist()
        oldest = (now_ps - min(self._since.values())) / PS if self._since else 0.0
        return {
            "buckets": dict(zip([*map(str, BOUNDS_S), "inf"], seen, strict=True)),
            "sum_s": round(self.sum_s, 6),
            "oldest_s": round(oldest, 6),
        }
