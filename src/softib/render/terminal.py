"""The report on a terminal: the verdict first, then findings, traffic and routing as tables of at most 80 columns.

Texts from files are printed literally: Rich's markup and control characters, for example in a NodeDescription, have no
effect.
"""

from __future__ import annotations

import os
import re
import sys
from collections import Counter
from typing import TYPE_CHECKING, Any, TextIO, cast

from softib.analysis.model import Report, RoutingPart
from softib.diags.finding import Severity
from softib.foreign_text import shown_lines
from softib.plural import counted, plural
from softib.render.phrases import (
    bytes_text,
    engine_hint,
    headline,
    percent,
    plan_facts,
    routing_remarks,
    size_text,
    tiles,
    time_text,
)

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from softib.analysis.routing import Routed
    from softib.diags.finding import Finding

__all__ = ["console", "print_check", "print_findings", "print_route", "print_routing", "text", "to_terminal"]

STYLE = {Severity.ERROR: "bold red", Severity.WARNING: "yellow", Severity.INFO: "cyan"}
TONE = {"good": "green", "warn": "yellow", "bad": "bold red", "": "bold"}
UNWRAPPED = 10_000
"""Width of lines that are written to a file or a pipe."""
_PADDING = re.compile(r" +$", re.MULTILINE)
SHOWN_FINDINGS = 40
PER_CODE = 8
"""If a code has more findings than this, only the first ones and a count are shown."""


IN_A_MESSAGE = 4
"""Maximum number of locations in the message of a finding; --all lists the others."""


def _engines(report: Report, console: Console) -> None:
    """Print the results of other engines, if they could be better."""
    if not report.engines:
        return
    console.print()
    right = ("random pairs", "shifts", "no path")
    table = _table("engine", "random pairs", "shifts", "credit loop", "no path", right=right)
    for row in report.engines:
        name = text(row.engine, "bold" if row.used else "")
        remarks = ["in use"] if row.used else []
        remarks += [f"as {row.tables}"] if row.tables != row.engine else []
        if remarks:
            name.append(f" ({', '.join(remarks)})")
        if row.bisection is None or row.shift is None:
            table.add_row(name, "–", "–", "–", "refused" if row.tried else "not tried")
            continue
        loop = text("none", "green") if row.deadlock_free else text("yes", "bold red")
        table.add_row(name, percent(row.bisection), percent(row.shift), loop, f"{row.unreachable:,}")
    console.print(text("Routing engines compared", "bold"))
    console.print(table)
    if hint := engine_hint(report):
        console.print(text(hint, "yellow"))
    console.print()


def to_terminal(report: Report, console: Console) -> None:
    """Print the whole report."""
    tone, sentence = headline(report)
    console.print(text(report.name, "bold"), text(f"  {report.source}, read as {report.format}", "dim"))
    console.print(text(sentence, TONE[tone]))
    console.print()
    _tiles(report, console)
    for note in report.notes:
        console.print(text(f"note: {note}", "yellow"))
    _facts("Structure", report.structure.facts() if report.structure else [], console)
    if report.bring_up is not None:
        notes = [("note", n) for n in report.bring_up.notes if report.routing is None or n not in report.routing.notes]
        _facts("Subnet manager", report.bring_up.facts() + notes, console)
    _facts("Cabling plan", plan_facts(report.comparison), console)
    print_findings(report, console)
    if report.routing is not None:
        print_routing(report.routing, console)
    _traffic(report, console)
    _user_traffic(report, console)


def print_check(report: Report, console: Console, every: bool = False) -> None:
    """Print the output of ``softib check``: counts, structure, the checked tables, and findings (all of them with
    ``every``)."""
    c = report.counts
    console.print(text(report.name, "bold"), text(f"  {report.source}, read as {report.format}", "dim"))
    counts = ((c.switches, "switch"), (c.cas, "channel adapter"), (c.links, "link"))
    console.print(text(", ".join(counted(n or 0, noun) for n, noun in counts)))
    for note in report.notes:
        console.print(text(f"note: {note}", "yellow"))
    console.print()
    _facts("Structure", report.structure.facts() if report.structure else [], console)
    if report.routing is not None:
        # Findings about routes concern these tables, which a file of cables does not contain.
        _facts("Routing", [("tables", f"{report.routing.engine_text}; {report.routing.origin}")], console)
    _facts("Cabling plan", plan_facts(report.comparison), console)
    print_findings(report, console, every)


