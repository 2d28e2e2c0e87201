"""Figures of a run's jobs that only GPUs have: bandwidths of collectives as nccl-tests prints them, a training step."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from softib.workloads.hosts import rows_of

if TYPE_CHECKING:
    from softib.workloads.hosts import Hosts
    from softib.workloads.workload import Workload

__all__ = ["gpu_figures", "notes_of_jobs"]


def gpu_figures(workload: Workload, hosts: Hosts, ended_us: list[float | None]) -> list[dict[str, Any]]:
    """For each row of the jobs' results the figures of its collective or step, empty where it is none or did not end."""
    found: list[dict[str, Any]] = []
    for job in workload.jobs:
        pattern, rows = job.pattern_name, job.result_rows
        if not (pattern.startswith("nccl-") or pattern == "training-step"):
            found += [{}] * rows
            continue
        end = ended_us[len(found)] if len(found) < len(ended_us) else None
        found.append(_figures(pattern, job, hosts, end))
    return found


def notes_of_jobs(workload: Workload, hosts: Hosts) -> list[str]:
    """What the result has to say of what training steps take for granted."""
    from softib.workloads.training.job import notes_of

    steps = [job for job in workload.jobs if job.pattern_name == "training-step"]
    named = len(workload.jobs) > 1
    return [
        f"{job.name}: {note}" if named and job.name else note
        for job in steps
        for note in notes_of(job, hosts.name, rows_of(job, hosts))  # type: ignore[arg-type]
    ]


def _figures(pattern: str, job: Any, hosts: Hosts, end: float | None) -> dict[str, Any]:
    from softib.workloads.nccl.job import figures_of as of_collective
    from softib.workloads.training.job import figures_of as of_step

    if end is None or end != end:
        return {}
    rows = rows_of(job, hosts)
    took = end - job.start / 1e6
    if pattern == "training-step":
        return {"training": of_step(job, hosts.name, rows, took)}
    return {"nccl": of_collective(job, hosts.name, rows, took)}
