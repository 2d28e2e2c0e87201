"""Comparison of a benchmark's log with the predictions of a simulation, by size."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from softib.result import Result

if TYPE_CHECKING:
    from softib.analysis.calibration.predicting import Simulated
    from softib.workloads.benchmark_logs.log import BenchmarkLog
    from softib.workloads.hosts import Hosts
    from softib.workloads.job import Job
    from softib.workloads.trust import Dataset
    from softib.workloads.workload import Workload

__all__ = ["Against", "AgainstRow", "ComparedLog", "against", "dataset_of", "nodes_of_log"]


@dataclass(frozen=True)
class AgainstRow(Result):
    """Measured and predicted time at one size of the log."""

    bytes: int
    measured: float
    predicted: float
    error: float
    """Predicted / measured - 1."""
    low: float | None
    """Lower end of the predicted range, computed without this log (``high``: upper end); null if its library was
    never measured."""
    high: float | None


@dataclass(frozen=True)
class Against(Result):
    """Comparison of a log with the predictions of a job."""

    log: str
    program: str
    job: str
    unit: str
    """Unit of the measured and predicted values: us or MB/s."""
    mean_error: float
    """Mean of the absolute errors."""
    inside: int | None
    """Number of rows whose measured value is inside the predicted range."""
    rows: list[AgainstRow]


class ComparedLog(NamedTuple):
    """A log compared with a run."""

    against: Against
    dataset: Dataset
    """The log as measurements of the machine."""


def against(path: str | os.PathLike[str], work: Workload, hosts: Hosts, run: Simulated) -> ComparedLog:
    """Compare the log in ``path`` with the predictions of ``run`` for its job in ``work``. Raises
    :class:`InputError` if it is of another benchmark or of other nodes."""
    from softib.analysis.calibration.calibration import half_width
    from softib.analysis.calibration.predicting import log_ratio, values_of
    from softib.workloads.benchmark_logs.log import read_log

    log = read_log(path, [job.pattern_name for job in work.jobs])
    job = next(j for j in work.jobs if j.pattern_name == log.pattern)
    nodes = nodes_of_log(log, job, hosts)
    predicted = values_of(log, job, run)
    rows = [
        _row(log, job, hosts, size, measured, float(value))
        for (size, measured), value in zip(log.rows, predicted, strict=True)
    ]
    inside = None if any(r.low is None for r in rows) else sum(r.low <= r.measured <= r.high for r in rows)  # type: ignore[operator]
    error = float(np.mean([abs(r.error) for r in rows]))
    ratios = log_ratio(log, predicted)
    return ComparedLog(
        Against(log.path, log.program, job.name or log.pattern, log.unit, error, inside, rows),
        dataset_of(log, job, hosts, nodes, error, half_width(ratios)),
    )


def dataset_of(log: BenchmarkLog, job: Job, hosts: Hosts, nodes: int, error: float, half: float) -> Dataset:
    """Return ``log`` as measurements of a machine, for ``job`` on ``nodes``."""
    from softib.workloads.trust import Dataset

    version = log.version or str(getattr(job, "nccl", "")) if log.library == "nccl" else ""
    return Dataset(
        name=os.path.basename(log.path),
        library=log.library,
        what=log.what,
        generation=hosts.profile.name,
        nodes=(nodes, nodes),
        size=log.sizes,
        error=error,
        gpu=log.gpu or _gpu(job, hosts),
        version=version,
        half=half,
    )


def _gpu(job: Job, hosts: Hosts) -> str:
    from softib.workloads.hosts import rows_of
    from softib.workloads.nccl.job import machine_of_job
    from softib.workloads.nccl_jobs import Gpus

    return (
        machine_of_job(job, hosts.name, rows_of(job, hosts), hosts.gbps).machine.gpu.name
        if isinstance(job, Gpus)
        else ""
    )


def nodes_of_log(log: BenchmarkLog, job: Job, hosts: Hosts) -> int:
    """Return the number of nodes of ``job``. Raises :class:`InputError` if the log names different nodes or different
    GPUs."""
    from softib.errors import InputError
    from softib.plural import counted
    from softib.workloads.hosts import rows_of
    from softib.workloads.mpi_jobs import Mpi
    from softib.workloads.nccl.job import run_of
    from softib.workloads.nccl_jobs import Nccl

    if isinstance(job, Mpi):
        return job.nodes(hosts)
    assert isinstance(job, Nccl)
    run = run_of(job, hosts.name, rows_of(job, hosts), hosts.gbps)
    ranks = run.nodes * run.machine.gpus
    if log.ranks and (log.nodes, log.ranks) != (run.nodes, ranks):
        raise InputError(
            f"{log.path} ran on {counted(log.ranks, 'GPU')} of {counted(log.nodes, 'node')}, but the workload uses "
            f"{ranks:,} of {run.nodes:,}; set hosts and gpus of the workload to match"
        )
    if log.gpu and log.gpu != run.machine.gpu.name:
        raise InputError(
            f"{log.path} ran on {log.gpu}, but the workload uses {run.machine.gpu.name}; set machine={log.gpu.lower()}"
        )
    return run.nodes


def _row(log: BenchmarkLog, job: Job, hosts: Hosts, size: int, measured: float, predicted: float) -> AgainstRow:
    took_us = predicted if log.unit == "us" else size / predicted
    trust: dict[str, Any] = job.model_copy(update={"size": size}).figures(hosts, took_us).get("trust", {})
    limits = [trust["low_us"], trust["high_us"]] if trust else [None, None]
    if log.unit != "us" and trust:
        limits = [size / trust["high_us"], size / trust["low_us"]]
    return AgainstRow(size, measured, predicted, predicted / measured - 1, *limits)
