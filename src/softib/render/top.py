"""The screen of ``softib top``: a fabric in the last interval."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from softib.analysis.jobs.files import ScheduledJob
from softib.foreign_text import shown
from softib.monitor.ranking import ORDERS, JobRow, PortRow, job_rows, ranked
from softib.monitor.watch import Watch
from softib.plural import counted
from softib.result import Result

__all__ = ["VIEWS", "Top", "top_figures", "top_screen"]

TITLES = {"busy": "busiest ports", "waiting": "most waiting ports", "errors": "erring ports", "jobs": "jobs"}
VIEWS = (*ORDERS, "jobs")
NARROW = 90
"""On terminals with fewer columns than this, the table leaves out the peers of cables and the received data."""
FRAME = 7
"""Number of lines of the screen other than ports: header, manager, title, head of the table, help."""
SHORT = {
    "symbol_error_counter": "symbol",
    "link_error_recovery_counter": "recovery",
    "link_downed_counter": "down",
    "port_rcv_errors": "rcv",
    "port_rcv_remote_physical_errors": "remote",
    "port_xmit_discards": "discard",
    "port_xmit_constraint_errors": "xmit-constraint",
    "port_rcv_constraint_errors": "rcv-constraint",
    "local_link_integrity_errors": "integrity",
    "excessive_buffer_overrun_errors": "overrun",
    "vl15_dropped": "vl15",
    "port_fec_uncorrectable_block_ctr": "fec-lost",
}


def top_screen(
    watch: Watch,
    order: str = "busy",
    lines: int = 24,
    width: int = 120,
    jobs: Sequence[ScheduledJob] | None = None,
    problem: str = "",
    problem_s: float = 0.0,
) -> RenderableType:
    """Return one screen of ``lines`` lines and ``width`` columns, ports by ``order``, or the ``jobs``. ``problem``:
    the reason why the last round failed; the data on the screen is then ``problem_s`` seconds old."""
    one = watch.round
    if one is None:
        return _line("reading the first round …")
    head = (
        f"{watch.opened.name}: {int(one.reading.answered.sum())} of {counted(len(one.reading), 'port')} read in "
        f"{one.duration_s:.2f} s, {counted(one.mads, 'MAD')}, {counted(len(one.silent), 'device')} silent"
    )
    if problem:
        top = _line(f"{problem}; the data shown is {problem_s:.0f} s old", "bold red")
    else:
        top = _line(head)
    keys = "  ".join(f"{o[0]} {TITLES[o].removesuffix(' ports')}" for o in VIEWS)
    return Group(
        top,
        _manager(watch),
        Panel(_body(watch, order, max(1, lines - FRAME), width, jobs), title=TITLES[order], padding=(0, 1)),
        _line(f"q quit  {keys}", "dim"),
    )


@dataclass
class TopManager(Result):
    """A subnet manager."""

    guid: str
    state: str
    priority: int
    answers: bool
    stalled: bool


@dataclass
class Top(Result):
    """The last interval of a fabric."""

    document = "top"

    source: str
    order: Literal["busy", "waiting", "errors", "jobs"]
    round_s: float
    mads: int
    ports_read: int
    ports_answered: int
    silent: int
    """Number of devices that did not answer."""
    ports: list[PortRow]
    """Every active port, by ``order`` (for jobs: busy ports first)."""
    jobs: list[JobRow] | None
    """Activity of each job's hosts; null without --jobs."""
    managers: list[TopManager]


