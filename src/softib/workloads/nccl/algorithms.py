"""NCCL's algorithms as transfers between ranks. A rank is GPU ``rank % gpus`` of node ``rank // gpus``. A channel
enters and leaves every node through the NIC of one rail."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from softib.errors import InputError
from softib.workloads.nccl.constants import Algorithm, Collective
from softib.workloads.nccl.machine import Machine
from softib.workloads.nccl.nvls_collnet import collnet, nvls, nvls_tree, through_tree
from softib.workloads.nccl.plan import Plan, Rows
from softib.workloads.nccl.trees import ROOT, double_tree
from softib.workloads.nccl.tuning import Choice, steps_of
from softib.workloads.nccl.work import Work, work_of

__all__ = ["P2P_WINDOW", "chunks_of", "plan_of", "ring_order"]

P2P_WINDOW = 8
"""Number of concurrent sends of a rank: NCCL runs this number of peer-to-peer operations in parallel
(NCCL_MAX_DEV_WORK_P2P_PER_BATCH)."""


def plan_of(
    collective: Collective, by: Choice, size: int, machine: Machine, nodes: int, work: Work | None = None
) -> Plan:
    """Return the transfers of ``size`` bytes on ``nodes`` machines. ``size`` is counted as in nccl-tests: for
    all-gather, reduce-scatter and all-to-all it is that of the whole vector.

    Raises :class:`InputError` with fewer than two ranks.
    """
    if machine.gpus * nodes < 2:
        raise InputError(f"{collective} of one GPU; it needs at least two")
    cut = work or work_of(collective, by, size, machine, nodes)
    makers: dict[Algorithm, Callable[[Collective, Work, int, Machine, int], Plan]] = {
        Algorithm.RING: _ring,
        Algorithm.TREE: partial(_tree, serial=by.serial),
        Algorithm.PAT: _pat,
        Algorithm.P2P: _pairs,
        Algorithm.COLLNET: collnet,
        Algorithm.NVLS: nvls,
        Algorithm.NVLS_TREE: nvls_tree,
    }
    return makers[by.algorithm](collective, cut, size, machine, nodes)


def chunks_of(work: Work, size: int, parts: int) -> list[int]:
    """Return the size in bytes of a chunk in each loop; a channel has ``parts`` chunks of this size in a loop. Summed
    over all channels and parts, the sizes are at least ``size``."""
    return [max(octets, 1) for octets, loops in work.chunks for _ in range(loops)]


def ring_order(machine: Machine, nodes: int, channel: int) -> np.ndarray:
    """Return the ranks in the order of a channel's ring. It enters every node at the GPU of the
    channel's NIC, and leaves from the last of its GPUs through the same NIC."""
    gpus = machine.gpus
    nic = channel % machine.nics
    start = next((g for g in range(gpus) if machine.nic_of(g) == nic), channel % gpus)
    inside = (start + np.arange(gpus)) % gpus
    return np.asarray((np.arange(nodes)[:, None] * gpus + inside).reshape(-1))


def _ring(collective: Collective, work: Work, size: int, machine: Machine, nodes: int) -> Plan:
    n = machine.gpus * nodes
    rows = Rows(n)
    steps = steps_of(collective, n)
    cast = collective == Collective.BROADCAST
    chunks = chunks_of(work, size, 1 if cast else n)
    step, position = np.divmod(np.arange(steps * n), n)
    for loop, octets in enumerate(chunks):
        for channel in range(work.channels):
            order = ring_order(machine, nodes, channel)
            if cast:  # root is rank 0, at any position in the ring
                order = np.roll(order, -int(np.flatnonzero(order == 0)[0]))
                at = rows.add(order[:-1], order[1:], octets, channel, loop, False, loop * work.channels + channel)
                rows.need(at[1:], at[:-1])
                continue
            # All-gather: the rank at position p sends its own share first. Reductions: the rank at position p sends
            # the share that ends at p + 1 first, so that p's sum is p's share.
            shifted = 0 if collective == Collective.ALL_GATHER else 1
            share = (position - step - shifted) % n
            adds = (step < n - 1) & (collective != Collective.ALL_GATHER)
            block = (loop * work.channels + channel) * n + order[share]
            at = rows.add(order[position], order[(position + 1) % n], octets, channel, loop, adds, block)
            table = at.reshape(steps, n)
            rows.need(table[1:], np.roll(table[:-1], 1, axis=1))
    return rows.plan()


