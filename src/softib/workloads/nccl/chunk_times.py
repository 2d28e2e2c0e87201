"""The time of each transfer of a plan that is not spent in the network: latencies, and filling of slices, by the
formulae of :mod:`softib.workloads.nccl.law`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from softib.workloads.nccl.algorithms import ring_order
from softib.workloads.nccl.constants import Algorithm, Protocol
from softib.workloads.nccl.law import (
    BROADCAST_THREADS,
    SLICES,
    SWITCHED,
    filled_us,
    held_octets,
    hops_of,
    line_us,
    nic_share,
    rates_of,
    split,
    threads_gbytes,
)

if TYPE_CHECKING:
    from softib.workloads.nccl.net_ib import Run
    from softib.workloads.nccl.plan import Plan

__all__ = ["inside_us", "sent_gbytes", "slice_us"]

STORED = (Algorithm.RING, Algorithm.TREE)
"""Algorithms in which the proxy sends a chunk to another node slice by slice, as the law assumes."""


def inside_us(run: Run, plan: Plan, rate: np.ndarray) -> np.ndarray:
    """Return the time in µs of each transfer inside a node: its latency, plus its bytes at
    ``rate`` (GB/s of payload).

    A tree with LL128 or LL forwards lines as they arrive, so on a chain the bytes of a chunk count
    only once: on the hop that leaves the head. The latency of the first hop is counted on the next
    one, because a connection handles one chunk after another.
    """
    by, m = run.by, run.machine
    v = run.values
    pause = 0.0 if by.algorithm in SWITCHED else hops_of(by, m, run.nodes, v, run.work.channels).inside
    pause += line_us(by, run.size, m, run.nodes, v)
    if by.algorithm != Algorithm.TREE or by.protocol == Protocol.SIMPLE or m.gpus == 1:
        return np.asarray(pause + plan.octets / (rate * 1e3))
    piece = np.minimum(plan.octets, held_octets(by, run.work))
    us = pause + piece / (rate * 1e3) + np.zeros(len(plan))
    chains = np.array([ring_order(m, run.nodes, c).reshape(run.nodes, m.gpus) for c in range(run.work.channels)])
    place = lambda g: plan.src == chains[plan.channel, plan.src // m.gpus, g]
    head = ~plan.adds & place(0)
    us[head] += ((plan.octets - piece) / (rate * 1e3))[head]
    if m.gpus > 2:
        us[head] -= pause
        us[~plan.adds & place(1)] += pause
    return us


def slice_us(run: Run, plan: Plan) -> np.ndarray:
    """Return the time in µs until the first slice of each transfer between nodes is complete. This time is added to the
    time of the bytes at the rate :func:`sent_gbytes`."""
    by, m, v, work = run.by, run.machine, run.values, run.work
    line = line_us(by, run.size, m, run.nodes, v)
    if by.algorithm not in STORED or m.gpus == 1:
        return np.full(len(plan), line)
    if by.protocol == Protocol.SIMPLE:
        slices = SLICES if by.algorithm == Algorithm.RING else 1
        faster = max(threads_gbytes(by, m, run.nodes, v), nic_share(by, m, work, v))
        return np.asarray(line + plan.octets / (slices * faster * 1e3))
    share = np.ones(len(plan))
    if split(by):
        key = plan.channel * plan.ranks + plan.src
        root = ~np.isin(key, key[plan.adds])  # in a tree all but the root send up
        share = np.where(plan.adds, 1 - BROADCAST_THREADS, np.where(root, 1.0, BROADCAST_THREADS))
    us = np.zeros(len(plan))
    for part in np.unique(share).tolist():
        for octets in np.unique(plan.octets[share == part]).tolist():
            us[(plan.octets == octets) & (share == part)] = filled_us(octets, part, by, m, run.nodes, work, v)
    return line + us


def sent_gbytes(run: Run) -> float:
    """Return the GB/s of payload at which a connection's proxy sends. For LL and LL128, it is the channel's share of
    the NIC, because threads fill the slice before it is sent."""
    by, m = run.by, run.machine
    if by.algorithm in STORED and by.protocol != Protocol.SIMPLE and m.gpus > 1:
        return nic_share(by, m, run.work, run.values)
    return rates_of(by, m, run.nodes, run.work, run.values)[1]
