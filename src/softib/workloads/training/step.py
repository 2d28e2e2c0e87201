"""A training step as messages: stages compute micro-batches (one forward, one backward), hand activations on, and sum up gradients.

Tensor and expert parallel stand on the path of each micro-batch, so their collectives are time of the stage, by NCCL's law on an unloaded
network. Activations between stages and the rings of the data-parallel groups are messages on the fabric. Gradients go in ``buckets``, each as soon as
the backward pass of the last micro-batch has made it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from softib.errors import InputError
from softib.sim.messages import Opcode
from softib.workloads.nccl.constants import Algorithm, Collective, Protocol
from softib.workloads.nccl.law import nic_gbytes, predicted_us
from softib.workloads.nccl.machine import Machine
from softib.workloads.nccl.tuning import Choice, choose
from softib.workloads.parameters import Section
from softib.workloads.patterns import Part
from softib.workloads.training.model import Layout, Transformer

__all__ = ["Step", "order_of", "part_of"]

MOST_OCTETS = 1 << 30
RING = Choice(Algorithm.RING, Protocol.SIMPLE)


@dataclass(frozen=True)
class Step:
    """What runs. ``flops``: of one GPU a second that it achieves; ``overlap``: do gradients go while the backward pass runs; ``adapters``
    int64[nodes, nics]."""

    model: Transformer
    layout: Layout
    micro_batch: int
    flops: float
    machine: Machine
    adapters: np.ndarray
    values: Section
    buckets: int = 8
    overlap: bool = True

    def collective_us(self, collective: Collective, octets: float, ranks: int, stride: int) -> float:
        """µs of a collective of ``ranks`` GPUs, each ``stride`` ranks from the next."""
        if ranks < 2 or octets < 1:
            return 0.0
        local = max(1, min(ranks, self.machine.gpus // stride))
        group = self.machine.but(gpus=local, nics=max(1, min(local, self.machine.nics)))
        nodes = -(-ranks // local)
        by = choose(collective, max(int(octets), 1), group, nodes)
        return predicted_us(collective, by, max(int(octets), 1), group, nodes, self.values)

    @property
    def forward_us(self) -> float:
        """µs of one micro-batch in one stage, forward, with two all-reduces of a layer and two all-to-alls of its experts."""
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
        tensor = 2 * self.collective_us(Collective.ALL_REDUCE, octets, lay.tensor, 1)
        expert = 2 * self.collective_us(Collective.ALL_TO_ALL, octets * m.top_k / lay.tensor, lay.expert, lay.tensor)
        return (tensor + expert) * m.layers / lay.pipeline


def order_of(stage: int, stages: int, micro_batches: int) -> list[tuple[bool, int]]:
    """``(backward, micro-batch)`` in the order of a stage: as many forward first as there are stages behind it, then one forward, one backward (1F1B, Narayanan
    et al. 2021, figure 4)."""
    ahead = min(stages - 1 - stage, micro_batches)
    done = [(False, k) for k in range(ahead)]
    for k in range(micro_batches - ahead):
        done += [(False, ahead + k), (True, k)]
    return done + [(True, k) for k in range(micro_batches - ahead, micro_batches)]


class _Columns:
    """Rows in the making."""

    def __init__(self) -> None:
        self.rows: list[np.ndarray] = []
        self.waits: list[np.ndarray] = []
        self.needs: list[np.ndarray] = []
        self.count = 0

    def add(
        self, src: np.ndarray, dst: np.ndarray, size: float, qp: np.ndarray, delay_us: float, computes: bool
    ) -> np.ndarray:
        """Rows of one kind."""
        n = len(src)
        fill = lambda value: np.full(n, value, np.int64)
        opcode = int(Opcode.COMPUTE if computes else Opcode.WRITE)
        self.rows.append(np.stack([src, dst, fill(max(round(size), 1)), qp, fill(round(delay_us * 1e6)), fill(opcode)]))
        self.count += n
        return np.arange(self.count - n, self.count)

    def need(self, rows: np.ndarray, on: np.ndarray) -> None:
        """Each waits for its own."""
        a, b = np.broadcast_arrays(rows, on)
        self.waits.append(a.reshape(-1))
        self.needs.append(b.reshape(-1))


def part_of(step: Step) -> Part:
    """The messages of one step. Raises :class:`InputError` where there are more ranks than GPUs."""
    lay, machine = step.layout, step.machine
    nodes = len(step.adapters)
    if lay.gpus > nodes * machine.gpus:
        raise InputError(
            f"{lay.gpus:,} ranks on {nodes:,} nodes with {machine.gpus} GPUs each: there are {nodes * machine.gpus:,}"
        )
    nic = np.array([machine.nic_of(g) for g in range(machine.gpus)])
    rank = np.arange(lay.gpus)
    host = step.adapters[rank // machine.gpus, nic[rank % machine.gpus]].reshape(lay.pipeline, lay.data, lay.tensor)
    rows = _Columns()
    last = _pipeline(step, rows, host)
    _gradients(step, rows, host, last)
    src, dst, size, qp, delay, opcode = np.concatenate(rows.rows, axis=1)
    none = np.zeros(0, np.int64)
    waits, needs = (np.concatenate(c) if c else none for c in (rows.waits, rows.needs))
    rate = nic_gbytes(machine, step.values) * step.values["nic_share"] * 8
    return Part(
        src, dst, size, np.unique(qp, return_inverse=True)[1], waits, needs, opcode=opcode, delay_ps=delay,
        rate_gbps=np.where(opcode == int(Opcode.COMPUTE), 0.0, rate),
    )  # fmt: skip


def _pipeline(step: Step, rows: _Columns, host: np.ndarray) -> list[list[np.ndarray]]:
    """Computations of all stages and replicas, and activations between stages; returns the rows [data] of each bucket of the last backward pass, by stage."""
    lay = step.layout
    stages, replicas, micro = lay.pipeline, lay.data, lay.micro_batches
    octets = (
        step.model.activation_octets * step.micro_batch / lay.tensor
    )  # each of a tensor group sends its part (scatter/gather, section 4.1)
    done: dict[tuple[int, bool, int], np.ndarray] = {}
    buckets: list[list[np.ndarray]] = [[] for _ in range(stages)]
    orders = [order_of(s, stages, micro) for s in range(stages)]
    replica = np.arange(replicas)
    for stage in range(stages):
        before: np.ndarray | None = None
        for backward, k in orders[stage]:
            took = step.backward_us if backward else step.forward_us
            pieces = step.buckets if backward and k == micro - 1 else 1
            first: np.ndarray | None = None
            for _ in range(pieces):
                at = rows.add(host[stage, :, 0], host[stage, :, 0], 1, stage * replicas + replica, took / pieces, True)
                if before is not None:
                    rows.need(at, before)
                first, before = (at if first is None else first), at
                if pieces > 1 or (backward and k == micro - 1):
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
                    at = _handed(step, rows, src, dst, octets, line)
                    rows.need(at, done[a, backward, k][1])
                    rows.need(done[b, backward, k][0], at)
    return buckets


def _handed(
    step: Step, rows: _Columns, src: np.ndarray, dst: np.ndarray, octets: float, line: np.ndarray
) -> np.ndarray:
    """Octets from rank to rank: a message, or time of NVLink where both use one adapter or sit in one node."""
    width = step.adapters.shape[1]
    node = {int(a): i // width for i, a in enumerate(step.adapters.reshape(-1))}
    local = np.array([node[int(a)] == node[int(b)] for a, b in zip(src, dst, strict=True)])
    if local.all():
        return rows.add(src, src, 1, line, octets / (step.machine.gpu.nvlink_gbytes * 1e3), True)
    if local.any():
        raise InputError(
            "some stages are in one node with the next and others are not; choose tensor and pipeline that fill nodes"
        )
    return rows.add(src, dst, octets, line, 0.0, False)


def _gradients(step: Step, rows: _Columns, host: np.ndarray, made: list[list[np.ndarray]]) -> None:
    """The rings of the data-parallel groups: in each bucket every rank sends 2 (d - 1) / d of its share to the next."""
    lay, m = step.layout, step.machine
    shared, experts = lay.gradient_octets(step.model)
    line = lay.pipeline * lay.data * (1 + 2 * lay.tensor)
    rate = nic_gbytes(m, step.values) * step.values["nic_share"]
    for octets, members, apart in ((shared, lay.data, 1), (experts, lay.data // lay.expert, lay.expert)):
        if members < 2 or octets < 1:
            continue
        each = octets / step.buckets
        moved = 2 * (members - 1) / members * each
        latency = max(
            0.0, step.collective_us(Collective.ALL_REDUCE, each, members, lay.tensor * apart) - moved / (rate * 1e3)
        )
        position = np.arange(lay.data)
        nxt = (position // apart + 1) % members * apart + position % apart
        for stage in range(lay.pipeline):
            for bucket in range(step.buckets):
                ready = made[stage][bucket if step.overlap else -1]
                for t in range(lay.tensor):
                    src, dst = host[stage, :, t], host[stage, nxt, t]
                    number = line + (stage * lay.tensor + t) * lay.data + position
                    _ring_edges(step, rows, (src, dst), moved, number, latency, ready)
        line += lay.pipeline * lay.tensor * lay.data


def _ring_edges(
    step: Step, rows: _Columns, ends: tuple[np.ndarray, np.ndarray], octets: float, line: np.ndarray, latency: float, ready: np.ndarray
) -> None:  # fmt: skip
    """What goes over the edges of rings: between nodes as messages, inside as time."""
    src, dst = ends
    width = step.adapters.shape[1]
    order = np.argsort(step.adapters.reshape(-1))
    node = order[np.searchsorted(step.adapters.reshape(-1)[order], np.stack([src, dst]))] // width
    remote = node[0] != node[1]
    pieces = max(1, -(-round(octets) // MOST_OCTETS))
    for _ in range(pieces):
        if remote.any():
            at = rows.add(src[remote], dst[remote], octets / pieces, line[remote], latency, False)
            rows.need(at, ready[remote])
        latency = 0.0
    if (~remote).any():
        inside = octets / (step.machine.gpu.nvlink_gbytes * 1e3)
        at = rows.add(src[~remote], src[~remote], 1, line[~remote] + (1 << 40), latency + inside, True)
        rows.need(at, ready[~remote])