def _tree(collective: Collective, work: Work, size: int, machine: Machine, nodes: int, *, serial: bool = False) -> Plan:
    n, gpus = machine.gpus * nodes, machine.gpus
    rows = Rows(n)
    trees = double_tree(nodes)
    first_down: dict[int, list[int]] = {}
    last_up: dict[int, list[int]] = {}
    for loop, octets in enumerate(chunks_of(work, size, 1)):
        for channel in range(work.channels):
            heads = ring_order(machine, nodes, channel).reshape(nodes, gpus)
            tree = trees[channel * 2 // machine.channels(nodes) % 2]
            up, down = _up_and_down(rows, heads, tree, octets, channel, loop, loop * work.channels + channel)
            last_up[channel] = up
            first_down.setdefault(channel, down)
    for channel, downs in first_down.items() if serial else ():
        rows.need(np.repeat(downs, len(last_up[channel])), np.tile(last_up[channel], len(downs)))
    return rows.plan()


def _up_and_down(
    rows: Rows, heads: np.ndarray, parents: list[int], octets: int, channel: int, loop: int, block: int
) -> tuple[list[int], list[int]]:
    """Send one chunk up the tree and down again; return the transfers that arrive at the
    root, and those that leave it. ``heads[node]``: the chain of a node, its head first."""
    nodes, gpus = heads.shape
    at_root: tuple[list[int], list[int]] = ([], [])
    waits: list[list[int]] = [[] for _ in range(nodes)]
    for g in range(gpus - 1, 0, -1):
        at = rows.add(heads[:, g], heads[:, g - 1], octets, channel, loop, True, block)
        if g < gpus - 1:
            rows.need(at, [w[0] for w in waits])
        waits = [[int(r)] for r in at]
    waits = through_tree(
        rows=rows,
        owner=heads[:, 0],
        parents=parents,
        ready=waits,
        chunk=octets,
        channel=channel,
        loop=loop,
        block=block,
        at_root=at_root,
    )
    for g in range(1, gpus):
        at = rows.add(heads[:, g - 1], heads[:, g], octets, channel, loop, False, block)
        for v in range(nodes):
            if waits[v]:
                rows.need(at[v], waits[v])
        if g == 1:
            at_root[1].append(int(at[parents.index(ROOT)]))
        waits = [[int(r)] for r in at]
    return at_root


def _pat(collective: Collective, work: Work, size: int, machine: Machine, nodes: int) -> Plan:
    """Return the transfers of PAT (parallel aggregated trees). Every rank is the root of a binomial tree, and all trees
    run at the same time. In a step, a rank sends all its data for one distance to one peer. All-gather uses the
    distances from the largest down to 1, reduce-scatter from 1 up."""
    n = machine.gpus * nodes
    rows = Rows(n)
    gather = collective == Collective.ALL_GATHER
    distances = [1 << k for k in range((n - 1).bit_length())]
    ranks = np.arange(n)
    for loop, octets in enumerate(chunks_of(work, size, n)):
        for channel in range(work.channels):
            base = (loop * work.channels + channel) * n
            came: list[np.ndarray] = []  # for each earlier step, by rank: the transfers that arrived
            for d in reversed(distances) if gather else distances:
                v = np.arange(
                    0, n - d, 2 * d
                )  # positions in a tree that send to position v + d (gather) or receive from it
                src, dst = (ranks, (ranks + d) % n) if gather else ((ranks + d) % n, ranks)
                at = rows.add(src, dst, octets * len(v), channel, loop, not gather, base + (ranks - v[0]) % n)
                for place in v[1:]:
                    rows.more_blocks(at, base + (ranks - place) % n)
                for arrived in came:
                    rows.need(at, arrived[src])
                by_rank = np.empty(n, np.int64)
                by_rank[dst] = at
                came.append(by_rank)
    return rows.plan()


def _pairs(collective: Collective, work: Work, size: int, machine: Machine, nodes: int) -> Plan:
    n = machine.gpus * nodes
    rows = Rows(n)
    ranks = np.arange(n)
    if collective == Collective.SEND_RECV:
        rows.add(ranks, (ranks + 1) % n, size, 0, 0, False, ranks)
        return rows.plan()
    each = max(1, -(-size // n))
    rounds: list[np.ndarray] = []
    for d in range(1, n):
        at = rows.add(ranks, (ranks + d) % n, each, d % P2P_WINDOW, d, False, ranks * n + (ranks + d) % n)
        if len(rounds) >= P2P_WINDOW:
            rows.need(at, rounds[-P2P_WINDOW])
        rounds.append(at)
    return rows.plan()
