"""The stages of a pipeline: the order of their passes, the activations that they exchange, and those collectives of
their tensor and expert groups that cross nodes.

Gradients are sent in ``buckets``. A bucket is sent when the backward pass of the last micro-batch has completed it.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import numpy as np

from softib.workloads.nccl.law import adapter_gbytes
from softib.workloads.training.groups import Groups

if TYPE_CHECKING:
    from softib.workloads.training.columns import Columns
    from softib.workloads.training.step import Exchanged, Step

__all__ = ["Done", "order_of", "pipeline"]

Pass = tuple[int, int, bool, int]
"""Stage, chunk, backward, micro-batch."""
Done = dict[Pass, np.ndarray]
"""Pass → its first and its last row, int64[2, data]."""


def order_of(stage: int, stages: int, micro_batches: int, interleave: int = 1) -> list[tuple[bool, int, int]]:
    """Return ``(backward, chunk, micro-batch)`` in the order of a stage: first some forward passes,
    then alternately one forward and one backward pass (1F1B, Narayanan et al. 2021, figure 4). With
    one chunk, the number of first passes is the number of later stages; with several chunks, twice
    that number, plus all chunks but the last for one micro-batch per stage (Megatron-LM's
    schedules)."""
    total = micro_batches * interleave
    of = lambda k: k // (stages * interleave) * stages + k % stages
    chunk = lambda k: k % (stages * interleave) // stages
    if interleave == 1:
        of, chunk = (lambda k: k), (lambda k: 0)
        ahead = min(stages - 1 - stage, total)
    else:
        ahead = min(2 * (stages - 1 - stage) + (interleave - 1) * stages, total)
    forward = [(False, chunk(k), of(k)) for k in range(total)]
    backward = [(True, interleave - 1 - chunk(k), of(k)) for k in range(total)]
    done = forward[:ahead]
    for k in range(total - ahead):
        done += [forward[ahead + k], backward[k]]
    return done + backward[total - ahead :]


class _Passes:
    """The passes of all stages and replicas."""

    def __init__(self, step: Step, rows: Columns):
        lay = step.layout
        self.step, self.rows, self.done = step, rows, Done()
        self.buckets: list[list[np.ndarray]] = [[] for _ in range(lay.pipeline)]
        self.line = rows.lines(lay.pipeline * lay.data).reshape(lay.pipeline, lay.data)
        self.crossing: list[tuple[Groups, Exchanged]] = []
        if step.crosses(lay.tensor):
            self.crossing += [(Groups.of_tensors(step), e) for e in step.of_tensors]
        if step.crosses(lay.tensor * lay.expert):
            groups = Groups.of_experts(step) if step.of_experts else None
            self.crossing += [(groups, e) for e in step.of_experts if groups]

    def add(self, stage: int, backward: bool, chunk: int, k: int, before: np.ndarray) -> np.ndarray:
        """Add a forward or backward pass after the rows ``before``; return the last rows of the pass."""
        step, rows, lay = self.step, self.rows, self.step.layout
        src, line = step.host[stage, :, 0], self.line[stage]
        summed = backward and (k == lay.micro_batches - 1 or step.zero >= 2)
        pieces = step.buckets // lay.interleave if summed else 1
        took = step.took(stage, chunk)
        us = (took.backward if backward else took.forward) / pieces
        first: np.ndarray | None = None
        if self.crossing:
            first = rows.add(src, src, 1, line, 0.0, True)
            rows.need(first, before)
            before = self._exchanged(stage, backward, first)
        for _ in range(pieces):
            at = rows.add(src, src, 1, line, us, True)
            rows.need(at, before)
            first, before = (at if first is None else first), at
            if summed:
                self.buckets[stage].append(at)
        assert first is not None
        self.done[stage, chunk, backward, k] = np.stack([first, before])
        return before

    def _exchanged(self, stage: int, backward: bool, needs: np.ndarray) -> np.ndarray:
        """Add the collectives of all layers of a pass that cross nodes, one after another; return
        their last rows. The collectives of different ranks of a tensor group run concurrently."""
        for groups, e in self.crossing:
            times = self.step.layers * (e.backward if backward else e.forward)
            ends = []
            for at in (at for at in groups.groups if at[0] == stage):
                ended = np.full(len(needs), -1)
                groups.add(self.rows, e.collective, e.octets, at, needs, ended, times=times)
                ends.append(ended)
            gate = self.rows.add(
                self.step.host[stage, :, 0], self.step.host[stage, :, 0], 1, self.line[stage], 0.0, True
            )
            for ended in ends:
                self.rows.need(gate, ended)
            needs = gate
        return needs


def pipeline(step: Step, rows: Columns) -> tuple[list[list[np.ndarray]], Done]:
    """Add the computations of all stages and replicas, and the activations between stages. Return two values: by stage,
    for each bucket of gradients, the rows [data] that complete it; and the first and last rows of each pass."""
    lay = step.layout
    passes = _Passes(step, rows)
    for stage in range(lay.pipeline):
        before = np.full(lay.data, -1)
        for backward, chunk, k in order_of(stage, lay.pipeline, lay.micro_batches, lay.interleave):
            before = passes.add(stage, backward, chunk, k, before)
    _activations(step, rows, passes.done)
    return passes.buckets, passes.done


def _activations(step: Step, rows: Columns, done: Done) -> None:
    """Add the activations from each virtual stage to the next one, and gradients back. Each rank of a
    tensor group sends its part (scatter/gather, section 4.1). Without ``overlap`` a stage waits for its
    sends before it continues."""
    lay = step.layout
    octets = step.model.activation_octets * step.micro_batch / lay.tensor
    behind = {} if step.overlap else _next_of(step)
    chunks = [(stage, chunk) for chunk in range(lay.interleave) for stage in range(lay.pipeline)]
    micro = range(lay.micro_batches)
    for a, b in itertools.pairwise(chunks):
        for one, to, backward in ((a, b, False), (b, a, True)):
            line = np.tile(rows.lines(lay.tensor * lay.data), lay.micro_batches)
            src, dst = (np.tile(step.host[place[0]].T.reshape(-1), lay.micro_batches) for place in (one, to))
            at = _handed(step, rows, src, dst, octets, line).reshape(lay.micro_batches, lay.tensor, lay.data)
            each = lambda of, side: np.array([of[k][side] for k in micro])[:, None, :]
            rows.need(at, each([done[(*one, backward, k)] for k in micro], 1))
            rows.need(each([done[(*to, backward, k)] for k in micro], 0), at)
            for k in micro if behind else ():
                if (*one, backward, k) in behind:
                    rows.need(done[behind[*one, backward, k]][0], at[k])


def _next_of(step: Step) -> dict[Pass, Pass]:
    """Return, for each pass, the next pass of the same stage."""
    lay = step.layout
    following: dict[Pass, Pass] = {}
    for stage in range(lay.pipeline):
        order = order_of(stage, lay.pipeline, lay.micro_batches, lay.interleave)
        passes = [(stage, chunk, backward, k) for backward, chunk, k in order]
        following |= dict(itertools.pairwise(passes))
    return following


def _handed(step: Step, rows: Columns, src: np.ndarray, dst: np.ndarray, octets: float, line: np.ndarray) -> np.ndarray:
    """Add a transfer of bytes between ranks: a message, or, inside a node, the time that NVLink needs."""
    node = np.zeros(int(step.adapters.max()) + 1, np.int64)
    node[step.adapters] = np.arange(len(step.adapters))[:, None]
    local = node[src] == node[dst]
    handed = np.zeros(len(src), np.int64)
    inside = octets / (step.machine.gpu.nvlink_gbytes * 1e3)
    handed[local] = rows.add(src[local], src[local], 1, line[local], inside, True)
    rate = adapter_gbytes(step.machine, step.values) * 8
    handed[~local] = rows.add(src[~local], dst[~local], octets, line[~local], 0.0, False, rate)
    return handed
