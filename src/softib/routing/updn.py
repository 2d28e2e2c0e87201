"""``updn`` and ``dnup``: no link up after a link down, so no cycle of waiting channels.

``updn`` ranks switches by their distance from the roots; ``dnup`` by their distance from the CAs, the farthest on
top. Equal ranks are ordered by NodeGUID (OpenSM: the smaller is up), roots too, so the order is total and the tables
are free of credit loops on any graph.

Roots are given as GUIDs (of a switch, or of a CA port: then its switch), or found as OpenSM finds them: switches from
which one distance holds more than 90 % of all CAs and no other distance 5 %. Where OpenSM finds none it gives up and
routes by minhop; here **one leaf**, the switch with most CAs, becomes the root. One root reaches everything,
and a leaf as the only root leaves a tree all its ways: from any other leaf the spines are still up, and two spines meet
at the root. (The switch nearest to all CAs, the obvious choice, would draw all traffic through itself: on
hk-examples/Topo.6 30,289 paths on the worst link against 5,366 by the fullest leaf and 3,501 by minhop.) The leaf is
also taken where the roots found leave a CA without a legal way to a CA or switch. ``notes`` says what was done. Given
roots are obeyed whatever they leave out.
"""

from __future__ import annotations

import numpy as np

from softib.routing.bfs_kernels import distance_to_cas, rank_from, spines
from softib.routing.engine import RouteOptions, Routing
from softib.routing.graph import SwitchGraph
from softib.routing.tables import Distances, cas_per_switch, compute_per_switch, min_hops, ordered_hops, tables

__all__ = [
    "find_spines",
    "find_tops",
    "given_roots",
    "heights",
    "pick_roots",
    "rank_switches",
    "route",
    "route_dnup",
    "top_down",
]


def route(graph: SwitchGraph, options: RouteOptions) -> Routing:
    """Tables by up*/down* from the roots."""
    notes: list[str] = []
    hops = min_hops(graph).hops
    roots = given_roots(graph, options.root_guids, notes)
    if len(roots):
        roots, ranks = _complete(graph, roots, hops, notes)
        d = ordered_hops(graph, top_down(graph, ranks))
        lost = _lost_pairs(graph, d, hops)
        if lost:
            notes.append(f"the given roots leave {lost} (CA switch, switch) pairs without a legal way")
    else:
        roots, ranks, d = _found_roots(graph, hops, notes)
    guids = tuple(int(g) for g in graph.switch_guid[roots])
    return Routing("updn", tables(graph, d), ranks=ranks, roots=guids, notes=notes)


def route_dnup(graph: SwitchGraph, options: RouteOptions) -> Routing:
    """Tables by up*/down* where up leads away from the CAs: for CAs nearer to the roots than some switches are."""
    notes: list[str] = []
    hops = min_hops(graph).hops
    height = heights(graph)
    ranks = (height.max(initial=0) - height).astype(np.int32)
    roots = np.flatnonzero(ranks == 0).astype(np.int32)
    d = ordered_hops(graph, top_down(graph, ranks))
    lost = _lost_pairs(graph, d, hops)
    if lost:
        notes.append(f"ranks by the distance from the CAs leave {lost} (CA switch, switch) pairs without a legal way")
        roots, ranks = _complete(graph, np.empty(0, np.int32), hops, notes)
        d = ordered_hops(graph, top_down(graph, ranks))
    guids = tuple(int(g) for g in graph.switch_guid[roots])
    return Routing("dnup", tables(graph, d), ranks=ranks, roots=guids, notes=notes)


def _found_roots(graph: SwitchGraph, hops: np.ndarray, notes: list[str]) -> tuple[np.ndarray, np.ndarray, Distances]:
    """Roots, ranks and distances: from the spines if every CA then has a legal way to everything, else from a leaf."""
    found = find_spines(graph, hops)
    if len(found):
        lines = [f"{len(found)} root(s) found by the distances to the CAs: {_names(graph, found)}"]
        roots, ranks = _complete(graph, found, hops, lines)
        d = ordered_hops(graph, top_down(graph, ranks))
        lost = _lost_pairs(graph, d, hops)
        if not lost:
            notes += lines
            return roots, ranks, d
        notes.append(f"{len(found)} switch(es) look like roots, {_names(graph, found)}, but leave {lost} "
                     "(CA switch, switch) pairs without a legal way")  # fmt: skip
    else:
        notes.append("no switch looks like a root (OpenSM would fall back to minhop here)")
    roots, ranks = _complete(graph, np.empty(0, np.int32), hops, notes)
    return roots, ranks, ordered_hops(graph, top_down(graph, ranks))


