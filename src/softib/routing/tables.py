"""Functions that minhop, updn and dnup use: distances under a rule of direction, and then the
least-loaded port for every LID."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from softib.iba.constants import LFT_NO_ROUTE
from softib.plural import counted
from softib.routing.bfs_kernels import all_hops, legal_hops, rank_from, spread_cables
from softib.routing.graph import SwitchGraph
from softib.routing.lft_kernels import Destinations, LegalHops, least_loaded, least_loaded_lmc

__all__ = [
    "DestinationGroups",
    "Distances",
    "cables_of_ends",
    "cas_per_switch",
    "compute_per_switch",
    "destination_groups",
    "destinations_table",
    "legal_hops_table",
    "links_table",
    "min_hops",
    "ordered_hops",
    "share_paths",
    "switch_tables",
    "tables",
]


def links_table(graph: SwitchGraph) -> Any:
    """Return the links without distances, for kernels that route along all of them."""
    none = np.empty((0, 0), np.uint8)
    return LegalHops(graph.first, graph.peer, graph.out_port, np.empty(0, np.bool_), none, none.view(np.bool_))


def cables_of_ends(graph: SwitchGraph, place: np.ndarray | None = None) -> np.ndarray:
    """Return int32[ends]: the index of each CA port among the CA ports of its switch; a switch's own port is
    the first. CA ports are sorted by egress port, or first by ``place`` (int64[256] by egress
    port)."""
    cable = np.zeros(len(graph.end_lid), np.int32)
    port_place = np.arange(256) if place is None else place
    cas = np.flatnonzero(~graph.end_is_switch)
    cas = cas[np.lexsort((graph.end_port[cas], port_place[graph.end_port[cas]], graph.end_switch[cas]))]
    _, start, size = np.unique(graph.end_switch[cas], return_index=True, return_counts=True)
    cable[cas] = np.arange(len(cas)) - np.repeat(start, size)
    return cable


def switch_tables(graph: SwitchGraph, via: np.ndarray, cable: np.ndarray | None = None) -> np.ndarray:
    """Return tables uint8[n_switches, lft_size] in which switch s sends packets to all ends of
    switch t over link ``via[s, t]`` (int32[n, n], -1 = no route), or a cable parallel to it. The
    ends are distributed over parallel cables in the order ``cable`` (default
    :func:`cables_of_ends`)."""
    lft = np.full((graph.n_switches, graph.lft_size), LFT_NO_ROUTE, np.uint8)
    lids, lmc = graph.end_lid.astype(np.int64), graph.end_lmc.astype(np.int64)
    cable = cables_of_ends(graph) if cable is None else cable
    spread_cables(links_table(graph), via, graph.end_switch, lids, lmc, graph.end_port, cable, lft)
    return lft


@dataclass(frozen=True)
class Distances:
    """Hops between switches under a rule of direction.

    ``hops`` uint8[n, n] from row to column, 255 = no legal path. ``is_down`` bool[n, n]: the path
    from here only goes down. ``down`` bool[links]: the link leads away from the top. Without a rule
    of direction, all links are "down".
    """

    hops: np.ndarray
    is_down: np.ndarray
    down: np.ndarray


def min_hops(graph: SwitchGraph) -> Distances:
    """Return shortest distances with no rule (OpenSM's lid matrices)."""
    n = graph.n_switches
    hops = np.empty((n, n), np.uint8)
    down = np.ones(len(graph.peer), np.bool_)
    all_hops(graph.first, graph.peer, down, hops)
    return Distances(hops, np.ones((n, n), np.bool_), down)


def beyond_max_hops(graph: SwitchGraph, hops: np.ndarray) -> list[str]:
    """Return a note if switches of one part are more hops apart than ``hops`` can hold (254); otherwise nothing.

    No subnet manager reaches that far: a directed route has at most 63 hops (IBA 14.2.1.2).
    """
    part, reach = np.full(graph.n_switches, -1, np.int32), np.empty(graph.n_switches, np.int32)
    for s in np.flatnonzero((hops == 255).any(axis=1)).tolist():
        if part[s] < 0:
            rank_from(graph.first, graph.peer, np.array([s], np.int32), reach)
            part[reach >= 0] = s
    unrouted = np.count_nonzero((hops == 255) & (part[:, None] == part[None, :])) if (part >= 0).any() else 0
    return (
        [f"{counted(int(unrouted), 'pair')} of switches are more than 254 hops apart and get no route"]
        if unrouted
        else []
    )


def ordered_hops(graph: SwitchGraph, order: np.ndarray) -> Distances:
    """Return the distances of paths that never go up after they went down. ``order`` int32[n] lists
    the switches from the top down.

    With a total order, channel dependencies have no cycle on any graph (up*/down*, Schroeder et
    al., "Autonet", 1991). Paths that only go down take precedence over shorter paths that begin
    upwards: see :func:`legal_hops`.
    """
    n = graph.n_switches
    place = np.empty(n, np.int32)
    place[order] = np.arange(n, dtype=np.int32)
    owner = graph.link_switch
    down = place[graph.peer] > place[owner]
    hops, is_down = np.empty((n, n), np.uint8), np.empty((n, n), np.bool_)
    all_hops(graph.first, graph.peer, down, hops)
    legal_hops(graph.first, graph.peer, down, order.astype(np.int32), hops, is_down)
    return Distances(hops, is_down, down)


def cas_per_switch(graph: SwitchGraph) -> np.ndarray:
    """Return CA and router ports on each switch, int64[n_switches]."""
    return np.bincount(graph.end_switch[~graph.end_is_switch], minlength=graph.n_switches).astype(np.int64)


def compute_per_switch(graph: SwitchGraph) -> np.ndarray:
    """Like :func:`cas_per_switch` without SHARP aggregation nodes (with them if there are no other CAs)."""
    if not graph.end_is_compute.any():
        return cas_per_switch(graph)
    return np.bincount(graph.end_switch[graph.end_is_compute], minlength=graph.n_switches).astype(np.int64)


class DestinationGroups(NamedTuple):
    """Ends of a graph, grouped by switch, in the order in which their ports are chosen."""

    switch: np.ndarray
    """int32[groups]."""
    first: np.ndarray
    """int32[groups + 1]: the first of ``ends``."""
    ends: np.ndarray
    counted: np.ndarray
    """Whether the group counts as load."""


def destination_groups(graph: SwitchGraph) -> DestinationGroups:
    """Return the order in which ports are chosen for destinations, as in OpenSM: those on the
    switch with the most CAs first.

    CA groups are sorted by their number of CA ports, descending, then by NodeGUID, with ports
    ascending. Switches' own ports follow, sorted by GUID; they do not count as load (OpenSM's
    ``port_profile_switch_nodes`` off).
    """
    n = graph.n_switches
    load = cas_per_switch(graph)
    by_load = np.lexsort((graph.switch_guid, -load))
    place = np.empty(n, np.int64)
    place[by_load] = np.arange(n)
    cas = np.flatnonzero(~graph.end_is_switch)
    cas = cas[np.lexsort((graph.end_port[cas], place[graph.end_switch[cas]]))]
    port0_ends = np.flatnonzero(graph.end_is_switch)
    port0_ends = port0_ends[np.argsort(graph.end_guid[port0_ends], kind="stable")]
    ca_switches = by_load[load[by_load] > 0]
    switch = np.concatenate([ca_switches, graph.end_switch[port0_ends]]).astype(np.int32)
    size = np.concatenate([load[ca_switches], np.ones(len(port0_ends), np.int64)])
    first = np.concatenate([[0], np.cumsum(size)]).astype(np.int32)
    counted = np.arange(len(switch)) < len(ca_switches)
    return DestinationGroups(switch, first, np.concatenate([cas, port0_ends]).astype(np.int32), counted)


def legal_hops_table(graph: SwitchGraph, d: Distances) -> Any:
    """Return the links in the form that routing kernels take."""
    return LegalHops(graph.first, graph.peer, graph.out_port, d.down, d.hops, d.is_down)


def destinations_table(graph: SwitchGraph, groups: DestinationGroups) -> Any:
    """Return the destinations in the form that routing kernels take."""
    lid, lmc = graph.end_lid.astype(np.int64), graph.end_lmc.astype(np.int64)
    return Destinations(*groups, lid, lmc, graph.end_port)


def tables(graph: SwitchGraph, d: Distances) -> np.ndarray:
    """Return forwarding tables uint8[n_switches, lft_size] along ``d``, balanced port by port; 255
    = no route."""
    lft = np.full((graph.n_switches, graph.lft_size), LFT_NO_ROUTE, np.uint8)
    legal, dests = legal_hops_table(graph, d), destinations_table(graph, destination_groups(graph))
    if graph.end_lmc.any():
        least_loaded_lmc(legal, dests, graph.switch_system, lft)
    else:
        least_loaded(legal, dests, np.empty((0, 256), np.int64), lft)
    return lft


def share_paths(graph: SwitchGraph, lft: np.ndarray) -> None:
    """Set the entries of all LIDs of a port (LMC) to those of its base LID."""
    for offset in range(1, 1 << int(graph.end_lmc.max(initial=0))):
        further = np.flatnonzero(graph.end_lmc >= offset.bit_length())
        base = graph.end_lid[further].astype(np.int64)
        lft[:, base + offset] = lft[:, base]
