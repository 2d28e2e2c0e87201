"""A sweep as text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from softib.plural import counted
from softib.render.charts import bars
from softib.render.phrases import time_text
from softib.render.terminal import text

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["print_sweep", "run_bars"]

SHOWN = 40
TIMES = ("simulated_us", "p50_us", "p99_us")


def run_bars(s: dict[str, Any]) -> str:
    """Return a bar chart of the times of the first runs of :meth:`softib.Sweep.to_json`. Bars are labelled with the
    parameters in which the runs differ."""
    names = [n for n in (*s["parameters"], "seed") if len({str(row[n]) for row in s["rows"]}) > 1] or ["seed"]
    rows = [
        (", ".join(str(row[n]) for n in names), us, "could not run" if us is None else time_text(us * 1e6))
        for row in s["rows"][:SHOWN]
        for us in (row.get("simulated_us"),)
    ]
    return bars(rows, f"time by {', '.join(names)}")


def print_sweep(s: dict[str, Any], console: Console) -> None:
    """Print the first rows of :meth:`softib.Sweep.to_json`: parameters, seed, time, p50, p99."""
    console.print(text(f"{s['workload']} on {s['fabric'] or s['source']}: {counted(len(s['rows']), 'run')}", "bold"))
    names = [*s["parameters"], "seed"]
    table = [[*names, "time", "p50", "p99"]]
    for row in s["rows"][:SHOWN]:
        times = ["" if row.get(name) is None else time_text(row[name] * 1e6) for name in TIMES]
        table.append([*(str(row[name]) for name in names), *times])
    widths = [max(len(line[k]) for line in table) for k in range(len(table[0]))]
    for number, line in enumerate(table):
        shown = "  ".join(f"{cell:>{w}}" for cell, w in zip(line, widths, strict=True))
        console.print(text(shown, "" if number else "bold"), soft_wrap=True)
        row = s["rows"][number - 1] if number else {"good": True}
        if row.get("error"):
            console.print(text(f"  could not run: {row['error']}", "yellow"), soft_wrap=True)
        elif not row["good"]:
            console.print(text("  not every message completed", "yellow"), soft_wrap=True)
    if len(s["rows"]) > SHOWN:
        console.print(text(f"and {len(s['rows']) - SHOWN:,} more; --parquet or --json has all"))