def top_figures(watch: Watch, source: str, order: Any, jobs: Sequence[ScheduledJob] | None) -> Top:
    """Return the last interval, ports by ``order``."""
    one, interval = watch.round, watch.interval
    assert one is not None
    if interval is not None and len(interval.guid) != len(one.targets.ports):
        interval = None  # the fabric has changed since
    by = order if order in ORDERS else ORDERS[0]
    return Top(
        source=source,
        order=order,
        round_s=one.duration_s,
        mads=one.mads,
        ports_read=len(one.reading),
        ports_answered=int(one.reading.answered.sum()),
        silent=len(one.silent),
        ports=[] if interval is None else ranked(one.targets.ports, interval, by, len(one.targets.ports)),
        jobs=None if jobs is None else [] if interval is None else job_rows(one.targets.ports, interval, jobs),
        managers=[
            TopManager(f"{m.guid:#018x}", m.state, m.priority, m.answers, m.stalled)
            for m in watch.manager.managers.values()
        ],
    )


def _line(text: str, style: str = "") -> Text:
    return Text(shown(text), style=style, no_wrap=True, overflow="ellipsis")


def _body(watch: Watch, order: str, most: int, width: int, jobs: Sequence[ScheduledJob] | None) -> RenderableType:
    one, interval = watch.round, watch.interval
    assert one is not None
    if order == "jobs" and jobs is None:
        return _line("no jobs are known: --jobs FILE")
    if interval is None:
        return _line("one more round, and rates are known")
    if len(interval.guid) != len(one.targets.ports):
        return _line("the fabric has changed; one more round, and rates are known")
    if order == "jobs":
        return _job_table(job_rows(one.targets.ports, interval, jobs or ())[:most], width)
    return _table(ranked(one.targets.ports, interval, order, most), order, width)


def _manager(watch: Watch) -> Text:
    reported = watch.manager.reported.get("sm", {})
    parts = []
    for m in watch.manager.managers.values():
        state = "does not answer" if not m.answers else "STALLED" if m.stalled else m.state
        parts.append(f"{m.guid:#018x} {state}, priority {m.priority}")
    text = "; ".join(parts) or "none seen"
    if "sweeps" in reported:
        text += f"; {counted(reported['sweeps'], 'sweep')}, the last in {sum(watch.manager.sweep_s.values()):.2f} s"
    return _line(
        f"subnet manager: {text}", "bold red" if not parts or "STALLED" in text or "not answer" in text else ""
    )


def _table(rows: list[PortRow], order: str, width: int) -> RenderableType:
    if not rows:
        return _line(
            {"busy": "nothing is sent", "waiting": "nothing waits", "errors": "no error counter increased"}[order]
        )
    wide = width >= NARROW
    table = _empty(
        ("port", "to", "sent Gb/s", "received", "load", "waits", "errors")
        if wide
        else ("port", "sent Gb/s", "load", "waits", "errors")
    )
    for r in rows:
        errors = " ".join(f"{SHORT[name]}+{n}" for name, n in r.errors)
        sent, shares = f"{r.sent_gbps:.2f}", (f"{r.utilization:.0%}", f"{r.waiting:.0%}")
        last = Text(errors, style="red" if errors else "")
        if wide:
            table.add_row(Text(r.name), Text(r.peer), sent, f"{r.received_gbps:.2f}", *shares, last)
        else:
            table.add_row(Text(r.name), sent, *shares, last)
    return table


def _job_table(rows: list[JobRow], width: int) -> RenderableType:
    if not rows:
        return _line("no job runs")
    wide = width >= NARROW
    table = _empty(
        ("job", "hosts", "sent Gb/s", "received", "waits", "errors")
        if wide
        else ("job", "hosts", "sent Gb/s", "errors")
    )
    for r in rows:
        hosts = str(r.hosts) if r.seen == r.hosts else f"{r.seen} of {r.hosts}"
        last = Text(str(r.errors), style="red" if r.errors else "")
        middle = (f"{r.received_gbps:.2f}", f"{r.waiting:.0%}") if wide else ()
        table.add_row(Text(r.name), hosts, f"{r.sent_gbps:.2f}", *middle, last)
    return table


def _empty(columns: tuple[str, ...]) -> Table:
    table = Table(box=None, expand=True, pad_edge=False)
    for name in columns:
        left = name in ("port", "to", "job", "errors")
        table.add_column(name, justify="left" if left else "right", no_wrap=True)
    return table
