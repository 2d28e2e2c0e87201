"""``updn`` and ``dnup``: no link up after a link down, so no cycle of waiting channels.

``updn`` ranks switches by their distance from the roots; ``dnup`` by their distance from the CAs, the farthest on
top. Equal ranks are ordered by NodeGUID (OpenSM: the smaller is up), roots too, so the order is total and the tables
are free of credit loops on any graph.

Roots are given as GUIDs (of a switch, or of a CA port: then its switch), or found as OpenSM finds them: switches from
which one distance holds more than 90 % of all CAs and no other distance 5 %. Where OpenSM finds none it gives up and
routes by minhop; here the switches farthest from all CAs are tried, and then the one switch nearest to all CAs becomes
the root of its part of the fabric; ``notes`` says so. The same happens when the roots found leave CAs without a legal
way to each other. Given roots are obeyed.
"""

from __future__ import annotations

import numpy as np

from softib.routing.bfs_kernels import distance_to_cas, rank_from, spines
from softib.routing.engine import RouteOptions, Routing
from softib.routing.graph import SwitchGraph
from softib.routing.tables import Distances, cas_per_switch, min_hops, ordered_hops, tables

__all__ = ["find_spines", "find_tops", "given_roots", "heights", "pick_roots", "rank_switches", "route", "route_dnup"]


def route(graph: SwitchGraph, options: RouteOptions) -> Routing:
    """Tables by up*/down* from the roots."""
    notes: list[str] = []
    roots = given_roots(graph, options.root_guids, notes)
    if len(roots):
        roots, ranks = _complete(graph, roots, None, notes)
        d = ordered_hops(graph, _order(graph, ranks))
        lost = _lost_pairs(graph, d)
        if lost:
            notes.append(f"the given roots leave {lost} pairs of CA switches without a legal way")
    else:
        roots, ranks, d = _found_roots(graph, notes)
    guids = tuple(int(g) for g in graph.switch_guid[roots])
    return Routing("updn", tables(graph, d), ranks=ranks, roots=guids, notes=notes)


def _found_roots(graph: SwitchGraph, notes: list[str]) -> tuple[np.ndarray, np.ndarray, Distances]:
    """The first guess at the roots that gives every two CAs a legal way: spines, then tops, then one switch."""
    hops = min_hops(graph).hops
    for guess in (find_spines(graph, hops), find_tops(graph)):
        if len(guess):
            lines = [f"{len(guess)} root(s) found by the distances to the CAs: {_names(graph, guess)}"]
            roots, ranks = _complete(graph, guess, hops, lines)
            d = ordered_hops(graph, _order(graph, ranks))
            lost = _lost_pairs(graph, d)
            if not lost:
                notes += lines
                return roots, ranks, d
            notes.append(f"{len(guess)} switch(es) look like roots but leave {lost} pairs of CA switches "
                         "without a legal way; not taken")  # fmt: skip
    if not notes:
        notes.append("no switch looks like a root (OpenSM would fall back to minhop here)")
    roots, ranks = _complete(graph, np.empty(0, np.int32), hops, notes)
    return roots, ranks, ordered_hops(graph, _order(graph, ranks))


def route_dnup(graph: SwitchGraph, options: RouteOptions) -> Routing:
    """Tables by up*/down* where up leads away from the CAs: for CAs nearer to the roots than some switches are."""
    notes: list[str] = []
    height = heights(graph)
    ranks = (height.max(initial=0) - height).astype(np.int32)
    roots = np.flatnonzero(ranks == 0).astype(np.int32)
    d = ordered_hops(graph, _order(graph, ranks))
    lost = _lost_pairs(graph, d)
    if lost:
        # Leaves that are cabled to each other have several tops of equal rank; one root has a way to everything.
        roots, ranks = _complete(graph, np.empty(0, np.int32), min_hops(graph).hops, [])
        d = ordered_hops(graph, _order(graph, ranks))
        notes.append(f"ranks by distance from the CAs leave {lost} pairs of CA switches without a legal way; "
                     f"instead the root is {_names(graph, roots)}, the nearest to all CAs")  # fmt: skip
    guids = tuple(int(g) for g in graph.switch_guid[roots])
    return Routing("dnup", tables(graph, d), ranks=ranks, roots=guids, notes=notes)


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
    weight = cas_per_switch(graph)
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


def find_tops(graph: SwitchGraph) -> np.ndarray:
    """The switches farthest from all CAs (int32, ascending); empty where every switch has CAs."""
    height = heights(graph)
    return np.flatnonzero((height > 0) & (height == height.max(initial=0))).astype(np.int32)


def heights(graph: SwitchGraph) -> np.ndarray:
    """Links to the nearest switch that has a CA, int32[n_switches]; -1 where there is none."""
    height = np.full(graph.n_switches, -1, np.int32)
    leaves = np.flatnonzero(cas_per_switch(graph)).astype(np.int32)
    rank_from(graph.first, graph.peer, leaves, height)
    return height


def pick_roots(graph: SwitchGraph, hops: np.ndarray, parts: np.ndarray) -> np.ndarray:
    """In each connected part that ``parts`` bool[n] marks: the switch nearest to all CAs, ties to the smaller GUID."""
    total = np.empty(graph.n_switches, np.int64)
    distance_to_cas(hops, cas_per_switch(graph), total)
    by_distance = np.lexsort((graph.switch_guid, total))
    left, roots = parts.copy(), []
    for s in by_distance:
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
    graph: SwitchGraph, roots: np.ndarray, hops: np.ndarray | None, notes: list[str]
) -> tuple[np.ndarray, np.ndarray]:
    """Roots and ranks, with a root of its own for each part of the fabric that has none."""
    ranks = rank_switches(graph, roots)
    bare = ranks < 0
    if bare.any():
        extra = pick_roots(graph, min_hops(graph).hops if hops is None else hops, bare)
        if len(roots):
            notes.append(f"{len(extra)} part(s) of the fabric hold no root; took {_names(graph, extra)}")
        else:
            notes.append(f"took {_names(graph, extra)} as root, the nearest to all CAs")
        roots = np.union1d(roots, extra).astype(np.int32)
        ranks = rank_switches(graph, roots)
    return roots, ranks


def _order(graph: SwitchGraph, ranks: np.ndarray) -> np.ndarray:
    """Switches from the top down: by rank, then by GUID."""
    return np.lexsort((graph.switch_guid, ranks)).astype(np.int32)


def _lost_pairs(graph: SwitchGraph, d: Distances) -> int:
    """Ordered pairs of CA switches in one connected part that have no legal way."""
    leaves = np.flatnonzero(cas_per_switch(graph))
    missing = np.argwhere(d.hops[np.ix_(leaves, leaves)] == 255)
    if not len(missing):
        return 0
    part = np.full(graph.n_switches, -1, np.int32)
    reach = np.empty(graph.n_switches, np.int32)
    for s in leaves:
        if part[s] < 0:
            rank_from(graph.first, graph.peer, np.array([s], np.int32), reach)
            part[reach >= 0] = s
    return int(np.count_nonzero(part[leaves[missing[:, 0]]] == part[leaves[missing[:, 1]]]))


def _names(graph: SwitchGraph, switches: np.ndarray, most: int = 4) -> str:
    names = [f"{int(g):#018x}" for g in graph.switch_guid[switches[:most]]]
    return ", ".join(names) + (f" and {len(switches) - most} more" if len(switches) > most else "")
