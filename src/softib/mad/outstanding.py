"""The table behind the transactor: one row a request that is not finished, addressed by its
TransactionID.

TransactionIDs are consecutive, so ``row = TID - first TID of the table``: matching a batch of
responses is a subtraction. The 256 octets of a request stay in the batch that was submitted; the
table knows chunk and row.
"""

from __future__ import annotations

import numpy as np

from softib.iba.constants import RESPONSE_BIT, MadStatus
from softib.iba.smp import METHOD_AT, STATUS_AT, TID_AT
from softib.mad.batch import MadBatch

__all__ = ["DONE", "ON_WIRE", "OVERDUE", "RETRY", "WAITING", "Outstanding"]

WAITING, ON_WIRE, OVERDUE, RETRY, DONE = range(5)
"""State of a request: not sent; sent and holding a place in the window; sent, its place given up;
timed out and waiting to be sent again; finished."""

TID_LIMIT = 1 << 32
_FIRST_ROWS = 1 << 14
_COMPACT_AT = 1 << 16
BUSY = int(MadStatus.BUSY)


class Outstanding:
    """Columns over TIDs ``first … first + n - 1``: ``tag`` int64, ``state`` uint8, ``tries``
    uint16, ``key`` (class and attribute), ``chunk``/``chunk_row``: where the MADs are."""

    def __init__(self, first: int = 1) -> None:
        self.first, self.n, self.live = first, 0, 0
        self._lowest = first
        self.chunks: dict[int, MadBatch] = {}
        self._chunk_end: dict[int, int] = {}
        self._next_chunk = 0
        self._allocate(_FIRST_ROWS)

    def _allocate(self, rows: int) -> None:
        self.tag, self.state = np.zeros(rows, np.int64), np.zeros(rows, np.uint8)
        self.tries, self.key = np.zeros(rows, np.uint16), np.zeros(rows, np.uint32)
        self.chunk, self.chunk_row = np.zeros(rows, np.int64), np.zeros(rows, np.int32)

    def add(self, batch: MadBatch, tags: np.ndarray) -> int:
        """Enter requests as WAITING; returns the TID of the first."""
        if self.live == 0 or (self.n > _COMPACT_AT and self.n > 4 * self.live):
            self._drop_finished()
        n = len(batch)
        if self.first + self.n + n >= TID_LIMIT and self.live == 0:
            self.first = self._lowest
        if self.n + n > len(self.tag):
            self._enlarge(max(2 * len(self.tag), self.n + n))
        rows = slice(self.n, self.n + n)
        self.tag[rows], self.state[rows], self.tries[rows] = tags, WAITING, 0
        self.key[rows] = _keys(batch.mad)
        self.chunk[rows], self.chunk_row[rows] = self._next_chunk, np.arange(n)
        self.chunks[self._next_chunk] = batch
        self._next_chunk += 1
        tid = self.first + self.n
        self.n += n
        self.live += n
        return tid

    def rows_of(self, tids: np.ndarray) -> np.ndarray:
        """Rows of TIDs that are in the table."""
        return tids - self.first

    def in_state(self, tids: np.ndarray, state: int) -> np.ndarray:
        """Those of ``tids`` whose request is in ``state`` (TIDs below the table's are finished)."""
        tids = tids[tids >= self.first]
        return tids[self.state[tids - self.first] == state]

    def find(self, mad: np.ndarray) -> np.ndarray:
        """Row of the request that each of ``mad`` answers, -1 where there is none. int64[n]

        An answer has the response bit, the TID of a request that was sent and is not finished, and
        its class and attribute. Of two answers to one request in a batch the first counts. A device
        that answers "busy" is taken at its word: that is no answer, and the request is sent again
        when its time is over (IBA 13.4.7).
        """
        tid = np.ascontiguousarray(mad[:, TID_AT + 4 : TID_AT + 8]).view(">u4")[:, 0].astype(np.int64)
        rows = tid - self.first
        good = (rows >= 0) & (rows < self.n) & (mad[:, METHOD_AT] >= RESPONSE_BIT)
        if not good.all():
            rows = np.where(good, rows, 0)
        state = self.state[rows]
        good &= (mad[:, STATUS_AT + 1] & BUSY) == 0
        good &= (state != WAITING) & (state != DONE) & (self.key[rows] == _keys(mad))
        rows = np.where(good, rows, -1)
        if len(rows) > 1 and not (np.diff(rows) > 0).all():
            _, firsts = np.unique(rows, return_index=True)
            repeated = np.ones(len(rows), bool)
            repeated[firsts] = False
            rows[repeated] = -1
        return rows

    def requests(self, rows: np.ndarray) -> MadBatch:
        """The requests of ``rows``, as they were submitted (views where they are one whole
        chunk)."""
        chunks = self.chunk[rows]
        parts = []
        for c in dict.fromkeys(chunks.tolist() if chunks[0] != chunks[-1] else [int(chunks[0])]):
            batch, chunk_rows = self.chunks[c], self.chunk_row[rows[chunks == c]]
            if len(chunk_rows) == len(batch):
                parts.append(batch)
            elif int(chunk_rows[-1]) - int(chunk_rows[0]) == len(chunk_rows) - 1:
                parts.append(batch[int(chunk_rows[0]) : int(chunk_rows[-1]) + 1])
            else:
                parts.append(batch[chunk_rows])
        return MadBatch.concat(parts)

    def finish(self, rows: np.ndarray) -> None:
        """Mark requests as over."""
        self.state[rows] = DONE
        self.live -= len(rows)

    def abandon(self) -> None:
        """Every request is over."""
        self.state[: self.n] = DONE
        self.live = 0

    def _drop_finished(self) -> None:
        """Forget the finished requests before the first live one, and octets that are no longer
        needed."""
        alive = np.flatnonzero(self.state[: self.n] != DONE)
        cut = int(alive[0]) if len(alive) else self.n
        kept = self.n - cut
        for column in self._columns():
            column[:kept] = column[cut : self.n].copy()
        self.first, self.n = self.first + cut, kept
        needed = set(np.unique(self.chunk[alive - cut]).tolist()) if len(alive) else set()
        self.chunks = {c: b for c, b in self.chunks.items() if c in needed}

    def _enlarge(self, rows: int) -> None:
        old, n = self._columns(), self.n
        self._allocate(rows)
        for new, was in zip(self._columns(), old, strict=True):
            new[:n] = was[:n]

    def _columns(self) -> list[np.ndarray]:
        return [self.tag, self.state, self.tries, self.key, self.chunk, self.chunk_row]


def _keys(mad: np.ndarray) -> np.ndarray:
    """uint32[n]: management class and attribute, what an answer must share with its request."""
    if mad.flags.c_contiguous and len(mad):
        dwords = mad.view(np.uint32)
        # Octets 0-3 are version, class, class version, method; octets 16-19 the attribute and two reserved ones.
        return (dwords[:, 0] & _CLASS_MASK) | ((dwords[:, 4] & _ATTR_MASK) << np.uint32(16))
    return _keys(np.ascontiguousarray(mad)) if len(mad) else np.zeros(0, np.uint32)


_CLASS_MASK = np.frombuffer(b"\x00\xff\x00\x00", np.uint32)[0]
_ATTR_MASK = np.frombuffer(b"\xff\xff\x00\x00", np.uint32)[0]
