"""``sssp``: shortest paths, each destination along the links that carry the fewest paths so far.

T. Hoefler, T. Schneider, A. Lumsdaine, "Optimized Routing for Large-Scale InfiniBand Networks", Hot Interconnects 2009: a
search from every destination in turn, where a link weighs as much as the paths that already cross it. Weights only choose
among paths of least hops (a link's initial weight would outweigh them all). Unlike minhop the whole path counts, not the port
alone. One VL: on cyclic fabrics the tables may loop (:mod:`softib.routing.dfsssp` takes the same tables and breaks the loops).
"""

from __future__ import annotations

import numpy as np

from softib.iba.constants import LFT_NO_ROUTE
from softib.routing.engine import RouteOptions, Routing
from softib.routing.graph import SwitchGraph
from softib.routing.sssp_kernels import spread_paths
from softib.routing.switch_paths import links_table
from softib.routing.tables import cas_per_switch, destination_groups, destinations_table

__all__ = ["PASSES", "route", "tables"]

PASSES = 2
"""All destinations are routed, then each again with the others' paths as weights: more passes gain nothing (bench/routing_opensm.py)."""


def route(graph: SwitchGraph, options: RouteOptions) -> Routing:
    """Tables of ``graph`` by weighted shortest paths."""
    return Routing("sssp", tables(graph))


def tables(graph: SwitchGraph) -> np.ndarray:
    """uint8[n_switches, lft_size], 255 = no route. Destinations on the fullest switch come first, switches' own LIDs last."""
    lft = np.full((graph.n_switches, graph.lft_size), LFT_NO_ROUTE, np.uint8)
    dests = destinations_table(graph, *destination_groups(graph))
    weight = np.zeros(len(graph.peer), np.int64)
    for number in range(PASSES):
        spread_paths(links_table(graph), dests, cas_per_switch(graph), number > 0, weight, lft)
    return lft
