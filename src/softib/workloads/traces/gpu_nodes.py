"""For programs whose ranks are GPUs: the nodes of GPUs on a fabric, and the costs of messages between GPUs."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from softib.errors import InputError
from softib.plural import counted
from softib.workloads.nccl.constants import Collective
from softib.workloads.nccl.job import assumed_machine, placed_on
from softib.workloads.nccl.law import adapter_gbytes, hops_of
from softib.workloads.nccl.machine import GPUS, Machine, machine_of
from softib.workloads.nccl.tuning import choose
from softib.workloads.schedule.overheads import Overheads
from softib.workloads.traces.chakra import Node
from softib.workloads.traces.torch_profile import DEVICE, DEVICES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from softib.workloads.hosts import Hosts
    from softib.workloads.jobs import Trace

__all__ = ["GpuNodes", "gpu_nodes"]


@dataclass(frozen=True)
class GpuNodes:
    """``machine``: a node with one GPU for each of its ranks; ``adapters`` int64[nodes, nics], rows of the
    hosts. Rank r is GPU ``r % machine.gpus`` of node ``r // machine.gpus``. ``source``: why this machine was chosen, as
    text for notes; ``link_gbps``: rate of the fastest link (infinite: unknown)."""

    machine: Machine
    adapters: np.ndarray
    source: str
    link_gbps: float

    @cached_property
    def nic(self) -> np.ndarray:
        """Return the number of the adapter that each GPU of a node uses."""
        return np.array([self.machine.nic_of(g) for g in range(self.machine.gpus)])

    def node(self, ranks: np.ndarray) -> np.ndarray:
        """Return the first adapter of each rank's node."""
        return np.asarray(self.adapters[ranks // self.machine.gpus, 0])

    def adapter(self, ranks: np.ndarray) -> np.ndarray:
        """Return the adapter of each rank."""
        return np.asarray(self.adapters[ranks // self.machine.gpus, self.nic[ranks % self.machine.gpus]])

    def check(self, name: str, ranks: int) -> None:
        """Raise :class:`InputError` if there are fewer GPUs than ``ranks``. ``name`` is that of the trace."""
        nodes, each = len(self.adapters), self.machine.gpus
        if ranks > nodes * each:
            raise InputError(
                f"{name} has {counted(ranks, 'rank')}; {counted(nodes, 'node')} of {counted(each, 'GPU')} take "
                f"{nodes * each:,}; use a larger fabric, or more GPUs on each host with "
                f"ranks-per-host={-(-ranks // max(self.adapters.size, 1))}"
            )

    @property
    def overheads(self) -> Overheads:
        """Return the costs of NCCL's sends and receives. Inside a node they use NVLink; between nodes they are limited
        to the rate between GPUs and adapters."""
        m, v = self.machine, self.machine.values
        by = choose(Collective.SEND_RECV, 1, m, 2)
        hops = hops_of(by, m, 2, v)
        return Overheads(
            name="nccl",
            memory_ns=1000 * (hops.launch + hops.inside),
            memory_ps=1000 / m.gpu.nvlink_gbytes,
            latency_ns=1000 * (hops.launch + max(0.0, hops.across - v["wire"])),
            rate_gbps=8 * adapter_gbytes(m, v),
        )


def gpu_nodes(job: Trace, traces: Sequence[list[Node]], hosts: Hosts, rows: np.ndarray) -> GpuNodes | None:
    """Return the nodes of GPUs that ``job`` runs on: None unless it is a profile or names a machine. The machine is the
    one that the job names, otherwise the vendor's node of the GPU in the profile, otherwise the machine that is assumed
    for the links. Raises :class:`InputError`."""
    first = traces[0][0] if traces and traces[0] else Node()
    if job.machine is None and first.get(DEVICE) is None:
        return None
    device = str(first.get(DEVICE, ""))
    named = _of_device(device)
    if job.machine is not None:
        machine, source = machine_of(job.machine), ""
    elif named is not None:
        machine, source = named, f"the GPU of the trace, {device}"
    else:
        machine, source = assumed_machine(hosts.gbps, rows), "assumed from the links; use machine=NAME for others"
    placed = placed_on(machine, hosts.name, rows, hosts.gbps)
    spanned = min(placed.machine.hosts, len(rows))
    devices = int(first.get(DEVICES, 0))
    each = placed.adapters.shape[1] * job.ranks_per_host if job.ranks_per_host else devices * spanned
    each = each or placed.adapters.shape[1]
    return GpuNodes(placed.machine.but(gpus=each), placed.adapters, source, placed.link_gbps)


def _of_device(name: str) -> Machine | None:
    """Return the vendor's node of the GPU that CUDA calls ``name``, for example NVIDIA H100 80GB HBM3."""
    parts = name.upper().replace("-", " ").split()
    return next((machine_of(gpu) for gpu in GPUS if gpu in parts), None)
