"""A comparison of networks as text and as a self-contained page."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from markupsafe import Markup

from softib.foreign_text import shown_lines
from softib.render.charts import bars
from softib.render.phrases import time_text
from softib.render.terminal import text

if TYPE_CHECKING:
    from rich.console import Console

    from softib.analysis.simulation.networks import Network, NetworkComparison

__all__ = ["HEAD", "cells", "completion_bars", "page", "print_comparison"]

HEAD = ("network", "Gb/s", "completion", "ratio", "p50", "p99", "CPU share", "price", "per price", "")
WIDTHS = (14, 7, 12, 8, 12, 12, 10)
"""Number of columns before the prices. On narrow terminals, prices are printed below these columns."""
ETHERNET = {"roce": "RoCE", "tcp": "TCP"}


def cells(row: Network) -> tuple[str, ...]:
    """Return the texts of one network, one for each column of :data:`HEAD`."""
    name, comma, options = row.network.partition(",")
    us = lambda v: "" if v is None else time_text(v * 1e6)
    doubt = "" if row.gbps is None or row.end_agrees else "the packet layer may give a different result: "
    lost = "" if row.gbps is None or row.good else "not every message completed "
    return (
        ETHERNET.get(name, name) + comma + options,
        "" if row.gbps is None else f"{row.gbps:g}",
        us(row.completion_us),
        "" if row.ratio is None else f"{row.ratio:.2f}",
        us(row.p50_us),
        us(row.p99_us),
        "" if row.cpu_share is None else f"{row.cpu_share:.1%}",
        "" if row.price is None else f"{row.price.middle:,.0f}",
        "" if row.per_price is None else f"{row.per_price:.2f}",
        f"{lost}{doubt}{row.why}" if row.gbps is not None else f"not run: {row.why}",
    )


def print_comparison(c: NetworkComparison, console: Console) -> None:
    """Print the figures of :class:`softib.Comparison`."""
    console.print(text(f"{c.workload} on {c.fabric or c.source}", "bold"))
    console.print(text(f"{c.layer} layer, tables: {c.engine}, seed {c.seed}; unchanged network: {c.as_it_is}"))
    console.print()
    rows = [cells(row) for row in c.networks]
    columns = [k for k in range(len(WIDTHS)) if any(row[k] for row in rows)]
    _row(console, columns, HEAD, "bold")
    for shown in rows:
        _row(console, columns, shown)
        if shown[-1]:
            console.print(text(f"  {shown[-1]}", "yellow"))
    _jobs(c, console)
    _prices(c, console)
    console.print()
    for note in c.notes:
        console.print(text(note))


def _row(console: Console, columns: Sequence[int], parts: Sequence[str], style: str = "") -> None:
    console.print(text("".join(f"{parts[k]:{'>' if k else '<'}{WIDTHS[k]}}" for k in columns), style))


def _prices(c: NetworkComparison, console: Console) -> None:
    """Print the price of each network with a known price, and its performance per price if the price of the
    unchanged network is also known."""
    priced = [(row, row.price) for row in c.networks if row.price is not None]
    compared = any(row.per_price is not None for row, _ in priced)
    if priced:
        console.print()
        last = f"{'performance per price':>25}" if compared else ""
        console.print(text(f"{'network':<14}{'price':>14}{'from':>12}{'to':>12}{last}", "bold"))
    for row, price in priced:
        shown = cells(row)
        last = f"{shown[8]:>25}" if compared else ""
        console.print(text(f"{shown[0]:<14}{shown[7]:>14}{price.low:>12,.0f}{price.high:>12,.0f}{last}"))


def _jobs(c: NetworkComparison, console: Console) -> None:
    """Print the time of each job by network, if there are several jobs."""
    names = [job.job for job in c.networks[0].jobs]
    for name in names if len(names) > 1 else ():
        times = {row.network: j.took_us for row in c.networks for j in row.jobs if j.job == name}
        each = ", ".join(f"{n} {'never' if us is None else time_text(us * 1e6)}" for n, us in times.items())
        console.print(text(f"job {name}: {each}"))


def completion_bars(rows: Sequence[Network]) -> str:
    """Return a chart of the workload's time on each network, as bars."""
    shown = [(cells(row)[0], row.completion_us, cells(row)[2] or cells(row)[-1]) for row in rows]
    return bars(shown, "completion by network")


def page(c: NetworkComparison) -> str:
    """Return the page of :class:`softib.Comparison`: the table without empty columns, and a bar for
    each completion. No scripts, and no external resources."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("softib.render"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    table = [cells(row) for row in c.networks]
    columns = [k for k in range(1, len(HEAD) - 1) if any(row[k] for row in table)]
    rows = [(row[0], [(HEAD[k], row[k]) for k in columns], row[-1]) for row in table]
    return shown_lines(
        environment.get_template("comparison.html.j2").render(
            c=c,
            title=f"{c.workload} on {c.fabric or c.source}",
            head=[HEAD[k] for k in columns],
            rows=rows,
            bars=Markup(completion_bars(c.networks)),
        )
    )
