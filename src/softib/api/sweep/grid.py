"""A grid of parameters, the row of each of its points, and the journal that stores finished rows
until all are done."""

from __future__ import annotations

import itertools
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from softib.errors import InputError, LimitError, UnknownName, os_reason
from softib.plural import counted

if TYPE_CHECKING:
    from softib.workloads.workload import Workload
import hashlib
import json
from typing import TYPE_CHECKING

from softib.errors import SoftibError
from softib.input_files import FILE_LIMIT, read_text
from softib.plain_values import load_json

if TYPE_CHECKING:
    from softib.api.fabric import Fabric
    from softib.workloads.workload import Workload

__all__ = ["Grid", "Journal", "Point", "check_appendable", "keys_of", "read_grid", "run_point", "workload_at"]


LATENCIES = ("min", "p50", "p90", "p99", "p99.9", "max", "mean")


def run_point(fabric: Fabric, work: Workload, point: Point, layer: str, engine: str | None) -> dict[str, Any]:
    """Return the row of one run: its results, or ``error`` if the run was impossible. The row contains no value of
    the machine's clock."""
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
    row |= {"good": run.good, "error": None, "end_agrees": run.agreement.end, "simulated_us": run.simulated_us}
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
    """Return a key for each row. Two keys are equal if softib's version, the fabric, workload, parameters and seed are
    equal."""
    from softib import __version__
    from softib.api.fabric import result_of
    from softib.fabric.columns import COLUMNS

    result = result_of(fabric)
    digest = hashlib.sha256(f"{__version__} {layer} {engine} {result.fabric.name} {result.extra.get('sm')}".encode())
    for column in COLUMNS:
        digest.update(getattr(result.fabric, column.name).tobytes())
    of_fabric = digest.hexdigest()
    keys = []
    for work, point in zip(works, points, strict=True):
        jobs = [*(job.key() for job in work.jobs), *(fault.model_dump(mode="json") for fault in work.faults)]
        text = json.dumps([of_fabric, jobs, point.values, point.seed, str(work.management)])
        keys.append(hashlib.sha256(text.encode()).hexdigest()[:32])
    return keys


class Journal:
    """Finished rows of a sweep, one line of JSON each, in a file next to its output. A sweep that
    was killed continues from there. ``None``: nothing is stored."""

    def __init__(self, out: str | os.PathLike[str] | None):
        self.path = None if out is None else Path(f"{os.fspath(out)}.rows")

    def read(self) -> dict[str, dict[str, Any]]:
        """Return rows by key; the last line may be truncated. Raises :class:`InputError` if it
        cannot be read."""
        rows: dict[str, dict[str, Any]] = {}
        if self.path is None or not self.path.exists():
            return rows
        kept = read_text(self.path, "list of finished rows", FILE_LIMIT)
        lines = kept.split("\n")
        for number, line in enumerate(lines, 1):
            try:
                entry = load_json(line) if line else None
                if entry is not None:
                    key, row = entry
                    rows[key] = dict(row)
            except (ValueError, TypeError):
                if number < len(lines):
                    raise InputError(
                        f"{self.path}:{number}: this line is not a row of a sweep; remove the file to start again"
                    ) from None
                self._cut(len(kept.encode()) - len(line.encode()))
                break
        return rows

    def add(self, key: str, row: dict[str, Any]) -> None:
        """Store a row. Raises :class:`InputError` if it cannot be written."""
        if self.path is None:
            return
        try:
            with self.path.open("a", encoding="utf-8") as file:
                file.write(json.dumps([key, row]) + "\n")
        except OSError as error:
            raise InputError(f"{self.path}: cannot write: {os_reason(error)}") from None

    def remove(self) -> None:
        """Remove the journal, because all rows are in the file."""
        if self.path is not None:
            self.path.unlink(missing_ok=True)

    def _cut(self, size: int) -> None:
        assert self.path is not None
        os.truncate(self.path, size)


def check_appendable(path: str | os.PathLike[str]) -> None:
    """Raise :class:`InputError` if rows cannot be appended to ``path``; called before the work
    begins. Remove the file if it is empty."""
    target = Path(path)
    there = target.exists()
    try:
        target.open("ab").close()
        if not there:
            target.unlink()
    except OSError as error:
        raise InputError(f"{target}: cannot write: {os_reason(error)}") from None


MAX_POINTS = 1_000_000
OF_RUNS = ("layer", "engine", "network", "generation", "ar", "cc", "vl")
"""Parameters that belong to a run; all others are options of the workload's jobs."""
MOST_SEEDS = 1_000_000
KEYS = ("parameters", "seeds")
Value = str | int | float | bool


@dataclass(frozen=True)
class Point:
    """A run of the sweep: its parameter values and its seed."""

    values: tuple[tuple[str, Value], ...]
    seed: int

    @property
    def of_run(self) -> dict[str, str]:
        """Options of the run."""
        return {k: str(v) for k, v in self.values if k in OF_RUNS}

    @property
    def of_jobs(self) -> dict[str, Value]:
        """Options of the workload."""
        return {k: v for k, v in self.values if k not in OF_RUNS}


