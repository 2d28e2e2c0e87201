"""``softib simulate --sweep GRID``: many runs of one workload."""

from __future__ import annotations

import time
from typing import Any

import click

from softib.cli.loading import Load
from softib.cli.output import Steps, given_options, print_json, print_notice, print_problems, show_line
from softib.plural import counted, plural

__all__ = ["swept"]

OF_A_SWEEP = {"sweep", "workers", "dask", "parquet", "json", "layer", "engine", "ibnl", "node_name_map"}
SHOW_S = 0.2


def swept(source: str, workload: str, load: Load, given: dict[str, Any]) -> int:
    """Run the sweep that the options of ``softib simulate`` ask for; the exit code."""
    import softib

    if not given["sweep"]:
        raise click.UsageError("--workers and --dask are of a sweep; add --sweep grid.yaml")
    for name in given_options():
        if name not in OF_A_SWEEP:
            raise click.UsageError(
                f"--{name.replace('_', '-')} is of one run, not of a sweep; what changes stands in {given['sweep']}"
            )
    fabric = load(source, Steps())
    found = softib.sweep(
        fabric,
        workload,
        given["sweep"],
        layer=given["layer"],
        engine=given["engine"],
        out=given["parquet"],
        workers=given["workers"],
        dask=given["dask"],
        progress=Rows(),
    )
    if given["parquet"]:
        print_notice(f"{counted(len(found.rows()), 'run')} written to {given['parquet']}")
    if given["as_json"]:
        print_json(found.to_json())
    else:
        print_problems(fabric.problems)
        found.print()
    return 0 if found.good else 1


class Rows:
    """A line on a terminal: runs that are there, and how long the rest takes at this pace; rows of
    an earlier call count for nothing."""

    def __init__(self) -> None:
        self.began = self.shown = time.monotonic()
        self.before: int | None = None

    def __call__(self, done: int, of: int) -> None:
        now = time.monotonic()
        if self.before is None:
            self.before, self.began = done, now
            if done:
                print_notice(f"{done:,} of {counted(of, 'run')} {plural(of, 'is', 'are')} there from before")
        if done < of and now - self.shown < SHOW_S:
            return
        self.shown, new = now, done - self.before
        left = f", {(now - self.began) * (of - done) / new:.0f} s left" if new else ""
        show_line(f"{done:,} of {counted(of, 'run')}{left}" if done < of else "")
