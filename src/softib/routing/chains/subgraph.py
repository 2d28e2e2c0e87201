"""A part of a graph as a graph of its own, for engines."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from softib.routing.graph import SwitchGraph

__all__ = ["subgraph"]


def subgraph(graph: SwitchGraph, switches: np.ndarray, links: np.ndarray, ends: np.ndarray) -> SwitchGraph:
    """Of ``graph`` the ``switches`` bool[n_switches], the ``links`` bool[links] between two of them
    (both directions of a cable, or neither), and the ``ends`` bool[ends] on them. Rows keep their
    order; tables have as many columns as those of ``graph``."""
    row_of = np.cumsum(switches) - 1
    owner = np.repeat(np.arange(graph.n_switches), np.diff(graph.first))
    links = links & links[graph.reverse] & switches[owner] & switches[graph.peer]
    ends = ends & switches[graph.end_switch]
    link_of = np.cumsum(links) - 1
    kept = row_of[owner[links]]
    return replace(
        graph,
        n_switches=int(np.count_nonzero(switches)),
        switch_node=graph.switch_node[switches],
        switch_guid=graph.switch_guid[switches],
        switch_nports=graph.switch_nports[switches],
        switch_system=graph.switch_system[switches],
        first=np.searchsorted(kept, np.arange(np.count_nonzero(switches) + 1)).astype(np.int32),
        out_port=graph.out_port[links],
        peer=row_of[graph.peer[links]].astype(np.int32),
        peer_port=graph.peer_port[links],
        reverse=link_of[graph.reverse[links]].astype(np.int32),
        end_lid=graph.end_lid[ends],
        end_lmc=graph.end_lmc[ends],
        end_switch=row_of[graph.end_switch[ends]].astype(np.int32),
        end_port=graph.end_port[ends],
        end_is_switch=graph.end_is_switch[ends],
        end_guid=graph.end_guid[ends],
        end_node=graph.end_node[ends],
        end_portnum=graph.end_portnum[ends],
        end_is_compute=graph.end_is_compute[ends],
    )
