"""Compares a cabling plan with a fabric, cable by cable.

Every cable of the plan gets one status; rows that tell it again (from its other end, or in another file) count once:

* ``matched`` – the cable joins the two planned ports;
* ``wrong-speed``, ``wrong-length`` – it does, but runs slower than planned, or is of another length;
* ``swapped`` – two planned cables are exchanged at one end: both are found, each in the other's place;
* ``misplaced`` – the planned port holds a cable that leads elsewhere;
* ``missing`` – both planned ports are free;
* ``conflict`` – another row gives one of its ports another far end, and the fabric does not side with this row;
* ``unmatched`` – a name or port of the plan is not in the fabric, for one of :data:`.plan_match.REASONS`.

Cables of the fabric that no row plans are ``unexpected``: between nodes that the plan names, and at a switch where the
plan has most of the cables of that kind (to hosts, to switches), or has most of them at all switches that it names. A
plan of the spine layer says nothing about hosts, and no plan lists the backplane of a director.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from softib.diags.finding import Finding, Severity
from softib.diags.plan_rows import PlanRows
from softib.diags.registry import code, finding
from softib.diags.view import FabricView, speed_text
from softib.fabric.formats.cabling.match import REASONS, UNKNOWN_DEVICE, UNNAMED_ADAPTER, is_unnamed, match_plan
from softib.fabric.formats.cabling.node_address import address_of
from softib.fabric.formats.cabling.plan import CablingPlan
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
PLAN_CONFLICT = code(
    "plan-conflicting-rows", Severity.WARNING, "two rows of the plan cable one port to different places",
    "correct the plan; where the fabric agrees with one of the rows, it is named")  # fmt: skip
PLAN_UNMATCHED = code(
    "plan-unmatched-row", Severity.WARNING, "a row of the plan names a node or port that the fabric does not have",
    "correct the name in the plan, or give a node-name-map")  # fmt: skip

STATUSES = (
    "matched", "swapped", "misplaced", "missing", "wrong-speed", "wrong-length", "conflict", "unmatched", "unexpected",
)  # fmt: skip
LENGTH_TOLERANCE = 0.25
"""Share of the planned length (at least 1 m) by which a cable may differ."""
MANY = 32
"""Devices with rows that do not match, and unexpected cables, beyond this many are one finding."""
MANY_AT_NODE = 8
"""More missing cables than this at one node are one finding: the node is off, or not yet cabled."""
MOST = 0.5
"""A plan with more than this share of the cables of one kind plans all of them."""


@dataclass(frozen=True)
class PlannedCable:
    """One line of the table. ``line`` of the plan file (0 = none); ``planned`` and ``found`` are pairs of ``node[port]``.

    ``reason`` says why an unmatched row is so; ``also`` are the rows that repeat the cable.
    """

    status: str
    line: int
    planned: tuple[str, str]
    found: tuple[str, ...]
    note: str = ""
    file: str = ""
    reason: str = ""
    also: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """As ``--json`` prints it."""
        return {"status": self.status, "file": self.file, "line": self.line, "planned": list(self.planned),
                "found": list(self.found), "note": self.note, "reason": self.reason, "also": list(self.also)}  # fmt: skip


@dataclass
class PlanComparison:
    """``findings``, the whole ``table``, and how many cables have each status.

    ``rows`` counts the rows of the files: ``all``, ``repeated`` (repeat a cable) and ``mirrored`` of those (from its
    other end). ``reasons`` counts the unmatched cables. ``problems`` are of reading the plan.
    """

    findings: list[Finding]
    table: list[PlannedCable]
    counts: dict[str, int]
    problems: list[Any] = field(default_factory=list)
    files: tuple[str, ...] = ()
    rows: dict[str, int] = field(default_factory=dict)
    reasons: dict[str, int] = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        """Every cable as planned and no other."""
        return not self.findings

    @property
    def planned(self) -> int:
        """Cables that the plan has."""
        return sum(n for status, n in self.counts.items() if status != "unexpected")

    def to_json(self) -> dict[str, Any]:
        """As ``--json`` prints it: counts, and every cable that is not as planned."""
        return {
            "files": list(self.files), "rows": self.rows, "cables": self.planned, "counts": self.counts,
            "reasons": self.reasons, "table": [t.to_json() for t in self.table if t.status != "matched"],
        }  # fmt: skip


class _Comparison:
    def __init__(self, view: FabricView, plan: CablingPlan):
        self.view, self.plan = view, plan
        self.matched = match_plan(plan, view.fabric)
        self.port = self.matched.port.astype(np.int64)
        self.peer = np.where(self.port >= 0, view.fabric.port_peer[np.maximum(self.port, 0)], -1)
        self.rows = PlanRows(plan, self.port)
        self.table: list[PlannedCable] = []
        self.findings: list[Finding] = []

    def run(self) -> None:
        """Fill table and findings."""
        rows = self.rows
        whole = (self.port >= 0).all(axis=1)
        right = whole & (self.peer[:, 0] == self.port[:, 1]) & (self.port[:, 0] != self.port[:, 1])
        for row in np.flatnonzero(right & rows.first).tolist():
            self._right(row)
        against = rows.conflicting & ~right
        wrong = np.flatnonzero(whole & ~right & rows.first & ~against).tolist()
        swapped = self._swaps(wrong)
        self._wrong([row for row in wrong if row not in swapped])
        self._conflicts(np.flatnonzero(against & rows.first).tolist(), right)
        self._unmatched(np.flatnonzero(~whole & rows.first & ~against).tolist())
        self._unexpected()

    # -- words --

    def _names(self, row: int) -> tuple[str, str]:
        a, b = (self._name(row, end) for end in (0, 1))
        return a, b

    def _name(self, row: int, end: int) -> str:
        port = int(self.port[row, end])
        return str(self.view.location(port)) if port >= 0 else self.plan.end_name(row, end)

    def _locations(self, rows: Iterable[int]) -> list[Any]:
        return [self.view.location(int(p)) for r in rows for p in self.port[r] if p >= 0]

    def _found(self, row: int) -> tuple[str, ...]:
        """What the planned ports really lead to."""
        out = []
        for end in (0, 1):
            peer_port = int(self.peer[row, end])
            if peer_port >= 0:
                out.append(f"{self._name(row, end)} ↔ {self.view.location(peer_port)}")
        return tuple(out)

    def _evidence(self, row: int) -> dict[str, Any]:
        evidence = {"line": int(self.plan.line[row])}
        return {"file": self.plan.files[int(self.plan.file[row])], **evidence} if len(self.plan.files) > 1 else evidence

    def _add(self, status: str, row: int, note: str = "", reason: str = "") -> None:
        found = self._names(row) if status in ("matched", "wrong-speed", "wrong-length") else self._found(row)
        self.table.append(PlannedCable(
            status, int(self.plan.line[row]), self._names(row), found, note, self.plan.files[int(self.plan.file[row])],
            reason, tuple(self.plan.row_name(r) for r in self.rows.repeats.get(row, ())),
        ))  # fmt: skip

    # -- cables that are there --

    def _right(self, row: int) -> None:
        note = self._speed_note(row)
        status = "wrong-speed" if note else "matched"
        if not note:
            note = self._length_note(row)
            status = "wrong-length" if note else "matched"
        self._add(status, row, note)
        if note:
            a, b = self.port[row].tolist()
            self.findings.append(finding(PLAN_SPEED if status == "wrong-speed" else PLAN_LENGTH, self._locations([row]),
                                 f"{self.view.link_name(a, b)}: {note}", self._evidence(row)))  # fmt: skip

    def _speed_note(self, row: int) -> str:
        view = self.view
        a, b = int(self.port[row, 0]), int(self.port[row, 1])
        planned, lanes = self.rows.value(row, "speed"), self.rows.value(row, "lanes")
        if "speeds" not in view.records or not planned:
            return ""
        speed, width = min(int(view.speed[a]), int(view.speed[b])), min(int(view.lanes[a]), int(view.lanes[b]))
        if speed >= planned and (width >= lanes or not lanes):
            return ""
        return f"runs at {speed_text(speed, width)}, planned {speed_text(planned, lanes or 4)}"

    def _length_note(self, row: int) -> str:
        planned = self.rows.length(row)
        found = float(self.view.fabric.cable_length_m[self.view.fabric.port_cable[self.port[row, 0]]])
        if not (planned > 0 and found > 0) or abs(found - planned) <= max(1.0, LENGTH_TOLERANCE * planned):
            return ""
        return f"is {found:g} m long, planned {planned:g} m"

    # -- cables that lead elsewhere --

    def _swaps(self, wrong: list[int]) -> set[int]:
        """Pairs of wrong rows of which each holds an end of the other."""
        done: set[int] = set()
        waiting = {int(p): row for row in wrong for p in self.port[row]}
        for row in wrong:
            if row in done:
                continue
            for end in (0, 1):
                peer_port = int(self.peer[row, end])
                other = waiting.get(peer_port, -1)
                if other >= 0 and other not in done and other != row and self._exchanged(row, end, other, peer_port):
                    self._swap(row, other)
                    done.update((row, other))
                    break
        return done

    def _exchanged(self, row: int, end: int, other: int, peer_port: int) -> bool:
        """``row``'s port ``end`` is cabled to a port of ``other``; are the two left-over ports cabled to each other?"""
        rest = int(self.port[row, 1 - end])
        other_end = int(self.port[other, 0] if self.port[other, 1] == peer_port else self.port[other, 1])
        return int(self.view.fabric.port_peer[rest]) == other_end

    def _swap(self, row: int, other: int) -> None:
        for r, o in ((row, other), (other, row)):
            name = self.plan.row_name(o)
            self._add("swapped", r, f"with plan {name}" if name else "")
        a, b = self._names(row)
        c, d = self._names(other)
        self.findings.append(finding(PLAN_SWAPPED, self._locations((row, other)), f"{a} ↔ {b} and {c} ↔ {d} of the plan are "
                             f"swapped: found {' and '.join(self._found(row))}",
                             {"lines": [int(self.plan.line[r]) for r in (row, other)]}))  # fmt: skip

    def _wrong(self, rows: list[int]) -> None:
        missing = []
        for row in rows:
            found = self._found(row)
            if not found:
                missing.append(row)
                continue
            a, b = self._names(row)
            self._add("misplaced", row)
            self.findings.append(finding(PLAN_MISPLACED, self._locations([row]), f"{a} ↔ {b} is planned; found "
                                 f"{' and '.join(found)}", self._evidence(row)))  # fmt: skip
        for row in missing:
            self._add("missing", row)
        self._missing(missing)

    def _missing(self, rows: list[int]) -> None:
        """One finding a cable, but for a node that misses many."""
        node = self.matched.node
        planned = Counter(node[self.rows.first].ravel().tolist())
        per_node = Counter(int(n) for row in rows for n in set(node[row].tolist()))
        left = rows
        for n in [n for n, count in per_node.most_common() if count > MANY_AT_NODE]:
            at_node = [row for row in left if n in node[row]]
            if len(at_node) <= MANY_AT_NODE:
                continue
            left = [row for row in left if n not in node[row]]
            share = "none" if len(at_node) == planned[n] else f"{planned[n] - len(at_node)}"
            there = "is there" if share in ("none", "1") else "are there"
            self.findings.append(finding(PLAN_MISSING, [self.view.node_location(n)], f"{self.view.display_names[n]}: {share} of its "
                                 f"{planned[n]} planned cables {there}",
                                 {"missing": len(at_node), "planned": planned[n], "lines": [int(self.plan.line[r]) for r in at_node]}))  # fmt: skip
        for row in left:
            a, b = self._names(row)
            self.findings.append(finding(PLAN_MISSING, self._locations([row]), f"{a} ↔ {b} is planned, no cable is there",
                                 self._evidence(row)))  # fmt: skip

    # -- rows that tell nothing of the fabric --

    def _conflicts(self, rows: list[int], right: np.ndarray) -> None:
        for row in rows:
            a, b = self._names(row)
            others = self.rows.rivals(row)
            row_name = self.plan.row_name(row)
            sides = [o for o in others if right[o]]
            if not others:
                note = f"both ends are {a}: a cable has two ends"
            else:
                o = (sides or others)[0]
                c, d = self._names(o)
                name = self.plan.row_name(o)
                note = f"{name} has {c} ↔ {d}" + (", and so has the fabric" if sides else "")
            self._add("conflict", row, note)
            self.findings.append(finding(PLAN_CONFLICT, self._locations([row]), f"plan {row_name}: {a} ↔ {b}, but {note}",
                                 {**self._evidence(row), "rivals": [self.plan.row_name(o) for o in others]}))  # fmt: skip

    def _unmatched(self, rows: list[int]) -> None:
        """One finding a device that rows name in vain; many are one finding a reason."""
        by_reason: dict[str, dict[str, list[tuple[int, int]]]] = {}
        for row in rows:
            worst, end = min((REASONS.index(self.matched.reason[row, e]), e) for e in (0, 1) if self.port[row, e] < 0)
            reason = REASONS[worst]
            self._add("unmatched", row, self.matched.why.get((row, end), ""), reason)
            device = str(self.plan.node[row, end]) if reason != UNNAMED_ADAPTER else ""
            by_reason.setdefault(reason, {}).setdefault(device, []).append((row, end))
        for reason in REASONS:
            self._unmatched_for(reason, by_reason.get(reason, {}))

    def _unmatched_for(self, reason: str, devices: dict[str, list[tuple[int, int]]]) -> None:
        total = sum(map(len, devices.values()))
        if len(devices) > MANY:
            shown = ", ".join(list(devices)[:3])
            self.findings.append(finding(PLAN_UNMATCHED, [], f"{total} cables of the plan: {reason}; {len(devices)} devices: "
                                 f"{shown}, …", {"reason": reason, "cables": total, "devices": len(devices)}))  # fmt: skip
            return
        for ends in devices.values():
            row, end = ends[0]
            more = f" (and {len(ends) - 1} more cables)" if len(ends) > 1 else ""
            why = self.matched.why.get((row, end), reason)
            text = why if reason == UNKNOWN_DEVICE else f"{self.plan.end_name(row, end)}: {why}"
            name = self.plan.row_name(row)
            self.findings.append(finding(PLAN_UNMATCHED, self._locations([row]), f"plan {name}: {text}{more}" if name else text + more,
                                 {**self._evidence(row), "reason": reason, "cables": len(ends),
                                  "lines": [int(self.plan.line[r]) for r, _ in ends]}))  # fmt: skip

    # -- cables that no row has --

    def _unexpected(self) -> None:
        view = self.view
        rows = np.flatnonzero(self._unplanned())
        kinds = Counter(view.names)
        unnamed = 0
        for row in rows.tolist():
            a, b = int(view.port_a[row]), int(view.port_b[row])
            host = next((n for n in (int(view.node_a[row]), int(view.node_b[row])) if view.is_host[n]), -1)
            nameless = host >= 0 and is_unnamed(view.names[host], kinds[view.names[host]])
            unnamed += nameless
            note = UNNAMED_ADAPTER if nameless else ""
            self.table.append(
                PlannedCable("unexpected", 0, ("", ""), (str(view.location(a)), str(view.location(b))), note)
            )
            if len(rows) <= MANY:
                self.findings.append(finding(PLAN_UNEXPECTED, [view.location(a), view.location(b)],
                                             f"{view.link_name(a, b)} is in no row of the plan"))  # fmt: skip
        if len(rows) > MANY:
            first = int(rows[0])
            where = [view.location(int(view.port_a[first])), view.location(int(view.port_b[first]))]
            more = f"; {unnamed} of them lead to adapters without a name" if unnamed else ""
            self.findings.append(finding(PLAN_UNEXPECTED, where, f"{len(rows)} cables between planned nodes are in no row of "
                                 f"the plan, {where[0]} ↔ {where[1]} the first{more}",
                                 {"cables": len(rows), "unnamed_adapters": unnamed}))  # fmt: skip

    def _unplanned(self) -> np.ndarray:
        """bool[cables of the view]: no row uses their ports, and the plan should have them."""
        view, nodes = self.view, len(self.view.names)
        used = np.zeros(view.fabric.sizes.ports, bool)
        used[self.port[self.port >= 0]] = True
        named = np.zeros(nodes, bool)
        named[view.fabric.port_node[used]] = True
        a, b = view.node_a, view.node_b
        outside = ~view.is_sharp[a] & ~view.is_sharp[b] & ~self._inside_a_chassis()
        free = outside & ~used[view.port_a] & ~used[view.port_b]
        # Each cable from both of its ends; of a switch, cables to hosts and cables to switches are two kinds.
        node, peer = np.concatenate([a, b]), np.concatenate([b, a])
        of_switch = np.tile(outside, 2) & view.is_switch[node]
        kind = node.astype(np.int64) * 2 + view.is_host[peer]
        planned = of_switch & used[np.concatenate([view.port_a, view.port_b])]
        everything, listed = (np.bincount(kind[x], minlength=2 * nodes) for x in (of_switch, planned))
        most = listed > MOST * everything
        for to_host in (0, 1):
            all_named = np.flatnonzero(named) * 2 + to_host
            if listed[all_named].sum() > MOST * everything[all_named].sum():
                most[all_named] = True
        covered = of_switch & most[kind]
        return np.asarray(free & ((named[a] & named[b]) | covered.reshape(2, -1).any(axis=0)))

    def _inside_a_chassis(self) -> np.ndarray:
        """bool[cables]: between two chips of one director, which nobody cables."""
        view = self.view
        at = [address_of(name) if view.is_switch[n] else None for n, name in enumerate(view.names)]
        system: dict[str, int] = {}
        chassis = np.array(
            [-1 if x is None or not x.card else system.setdefault(x.system, len(system)) for x in at], np.int64
        )
        a, b = view.node_a, view.node_b
        return np.asarray((chassis[a] >= 0) & (chassis[a] == chassis[b]))


def compare(fabric: Fabric, plan: CablingPlan) -> PlanComparison:
    """Compare ``fabric`` with ``plan``: findings, one table line a cable, and counts by :data:`STATUSES`."""
    work = _Comparison(FabricView(fabric), plan)
    work.run()
    counts = Counter(t.status for t in work.table)
    reasons = Counter(t.reason for t in work.table)
    return PlanComparison(
        work.findings, work.table, {s: counts[s] for s in STATUSES}, work.rows.other_problems(), plan.files,
        {"all": len(plan), "repeated": work.rows.repeated, "mirrored": work.rows.mirrored},
        {r: reasons[r] for r in REASONS if reasons[r]},
    )  # fmt: skip
