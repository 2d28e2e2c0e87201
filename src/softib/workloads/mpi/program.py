"""Builder of a collective's schedule. Each call adds one step of many ranks at once, as columns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from softib.workloads.schedule.schedule import Kind, Schedule

__all__ = ["Data", "Program"]

NONE = np.zeros(0, np.int64)


@dataclass(frozen=True)
class Data:
    """Elements ``offset[k]`` to ``offset[k] + count[k]`` of the buffer of the k-th rank in a step."""

    offset: np.ndarray
    count: np.ndarray

    @staticmethod
    def of(offset: Any, count: Any, n: int) -> Data:
        """Return columns of ``n`` from scalars or columns."""
        return Data(np.broadcast_to(offset, n).astype(np.int64), np.broadcast_to(count, n).astype(np.int64))

    def at(self, chosen: np.ndarray) -> Data:
        """Return the elements of only the ranks at the positions ``chosen``."""
        return Data(self.offset[chosen], self.count[chosen])


class Program:
    """The program of ``ranks`` ranks. Each step of a rank waits for the previous one, unless the
    caller passes dependencies.

    * ``element``: bytes of an element.
    * ``reduce_ps``: time to reduce a byte, and ``reduce_ns`` per call.
    * ``copy_ps``: time to copy a byte within a rank.
    * ``version``: release of Open MPI, whose rules choose the algorithms of collectives that consist of other
      collectives.
    * ``moves``: the elements that each operation sends, receives or adds, with which tests execute a schedule
      symbolically.
    """

    def __init__(
        self, ranks: int, element: int = 1, reduce_ps: float = 0.0, copy_ps: float = 0.0, reduce_ns: float = 0.0
    ):
        self.ranks, self.element, self.reduce_ps, self.copy_ps, self.reduce_ns = (
            ranks,
            element,
            reduce_ps,
            copy_ps,
            reduce_ns,
        )
        self.version = "4.1"
        self.every = np.arange(ranks)
        self.last = np.full((ranks, 2), -1, np.int64)
        self.rows = 0
        self._columns: list[tuple[np.ndarray, ...]] = []
        self._owner: list[np.ndarray] = []
        self._needs: list[np.ndarray] = []

    def _add(
        self,
        kind: Kind,
        rank: np.ndarray,
        peer: Any,
        data: Data,
        ps: Any = 0,
        source: Any = -1,
        needs: Any = None,
        blocking: bool = False,
    ) -> np.ndarray:
        """Add rows, one operation for each of ``rank``; ``needs``: columns of rows (-1: none), by
        default the ranks' last operations."""
        n = len(rank)
        rows = self.rows + np.arange(n)
        self.rows += n
        wide = lambda v: np.broadcast_to(np.asarray(v, np.int64), n)
        self._columns.append(
            (wide(rank), wide(int(kind)), wide(peer), wide(ps), data.offset, data.count, wide(source), wide(blocking))
        )
        for on in self.last[rank].T if needs is None else needs:
            stated = on >= 0
            self._owner.append(rows[stated])
            self._needs.append(np.asarray(on)[stated])
        return rows

    def send(
        self, rank: np.ndarray, to: np.ndarray, data: Data, needs: Any = None, blocking: bool = True
    ) -> np.ndarray:
        """Let ``rank[k]`` send ``data`` to ``to[k]``, and wait until it may reuse the buffer. ``blocking``: with
        MPI_Send, otherwise MPI_Isend."""
        rows = self._add(Kind.SEND, rank, to, data, needs=needs, blocking=blocking)
        self._now(rank, rows)
        return rows

    def receive(self, rank: np.ndarray, source: np.ndarray, data: Data, needs: Any = None) -> np.ndarray:
        """Let ``rank[k]`` receive ``data``."""
        rows = self._add(Kind.RECV, rank, source, data, needs=needs)
        self._now(rank, rows)
        return rows

    def exchange(
        self, rank: np.ndarray, to: np.ndarray, out: Data, source: np.ndarray, into: Data
    ) -> tuple[np.ndarray, np.ndarray]:
        """Add MPI_Sendrecv: both operations run at once and end before the next step; return (sends, receives). Open
        MPI posts the receive, and sends with MPI_Send."""
        receives = self._add(Kind.RECV, rank, source, into)
        sends = self._add(Kind.SEND, rank, to, out, blocking=True)
        self.last[rank, 0], self.last[rank, 1] = receives, sends
        return sends, receives

    def reduce(self, rank: np.ndarray, receives: np.ndarray, data: Data) -> np.ndarray:
        """Let ``rank[k]`` add the data that ``receives[k]`` received to the elements ``data`` of its buffer."""
        ps = np.round(data.count * self.element * self.reduce_ps + self.reduce_ns * 1000)
        rows = self._add(Kind.COMPUTE, rank, -1, data, ps, receives)
        self._now(rank, rows)
        return rows

    def copy(self, rank: np.ndarray, count: Any) -> None:
        """Let ``rank[k]`` copy ``count`` elements within its memory."""
        data = Data.of(-1, count, len(rank))
        self._now(rank, self._add(Kind.COMPUTE, rank, -1, data, np.round(data.count * self.element * self.copy_ps), -2))

    def compute(self, rank: np.ndarray, ns: float) -> None:
        """Let ``rank[k]`` compute for ``ns`` nanoseconds."""
        self._now(rank, self._add(Kind.COMPUTE, rank, -1, Data.of(0, 0, len(rank)), round(ns * 1000), -2))

    def wait(self, rank: np.ndarray, needs: list[np.ndarray]) -> None:
        """Let ``rank[k]`` continue when ``needs[j][k]`` of every j have ended (MPI_Waitall)."""
        self._now(rank, self._add(Kind.COMPUTE, rank, -1, Data.of(0, 0, len(rank)), 0, -2, needs))

    def _now(self, rank: np.ndarray, rows: np.ndarray) -> None:
        self.last[rank, 0], self.last[rank, 1] = rows, -1

    def schedule(self, name: str) -> Schedule:
        """Return the schedule."""
        rank, kind, peer, ps, _, count, _, blocking = self._all()
        order = np.argsort(rank, kind="stable")
        place = np.empty(len(order), np.int64)
        place[order] = np.arange(len(order))
        owner, needs = (np.concatenate([NONE, *c]) for c in (self._owner, self._needs))
        owner, needs = place[owner], place[needs]
        by = np.argsort(owner, kind="stable")
        size = np.where(kind == Kind.COMPUTE, 0, count * self.element)[order]
        zero = np.zeros(len(order), np.int64)
        return Schedule(
            name=name,
            ranks=self.ranks,
            rank=rank[order].astype(np.int32),
            kind=kind[order].astype(np.uint8),
            peer=peer[order].astype(np.int32),
            size=size,
            tag=zero,
            compute_ps=ps[order],
            processor=zero.astype(np.int32),
            first=np.searchsorted(owner[by], np.arange(len(order) + 1)).astype(np.int64),
            needs=needs[by],
            on_start=np.zeros(len(by), bool),
            blocking=blocking[order].astype(bool),
        )

    def moves(self) -> list[tuple[int, int, int]]:
        """Return for each operation, in the order of :meth:`schedule`: first element, count,
        and for a reduction the operation whose data it adds (-1: none)."""
        rank, _, _, _, offset, count, source, _ = self._all()
        order = np.argsort(rank, kind="stable")
        place = np.empty(len(order) + 2, np.int64)
        place[order] = np.arange(len(order))
        place[-2:] = -2, -1
        return list(zip(offset[order].tolist(), count[order].tolist(), place[source[order]].tolist(), strict=True))

    def _all(self) -> tuple[np.ndarray, ...]:
        if not self._columns:
            return (NONE,) * 8
        return tuple(np.concatenate(c) for c in zip(*self._columns, strict=True))
