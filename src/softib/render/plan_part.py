"""What became of a cabling plan, in few lines: rows, statuses, reasons, and the nodes with most to
mend."""

from __future__ import annotations

from collections import Counter

from softib.diags.cabling_plan.plan_on_fabric import PlanComparison
from softib.foreign_text import shown
from softib.plural import counted
from softib.render.phrases import percent

__all__ = ["plan_facts"]

TO_MEND = ("swapped", "misplaced", "missing")
"""Statuses for which somebody has to go to the rack."""
WORST = 5
NAMES = {
    "matched": "as planned",
    "swapped": "swapped",
    "misplaced": "misplaced",
    "missing": "missing",
    "wrong-speed": "slower than planned",
    "wrong-length": "of another length",
    "conflict": "rows in conflict",
    "unmatched": "not found by name",
    "unexpected": "in no row of the plan",
}


def plan_facts(found: PlanComparison | None) -> list[tuple[str, str]]:
    """(name, value) pairs for people: counts by status and reason, then the nodes with most cables
    to mend."""
    if found is None:
        return []
    facts = [("rows", _rows_text(found))]
    for status, name in NAMES.items():
        if n := found.counts[status]:
            notes = _notes(found, status)
            facts.append((name, f"{n:,}{f'  {notes}' if notes else ''}"))
    per_node = Counter(node for t in found.table if t.status in TO_MEND for node in set(t.nodes))
    worst = sorted(((n, node) for node, n in per_node.items() if n > 1), key=lambda x: (-x[0], x[1]))[:WORST]
    if worst:
        facts.append(("most to mend at", ", ".join(f"{shown(node)} ({n:,})" for n, node in worst)))
    return facts


def _rows_text(found: PlanComparison) -> str:
    rows, repeated, mirrored = (found.rows[k] for k in ("all", "repeated", "mirrored"))
    files = f" in {counted(len(found.files), 'file')}" if len(found.files) > 1 else ""
    text = f"{rows:,}{files}, of {counted(found.planned, 'cable')}"
    if not repeated:
        return text
    how = "from its other end" if mirrored == repeated else f"{mirrored:,} from its other end" if mirrored else "again"
    return f"{text}; {counted(repeated, 'row')} repeat a cable" + (f" ({how})" if mirrored else "")


def _notes(found: PlanComparison, status: str) -> str:
    if status == "matched":
        return percent(found.counts[status] / max(1, found.planned))
    if status == "unmatched":
        return ", ".join(f"{n:,} {reason}" for reason, n in found.reasons.items())
    if status == "unexpected":
        unnamed = sum(1 for t in found.table if t.status == status and t.note)
        return f"{unnamed:,} lead to adapters without a name" if unnamed else ""
    return ""
