"""The report's sentences and figures, the same on a terminal and on a page."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from softib.analysis.model import Made, Report
from softib.diags.finding import Severity
from softib.diags.structure.ranks import TREES, tier_text
from softib.plural import counted

if TYPE_CHECKING:
    from datetime import datetime

    from softib.analysis.prediction import Prediction

__all__ = [
    "Tile",
    "bytes_text",
    "engine_hint",
    "headline",
    "made",
    "percent",
    "size_text",
    "structure_facts",
    "tiles",
    "time_text",
]


TABLES_OF = {"as programmed": "by the tables in the switches", "file": "by the tables of the file"}
"""What is said of tables that no engine made just now."""


@dataclass(frozen=True)
class Tile:
    """One figure at the top: ``tone`` is ``good``, ``warn``, ``bad`` or empty."""

    label: str
    value: str
    note: str
    tone: str = ""
    term: str = ""


def headline(report: Report) -> tuple[str, str]:
    """(tone, sentence): the answer before any detail."""
    by = report.by_severity()
    errors, warnings = by[Severity.ERROR], by[Severity.WARNING]
    routing = report.routing
    if routing is not None and not routing.deadlock_free:
        first = "Traffic can deadlock: the forwarding tables contain a credit loop"
        return "bad", f"{first}{_and(errors, warnings)}."
    if errors:
        return "bad", f"{counted(errors, 'error')}{_more(warnings)} to look at before traffic runs here."
    if warnings:
        return "warn", f"Works, with {counted(warnings, 'warning')}."
    none = f"No errors, no warnings{_noted(by[Severity.INFO])}" if report.findings else "No findings"
    if report.problems:
        return "warn", f"{none}, but {counted(len(report.problems), 'record')} could not be used as they stand."
    if routing is None:
        return "warn", f"{none}, but the fabric could not be brought up; see the notes."
    if routing.unreachable:
        return "warn", f"{none}, but {counted(routing.unreachable, 'pair')} of ports cannot reach each other."
    return "good", f"{none}: every pair of hosts arrives, and no credit loop can form."


def _noted(infos: int) -> str:
    return f", {counted(infos, 'thing')} to know"


def _and(errors: int, warnings: int) -> str:
    return f"; {counted(errors, 'error')}{_more(warnings)} in all" if errors or warnings else ""


def _more(warnings: int) -> str:
    return f" and {counted(warnings, 'warning')}" if warnings else ""


def tiles(report: Report) -> list[Tile]:
    """The figures that everybody wants first."""
    c = report.counts
    out = [
        Tile("Switches", _number(c.switches), "", term="switch"),
        Tile("Channel adapters", _number(c.cas), f"{c.sharp_nodes} of them SHARP" if c.sharp_nodes else "", term="CA"),
        Tile("Links", _number(c.links), f"{c.system_links:,} between systems" if c.system_links is not None else ""),
    ]
    if report.routing is not None:
        r = report.routing
        lost, absent = r.unreachable, r.ports_without_lid
        note = TABLES_OF.get(r.engine) or f"routed by {r.tables or r.engine}"
        if absent:
            note = f"of the ports that have a LID; {absent:,} cabled host ports have none; {note}"
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
                percent(p.bisection_relative),
                _bisection_note(p),
                term="effective bisection bandwidth",
            )
        )
    return out


def _bisection_note(p: Prediction) -> str:
    """The sums that belong to the percentage, with their own percentage where hosts of different
    rates make it another."""
    of = p.bisection_gbps / p.bisection_full_gbps if p.bisection_full_gbps else 0.0
    of_sums = "" if percent(of) == percent(p.bisection_relative) else f" ({percent(of)})"
    text = f"mean over random pairs; in sum {_gbps(p.bisection_gbps)} of {_gbps(p.bisection_full_gbps)}{of_sums}"
    if p.limit is None:
        return text
    return f"{text}; by the wiring at most {percent(p.limit)}, as about half of these pairs cross no bisection"


def structure_facts(structure: dict[str, Any] | None) -> list[tuple[str, str]]:
    """(name, value) rows about the recognised topology (``diags.structure.summary``)."""
    if not structure:
        return []
    s = structure
    facts = [("Topology", s["kind"])]
    if s["tiers"] and s["kind"] in TREES:
        facts.append(("Switches by tier", tier_text(s["tiers"], s["untiered_switches"])))
    for key, label in (("rails", "Rails"), ("units", "Scalable units"), ("groups", "Groups")):
        if s[key]:
            facts.append((label, str(s[key])))
    if s["dims"]:
        facts.append(("Dimensions", " × ".join(map(str, s["dims"]))))
    if s["oversubscription_worst"] is not None:
        facts.append(("Most oversubscribed leaf", f"{s['oversubscription_worst']:g} : 1"))
    if s["bisection_percent"] is not None:
        sums = None if s["bisection_gbps"] is None else (s["bisection_gbps"], s["bisection_full_gbps"])
        sums_text = "" if sums is None else f", {_gbps(sums[0])} of {_gbps(sums[1])}"
        facts.append(("Bisection bandwidth", f"{s['bisection_percent']:.1f} % of full{sums_text}"))
        facts.append(("Bisection found as", s["bisection_how"]))
    if s["narrowest_part"] is not None:
        facts.append(("Narrowest part", _part_text(s["narrowest_part"])))
    return facts + [("Note", note) for note in s["notes"]]


def _part_text(part: dict[str, Any]) -> str:
    """Hosts that can, together, send less to the rest than their links carry."""
    rate_text = "" if part["gbps"] is None else f" ({_gbps(part['gbps'])})"
    hosts = f"{part['hosts']:,} of {counted(part['of'], 'host port')}"
    return (
        f"{part['name']}: {hosts}, which can send {part['percent']:.1f} % of what they could{rate_text} to the others"
    )


def engine_hint(report: Report) -> str:
    """One sentence where another engine would carry random pairs at least a fifth better, else
    empty."""
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
    """``41.2 %``; what would round to nothing is ``<0.1 %``."""
    if 0 < share < 0.0005:
        return "<0.1 %"
    return f"{100 * share:.1f} %"


def _gbps(value: float) -> str:
    return f"{value / 1000:,.1f} Tb/s" if value >= 10_000 else f"{value:,.0f} Gb/s"


def _number(value: int | None) -> str:
    return "–" if value is None else f"{value:,}"


def time_text(ps: float) -> str:
    """Picoseconds in a unit that people read."""
    for unit, size in (("s", 1e12), ("ms", 1e9), ("µs", 1e6), ("ns", 1e3)):
        if ps >= size:
            return f"{ps / size:.3g} {unit}" if ps / size < 1000 else f"{ps / size:,.0f} {unit}"
    return f"{ps:.0f} ps"


def size_text(octets: int) -> str:
    """``1 MiB``."""
    for unit, size in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if octets >= size:
            return f"{octets / size:g} {unit}"
    return f"{octets} B"


def bytes_text(octets: float) -> str:
    """``1.5 GB``: powers of ten, as links count."""
    for unit, size in (("EB", 1e18), ("PB", 1e15), ("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if octets >= size:
            return f"{octets / size:.3g} {unit}"
    return f"{octets:g} B"


def made(when: datetime, command: str) -> Made:
    """When, by which version and by which command a report was made, as its page says it."""
    from softib import __version__

    return Made(when.strftime("%Y-%m-%d %H:%M UTC"), __version__, command)
