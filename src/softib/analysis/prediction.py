"""What traffic will do on the routed fabric: the static layer's figures for the patterns people ask
about."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from softib.analysis.endpoints import Endpoints, endpoints_of
from softib.diags.capacity import bisection as structural
from softib.fabric.end_ports import port_gbps
from softib.fabric.model import Fabric
from softib.routing.graph import SwitchGraph
from softib.sim import static
from softib.sim import static_network as patterns
from softib.sim.static import random_pairs_limit
from softib.sim.static_network import Network

__all__ = ["MESSAGE_BYTES", "Busy", "Pattern", "Prediction", "predict"]

MESSAGE_BYTES = (1 << 20, 1 << 30)
"""Sizes for which ideal times are given: 1 MiB and 1 GiB."""
SAMPLES = static.SAMPLES
INCAST = 32
MAX_LOADS = 8_000_000
"""Shifts × channels that are kept at once (32 MB): beyond it shifts are sampled."""
BUSIEST = 10


@dataclass(frozen=True)
class Busy:
    """A channel with its load: ``place`` is the sending port, ``peer`` the receiving one, as
    ``leaf-3[40]``."""

    place: str
    peer: str
    load: float
    gbps: float


@dataclass
class Pattern:
    """One traffic pattern: ``relative`` is the mean over flows of the rate over what both hosts'
    own links can do.

    ``load`` float64[channels] is what the pattern puts on each channel, in flows (mean over its
    permutations), ``peak`` the same for the permutation with the smallest rates; ``most`` the
    largest load on one channel in any permutation; ``worst`` the smallest relative of any
    permutation.
    """

    name: str
    text: str
    flows: int
    permutations: int
    of: int
    relative: float
    worst: float
    most: float
    unrouted: int
    load: np.ndarray
    peak: np.ndarray
    busiest: list[Busy] = field(default_factory=list)


@dataclass
class Prediction:
    """Everything that the static layer says. Times are in picoseconds by message size in bytes.

    ``limit`` is what the wiring allows random pairs
    (:func:`~softib.sim.static.random_pairs_limit`), None where the structure is not known.
    ``narrowest_gbps`` is what one half sends to the other across the narrowest bisection.
    """

    network: Network
    endpoints: Endpoints
    patterns: list[Pattern]
    bisection_gbps: float
    bisection_full_gbps: float
    bisection_relative: float
    bisection_spread: float
    allreduce_ps: dict[int, int]
    all_to_all_ps: dict[int, int]
    seed: int
    limit: float | None = None
    narrowest_gbps: float | None = None

    @property
    def hosts(self) -> int:
        """Ports that take part."""
        return self.network.n_hosts

    def pattern(self, name: str) -> Pattern:
        """The pattern of that name."""
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
    """Predict traffic of every CA port over tables ``lft`` (uint8[switches, LIDs]); None with fewer
    than two of them.

    ``cut`` is the bisection of the wiring, if at hand: pairs across it are a pattern, and its
    partitions limit random pairs.
    """
    ends = endpoints_of(fabric, graph)
    if len(ends.row) < 2:
        return None
    network = network_of(fabric, graph, lft, ends)
    order, n = np.arange(network.n_hosts), network.n_hosts
    rng = np.random.default_rng(seed)
    bisection = static.effective_bisection(network, samples, seed)
    shifts = static.all_shifts(network, order, sampled_shifts(network, seed))
    every = static.all_to_all(network)
    found = [
        Pattern(
            "bisection",
            "random pairs between two random halves, both directions",
            2 * bisection.pairs,
            samples,
            0,
            bisection.relative,
            float(bisection.samples.min()),
            float(bisection.worst.max(initial=0)),
            bisection.unrouted,
            bisection.load,
            bisection.peak,
        ),
        Pattern(
            "shift",
            "every host to the host k places on, for each k",
            n,
            len(shifts.shifts),
            n - 1,
            float(shifts.relative.mean()),
            float(shifts.relative.min()),
            float(shifts.load.max(initial=0)),
            shifts.unrouted,
            shifts.load.mean(axis=0),
            shifts.load[int(shifts.relative.argmin())],
        ),
        _all_to_all(network, every),
        _incast(network, order, rng),
    ]
    limit, across = None, None
    if cut is not None:
        limit = random_pairs_limit(network, [part[graph.switch_node] for part in cut.partitions])
        across = _narrowest(fabric, network, cut, samples, seed)
    if across is not None:
        found.insert(1, _narrowest_pattern(across, samples))
    for pattern in found:
        pattern.busiest = busiest(fabric, network, pattern.load)
    return Prediction(
        network,
        ends,
        found,
        bisection.gbps,
        bisection.full_gbps,
        bisection.relative,
        bisection.spread,
        {size: _allreduce_ps(network, size, ends) for size in MESSAGE_BYTES},
        {size: static.all_to_all_time_ps(network, size // n, every) for size in MESSAGE_BYTES},
        seed,
        limit,
        None if across is None else across.gbps,
    )


def sampled_shifts(network: Network, seed: int) -> np.ndarray:
    """The shifts whose loads are computed: all of them, or as many as :data:`MAX_LOADS` allows."""
    at_most = max(16, MAX_LOADS // network.n_channels)
    return patterns.sample_shifts(network.n_hosts, at_most, np.random.default_rng(seed))


def _narrowest(
    fabric: Fabric, network: Network, cut: structural.Bisection, samples: int, seed: int
) -> static.Bisection | None:
    """Random pairs across the narrowest bisection of the wiring: together they get no more than its
    bandwidth."""
    g = network.graph
    half = np.full(fabric.sizes.ports, -1)
    half[cut.host_port] = cut.side
    mine = half[fabric.node_base[g.end_node[network.hosts]] + g.end_portnum[network.hosts]]
    halves = np.flatnonzero(mine == 1), np.flatnonzero(mine == 0)
    if not all(len(side) for side in halves):
        return None
    return static.effective_bisection(network, samples, seed, halves=halves)


def _narrowest_pattern(found: static.Bisection, samples: int) -> Pattern:
    return Pattern(
        "narrowest",
        "random pairs across the narrowest bisection, both directions",
        2 * found.pairs,
        samples,
        0,
        found.relative,
        float(found.samples.min()),
        float(found.worst.max(initial=0)),
        found.unrouted,
        found.load,
        found.peak,
    )


def network_of(fabric: Fabric, graph: SwitchGraph, lft: np.ndarray, ends: Endpoints) -> Network:
    """Channels with the rates of the fabric's links; a link that records none counts as the slowest
    known one."""
    gbps = port_gbps(fabric)
    known = gbps[gbps > 0]
    gbps = np.where(gbps > 0, gbps, known.min() if len(known) else 1.0)
    owner = graph.link_switch
    link = gbps[fabric.node_base[graph.switch_node[owner]] + graph.out_port]
    end = gbps[fabric.node_base[graph.end_node] + graph.end_portnum]
    return Network.build(graph, lft, ends.row, link, end)


def _all_to_all(network: Network, found: static.Loads) -> Pattern:
    # All flows last until the busiest channel is done: the mean rate of a host's link over that time.
    n = network.n_hosts
    time = float(found.busy(network).max(initial=0.0))
    host_time = (n - 1) / network.host_gbps
    relative = float((host_time / time).mean()) if time else 0.0
    load = found.load.astype(np.float64)
    return Pattern(
        "all-to-all",
        "every host to every other at once",
        found.flows,
        1,
        1,
        relative,
        relative,
        float(load.max(initial=0)),
        found.unrouted,
        load,
        load,
    )


def _incast(network: Network, order: np.ndarray, rng: np.random.Generator) -> Pattern:
    k = min(INCAST, len(order) - 1)
    target = int(rng.integers(len(order)))
    src, dst = patterns.incast(order, target, k, rng)
    found = static.loads(network, src, dst)
    rate, _ = static.flow_rates(network, src, dst, found)
    relative = rate / np.minimum(network.host_gbps[src], network.host_gbps[dst])
    load = found.load.astype(np.float64)
    return Pattern(
        "incast",
        f"{k} random hosts to one",
        k,
        1,
        1,
        float(relative.mean()),
        float(relative.min()),
        float(load.max(initial=0)),
        found.unrouted,
        load,
        load,
    )


def _allreduce_ps(network: Network, size: int, ends: Endpoints) -> int:
    """A whole ring allreduce: 2 (n - 1) steps, one ring a rail."""
    counts = np.unique(ends.rail, return_counts=True)[1]
    rail = ends.rail if len(counts) > 1 else None
    n = int(counts.max())
    share = size // ends.rails if rail is not None else size
    return 2 * (n - 1) * static.ring_step_ps(network, share, None, rail)


def busiest(fabric: Fabric, network: Network, load: np.ndarray, limit: int = BUSIEST) -> list[Busy]:
    """The switch links that are busy longest (load over rate), most first."""
    links = network.n_links
    busy = load[:links] / network.rate[:links]
    top = np.argsort(-busy, kind="stable")[:limit]
    return [
        Busy(*link_ends(fabric, network, int(c)), float(load[c]), float(network.rate[c])) for c in top if load[c] > 0
    ]


def link_ends(fabric: Fabric, network: Network, channel: int) -> tuple[str, str]:
    """Names of the two ports of a switch link."""
    g = network.graph
    port = fabric.port(int(g.switch_node[network.link_owner[channel]]), int(g.out_port[channel]))
    peer = fabric.port(int(g.switch_node[g.peer[channel]]), int(g.peer_port[channel]))
    return fabric.port_name(int(port)), fabric.port_name(int(peer))


def prediction_json(p: Prediction | None) -> dict[str, Any] | None:
    """As ``--json`` prints it."""
    if p is None:
        return None
    return {
        "hosts": p.hosts,
        "rails": p.endpoints.rails,
        "seed": p.seed,
        "effective_bisection": {
            "relative": p.bisection_relative,
            "limit": p.limit,
            "narrowest_gbps": p.narrowest_gbps,
            "spread": p.bisection_spread,
            "gbps": p.bisection_gbps,
            "full_gbps": p.bisection_full_gbps,
        },
        "patterns": [
            {
                "name": q.name,
                "text": q.text,
                "flows": q.flows,
                "permutations": q.permutations,
                "of": q.of,
                "relative": q.relative,
                "worst": q.worst,
                "most_on_a_link": q.most,
                "unrouted": q.unrouted,
                "busiest": [vars(b) for b in q.busiest],
            }
            for q in p.patterns
        ],
        "ring_allreduce_us": {str(k): v / 1e6 for k, v in p.allreduce_ps.items()},
        "all_to_all_us": {str(k): v / 1e6 for k, v in p.all_to_all_ps.items()},
    }
