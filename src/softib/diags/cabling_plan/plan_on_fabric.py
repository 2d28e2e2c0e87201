"""Maps the rows of a cabling plan to ports and cables of a fabric, and provides names for both."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from softib.diags.finding import Finding
from softib.diags.view import FabricView
from softib.fabric.formats.cabling.match import match_plan
from softib.fabric.formats.cabling.plan import CablingPlan
from softib.result import HIDDEN, Result, also, key

__all__ = ["STATUSES", "PlanComparison", "PlanOnFabric", "PlanRows", "PlannedCable"]


class PlanRows:
    """Rows of a plan that repeat or contradict each other. ``first`` bool[n]: the first row of each cable. ``repeats``:
    {first row: rows that repeat it}.

    ``conflicting`` bool[n]: rows that share a port with the first row of another cable, or join a port to itself.
    ``repeated``: the number of rows in ``repeats``. ``mirrored``: the number of these rows whose ends are exchanged.
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
        """Return the first rows of other cables that are planned at a port of ``row``."""
        others = [o for p in self.port[row].tolist() for o in self.users.get(p, ()) if o != row]
        return list(dict.fromkeys(others))

    def value(self, row: int, column: str) -> int:
        """Return the value of ``column`` in this row, or if it is empty, in a row that repeats the cable. 0:
        unknown.
        """
        values = getattr(self.plan, column)
        return next((int(values[r]) for r in (row, *self.repeats.get(row, ())) if values[r]), 0)

    def length(self, row: int) -> float:
        """Return the planned length in metres, from this row or from a row that repeats the cable. NaN: unknown."""
        lengths = self.plan.length_m
        return next(
            (float(lengths[r]) for r in (row, *self.repeats.get(row, ())) if not math.isnan(lengths[r])), math.nan
        )

    def other_problems(self) -> list[Any]:
        """Return the problems found while reading the plan, without those that are reported as conflicting rows."""
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


STATUSES = (
    "matched",
    "swapped",
    "misplaced",
    "missing",
    "wrong-speed",
    "wrong-length",
    "conflict",
    "unmatched",
    "unexpected",
)


@dataclass(frozen=True)
class PlannedCable(Result):
    """A cable of the plan, and the corresponding cables of the fabric."""

    status: str
    """One of :data:`STATUSES`."""
    file: str
    line: int
    """Line of the plan file; 0 if the plan does not have the cable."""
    planned: tuple[str, str]
    """The planned ports, as ``node[port]``."""
    found: tuple[str, ...]
    """The cables that are plugged into the planned ports."""
    note: str = ""
    reason: str = ""
    """Reason for an unmatched row."""
    also: tuple[str, ...] = ()
    """File and line of each row that repeats the cable."""
    nodes: tuple[str, ...] = field(default=(), metadata=HIDDEN)
    """Nodes at which the cable is planned."""


@dataclass
class PlanComparison(Result):
    """Result of comparing a cabling plan with a fabric: counts, and every cable that is not as planned."""

    files: tuple[str, ...]
    rows: dict[str, int]
    """Numbers of rows in the plan: ``all``, ``repeated`` (rows that repeat a cable), and ``mirrored`` (those of the
    repeated rows that state the cable from its other end).
    """
    counts: dict[str, int]
    """Number of cables with each status."""
    reasons: dict[str, int]
    """Number of cables whose names were not found in the fabric, for each reason."""
    table: list[PlannedCable] = field(
        metadata=key(json=lambda table: [cable.to_json() for cable in table if cable.status != "matched"])
    )
    findings: list[Finding] = field(metadata=HIDDEN)
    problems: list[Any] = field(metadata=HIDDEN)
    """Problems with reading the plan."""
    as_planned: frozenset[tuple[int, int]] = field(metadata=HIDDEN)
    """Ports (NodeGUID, portnum) of cables that are as planned."""

    @property
    def ok(self) -> bool:
        """Return whether every cable is as planned and the fabric has no unplanned cable."""
        return not self.findings

    @property
    @also("cables", before="counts")
    def planned(self) -> int:
        """Return the number of planned cables."""
        return sum(n for status, n in self.counts.items() if status != "unexpected")


