"""``nue``: free of credit loops with any number of VLs, even one (J. Domke, T. Hoefler, S.
Matsuoka, "Routing on the Dependency Graph: A New Approach to Deadlock-Free High-Performance
Routing", HPDC 2016; OpenSM's engine).

Destinations are distributed among the VLs. For each destination, a search on the channels of its VL
finds the shortest and least used paths. It uses no dependency that would close a cycle with
dependencies already in use. If the search cannot reach a switch, the destination's paths follow a
spanning tree, whose dependencies every VL contains from the beginning. The SL equals the VL and
depends only on the destination. Paths to switches' own LIDs are treated like all others (OpenSM's
``nue_include_switches`` is off by default).

The number of VLs is ``nue_max_num_vls``, at most ``data_vls``. Destinations on neighbouring
switches use the same VL, because their paths have links in common. The tree is a breadth-first tree
from the switch nearest to all CAs. It contains only switches that are needed to connect CAs, since
only packets between CAs need escape paths. Missing entries are filled as in
:mod:`softib.routing.detours`. If a gap remains, everything is repeated with a tree of all switches.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from softib.components import components
from softib.iba.constants import LFT_NO_ROUTE
from softib.plural import plural
from softib.routing.bfs_kernels import distance_to_cas
from softib.routing.detours import fill, refilled
from softib.routing.engine import RouteOptions, Routing
from softib.routing.engines.lanes import by_direction, lanes_of, routing_on
from softib.routing.engines.nue_kernels import Tree, add_tree, route_part
from softib.routing.graph import SwitchGraph
from softib.routing.proof.credit_loops import channels, dependencies_of, vl_state
from softib.routing.roots import rank_switches, tree_links
from softib.routing.tables import cas_per_switch, min_hops

__all__ = ["route"]


def route(graph: SwitchGraph, options: RouteOptions) -> Routing:
    """Return tables of ``graph`` and the SL of each destination."""
    vls = max(1, min(options.nue_max_num_vls or options.data_vls, options.data_vls))
    cas = cas_per_switch(graph)
    depth, outward, tree = _spanning_tree(graph, cas)
    shares = _shares(graph, cas, outward, vls)
    routing, lost = _routed(graph, cas, outward, shares, _pruned(graph, tree, depth, cas), vls)
    if lost:
        routing, lost = _routed(graph, cas, outward, shares, tree, vls)
    return routing


def _routed(
    graph: SwitchGraph, cas: np.ndarray, outward: np.ndarray, shares: list[np.ndarray], tree: np.ndarray, most: int
) -> tuple[Routing, int]:
    """Return tables with ``tree`` (bool[links]) as escape paths, and the destinations that some CA
    cannot reach in them."""
    lft = np.full((graph.n_switches, graph.lft_size), LFT_NO_ROUTE, np.uint8)
    weight = np.zeros(len(graph.peer), np.int64)
    sls = np.zeros((1, len(graph.end_lid)), np.uint8)
    part = components(graph.n_switches, graph.link_switch, graph.peer)
    sources = np.bincount(part[cas > 0], minlength=graph.n_switches)[part].astype(np.int32)
    c, order = channels(graph), _channel_order(graph, outward, graph.link_switch)
    by_tree = lost = 0
    for vl, ends in enumerate(shares):
        sls[0, ends] = vl
        table = vl_state(graph, order)
        add_tree(c, table, tree)
        columns = graph.end_switch, graph.end_lid, graph.end_lmc, graph.end_port
        dests = np.stack([column[ends].astype(np.int64) for column in columns], axis=1)
        counted, wanted = ~graph.end_is_switch[ends], sources[graph.end_switch[ends]]
        routed_part = route_part(
            c, table, _tree_state(graph), (tree, graph.out_port), dests, (counted, wanted), cas, weight, lft
        )
        share = np.isin(np.arange(len(graph.end_lid)), ends)
        by_tree, lost = by_tree + routed_part[0], lost + routed_part[1]
        if fill(graph, lft, dependencies_of(graph, lft, share, switches=True), share)[0]:
            full = refilled(graph, lft, share, share)
            lost += full is None
            lft = lft if full is None else full
    shared, numbers = np.unique(sls, return_inverse=True)  # a share may have no destination
    used, sls = len(shared), numbers.reshape(sls.shape).astype(np.uint8)
    notes = [
        f"{used} {plural(used, 'share')} of destinations; {by_tree} of {len(graph.end_lid)} destinations along the "
        f"spanning tree"
    ]
    if used <= 1:
        return Routing("nue", lft, notes=notes, tree=tree), lost
    lanes = lanes_of(graph, lft, most, tree=tree) or by_direction(graph, lft, sls, most, tree)
    return replace(routing_on(lanes, "nue", notes), tree=tree), lost


def _tree_state(graph: SwitchGraph) -> Any:
    n = graph.n_switches
    taken, order, stamp, candidates = (np.full(n, -1, np.int32) for _ in range(4))
    return Tree(taken, order, np.zeros(n, np.int64), stamp, candidates, np.empty(n, np.int64))


def _spanning_tree(graph: SwitchGraph, cas: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return a breadth-first tree for each part, from its switch nearest to all CAs: depth of each
    switch, switches from the root on (int[n]), and the links of the trees (bool[links], both
    directions)."""
    part = components(graph.n_switches, graph.link_switch, graph.peer)
    total = np.empty(graph.n_switches, np.int64)
    distance_to_cas(min_hops(graph).hops, cas, total)
    by_distance = np.lexsort((graph.switch_guid, total))
    _, first = np.unique(part[by_distance], return_index=True)
    depth = rank_switches(graph, by_distance[first].astype(np.int32))
    return depth, np.lexsort((graph.switch_guid, depth)), tree_links(graph, depth)


def _pruned(graph: SwitchGraph, tree: np.ndarray, depth: np.ndarray, cas: np.ndarray) -> np.ndarray:
    """Return the tree without branches that end on switches without CAs, because only packets
    between CAs need escape paths."""
    owner = graph.link_switch
    wanted = cas > 0
    up = np.flatnonzero(tree & (depth[graph.peer] < depth[owner]))
    for level in range(int(depth.max(initial=0)), 0, -1):
        rows = up[(depth[owner[up]] == level) & wanted[owner[up]]]
        wanted[graph.peer[rows]] = True
    return tree & wanted[owner] & wanted[graph.peer]


def _channel_order(graph: SwitchGraph, outward: np.ndarray, owner: np.ndarray) -> np.ndarray:
    """Return the channels (int32[links]) in an order that allows all paths that go first towards
    the root and then away from it."""
    place = np.empty(graph.n_switches, np.int64)
    place[outward] = np.arange(graph.n_switches)
    down = place[graph.peer] > place[owner]
    return np.lexsort((np.where(down, place[graph.peer], -place[owner]), down)).astype(np.int32)


def _shares(graph: SwitchGraph, cas: np.ndarray, outward: np.ndarray, vls: int) -> list[np.ndarray]:
    """Return the rows of the end ports of each VL. Ends of neighbouring switches are on one VL, and
    CAs are distributed evenly. Within a VL, CAs come first."""
    place = np.empty(graph.n_switches, np.int64)
    place[outward] = np.arange(graph.n_switches)
    before = np.cumsum(cas[outward]) - cas[outward]
    share = np.empty(graph.n_switches, np.int64)
    share[outward] = np.minimum(before * vls // max(int(cas.sum()), 1), vls - 1)
    order = np.lexsort((graph.end_port, place[graph.end_switch], graph.end_is_switch))
    return [order[share[graph.end_switch[order]] == vl].astype(np.int32) for vl in range(vls)]
