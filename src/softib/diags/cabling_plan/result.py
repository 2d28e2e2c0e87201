"""What the comparison of a cabling plan with a fabric gives: a line a planned cable, and counts."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from softib.diags.finding import Finding
from softib.result import HIDDEN, Result, also, key

__all__ = ["STATUSES", "PlanComparison", "PlannedCable"]

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
    """A cable of the plan, and what the fabric has in its place."""

    status: str
    """One of :data:`STATUSES`."""
    file: str
    line: int
    """Of the plan file; 0 = none."""
    planned: tuple[str, str]
    """Its ports, ``node[port]``."""
    found: tuple[str, ...]
    """Ports of the fabric."""
    note: str = ""
    reason: str = ""
    """Why an unmatched row is so."""
    also: tuple[str, ...] = ()
    """Rows that repeat the cable."""
    nodes: tuple[str, ...] = field(default=(), metadata=HIDDEN)
    """Those that it is planned at."""


@dataclass
class PlanComparison(Result):
    """What became of the cabling plan: counts, and every cable that is not as planned."""

    files: tuple[str, ...]
    rows: dict[str, int]
    """Rows of the files: ``all``, ``repeated`` (repeat a cable) and ``mirrored`` of those (from its
    other end)."""
    counts: dict[str, int]
    """Cables by status."""
    reasons: dict[str, int]
    """Cables that were not found by name, by why."""
    table: list[PlannedCable] = field(
        metadata=key(json=lambda table: [cable.to_json() for cable in table if cable.status != "matched"])
    )
    findings: list[Finding] = field(metadata=HIDDEN)
    problems: list[Any] = field(metadata=HIDDEN)
    """Of reading the plan."""
    as_planned: frozenset[tuple[int, int]] = field(metadata=HIDDEN)
    """Ports (NodeGUID, portnum) of cables that lead where the plan says."""

    @property
    def ok(self) -> bool:
        """Every cable as planned and no other."""
        return not self.findings

    @property
    @also("cables", before="counts")
    def planned(self) -> int:
        """Cables that the plan has."""
        return sum(n for status, n in self.counts.items() if status != "unexpected")
