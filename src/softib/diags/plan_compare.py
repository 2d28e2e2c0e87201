"""Compares a cabling plan with a fabric, cable by cable.

Every row of the plan gets one status:

* ``matched`` – the cable joins the two planned ports;
* ``wrong-speed``, ``wrong-length`` – it does, but runs slower than planned, or is of another length;
* ``swapped`` – two planned cables are exchanged at one end: both are found, each in the other's place;
* ``misplaced`` – the planned port holds a cable that leads elsewhere;
* ``missing`` – both planned ports are free;
* ``unmatched`` – a name or port of the plan is not in the fabric (the plan's problems say why).

Cables of the fabric that no row plans are ``unexpected``. They count only between nodes that the plan names: a plan of
the spine layer says nothing about hosts.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from softib.diags.finding import Finding, Severity
from softib.diags.registry import code, finding
from softib.diags.view import FabricView, speed_text
from softib.fabric.formats.cabling import CablingPlan
from softib.fabric.formats.plan_match import MatchedPlan, match_plan
from softib.fabric.model import Fabric

__all__ = ["STATUSES", "PlanComparison", "PlannedCable", "compare"]

PLAN_SWAPPED = code(
    "plan-swapped-cables", Severity.ERROR, "two planned cables are exchanged at one end",
    "exchange the two plugs at one end")  # fmt: skip
PLAN_MISPLACED = code(
    "plan-misplaced-cable", Severity.ERROR, "a planned port holds a cable that leads elsewhere",
    "move the plug to the planned port")  # fmt: skip
PLAN_MISSING = code(
    "plan-missing-cable", Severity.ERROR, "a planned cable is not there",
    "plug the cable in, or check why its link is down")  # fmt: skip
PLAN_UNEXPECTED = code(
    "plan-unexpected-cable", Severity.WARNING, "a cable between planned nodes that the plan does not have",
    "remove the cable, or complete the plan")  # fmt: skip
PLAN_SPEED = code(
    "plan-wrong-speed", Severity.WARNING, "a planned cable runs slower than planned",
    "reseat or replace the cable; check the enabled speeds")  # fmt: skip
PLAN_LENGTH = code(
    "plan-wrong-length", Severity.WARNING, "a cable is not of the planned length",
    "check that this is the planned cable; latency and reach depend on it")  # fmt: skip
PLAN_UNMATCHED = code(
    "plan-unmatched-row", Severity.WARNING, "a row of the plan names a node or port that the fabric does not have",
    "correct the name in the plan, or give a node-name-map")  # fmt: skip

STATUSES = ("matched", "swapped", "misplaced", "missing", "wrong-speed", "wrong-length", "unmatched", "unexpected")
LENGTH_TOLERANCE = 0.25
"""Share of the planned length (at least 1 m) by which a cable may differ."""
MANY = 32
"""Rows that do not match, and unexpected cables, beyond this many are one finding."""


@dataclass(frozen=True)
class PlannedCable:
    """One line of the table. ``line`` of the plan file (0 = none); ``planned`` and ``found`` are pairs of ``node[port]``."""

    status: str
    line: int
    planned: tuple[str, str]
    found: tuple[str, ...]
    note: str = ""

    def to_json(self) -> dict[str, Any]:
        """As ``--json`` prints it."""
        return {"status": self.status, "line": self.line, "planned": list(self.planned), "found": list(self.found),
                "note": self.note}  # fmt: skip


@dataclass
class PlanComparison:
    """``findings``, the whole ``table``, and how many cables have each status."""

    findings: list[Finding]
    table: list[PlannedCable]
    counts: dict[str, int]
    problems: list[Any] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        """Every cable as planned and nothing beside."""
        return not self.findings


class _Comparison:
    def __init__(self, view: FabricView, plan: CablingPlan, matched: MatchedPlan):
        self.view, self.plan, self.matched = view, plan, matched
        self.port = matched.port.astype(np.int64)
        self.peer = np.where(self.port >= 0, view.fabric.port_peer[np.maximum(self.port, 0)], -1)
        self.table: list[PlannedCable] = []
        self.findings: list[Finding] = []
        self.planned_ports: dict[int, int] = {}
        for row, ports in enumerate(self.port.tolist()):
            for port in ports:
                if port >= 0:
                    self.planned_ports.setdefault(port, row)

    def run(self) -> None:
        """Fill table and findings."""
        whole = (self.port >= 0).all(axis=1)
        right = whole & (self.peer[:, 0] == self.port[:, 1])
        self._unmatched(np.flatnonzero(~whole))
        for row in np.flatnonzero(right).tolist():
            self._right(row)
        wrong = np.flatnonzero(whole & ~right).tolist()
        swapped = self._swaps(wrong)
        for row in wrong:
            if row not in swapped:
                self._wrong(row)
        self._unexpected(swapped)

    def _line(self, row: int) -> int:
        return int(self.plan.line[row])

    def _names(self, row: int) -> tuple[str, str]:
        a, b = (self._name(row, end) for end in (0, 1))
        return a, b

    def _name(self, row: int, end: int) -> str:
        port = int(self.port[row, end])
        return str(self.view.place(port)) if port >= 0 else self.plan.end_name(row, end)

    def _found(self, row: int) -> tuple[str, ...]:
        """What the planned ports really lead to."""
        out = []
        for end in (0, 1):
            far = int(self.peer[row, end])
            if far >= 0:
                out.append(f"{self._name(row, end)} ↔ {self.view.place(far)}")
        return tuple(out)

    def _add(self, status: str, row: int, note: str = "") -> None:
        found = self._names(row) if status in ("matched", "wrong-speed", "wrong-length") else self._found(row)
        self.table.append(PlannedCable(status, self._line(row), self._names(row), found, note))

    def _unmatched(self, rows: np.ndarray) -> None:
        for row in rows.tolist():
            self._add("unmatched", row)
        if len(rows) > MANY:
            self.findings.append(finding(PLAN_UNMATCHED, [], f"{len(rows)} of {len(self.plan)} rows of the plan name a node or "
                                 "port that the fabric does not have", {"rows": len(rows), "of": len(self.plan)}))  # fmt: skip
            return
        for row in rows.tolist():
            missing = ", ".join(self.plan.end_name(row, e) for e in (0, 1) if self.port[row, e] < 0)
            where = [self.view.place(int(p)) for p in self.port[row] if p >= 0]
            self.findings.append(finding(PLAN_UNMATCHED, where, f"plan line {self._line(row)}: {missing} is not in the fabric",
                                 {"line": self._line(row)}))  # fmt: skip

    def _right(self, row: int) -> None:
        note = self._speed_note(row)
        status = "wrong-speed" if note else "matched"
        if not note:
            note = self._length_note(row)
            status = "wrong-length" if note else "matched"
        self._add(status, row, note)
        if note:
            a, b = self.port[row].tolist()
            self.findings.append(finding(PLAN_SPEED if status == "wrong-speed" else PLAN_LENGTH,
                                 [self.view.place(a), self.view.place(b)], f"{self.view.link_name(a, b)}: {note}",
                                 {"line": self._line(row)}))  # fmt: skip

    def _speed_note(self, row: int) -> str:
        view = self.view
        a, b = int(self.port[row, 0]), int(self.port[row, 1])
        planned, lanes = int(self.plan.speed[row]), int(self.plan.lanes[row])
        if "speeds" not in view.records or not planned:
            return ""
        speed, width = min(int(view.speed[a]), int(view.speed[b])), min(int(view.lanes[a]), int(view.lanes[b]))
        if speed >= planned and (width >= lanes or not lanes):
            return ""
        return f"runs at {speed_text(speed, width)}, planned {speed_text(planned, lanes or 4)}"

    def _length_note(self, row: int) -> str:
        planned = float(self.plan.length_m[row])
        found = float(self.view.fabric.cable_length_m[self.view.fabric.port_cable[self.port[row, 0]]])
        if not (planned > 0 and found > 0) or abs(found - planned) <= max(1.0, LENGTH_TOLERANCE * planned):
            return ""
        return f"is {found:g} m long, planned {planned:g} m"

    def _swaps(self, wrong: list[int]) -> set[int]:
        """Pairs of wrong rows of which each holds an end of the other."""
        done: set[int] = set()
        waiting = set(wrong)
        for row in wrong:
            if row in done:
                continue
            for end in (0, 1):
                far = int(self.peer[row, end])
                other = self.planned_ports.get(far, -1) if far >= 0 else -1
                if other in waiting and other not in done and other != row and self._exchanged(row, end, other, far):
                    self._swap(row, other)
                    done.update((row, other))
                    break
        return done

    def _exchanged(self, row: int, end: int, other: int, far: int) -> bool:
        """``row``'s port ``end`` is cabled to a port of ``other``; are the two left-over ports cabled to each other?"""
        rest, beside = (
            int(self.port[row, 1 - end]),
            int(self.port[other, 0] if self.port[other, 1] == far else self.port[other, 1]),
        )
        return int(self.view.fabric.port_peer[rest]) == beside

    def _swap(self, row: int, other: int) -> None:
        for r, o in ((row, other), (other, row)):
            self._add("swapped", r, f"with plan line {self._line(o)}" if self._line(o) else "")
        a, b = self._names(row)
        c, d = self._names(other)
        where = [self.view.place(int(p)) for r in (row, other) for p in self.port[r]]
        self.findings.append(finding(PLAN_SWAPPED, where, f"{a} ↔ {b} and {c} ↔ {d} of the plan are swapped: found "
                             f"{' and '.join(self._found(row))}", {"lines": [self._line(row), self._line(other)]}))  # fmt: skip

    def _wrong(self, row: int) -> None:
        found = self._found(row)
        where = [self.view.place(int(p)) for p in self.port[row]]
        a, b = self._names(row)
        if found:
            self._add("misplaced", row)
            self.findings.append(finding(PLAN_MISPLACED, where, f"{a} ↔ {b} is planned; found {' and '.join(found)}",
                                 {"line": self._line(row)}))  # fmt: skip
        else:
            self._add("missing", row)
            self.findings.append(finding(PLAN_MISSING, where, f"{a} ↔ {b} is planned, no cable is there",
                                 {"line": self._line(row)}))  # fmt: skip

    def _unexpected(self, swapped: set[int]) -> None:
        view = self.view
        named = np.zeros(len(view.names), bool)
        named[view.fabric.port_node[self.port[self.port >= 0]]] = True
        planned = np.zeros(view.fabric.sizes.ports, bool)
        planned[self.port[self.port >= 0]] = True
        free = ~planned[view.port_a] & ~planned[view.port_b] & named[view.node_a] & named[view.node_b]
        rows = np.flatnonzero(free & ~view.is_sharp[view.node_a] & ~view.is_sharp[view.node_b])
        for row in rows.tolist():
            a, b = int(view.port_a[row]), int(view.port_b[row])
            pair = (str(view.place(a)), str(view.place(b)))
            self.table.append(PlannedCable("unexpected", 0, ("", ""), pair))
            if len(rows) <= MANY:
                self.findings.append(finding(PLAN_UNEXPECTED, [view.place(a), view.place(b)],
                                             f"{view.link_name(a, b)} is in no row of the plan"))  # fmt: skip
        if len(rows) > MANY:
            first = int(rows[0])
            where = [view.place(int(view.port_a[first])), view.place(int(view.port_b[first]))]
            self.findings.append(finding(PLAN_UNEXPECTED, where, f"{len(rows)} cables between planned nodes are in no row of "
                                 f"the plan, {where[0]} ↔ {where[1]} the first", {"cables": len(rows)}))  # fmt: skip


def compare(fabric: Fabric, plan: CablingPlan) -> PlanComparison:
    """Compare ``fabric`` with ``plan``: findings, one table line a cable, and counts by :data:`STATUSES`."""
    view = FabricView(fabric)
    matched = match_plan(plan, fabric)
    work = _Comparison(view, plan, matched)
    work.run()
    counts = Counter(t.status for t in work.table)
    problems = [*plan.problems, *matched.problems]
    return PlanComparison(work.findings, work.table, {s: counts[s] for s in STATUSES}, problems)