def print_route(tables: Routed, console: Console) -> None:
    """Print the output of ``softib route``: whether the tables deliver all packets without a credit loop, and their
    proof."""
    part = tables.part
    console.print(text(tables.fabric.name or "fabric", "bold"))
    if part.good and (remarks := routing_remarks(part)):
        console.print(text(f"Every CA reaches every CA and switch, but {'; '.join(remarks)}.", "yellow"))
    elif part.good:
        console.print(text("Every CA reaches every CA and switch, and no credit loop can form.", "green"))
    else:
        loop = "a credit loop can form" + (
            " if all paths use one SL" if tables.proof.assumed else ": traffic can deadlock"
        )
        bad = [] if part.deadlock_free else [loop]
        bad += (
            [f"{counted(part.unreachable, 'pair')} {plural(part.unreachable, 'has', 'have')} no path"]
            if part.unreachable
            else []
        )
        if n := part.ports_without_lid:
            bad.append(f"{counted(n, 'cabled host port')} {plural(n, 'has', 'have')} no LID")
        console.print(text("; ".join(bad)[0].upper() + "; ".join(bad)[1:] + ".", "bold red"))
    console.print()
    print_routing(part, console)


def console() -> Console:
    """Return a console on the present stdout, with the width of its terminal (or COLUMNS). Lines to a file or pipe are
    not wrapped."""
    from rich.console import Console

    if sys.stdout.isatty() or os.environ.get("COLUMNS"):
        return Console()
    return Console(file=cast(TextIO, _Unpadded(sys.stdout)), width=UNWRAPPED)


class _Unpadded:
    """A file whose lines are written without the trailing spaces that fill columns."""

    def __init__(self, out: TextIO):
        self._out = out

    def write(self, value: str) -> int:
        self._out.write(_PADDING.sub("", value))
        return len(value)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._out, name)


def text(value: str, style: str = "") -> Text:
    """Return ``value`` as plain text: no markup, no control characters."""
    from rich.text import Text

    return Text(shown_lines(value), style=style)


def _table(*columns: str, right: tuple[str, ...] = ()) -> Table:
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, header_style="dim")
    for name in columns:
        table.add_column(name, justify="right" if name in right else "left", overflow="fold")
    return table


def _tiles(report: Report, console: Console) -> None:
    from rich.table import Table

    grid = Table.grid(padding=(0, 2))
    for t in tiles(report):
        grid.add_row(text(f"  {t.label}", "dim"), text(t.value, TONE[t.tone]), text(t.note, "dim"))
    console.print(grid)
    console.print()


def _facts(title: str, facts: list[tuple[str, str]], console: Console) -> None:
    from rich.table import Table

    if not facts:
        return
    console.print(text(title, "bold"))
    grid = Table.grid(padding=(0, 2))
    for name, value in facts:
        grid.add_row(text(f"  {name}", "dim"), text(value))
    console.print(grid)
    console.print()


def print_findings(report: Report, console: Console, every: bool = False) -> None:
    """Print the findings, worst first; unless ``every`` is set, a large number of one code is shortened to the
    first ones and a count."""
    by = report.by_severity()
    count = ", ".join(counted(n, s.name.lower(), "info" if s is Severity.INFO else "") for s, n in by.items() if n)
    console.print(text("Findings", "bold"), text(f"  {count}" if count else "  none", "dim"))
    if report.findings:
        table = _table("severity", "code", "finding")
        total, seen, shown = Counter(f.code for f in report.findings), Counter[str](), 0
        listed: set[str] = set()
        for f in sorted(report.findings, key=lambda f: -f.severity):
            seen[f.code] += 1
            if not every and (shown >= SHOWN_FINDINGS or seen[f.code] > PER_CODE):
                continue
            shown += 1
            listed.add(f.code)
            line = text(f.message)
            left = total[f.code] - PER_CODE
            if seen[f.code] == PER_CODE and left > 0 and not every:
                line.append_text(text(f"\n… and {left:,} more of {f.code} (softib check --all)", "dim"))
            if every:
                line.append_text(text("".join(f"\n  {row}" for row in _whole(f)), "dim"))
            if f.advice and seen[f.code] == 1:
                line.append_text(text(f"\n{f.advice}", "dim"))
            table.add_row(text(f.severity.name.lower(), STYLE[f.severity]), text(f.code), line)
        console.print(table)
        if hidden := len([c for c in total if c not in listed]):
            console.print(
                text(
                    f"{hidden:,} more kinds of finding are not shown here; softib check --all or --json lists them",
                    "dim",
                )
            )
    console.print()


