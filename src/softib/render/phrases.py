"""Sentences and figures of the report, for the terminal and the page."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from softib.analysis.model import Made, Report, RoutingPart
from softib.diags.finding import Severity
from softib.diags.view import gbps_text
from softib.plural import counted, plural

if TYPE_CHECKING:
    from datetime import datetime

    from softib.analysis.prediction import Prediction
from collections import Counter

from softib.diags.cabling_plan.plan_on_fabric import PlanComparison
from softib.foreign_text import shown

__all__ = [
    "Tile",
    "bytes_text",
    "engine_hint",
    "headline",
    "made",
    "percent",
    "plan_facts",
    "routing_remarks",
    "size_text",
    "tiles",
    "time_text",
]


TO_MEND = ("swapped", "misplaced", "missing")
"""Statuses of cables that require work at the rack."""
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


def plan_facts(comparison: PlanComparison | None) -> list[tuple[str, str]]:
    """Return (name, value) pairs: the number of cables for each status and reason, then the nodes with the most cables
    to fix."""
    if comparison is None:
        return []
    facts = [("rows", _rows_text(comparison))]
    for status, name in NAMES.items():
        if n := comparison.counts[status]:
            notes = _notes(comparison, status)
            facts.append((name, f"{n:,}{f'  {notes}' if notes else ''}"))
    per_node = Counter(node for t in comparison.table if t.status in TO_MEND for node in set(t.nodes))
    worst = sorted(((n, node) for node, n in per_node.items() if n > 1), key=lambda x: (-x[0], x[1]))[:WORST]
    if worst:
        facts.append(("most to fix at", ", ".join(f"{shown(node)} ({n:,})" for n, node in worst)))
    return facts


def _rows_text(comparison: PlanComparison) -> str:
    rows, repeated, mirrored = (comparison.rows[k] for k in ("all", "repeated", "mirrored"))
    text = f"{rows:,}{_files_text(comparison.files)}, of {counted(comparison.planned, 'cable')}"
    if not repeated:
        return text
    how = "from its other end" if mirrored == repeated else f"{mirrored:,} from its other end" if mirrored else "again"
    text += f"; {counted(repeated, 'row')} {plural(repeated, 'repeats', 'repeat')} a cable"
    return text + (f" ({how})" if mirrored else "")


def _files_text(names: tuple[str, ...]) -> str:
    """Return the number of files, or of the sheets (``plan.xlsx[name]``) of one workbook, as text."""
    files = {name.rpartition("[")[0] if name.endswith("]") else name for name in names}
    if len(names) == 1:
        return ""
    return f" in {counted(len(names), 'sheet') if len(files) == 1 else counted(len(files), 'file')}"


def _notes(comparison: PlanComparison, status: str) -> str:
    if status == "matched":
        return percent(comparison.counts[status] / max(1, comparison.planned))
    if status == "unmatched":
        return ", ".join(f"{n:,} {reason}" for reason, n in comparison.reasons.items())
    if status == "unexpected":
        unnamed = sum(1 for t in comparison.table if t.status == status and t.note)
        return f"{unnamed:,} lead to adapters without a name" if unnamed else ""
    return ""


TABLES_OF = {"as programmed": "by the tables in the switches", "file": "by the tables of the file"}
"""Source of tables that no engine computed for this report → its description."""


@dataclass(frozen=True)
class Tile:
    """One figure at the top of the page; ``tone`` is ``good``, ``warn``, ``bad`` or empty."""

    label: str
    value: str
    note: str
    tone: str = ""
    term: str = ""


def headline(report: Report) -> tuple[str, str]:
    """Return (tone, sentence) of the verdict on the fabric."""
    by = report.by_severity()
    errors, warnings = by[Severity.ERROR], by[Severity.WARNING]
    routing = report.routing
    if routing is not None and not routing.deadlock_free:
        first = "Traffic can deadlock: the forwarding tables contain a credit loop"
        return "bad", f"{first}{_and(errors, warnings)}."
    if errors:
        return "bad", f"{counted(errors, 'error')}{_more(warnings)} to correct before traffic runs here."
    if warnings:
        return "warn", f"Works, with {counted(warnings, 'warning')}."
    none = f"No errors, no warnings{_noted(by[Severity.INFO])}" if report.findings else "No findings"
    if report.problems:
        return "warn", f"{none}, but {counted(len(report.problems), 'record')} could not be used as they are."
    if routing is None:
        return "warn", f"{none}, but the fabric could not be brought up; see the notes."
    if routing.unreachable:
        return "warn", f"{none}, but {counted(routing.unreachable, 'pair')} of ports cannot reach each other."
    if remarks := routing_remarks(routing):
        return "warn", f"{none}: every pair of hosts arrives, but {'; '.join(remarks)}."
    return "good", f"{none}: every pair of hosts arrives, and no credit loop can form."


def routing_remarks(part: RoutingPart) -> list[str]:
    """Return remarks on tables that deliver the packets of all CAs without a credit loop, but have other limits."""
    remarks = []
    if n := part.switch_unreachable:
        remarks.append(f"{counted(n, 'pair')} from a switch {plural(n, 'has', 'have')} no path")
    if part.answer_loop:
        remarks.append("a credit loop can form with answers on the SL of the request")
    if part.switch_loop:
        remarks.append("a credit loop can form with packets from and to switches")
    return remarks


def _noted(infos: int) -> str:
    return f", {counted(infos, 'remark')}"


def _and(errors: int, warnings: int) -> str:
    return f"; {counted(errors, 'error')}{_more(warnings)} in all" if errors or warnings else ""


def _more(warnings: int) -> str:
    return f" and {counted(warnings, 'warning')}" if warnings else ""


def tiles(report: Report) -> list[Tile]:
    """Return the figures at the top of the page."""
    c = report.counts
    out = [
        Tile("Switches", _number(c.switches), "", term="switch"),
        Tile("Channel adapters", _number(c.cas), f"{c.sharp_nodes} of them SHARP" if c.sharp_nodes else "", term="CA"),
        Tile("Links", _number(c.links), f"{c.system_links:,} between systems" if c.system_links is not None else ""),
    ]
    if report.routing is not None:
        r = report.routing
        lost, absent = r.unreachable, r.ports_without_lid
        note = TABLES_OF.get(r.engine) or f"routed by {r.tables}"
        if absent:
            note = f"of the ports that have a LID; {absent:,} cabled host ports have none; {note}"
        if r.other_subnets:
            note = f"on one of {len(r.other_subnets) + 1} subnets; {note}"
        if r.switch_unreachable:
            note = f"and {r.switch_unreachable:,} from switches; {note}"
        out.append(Tile("Pairs without a path", f"{lost:,}", note, "bad" if lost or absent else "good"))
        out.append(
            Tile(
                "Credit loops",
                "none" if r.deadlock_free else "yes",
                "" if r.deadlock_free else "deadlock is possible",
                "good" if r.deadlock_free else "bad",
                term="credit loop",
            )
        )
    if report.prediction is not None:
        p = report.prediction
        out.append(
            Tile(
                "Effective bisection",
                percent(p.random_pairs.relative),
                _bisection_note(p),
                term="effective bisection bandwidth",
            )
        )
    return out


def _bisection_note(p: Prediction) -> str:
    """Return the sums of rates from which the percentage is computed. If hosts have different rates, the ratio of the
    sums differs from the percentage, and is included."""
    pairs = p.random_pairs
    of = pairs.gbps / pairs.full_gbps if pairs.full_gbps else 0.0
    of_sums = "" if percent(of) == percent(pairs.relative) else f" ({percent(of)})"
    text = f"mean over random pairs; in sum {gbps_text(pairs.gbps)} of {gbps_text(pairs.full_gbps)}{of_sums}"
    if pairs.limit is None:
        return text
    return f"{text}; by the wiring at most {percent(pairs.limit)}, as about half of these pairs cross no bisection"


def engine_hint(report: Report) -> str:
    """Return a sentence if another engine would carry random pairs at least a fifth faster, otherwise an empty
    text."""
    used = next((r for r in report.engines if r.used), None)
    good = [r for r in report.engines if r.bisection is not None and r.deadlock_free and not r.unreachable]
    if used is None or used.bisection is None or not good:
        return ""
    best = max(good, key=lambda r: r.bisection or 0.0)
    if (best.bisection or 0.0) < 1.2 * used.bisection:
        return ""
    return (
        f"{best.engine} would carry random pairs at {percent(best.bisection or 0.0)} of their links' rate, "
        f"{used.engine} carries them at {percent(used.bisection)}."
    )


def percent(share: float) -> str:
    """Return a share as text, for example ``41.2 %``. A share that would be rounded to zero is ``<0.1 %``."""
    if 0 < share < 0.0005:
        return "<0.1 %"
    return f"{100 * share:.1f} %"


def _number(value: int | None) -> str:
    return "–" if value is None else f"{value:,}"


def time_text(ps: float) -> str:
    """Return picoseconds in a convenient unit."""
    for unit, size in (("s", 1e12), ("ms", 1e9), ("µs", 1e6), ("ns", 1e3)):
        if ps >= size:
            return f"{ps / size:.3g} {unit}" if ps / size < 1000 else f"{ps / size:,.0f} {unit}"
    return f"{ps:.0f} ps"


def size_text(octets: int) -> str:
    """Return a size as text, for example ``1 MiB``."""
    for unit, size in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if octets >= size:
            return f"{octets / size:g} {unit}"
    return f"{octets} B"


def bytes_text(octets: float) -> str:
    """Return a number of bytes as text in powers of ten, for example ``1.5 GB``."""
    for unit, size in (("EB", 1e18), ("PB", 1e15), ("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if octets >= size:
            return f"{octets / size:.3g} {unit}"
    return f"{octets:g} B"


def made(when: datetime, command: str) -> Made:
    """Return time, version and command of a report, for its page."""
    from softib import __version__

    return Made(when.strftime("%Y-%m-%d %H:%M UTC"), __version__, command)
