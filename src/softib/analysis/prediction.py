"""Prediction of traffic on a routed fabric: figures of the static layer for common patterns."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from softib.analysis.endpoints import Endpoints, endpoints_of
from softib.diags.capacity import bisection as structural
from softib.fabric.end_ports import assumed_gbps
from softib.fabric.model import Fabric
from softib.result import HIDDEN, Result, also, key
from softib.routing.graph import SwitchGraph
from softib.sim import static
from softib.sim import static_network as patterns
from softib.sim.static import random_pairs_limit
from softib.sim.static_network import Network

__all__ = ["MESSAGE_BYTES", "EffectiveBisection", "LoadedLink", "Pattern", "Prediction", "predict"]

MESSAGE_BYTES = (1 << 20, 1 << 30)
"""Message sizes for which ideal times are given: 1 MiB and 1 GiB."""
SAMPLES = static.SAMPLES
INCAST = 32
MAX_LOADS = 8_000_000
"""Maximum number of shifts × channels in memory (32 MB). If all shifts together would exceed it, a sample of them is
used."""
BUSIEST = 10


@dataclass(frozen=True)
class LoadedLink(Result):
    """A link between switches and its load in flows."""

    place: str
    """The sending port, for example ``leaf-3[40]``."""
    peer: str
    """The receiving port."""
    load: float
    gbps: float


@dataclass
class Pattern(Result):
    """A uniform pattern of traffic on the routed fabric."""

    name: str
    text: str
    flows: int
    permutations: int
    of: int
    relative: float
    """Mean over flows of the rate, divided by the rate of the slower of both hosts' links."""
    worst: float
    """The smallest relative rate of any permutation."""
    most: float = field(metadata=key("most_on_a_link"))
    """The largest load on one channel in any permutation."""
    unrouted: int
    load: np.ndarray = field(metadata=HIDDEN)
    """float64[channels]: mean over permutations of the number of flows on each channel."""
    peak: np.ndarray = field(metadata=HIDDEN)
    """float64[channels]: number of flows on each channel in the permutation with the smallest rates."""
    busiest: list[LoadedLink] = field(default_factory=list)


@dataclass(frozen=True)
class EffectiveBisection(Result):
    """Random pairs between two halves of the hosts."""

    relative: float
    """Mean rate of the pairs, relative to the hosts' links."""
    limit: float | None
    """Limit of the wiring for random pairs (:func:`~softib.sim.static.random_pairs_limit`);
    null: the structure is unknown."""
    narrowest_gbps: float | None
    """Rate from one half to the other across the narrowest bisection."""
    spread: float
    """Standard deviation of the means of the samples."""
    gbps: float
    """Sum of all flows in Gb/s."""
    full_gbps: float


def _us(ps_by_size: dict[int, int]) -> dict[int, float]:
    return {size: ps / 1e6 for size, ps in ps_by_size.items()}


@dataclass
class Prediction(Result):
    """Prediction of traffic on the routed fabric by the static layer."""

    seed: int
    random_pairs: EffectiveBisection = field(metadata=key("effective_bisection"))
    patterns: list[Pattern]
    allreduce_ps: dict[int, int] = field(metadata=key("ring_allreduce_us", json=_us, type=dict[str, float]))
    """Bytes of a node over all its rails → time."""
    all_to_all_ps: dict[int, int] = field(metadata=key("all_to_all_us", json=_us, type=dict[str, float]))
    """Bytes of a host port → time."""
    network: Network = field(metadata=HIDDEN)
    endpoints: Endpoints = field(metadata=HIDDEN)

    @property
    @also(before="seed")
    def hosts(self) -> int:
        """The number of ports that take part."""
        return self.network.n_hosts

    @property
    @also(before="seed")
    def rails(self) -> int:
        """The number of ports of the host with the most ports."""
        return self.endpoints.rails

    def pattern(self, name: str) -> Pattern:
        """Return the pattern of that name."""
        return next(p for p in self.patterns if p.name == name)


