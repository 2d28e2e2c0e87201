"""Builder of a :class:`~softib.workloads.schedule.schedule.Schedule` from single operations."""

from __future__ import annotations

from array import array

import numpy as np

from softib.workloads.schedule.schedule import Kind, Schedule

__all__ = ["Builder"]

COMPUTE = int(Kind.COMPUTE)


class Builder:
    """Operations of ``ranks`` ranks in any order; :meth:`schedule` sorts them by rank and keeps the
    order within each."""

    def __init__(self, ranks: int):
        self.ranks = ranks
        self._rows = array("q")
        self._labels: list[str] = []
        self._needs = array("q")
        self._gbps: dict[int, float] = {}
        self.place = np.zeros(0, np.int64)
        """Position of each row in the result of the last call of :meth:`schedule`."""

    def __len__(self) -> int:
        return len(self._labels)

    def message(
        self,
        kind: int,
        rank: int,
        peer: int,
        size: int,
        tag: int = 0,
        *,
        processor: int = 0,
        label: str = "",
        gbps: float = 0.0,
    ) -> int:
        """Add a send or receive (:class:`Kind`), with the static rate ``gbps``; return its row."""
        if gbps:
            self._gbps[len(self._labels)] = gbps
        self._rows.extend((rank, kind, peer, size, tag, 0, processor))
        self._labels.append(label)
        return len(self._labels) - 1

    def compute(self, rank: int, ps: int, *, processor: int = 0, label: str = "") -> int:
        """Add a computation; return its row."""
        self._rows.extend((rank, COMPUTE, -1, 0, 0, ps, processor))
        self._labels.append(label)
        return len(self._labels) - 1

    def need(self, row: int, on: int, *, on_start: bool = False) -> None:
        """Let ``row`` begin when ``on`` has ended (or begun)."""
        self._needs.extend((row, on, on_start))

    def schedule(self, name: str) -> Schedule:
        """Return the schedule."""
        rows = np.array(self._rows).reshape(-1, 7)
        order = np.argsort(rows[:, 0], kind="stable")
        place = np.empty(len(rows), np.int64)
        place[order] = np.arange(len(rows))
        self.place = place
        needs = np.array(self._needs).reshape(-1, 3)
        owner = place[needs[:, 0]]
        by = np.argsort(owner, kind="stable")
        rows = rows[order]
        named = tuple(self._labels[i] for i in order.tolist()) if any(self._labels) else ()
        gbps = None
        if self._gbps:
            gbps = np.zeros(len(rows))
            gbps[place[list(self._gbps)]] = list(self._gbps.values())
        return Schedule(
            name=name,
            ranks=self.ranks,
            rank=rows[:, 0].astype(np.int32),
            kind=rows[:, 1].astype(np.uint8),
            peer=rows[:, 2].astype(np.int32),
            size=rows[:, 3],
            tag=rows[:, 4],
            compute_ps=rows[:, 5],
            processor=rows[:, 6].astype(np.int32),
            first=np.searchsorted(owner[by], np.arange(len(rows) + 1)).astype(np.int64),
            needs=place[needs[by, 1]],
            on_start=needs[by, 2].astype(bool),
            labels=named,
            rate_gbps=gbps,
        )
