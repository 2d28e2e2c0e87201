"""NCCL's choice of algorithm and protocol. NCCL computes latency + size / bandwidth of each combination with the
constants of its release, and takes the smallest (src/graph/tuning.cc)."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from softib.errors import InputError, UnknownName
from softib.workloads.nccl.constants import (
    ALGORITHMS,
    PROTOCOLS,
    TREE_CORRECTION,
    Algorithm,
    Collective,
    Protocol,
    Release,
    release_of,
)
from softib.workloads.nccl.machine import Machine

__all__ = ["NVLS_SHARE", "Choice", "choose", "expected_us", "possible", "steps_of"]

NVLS_SHARE = (0.0, 0.0, 0.85, 0.74)
"""Share of NVLink's bandwidth that reduction in the NVSwitch reaches, by GPU (nvlsEfficiency)."""
OLD_MOST = 235.0
"""Maximum GB/s of a collective on A100 (2.8.4)."""
OLD_SPEEDS = (42.0, 30.0, 24.0, 21.0, 18.0, 15.0, 12.0, 10.0, 9.0, 7.0, 6.0, 5.0, 4.0, 3.0)
"""Rates of a channel in GB/s that the search of 2.8.4 tries."""
OLD_LINK = 21 / 20
"""NVLink's rate on Volta and Ampere in 2.8.4 (SM70_NVLINK_WIDTH and SM80_NVLINK_WIDTH, src/graph/topo.h: 21 GB/s),
divided by the rate in later releases."""
INTEL_OVERHEAD = 12 / 9
"""Factor on PCIe bandwidth for GPU traffic through a root complex of Intel (INTEL_P2P_OVERHEAD)."""
BACKWARD = 1 / 8
"""GPUs before Ampere also use this share of the PCIe bandwidth in the opposite direction (followPath,
src/graph/search.cc)."""
NVLS_TREE_BW = ((26.5, 18.5, 10.0), (24.0, 23.6, 17.8), (0.0, 57.7, 45.5), (0.0, 96.0, 80.0))


@dataclass(frozen=True)
class Choice:
    """The algorithm and protocol of a collective. ``serial``: in a tree, all threads first reduce all chunks up, and
    then send all results down (LL and Simple of 2.8.4). Otherwise some threads reduce while others send results
    down."""

    algorithm: Algorithm
    protocol: Protocol
    serial: bool = False

    def __str__(self) -> str:
        return f"{self.algorithm} {self.protocol}"


def steps_of(collective: Collective, ranks: int) -> int:
    """Return the number of steps of a ring: the hops of one piece of data."""
    if collective == Collective.ALL_REDUCE:
        return 2 * (ranks - 1)
    return ranks - 1


def choose(
    collective: Collective,
    size: int,
    machine: Machine,
    nodes: int,
    *,
    algorithm: str = "",
    protocol: str = "",
    nccl: str = "2.30",
) -> Choice:
    """Return NCCL's choice for ``size`` bytes on ``nodes`` machines. ``algorithm`` and ``protocol`` restrict it, like
    NCCL_ALGO and NCCL_PROTO.

    Raises :class:`UnknownName` for a name, and :class:`InputError`, one line, for a combination
    that NCCL does not run.
    """
    algorithms = ALGORITHMS[collective]
    if algorithm and algorithm not in tuple(Algorithm):
        raise UnknownName("NCCL algorithm", algorithm, tuple(Algorithm))
    if protocol and protocol not in tuple(Protocol):
        raise UnknownName("NCCL protocol", protocol, tuple(Protocol))
    if algorithm and algorithm not in algorithms:
        raise InputError(f"NCCL has no {collective} by {algorithm}; it has {', '.join(algorithms)}")
    if algorithms == (Algorithm.P2P,):
        if protocol not in ("", Protocol.SIMPLE):
            raise InputError(f"{collective} by {protocol}: softib models sends and receives only with simple")
        return Choice(Algorithm.P2P, Protocol.SIMPLE)
    best, choice = math.inf, None
    for by in _named(algorithms, algorithm, protocol):
        why = _impossible(by.algorithm, machine, nodes, collective)
        if why and algorithm:
            raise InputError(f"{collective} by {by.algorithm} on {nodes} × {machine.name}: {why}")
        if why or not (protocol or _allowed(by, machine, nodes)):
            continue
        took = expected_us(collective, by, size, machine, nodes, nccl)
        if took < best:
            best, choice = took, _as_run(by, machine, nccl)
    if choice is None:
        raise InputError(f"{collective} with {protocol} on {nodes} × {machine.name}: no algorithm is left")
    return choice


