"""``dor``: dimension order routing by port numbers, as in OpenSM (``opensm(8)``, "DOR Routing Algorithm").

Each switch uses the shortest path through its lowest port. If the cables of a mesh or hypercube are
plugged in the same order of dimensions everywhere, this is dimension order, which needs one VL and
no order of switches. Destinations are spread over parallel cables. On tori with rings of more than
four switches, or with cables in another order, the tables can have credit loops (``verify`` reports
them); torus-2QoS and lash do not. OpenSM's ``dor`` differs only in the choice among parallel
cables.
"""

from __future__ import annotations

import numpy as np

from softib.routing.bfs_kernels import lowest_neighbour
from softib.routing.engine import RouteOptions, Routing
from softib.routing.graph import SwitchGraph
from softib.routing.tables import beyond_max_hops, min_hops, switch_tables

__all__ = ["first_links", "route"]


def route(graph: SwitchGraph, options: RouteOptions) -> Routing:
    """Return tables of ``graph`` in the order of the ports."""
    hops = min_hops(graph).hops
    return Routing("dor", switch_tables(graph, first_links(graph, hops)), notes=beyond_max_hops(graph, hops))


def first_links(graph: SwitchGraph, hops: np.ndarray) -> np.ndarray:
    """Return int32[n, n]: link with the lowest port on a shortest path from row to column; -1 =
    none."""
    via = np.empty((graph.n_switches, graph.n_switches), np.int32)
    lowest_neighbour(graph.first, graph.peer, hops, via)
    return via
