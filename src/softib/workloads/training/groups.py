"""Communicators of a layout: the GPUs and adapters of each data-parallel, tensor or expert group, and
its collectives as flows on the fabric."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from softib.workloads.nccl.flows import flows_of
from softib.workloads.nccl.net_ib import Run
from softib.workloads.nccl.tuning import choose

if TYPE_CHECKING:
    from softib.workloads.nccl.constants import Collective
    from softib.workloads.nccl.flows import Flows
    from softib.workloads.nccl.machine import Machine
    from softib.workloads.training.columns import Columns
    from softib.workloads.training.step import Step

__all__ = ["Group", "Groups", "part_of_nodes"]

At = tuple[int, int]
"""A stage, and the rank in its tensor groups."""


@dataclass(frozen=True)
class Group:
    """One communicator. ``positions`` int64[…]: its replicas; ``machine``: the part of a node that it uses;
    ``adapters`` int64[nodes, nics]; ``sharing``: number of groups that use the busiest of these adapters."""

    positions: np.ndarray
    machine: Machine
    adapters: np.ndarray
    sharing: int


def part_of_nodes(ranks: np.ndarray, machine: Machine, adapters: np.ndarray) -> tuple[Machine, np.ndarray]:
    """Return the part of a node that the communicator of ``ranks`` (ascending) uses, and its adapters, of
    ``adapters`` int64[nodes, nics]."""
    nic = np.array([machine.nic_of(g) for g in range(machine.gpus)])
    node, gpu = np.divmod(ranks, machine.gpus)
    nodes, first = np.unique(node, return_index=True)
    nics = [np.unique(part) for part in np.split(nic[gpu], first[1:])]
    width = min(len(part) for part in nics)  # NCCL uses the smallest number of channels of any rank
    local = -(-len(ranks) // len(nodes))
    used = np.array([adapters[n, part[:width]] for n, part in zip(nodes, nics, strict=True)])
    return machine.part(local, width), used


class Groups:
    """Communicators of one kind. ``members``: the number of ranks of each; ``positions``: their
    replicas, by stage and rank of the tensor group."""

    def __init__(self, step: Step, members: dict[At, list[tuple[np.ndarray, np.ndarray]]]):
        self.step = step
        self._flows: dict[tuple[int, int, int, Collective, int, int], tuple[Flows, np.ndarray]] = {}
        gpus, nics = step.machine.gpus, step.machine.nics
        nic = np.array([step.machine.nic_of(g) for g in range(gpus)])
        adapter = lambda ranks: ranks // gpus * nics + nic[ranks % gpus]
        users = np.bincount(np.concatenate([np.unique(adapter(r)) for of in members.values() for r, _ in of]))
        self.groups = {
            at: [self._group(r, p, int(users[adapter(r)].max())) for r, p in of] for at, of in members.items()
        }

    @classmethod
    def of_replicas(cls, step: Step, members: int, apart: int) -> Groups:
        """Return groups of ``members`` replicas, each ``apart`` from the next."""
        lay = step.layout
        ranks = np.arange(lay.gpus).reshape(lay.pipeline, lay.data, lay.tensor)
        every = [np.arange(a, members * apart, apart) for a in range(apart)]
        return cls(
            step,
            {(p, t): [(ranks[p, d, t], d) for d in every] for p in range(lay.pipeline) for t in range(lay.tensor)},
        )

    @classmethod
    def of_tensors(cls, step: Step) -> Groups:
        """Return the GPUs that share the layers of a replica, by stage."""
        lay = step.layout
        ranks = np.arange(lay.gpus).reshape(lay.pipeline, lay.data, lay.tensor)
        return cls(step, {(p, 0): [(ranks[p, d], np.array([d])) for d in range(lay.data)] for p in range(lay.pipeline)})

    @classmethod
    def of_experts(cls, step: Step) -> Groups:
        """Return the GPUs of neighbouring replicas that share experts."""
        lay = step.layout
        ranks = np.arange(lay.gpus).reshape(lay.pipeline, lay.data, lay.tensor)
        every = np.arange(lay.data).reshape(-1, lay.expert)
        return cls(
            step,
            {(p, t): [(ranks[p, d, t], d) for d in every] for p in range(lay.pipeline) for t in range(lay.tensor)},
        )

    def _group(self, ranks: np.ndarray, positions: np.ndarray, sharing: int) -> Group:
        return Group(positions, *part_of_nodes(ranks, self.step.machine, self.step.adapters), sharing)

    def add(
        self,
        rows: Columns,
        collective: Collective,
        octets: float,
        at: At,
        needs: np.ndarray,
        ended: np.ndarray,
        *,
        times: int = 1,
        rank_us: float = 0.0,
        each_us: float = 0.0,
    ) -> None:
        """Add ``times`` collectives of ``octets`` bytes, one after another, on each group of ``at``. Each takes an
        additional ``rank_us`` per rank, and an additional ``each_us``. ``needs`` int64[data]: the row that each replica
        waits for (-1: none). ``ended`` int64[data]: the last row of each replica's previous collective (-1: none); the
        function replaces it with the last row of the new collective."""
        for g, group in enumerate(self.groups[at]):
            flows, lines = self._of(rows, group, (*at, g, collective, max(round(octets), 1), times))
            first = group.adapters[:1, 0]
            more_us = times * (rank_us * len(group.positions) + each_us)
            begin = rows.add(first, first, 1, lines[:1], flows.begin_us + more_us, True)
            rows.need(begin, np.unique(np.concatenate([needs[group.positions], ended[group.positions]])))
            end = begin
            if len(flows.src):
                sent = rows.add(
                    flows.src, flows.dst, flows.size, lines[1 + flows.connection], 0.0, False, flows.rate_gbps
                )
                rows.need(sent, begin)
                end = rows.add(first, first, 1, lines[:1], 0.0, True)
                rows.need(end, sent)
            ended[group.positions] = end[0]

    def _of(
        self, rows: Columns, group: Group, key: tuple[int, int, int, Collective, int, int]
    ) -> tuple[Flows, np.ndarray]:
        """Return the flows of a collective and the numbers of its queue pairs."""
        if key not in self._flows:
            collective, octets, times = key[3:]
            nodes, step = len(group.adapters), self.step
            by = choose(collective, octets, group.machine, nodes, nccl=step.nccl)
            run = Run(collective, by, octets, group.machine, group.adapters, step.values)
            flows = flows_of(run, times).slower(group.sharing)  # groups that share an adapter divide its rate
            self._flows[key] = flows, rows.lines(1 + int(flows.connection.max(initial=-1)) + 1)
        return self._flows[key]
