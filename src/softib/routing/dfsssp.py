"""``dfsssp``: the tables of sssp, free of credit loops by virtual lanes (J. Domke, T. Hoefler, W. Nagel, "Deadlock-Free
Oblivious Routing for Arbitrary Topologies", IPDPS 2011).

Paths between CAs are laid on as few VLs as it takes: each on the first without a cycle, or, where that takes more than there are, all on VL 0,
from where those over the weakest dependency of each cycle move to the next VL (:mod:`softib.routing.layers`). SL = VL. A request from a CA to a switch's own LID
and the answer (GMPs of management) take the first of these VLs where both close no cycle: OpenSM does not order them at all. Where one VL carries all paths
between CAs, the entries that only packets to and from switches meet are chosen so that it carries these, too; where that leaves a gap, they may have a second VL.
Where one VL is
enough (trees), ``path_sl`` is None. An SL belongs to a pair of ports, so where several VLs are needed all LIDs of a port (LMC)
share its paths.
"""

from __future__ import annotations

import numpy as np

from softib.plural import counted, plural
from softib.routing.detours import without_switch_loops
from softib.routing.engine import RouteOptions, Routing
from softib.routing.fallback import by_minhop
from softib.routing.graph import SwitchGraph
from softib.routing.layers import NO_LAYER, place_paths, placed
from softib.routing.sssp import tables
from softib.routing.tables import share_paths

__all__ = ["route"]


def route(graph: SwitchGraph, options: RouteOptions) -> Routing:
    """Tables of ``graph`` and the SLs of its paths; minhop's where ``options.data_vls`` are too few."""
    lft = tables(graph)
    free = without_switch_loops(graph, lft)
    if free is not None:
        return Routing("dfsssp", free, notes=["the shortest paths have no credit loop on one VL"])
    notes = []
    if graph.end_lmc.any():
        notes.append("all LIDs of a port share its paths, since an SL belongs to a pair of ports")
        share_paths(graph, lft)
    cas = np.flatnonzero(~graph.end_is_switch)
    found = place_paths(graph, lft, cas, options.data_vls)
    if found.used > options.data_vls:
        why = f"paths need more than the {counted(options.data_vls, 'data VL')} there {plural(options.data_vls, 'is', 'are')}"
        return by_minhop(graph, options, "dfsssp", why)
    path_sl = np.zeros((graph.n_switches, len(graph.end_lid)), np.uint8)
    path_sl[np.ix_(found.source, cas)] = np.where(found.layer == NO_LAYER, 0, found.layer)
    return placed(graph, Routing("dfsssp", lft, path_sl, vls=found.used, notes=notes), options.data_vls)
