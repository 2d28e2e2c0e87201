"""An NCCL job on the adapters of hosts, and the figures that nccl-tests would print for it."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from softib.errors import InputError
from softib.plural import counted
from softib.workloads.nccl.constants import Collective, busbw_factor
from softib.workloads.nccl.law import predicted_us
from softib.workloads.nccl.machine import Machine, machine_of, machine_of_links
from softib.workloads.nccl.net_ib import Run, nodes_of, part_of
from softib.workloads.nccl.tuning import choose, possible

if TYPE_CHECKING:
    from softib.workloads.nccl_jobs import Gpus, Nccl
    from softib.workloads.pattern import JobMessages

__all__ = [
    "Placed",
    "assumed_machine",
    "figures_of",
    "machine_of_job",
    "notes_of",
    "part_of_job",
    "placed_on",
    "run_of",
    "slower_adapters",
]

NONE = np.zeros(0)
FASTER = 0.8
"""Results mention a faster algorithm and protocol if they take less than this share of the time of NCCL's choice."""


@dataclass(frozen=True)
class Placed:
    """A machine on hosts: ``machine``, and its ``adapters`` int64[nodes, nics] as rows of the hosts. ``link_gbps``:
    rate of their fastest link (infinite if unknown); ``assumed``: whether the machine is assumed because the user named
    none."""

    machine: Machine
    adapters: np.ndarray
    link_gbps: float
    assumed: bool


NOT_TAKEN = ("opcode", "transport", "receives", "repost", "rate", "seed")


def fastest_link(link_gbps: np.ndarray, rows: np.ndarray) -> float:
    """Return the data rate of the fastest link of ``rows``; 0 if the rate of any of them is unknown."""
    links = link_gbps[rows] if len(link_gbps) else np.zeros(1)
    return float(links.max(initial=0.0)) if (links > 0).all() else 0.0


def assumed_machine(link_gbps: np.ndarray, rows: np.ndarray) -> Machine:
    """Return the node that is assumed for a job on ``rows`` if the job names no machine."""
    return machine_of_links(fastest_link(link_gbps, rows))


def machine_of_job(job: Gpus, names: tuple[str, ...], rows: np.ndarray, link_gbps: np.ndarray) -> Placed:
    """Return the node that ``job`` describes, and its adapters among ``rows`` of the hosts. Options that are not given
    are those of the vendor's node with links of this rate. The rate of adapters is limited to that of their links.
    ``link_gbps`` float64 by host: data rates of links (0 or absent if unknown). Raises :class:`UnknownName`, and
    :class:`InputError` if the adapters are not whole nodes."""
    given = sorted(set(NOT_TAKEN) & job.model_fields_set)
    if given:
        raise InputError(f"{job.pattern} has no option {given[0]}: NCCL determines the messages")  # type: ignore[attr-defined]
    machine = assumed_machine(link_gbps, rows) if job.machine is None else machine_of(job.machine)
    placed = placed_on(machine, names, rows, link_gbps, job.nics)
    changes: dict[str, Any] = {}
    for name in ("gpus", "gpudirect", "cpu", "sharp", "per_process"):
        value = getattr(job, name, None)
        if value is not None:
            changes[name] = value
    if job.gpu_nic is not None:
        changes["gpu_nic_gbps"] = job.gpu_nic
    return replace(placed, machine=placed.machine.but(**changes), assumed=job.machine is None)


def placed_on(
    machine: Machine, names: tuple[str, ...], rows: np.ndarray, link_gbps: np.ndarray, nics: int | None = None
) -> Placed:
    """Return ``machine`` on the adapters ``rows`` of the hosts; the rate of adapters is limited to that of their links.
    ``nics`` as in a job. Raises :class:`InputError` if ``rows`` do not form whole nodes."""
    link = fastest_link(link_gbps, rows)
    adapters = nodes_of(names, rows, nics)
    if nics is None and machine.hosts > 1:
        adapters = _domains(adapters, machine)
        share = adapters.shape[1] / machine.nics
        machine = machine.but(gpus=max(1, round(machine.gpus * share)))
    slower = min(machine.nic_gbps, link or math.inf)
    return Placed(machine.but(nics=adapters.shape[1], nic_gbps=slower), adapters, link or math.inf, False)


