"""Algorithms in which switches reduce: NVSwitches inside a node (NVLS), aggregation trees between
nodes (CollNet over SHARP)."""

from __future__ import annotations

import numpy as np

from softib.workloads.nccl.constants import Collective
from softib.workloads.nccl.machine import Machine
from softib.workloads.nccl.plan import Plan, Rows
from softib.workloads.nccl.trees import ROOT, double_tree
from softib.workloads.nccl.work import STEPS, Work

__all__ = ["collnet", "nvls", "nvls_tree", "through_tree"]

IN_FLIGHT = STEPS
"""Largest number of a channel's chunks in flight in an NVSwitch, because buffers have 8 steps. (With a tree between
nodes there is no such limit.)"""


def collnet(collective: Collective, work: Work, size: int, machine: Machine, nodes: int) -> Plan:
    """Return the transfers of CollNet direct. Each GPU sends the data for each NIC to the GPU of that NIC, which passes
    it to the aggregation tree of the rail. Results return on the same path."""
    n, gpus = machine.gpus * nodes, machine.gpus
    rows = Rows(n, extra=machine.nics)
    first = np.arange(nodes) * gpus
    for loop, chunk in enumerate(_chunks(work)):
        for channel in range(work.channels):
            rail = channel % machine.nics
            head = first + _gpu_of(machine, rail)
            block = loop * work.channels + channel
            others = np.array([r for r in range(n) if r not in set(head.tolist())], np.int64)
            gathered = (
                rows.add(others, head[others // gpus], chunk, channel, loop, True, block) if len(others) else others
            )
            up = rows.add(head, n + rail, chunk, channel, loop, True, block)
            rows.need(up[others // gpus], gathered)
            down = _all_then(rows, up, n + rail, head, chunk, channel, loop, block)
            if len(others):
                back = rows.add(head[others // gpus], others, chunk, channel, loop, False, block)
                rows.need(back, down[others // gpus])
    return rows.plan()


def nvls(collective: Collective, work: Work, size: int, machine: Machine, nodes: int) -> Plan:
    """Return the transfers of NVLS. Each GPU is responsible for a share of the data. The NVSwitch of a node reduces the
    share; the GPU then continues between nodes over the aggregation tree of its rail, or over the double binary tree;
    and the NVSwitch sends the result to all GPUs. In the plan, the NVSwitches have the numbers ``n + node``,
    aggregation trees ``n + nodes + rail``."""
    n, gpus = machine.gpus * nodes, machine.gpus
    rows = Rows(n, extra=nodes + machine.nics)
    ranks = np.arange(n)
    trees = double_tree(nodes)
    given_back: dict[tuple[int, int], np.ndarray] = {}
    for loop, chunk in enumerate(_chunks(work)):
        for channel in range(work.channels):
            block = (loop * work.channels + channel) * n + (channel + loop) % gpus
            owner = np.arange(nodes) * gpus + (channel + loop) % gpus
            ready: list[list[int]] = [[] for _ in range(nodes)]
            if collective != Collective.ALL_GATHER:
                into = rows.add(ranks, n + ranks // gpus, chunk, channel, loop, True, block)
                if (loop - IN_FLIGHT, channel) in given_back and (nodes == 1 or machine.sharp):
                    rows.need(into, given_back[loop - IN_FLIGHT, channel][ranks // gpus])
                out = rows.add(n + np.arange(nodes), owner, chunk, channel, loop, False, block)
                rows.need(np.repeat(out, gpus), into)
                ready = [[int(r)] for r in out]
            if nodes > 1 and machine.sharp:
                rail = n + nodes + machine.nic_of(int(owner[0]) % gpus)
                up = rows.add(owner, rail, chunk, channel, loop, True, block)
                rows.need(up, [r[0] for r in ready])
                down = _all_then(rows, up, rail, owner, chunk, channel, loop, block)
                ready = [[int(r)] for r in down]
            elif nodes > 1:
                ready = through_tree(
                    rows,
                    owner,
                    trees[channel * 2 // machine.channels(nodes) % 2],
                    ready,
                    chunk=chunk,
                    channel=channel,
                    loop=loop,
                    block=block,
                )
            if collective != Collective.REDUCE_SCATTER:
                back = rows.add(owner, n + np.arange(nodes), chunk, channel, loop, False, block)
                given_back[loop, channel] = back
                for node, waits in enumerate(ready):
                    if waits:
                        rows.need(back[node], waits)
                to = ranks[ranks != np.repeat(owner, gpus)]
                last = rows.add(n + to // gpus, to, chunk, channel, loop, False, block)
                rows.need(last, back[to // gpus])
    return rows.plan()


def nvls_tree(collective: Collective, work: Work, size: int, machine: Machine, nodes: int) -> Plan:
    """Return the transfers of NVLS inside nodes and the double binary tree between them. It never uses aggregation
    trees, even if the switches can reduce."""
    return nvls(collective, work, size, machine.but(sharp=False), nodes)


def _chunks(work: Work) -> list[int]:
    return [max(octets, 1) for octets, loops in work.chunks for _ in range(loops)]


def _gpu_of(machine: Machine, rail: int) -> int:
    return next((g for g in range(machine.gpus) if machine.nic_of(g) == rail), rail % machine.gpus)


def _all_then(
    rows: Rows, up: np.ndarray, node: int, to: np.ndarray, chunk: int, channel: int, loop: int, block: int
) -> np.ndarray:
    """Send the complete result of a node to all its GPUs."""
    down = rows.add(node, to, chunk, channel, loop, False, block)
    rows.need(np.repeat(down, len(up)), np.tile(up, len(down)))
    return down


def through_tree(
    rows: Rows,
    owner: np.ndarray,
    parents: list[int],
    ready: list[list[int]],
    *,
    chunk: int,
    channel: int,
    loop: int,
    block: int,
    at_root: tuple[list[int], list[int]] | None = None,
) -> list[list[int]]:
    """Send one chunk up a tree of nodes and down again; return the rows that each node then waits for. ``at_root``: two
    lists, to which the rows that arrive at the root and those that leave it are added."""
    depth = [0] * len(parents)
    for v in range(len(parents)):
        at = v
        while parents[at] != ROOT:
            at, depth[v] = parents[at], depth[v] + 1
    order = sorted(range(len(parents)), key=lambda v: -depth[v])
    waits = [list(r) for r in ready]
    for v in order:
        if parents[v] != ROOT:
            row = rows.add(owner[v], owner[parents[v]], chunk, channel, loop, True, block)
            for w in waits[v]:
                rows.need(row, w)
            waits[parents[v]].append(int(row[0]))
    root = parents.index(ROOT)
    if at_root is not None:
        at_root[0].extend(waits[root])
    for v in reversed(order):
        if parents[v] != ROOT:
            row = rows.add(owner[parents[v]], owner[v], chunk, channel, loop, False, block)
            for w in waits[parents[v]]:
                rows.need(row, w)
            if at_root is not None and parents[v] == root:
                at_root[1].append(int(row[0]))
            waits[v] = [int(row[0])]
    return waits
