"""Collectives in an acceptance run: benchmarks from OSU or nccl-tests run on the measured hosts, and are compared with
predictions."""

from __future__ import annotations

import os
import shlex
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from softib.errors import InputError, SoftibError
from softib.plural import counted
from softib.result import Result
from softib.scratch import scratch_folder

if TYPE_CHECKING:
    from softib.api.acceptance.result import AcceptanceSource
    from softib.api.simulation.against import Against
    from softib.diags.finding import Finding
    from softib.live.acceptance.collective_runs import BenchmarkRun
    from softib.workloads.benchmark_logs.log import BenchmarkLog

__all__ = ["CollectiveRow", "CollectiveRun", "check_commands", "collective_findings", "run_collectives"]

LEAST_LOCAL_US = 10_000.0
"""On a running fabric, sizes with a shorter predicted time are not judged. The ranks share this machine's
processors, so that scheduling dominates the time of shorter collectives."""
LEAST = 1.5
"""A size counts as slow only if measured / predicted time is at least this. A range is not enough: it contains only
nine of ten measurements, and the sizes of one log tend to be outside their ranges together."""
UNKNOWN = 2.0
"""Value of :data:`LEAST` for a library that was never measured; it is softib's choice."""


@dataclass(frozen=True)
class CollectiveRow(Result):
    """Times of a benchmark at one message size."""

    bytes: int
    measured: float
    predicted: float | None
    """Predicted value; null if there is no fabric, or no prediction."""
    low: float | None
    """Lower end of the predicted range; ``high`` is the upper end. Null if no range is known."""
    high: float | None
    judged: bool
    """False if there is no prediction, or if the time is too short for programs that share this
    machine's processors."""
    slow: bool
    """Whether the time is at least half longer than its range allows. Without a range: whether it is at least twice
    the predicted time."""


@dataclass(frozen=True)
class CollectiveRun(Result):
    """A run of a collective benchmark."""

    command: str
    collective: str
    """Name of the collective, for example ``mpi-allreduce``; empty if its output contains no table."""
    program: str
    """``OSU`` or ``nccl-tests``."""
    unit: str
    """Unit of the measured and predicted values: us or MB/s."""
    hosts: int
    ranks_per_host: int
    seconds: float
    rows: list[CollectiveRow]
    why: str
    """Reason why there is no measurement or prediction; empty if there are both."""

    @property
    def slow(self) -> list[CollectiveRow]:
        """The rows of the slow sizes."""
        return [row for row in self.rows if row.slow]

    def __str__(self) -> str:
        if not self.rows:
            return f"{self.command}: {self.why}"
        low, high = self.rows[0].bytes, self.rows[-1].bytes
        verdict = self.why or f"{len(self.slow)} of {counted(sum(r.judged for r in self.rows), 'judged size')} slow"
        return f"{self.collective} on {counted(self.hosts, 'host')}, {low:,} to {high:,} bytes: {verdict}"


def check_commands(commands: Sequence[str], ranks_per_host: int) -> list[list[str]]:
    """Return the words of each command. Raises :class:`InputError` for commands that are empty or not text."""
    if isinstance(commands, str):
        raise InputError("collectives are a list of command lines, for example ['mpirun -np 8 osu_allreduce']")
    if ranks_per_host < 1:
        raise InputError(f"ranks_per_host={ranks_per_host}: use 1 or more")
    split = []
    for command in commands:
        try:
            split.append(shlex.split(command))
        except ValueError as error:
            raise InputError(f"collective {command!r}: {error}") from None
        if not split[-1]:
            raise InputError("collective: an empty command; use for example 'mpirun -np 8 osu_allreduce'")
    return split


def run_collectives(
    place: AcceptanceSource, commands: Sequence[str], ranks_per_host: int, machine: str | os.PathLike[str] = ""
) -> list[CollectiveRun]:
    """Run each command, and compare its measurements on the hosts of ``place`` with the prediction."""
    from softib.live.acceptance.collective_runs import run_benchmark

    runs = []
    for command, arguments in zip(commands, check_commands(commands, ranks_per_host), strict=True):
        run = run_benchmark(arguments)
        runs.append(_judged(place, command, run, ranks_per_host, machine))
    return runs


