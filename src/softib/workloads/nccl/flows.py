"""A collective as flows: all data that one adapter sends to another is one flow. On an idle fabric, the flows take the
time that :mod:`softib.workloads.nccl.law` predicts."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from softib.ragged import spread
from softib.workloads.nccl.algorithms import plan_of
from softib.workloads.nccl.constants import Algorithm, Collective
from softib.workloads.nccl.law import payload_of, predicted_us, rates_of
from softib.workloads.nccl.trees import ROOT, double_tree
from softib.workloads.nccl.tuning import steps_of
from softib.workloads.nccl.work import Work

if TYPE_CHECKING:
    from softib.workloads.nccl.net_ib import Run

__all__ = ["MOST_OCTETS", "Flows", "adapter_of", "flows_of"]

MOST_OCTETS = 1 << 30
"""Largest message in bytes: a longer flow is several messages of one connection."""


@dataclass(frozen=True)
class Flows:
    """All flows begin ``begin_us`` after the collective begins; this is launch time plus the latency of all hops. If
    there are no flows, ``begin_us`` is the time of the whole collective. Columns by message: ``src`` and ``dst``, rows
    of adapters; ``size`` bytes; ``connection``, whose messages are sent one after another; ``rate_gbps``, the static
    rate."""

    begin_us: float
    src: np.ndarray
    dst: np.ndarray
    size: np.ndarray
    connection: np.ndarray
    rate_gbps: np.ndarray

    def slower(self, times: float) -> Flows:
        """Return the same flows with their rates divided by ``times``."""
        return replace(self, rate_gbps=self.rate_gbps / times)


def flows_of(run: Run, times: int = 1) -> Flows:
    """Return the flows of ``times`` consecutive collectives; empty inside one node, or if switches reduce."""
    v, m, work = run.values, run.machine, run.work
    whole = predicted_us(run.collective, run.by, run.size, m, run.nodes, v)
    src, dst, octets, connections = _edges(run, work)
    if not len(src):
        return Flows(times * whole, src, dst, octets.astype(np.int64), src, octets)
    _, across = rates_of(run.by, m, run.nodes, work, v)
    payload, adapter = payload_of(run.by), run.adapter_gbytes
    both = [np.bincount(side, octets)[side] for side in (src, dst)]  # load of the adapter at each end
    rate = np.minimum(connections * across, adapter * octets / np.maximum(np.maximum(*both), 1e-9))
    busy = max(float(side.max(initial=0.0)) for side in both) / adapter
    carried = max(busy, float((octets / rate).max(initial=0.0))) / 1e3
    octets = np.maximum(np.round(times * octets / payload), 1).astype(np.int64)
    row, nth = spread(-(-octets // MOST_OCTETS))
    size = np.minimum(octets[row] - nth * MOST_OCTETS, MOST_OCTETS)
    begin = max(0.0, times * (whole - carried) - v["wire"])
    return Flows(begin, src[row], dst[row], size, row, rate[row] / payload * 8)


class AdapterTraffic(NamedTuple):
    """Traffic between nodes, by pair of adapters."""

    src: np.ndarray
    dst: np.ndarray
    octets: np.ndarray
    connections: np.ndarray


def _edges(run: Run, work: Work) -> AdapterTraffic:
    """Return the traffic between nodes."""
    m, n = run.machine, run.machine.gpus * run.nodes
    if run.nodes == 1:
        none = np.zeros(0, np.int64)
        return AdapterTraffic(none, none, none.astype(np.float64), none)
    if run.by.algorithm == Algorithm.RING:
        cast = run.collective == Collective.BROADCAST
        each = run.size / work.channels * (1.0 if cast else steps_of(run.collective, n) / n)
        node, channel = np.divmod(np.arange((run.nodes - cast) * work.channels), work.channels)
        a, b = (run.adapters[k % run.nodes, channel % m.nics] for k in (node, node + 1))
        octets = np.full(len(node), each)
    elif run.by.algorithm == Algorithm.NVLS_TREE:
        return _between_switches(run, work)
    else:
        parts = n if run.by.algorithm == Algorithm.PAT else 1
        share = Work(work.channels, work.threads, ((-(-run.size // (work.channels * parts)), 1),))
        plan = plan_of(run.collective, run.by, run.size, m, run.nodes, share)
        inside = np.maximum(plan.src, plan.dst) < plan.ranks
        net = inside & (np.where(inside, plan.src, 0) // m.gpus != np.where(inside, plan.dst, 0) // m.gpus)
        a, b = (adapter_of(run, side[net], plan.channel[net]) for side in (plan.src, plan.dst))
        octets = plan.octets[net].astype(np.float64)
    return _by_pair(a, b, octets, np.ones(len(octets)))


def _by_pair(a: np.ndarray, b: np.ndarray, octets: np.ndarray, connections: np.ndarray) -> AdapterTraffic:
    """Return the sums of ``octets`` and ``connections`` from adapters ``a`` to ``b``."""
    most = int(max(a.max(initial=0), b.max(initial=0))) + 1
    key, at = np.unique(a * most + b, return_inverse=True)
    sums = (np.bincount(at, values, minlength=len(key)) for values in (octets, connections))
    return AdapterTraffic(*np.divmod(key, most), *sums)


def _between_switches(run: Run, work: Work) -> AdapterTraffic:
    """Return the traffic of a tree of NVLS. Each channel divides its data among all GPUs of a node, so each GPU is in
    both trees, one with the channels of even numbers and one with the odd ones (``connectNvls``,
    src/graph/connect.cc)."""
    gpus = run.machine.gpus
    columns: list[np.ndarray] = []
    for tree, parents in enumerate(double_tree(run.nodes)):
        channels = len(range(tree, work.channels, 2))
        if not channels:
            continue
        parent = np.array(parents)
        child = np.flatnonzero(parent != ROOT)
        gpu = np.tile(np.arange(gpus), len(child))
        low, high = (run.host[np.repeat(node, gpus) * gpus + gpu] for node in (child, parent[child]))
        share = np.full(len(low), channels / gpus)
        columns += [np.stack([low, high, share]), np.stack([high, low, share])]
    a, b, share = np.concatenate(columns, axis=1)
    return _by_pair(a.astype(np.int64), b.astype(np.int64), share * run.size / work.channels, share)


def adapter_of(run: Run, ranks: np.ndarray, channel: np.ndarray) -> np.ndarray:
    """Return the adapter that each rank uses. It is the adapter of the channel's rail; for sends and receives, and for
    shares of an NVSwitch, the adapter of the rank's GPU."""
    ranks = np.minimum(ranks, run.nodes * run.machine.gpus - 1)
    if run.by.algorithm in (Algorithm.RING, Algorithm.TREE, Algorithm.PAT):
        return np.asarray(run.adapters[ranks // run.machine.gpus, channel % run.machine.nics])
    return np.asarray(run.host[ranks])