def possible(collective: Collective, machine: Machine, nodes: int, nccl: str) -> list[Choice]:
    """Return the combinations that NCCL can choose from."""
    return [
        _as_run(by, machine, nccl)
        for by in _named(ALGORITHMS[collective], "", "")
        if not _impossible(by.algorithm, machine, nodes, collective)
        and _allowed(by, machine, nodes)
        and by.algorithm in release_of(nccl, machine.gpu.index).base
    ]


def _named(algorithms: tuple[Algorithm, ...], algorithm: str, protocol: str) -> Iterator[Choice]:
    """Yield the combinations with ``algorithm`` and ``protocol`` (empty: any). Raises
    :class:`InputError` for a protocol that ``algorithm`` does not run with."""
    if algorithm and protocol and protocol not in PROTOCOLS[Algorithm(algorithm)]:
        runs = ", ".join(PROTOCOLS[Algorithm(algorithm)])
        raise InputError(f"{algorithm} does not run with {protocol}; it runs with {runs}")
    for a in algorithms if not algorithm else (Algorithm(algorithm),):
        yield from (Choice(a, p) for p in PROTOCOLS[a] if protocol in ("", p))


def _allowed(by: Choice, machine: Machine, nodes: int) -> bool:
    """Return whether the protocol is allowed: LL128 needs GPU and NIC below one PCIe switch."""
    return by.protocol != Protocol.LL128 or machine.ll128 or (nodes == 1 and machine.gpu.ll128)


def _as_run(by: Choice, machine: Machine, nccl: str) -> Choice:
    """Return ``by`` with ``serial`` set if trees of the release ``nccl`` reduce up and send down one after the other,
    not at once."""
    old = release_of(nccl, machine.gpu.index).old
    serial = old and by.algorithm == Algorithm.TREE and by.protocol != Protocol.LL128
    return Choice(by.algorithm, by.protocol, serial)


def _impossible(a: Algorithm, m: Machine, nodes: int, collective: Collective) -> str:
    """Return the reason why NCCL would not run this algorithm; empty if it would."""
    if a == Algorithm.COLLNET and (not m.sharp or nodes < 2):
        return "CollNet needs switches that reduce (sharp=yes), and two nodes"
    if a in (Algorithm.NVLS, Algorithm.NVLS_TREE) and (not m.gpu.nvls or m.gpus < 2):
        return f"the NVSwitches of {m.gpu.name} cannot reduce"
    if a == Algorithm.NVLS and nodes > 1 and (not m.sharp or collective != Collective.ALL_REDUCE):
        return "NVLS of several nodes needs switches that reduce (sharp=yes), and supports only all-reduce"
    if a == Algorithm.NVLS_TREE and nodes < 2:
        return "the tree of NVLS needs several nodes, and there is one"
    if a == Algorithm.PAT and m.gpus != 1:
        return "PAT needs one GPU per node"
    return ""


def expected_us(c: Collective, by: Choice, size: int, m: Machine, nodes: int, nccl: str = "2.30") -> float:
    """Return the time in µs that the model of release ``nccl`` predicts; infinite for algorithms that the release
    lacks."""
    r = release_of(nccl, m.gpu.index)
    a, p = by.algorithm, by.protocol
    if a not in r.base:
        return math.inf
    i = tuple(Protocol).index(p)
    bandwidth = _algbw(c, a, i, m, nodes, r)
    latency = _latency(c, a, i, m, nodes, r)
    step = max(size >> 6, 1).bit_length() - 1
    if a == Algorithm.TREE and size >= 64 and step < 23:
        bandwidth *= TREE_CORRECTION[r.name][i][step]
    ranks = nodes * m.gpus
    if (
        a == Algorithm.RING
        and p == Protocol.SIMPLE
        and nodes > 1
        and c == Collective.ALL_REDUCE
        and size >= ranks * (4096 if r.old else 64 * m.channels(nodes))
    ):
        latency *= r.plateau
    return latency + size / (1000 * bandwidth) if bandwidth > 0 else math.inf