def _domains(adapters: np.ndarray, machine: Machine) -> np.ndarray:
    """Return the adapters of each NVLink domain of ``machine.hosts`` hosts. If there are fewer hosts, they are a
    single, smaller domain."""
    hosts = min(machine.hosts, len(adapters))
    if len(adapters) % hosts:
        raise InputError(
            f"{counted(len(adapters), 'host')} are not whole NVLink domains of {machine.hosts} ({machine.name}); "
            f"choose hosts"
        )
    return adapters.reshape(-1, hosts * adapters.shape[1])


def run_of(job: Nccl, names: tuple[str, ...], rows: np.ndarray, link_gbps: np.ndarray = NONE) -> Run:
    """Return the run of ``job`` on the adapters ``rows``; ``link_gbps`` float64 by host: data
    rates of their links (0 or absent if unknown). Raises :class:`InputError` if they are not whole nodes,
    or NCCL does not run it."""
    placed = machine_of_job(job, names, rows, link_gbps)
    machine, adapters = placed.machine, placed.adapters
    collective = Collective(job.pattern.removeprefix("nccl-"))  # type: ignore[attr-defined]
    by = choose(
        collective,
        job.size,
        machine,
        len(adapters),
        algorithm=job.algorithm,
        protocol=job.protocol,
        nccl=job.nccl,
    )
    return Run(collective, by, job.size, machine, adapters, machine.values, placed.link_gbps)


def part_of_job(job: Nccl, names: tuple[str, ...], rows: np.ndarray, link_gbps: np.ndarray = NONE) -> JobMessages:
    """Return the messages of ``job``; ``link_gbps`` as in :func:`run_of`."""
    return part_of(run_of(job, names, rows, link_gbps), job.detail)


def figures_of(
    job: Nccl, names: tuple[str, ...], rows: np.ndarray, link_gbps: np.ndarray, took_us: float
) -> dict[str, Any]:
    """Return algorithm and bus bandwidth in GB/s as in nccl-tests (PERFORMANCE.md there), and the machine, algorithm,
    protocol and number of channels."""
    run = run_of(job, names, rows, link_gbps)
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
        "machine": str(run.machine),
        "nccl": job.nccl,
    }


def slower_adapters(device_text: str, machine: Machine, link_gbps: float) -> list[str]:
    """Return a note if the adapters of ``machine`` are slower than their links (``link_gbps``; infinite if unknown)."""
    if math.isinf(link_gbps) or link_gbps <= machine.nic_gbps * 1.01:
        return []
    return [
        f"{device_text}: the links carry {link_gbps:g} Gb/s, the adapters of {machine.name} {machine.nic_gbps:g} Gb/s, "
        "which limits the run; name a machine with faster adapters if yours has them"
    ]


def notes_of(job: Nccl, names: tuple[str, ...], rows: np.ndarray, link_gbps: np.ndarray) -> list[str]:
    """Return notes on adapters that are slower than the links, and on an algorithm and protocol
    that would be much faster than NCCL's choice on an idle network. NCCL uses the combination that is fastest in its
    tuning model. The model can be wrong, so a larger size may take less time than a smaller one."""
    run = run_of(job, names, rows, link_gbps)
    slower = slower_adapters(job.pattern_name, run.machine, run.link_gbps)
    if job.algorithm or job.protocol:
        return slower
    law = lambda by: predicted_us(run.collective, by, run.size, run.machine, run.nodes, run.values)
    others = possible(run.collective, run.machine, run.nodes, job.nccl)
    best = min(others, key=law, default=run.by)
    share = law(best) / law(run.by)
    if share > FASTER:
        return slower
    return [
        *slower,
        f"{job.pattern_name}: NCCL's tuning model chooses {run.by} for {run.size:,} bytes; on an idle network "
        f"{best} takes {share:.2f} of that time (algorithm={best.algorithm},protocol={best.protocol})",
    ]
