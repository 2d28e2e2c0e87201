"""Routes to virtual ports with a LID of their own: those of the LID of their port, whatever the
engine, so that what is proven of the tables holds."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from softib.iba.constants import LFT_NO_ROUTE
from softib.routing.engine import Routing
from softib.routing.graph import SwitchGraph
from softib.sm.database import Database

__all__ = ["with_vports"]


def with_vports(db: Database, graph: SwitchGraph, routing: Routing) -> tuple[SwitchGraph, Routing]:
    """Graph and tables with an end, a column of the table and SLs for each LID of a virtual port."""
    vports = db.vports
    ports = vports.ports(db)
    rows = np.flatnonzero((vports.lid > 0) & (ports >= 0))
    base = db.port_lid[ports[rows]]
    if not len(rows) or not len(graph.end_lid):
        return graph, routing
    end = np.minimum(np.searchsorted(graph.end_lid, base), len(graph.end_lid) - 1)
    routed = graph.end_lid[end] == base
    rows, base, end = rows[routed], base[routed], end[routed]
    lid = np.concatenate([graph.end_lid, vports.lid[rows]])
    order = np.argsort(lid, kind="stable")
    source = np.concatenate([np.arange(len(graph.end_lid)), end])[order]
    joined = lambda held, theirs: np.concatenate([held, np.asarray(theirs, held.dtype)])[order]
    nobody = np.zeros(len(rows), bool)
    wide = replace(
        graph,
        end_lid=lid[order],
        end_lmc=joined(graph.end_lmc, nobody),
        end_switch=graph.end_switch[source],
        end_port=graph.end_port[source],
        end_is_switch=graph.end_is_switch[source],
        end_guid=joined(graph.end_guid, vports.guid[rows]),
        end_node=graph.end_node[source],
        end_portnum=graph.end_portnum[source],
        end_is_compute=joined(graph.end_is_compute, nobody),
        max_lid=max(graph.max_lid, int(vports.lid[rows].max(initial=0))),
    )
    lft = np.full((len(routing.lft), wide.lft_size), LFT_NO_ROUTE, np.uint8)
    lft[:, : routing.lft.shape[1]] = routing.lft
    lft[:, vports.lid[rows]] = routing.lft[:, base]
    path_sl = None if routing.path_sl is None else np.ascontiguousarray(routing.path_sl[:, source])
    return wide, replace(routing, lft=lft, path_sl=path_sl)
