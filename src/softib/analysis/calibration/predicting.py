"""Predictions of the rows of a benchmark's log."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from softib.analysis.simulation.run import run_workload
from softib.errors import InputError
from softib.workloads.hosts import Hosts, rows_of
from softib.workloads.machine_file import MachineFile
from softib.workloads.nccl.job import machine_of_job, run_of
from softib.workloads.nccl.law import predicted_us
from softib.workloads.nccl_jobs import Nccl
from softib.workloads.workload import Workload

if TYPE_CHECKING:
    from softib.analysis.routing import Routed
    from softib.workloads.benchmark_logs.log import BenchmarkLog
    from softib.workloads.job import Job

__all__ = ["Simulated", "log_ratio", "of_law", "values_of"]

WINDOW = 64
"""Number of messages that osu_bw sends without waiting."""


@dataclass(frozen=True)
class Simulated:
    """Runs a job with a layer of the simulator, on tables that ``engine`` computed."""

    tables: Routed
    engine: str
    layer: str = "fluid"
    seed: int = 0
    options: Mapping[str, Any] = field(default_factory=dict)
    hosts: Mapping[str, Any] = field(default_factory=dict)

    def __call__(self, job: Job) -> float:
        """Return the time of ``job`` in µs."""
        run = run_workload(
            self.tables,
            Workload(job.pattern_name, (job,)),
            self.layer,
            engine=self.engine,
            seed=self.seed,
            options=self.options,
            hosts=self.hosts,
        )
        if not run.ok:
            raise InputError(
                f"{job.pattern_name} of {job.size:,} bytes did not complete; run it with softib simulate to see why"
            )
        return run.outcome.end_ps / 1e6


def values_of(log: BenchmarkLog, job: Job, run: Callable[[Job], float]) -> np.ndarray:
    """Return the prediction for each message size of ``log``, in the unit of the log. ``run`` returns the time of a job
    in µs."""
    return np.array([_value(log.pattern, job, size, run) for size, _ in log.rows])


def _value(pattern: str, job: Job, size: int, run: Callable[[Job], float]) -> float:
    changed = lambda **more: job.model_copy(update={"size": size, **more})
    if pattern == "mpi-latency":  # the benchmark prints half of a round trip
        return run(changed(iterations=1)) / 2
    if pattern == "mpi-bandwidth":  # the benchmark sends one window after another, so startup costs do not count
        one, two = (run(changed(iterations=n)) for n in (1, 2))
        return WINDOW * size / (two - one)
    return run(changed())


def of_law(job: Nccl, hosts: Hosts, machine: MachineFile) -> Callable[[Job], float]:
    """Return a function that computes the time of an NCCL job on the nodes described by ``machine``, with the formula
    for an idle network (:mod:`softib.workloads.nccl.law`)."""
    rows = rows_of(job, hosts)
    placed = machine_of_job(job, hosts.name, rows, hosts.gbps)
    changes: dict[str, Any] = {"constants": machine.nccl}
    if machine.gpu_nic_gbps is not None:
        changes["gpu_nic_gbps"] = machine.gpu_nic_gbps
    if machine.nvlink_gbytes is not None:
        changes["gpu"] = placed.machine.gpu.but(nvlink_gbytes=machine.nvlink_gbytes)
    node = placed.machine.but(**changes)

    def took(sized: Job) -> float:
        assert isinstance(sized, Nccl)
        run = run_of(sized, hosts.name, rows, hosts.gbps)
        return predicted_us(run.collective, run.by, run.size, node, run.nodes)

    return took


def log_ratio(log: BenchmarkLog, predicted: Sequence[float] | np.ndarray) -> np.ndarray:
    """Return log(measured / predicted time) of each row."""
    ratio = np.log(np.array([value for _, value in log.rows]) / np.maximum(predicted, 1e-9))
    return ratio if log.unit == "us" else -ratio
