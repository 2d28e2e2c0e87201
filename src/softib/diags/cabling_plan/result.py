"""What the comparison of a cabling plan with a fabric gives: a line a planned cable, and counts."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from softib.diags.finding import Finding

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
class PlannedCable:
    """One line of the table. ``line`` of the plan file (0 = none); ``planned`` and ``found`` are
    pairs of ``node[port]``.

    ``reason`` says why an unmatched row is so; ``also`` are the rows that repeat the cable; ``nodes``
    are those that it is planned at.
    """

    status: str
    line: int
    planned: tuple[str, str]
    found: tuple[str, ...]
    note: str = ""
    file: str = ""
    reason: str = ""
    also: tuple[str, ...] = ()
    nodes: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """As ``--json`` prints it."""
        return {
            "status": self.status,
            "file": self.file,
            "line": self.line,
            "planned": list(self.planned),
            "found": list(self.found),
            "note": self.note,
            "reason": self.reason,
            "also": list(self.also),
        }


@dataclass
class PlanComparison:
    """``findings``, the whole ``table``, and how many cables have each status.

    ``rows`` counts the rows of the files: ``all``, ``repeated`` (repeat a cable) and ``mirrored``
    of those (from its other end). ``reasons`` counts the unmatched cables. ``problems`` are of
    reading the plan. ``as_planned`` are the ports (NodeGUID, portnum) of cables that lead where the
    plan says.
    """

    findings: list[Finding]
    table: list[PlannedCable]
    counts: dict[str, int]
    problems: list[Any] = field(default_factory=list)
    files: tuple[str, ...] = ()
    rows: dict[str, int] = field(default_factory=dict)
    reasons: dict[str, int] = field(default_factory=dict)
    as_planned: frozenset[tuple[int, int]] = frozenset()

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
            "files": list(self.files),
            "rows": self.rows,
            "cables": self.planned,
            "counts": self.counts,
            "reasons": self.reasons,
            "table": [t.to_json() for t in self.table if t.status != "matched"],
        }
