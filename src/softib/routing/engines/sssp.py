"""``sssp``: shortest paths; each destination uses the links that carry the fewest paths so far.

T. Hoefler, T. Schneider, A. Lumsdaine, "Optimized Routing for Large-Scale InfiniBand Networks", Hot
Interconnects 2009: a search runs from every destination in turn, and the weight of a link is the
number of paths that already cross it. Weights only choose among paths with the fewest hops, because
a link's initial weight exceeds the sum of all added weights. Unlike in minhop, the load of the
whole path is compared, not only that of the port. Paths of the latest destinations have more
weight: consecutive ranks of a job are often hosts with consecutive PortGUIDs, and in a shift their
messages are sent at the same time, so their paths should use different links. One VL is used, so
the tables may have credit loops on cyclic fabrics (:mod:`softib.routing.engines.dfsssp` removes
them).
"""

from __future__ import annotations

import numpy as np

from softib.iba.constants import LFT_NO_ROUTE
from softib.routing.engine import RouteOptions, Routing
from softib.routing.engines.sssp_kernels import NOT_TAKEN, spread_paths, to_ports
from softib.routing.graph import SwitchGraph
from softib.routing.tables import DestinationGroups, cas_per_switch, destinations_table, links_table

__all__ = ["PASSES", "route", "tables"]

PASSES = 4
"""Maximum number of passes. Each pass routes every destination again, with the weights of all other
destinations' paths, until no entry changes (in a full tree, this is the second pass). More passes
bring no gain (bench/quality.py)."""


def route(graph: SwitchGraph, options: RouteOptions) -> Routing:
    """Return tables of ``graph`` by weighted shortest paths."""
    return Routing("sssp", tables(graph))


def tables(graph: SwitchGraph) -> np.ndarray:
    """Return uint8[n_switches, lft_size], 255 = no route. Destinations are in the order of their
    PortGUIDs, with switches' own LIDs last."""
    dests, links = destinations_table(graph, _groups(graph)), links_table(graph)
    cas = cas_per_switch(graph)
    window = float(np.median(cas[cas > 0])) if cas.any() else 0.0
    weight, recent = np.zeros(len(graph.peer)), np.zeros(len(graph.peer))
    taken = np.full((graph.lft_size, graph.n_switches), NOT_TAKEN, np.uint8)
    for number in range(PASSES):
        if not spread_paths(links, dests, cas, number > 0, window, weight, recent, taken):
            break
    lft = np.full((graph.n_switches, graph.lft_size), LFT_NO_ROUTE, np.uint8)
    to_ports(links, taken, lft)
    for offset in range(1 << int(graph.end_lmc.max(initial=0))):
        ends = np.flatnonzero(offset < 1 << graph.end_lmc.astype(np.int64))
        lft[graph.end_switch[ends], graph.end_lid[ends].astype(np.int64) + offset] = graph.end_port[ends]
    return lft


def _groups(graph: SwitchGraph) -> DestinationGroups:
    """Return groups as in :func:`softib.routing.tables.destination_groups`, ordered by PortGUID. A
    group contains successive CAs on one switch."""
    ends = np.lexsort((graph.end_guid, graph.end_is_switch)).astype(np.int32)
    switch = graph.end_switch[ends]
    is_first = np.ones(len(ends), np.bool_)
    is_first[1:] = (switch[1:] != switch[:-1]) | graph.end_is_switch[ends[1:]]
    begins = np.flatnonzero(is_first)
    first = np.append(begins, len(ends)).astype(np.int32)
    return DestinationGroups(switch[begins], first, ends, (~graph.end_is_switch[ends[begins]]).astype(np.int64))
