"""``lash``: layered shortest paths (T. Skeie, O. Lysne, I. Theiss, "Layered Shortest Path (LASH) Routing in Irregular System Area
Networks", IPDPS 2002; OpenSM's engine).

One shortest path a pair of switches, and each pair on a VL whose paths make no cycle of waiting channels
(:mod:`softib.routing.layers`); parallel cables between two switches count as one channel and share the destinations. The
algorithm leaves open which shortest path is taken: the balanced ones (weights as in sssp) and those over the lowest ports
(dimension order, where the cables are plugged so) are both tried, and those that need fewer VLs win; where both need as many, those
whose worst link carries fewer flows in random bisections. SL = VL.
"""

from __future__ import annotations

import numpy as np

from softib.plural import counted, plural
from softib.routing.detours import without_switch_loops
from softib.routing.dor import first_links
from softib.routing.engine import RouteOptions, Routing
from softib.routing.fallback import by_minhop
from softib.routing.graph import SwitchGraph
from softib.routing.layers import NO_LAYER, Layers, merged, place_paths, placed
from softib.routing.quality import most_flows_of_bisections
from softib.routing.sssp_kernels import NOT_TAKEN, spread_paths
from softib.routing.switch_paths import links_table, tables
from softib.routing.tables import cas_per_switch, destinations_table, min_hops

__all__ = ["route"]

BISECTIONS = 200
"""Random bisections by which two sets of paths are told apart (standard error about 1 % of the flows)."""


def route(graph: SwitchGraph, options: RouteOptions) -> Routing:
    """Tables of ``graph`` and the SLs of its paths; minhop's where ``options.data_vls`` are too few."""
    ends, cas = _one_end_a_switch(graph), cas_per_switch(graph)
    first = ends[cas[graph.end_switch[ends]] > 0]
    canon = merged(graph)
    tried: list[tuple[Layers, np.ndarray]] = []
    for paths in (_balanced, _by_port):
        lft = tables(graph, paths(graph, ends, cas))
        tried.append((place_paths(graph, lft, first, options.data_vls, canon, both=True), lft))
        if tried[-1][0].used == 1:
            break
    found, lft = _better(graph, tried)
    if found.used > options.data_vls:
        why = f"paths need more than the {counted(options.data_vls, 'data VL')} there {plural(options.data_vls, 'is', 'are')}"
        return by_minhop(graph, options, "lash", why)
    if found.used == 1 and (free := without_switch_loops(graph, lft)) is not None:
        return Routing("lash", free, notes=["1 VL"])
    by_switch = np.zeros((graph.n_switches, graph.n_switches), np.uint8)
    by_switch[np.ix_(found.source, graph.end_switch[first])] = np.where(found.layer == NO_LAYER, 0, found.layer)
    return placed(graph, Routing("lash", lft, by_switch[:, graph.end_switch], vls=found.used), options.data_vls)


def _better(graph: SwitchGraph, tried: list[tuple[Layers, np.ndarray]]) -> tuple[Layers, np.ndarray]:
    """The tables that need fewer VLs; of those that need as many, those whose worst link carries fewer flows."""
    least = min(found.used for found, _ in tried)
    left = [t for t in tried if t[0].used == least]
    if len(left) == 1:
        return left[0]
    return min(left, key=lambda t: int(most_flows_of_bisections(graph, t[1], BISECTIONS).sum()))


def _one_end_a_switch(graph: SwitchGraph) -> np.ndarray:
    """Rows of end ports, the one with the lowest LID on each switch that has any."""
    return np.unique(graph.end_switch, return_index=True)[1]


def _balanced(graph: SwitchGraph, ends: np.ndarray, cas: np.ndarray) -> np.ndarray:
    """Links int32[n, n] of shortest paths, each tree where the pairs of CAs so far cross the least."""
    switch = graph.end_switch[ends]
    by_load = np.lexsort((graph.switch_guid[switch], -cas[switch]))
    ends, switch = ends[by_load].astype(np.int32), switch[by_load]
    dests = destinations_table(graph, switch, np.arange(len(ends) + 1, dtype=np.int32), ends, cas[switch])
    weight, recent = np.zeros(len(graph.peer)), np.zeros(len(graph.peer))
    taken = np.full((graph.lft_size, graph.n_switches), NOT_TAKEN, np.uint8)
    spread_paths(links_table(graph), dests, cas, False, 0.0, weight, recent, taken)
    by_end = taken[graph.end_lid[ends]].T
    via = np.full((graph.n_switches, graph.n_switches), -1, np.int32)
    via[:, switch] = np.where(by_end == NOT_TAKEN, -1, graph.first[:-1, None] + by_end)
    return via


def _by_port(graph: SwitchGraph, ends: np.ndarray, cas: np.ndarray) -> np.ndarray:
    return first_links(graph, min_hops(graph).hops)
