"""Queries that wait for the SA. Their number is limited (queries beyond the limit get BUSY, IBA
13.4.7), and requesters are served fairly.

The method is start-time fair queueing (Goyal, Vin, Cheng, SIGCOMM 1996). Each requester has a
virtual time that advances by the cost of its answers, and the requester with the smallest virtual
time is served next. So a host with one query waits for at most one query of each other host, even
if one of them has sent thousands.
"""

from __future__ import annotations

import heapq
from collections import deque

import numpy as np

from softib.iba.sa import SaMethod
from softib.iba.smp import ATTR_AT, METHOD_AT
from softib.mad.batch import MadBatch

__all__ = ["FairQueue"]

MOST_OF_ONE, MOST = 64, 1 << 16
"""Maximum number of waiting queries of one requester, and of all requesters together. A requester
with no waiting query is always accepted, so the queue holds at most ``MOST`` queries plus one for
each LID, which take 28 MB."""
TABLES = (SaMethod.GET_TABLE, SaMethod.GET_MULTI, SaMethod.GET_TRACE_TABLE)
RECORDS_A_UNIT = 64
"""The cost of a Get is 1. The cost of a table is 1, plus 1 for each group of this number of
records, which takes about as long as a Get."""
FIRST_GUESS = 4.0
GET_COST = -1
Question = tuple[MadBatch, int, tuple[int, int, int], int]
"""A batch, the row in it, the identity of the query, and the attribute of a table (GET_COST for a
query that costs 1).
"""


class FairQueue:
    """Waiting requests of all requesters, which are identified by source LID."""

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
        """Drop all requests."""
        self.__init__(self.most_of_one, self.most)  # type: ignore[misc]

    def costs(self, requests: MadBatch) -> float:
        """Return an estimate of the cost of all answers to these requests."""
        return sum(1.0 if t == GET_COST else self._cost.get(t, FIRST_GUESS) for t in _tables(requests))

    def put(self, requests: MadBatch) -> MadBatch | None:
        """Queue the requests. Return those for which there is no space. If the same query is
        already waiting, the repetition is dropped, because the answer would be the same."""
        full = []
        columns = requests.slid.tolist(), requests.sqp.tolist(), requests.tid.tolist(), _tables(requests)
        names, waiting = self._names, self._waiting
        for i, (lid, qp, tid, table) in enumerate(zip(*columns, strict=True)):
            name = lid, qp, tid
            if name in names and tid:
                continue
            questions = waiting.get(lid)
            if questions is None:
                questions = waiting[lid] = deque()
                self._enter(lid, max(self._now, self._time.get(lid, 0.0)))
            elif len(questions) >= self.most_of_one or len(names) >= self.most:
                full.append(i)
                continue
            questions.append((requests, i, name, table))
            names.add(name)
        return requests[full] if full else None

    def take(self, budget: float) -> MadBatch:
        """Return the queries to answer next, up to about this cost, but at least one if any is
        waiting."""
        chosen: list[Question] = []
        while self._heap and budget > 0:
            self._now, _, lid = heapq.heappop(self._heap)
            questions = self._waiting[lid]
            question = questions.popleft()
            self._names.discard(question[2])
            chosen.append(question)
            cost = 1.0 if question[3] == GET_COST else self._cost.get(question[3], FIRST_GUESS)
            budget -= cost
            self._time[lid] = self._now + cost
            if questions:
                self._enter(lid, self._now + cost)
            else:
                del self._waiting[lid]
        if not self._heap:
            self._time.clear()  # no query waits, so no requester has been served more than others
        return _batch(chosen)

    def learned(self, attr: int, records: int) -> None:
        """Store the number of records in a table of this attribute, for later estimates."""
        new = 1.0 + records / RECORDS_A_UNIT
        self._cost[attr] = (self._cost.get(attr, new) + new) / 2

    def _enter(self, lid: int, time: float) -> None:
        self._order += 1
        heapq.heappush(self._heap, (time, self._order, lid))


def _tables(requests: MadBatch) -> list[int]:
    """Return the attribute of each request for a table, GET_COST for other requests."""
    mad = requests.mad
    attr = mad[:, ATTR_AT].astype(np.int64) << 8 | mad[:, ATTR_AT + 1]
    return np.where(np.isin(mad[:, METHOD_AT], TABLES), attr, GET_COST).tolist()


def _batch(chosen: list[Question]) -> MadBatch:
    """Return one batch of the chosen rows of several batches; rows of one batch keep their order."""
    by_batch: dict[int, tuple[MadBatch, list[int]]] = {}
    for batch, row, *_ in chosen:
        by_batch.setdefault(id(batch), (batch, []))[1].append(row)
    return MadBatch.concat([batch[rows] for batch, rows in by_batch.values()])
