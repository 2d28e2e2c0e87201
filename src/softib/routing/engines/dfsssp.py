"""``dfsssp``: the tables of sssp, made free of credit loops by virtual lanes (J. Domke, T. Hoefler,
W. Nagel, "Deadlock-Free Oblivious Routing for Arbitrary Topologies", IPDPS 2011).

All paths between two switches, in both directions, use the first VL on which they close no cycle
(:mod:`softib.routing.engines.lanes`). If this needs more VLs than are available, each single path
uses the first VL on which it closes no cycle, as in OpenSM's engine. SL = VL. If one VL is enough
(in trees), ``path_sl`` is None. An SL belongs to a pair of ports, so if several VLs are needed, all
LIDs of a port (LMC) use the same paths.
"""

from __future__ import annotations

from softib.plural import counted, plural
from softib.routing.detours import without_switch_loops
from softib.routing.engine import RouteOptions, Routing
from softib.routing.engines.lanes import by_direction, by_path, lanes_of, routing_on
from softib.routing.engines.minhop import by_minhop
from softib.routing.engines.sssp import tables
from softib.routing.graph import SwitchGraph
from softib.routing.tables import share_paths

__all__ = ["route"]


def route(graph: SwitchGraph, options: RouteOptions) -> Routing:
    """Return the tables of ``graph``, and the SLs of its paths. If ``options.data_vls`` is too
    small, return minhop's tables."""
    lft = tables(graph)
    free = without_switch_loops(graph, lft)
    if free is not None:
        return Routing("dfsssp", free, notes=["the shortest paths have no credit loop on one VL"])
    notes = []
    if graph.end_lmc.any():
        notes.append("all LIDs of a port share its paths, since an SL belongs to a pair of ports")
        share_paths(graph, lft)
    lanes = lanes_of(graph, lft, options.data_vls)
    if lanes is None:
        path_sl = by_path(graph, lft, options.data_vls)
        if path_sl is None:
            why = (
                f"paths need more than the {counted(options.data_vls, 'data VL')} there "
                f"{plural(options.data_vls, 'is', 'are')}"
            )
            return by_minhop(graph, options, "dfsssp", why)
        lanes = by_direction(graph, lft, path_sl, options.data_vls)
    return routing_on(lanes, "dfsssp", notes)