@dataclass(frozen=True)
class Grid:
    """``parameters``: values by name, in the file's order. Every combination runs with every seed; the seed changes
    fastest. ``where``: the name of the grid in messages."""

    parameters: dict[str, list[Value]]
    seeds: list[int]
    where: str

    def points(self) -> list[Point]:
        """All runs in the order of their rows. Raises :class:`LimitError` for more than a million."""
        total = len(self.seeds)
        for values in self.parameters.values():
            total *= len(values)
        if total > MAX_POINTS:
            raise LimitError(f"{self.where}: {counted(total, 'run')}; a sweep has at most {MAX_POINTS:,}")
        names = list(self.parameters)
        return [
            Point(tuple(zip(names, values, strict=True)), seed)
            for values in itertools.product(*self.parameters.values())
            for seed in self.seeds
        ]


def read_grid(given: Mapping[str, Any] | str | os.PathLike[str]) -> Grid:
    """Return a grid from a YAML file or a mapping: ``parameters`` (name: list of values) and
    ``seeds`` (a number of seeds from 0 on, or a list; default 0).

    Raises :class:`InputError` and :class:`UnknownName` in one line; for a file, with the line number.
    """
    if isinstance(given, Mapping):
        return _grid(given, "grid", lambda path: "grid")
    from softib.plain_yaml import load_yaml

    path = Path(os.fspath(given))
    data, lines = load_yaml(path, "grid", "parameters: and seeds:")
    return _grid(data, str(path), lambda key: f"{path}:{lines.of(key)}")


def _grid(data: Mapping[str, Any], where: str, line: Any) -> Grid:
    for key in data:
        if key not in KEYS:
            raise InputError(f"{line((key,))}: {UnknownName('key of a grid', str(key), KEYS)}")
    parameters = data.get("parameters") or {}
    if not isinstance(parameters, Mapping):
        raise InputError(
            f"{line(('parameters',))}: parameters: must map names to lists of values, for example size: [64KiB, 1MiB]"
        )
    values_of: dict[str, list[Value]] = {}
    for name, values in parameters.items():
        values = values if isinstance(values, list) else [values]
        if not values or not all(isinstance(v, str | int | float) for v in values):
            raise InputError(
                f"{line(('parameters', name))}: {name}: use a list of strings and numbers, for example [64KiB, 1MiB]"
            )
        if len({str(v) for v in values}) < len(values):
            raise InputError(f"{line(('parameters', name))}: {name}: a value occurs twice")
        values_of[str(name)] = values
    seeds = data.get("seeds", 1)
    if isinstance(seeds, int) and not isinstance(seeds, bool) and seeds <= MOST_SEEDS:
        seeds = list(range(seeds))
    whole = isinstance(seeds, list) and all(isinstance(s, int) and not isinstance(s, bool) and s >= 0 for s in seeds)
    if not whole or not seeds or len(set(seeds)) < len(seeds):
        raise InputError(
            f"{line(('seeds',))}: seeds: use a number (5: 0 to 4), or a list of different seeds, for example [1, 7]"
        )
    return Grid(values_of, seeds, where)


def workload_at(work: Workload, options: Mapping[str, Value], where: str) -> Workload:
    """Return ``work`` with ``options``: ``size`` applies to all jobs that have it,
    ``training.size`` to the job (or pattern) of that name.

    Raises :class:`UnknownName` for an option that no job has, :class:`InputError` for an invalid
    value.
    """
    jobs: list[Any] = list(work.jobs)
    for name, value in options.items():
        owner, _, option = name.rpartition(".")
        field = option.replace("-", "_")
        hit = [
            k
            for k, job in enumerate(jobs)
            if owner in ("", job.name, job.pattern) and field in type(job).model_fields and field != "pattern"
        ]
        if not hit:
            raise InputError(f"{where}: {UnknownName('parameter of a sweep', name, _known(jobs))}")
        for k in hit:
            jobs[k] = _changed(jobs[k], field, value, where)
    return replace(work, jobs=tuple(jobs))


def _known(jobs: Sequence[Any]) -> list[str]:
    options = {f.replace("_", "-") for job in jobs for f in type(job).model_fields if f not in ("pattern", "name")}
    return [*OF_RUNS, *sorted(options)]


def _changed(job: Any, field: str, value: Value, where: str) -> Any:
    from softib.workloads.workload import OF_HOSTS, job_of

    needed = {name: getattr(job, name) for name, info in type(job).model_fields.items() if info.is_required()}
    given = [v for v in str(value).split("+") if v] if field in OF_HOSTS else value
    checked = job_of(job.pattern, needed | {field: given}, where)
    return job.model_copy(update={field: getattr(checked, field)})
