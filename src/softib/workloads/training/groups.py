"""Communicators of data-parallel groups: the GPUs and adapters of each, and its collectives as
flows on the fabric."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from softib.workloads.nccl.flows import flows_of
from softib.workloads.nccl.net_ib import Run
from softib.workloads.nccl.tuning import choose

if TYPE_CHECKING:
    from softib.workloads.nccl.constants import Collective
    from softib.workloads.nccl.flows import Flows
    from softib.workloads.nccl.machine import Machine
    from softib.workloads.training.step import Columns, Step

__all__ = ["Group", "Groups"]


@dataclass(frozen=True)
class Group:
    """One communicator. ``positions`` int64[members]: its replicas; ``machine``: its part of a
    node; ``adapters`` int64[nodes, nics]; ``sharing``: groups that use the busiest of these
    adapters."""

    positions: np.ndarray
    machine: Machine
    adapters: np.ndarray
    sharing: int


class Groups:
    """All communicators of ``members`` replicas, each ``apart`` from the next."""

    def __init__(self, step: Step, members: int, apart: int):
        self.step, self.members, self.apart = step, members, apart
        self._flows: dict[tuple[int, int, int, Collective, int, str], tuple[Flows, np.ndarray]] = {}

    @cached_property
    def groups(self) -> dict[tuple[int, int], list[Group]]:
        """By stage and rank of the tensor group."""
        lay, machine, apart = self.step.layout, self.step.machine, self.apart
        rank = np.arange(lay.gpus)
        node, gpu = np.divmod(rank, machine.gpus)
        nic = np.array([machine.nic_of(g) for g in range(machine.gpus)])[gpu]
        place = rank // lay.tensor
        number = (place // lay.data * lay.tensor + rank % lay.tensor) * apart + place % lay.data % apart
        adapter = node * machine.nics + nic
        users = np.bincount(np.unique(np.stack([adapter, number]), axis=1)[0])
        found: dict[tuple[int, int], list[Group]] = {}
        for g, ranks in enumerate(np.argsort(number, kind="stable").reshape(-1, self.members)):
            nodes, first = np.unique(node[ranks], return_index=True)
            nics = [np.unique(part) for part in np.split(nic[ranks], first[1:])]
            width = min(len(part) for part in nics)  # NCCL takes the fewest channels that a rank finds
            local = -(-self.members // len(nodes))
            adapters = np.array([self.step.adapters[n, part[:width]] for n, part in zip(nodes, nics, strict=True)])
            group = Group(
                np.arange(g % apart, lay.data, apart),
                machine.part(local, width),
                adapters,
                int(users[adapter[ranks]].max()),
            )
            found.setdefault(divmod(g // apart, lay.tensor), []).append(group)
        return found

    def add(
        self,
        rows: Columns,
        collective: Collective,
        octets: float,
        at: tuple[int, int],
        stream: str,
        needs: np.ndarray,
        ended: np.ndarray,
    ) -> None:
        """A collective of ``octets`` on each group of (stage, rank of the tensor group) ``at``.
        ``needs`` int64[data]: the row that each replica waits for (-1: none). ``ended``
        int64[data]: the row with which each replica's collective before on ``stream`` ended (-1:
        none); set to that of this one."""
        for g, group in enumerate(self.groups[at]):
            flows, lines = self._of(rows, group, (*at, g, collective, max(round(octets), 1), stream))
            first = group.adapters[:1, 0]
            begin = rows.add(first, first, 1, lines[:1], flows.begin_us, True)
            waits = np.unique(np.concatenate([needs[group.positions], ended[group.positions]]))
            rows.need(begin, waits[waits >= 0])
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
        self, rows: Columns, group: Group, key: tuple[int, int, int, Collective, int, str]
    ) -> tuple[Flows, np.ndarray]:
        """The flows of a collective and the numbers of its queue pairs."""
        if key not in self._flows:
            collective, octets = key[3:5]
            nodes, step = len(group.adapters), self.step
            by = choose(collective, octets, group.machine, nodes, nccl=step.nccl)
            run = Run(collective, by, octets, group.machine, group.adapters, step.values)
            flows = flows_of(run).slower(group.sharing)  # together they have what one group would
            self._flows[key] = flows, rows.lines(1 + int(flows.connection.max(initial=-1)) + 1)
        return self._flows[key]