def _algbw(c: Collective, a: Algorithm, i: int, m: Machine, nodes: int, r: Release) -> float:
    """Return the algorithm bandwidth in GB/s."""
    channels, ranks = m.channels(nodes), nodes * m.gpus
    ring = trees = channels * m.channel_gbytes(nodes)
    if r.old:  # the channels of the search, which are doubled after it
        channels //= 2
        ring, trees = _old_gbytes(m, nodes)
        if m.gpu.index == 1:
            ring, trees = min(ring, OLD_MOST), min(trees, OLD_MOST)
    gpu, several = m.gpu.index, 0 if nodes == 1 else 1 if nodes == 2 else 2
    ll_max = r.ll_max[gpu if nodes == 1 else int(m.amd)][several]
    ll128 = channels * r.ll128_of.get(c, r.ll128_bw[min(gpu, len(r.ll128_bw) - 1)])
    ll_share = r.ll_share if nodes > 1 or c == Collective.ALL_REDUCE else r.ll_share_inside
    tree = channels * r.tree_bw[min(gpu, len(r.tree_bw) - 1)][several]
    if a == Algorithm.RING:
        bus = (min(ll_max, ring * ll_share), min(ring * 0.92, ll128), ring)[i]
    elif a == Algorithm.TREE:
        bus = min(trees * 0.92, tree)
        ll128_share = 7 / 9 if nodes == 1 else 0.915 if r.old else 120 / 128
        bus = (min(bus / 3.8, ll_max), min(bus * ll128_share, ll128), bus)[i]
    elif a in (Algorithm.NVLS, Algorithm.NVLS_TREE):
        inside = m.gpu.nvlink_gbytes * NVLS_SHARE[gpu] * (2.0 if c == Collective.ALL_REDUCE else (m.gpus - 1) / m.gpus)
        bus = (
            inside
            if nodes == 1
            else min(inside, m.nics * m.nic_gbps / 8 * (2 if nodes == 2 and a == Algorithm.NVLS_TREE else 1))
        )
        if a == Algorithm.NVLS_TREE:
            bus = min(bus, channels * NVLS_TREE_BW[gpu][several])
    elif a == Algorithm.PAT:
        bus = ring * 0.75
    else:
        ratio = m.gpus / m.nics
        bus = ring / max(ratio - (ratio - 1) / 2, 0.5) * (0.85 if gpu >= 2 else 1.0)
    if c in (Collective.ALL_GATHER, Collective.REDUCE_SCATTER) and a != Algorithm.RING:
        return bus
    steps = ranks if c == Collective.BROADCAST else steps_of(c, ranks)
    return bus * (ranks / steps if a in (Algorithm.RING, Algorithm.NVLS, Algorithm.NVLS_TREE) else 0.5)


def _old_gbytes(m: Machine, nodes: int) -> tuple[float, float]:
    """Return (GB/s of all channels of a ring, GB/s of all channels of a tree) that the search of 2.8.4 finds
    (src/graph/search.cc). With several nodes, each NIC has a channel as fast as the NIC and the PCIe of a GPU permit.
    On two nodes, one GPU of each node both sends and receives for the tree. So the search may give the tree's links
    inside a node up to twice the rate of the network, if NVLink is fast enough."""
    nvlink = m.gpu.nvlink_gbytes * (OLD_LINK if m.gpu.index < 2 else 1.0)
    if nodes == 1:
        return nvlink, nvlink
    count, sent = min(m.nics, 16), INTEL_OVERHEAD if m.root_complex and not m.amd else 1.0
    fastest = lambda taken: next(
        (
            s
            for s in OLD_SPEEDS
            if s * taken <= m.gpu.pcie_gbytes and s <= m.nic_gbps / 8 and (m.gpus == 1 or s * count <= nvlink)
        ),
        m.nic_gbps / 8,
    )
    ring = fastest(sent)
    if nodes != 2:
        return count * ring, count * ring
    across = tree = fastest(sent + (BACKWARD if m.gpu.index == 0 else 0.0))
    for speed in reversed(OLD_SPEEDS):
        if tree < 2 * across and speed > tree and speed * count <= nvlink:
            tree = speed
    return count * ring, count * tree


def _latency(c: Collective, a: Algorithm, i: int, m: Machine, nodes: int, r: Release) -> float:
    base, inside, across = r.base[a][i], r.nvlink[a][i], (r.net[Algorithm.TREE] if m.gpus == 1 else r.net[a])[i]
    ranks, depth = nodes * m.gpus, max(nodes, 1).bit_length() - 1
    if nodes > 1 and i == 0:
        inside *= r.ll_nvlink
    if a == Algorithm.RING:
        if c == Collective.BROADCAST:
            hop = across if nodes > 1 else inside
            if m.one_order(nodes):
                return base + hop
            if i == 2:  # NCCL adds the latency of a tree's chunk for Simple
                hop = (r.net if nodes > 1 else r.nvlink)[Algorithm.TREE][2]
            return base + ranks * hop
        steps = steps_of(c, ranks)
        between = 0 if nodes == 1 else (2 if c == Collective.ALL_REDUCE else 1) * (nodes - 1)
        if r.overhead and nodes > 1:
            inside = max(inside, (2.0 if m.amd else 1.0) * (3 if i == 2 else 1))
        return base + (steps - between) * inside + between * across
    if a == Algorithm.TREE:
        return base + 2 * ((m.gpus - 1) * inside + depth * across)
    if a == Algorithm.COLLNET:
        return base + 2 * (min(1, m.gpus - 1) * inside + (m.gpus - 1) * 0.4) + across
    if a == Algorithm.NVLS:
        return inside + (across if nodes > 1 else 0.0)
    if a == Algorithm.NVLS_TREE:
        return base + inside + 2 * depth * across
    return base + depth * (across / 3.5) + ranks * 2.8
