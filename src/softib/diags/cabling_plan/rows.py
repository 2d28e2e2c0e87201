"""Rows of a cabling plan once their ports are known: which repeat a cable, which contradict each
other."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from softib.fabric.formats.cabling.plan import CablingPlan

__all__ = ["PlanRows"]


class PlanRows:
    """``first`` bool[n]: the first row of each cable; ``repeats``: {first row: rows that tell it
    again}.

    ``conflicting`` bool[n]: rows that share a port with the first row of another cable, or join a
    port to itself. ``repeated`` and ``mirrored`` count the rows of ``repeats``, and those of them
    with the ends exchanged.
    """

    def __init__(self, plan: CablingPlan, port: np.ndarray):
        self.plan, self.port = plan, port
        n = len(plan)
        self.first = np.ones(n, bool)
        self.conflicting = np.zeros(n, bool)
        self.repeats: dict[int, list[int]] = {}
        self.users: dict[int, list[int]] = {}
        self.repeated = self.mirrored = 0
        self._find_repeats()
        self._find_conflicts()

    def _find_repeats(self) -> None:
        seen: dict[tuple[int, int], int] = {}
        by_name = self.plan.repeats.tolist()
        for row, (a, b) in enumerate(self.port.tolist()):
            if a >= 0 and b >= 0:
                earlier = seen.setdefault((a, b) if a <= b else (b, a), row)
            else:
                earlier = by_name[row] if by_name[row] >= 0 else row
            if earlier == row:
                continue
            self.first[row] = False
            self.repeats.setdefault(earlier, []).append(row)
            self.repeated += 1
            self.mirrored += self._is_mirrored(earlier, row)

    def _is_mirrored(self, earlier: int, row: int) -> bool:
        if (self.port[row] >= 0).all():
            return bool(self.port[earlier, 0] != self.port[row, 0])
        node = self.plan.node
        return bool(node[earlier, 0].casefold() != node[row, 0].casefold())

    def _find_conflicts(self) -> None:
        for row in np.flatnonzero(self.first).tolist():
            a, b = self.port[row].tolist()
            if a == b >= 0:
                self.conflicting[row] = True
                continue
            for port in (a, b):
                if port >= 0:
                    self.users.setdefault(port, []).append(row)
        for rows in self.users.values():
            if len(rows) > 1:
                self.conflicting[rows] = True

    def rivals(self, row: int) -> list[int]:
        """First rows of other cables that use a port of ``row``."""
        found = [o for p in self.port[row].tolist() for o in self.users.get(p, ()) if o != row]
        return list(dict.fromkeys(found))

    def value(self, row: int, column: str) -> int:
        """What the row says of the cable, else what a row that repeats it says; 0 = unknown."""
        values = getattr(self.plan, column)
        return next((int(values[r]) for r in (row, *self.repeats.get(row, ())) if values[r]), 0)

    def length(self, row: int) -> float:
        """Planned length in metres likewise, NaN = unknown."""
        lengths = self.plan.length_m
        return next(
            (float(lengths[r]) for r in (row, *self.repeats.get(row, ())) if not math.isnan(lengths[r])), math.nan
        )

    def other_problems(self) -> list[Any]:
        """Problems of reading the plan that no finding about conflicting rows reports."""
        plan = self.plan
        reported = {
            (plan.files[int(plan.file[r])], int(plan.line[r]))
            for r in np.flatnonzero(self.conflicting & plan.conflict).tolist()
        }
        return [
            p
            for p in plan.problems
            if (p.file, p.line) not in reported
            or not ("already has a cable" in p.reason or p.reason.startswith("both ends are"))
        ]
