"""Executing a plan on symbols: which contributions of which ranks each rank holds of each block, and how often."""

from __future__ import annotations

import heapq
from collections import Counter

import numpy as np

from softib.ragged import inverted, spread
from softib.workloads.nccl.constants import Collective
from softib.workloads.nccl.plan import Plan

__all__ = ["execute", "topological"]

State = dict[tuple[int, int], Counter[int]]


def topological(plan: Plan, *, last_first: bool = False) -> list[int]:
    """An order in which the transfers can run: lowest rows first, or highest."""
    n = len(plan)
    left = np.diff(plan.first).astype(np.int64)
    first, waits, _ = inverted(spread(left)[0], plan.needs, n)
    sign = -1 if last_first else 1
    ready = [sign * int(i) for i in np.flatnonzero(left == 0)]
    heapq.heapify(ready)
    found: list[int] = []
    while ready:
        i = sign * heapq.heappop(ready)
        found.append(i)
        for k in waits[first[i] : first[i + 1]].tolist():
            left[k] -= 1
            if left[k] == 0:
                heapq.heappush(ready, sign * k)
    return found


def execute(plan: Plan, collective: Collective, root: int = 0, *, last_first: bool = False) -> State:
    """What every rank holds in the end: ``state[rank, block]`` counts each rank's contribution.

    Reductions begin with each rank's own contribution to every block; in others a block is there with its owner alone. A sender hands over what
    it holds when the transfer begins.
    """
    blocks = np.unique(plan.blocks).tolist()
    state: State = {}
    for rank in range(plan.ranks):
        for block in blocks:
            if (
                collective in (Collective.ALL_REDUCE, Collective.REDUCE_SCATTER)
                or _owner(plan, collective, block, root) == rank
            ):
                state[rank, block] = Counter({rank: 1})
    for i in topological(plan, last_first=last_first):
        for block in plan.blocks[plan.block_first[i] : plan.block_first[i + 1]].tolist():
            sent = state.get((int(plan.src[i]), block), Counter())
            to = (int(plan.dst[i]), block)
            state[to] = state.get(to, Counter()) + sent if plan.adds[i] else Counter(sent)
    return state


def _owner(plan: Plan, collective: Collective, block: int, root: int) -> int:
    if collective == Collective.BROADCAST:
        return root
    return block // plan.ranks if collective == Collective.ALL_TO_ALL else block % plan.ranks