def _cables_of_rows(view: FabricView, rows: list[dict[str, Any]]) -> dict[int, dict[str, Any]]:
    """Return a mapping from cable to row, for each of ``rows`` whose known ports all belong to one cable."""
    if not rows:
        return {}
    f, cables = view.fabric, dict[int, dict[str, Any]]()
    at = {int(p): i for ends in (view.port_a, view.port_b) for i, p in enumerate(ends.tolist())}
    ports = match_plan(CablingPlan.from_rows(rows, "p2p", "", []), f).port
    for row, ends in zip(rows, ports.tolist(), strict=True):
        of = {at.get(p, -1) for p in ends if p >= 0}
        if len(of) == 1 and of != {-1}:
            cables[of.pop()] = row
    return cables


class PlanOnFabric:
    """The plan's rows as ports of the fabric. ``port`` int64[rows, 2]: the port that the row names at each end.
    ``peer`` int64[rows, 2]: the port at the other end of that port's cable. -1: none.

    ``left_out``: cable of the fabric (row of the view) → the row of the file that describes it but is not part of the
    plan (a cancelled row, or a row with an unreadable cell).

    ``table`` and ``findings`` collect the results of the checks. :meth:`add` adds lines to the table.
    """

    def __init__(self, view: FabricView, plan: CablingPlan):
        self.view, self.plan = view, plan
        self.matched = match_plan(plan, view.fabric)
        self.port = self.matched.port.astype(np.int64)
        self.peer = np.where(self.port >= 0, view.fabric.port_peer[np.maximum(self.port, 0)], -1)
        self.rows = PlanRows(plan, self.port)
        self.left_out = _cables_of_rows(view, plan.left_out)
        self.table: list[PlannedCable] = []
        self.findings: list[Finding] = []

    def names(self, row: int) -> tuple[str, str]:
        """Return the text of both planned ports."""
        a, b = (self.name(row, end) for end in (0, 1))
        return a, b

    def name(self, row: int, end: int) -> str:
        """Return ``node[port]`` with the fabric's name if the fabric has this end, otherwise with the plan's name."""
        port = int(self.port[row, end])
        return str(self.view.location(port)) if port >= 0 else self.plan.end_name(row, end)

    def _node(self, row: int, end: int) -> str:
        node = int(self.matched.node[row, end])
        return str(self.view.node_location(node)) if node >= 0 else str(self.plan.node[row, end])

    def locations(self, rows: Iterable[int]) -> list[Any]:
        """Return the locations, in the fabric, of the known ports of ``rows``."""
        return [self.view.location(int(p)) for r in rows for p in self.port[r] if p >= 0]

    def found(self, row: int) -> tuple[str, ...]:
        """Return the actual cables of the planned ports, as text."""
        out = []
        for end in (0, 1):
            peer_port = int(self.peer[row, end])
            if peer_port >= 0:
                out.append(f"{self.name(row, end)} ↔ {self.view.location(peer_port)}")
        return tuple(out)

    def evidence(self, row: int) -> dict[str, Any]:
        """Return the line of the row, and its file if there are several."""
        evidence = {"line": int(self.plan.line[row])}
        return {"file": self.plan.files[int(self.plan.file[row])], **evidence} if len(self.plan.files) > 1 else evidence

    def add(self, status: str, row: int, note: str = "", reason: str = "") -> None:
        """Add a line to the table; ``status`` is one of :data:`.result.STATUSES`."""
        ends = self.names(row) if status in ("matched", "wrong-speed", "wrong-length") else self.found(row)
        self.table.append(
            PlannedCable(
                status=status,
                file=self.plan.files[int(self.plan.file[row])],
                line=int(self.plan.line[row]),
                planned=self.names(row),
                found=ends,
                note=note,
                reason=reason,
                also=tuple(self.plan.row_name(r) for r in self.rows.repeats.get(row, ())),
                nodes=tuple(self._node(row, end) for end in (0, 1)),
            )
        )
