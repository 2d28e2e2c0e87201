"""What replicas exchange: sums of gradients, and with ZeRO (Rajbhandari et al., SC 2020) weights, as rings on the fabric.

A ring's all-reduce moves 2 (d - 1) / d of the octets over each edge, its halves (reduce-scatter, all-gather) one (d - 1) / d. Stage 0 all-reduces each bucket of the last backward pass.
Stages 1 to 3 reduce-scatter it, 2 and 3 after every micro-batch, for no rank keeps whole gradients; 1 and 2 all-gather the new weights at the end (together as many octets as an
all-reduce: section 7.2 there), 3 all-gathers them before each pass, forward and backward, while the pass before runs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from softib.workloads.nccl.constants import Collective
from softib.workloads.nccl.law import nic_gbytes

if TYPE_CHECKING:
    from softib.workloads.training.step import Columns, Step

__all__ = ["Rings", "exchange"]

MOST_OCTETS = 1 << 30


class Rings:
    """The rings of one data-parallel group size: ``members`` ranks, each ``apart`` from the next of its ring."""

    def __init__(self, step: Step, rows: Columns, host: np.ndarray, members: int, apart: int):
        self.step, self.rows, self.host = step, rows, host
        self.members, self.apart = members, apart
        position = np.arange(step.layout.data)
        self.position = position
        self.next = (position // apart + 1) % members * apart + position % apart
        self.before = np.argsort(self.next)
        adapters = step.adapters.reshape(-1)
        order = np.argsort(adapters)
        self._node = lambda a: order[np.searchsorted(adapters[order], a)] // step.adapters.shape[1]

    def move(
        self, collective: Collective, octets: float, stage: int, t: int, line: int, needs: list[np.ndarray]
    ) -> np.ndarray:
        """Rows [data] of a ring of rank ``t`` of each tensor group of ``stage``: what each hands to the next; row p begins when each of ``needs`` [data] at p has ended."""
        step, d = self.step, self.members
        moved = (2 if collective == Collective.ALL_REDUCE else 1) * (d - 1) / d * octets
        rate = nic_gbytes(step.machine, step.values) * step.values["nic_share"]
        whole = step.collective_us(collective, octets, d, step.layout.tensor * self.apart)
        latency = max(0.0, whole - moved / (rate * 1e3))
        src, dst = self.host[stage, :, t], self.host[stage, self.next, t]
        number = line + (stage * step.layout.tensor + t) * step.layout.data + self.position
        remote = self._node(src) != self._node(dst)
        out = np.full(len(src), -1, np.int64)
        pieces = max(1, -(-round(moved) // MOST_OCTETS))
        for _ in range(pieces):
            if remote.any():
                at = self.rows.add(src[remote], dst[remote], moved / pieces, number[remote], latency, False)
                out[remote] = at
                for on in needs:
                    self.rows.need(at, on[remote])
            latency = 0.0 if remote.any() else latency
        if (~remote).any():
            inside = moved / (step.machine.gpu.nvlink_gbytes * 1e3)
            at = self.rows.add(
                src[~remote],
                src[~remote],
                1,
                number[~remote] + (1 << 40),
                max(0.0, whole - moved / (rate * 1e3)) + inside,
                True,
            )
            out[~remote] = at
            for on in needs:
                self.rows.need(at, on[~remote])
        return out


def exchange(
    step: Step, rows: Columns, host: np.ndarray, made: list[list[np.ndarray]], done: dict[tuple[int, bool, int], np.ndarray]
) -> None:  # fmt: skip
    """All rings of a step. ``made``: rows [data] of the buckets of backward passes, by stage; ``done``: first and last row of each pass (stage, backward, micro-batch)."""
    lay = step.layout
    shared, experts = lay.gradient_octets(step.model)
    line = lay.pipeline * lay.data * (1 + 2 * lay.tensor)
    each = lay.pipeline * lay.tensor * lay.data
    for octets, members, apart in ((shared, lay.data, 1), (experts, lay.data // lay.expert, lay.expert)):
        if members < 2 or octets < 1:
            continue
        rings = Rings(step, rows, host, members, apart)
        for stage in range(lay.pipeline):
            for t in range(lay.tensor):
                sums = _gradients(rings, octets, stage, t, line, made[stage])
                if step.zero in (1, 2):
                    rings.move(Collective.ALL_GATHER, octets, stage, t, line + each, [s[rings.before] for s in sums])
                if step.zero == 3:
                    _weights(rings, octets, stage, t, line + each, done)
        line += 2 * each


def _gradients(rings: Rings, octets: float, stage: int, t: int, line: int, made: list[np.ndarray]) -> list[np.ndarray]:
    """The rings of every bucket; their rows."""
    step = rings.step
    collective = Collective.REDUCE_SCATTER if step.zero else Collective.ALL_REDUCE
    found = []
    for i in range(len(made)):
        ready = made[i if step.overlap else i // step.buckets * step.buckets + step.buckets - 1]
        found.append(rings.move(collective, octets / step.buckets, stage, t, line, [ready]))
    return found


def _weights(
    rings: Rings, octets: float, stage: int, t: int, line: int, done: dict[tuple[int, bool, int], np.ndarray]
) -> None:
    """Stage 3: each pass waits for its weights, which come while the pass before runs (``overlap``), else behind it."""
    passes = [(backward, k) for k in range(rings.step.layout.micro_batches) for backward in (False, True)]
    behind = 2 if rings.step.overlap else 1
    for i, (backward, k) in enumerate(passes):
        needs = [done[(stage, *passes[i - behind])][1]] if i >= behind else []
        at = rings.move(Collective.ALL_GATHER, octets, stage, t, line, needs)
        rings.rows.need(done[stage, backward, k][0][rings.next], at)
