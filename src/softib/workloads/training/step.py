"""A training step as messages: computations and exchanges of its stages on the GPUs of a machine.

Collectives of tensor and expert groups inside a node add time to a pass, from NCCL's law on an
unloaded network. Those that cross nodes, activations between stages, and the collectives of
data-parallel groups are messages on the fabric.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from softib.errors import InputError
from softib.plural import counted
from softib.workloads.nccl.constants import Collective
from softib.workloads.nccl.law import predicted_us
from softib.workloads.nccl.machine import Machine
from softib.workloads.nccl.tuning import choose
from softib.workloads.parameters import Section
from softib.workloads.pattern import JobMessages
from softib.workloads.training.columns import Columns
from softib.workloads.training.compute import Passes, Processor, gradient_us, head_of, layer_of, network_of
from softib.workloads.training.gradients import exchange
from softib.workloads.training.model import ELEMENT, Layout, Network, Transformer
from softib.workloads.training.pipeline import pipeline

__all__ = ["Exchanged", "Step", "part_of"]


@dataclass(frozen=True)
class Exchanged:
    """Collectives of one kind in a layer, of ``octets`` bytes each. ``forward`` and ``backward``: their number in these
    passes."""

    collective: Collective
    octets: float
    forward: int
    backward: int


@dataclass(frozen=True)
class Step:
    """A step to run.

    * ``processor``: computes the times of operations on a GPU.
    * ``overlap``: gradients are sent during the backward pass.
    * ``adapters`` int64[nodes, nics].
    * ``gradient_octets``: bytes of one gradient.
    * ``nccl``: version of NCCL.
    * ``zero``: ZeRO's stage, 0 to 3.
    * ``sequence_parallel``: the GPUs of a tensor group also divide the operations between layers among them.
    * ``gather_lists``: collectives of ZeRO stage 3 take lists of tensors.
    """

    def __post_init__(self) -> None:
        if self.zero >= 2 and self.layout.pipeline > 1:
            raise InputError(
                f"ZeRO stage {self.zero} with {self.layout.pipeline} stages of a pipeline is not supported by "
                f"libraries; use zero 1, or pipeline 1"
            )
        if self.gather_lists and self.zero != 3:
            raise InputError("gather-lists needs ZeRO stage 3; add zero=3, or leave out gather-lists")

    model: Transformer | Network
    layout: Layout
    micro_batch: int
    processor: Processor
    machine: Machine
    adapters: np.ndarray
    values: Section
    buckets: int = 8
    overlap: bool = True
    zero: int = 0
    sequence_parallel: bool = False
    gradient_octets: int = ELEMENT
    nccl: str = "2.30"
    gather_lists: bool = False

    @cached_property
    def host(self) -> np.ndarray:
        """Return the adapters of all ranks, int64[pipeline, data, tensor]."""
        lay, machine = self.layout, self.machine
        nic = np.array([machine.nic_of(g) for g in range(machine.gpus)])
        rank = np.arange(lay.gpus)
        return self.adapters[rank // machine.gpus, nic[rank % machine.gpus]].reshape(lay.pipeline, lay.data, lay.tensor)

    @cached_property
    def weights(self) -> float:
        """Return the number of parameters of a rank."""
        return sum(self.layout.gradients(self.model))

    @cached_property
    def layers(self) -> int:
        """Return the number of layers in a chunk."""
        return self.model.layers // self.layout.pipeline // self.layout.interleave

    @cached_property
    def layer(self) -> Passes:
        """Return the time of one layer of a micro-batch."""
        if isinstance(self.model, Network):
            return network_of(self.model, self.micro_batch, self.processor)
        lay = self.layout
        one = layer_of(
            self.model,
            lay.tensor,
            self.micro_batch,
            self.processor,
            expert=lay.expert,
            sequence_parallel=self.sequence_parallel,
        )
        return Passes(one.forward, one.backward + one.forward * self.model.recompute)

    @cached_property
    def head(self) -> Passes:
        """Return the time of logits and loss of a micro-batch."""
        if isinstance(self.model, Network):
            return Passes()
        return head_of(self.model, self.layout.tensor, self.micro_batch, self.processor)

    def compute(self, stage: int, chunk: int) -> Passes:
        """Return the computing time of a micro-batch in a chunk of a stage."""
        lay = self.layout
        last = stage == lay.pipeline - 1 and chunk == lay.interleave - 1
        added = gradient_us(self.weights / lay.interleave, self.gradient_octets, self.processor)
        return self.layer.times(self.layers) + (self.head if last else Passes()) + Passes(0.0, added)

    def took(self, stage: int, chunk: int) -> Passes:
        """Return the time of :meth:`compute` plus that of the collectives inside nodes."""
        lay = self.layout
        first, last = (stage, chunk) == (0, 0), (stage, chunk) == (lay.pipeline - 1, lay.interleave - 1)
        handed = Passes(0.0 if first else self.handed_us, 0.0 if last else self.handed_us)
        return self.compute(stage, chunk) + self.tensors_us + self.experts_us + handed

    @cached_property
    def of_tensors(self) -> list[Exchanged]:
        """Return the two all-reduces of a layer; with sequence parallelism, an all-gather and a reduce-scatter in place
        of each (Korthikanti et al., MLSys 2023, 4.2)."""
        if self.layout.tensor == 1:
            return []
        octets = self.model.activation_octets * self.micro_batch
        kinds = (
            (Collective.ALL_GATHER, Collective.REDUCE_SCATTER) if self.sequence_parallel else (Collective.ALL_REDUCE,)
        )
        return [Exchanged(c, octets, 2, 4 if self.model.recompute else 2) for c in kinds]

    @cached_property
    def of_experts(self) -> list[Exchanged]:
        """Return the two all-to-alls of a layer with experts."""
        if self.layout.expert == 1:
            return []
        octets = self.model.activation_octets * self.micro_batch * self.model.top_k / self.layout.tensor
        return [Exchanged(Collective.ALL_TO_ALL, octets, 2, 4 if self.model.recompute else 2)]

    def crosses(self, ranks: int) -> bool:
        """Return whether groups of ``ranks`` neighbours span nodes."""
        return ranks > 1 and self.machine.gpus % ranks != 0 and self.layout.gpus > self.machine.gpus

    @cached_property
    def tensors_us(self) -> Passes:
        """Return the time in µs of one micro-batch's tensor-parallel collectives in the layers of one chunk; 0 if
        tensor groups span nodes."""
        return self._inside(self.of_tensors, self.layout.tensor, 1)

    @cached_property
    def experts_us(self) -> Passes:
        """Return the time in µs of one micro-batch's expert-parallel collectives in the layers of one chunk; 0 if
        expert groups span nodes."""
        return self._inside(self.of_experts, self.layout.expert, self.layout.tensor)

    @cached_property
    def handed_us(self) -> float:
        """Return the time in µs of the all-gather with which a tensor group combines the activations that
        another stage sent in parts (Narayanan et al. 2021, 4.1)."""
        lay = self.layout
        if lay.pipeline == 1 or lay.tensor == 1 or self.sequence_parallel or self.crosses(lay.tensor):
            return 0.0
        return self._one_us(Collective.ALL_GATHER, self.model.activation_octets * self.micro_batch, lay.tensor)

    def _inside(self, kinds: list[Exchanged], ranks: int, stride: int) -> Passes:
        if not kinds or self.crosses(ranks * stride):
            return Passes()
        passes = Passes()
        for e in kinds:
            one = self._one_us(e.collective, e.octets, ranks)
            passes += Passes(one * e.forward * self.layers, one * e.backward * self.layers)
        return passes

    def _one_us(self, collective: Collective, octets: float, ranks: int) -> float:
        """Return the time in µs of a collective of ``ranks`` GPUs of a node."""
        group = self.machine.part(ranks, max(1, min(ranks, self.machine.nics)))
        by = choose(collective, max(int(octets), 1), group, 1, nccl=self.nccl)
        return predicted_us(collective, by, max(int(octets), 1), group, 1, self.values)


def part_of(step: Step) -> JobMessages:
    """Return the messages of one step. Raises :class:`InputError` if there are more ranks than GPUs."""
    lay, machine = step.layout, step.machine
    nodes = len(step.adapters)
    if lay.gpus > nodes * machine.gpus:
        raise InputError(
            f"{counted(lay.gpus, 'rank')} on {counted(nodes, 'node')} with {machine.gpus} GPUs each: there "
            f"are {nodes * machine.gpus:,}"
        )
    rows = Columns()
    exchange(step, rows, *pipeline(step, rows))
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
