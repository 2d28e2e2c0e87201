"""Questions that wait for the administrator: bounded, and served fairly by requester (IBA 13.4.7: BUSY for what finds no room).

Start-time fair queueing (Goyal, Vin, Cheng, SIGCOMM 1996): each requester has a virtual time that advances by the cost of what it
was answered, and the one that is least advanced is served next. So a host that asks once among thousands waits for one question of each at
most, whatever one of them floods the manager with.
"""

from __future__ import annotations

import heapq
from collections import deque

import numpy as np

from softib.iba.mad_offsets import ATTR_AT, METHOD_AT
from softib.iba.sa import SaMethod
from softib.mad.batch import MadBatch

__all__ = ["FairQueue"]

MOST_OF_ONE, MOST = 64, 1 << 16
"""Questions of one requester, and of all. A requester that has none waiting always gets in, so there are at most ``MOST`` plus one of
each LID: 28 MB."""
TABLES = (SaMethod.GET_TABLE, SaMethod.GET_MULTI, SaMethod.GET_TRACE_TABLE)
RECORDS_A_UNIT = 64
"""A Get costs 1, a table 1 and as much for each so many records (about as long as a Get takes)."""
FIRST_GUESS = 4
Question = tuple[MadBatch, int, tuple[int, int, int]]


class FairQueue:
    """Requests of any number of requesters, by the LID that they come from."""

    def __init__(self, most_of_one: int = MOST_OF_ONE, most: int = MOST) -> None:
        self.most_of_one, self.most = most_of_one, most
        self._waiting: dict[int, deque[Question]] = {}
        self._time: dict[int, float] = {}
        self._heap: list[tuple[float, int, int]] = []
        self._names: set[tuple[int, int, int]] = set()
        self._now, self._order = 0.0, 0
        self._cost: dict[int, float] = {}

    def __len__(self) -> int:
        return len(self._names)

    def clear(self) -> None:
        """Nobody waits."""
        self.__init__(self.most_of_one, self.most)  # type: ignore[misc]

    def costs(self, requests: MadBatch) -> float:
        """What answering all of them costs, as far as can be guessed."""
        tables = np.isin(requests.mad[:, METHOD_AT], TABLES)
        if not tables.any():
            return float(len(requests))
        return float((~tables).sum()) + sum(self._guess(requests.mad[i]) for i in np.flatnonzero(tables).tolist())

    def put(self, requests: MadBatch) -> MadBatch | None:
        """Let them wait; returns those that find no room. A repetition of one that waits already is dropped: it gets that answer."""
        full = []
        lids, qps, tids = requests.slid.tolist(), requests.sqp.tolist(), requests.tid.tolist()
        for i, name in enumerate(zip(lids, qps, tids, strict=True)):
            if name in self._names and tids[i]:
                continue
            lid = lids[i]
            mine = self._waiting.get(lid)
            if mine is not None and (len(mine) >= self.most_of_one or len(self._names) >= self.most):
                full.append(i)
                continue
            if mine is None:
                mine = self._waiting[lid] = deque()
                self._enter(lid, max(self._now, self._time.get(lid, 0.0)))
            mine.append((requests, i, name))
            self._names.add(name)
        return requests[full] if full else None

    def take(self, budget: float) -> MadBatch:
        """The questions that are answered next, for about so much; one at least, where there is one."""
        chosen: list[Question] = []
        while self._heap and budget > 0:
            self._now, _, lid = heapq.heappop(self._heap)
            mine = self._waiting[lid]
            question = mine.popleft()
            self._names.discard(question[2])
            chosen.append(question)
            mad = question[0].mad[question[1]]
            cost = self._guess(mad) if mad[METHOD_AT] in TABLES else 1.0
            budget -= cost
            self._time[lid] = self._now + cost
            if mine:
                self._enter(lid, self._now + cost)
            else:
                del self._waiting[lid]
        if not self._heap:
            self._time.clear()  # nobody waits: nobody is ahead
        return _batch(chosen)

    def learned(self, attr: int, records: int) -> None:
        """A table of this attribute had so many records."""
        new = 1.0 + records / RECORDS_A_UNIT
        self._cost[attr] = (self._cost.get(attr, new) + new) / 2

    def _guess(self, mad: np.ndarray) -> float:
        return self._cost.get(int(mad[ATTR_AT]) << 8 | int(mad[ATTR_AT + 1]), FIRST_GUESS)

    def _enter(self, lid: int, time: float) -> None:
        self._order += 1
        heapq.heappush(self._heap, (time, self._order, lid))


def _batch(chosen: list[Question]) -> MadBatch:
    """One batch of rows of several, in their order within each."""
    by_batch: dict[int, tuple[MadBatch, list[int]]] = {}
    for batch, row, _ in chosen:
        by_batch.setdefault(id(batch), (batch, []))[1].append(row)
    return MadBatch.concat([batch[rows] for batch, rows in by_batch.values()])
