"""Cables crossed by packets between two ports, from the forwarding tables and all shortest paths."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from softib.diags.job_causes.site import Site
from softib.iba.constants import LFT_NO_ROUTE

__all__ = ["PathSet", "paths_between"]

MOST_HOPS = 64
PAIRS_MOST = 128
"""Maximum number of pairs whose paths are followed; more add no information."""
ALTERNATIVE = 0.08
"""Weight of a cable on a shortest path outside of the tables: the tables may have been different at
that time."""


@dataclass
class PathSet:
    """``weight``: cable (its smaller port row) → share of the pairs whose packets cross it;
    ``by_tables``: ports of the tables' path of the first pair, in order; ``ended``: why that path
    does not arrive."""

    weight: dict[int, float] = field(default_factory=dict)
    by_tables: list[int] = field(default_factory=list)
    ended: str = ""
    apart: bool = False
    """No cables join the two ends of a pair."""


def paths_between(site: Site, pairs: list[tuple[int, int]]) -> PathSet:
    """Return the paths of ``pairs`` of port rows, both directions."""
    paths = PathSet()
    cache: dict[int, np.ndarray] = {}
    pairs = pairs[:PAIRS_MOST]
    for a, b in pairs:
        for cable, weight in _of_pair(site, a, b, paths, cache).items():
            paths.weight[cable] = paths.weight.get(cable, 0.0) + weight / len(pairs)
    return paths


def _of_pair(site: Site, a: int, b: int, paths: PathSet, cache: dict[int, np.ndarray]) -> dict[int, float]:
    """Return cable → weight for one pair, both directions."""
    weight: dict[int, float] = {}
    for begin, end in ((a, b), (b, a)):
        shares = _shortest(site, begin, end, cache)
        if shares is None:
            paths.apart |= begin != end
            shares = {p: 1.0 for p in (begin,) if site.peer[p] >= 0}
        hops, ended = _by_tables(site, begin, end) if site.has_tables else ([], "")
        if hops and not paths.by_tables:
            paths.by_tables, paths.ended = hops, ended
        for port, share in [*shares.items(), *((p, 1.0) for p in hops)]:
            here = 1.0 if port in hops else share * ALTERNATIVE if hops else share
            cable = int(site.cable[port])
            weight[cable] = max(weight.get(cable, 0.0), here)
    return weight


def _by_tables(site: Site, a: int, b: int) -> tuple[list[int], str]:
    f, hops, port = site.fabric, [], a
    dlid = int(site.lid[b])
    node = int(f.port_node[a])
    if not f.is_switch[node]:
        if site.peer[a] < 0:
            return [], ""
        hops.append(a)
        port = int(site.peer[a])
        node = int(f.port_node[port])
    for _ in range(MOST_HOPS):
        if node == int(f.port_node[b]) or not f.is_switch[node]:
            return hops, "" if node == int(f.port_node[b]) else f"it reaches {f.node_name(node)}"
        out = int(f.lft[f.switch_of_node[node], dlid]) if 0 < dlid < f.lft.shape[1] else LFT_NO_ROUTE
        if out == LFT_NO_ROUTE or not 0 < out <= int(f.node_nports[node]):
            return hops, f"{f.node_name(node)} has no route to LID {dlid}"
        here = int(f.node_base[node]) + out
        if site.peer[here] < 0:
            return hops, f"{site.name(here)}, to which the table points, has no cable"
        hops.append(here)
        node = int(f.port_node[site.peer[here]])
    return hops, "it loops"


def _shortest(site: Site, a: int, b: int, cache: dict[int, np.ndarray]) -> dict[int, float] | None:
    """Return egress port → share of packets; each switch splits evenly among its shortest paths.
    None if no cables join the two."""
    start, goal = _switch(site, a), _switch(site, b)
    if start < 0 or goal < 0:
        return None
    if goal not in cache:
        cache[goal] = _distances(site, goal)
    distance = cache[goal]
    if distance[start] < 0:
        return None
    f = site.fabric
    shares: dict[int, float] = {} if f.is_switch[f.port_node[a]] else {a: 1.0}
    front = {start: 1.0}
    while front and goal not in front:
        after: dict[int, float] = {}
        for node, share in front.items():
            ports = np.arange(f.node_base[node] + 1, f.node_base[node] + f.node_nports[node] + 1)
            peers = site.peer[ports]
            there = np.where(peers >= 0, f.port_node[np.maximum(peers, 0)], -1)
            closer = ports[
                (there >= 0)
                & (distance[np.maximum(there, 0)] == distance[node] - 1)
                & f.is_switch[np.maximum(there, 0)]
            ]
            for port in closer.tolist():
                shares[port] = shares.get(port, 0.0) + share / len(closer)
                to = int(f.port_node[site.peer[port]])
                after[to] = after.get(to, 0.0) + share / len(closer)
        front = after
    if not f.is_switch[f.port_node[b]]:
        shares[int(site.peer[b])] = 1.0
    return shares


def _switch(site: Site, port: int) -> int:
    """Return the node of a switch's port, or the switch connected to an adapter's port; -1 if
    none."""
    f, node = site.fabric, int(site.fabric.port_node[port])
    if f.is_switch[node]:
        return node
    peer = int(site.peer[port])
    return int(f.port_node[peer]) if peer >= 0 and f.is_switch[f.port_node[peer]] else -1


def _distances(site: Site, goal: int) -> np.ndarray:
    """Return the hops of each switch to ``goal`` (int32[nodes]); -1 if there is no path."""
    f = site.fabric
    rows = np.flatnonzero((site.peer >= 0) & site.is_switch & site.is_switch[np.maximum(site.peer, 0)])
    head, tail = f.port_node[rows], f.port_node[site.peer[rows]]
    distance = np.full(f.sizes.nodes, -1, np.int32)
    distance[goal] = 0
    for hops in range(1, MOST_HOPS):
        new = head[(distance[tail] == hops - 1) & (distance[head] < 0)]
        if not len(new):
            break
        distance[new] = hops
    return distance
