"""Balance of the load on links between switches with given forwarding tables.

The load is computed from the tables, without simulation. *Paths* is the number of ordered CA→CA
pairs whose path crosses a directed link (all-to-all traffic). *Destinations* is the number of CA
LIDs that a switch sends through the link (OpenSM's port profile balances these).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from softib.routing.graph import SwitchGraph
from softib.routing.lft_kernels import count_destinations, count_flows, count_paths
from softib.routing.proof.reach import destinations, port_map
from softib.routing.roots import heights

__all__ = ["Balance", "Tier", "balance", "flows", "most_flows_of_bisections"]

WORST = 5
"""Number of links that a tier names."""


@dataclass(frozen=True)
class Tier:
    """The links from switches of height ``low`` to switches of height ``high`` (0 = has CAs).

    ``least``, ``mean`` and ``most`` are the paths on a link of the tier; ``worst`` lists the most
    loaded links as ``(switch row, out portnum, paths)``.
    """

    low: int
    high: int
    links: int
    least: int
    mean: float
    most: int
    worst: tuple[tuple[int, int, int], ...]

    @property
    def imbalance(self) -> float:
        """Ratio of ``most`` to ``mean``; 1.0 = perfectly balanced (also if there is no traffic)."""
        return self.most / self.mean if self.mean else 1.0


@dataclass(frozen=True)
class Balance:
    """Loads of all links between switches, with the rows of the graph; ``tiers`` group links with
    the same function."""

    paths: np.ndarray  # int64[links]
    destinations: np.ndarray  # int64[links]
    tiers: tuple[Tier, ...]

    @property
    def most(self) -> int:
        """Paths on the most loaded link."""
        return int(self.paths.max(initial=0))

    @property
    def mean(self) -> float:
        """Mean paths a link."""
        return float(self.paths.mean()) if len(self.paths) else 0.0

    @property
    def unused(self) -> int:
        """Directed links that no path uses."""
        return int(np.count_nonzero(self.paths == 0))


def balance(graph: SwitchGraph, lft: np.ndarray) -> Balance:
    """Return loads under ``lft`` uint8[n_switches, any width], with the :data:`WORST` links of
    each tier named."""
    at = port_map(graph)
    lids, ends = destinations(graph)
    to_ca = ~graph.end_is_switch[ends]
    lids, ends = lids[to_ca], ends[to_ca]
    cas = np.bincount(graph.end_switch[~graph.end_is_switch], minlength=graph.n_switches).astype(np.int64)
    paths, dests = np.zeros(len(graph.peer), np.int64), np.zeros(len(graph.peer), np.int64)
    lft = np.ascontiguousarray(lft, np.uint8)
    count_paths(at, graph.peer, lft, lids, ends, graph.end_switch, cas, paths)
    count_destinations(at, lft, lids, dests)
    return Balance(paths, dests, _tiers(graph, paths))


def flows(graph: SwitchGraph, lft: np.ndarray, source: np.ndarray, dest: np.ndarray) -> np.ndarray:
    """Return int64[links]: the number of flows over each link; flow i is from end ``source[i]`` to
    the base LID of end ``dest[i]`` (rows of the graph)."""
    load = np.zeros(len(graph.peer), np.int64)
    lids = graph.end_lid[dest].astype(np.int32)
    count_flows(port_map(graph), graph.peer, np.ascontiguousarray(lft, np.uint8), graph.end_switch[source], lids, load)
    return load


def most_flows_of_bisections(graph: SwitchGraph, lft: np.ndarray, count: int, seed: int = 0) -> np.ndarray:
    """Return int64[count]: for each random division of the CAs into halves, the largest number of
    flows on a link if each CA of one half sends to one CA of the other half."""
    ends = np.flatnonzero(~graph.end_is_switch)
    rng = np.random.default_rng(seed)
    at, lft = port_map(graph), np.ascontiguousarray(lft, np.uint8)
    switch, lid = graph.end_switch[ends], graph.end_lid[ends].astype(np.int32)
    out, load = np.zeros(count, np.int64), np.empty(len(graph.peer), np.int64)
    for i in range(count):
        one, other = rng.permutation(len(ends))[: len(ends) // 2 * 2].reshape(2, -1)
        source, dest = np.concatenate([one, other]), np.concatenate([other, one])
        load[:] = 0
        count_flows(at, graph.peer, lft, switch[source], lid[dest], load)
        out[i] = load.max(initial=0)
    return out


def _tiers(graph: SwitchGraph, paths: np.ndarray) -> tuple[Tier, ...]:
    height = heights(graph)
    owner = graph.link_switch
    step = np.stack([height[owner], height[graph.peer]], axis=1)
    tiers = []
    for low, high in np.unique(step, axis=0):
        rows = np.flatnonzero((step == (low, high)).all(axis=1))
        top = rows[np.argsort(-paths[rows], kind="stable")][:WORST]
        named = tuple((int(owner[e]), int(graph.out_port[e]), int(paths[e])) for e in top)
        load = paths[rows]
        tiers.append(Tier(int(low), int(high), len(rows), int(load.min()), float(load.mean()), int(load.max()), named))
    return tuple(tiers)