def _whole(f: Finding) -> list[str]:
    """Return all items of a combined finding, one line each. For other findings, return the locations that the message
    omits."""
    if each := f.evidence.get("each"):
        return [str(one["message"]) for one in each]
    return [", ".join(map(str, f.where))] if len(f.where) > IN_A_MESSAGE else []


def print_routing(r: RoutingPart, console: Console) -> None:
    """Print the proof and quality of forwarding tables."""
    facts = [
        ("tables", f"{r.engine_text}; {r.origin}"),
        ("pairs without a path", f"{r.unreachable:,}"),
        ("pairs in a forwarding loop", f"{r.loops:,}"),
        ("credit loop", "none" if r.deadlock_free else "yes"),
    ]
    if r.switch_unreachable:
        facts.append(("pairs from a switch without a path", f"{r.switch_unreachable:,}"))
    if r.credit_loop:
        facts.append(("the cycle", " → ".join(f"{node}[{port}] VL {vl}" for node, port, vl in r.credit_loop)))
    if r.hops:
        total = sum(r.hops.values())
        facts.append(
            ("hops (switches passed)", ", ".join(f"{h}: {percent(n / total)}" for h, n in sorted(r.hops.items())))
        )
    _facts("Routing", facts + r.facts() + [("note", n) for n in r.notes], console)


def _traffic(report: Report, console: Console) -> None:
    p = report.prediction
    if p is None:
        return
    console.print(text("Predicted traffic", "bold"), text(f"  {counted(p.hosts, 'host port')}", "dim"))
    right = ("mean rate", "worst", "most flows on a link")
    table = _table("pattern", "what it does", *right, right=right)
    for q in p.patterns:
        table.add_row(q.name, text(q.text), percent(q.relative), percent(q.worst), f"{q.most:,.0f}")
    console.print(table)
    _engines(report, console)
    node = f"a node of {counted(p.rails, 'host port')}" if p.rails > 1 else "a host port"
    for name, whose, times in (
        ("ring allreduce", node, p.allreduce_ps),
        ("all-to-all", "a host port", p.all_to_all_ps),
    ):
        shown = ", ".join(f"{size_text(s)} {whose} {time_text(t)}" for s, t in times.items())
        console.print(text(f"ideal {name}: {shown}", "dim"))


def _user_traffic(report: Report, console: Console) -> None:
    """Print the result of the user's own matrix (``--traffic``)."""
    t = report.traffic
    if t is None:
        return
    facts = [
        ("entries", f"{t.entries:,} with bytes, {counted(t.flows, 'flow')} between adapters"),
        ("bytes", bytes_text(t.total_bytes)),
        (
            "least time",
            f"{time_text(t.time_ps)}; the hosts' own links alone: {time_text(t.hosts_ps)} ({percent(t.relative)})",
        ),
    ]
    if t.unrouted:
        facts.append(("without a path", f"{counted(t.unrouted, 'flow')}, which are in no figure"))
    console.print()
    _facts(f"Traffic of {t.path}", facts, console)
    if not t.busiest:
        return
    table = _table("busiest links between switches", "bytes", "time", right=("bytes", "time"))
    for b in t.busiest:
        table.add_row(text(f"{b.place} → {b.peer}"), bytes_text(b.load), time_text(b.load * 8e3 / b.gbps))
    console.print(table)
