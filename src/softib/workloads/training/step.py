"""A training step as messages: stages compute micro-batches (one forward, one backward), hand
activations on, and sum up gradients.

Tensor and expert parallel stand on the path of each micro-batch, so their collectives are time of
the stage, by NCCL's law on an unloaded network. Activations between stages and the collectives of
the data-parallel groups are messages on the fabric. Gradients go in ``buckets``, each as soon as
the backward pass of the last micro-batch has made it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from softib.errors import InputError
from softib.plural import counted
from softib.sim.messages import Opcode
from softib.workloads.nccl.constants import Collective
from softib.workloads.nccl.law import adapter_gbytes, predicted_us
from softib.workloads.nccl.machine import Machine
from softib.workloads.nccl.tuning import choose
from softib.workloads.parameters import Section
from softib.workloads.pattern import JobMessages
from softib.workloads.training.gradients import exchange
from softib.workloads.training.model import ELEMENT, Layout, Network, Transformer

__all__ = ["Columns", "Step", "order_of", "part_of"]


@dataclass(frozen=True)
class Step:
    """What runs. ``flops``: of one GPU a second that it achieves; ``overlap``: do gradients go
    while the backward pass runs; ``adapters`` int64[nodes, nics]; ``gradient_octets``: of one
    gradient; ``nccl``: its version; ``zero``: ZeRO's stage, 0 to 3; ``sequence_parallel``: a tensor
    group shares what lies between its layers, too."""

    def __post_init__(self) -> None:
        if self.zero >= 2 and self.layout.pipeline > 1:
            raise InputError(
                f"ZeRO stage {self.zero} with {self.layout.pipeline} stages of a pipeline is nothing that "
                f"libraries run: take zero 1, or pipeline 1"
            )

    model: Transformer | Network
    layout: Layout
    micro_batch: int
    flops: float
    machine: Machine
    adapters: np.ndarray
    values: Section
    buckets: int = 8
    overlap: bool = True
    zero: int = 0
    sequence_parallel: bool = False
    gradient_octets: int = ELEMENT
    nccl: str = "2.30"

    def collective_us(self, collective: Collective, octets: float, ranks: int, stride: int) -> float:
        """µs of a collective of ``ranks`` GPUs, each ``stride`` ranks from the next."""
        if ranks < 2 or octets < 1:
            return 0.0
        local = max(1, min(ranks, self.machine.gpus // stride))
        group = self.machine.part(local, max(1, min(local, self.machine.nics)))
        nodes = -(-ranks // local)
        by = choose(collective, max(int(octets), 1), group, nodes, nccl=self.nccl)
        return predicted_us(collective, by, max(int(octets), 1), group, nodes, self.values)

    @property
    def forward_us(self) -> float:
        """µs of one micro-batch in one stage, forward, with two all-reduces of a layer and two
        all-to-alls of its experts."""
        lay, m = self.layout, self.model
        repeats = 4.0 if m.recompute else 3.0
        compute = m.flops(self.micro_batch) / repeats / (lay.tensor * lay.pipeline) / self.flops * 1e6
        return compute + self._exchange_us

    @property
    def backward_us(self) -> float:
        """The same backward: twice the operations, three times with activations computed again."""
        repeats = 4.0 if self.model.recompute else 3.0
        compute = self.model.flops(self.micro_batch) / (self.layout.tensor * self.layout.pipeline) / self.flops * 1e6
        return compute * (repeats - 1) / repeats + self._exchange_us * (2 if self.model.recompute else 1)

    @property
    def _exchange_us(self) -> float:
        lay, m = self.layout, self.model
        octets = m.activation_octets * self.micro_batch
        if (
            self.sequence_parallel
        ):  # Korthikanti et al., MLSys 2023, 4.2: an all-gather and a reduce-scatter for each all-reduce
            halves = (Collective.ALL_GATHER, Collective.REDUCE_SCATTER)
            tensor = 2 * sum(self.collective_us(c, octets, lay.tensor, 1) for c in halves)
        else:
            tensor = 2 * self.collective_us(Collective.ALL_REDUCE, octets, lay.tensor, 1)
        expert = 2 * self.collective_us(Collective.ALL_TO_ALL, octets * m.top_k / lay.tensor, lay.expert, lay.tensor)
        return (tensor + expert) * m.layers / lay.pipeline


def order_of(stage: int, stages: int, micro_batches: int) -> list[tuple[bool, int]]:
    """``(backward, micro-batch)`` in the order of a stage: as many forward first as there are
    stages behind it, then one forward, one backward (1F1B, Narayanan et al. 2021, figure 4)."""
    ahead = min(stages - 1 - stage, micro_batches)
    done = [(False, k) for k in range(ahead)]
    for k in range(micro_batches - ahead):
        done += [(False, ahead + k), (True, k)]
    return done + [(True, k) for k in range(micro_batches - ahead, micro_batches)]


class Columns:
    """Rows in the making."""

    def __init__(self) -> None:
        self.rows: list[np.ndarray] = []
        self.rates: list[np.ndarray] = []
        self.numbers = 0
        self.waits: list[np.ndarray] = []
        self.needs: list[np.ndarray] = []
        self.count = 0

    def add(
        self,
        src: np.ndarray,
        dst: np.ndarray,
        size: float | np.ndarray,
        qp: np.ndarray,
        delay_us: float,
        computes: bool,
        rate_gbps: float | np.ndarray = 0.0,
    ) -> np.ndarray:
        """Rows of one kind."""
        n = len(src)
        fill = lambda value: np.full(n, value, np.int64)
        opcode = int(Opcode.COMPUTE if computes else Opcode.WRITE)
        octets = np.broadcast_to(np.maximum(np.round(size), 1).astype(np.int64), n)
        self.rows.append(np.stack([src, dst, octets, qp, fill(round(delay_us * 1e6)), fill(opcode)]))
        self.rates.append(np.broadcast_to(np.asarray(rate_gbps, np.float64), n))
        self.count += n
        return np.arange(self.count - n, self.count)

    def lines(self, count: int) -> np.ndarray:
        """Numbers of ``count`` more queue pairs."""
        self.numbers += count
        return np.arange(self.numbers - count, self.numbers)

    def need(self, rows: np.ndarray, on: np.ndarray) -> None:
        """Each waits for its own."""
        a, b = np.broadcast_arrays(rows, on)
        self.waits.append(a.reshape(-1))
        self.needs.append(b.reshape(-1))


def part_of(step: Step) -> JobMessages:
    """The messages of one step. Raises :class:`InputError` where there are more ranks than GPUs."""
    lay, machine = step.layout, step.machine
    nodes = len(step.adapters)
    if lay.gpus > nodes * machine.gpus:
        raise InputError(
            f"{counted(lay.gpus, 'rank')} on {counted(nodes, 'node')} with {machine.gpus} GPUs each: there "
            f"are {nodes * machine.gpus:,}"
        )
    nic = np.array([machine.nic_of(g) for g in range(machine.gpus)])
    rank = np.arange(lay.gpus)
    host = step.adapters[rank // machine.gpus, nic[rank % machine.gpus]].reshape(lay.pipeline, lay.data, lay.tensor)
    rows = Columns()
    exchange(step, rows, *_pipeline(step, rows, host))
    src, dst, size, qp, delay, opcode = np.concatenate(rows.rows, axis=1)
    none = np.zeros(0, np.int64)
    waits, needs = (np.concatenate(c) if c else none for c in (rows.waits, rows.needs))
    return JobMessages(
        src,
        dst,
        size,
        np.unique(qp, return_inverse=True)[1],
        waits,
        needs,
        opcode=opcode,
        delay_ps=delay,
        rate_gbps=np.concatenate(rows.rates),
    )


def _pipeline(
    step: Step, rows: Columns, host: np.ndarray
) -> tuple[list[list[np.ndarray]], dict[tuple[int, bool, int], np.ndarray]]:
    """Computations of all stages and replicas, and activations between stages; returns the rows
    [data] of each bucket of the backward passes that are summed up, by stage, and the first and
    last rows [2, data] of each pass (stage, backward, micro-batch)."""
    lay = step.layout
    stages, replicas, micro = lay.pipeline, lay.data, lay.micro_batches
    octets = (
        step.model.activation_octets * step.micro_batch / lay.tensor
    )  # each of a tensor group sends its part (scatter/gather, section 4.1)
    done: dict[tuple[int, bool, int], np.ndarray] = {}
    buckets: list[list[np.ndarray]] = [[] for _ in range(stages)]
    orders = [order_of(s, stages, micro) for s in range(stages)]
    replica = np.arange(replicas)
    lines = rows.lines(stages * replicas * (1 + 2 * lay.tensor))
    for stage in range(stages):
        before: np.ndarray | None = None
        for backward, k in orders[stage]:
            took = step.backward_us if backward else step.forward_us
            summed = backward and (k == micro - 1 or step.zero >= 2)
            pieces = step.buckets if summed else 1
            first: np.ndarray | None = None
            for _ in range(pieces):
                at = rows.add(
                    host[stage, :, 0], host[stage, :, 0], 1, lines[stage * replicas + replica], took / pieces, True
                )
                if before is not None:
                    rows.need(at, before)
                first, before = (at if first is None else first), at
                if summed:
                    buckets[stage].append(at)
            assert first is not None and before is not None
            done[stage, backward, k] = np.stack([first, before])
    base = stages * replicas
    for stage in range(stages - 1):
        for k in range(micro):
            for a, b, backward in ((stage, stage + 1, False), (stage + 1, stage, True)):
                for t in range(lay.tensor):
                    src, dst = host[a, :, t], host[b, :, t]
                    line = base + ((stage * 2 + backward) * replicas + replica) * lay.tensor + t
                    at = _handed(step, rows, src, dst, octets, lines[line])
                    rows.need(at, done[a, backward, k][1])
                    rows.need(done[b, backward, k][0], at)
    return buckets, done


def _handed(step: Step, rows: Columns, src: np.ndarray, dst: np.ndarray, octets: float, line: np.ndarray) -> np.ndarray:
    """Octets from rank to rank: a message, or time of NVLink where both are in one node."""
    node = np.zeros(int(step.adapters.max()) + 1, np.int64)
    node[step.adapters] = np.arange(len(step.adapters))[:, None]
    local = node[src] == node[dst]
    found = np.zeros(len(src), np.int64)
    inside = octets / (step.machine.gpu.nvlink_gbytes * 1e3)
    found[local] = rows.add(src[local], src[local], 1, line[local], inside, True)
    rate = adapter_gbytes(step.machine, step.values) * 8
    found[~local] = rows.add(src[~local], dst[~local], octets, line[~local], 0.0, False, rate)
    return found
