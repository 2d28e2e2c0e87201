"""Independent measures of a fabric, from ports and cables only: what the tests compare with published formulas."""

from __future__ import annotations

import itertools
from collections import Counter

import numpy as np

from softib.fabric.model import Fabric


def check_wiring(f: Fabric) -> None:
    """Laws of any fabric: peers mutual, cable ends consistent, no port twice, names and GUIDs unique."""
    ends = f.cable_port[f.cable_port >= 0]
    assert len(np.unique(ends)) == len(ends), "a port holds two cables"
    held = np.flatnonzero(f.port_cable >= 0)
    assert sorted(held) == sorted(ends.tolist())
    linked = np.flatnonzero(f.port_peer >= 0)
    assert (f.port_peer[f.port_peer[linked]] == linked).all()
    assert (f.port_cable[f.port_peer[linked]] == f.port_cable[linked]).all()
    assert (f.port_num[held] > 0).all(), "a cable in a management port"
    names = f.node_names()
    assert len(set(names)) == len(names)
    assert len(np.unique(f.node_guid)) == len(names)


def adjacency(f: Fabric) -> np.ndarray:
    """Cables between each pair of nodes (int[nodes, nodes])."""
    n = f.sizes.nodes
    a, b = f.port_node[f.cable_port[:, 0]], f.port_node[f.cable_port[:, 1]]
    out = np.zeros((n, n), np.int64)
    np.add.at(out, (a, b), 1)
    np.add.at(out, (b, a), 1)
    return out


def distances(f: Fabric, nodes: np.ndarray) -> np.ndarray:
    """Hops between ``nodes`` over links among them (-1 = no path)."""
    near = adjacency(f)[np.ix_(nodes, nodes)] > 0
    out = np.where(np.eye(len(nodes), dtype=bool), 0, -1)
    reached = np.eye(len(nodes), dtype=bool)
    hops = 0
    while True:
        hops += 1
        grown = (reached.astype(np.float32) @ near.astype(np.float32)) > 0
        new = grown & ~reached
        if not new.any():
            return out
        out[new] = hops
        reached |= new


def switch_distances(f: Fabric) -> np.ndarray:
    """Hops between switches over switches."""
    return distances(f, np.flatnonzero(f.is_switch))


def degrees(f: Fabric, nodes: np.ndarray) -> np.ndarray:
    """Cables in each of ``nodes``."""
    return np.bincount(f.port_node[f.cable_port.ravel()], minlength=f.sizes.nodes)[nodes]


def level(f: Fabric, number: int) -> np.ndarray:
    """Nodes that the generator says are at a level."""
    return np.flatnonzero(f.source.generator["node_level"] == number)


def tier_count(f: Fabric, tier: str) -> int:
    """Cables of a tier."""
    truth = f.source.generator
    return int((truth["cable_tier"] == truth["tiers"].index(tier)).sum()) if tier in truth["tiers"] else 0


def fingerprint(f: Fabric) -> Counter[tuple[tuple[int, ...], ...]]:
    """Isomorphism invariant: for each switch, how many CAs and switches are at each distance, and cables to neighbours."""
    every = np.arange(f.sizes.nodes)
    hops, links = distances(f, every), adjacency(f)
    rows: Counter[tuple[tuple[int, ...], ...]] = Counter()
    for s in np.flatnonzero(f.is_switch):
        cas = np.bincount(hops[s, ~f.is_switch] + 1)
        switches = np.bincount(hops[s, f.is_switch] + 1)
        rows[(tuple(cas.tolist()), tuple(switches.tolist()), tuple(sorted(links[s][links[s] > 0].tolist())))] += 1
    return rows


def max_flow(f: Fabric, sources: np.ndarray, sinks: np.ndarray) -> int:
    """Cables' worth of traffic that can go from ``sources`` to ``sinks`` at once (Edmonds and Karp, unit capacities)."""
    n = f.sizes.nodes
    room: list[dict[int, int]] = [{} for _ in range(n + 2)]
    for a, b in f.port_node[f.cable_port].tolist():
        room[a][b] = room[a].get(b, 0) + 1
        room[b][a] = room[b].get(a, 0) + 1
    for s in sources.tolist():
        room[n][s], room[s][n] = 1, 0
    for t in sinks.tolist():
        room[t][n + 1], room[n + 1][t] = 1, 0
    flow = 0
    while True:
        came, frontier = {n: -1}, [n]
        while frontier and n + 1 not in came:
            grown = []
            for u in frontier:
                for v, free in room[u].items():
                    if free and v not in came:
                        came[v] = u
                        grown.append(v)
            frontier = grown
        if n + 1 not in came:
            return flow
        v = n + 1
        while v != n:
            u = came[v]
            room[u][v] -= 1
            room[v][u] = room[v].get(u, 0) + 1
            v = u
        flow += 1


def flow_gbps(f: Fabric, gbps: np.ndarray, sources: np.ndarray, sinks: np.ndarray) -> float:
    """Gb/s that can go from node set to node set over cables of ``gbps`` each (Edmonds and Karp)."""
    n = f.sizes.nodes
    room: list[dict[int, float]] = [{} for _ in range(n + 2)]
    for (a, b), rate in zip(f.port_node[f.cable_port].tolist(), gbps.tolist(), strict=True):
        room[a][b] = room[a].get(b, 0.0) + rate
        room[b][a] = room[b].get(a, 0.0) + rate
    for s in sources.tolist():
        room[n][s], room[s][n] = np.inf, 0.0
    for t in sinks.tolist():
        room[t][n + 1], room[n + 1][t] = np.inf, 0.0
    flow = 0.0
    while True:
        came, frontier = {n: -1}, [n]
        for u in frontier:
            for v, free in room[u].items():
                if free > 1e-9 and v not in came:
                    came[v] = u
                    frontier.append(v)
        if n + 1 not in came:
            return flow
        path = [n + 1]
        while path[-1] != n:
            path.append(came[path[-1]])
        least = min(room[u][v] for v, u in itertools.pairwise(path))
        for v, u in itertools.pairwise(path):
            room[u][v] -= least
            room[v][u] = room[v].get(u, 0.0) + least
        flow += least
