"""Collectives of a trace as NCCL runs them on nodes of GPUs. A collective begins when all ranks of its group have
called it. First, the times of launch, NVLink and the latency of all hops pass. Then the adapters of all rails send the
data between nodes as flows. Inside one node, a collective only takes the time of :mod:`softib.workloads.nccl.law`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from softib.workloads.nccl.constants import Collective
from softib.workloads.nccl.flows import Flows, flows_of
from softib.workloads.nccl.net_ib import Run
from softib.workloads.nccl.tuning import choose
from softib.workloads.schedule.schedule import PROCESSORS, Kind
from softib.workloads.training.groups import part_of_nodes

if TYPE_CHECKING:
    from softib.workloads.schedule.builder import Builder
    from softib.workloads.traces.chakra_schedule import Call
    from softib.workloads.traces.gpu_nodes import GpuNodes

__all__ = ["NcclCollectives"]

LAUNCHED = {
    "all-reduce": Collective.ALL_REDUCE,
    "reduce": Collective.BROADCAST,
    "all-gather": Collective.ALL_GATHER,
    "broadcast": Collective.BROADCAST,
    "all-to-all": Collective.ALL_TO_ALL,
    "reduce-scatter": Collective.REDUCE_SCATTER,
    "reduce-scatter-block": Collective.REDUCE_SCATTER,
    "barrier": Collective.ALL_REDUCE,
}
"""Chakra's collective → NCCL's collective. A reduction is a broadcast's chain in the opposite
direction (src/device/reduce.h of NCCL). A barrier of PyTorch is an all-reduce of one number. Gather
and scatter are sends and receives."""
BARRIER_OCTETS = 4
COLLECTIVE_PROCESSORS = range(3, PROCESSORS)
"""Processors of a rank for its collectives, one for each group. The first three processors are those of
:mod:`~softib.workloads.traces.chakra_schedule`."""


class NcclCollectives:
    """Writes collectives as NCCL runs them on ``nodes``."""

    def __init__(self, nodes: GpuNodes, nccl: str = "2.30"):
        self.nodes, self.nccl = nodes, nccl
        self.latency_us = nodes.overheads.latency_ns / 1000
        """Time for which every message of a program waits; the start time of a collective includes it."""
        self.processors: dict[tuple[int, ...], int] = {}
        self.converted: dict[tuple[tuple[int, ...], str, int, int], tuple[Flows, np.ndarray, np.ndarray]] = {}

    def runs(self, collective: str) -> bool:
        """Return whether NCCL has ``collective``. Others are expanded to sends and receives."""
        return collective in LAUNCHED

    def write(
        self, build: Builder, together: Sequence[Call], collective: str, size: int, root: int, tag: int, label: str
    ) -> None:
        """Write one collective of all ranks in ``together``."""
        ranks = tuple(call.rank for call in together)
        number = self.processors.setdefault(ranks, len(self.processors))
        processor = COLLECTIVE_PROCESSORS[number % len(COLLECTIVE_PROCESSORS)]
        flows, source, target = self._flows(ranks, collective, size, root)
        begin_us = max(0.0, flows.begin_us - self.latency_us) if len(flows.src) else flows.begin_us
        gate = build.compute(ranks[0], round(begin_us * 1e6), processor=processor, label=label)
        for call in together:
            build.need(gate, call.begin)
        ended = gate
        if len(flows.src):
            ended = build.compute(ranks[0], 0, processor=processor, label=label)
            columns = (source, target, flows.size, _nth(flows.connection), flows.rate_gbps)
            for a, b, octets, nth, gbps in zip(*(c.tolist() for c in columns), strict=True):
                sent = build.message(Kind.SEND, a, b, octets, tag + nth, processor=processor, label=label, gbps=gbps)
                got = build.message(Kind.RECV, b, a, octets, tag + nth, processor=processor, label=label)
                build.need(sent, gate)
                build.need(ended, got)
        for call in together:
            build.need(call.end, ended)

    def _flows(
        self, ranks: tuple[int, ...], collective: str, size: int, root: int
    ) -> tuple[Flows, np.ndarray, np.ndarray]:
        """Return the flows of a collective, and the sending and the receiving rank of each flow."""
        key = (ranks, collective, size, root)
        if key not in self.converted:
            self.converted[key] = self._new(np.array(ranks), collective, size, root)
        return self.converted[key]

    def _new(self, ranks: np.ndarray, collective: str, size: int, root: int) -> tuple[Flows, np.ndarray, np.ndarray]:
        nodes, kind = self.nodes, LAUNCHED[collective]
        octets = size * len(ranks) if collective == "all-gather" else size
        octets = max(octets, BARRIER_OCTETS)
        machine, adapters = part_of_nodes(ranks, nodes.machine, nodes.adapters)
        if kind == Collective.BROADCAST:
            of_node = np.unique(ranks // nodes.machine.gpus)
            adapters = np.roll(adapters, -int(np.searchsorted(of_node, ranks[root] // nodes.machine.gpus)), axis=0)
        by = choose(kind, octets, machine, len(adapters), nccl=self.nccl)
        flows = flows_of(Run(kind, by, octets, machine, adapters, nodes.machine.values))
        used, first = np.unique(nodes.adapter(ranks), return_index=True)
        source, target = (ranks[first[np.searchsorted(used, side)]] for side in (flows.src, flows.dst))
        return (flows, target, source) if collective == "reduce" else (flows, source, target)


def _nth(connection: np.ndarray) -> np.ndarray:
    """Return the position of each message in its connection."""
    first = np.searchsorted(connection, connection)
    return np.arange(len(connection)) - first
