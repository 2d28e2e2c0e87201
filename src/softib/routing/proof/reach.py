"""Reachability with given forwarding tables. The module also makes the columns with which kernels
follow routes: the port map of a graph, and all destinations.

Pairs are (source port, destination LID) as in :mod:`softib.routing.proof.verify`.

The route of a packet depends only on the column of its LID. So the result for a LID stays the same
if its column is unchanged and the ports in it lead to the same peers. After one cable is removed,
this is true for nearly all columns; :class:`ProvenTables` checks only the others.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from softib.components import components
from softib.ragged import spread
from softib.routing.graph import SwitchGraph
from softib.routing.proof.verify_kernels import Links, Routes, arrivals

__all__ = [
    "ProvenTables",
    "cas_of",
    "connected_pairs",
    "count_arrivals",
    "destinations",
    "links_of",
    "lost_pairs",
    "port_map",
    "routes_of",
]


def lost_pairs(graph: SwitchGraph, lft: np.ndarray) -> int:
    """Return the number of pairs of a CA and an end port that are connected by cables but not by
    ``lft`` (uint8[n_switches, any width])."""
    return connected_pairs(graph) - int(count_arrivals(graph, lft, *destinations(graph)).sum())


def connected_pairs(graph: SwitchGraph) -> int:
    """Return the number of pairs of a CA and a LID of another end port in the same part of the
    fabric."""
    owner = graph.link_switch
    part = components(graph.n_switches, owner, graph.peer)
    cas = np.bincount(part, cas_of(graph), minlength=graph.n_switches)
    there = np.bincount(part[graph.end_switch], 1 << graph.end_lmc.astype(np.int64), minlength=graph.n_switches)
    to_itself = int((1 << graph.end_lmc[~graph.end_is_switch].astype(np.int64)).sum())
    return int((cas * there).sum()) - to_itself


def count_arrivals(graph: SwitchGraph, lft: np.ndarray, lids: np.ndarray, ends: np.ndarray) -> np.ndarray:
    """Return int64[lids]: the number of CAs whose packets arrive, for the destinations of
    :func:`destinations`. A CA does not send to itself."""
    arrived = np.zeros(len(lids), np.int64)
    lft = np.ascontiguousarray(lft, np.uint8)
    routes = routes_of(graph, lft, lids, ends)
    arrivals(links_of(graph), routes, _onward(graph, routes.at), arrived)
    return arrived


def _onward(graph: SwitchGraph, at: np.ndarray) -> np.ndarray:
    """Return the switch to which each port leads, as :func:`arrivals` reads it, without ports that no switch has."""
    ports = max(graph.out_port.max(initial=0), graph.end_port.max(initial=0)) + 1
    onward = at[:, : int(ports)].astype(np.int32)
    onward[onward >= 0] = graph.peer[onward[onward >= 0]]
    return onward


def port_map(graph: SwitchGraph) -> np.ndarray:
    """Return the peer of each switch's port, int32[n, 256]: link row, ``-2 - end`` of an end port,
    or -1 for none."""
    at = np.full((graph.n_switches, 256), -1, np.int32)
    owner = graph.link_switch
    at[owner, graph.out_port] = np.arange(len(owner))
    at[graph.end_switch, graph.end_port] = -2 - np.arange(len(graph.end_lid))
    at[:, 255] = -1
    return at


def destinations(graph: SwitchGraph) -> tuple[np.ndarray, np.ndarray]:
    """Return every LID of every end port, ascending: ``(lid int32, end int32)``. If the virtual
    ports of a port have LIDs, it has several ends, and each LID arrives at the end that
    :func:`port_map` names."""
    copies = 1 << graph.end_lmc.astype(np.int64)
    end, offset = spread(copies)
    place = graph.end_switch.astype(np.int64) * 256 + graph.end_port
    at_port = np.zeros(graph.n_switches * 256, np.int32)
    at_port[place] = np.arange(len(place))
    return (graph.end_lid[end] + offset).astype(np.int32), at_port[place[end]]


def links_of(graph: SwitchGraph) -> Any:
    """Return the links and end ports of ``graph`` in the form that kernels walk."""
    return Links(graph.first, graph.peer, graph.peer_port, graph.end_switch, graph.end_port, graph.end_is_switch)


def routes_of(
    graph: SwitchGraph, lft: np.ndarray, lids: np.ndarray, ends: np.ndarray, at: np.ndarray | None = None
) -> Any:
    """Return ``lft`` and the senders to each destination in the form that kernels walk.
    Destinations are those of :func:`destinations`, or some of them; ``at`` is a
    :func:`port_map`."""
    return Routes(lft, port_map(graph) if at is None else at, lids, ends, cas_of(graph))


def cas_of(graph: SwitchGraph) -> np.ndarray:
    """Return int64[switches]: CAs and routers on each switch."""
    return np.bincount(graph.end_switch[~graph.end_is_switch], minlength=graph.n_switches).astype(np.int64)


@dataclass(frozen=True)
class _Past:
    guid: np.ndarray
    cas: np.ndarray
    lids: np.ndarray
    leads_to: np.ndarray
    lft: np.ndarray
    arrived: np.ndarray


class ProvenTables:
    """The tables of a subnet that were checked last. They are kept by reference, so the caller must
    not change them later.

    ``walked``: number of destinations whose routes the last check had to follow.
    """

    def __init__(self) -> None:
        self._past: _Past | None = None
        self.walked = 0

    def lost_pairs(self, graph: SwitchGraph, lft: np.ndarray) -> int:
        """Return :func:`lost_pairs` of ``lft``, and store the result."""
        lids, ends = destinations(graph)
        cas = np.bincount(graph.end_switch[~graph.end_is_switch], minlength=graph.n_switches)
        leads_to = _leads_to(graph)
        past = self._past
        arrived = np.zeros(len(lids), np.int64)
        repeated = np.ones(len(lids), np.bool_)
        if (
            past is not None
            and past.lft.shape == lft.shape
            and np.array_equal(past.guid, graph.switch_guid)
            and np.array_equal(past.cas, cas)
            and np.array_equal(past.lids, lids)
        ):
            repeated = _changed(past, leads_to, lft, lids)
            arrived[~repeated] = past.arrived[~repeated]
        arrived[repeated] = count_arrivals(graph, lft, lids[repeated], ends[repeated])
        self.walked = int(np.count_nonzero(repeated))
        self._past = _Past(graph.switch_guid, cas, lids, leads_to, lft, arrived)
        return connected_pairs(graph) - int(arrived.sum())


def _leads_to(graph: SwitchGraph) -> np.ndarray:
    """Return int64[n, 256]: the switch (row) to which each port leads, ``-2 - LID`` if it leads to
    an end port, or -1 if it has no peer."""
    at = port_map(graph)
    out = at.astype(np.int64)
    out[at >= 0] = graph.peer[at[at >= 0]]
    ends = at < -1
    out[ends] = -2 - graph.end_lid[-2 - at[ends]].astype(np.int64)
    return out


def _changed(past: _Past, leads_to: np.ndarray, lft: np.ndarray, lids: np.ndarray) -> np.ndarray:
    """Return bool[lids]: columns that differ, or that name a port whose peer has changed."""
    changed = np.zeros(lft.shape[1], np.bool_)
    ports = leads_to != past.leads_to
    for s in range(len(lft)):
        changed |= lft[s] != past.lft[s]
        if ports[s].any():
            changed |= ports[s][lft[s]]
    inside = lids < lft.shape[1]
    out = np.zeros(len(lids), np.bool_)
    out[inside] = changed[lids[inside]]
    return out
