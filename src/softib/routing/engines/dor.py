"""``dor``: dimension order routing by port numbers, as in OpenSM (``opensm(8)``, "DOR Routing Algorithm").

Each switch uses the shortest path through its lowest port. If the cables of a mesh or hypercube use
ports in the same order of dimensions on every switch, this is dimension order, which is free of
credit loops on one VL. Destinations are distributed over parallel cables. On tori with rings of
more than four switches, or with cables in another order, the tables can have credit loops
(``verify`` reports them); the tables of torus-2QoS and lash do not. OpenSM's ``dor`` differs only
in the choice among parallel cables.
"""

from __future__ import annotations

import numpy as np

from softib.routing.bfs_kernels import lowest_neighbour
from softib.routing.engine import RouteOptions, Routing
from softib.routing.graph import SwitchGraph
from softib.routing.tables import beyond_max_hops, min_hops, switch_tables

__all__ = ["first_links", "route"]


def route(graph: SwitchGraph, options: RouteOptions) -> Routing:
    """Return the tables of ``graph`` by dimension order."""
    hops = min_hops(graph).hops
    return Routing("dor", switch_tables(graph, first_links(graph, hops)), notes=beyond_max_hops(graph, hops))


def first_links(graph: SwitchGraph, hops: np.ndarray) -> np.ndarray:
    """Return int32[n, n]: of the links of the row's switch on a shortest path to the column's
    switch, the one with the lowest port; -1 = none."""
    via = np.empty((graph.n_switches, graph.n_switches), np.int32)
    lowest_neighbour(graph.first, graph.peer, hops, via)
    return via
