"""From one path a pair of switches to tables: what dor, lash and torus-2QoS share."""

from __future__ import annotations

import numpy as np

from softib.iba.constants import LFT_NO_ROUTE
from softib.routing.graph import SwitchGraph
from softib.routing.lft_kernels import LegalHops
from softib.routing.switch_path_kernels import spread_cables

__all__ = ["cables_of_ends", "links_table", "tables"]


def links_table(graph: SwitchGraph) -> LegalHops:
    """The links alone, for kernels that route along all of them."""
    none = np.empty((0, 0), np.uint8)
    return LegalHops(graph.first, graph.peer, graph.out_port, np.empty(0, np.bool_), none, none.view(np.bool_))


def cables_of_ends(graph: SwitchGraph, place: np.ndarray | None = None) -> np.ndarray:
    """int32[ends]: place of each CA port among those of its switch; a switch's own port is the
    first. CA ports stand by egress port, or by ``place`` (int64[256], of each egress port) and then
    by egress port."""
    cable = np.zeros(len(graph.end_lid), np.int32)
    port_place = np.arange(256) if place is None else place
    cas = np.flatnonzero(~graph.end_is_switch)
    cas = cas[np.lexsort((graph.end_port[cas], port_place[graph.end_port[cas]], graph.end_switch[cas]))]
    _, start, size = np.unique(graph.end_switch[cas], return_index=True, return_counts=True)
    cable[cas] = np.arange(len(cas)) - np.repeat(start, size)
    return cable


def tables(graph: SwitchGraph, via: np.ndarray, cable: np.ndarray | None = None) -> np.ndarray:
    """uint8[n_switches, lft_size]: from switch s to all ends of switch t towards the switch behind
    link ``via[s, t]`` (int32[n, n], -1 = no route), the ends over parallel cables in order
    ``cable`` (default :func:`cables_of_ends`)."""
    lft = np.full((graph.n_switches, graph.lft_size), LFT_NO_ROUTE, np.uint8)
    lids, lmc = graph.end_lid.astype(np.int64), graph.end_lmc.astype(np.int64)
    cable = cables_of_ends(graph) if cable is None else cable
    spread_cables(links_table(graph), via, graph.end_switch, lids, lmc, graph.end_port, cable, lft)
    return lft
