"""A grid of parameters: what a sweep runs, point by point."""

from __future__ import annotations

import itertools
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from softib.errors import InputError, LimitError, UnknownName
from softib.plural import counted

if TYPE_CHECKING:
    from softib.workloads.workload import Workload

__all__ = ["Grid", "Point", "read_grid", "workload_at"]

MAX_POINTS = 1_000_000
OF_RUNS = ("layer", "engine", "network", "generation", "ar", "cc", "vl")
"""Parameters of a run; all others are options of the workload's jobs."""
MOST_SEEDS = 1_000_000
KEYS = ("parameters", "seeds")
Value = str | int | float | bool


@dataclass(frozen=True)
class Point:
    """One run: values by parameter, and its seed."""

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
    """``parameters``: values by name, in the file's order; every combination runs with every seed,
    the seed changing fastest. ``where``: for messages."""

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
    """A grid from a YAML file or a mapping: ``parameters`` (name: list of values) and ``seeds``
    (how many from 0 on, or a list; default 0).

    Raises :class:`InputError` and :class:`UnknownName` in one line, of a file with its line.
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
            f"{line(('parameters',))}: parameters are names with lists of values, for example size: [64KiB, 1MiB]"
        )
    found: dict[str, list[Value]] = {}
    for name, values in parameters.items():
        values = values if isinstance(values, list) else [values]
        if not values or not all(isinstance(v, str | int | float) for v in values):
            raise InputError(
                f"{line(('parameters', name))}: {name}: use a list of texts and numbers, for example [64KiB, 1MiB]"
            )
        if len({str(v) for v in values}) < len(values):
            raise InputError(f"{line(('parameters', name))}: {name}: a value occurs twice")
        found[str(name)] = values
    seeds = data.get("seeds", 1)
    if isinstance(seeds, int) and not isinstance(seeds, bool) and seeds <= MOST_SEEDS:
        seeds = list(range(seeds))
    whole = isinstance(seeds, list) and all(isinstance(s, int) and not isinstance(s, bool) and s >= 0 for s in seeds)
    if not whole or not seeds or len(set(seeds)) < len(seeds):
        raise InputError(
            f"{line(('seeds',))}: seeds: use a number (5: 0 to 4), or a list of different seeds, for example [1, 7]"
        )
    return Grid(found, seeds, where)


def workload_at(work: Workload, options: Mapping[str, Value], where: str) -> Workload:
    """``work`` with ``options``: ``size`` of all jobs that have it, or ``training.size`` of the job
    (or pattern) of that name.

    Raises :class:`UnknownName` for an option that no job has, :class:`InputError` for a value that
    is none.
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
    made = job_of(job.pattern, needed | {field: given}, where)
    return job.model_copy(update={field: getattr(made, field)})
