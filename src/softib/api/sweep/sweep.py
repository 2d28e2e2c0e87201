"""A grid of parameters and seeds: many runs of one workload, on several processors or a Dask cluster."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from softib.api.arguments import Suggests, check_choice
from softib.api.fabric import Fabric, as_fabric
from softib.api.sweep.grid import Journal, Point, check_appendable, keys_of, read_grid, run_point, workload_at
from softib.api.table import Table, library
from softib.errors import InputError
from softib.plural import counted
from softib.result import HIDDEN, Result, also, key
from softib.whole_files import write_file

if TYPE_CHECKING:
    from softib.api.graph import Drawing
    from softib.workloads.workload import Workload

__all__ = ["Sweep", "sweep"]

Progress = Callable[[int, int], None]
"""Called with the number of finished rows and the number of all rows."""
BATCHES = 4
"""Number of runs that a worker of a cluster gets between two polls."""


@dataclass(eq=False, repr=False)
class Sweep(Suggests, Result):
    """Rows of all runs in the order of the grid: the seed changes fastest, then the last parameter."""

    document = "sweep"

    fabric: Fabric = field(metadata=key(json=lambda fabric: fabric.name, type=str))
    workload: str
    parameters: list[str]
    _rows: list[dict[str, Any]] = field(metadata=HIDDEN)

    @property
    @also("source", before="fabric")
    def _source(self) -> str:
        return self.fabric.source

    @property
    @also()
    def good(self) -> bool:
        """Return whether every message of every run completed."""
        return all(row["good"] for row in self._rows)

    @also()
    def rows(self) -> list[dict[str, Any]]:
        """One mapping per run: parameters, ``seed``, ``good``, ``error`` (why it could not run),
        ``end_agrees``, ``simulated_us``, latencies, and for each job ``JOB took_us`` and ``JOB
        p99_us``.
        """
        names = list(dict.fromkeys(name for row in self._rows for name in row))
        return [{name: row.get(name) for name in names} for row in self._rows]

    def table(self) -> Table:
        """Return :meth:`rows` as a table."""
        rows = self.rows()
        return Table({name: _column([row[name] for row in rows]) for name in rows[0]})

    def to_parquet(self, path: str | os.PathLike[str]) -> None:
        """Write the table. The same sweep gives the same bytes. Raises :class:`InputError`,
        :class:`MissingLibrary`."""
        write_file(path, self.table().to_polars().write_parquet)

    def print(self) -> None:
        """Print the text of ``softib simulate --sweep``."""
        from softib.render.sweep import print_sweep
        from softib.render.terminal import console

        print_sweep(self.to_json(), console())

    def plot(self) -> Drawing:
        """Plot the time of the first 40 runs as bars."""
        from softib.api.graph import Drawing
        from softib.render.html import styled
        from softib.render.sweep import run_bars

        return Drawing(styled(run_bars(self.to_json())))

    def _repr_html_(self) -> str:
        return self.table()._repr_html_()

    def __repr__(self) -> str:
        return f"<Sweep of {self.workload!r} on {self.fabric.name!r}: {counted(len(self._rows), 'run')}>"


def sweep(
    source: Fabric | str | os.PathLike[str],
    workload: Any,
    grid: Mapping[str, Any] | str | os.PathLike[str],
    *,
    layer: str = "fluid",
    engine: str | None = None,
    out: str | os.PathLike[str] | None = None,
    workers: int = 0,
    dask: str | None = None,
    progress: Progress | None = None,
) -> Sweep:
    """Run ``workload`` on the fabric with every combination in ``grid``: ``{"parameters": {"size":
    ["64KiB", "1MiB"], "engine": ["ftree", "updn"]}, "seeds": 3}``, or a YAML file with the same
    content.

    Parameters are ``layer``, ``engine``, ``network``, ``generation``, ``ar``, ``cc`` and ``vl``, and options of the
    workload's jobs: ``size`` of all jobs, ``training.size`` of the job ``training``. ``workers`` processes share the
    runs (0: one per processor); or the workers of the Dask cluster at ``dask`` do (``tcp://head:8786``). With ``out``,
    the table is written there as Parquet. Finished rows are stored in ``OUT.rows`` until then: if the process is
    killed, the same call continues. The error of a single point is stored in ``error`` of its row.

    Raises :class:`UnknownName` and :class:`InputError`, one line each, for a wrong parameter or
    value before any run starts. Raises :class:`MissingLibrary` without joblib, for a cluster
    without Dask, and for ``out`` without polars.
    """
    from softib.workloads.workload import read

    check_choice(engine, None)
    if workers < 0:
        raise InputError(f"workers={workers} is negative; use 1 or more, or 0 for one per processor")
    points_of_grid = read_grid(grid)
    work = read(workload)
    if work.fabrics:
        raise InputError(f"{work.name} uses several fabrics, but a sweep needs jobs on one fabric; use softib simulate")
    points = points_of_grid.points()
    works = [workload_at(work, point.of_jobs, points_of_grid.where) for point in points]
    for values in {tuple(point.of_run.items()): point.of_run for point in points}.values():
        _check(values, layer, points_of_grid.where)
    fabric = as_fabric(source)
    if out is not None:
        library("polars", "tables")
        check_appendable(out)
    journal = Journal(out)
    keys = keys_of(fabric, works, points, layer, engine)
    rows = {key: row for key, row in journal.read().items() if key in set(keys)}
    left = [k for k, key in enumerate(keys) if key not in rows]
    if progress is not None:
        progress(len(points) - len(left), len(points))
    calls = [(fabric, works[k], points[k], layer, engine) for k in left]
    for k, row in _run(calls, workers, dask) if calls else ():
        rows[keys[left[k]]] = row
        journal.add(keys[left[k]], row)
        if progress is not None:
            progress(len(rows), len(points))
    result = Sweep(
        fabric,
        work.name,
        list(points_of_grid.parameters),
        [dict(p.values) | rows[key] for p, key in zip(points, keys, strict=True)],
    )
    if out is not None:
        result.to_parquet(out)
        journal.remove()
    return result


def _check(values: Mapping[str, str], layer: str, where: str) -> None:
    """Raise a one-line error for a run option that no layer has. (If only another layer has the option, the error is in
    the row instead.)"""
    from softib.analysis.simulation.run import run_layer
    from softib.api.simulation.what_if import changes_of, text_of
    from softib.errors import UnknownName

    try:
        run_layer(values.get("layer", layer))
        check_choice(values.get("engine"), None)
        rest = {key: value for key, value in values.items() if key not in ("layer", "engine")}
        changes_of(text_of(rest) if rest else None, "packet")
    except (UnknownName, InputError) as error:
        raise InputError(f"{where}: {error}") from None


def _run(calls: list[tuple[Any, ...]], workers: int, dask: str | None) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield rows with their numbers, in the order of their arrival."""
    if dask is None and workers == 1:
        for k, call in enumerate(calls):
            yield _numbered(k, *call)
        return
    joblib = library("joblib", "sweep")
    if dask is None:
        tasks = (joblib.delayed(_numbered)(k, *call) for k, call in enumerate(calls))
        yield from joblib.Parallel(n_jobs=workers or -1, batch_size=1, return_as="generator_unordered")(tasks)
        return
    with _cluster(dask) as size:
        step = max(1, size) * BATCHES
        for begin in range(0, len(calls), step):
            some = range(begin, min(begin + step, len(calls)))
            with joblib.parallel_config(backend="dask"):
                yield from joblib.Parallel()(joblib.delayed(_numbered)(k, *calls[k]) for k in some)


def _numbered(
    k: int, fabric: Fabric, work: Workload, point: Point, layer: str, engine: str | None
) -> tuple[int, dict[str, Any]]:
    return k, run_point(fabric, work, point, layer, engine)


@contextmanager
def _cluster(address: str) -> Iterator[int]:
    """Return a client of the Dask cluster at ``address``, and the number of its workers. Raises
    :class:`InputError` if there is no answer."""
    distributed = library("distributed", "dask")
    try:
        client = distributed.Client(address, timeout=10)
    except (OSError, ValueError) as error:
        raise InputError(f"no Dask scheduler at {address}: {error}; use for example tcp://head:8786") from None
    try:
        if not (workers := client.scheduler_info(n_workers=-1)["workers"]):
            raise InputError(f"the Dask cluster at {address} has no workers; start some")
        yield len(workers)
    finally:
        client.close()


def _column(values: list[Any]) -> Any:
    """Return numbers unchanged; if one value is text, return all as text."""
    if any(isinstance(v, str) for v in values):
        return [None if v is None else str(v) for v in values]
    return values
