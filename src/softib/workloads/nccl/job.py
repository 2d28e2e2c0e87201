"""A job of a workload file as a collective on adapters, and the figures that nccl-tests prints of
it."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from softib.errors import InputError
from softib.workloads.nccl.constants import Collective, busbw_factor
from softib.workloads.nccl.machine import Machine, machine_of
from softib.workloads.nccl.placing import Run, nodes_of, part_of
from softib.workloads.nccl.tuning import choose
from softib.workloads.parameters import section

if TYPE_CHECKING:
    from softib.workloads.nccl_jobs import Gpus, Nccl
    from softib.workloads.pattern import JobMessages

__all__ = ["figures_of", "machine_of_job", "part_of_job", "run_of"]

NONE = np.zeros(0)
NOT_TAKEN = ("opcode", "transport", "receives", "repost", "rate", "seed")


def machine_of_job(job: Gpus, nics: int) -> Machine:
    """The node that ``job`` describes, with ``nics`` adapters. Raises :class:`UnknownName`,
    :class:`InputError`."""
    given = NOT_TAKEN and sorted(set(NOT_TAKEN) & job.model_fields_set)
    if given:
        raise InputError(f"{job.pattern} takes no {given[0]}: NCCL decides what is sent")  # type: ignore[attr-defined]
    changes: dict[str, Any] = {"nics": nics}
    for name in ("gpus", "gpudirect", "sharp", "per_process"):
        value = getattr(job, name, None)
        if value is not None:
            changes[name] = value
    return machine_of(job.machine).but(**changes)


def run_of(job: Nccl, names: tuple[str, ...], rows: np.ndarray, link_gbps: np.ndarray = NONE) -> Run:
    """What ``job`` runs on the adapters ``rows``; ``link_gbps`` float64 by host: data rates of
    their links (0 or absent: unknown). Raises :class:`InputError` where they are no whole nodes, or
    NCCL does not run it."""
    adapters = nodes_of(names, rows, job.nics)
    machine = machine_of_job(job, adapters.shape[1])
    collective = Collective(job.pattern.removeprefix("nccl-"))  # type: ignore[attr-defined]
    by = choose(
        collective,
        job.size,
        machine,
        len(adapters),
        algorithm=job.algorithm,
        protocol=job.protocol,
        release=job.release,
    )
    links = link_gbps[adapters] if len(link_gbps) else np.zeros(1)
    fastest = float(links.max()) if (links > 0).all() else math.inf
    return Run(collective, by, job.size, machine, adapters, section("nccl"), fastest)


def part_of_job(job: Nccl, names: tuple[str, ...], rows: np.ndarray, link_gbps: np.ndarray = NONE) -> JobMessages:
    """The messages of ``job``; ``link_gbps`` as of :func:`run_of`."""
    return part_of(run_of(job, names, rows, link_gbps), job.detail)


def figures_of(job: Nccl, names: tuple[str, ...], rows: np.ndarray, took_us: float) -> dict[str, Any]:
    """What nccl-tests prints: algorithm and bus bandwidth in GB/s (nccl-tests, PERFORMANCE.md), and
    what ran: algorithm, protocol, channels."""
    run = run_of(job, names, rows)
    ranks = run.nodes * run.machine.gpus
    algbw = job.size / (took_us * 1e3) if took_us > 0 else 0.0
    return {
        "collective": str(run.collective),
        "algorithm": str(run.by.algorithm),
        "protocol": str(run.by.protocol),
        "ranks": ranks,
        "nodes": run.nodes,
        "channels": run.work.channels,
        "took_us": took_us,
        "algbw_gbytes": algbw,
        "busbw_gbytes": algbw * busbw_factor(run.collective, ranks),
    }
