"""The transactor's table of requests, with one row per unfinished request, addressed by its
TransactionID.

TransactionIDs are consecutive, so ``row = TID - first TID of the table``, and responses are matched
with a subtraction. The 256 bytes of a request stay in the batch that was submitted. A batch is
found by the TransactionID of its first request.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from softib.jit import table
from softib.mad.batch import MadBatch
from softib.mad.kernels import DONE, ON_WIRE, OVERDUE, RETRY, WAITING, match, stamp

__all__ = ["DONE", "ON_WIRE", "OVERDUE", "RETRY", "WAITING", "Matches", "Outstanding", "RequestColumns"]

TID_LIMIT = 1 << 32
_FIRST_ROWS = 1 << 14
_COMPACT_AT = 1 << 16
RequestColumns: Any = table("RequestColumns", ["state", "tries", "kind"])
"""Columns of requests for kernels: ``state`` uint8, ``tries`` uint16, ``kind`` uint32 (class and
attribute)."""


@dataclass
class Matches:
    """The requests that a batch of MADs answered; they are now finished. Per MAD: ``rows`` int64[n]
    (-1: it answers none) and ``refused`` bool[n] (it has a bad status). ``count`` is the number of
    these requests, ``on_wire`` the number of those that were counted in the window, and
    ``repetitions`` the number of the latter that had been sent more than once."""

    rows: np.ndarray
    refused: np.ndarray
    count: int
    on_wire: int
    repetitions: int


class Outstanding:
    """Columns over TIDs ``first … first + n - 1``: ``tag`` int64, and :data:`RequestColumns`."""

    def __init__(self, first: int = 1) -> None:
        self.first, self.n, self.live = first, 0, 0
        self._lowest = first
        self._batches: list[MadBatch] = []
        self._batch_tid: list[int] = []
        """TID of the first request of each batch, ascending."""
        self._allocate(_FIRST_ROWS)

    def _allocate(self, rows: int) -> None:
        self.tag, self.state = np.zeros(rows, np.int64), np.zeros(rows, np.uint8)
        self.tries, self.kind = np.zeros(rows, np.uint16), np.zeros(rows, np.uint32)
        self._table = RequestColumns(self.state, self.tries, self.kind)

    def add(self, batch: MadBatch, tags: np.ndarray) -> int:
        """Add requests in state WAITING, and write their TIDs into them. Return the first TID."""
        if self.live == 0 or (self.n > _COMPACT_AT and self.n > 4 * self.live):
            self._drop_finished()
        n = len(batch)
        if self.first + self.n + n >= TID_LIMIT and self.live == 0:
            self.first = self._lowest
        if self.n + n > len(self.tag):
            self._enlarge(max(2 * len(self.tag), self.n + n))
        rows = slice(self.n, self.n + n)
        tid = self.first + self.n
        self.tag[rows], self.state[rows], self.tries[rows] = tags, WAITING, 0
        stamp(batch.mad, tid, self.kind[rows])
        self._batches.append(batch)
        self._batch_tid.append(tid)
        self.n += n
        self.live += n
        return tid

    def rows_of(self, tids: np.ndarray | range) -> Any:
        """Return rows of TIDs in the table; consecutive ones as a slice."""
        if isinstance(tids, range):
            return slice(tids.start - self.first, tids.stop - self.first)
        return tids - self.first

    def in_state(self, tids: np.ndarray | range, state: int) -> np.ndarray:
        """Return those of ``tids`` whose request is in ``state``. Requests with TIDs below those of
        the table are finished."""
        if isinstance(tids, range):
            begin = max(tids.start, self.first)
            return np.flatnonzero(self.state[self.rows_of(range(begin, max(begin, tids.stop)))] == state) + begin
        tids = tids[tids >= self.first]
        return tids[self.state[tids - self.first] == state]

    def match(self, mad: np.ndarray) -> Matches:
        """Finish the requests answered by ``mad`` (uint8[n, 256])."""
        if not mad.flags.c_contiguous or not mad.flags.writeable:
            mad = np.array(mad, np.uint8, order="C")
        rows, refused, sums = np.empty(len(mad), np.int64), np.empty(len(mad), np.bool_), np.empty(3, np.int64)
        match(mad, self.first, self.n, self._table, rows, refused, sums)
        matches = Matches(rows, refused, *sums.tolist())
        self.live -= matches.count
        return matches

    def requests(self, rows: np.ndarray) -> MadBatch:
        """Return copies of the requests in ``rows``, as they were submitted."""
        tids = rows + self.first
        batch_of = np.searchsorted(self._batch_tid, tids, side="right") - 1
        parts = [self._batches[b][tids[batch_of == b] - self._batch_tid[b]] for b in dict.fromkeys(batch_of.tolist())]
        return MadBatch.concat(parts)

    def finish(self, rows: np.ndarray) -> None:
        """Mark requests as finished."""
        self.state[rows] = DONE
        self.live -= len(rows)

    def abandon(self) -> None:
        """Finish every request."""
        self.state[: self.n] = DONE
        self.live = 0

    def _drop_finished(self) -> None:
        """Drop the finished requests in front of the first unfinished one, and bytes that are no
        longer needed."""
        alive = np.flatnonzero(self.state[: self.n] != DONE) if self.live else np.zeros(0, np.int64)
        cut = int(alive[0]) if len(alive) else self.n
        kept = self.n - cut
        for column in self._columns():
            column[:kept] = column[cut : self.n].copy()
        needed = np.unique(np.searchsorted(self._batch_tid, alive + self.first, side="right") - 1).tolist()
        self._batches = [self._batches[b] for b in needed]
        self._batch_tid = [self._batch_tid[b] for b in needed]
        self.first, self.n = self.first + cut, kept

    def _enlarge(self, rows: int) -> None:
        old, n = self._columns(), self.n
        self._allocate(rows)
        for new, was in zip(self._columns(), old, strict=True):
            new[:n] = was[:n]

    def _columns(self) -> list[np.ndarray]:
        return [self.tag, self.state, self.tries, self.kind]
