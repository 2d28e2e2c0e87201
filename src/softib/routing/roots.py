"""The switches at the top of a fabric: roots that are given or detected, ranks, and the total order
from the top down."""

from __future__ import annotations

import numpy as np

from softib.components import components
from softib.routing.bfs_kernels import distance_to_cas, rank_from, spines
from softib.routing.graph import SwitchGraph
from softib.routing.tables import Distances, cas_per_switch, compute_per_switch

__all__ = [
    "find_spines",
    "find_tops",
    "given_roots",
    "heights",
    "illegal_pairs",
    "names",
    "pick_roots",
    "rank_switches",
    "top_down",
    "tree_links",
    "with_cut_tops",
]

NAMED = 4
"""Number of switches that a note names."""


def given_roots(graph: SwitchGraph, guids: tuple[int, ...], notes: list[str]) -> np.ndarray:
    """Return the switches (int32, ascending) that are given by NodeGUID, or by the PortGUID of a CA on them."""
    if not guids:
        return np.empty(0, np.int32)
    by_guid = {int(g): int(s) for g, s in zip(graph.end_guid, graph.end_switch, strict=True)}
    by_guid |= {int(g): s for s, g in enumerate(graph.switch_guid)}
    for g in guids:
        if g not in by_guid:
            notes.append(f"root {g:#018x} is not in the fabric; ignored")
    return np.unique([by_guid[g] for g in guids if g in by_guid]).astype(np.int32)


def find_spines(graph: SwitchGraph, hops: np.ndarray) -> np.ndarray:
    """Return the roots that OpenSM's histogram over ``hops`` (uint8[n, n]) finds (int32, ascending;
    may be empty).

    In a large tree (20 leaves are enough), nearly all CAs have the same distance from *any* switch,
    so the histogram alone would make every switch a root. So softib adds one rule to OpenSM's: a
    switch is not a root if it is cabled to a candidate that is nearer to all CAs.
    """
    weight = compute_per_switch(graph)
    roots = np.zeros(graph.n_switches, np.bool_)
    if not weight.any():
        return np.empty(0, np.int32)
    spines(hops, weight, roots)
    total = np.empty(graph.n_switches, np.int64)
    distance_to_cas(hops, weight, total)
    owner = graph.link_switch
    beaten = owner[roots[graph.peer] & (total[graph.peer] < total[owner])]
    roots[beaten] = False
    return np.flatnonzero(roots).astype(np.int32)


def with_cut_tops(graph: SwitchGraph, roots: np.ndarray) -> np.ndarray:
    """Return ``roots`` (of :func:`find_spines`) and, in a tree, the other switches of their tier (int32, ascending).

    A top switch that lost a cable, or is above a dead spine, is farther than other top switches
    from the CAs below it, and OpenSM's histogram omits it. Below a root it would carry no traffic,
    because no path goes down and then up, and spines connected only to such switches would carry
    none either. In a tree, whatever is missing, all top switches have the same distance from the
    leaves, and their only neighbours are switches one tier lower.
    """
    if not len(roots):
        return roots
    height = heights(graph)
    level = height[roots[0]]
    strays = np.unique(graph.link_switch[height[graph.peer] != level - 1])
    if level < 1 or (height[roots] != level).any() or np.isin(roots, strays).any():
        return roots
    return np.setdiff1d(np.flatnonzero(height == level), strays).astype(np.int32)


def find_tops(graph: SwitchGraph, weight: np.ndarray | None = None) -> np.ndarray:
    """Return the switches farthest from all CAs (int32, ascending); empty if every switch has CAs.

    ``weight`` int[n]: number of CAs of a switch, if only some ends are compute nodes.
    """
    height = heights(graph, weight)
    return np.flatnonzero((height > 0) & (height == height.max(initial=0))).astype(np.int32)


def heights(graph: SwitchGraph, weight: np.ndarray | None = None) -> np.ndarray:
    """Return the links to the nearest switch that has a CA, int32[n_switches]; -1 if none is
    reachable. SHARP nodes do not count.

    ``weight`` as in :func:`find_tops`.
    """
    height = np.full(graph.n_switches, -1, np.int32)
    leaves = np.flatnonzero(compute_per_switch(graph) if weight is None else weight).astype(np.int32)
    rank_from(graph.first, graph.peer, leaves, height)
    return height


def pick_roots(graph: SwitchGraph, among: np.ndarray | None = None) -> np.ndarray:
    """Return, for each connected part, the switch with the most CAs among those in ``among``
    (bool[n]). If several have the same number, the one with the smallest GUID is used."""
    part = components(graph.n_switches, graph.link_switch, graph.peer)
    by = np.lexsort((graph.switch_guid, -compute_per_switch(graph)))
    by = by if among is None else by[among[by]]
    return np.sort(by[np.unique(part[by], return_index=True)[1]]).astype(np.int32)


def rank_switches(graph: SwitchGraph, roots: np.ndarray) -> np.ndarray:
    """Return links to the nearest root, int32[n_switches]; -1 without a path to one."""
    ranks = np.full(graph.n_switches, -1, np.int32)
    rank_from(graph.first, graph.peer, roots, ranks)
    return ranks


def tree_links(graph: SwitchGraph, depth: np.ndarray) -> np.ndarray:
    """Return bool[links]: the links of a tree, in both directions, that joins each switch to one neighbour nearer to
    the root. ``depth`` int[switches]: distance from the root, negative for switches that it does not reach."""
    owner = graph.link_switch
    up = np.flatnonzero((depth[graph.peer] < depth[owner]) & (depth[graph.peer] >= 0))
    _, which = np.unique(owner[up], return_index=True)
    tree = np.zeros(len(graph.peer), np.bool_)
    tree[up[which]] = tree[graph.reverse[up[which]]] = True
    return tree


def top_down(graph: SwitchGraph, ranks: np.ndarray) -> np.ndarray:
    """Return switches from the top down: by rank, then by GUID."""
    return np.lexsort((graph.switch_guid, ranks)).astype(np.int32)


def names(graph: SwitchGraph, switches: np.ndarray) -> str:
    """Return the GUIDs of at most :data:`NAMED` of ``switches`` as text."""
    names = [f"{int(g):#018x}" for g in graph.switch_guid[switches[:NAMED]]]
    return ", ".join(names) + (f" and {len(switches) - NAMED} more" if len(switches) > NAMED else "")


def illegal_pairs(graph: SwitchGraph, d: Distances, hops: np.ndarray) -> int:
    """Return the number of (CA switch, any switch) pairs that are connected but have no legal path."""
    leaves = np.flatnonzero(cas_per_switch(graph))
    return int(np.count_nonzero((d.hops[leaves] == 255) & (hops[leaves] != 255)))