def given_roots(graph: SwitchGraph, guids: tuple[int, ...], notes: list[str]) -> np.ndarray:
    """Switches (int32, ascending) named by NodeGUID, or by the PortGUID of a CA that hangs on them."""
    by_guid = {int(g): int(s) for g, s in zip(graph.end_guid, graph.end_switch, strict=True)}
    by_guid |= {int(g): s for s, g in enumerate(graph.switch_guid)}
    for g in guids:
        if g not in by_guid:
            notes.append(f"root {g:#018x} is not in the fabric; ignored")
    return np.unique([by_guid[g] for g in guids if g in by_guid]).astype(np.int32)


def find_spines(graph: SwitchGraph, hops: np.ndarray) -> np.ndarray:
    """Roots by OpenSM's histogram over ``hops`` uint8[n, n] (int32, ascending; may be empty).

    In a large tree nearly all CAs are equally far from *any* switch (over 20 leaves are enough), so the histogram
    alone takes every switch for a root. Hence one rule more than OpenSM's: a switch that is cabled to a candidate
    nearer to all CAs is no root.
    """
    weight = compute_per_switch(graph)
    found = np.zeros(graph.n_switches, np.bool_)
    if not weight.any():
        return np.empty(0, np.int32)
    spines(hops, weight, found)
    total = np.empty(graph.n_switches, np.int64)
    distance_to_cas(hops, weight, total)
    owner = np.repeat(np.arange(graph.n_switches), np.diff(graph.first))
    beaten = owner[found[graph.peer] & (total[graph.peer] < total[owner])]
    found[beaten] = False
    return np.flatnonzero(found).astype(np.int32)


def find_tops(graph: SwitchGraph, weight: np.ndarray | None = None) -> np.ndarray:
    """The switches farthest from all CAs (int32, ascending); empty where every switch has CAs.

    ``weight`` int[n] says how many CAs a switch has, if not all compute ends count.
    """
    height = heights(graph, weight)
    return np.flatnonzero((height > 0) & (height == height.max(initial=0))).astype(np.int32)


def heights(graph: SwitchGraph, weight: np.ndarray | None = None) -> np.ndarray:
    """Links to the nearest switch that has a CA, int32[n_switches]; -1 where there is none. SHARP nodes do not count.

    ``weight`` as in :func:`find_tops`.
    """
    height = np.full(graph.n_switches, -1, np.int32)
    leaves = np.flatnonzero(compute_per_switch(graph) if weight is None else weight).astype(np.int32)
    rank_from(graph.first, graph.peer, leaves, height)
    return height


def pick_roots(graph: SwitchGraph, hops: np.ndarray, parts: np.ndarray) -> np.ndarray:
    """In each connected part that ``parts`` bool[n] marks: the switch with most CAs, ties to the smaller GUID."""
    left, roots = parts.copy(), []
    for s in np.lexsort((graph.switch_guid, -compute_per_switch(graph))):
        if left[s]:
            roots.append(s)
            left &= hops[s] == 255
    return np.array(sorted(roots), np.int32)


def rank_switches(graph: SwitchGraph, roots: np.ndarray) -> np.ndarray:
    """Links to the nearest root, int32[n_switches]; -1 where there is no way to one."""
    ranks = np.full(graph.n_switches, -1, np.int32)
    rank_from(graph.first, graph.peer, roots, ranks)
    return ranks


def _complete(
    graph: SwitchGraph, roots: np.ndarray, hops: np.ndarray, notes: list[str]
) -> tuple[np.ndarray, np.ndarray]:
    """Roots and ranks, with a root of its own for each part of the fabric that has none."""
    ranks = rank_switches(graph, roots)
    bare = ranks < 0
    if bare.any():
        extra = pick_roots(graph, hops, bare)
        parts = f"{len(extra)} part(s) of the fabric hold no root: " if len(roots) else ""
        notes.append(f"{parts}took {_names(graph, extra)} as root, the switch with most CAs")
        roots = np.union1d(roots, extra).astype(np.int32)
        ranks = rank_switches(graph, roots)
    return roots, ranks


def top_down(graph: SwitchGraph, ranks: np.ndarray) -> np.ndarray:
    """Switches from the top down: by rank, then by GUID."""
    return np.lexsort((graph.switch_guid, ranks)).astype(np.int32)


def _lost_pairs(graph: SwitchGraph, d: Distances, hops: np.ndarray) -> int:
    """(CA switch, any switch) pairs that are connected but have no legal way."""
    leaves = np.flatnonzero(cas_per_switch(graph))
    return int(np.count_nonzero((d.hops[leaves] == 255) & (hops[leaves] != 255)))


def _names(graph: SwitchGraph, switches: np.ndarray, most: int = 4) -> str:
    names = [f"{int(g):#018x}" for g in graph.switch_guid[switches[:most]]]
    return ", ".join(names) + (f" and {len(switches) - most} more" if len(switches) > most else "")