def predict(
    fabric: Fabric,
    graph: SwitchGraph,
    lft: np.ndarray,
    *,
    seed: int = 0,
    samples: int = SAMPLES,
    cut: structural.Bisection | None = None,
) -> Prediction | None:
    """Predict the traffic of every CA port with tables ``lft`` (uint8[switches, LIDs]); return None
    for fewer than two ports.

    ``cut`` is the bisection of the wiring, if known. Pairs across it are one of the patterns, and its partitions limit
    random pairs.
    """
    ends = endpoints_of(fabric, graph)
    if len(ends.row) < 2:
        return None
    network = network_of(fabric, graph, lft, ends.row)
    order, n = np.arange(network.n_hosts), network.n_hosts
    rng = np.random.default_rng(seed)
    bisection = static.effective_bisection(network, samples, seed)
    shifts = static.all_shifts(network, order, sampled_shifts(network, seed))
    every = static.all_to_all(network)
    patterns = [
        _pairs("bisection", "random pairs between two random halves, both directions", bisection, samples),
        Pattern(
            name="shift",
            text="every host i sends to host i + k, for each k",
            flows=n,
            permutations=len(shifts.shifts),
            of=n - 1,
            relative=float(shifts.relative.mean()),
            worst=float(shifts.relative.min()),
            most=float(shifts.load.max(initial=0)),
            unrouted=shifts.unrouted,
            load=shifts.load.mean(axis=0),
            peak=shifts.load[int(shifts.relative.argmin())],
        ),
        _all_to_all(network, every),
        _incast(network, order, rng),
    ]
    limit, across = None, None
    if cut is not None:
        limit = random_pairs_limit(network, [part[graph.switch_node] for part in cut.partitions])
        across = _narrowest(fabric, network, cut, samples, seed)
    if across is not None:
        text = "random pairs across the narrowest bisection, both directions"
        patterns.insert(1, _pairs("narrowest", text, across, samples))
    for pattern in patterns:
        pattern.busiest = busiest(fabric, network, pattern.load)
    narrowest = None if across is None else across.gbps
    return Prediction(
        seed,
        EffectiveBisection(bisection.relative, limit, narrowest, bisection.spread, bisection.gbps, bisection.full_gbps),
        patterns,
        {size: _allreduce_ps(network, size, ends) for size in MESSAGE_BYTES},
        {size: static.all_to_all_time_ps(network, size // n, every) for size in MESSAGE_BYTES},
        network,
        ends,
    )


def sampled_shifts(network: Network, seed: int) -> np.ndarray:
    """Return the shifts whose loads are computed: all, or a sample of the size that :data:`MAX_LOADS` permits."""
    at_most = max(16, MAX_LOADS // network.n_channels)
    return patterns.sample_shifts(network.n_hosts, at_most, np.random.default_rng(seed))


def _narrowest(
    fabric: Fabric, network: Network, cut: structural.Bisection, samples: int, seed: int
) -> static.Bisection | None:
    """Return the result of random pairs across the narrowest bisection of the wiring. All pairs together cannot exceed
    the bandwidth of this bisection."""
    g = network.graph
    half = np.full(fabric.sizes.ports, -1)
    half[cut.host_port] = cut.side
    half_of_host = half[fabric.node_base[g.end_node[network.hosts]] + g.end_portnum[network.hosts]]
    halves = np.flatnonzero(half_of_host == 1), np.flatnonzero(half_of_host == 0)
    if not all(len(side) for side in halves):
        return None
    return static.effective_bisection(network, samples, seed, halves=halves)


def _pairs(name: str, description: str, bisection: static.Bisection, samples: int) -> Pattern:
    """Return the pattern of random pairs between the halves of ``bisection``."""
    return Pattern(
        name=name,
        text=description,
        flows=2 * bisection.pairs,
        permutations=samples,
        of=0,
        relative=bisection.relative,
        worst=float(bisection.samples.min()),
        most=float(bisection.worst.max(initial=0)),
        unrouted=bisection.unrouted,
        load=bisection.load,
        peak=bisection.peak,
    )


def network_of(fabric: Fabric, graph: SwitchGraph, lft: np.ndarray, rows: np.ndarray) -> Network:
    """Return the channels between the ends ``rows`` of ``graph``, with the rates of the fabric's links; a link without
    a recorded rate counts as the slowest known link."""
    gbps = assumed_gbps(fabric)
    owner = graph.link_switch
    link = gbps[fabric.node_base[graph.switch_node[owner]] + graph.out_port]
    end = gbps[fabric.node_base[graph.end_node] + graph.end_portnum]
    return Network.build(graph, lft, rows, link, end)


def _all_to_all(network: Network, loads: static.Loads) -> Pattern:
    # All flows last until the busiest channel has sent its bytes, so this is the mean rate of a host's link over that
    # time.
    n = network.n_hosts
    time = float(loads.busy(network).max(initial=0.0))
    host_time = (n - 1) / network.host_gbps
    relative = float((host_time / time).mean()) if time else 0.0
    load = loads.load.astype(np.float64)
    return Pattern(
        name="all-to-all",
        text="every host sends to all others at the same time",
        flows=loads.flows,
        permutations=1,
        of=1,
        relative=relative,
        worst=relative,
        most=float(load.max(initial=0)),
        unrouted=loads.unrouted,
        load=load,
        peak=load,
    )


def _incast(network: Network, order: np.ndarray, rng: np.random.Generator) -> Pattern:
    k = min(INCAST, len(order) - 1)
    target = int(rng.integers(len(order)))
    src, dst = patterns.incast(order, target, k, rng)
    loads = static.loads(network, src, dst)
    rate, _ = static.flow_rates(network, src, dst, loads)
    relative = rate / np.minimum(network.host_gbps[src], network.host_gbps[dst])
    load = loads.load.astype(np.float64)
    return Pattern(
        name="incast",
        text=f"{k} random hosts send to one",
        flows=k,
        permutations=1,
        of=1,
        relative=float(relative.mean()),
        worst=float(relative.min()),
        most=float(load.max(initial=0)),
        unrouted=loads.unrouted,
        load=load,
        peak=load,
    )


def _allreduce_ps(network: Network, size: int, ends: Endpoints) -> int:
    """Return the time of a whole ring allreduce: 2 (n - 1) steps, with one ring per rail."""
    counts = np.unique(ends.rail, return_counts=True)[1]
    rail = ends.rail if len(counts) > 1 else None
    n = int(counts.max())
    share = size // ends.rails if rail is not None else size
    return 2 * (n - 1) * static.ring_step_ps(network, share, None, rail)


def busiest(fabric: Fabric, network: Network, load: np.ndarray, limit: int = BUSIEST) -> list[LoadedLink]:
    """Return the links between switches that are busy for the longest time (largest load / rate), the longest first."""
    links = network.n_links
    busy = load[:links] / network.rate[:links]
    top = np.argsort(-busy, kind="stable")[:limit]
    return [
        LoadedLink(*link_ends(fabric, network, int(c)), float(load[c]), float(network.rate[c]))
        for c in top
        if load[c] > 0
    ]


def link_ends(fabric: Fabric, network: Network, channel: int) -> tuple[str, str]:
    """Return the names of the two ports of a link between switches."""
    g = network.graph
    port = fabric.port(int(g.switch_node[network.link_owner[channel]]), int(g.out_port[channel]))
    peer = fabric.port(int(g.switch_node[g.peer[channel]]), int(g.peer_port[channel]))
    return fabric.port_name(int(port)), fabric.port_name(int(peer))
