"""Rows of a sweep: one run of a point, and the journal that keeps finished rows until all are
there."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from softib.errors import InputError, SoftibError
from softib.input_files import FILE_LIMIT, read_text
from softib.plain_values import load_json

if TYPE_CHECKING:
    from softib.api.fabric import Fabric
    from softib.api.sweep.grid import Point
    from softib.workloads.workload import Workload

__all__ = ["Journal", "check_appendable", "keys_of", "run_point"]

LATENCIES = ("min", "p50", "p90", "p99", "p99.9", "max", "mean")


def run_point(fabric: Fabric, work: Workload, point: Point, layer: str, engine: str | None) -> dict[str, Any]:
    """The row of one run: what it gave, or ``error`` where it could not be. Nothing in it depends
    on the machine's clock."""
    from softib.api.simulation.runs import Record, Runs
    from softib.api.simulation.simulate import check_layer
    from softib.api.simulation.what_if import changes_of, text_of

    chosen = point.of_run
    layer, engine, network = (
        chosen.pop("layer", layer),
        chosen.pop("engine", engine),
        chosen.pop("network", "infiniband"),
    )
    if network != "infiniband":
        chosen["network"] = network
    row: dict[str, Any] = {"seed": point.seed}
    try:
        check_layer(work, layer)
        changes = changes_of(text_of(chosen) if chosen else None, layer)
        runs = Runs(fabric, work, layer, engine, None, point.seed, "infiniband", Record())
        run = runs.make(changes or None, engine)
    except SoftibError as error:
        return row | {"good": False, "error": str(error)}
    tails = run.percentiles_us
    row |= {"good": run.good, "error": None, "valid": run.valid, "simulated_us": run.simulated_us}
    row |= {f"{name}_us": tails.get(name) for name in LATENCIES}
    if (result := run.result) is not None:
        from softib.analysis.simulation.slowdown import job_percentiles_ps

        sent = ~result.messages.computes
        row |= {"messages": int(sent.sum()), "bytes": int(result.messages.size[sent].sum())}
        for k, job in enumerate(result.job_times()):
            row[f"{job.name} took_us"] = (job.ended_ps - job.began_ps) / 1e6 if job.ended_ps >= 0 else None
            row[f"{job.name} p99_us"] = job_percentiles_ps(result, k).get("p99", 0.0) / 1e6 or None
    return row


def keys_of(fabric: Fabric, works: list[Workload], points: list[Point], layer: str, engine: str | None) -> list[str]:
    """A key for each row: equal where version, fabric, workload, parameters and seed are."""
    from softib import __version__
    from softib.api.fabric import result_of
    from softib.fabric.columns import COLUMNS

    result = result_of(fabric)
    digest = hashlib.sha256(f"{__version__} {layer} {engine} {result.fabric.name} {result.extra.get('sm')}".encode())
    for column in COLUMNS:
        digest.update(getattr(result.fabric, column.name).tobytes())
    of_fabric = digest.hexdigest()
    found = []
    for work, point in zip(works, points, strict=True):
        jobs = [*(job.key() for job in work.jobs), *(fault.model_dump(mode="json") for fault in work.faults)]
        text = json.dumps([of_fabric, jobs, point.values, point.seed, str(work.management)])
        found.append(hashlib.sha256(text.encode()).hexdigest()[:32])
    return found


class Journal:
    """Finished rows beside the file that a sweep writes, a line of JSON each: a sweep that was
    killed goes on where it was. ``None``: nothing is kept."""

    def __init__(self, out: str | os.PathLike[str] | None):
        self.path = None if out is None else Path(f"{os.fspath(out)}.rows")

    def read(self) -> dict[str, dict[str, Any]]:
        """Rows by key; the last line may have been cut off. Raises :class:`InputError` where it
        cannot be read."""
        found: dict[str, dict[str, Any]] = {}
        if self.path is None or not self.path.exists():
            return found
        kept = read_text(self.path, "list of finished rows", FILE_LIMIT)
        lines = kept.split("\n")
        for number, line in enumerate(lines, 1):
            try:
                entry = load_json(line) if line else None
                if entry is not None:
                    key, row = entry
                    found[key] = dict(row)
            except (ValueError, TypeError):
                if number < len(lines):
                    raise InputError(
                        f"{self.path}:{number}: not a row of a sweep; remove the file to start again"
                    ) from None
                self._cut(len(kept.encode()) - len(line.encode()))
                break
        return found

    def add(self, key: str, row: dict[str, Any]) -> None:
        """Keep a row. Raises :class:`InputError` where it cannot be written."""
        if self.path is None:
            return
        try:
            with self.path.open("a", encoding="utf-8") as file:
                file.write(json.dumps([key, row]) + "\n")
        except OSError as error:
            raise InputError(f"{self.path}: cannot write: {error.strerror or error}") from None

    def remove(self) -> None:
        """All rows are in the file."""
        if self.path is not None:
            self.path.unlink(missing_ok=True)

    def _cut(self, size: int) -> None:
        assert self.path is not None
        os.truncate(self.path, size)


def check_appendable(path: str | os.PathLike[str]) -> None:
    """Raise :class:`InputError` where rows cannot be appended to ``path``: before the work. Leaves
    no empty file behind."""
    target = Path(path)
    there = target.exists()
    try:
        target.open("ab").close()
        if not there:
            target.unlink()
    except OSError as error:
        raise InputError(f"{target}: cannot write: {error.strerror or error}") from None
