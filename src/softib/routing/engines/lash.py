"""``lash``: layered shortest paths (T. Skeie, O. Lysne, I. Theiss, "Layered Shortest Path (LASH)
Routing in Irregular System Area Networks", IPDPS 2002; OpenSM's engine).

There is one shortest path per pair of switches. The paths of both directions between two switches
use one VL on which they make no cycle of waiting channels (:mod:`softib.routing.engines.lanes`), as
in OpenSM. Parallel cables between two switches count as one channel, and destinations are
distributed over them. The algorithm does not define which of several shortest paths is used, so
softib tries three choices: balanced paths (weights as in sssp), paths over the lowest ports
(dimension order, if the cables are plugged in this order), and paths that are the same in both
directions. The choice that needs the fewest VLs is used. If several need the same number, the one
whose worst link carries the fewest flows in random bisections is used. SL = VL.
"""

from __future__ import annotations

import numpy as np

from softib.plural import counted, plural
from softib.routing.bfs_kernels import lightest_neighbours
from softib.routing.detours import without_switch_loops
from softib.routing.engine import RouteOptions, Routing
from softib.routing.engines.dor import first_links
from softib.routing.engines.lanes import Lanes, lanes_with_switches, layers_of_cas, routing_on
from softib.routing.engines.minhop import by_minhop
from softib.routing.engines.sssp_kernels import NOT_TAKEN, spread_paths
from softib.routing.graph import SwitchGraph
from softib.routing.proof.credit_loops import merged
from softib.routing.quality import most_flows_of_bisections
from softib.routing.tables import (
    DestinationGroups,
    cas_per_switch,
    destinations_table,
    links_table,
    min_hops,
    switch_tables,
)

__all__ = ["route"]

BISECTIONS = 200
"""Number of random bisections that compare two sets of paths. (The standard error is about 1 % of
the flows.)"""


def route(graph: SwitchGraph, options: RouteOptions) -> Routing:
    """Return the tables of ``graph``, and the SLs of its paths. If ``options.data_vls`` is too
    small, return minhop's tables."""
    ends, cas = _one_end_a_switch(graph), cas_per_switch(graph)
    canon = merged(graph)
    tried: list[Lanes] = []
    for paths in (_balanced, _by_port, _there_and_back):
        lft = switch_tables(graph, paths(graph, ends, cas))
        layers = layers_of_cas(graph, lft, options.data_vls, canon)
        if layers is None:
            continue
        if layers.used == 1 and (free := without_switch_loops(graph, lft)) is not None:
            return Routing("lash", free, notes=["1 VL"])
        tried.append(lanes_with_switches(layers, options.data_vls))
        if layers.used == 1:
            break
    if not tried:
        why = (
            f"paths need more than the {counted(options.data_vls, 'data VL')} there "
            f"{plural(options.data_vls, 'is', 'are')}"
        )
        return by_minhop(graph, options, "lash", why)
    return routing_on(_better(graph, tried), "lash", [])


def _better(graph: SwitchGraph, tried: list[Lanes]) -> Lanes:
    """Return the tables with fewer VLs; if the numbers are equal, those whose worst link carries fewer flows."""
    need = [(lanes.left > 0, lanes.used, lanes.between) for lanes in tried]
    left = [lanes for lanes, n in zip(tried, need, strict=True) if n == min(need)]
    if len(left) == 1:
        return left[0]
    return min(left, key=lambda lanes: int(most_flows_of_bisections(graph, lanes.lft, BISECTIONS).sum()))


def _one_end_a_switch(graph: SwitchGraph) -> np.ndarray:
    """Return the row of one end port per switch: the one with the lowest LID."""
    return np.unique(graph.end_switch, return_index=True)[1]


def _balanced(graph: SwitchGraph, ends: np.ndarray, cas: np.ndarray) -> np.ndarray:
    """Return the links int32[n, n] of shortest paths. The tree of each destination uses the links
    that are used by the fewest pairs of CAs so far."""
    switch = graph.end_switch[ends]
    by_load = np.lexsort((graph.switch_guid[switch], -cas[switch]))
    ends, switch = ends[by_load].astype(np.int32), switch[by_load]
    each = DestinationGroups(switch, np.arange(len(ends) + 1, dtype=np.int32), ends, cas[switch])
    dests = destinations_table(graph, each)
    weight, recent = np.zeros(len(graph.peer)), np.zeros(len(graph.peer))
    taken = np.full((graph.lft_size, graph.n_switches), NOT_TAKEN, np.uint8)
    spread_paths(links_table(graph), dests, cas, False, 0.0, weight, recent, taken)
    by_end = taken[graph.end_lid[ends]].T
    via = np.full((graph.n_switches, graph.n_switches), -1, np.int32)
    via[:, switch] = np.where(by_end == NOT_TAKEN, -1, graph.first[:-1, None] + by_end)
    return via


def _by_port(graph: SwitchGraph, ends: np.ndarray, cas: np.ndarray) -> np.ndarray:
    return first_links(graph, min_hops(graph).hops)


def _there_and_back(graph: SwitchGraph, ends: np.ndarray, cas: np.ndarray) -> np.ndarray:
    """Return paths that are the same in both directions: those with the smallest sum of weights.
    The cables between two switches have one random weight."""
    owner = graph.link_switch
    pair = np.minimum(owner, graph.peer).astype(np.int64) * graph.n_switches + np.maximum(owner, graph.peer)
    _, which = np.unique(pair, return_inverse=True)
    weight = np.random.default_rng(0).integers(1 << 40, size=which.max(initial=-1) + 1)[which]
    via = np.empty((graph.n_switches, graph.n_switches), np.int32)
    lightest_neighbours(graph.first, graph.peer, min_hops(graph).hops, weight, via)
    return via