def _judged(
    place: AcceptanceSource,
    command: str,
    benchmark: BenchmarkRun,
    ranks_per_host: int,
    machine: str | os.PathLike[str],
) -> CollectiveRun:
    from softib.workloads.benchmark_logs.log import read_log

    hosts = len(set(place.ends.host))
    run = lambda log, rows, why: CollectiveRun(
        command=command,
        collective="" if log is None else log.pattern,
        program="" if log is None else log.program,
        unit="" if log is None else log.unit,
        hosts=hosts,
        ranks_per_host=ranks_per_host,
        seconds=round(benchmark.seconds, 1),
        rows=rows,
        why=why,
    )
    if benchmark.failure:
        return run(None, [], benchmark.failure)
    with scratch_folder("collective") as folder:
        path = folder / _file_name(command)
        path.write_text(benchmark.output)
        message = lambda error: str(error).removeprefix(f"{path}: ").replace(str(path), "its output")
        try:
            log = read_log(path)
        except SoftibError as error:
            return run(None, [], message(error))
        plain = [CollectiveRow(size, value, None, None, None, False, False) for size, value in log.rows]
        if place.result is None:
            return run(log, plain, "not predicted: a list of hosts has no cables")
        try:
            return run(log, _rows(place, log, _predicted(place, log, path, ranks_per_host, machine)), "")
        except SoftibError as error:
            return run(log, plain, f"not predicted: {message(error)}")


def _file_name(command: str) -> str:
    """Return a file name that contains the benchmark's name, because some logs of nccl-tests do not state their
    program."""
    programs = [w for word in shlex.split(command) if (w := os.path.basename(word)).endswith("_perf") or "osu_" in w]
    return f"{programs[0] if programs else 'collective'}.log"


def _predicted(
    place: AcceptanceSource, log: BenchmarkLog, path: Path, ranks_per_host: int, machine: str | os.PathLike[str]
) -> Against:
    """Return the comparison with a simulation of the same collective on these hosts, which are otherwise idle."""
    from softib.api.fabric import Fabric
    from softib.api.simulation.simulate import Record, simulate

    assert place.result is not None
    ports = Counter(place.ends.host)
    job: dict[str, Any] = {"pattern": log.pattern, "size": log.sizes[0], "hosts": list(dict.fromkeys(place.ends.node))}
    if log.library == "mpi":
        job |= {"ranks-per-host": ranks_per_host, "rails": max(ports.values())}
    elif log.nodes:
        job |= {"gpus": log.ranks // log.nodes} | ({"machine": log.gpu.lower()} if log.gpu else {})
        job |= {"per-process": log.per_process} if log.per_process > 1 else {}
    record = Record(against=path, machine=machine)
    compared = simulate(Fabric(place.result, place.name), {"jobs": [job]}, record=record).against
    assert compared is not None
    return compared


def _rows(place: AcceptanceSource, log: BenchmarkLog, compared: Against) -> list[CollectiveRow]:
    out = []
    for row in compared.rows:
        took_us = row.predicted if log.unit == "us" else row.bytes / row.predicted
        judged = place.paced and (not place.running or took_us >= LEAST_LOCAL_US)
        worse = row.measured / row.predicted if log.unit == "us" else row.predicted / row.measured
        limits = [x / row.predicted for x in (row.low, row.high) if x is not None]
        most = UNKNOWN if not limits else limits[1] if log.unit == "us" else 1 / limits[0]
        outside = worse > max(most, LEAST)
        out.append(CollectiveRow(row.bytes, row.measured, row.predicted, row.low, row.high, judged, judged and outside))
    return out


def collective_findings(runs: Sequence[CollectiveRun]) -> Iterator[Finding]:
    """Yield the findings of benchmarks: those that did not run, and slow ones."""
    from softib.diags.acceptance import codes
    from softib.diags.finding import Severity, finding

    for run in runs:
        if run.why:
            severity = Severity.INFO if run.rows else None
            yield finding(codes.COLLECTIVE_UNMEASURED, [], f"{run.command}: {run.why}", {}, severity=severity)
        elif run.slow:
            worst = max(run.slow, key=lambda r: _worse(run, r))
            yield finding(
                codes.COLLECTIVE_SLOW,
                [],
                f"{run.collective} on {counted(run.hosts, 'host')} is slower than predicted at {len(run.slow)} of "
                f"{counted(sum(r.judged for r in run.rows), 'size')}: {worst.measured:,.4g} instead of "
                f"{worst.predicted:,.4g} {run.unit} at {worst.bytes:,} bytes",
                {"command": run.command, "slow_bytes": [r.bytes for r in run.slow]},
            )


def _worse(run: CollectiveRun, row: CollectiveRow) -> float:
    assert row.predicted is not None
    return row.measured / row.predicted if run.unit == "us" else row.predicted / row.measured
