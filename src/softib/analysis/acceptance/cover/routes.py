"""The directions of a fabric's cables, and the channels that flows between the measuring ports load."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from softib.analysis.acceptance.plan import FabricEnds
from softib.fabric.end_ports import assumed_gbps, end_ports
from softib.fabric.model import Fabric
from softib.iba.vendor.ar import GROUP_MASK, STATE_SHIFT, ARInfo
from softib.routing.graph import SwitchGraph
from softib.sim.static_network import Network

__all__ = ["AdaptiveGroups", "CoverRoutes", "cover_routes"]

STATIC = 2
"""State of a LID in the table of adaptive routing for which a switch uses only the forwarding table."""


@dataclass(frozen=True)
class AdaptiveGroups:
    """Groups of adaptive routing. ``group_of`` int32[switches, LIDs]: the group of ports over which a switch spreads
    packets for a LID, -1: none. ``channel[first[g]:first[g + 1]]``: the channels of group ``g``."""

    group_of: np.ndarray
    first: np.ndarray
    channel: np.ndarray


@dataclass(frozen=True)
class CoverRoutes:
    """The routes between the measuring ports of a cover run.

    * ``network``: the routes between the measuring ports, whose rows are its hosts.
    * ``port`` int64[channels]: the fabric's port that sends into each channel.
    * ``channel`` int64[ports] is the inverse, -1 if no measuring port's route can use the port.
    * ``directions`` int64: the sending ports of all live cables.
    * ``gbps`` float64[ports]: rate of each port's link.
    * ``groups``: None without adaptive routing.
    * ``pod`` int64[hosts]: the part of the fabric below the top tier to which each measuring port belongs.
    """

    fabric: Fabric
    network: Network
    port: np.ndarray
    channel: np.ndarray
    directions: np.ndarray
    gbps: np.ndarray
    groups: AdaptiveGroups | None
    pod: np.ndarray


def cover_routes(fabric: Fabric, graph: SwitchGraph, lft: np.ndarray, ends: FabricEnds, adaptive: bool) -> CoverRoutes:
    """Return the routes of tables ``lft`` between ``ends``. ``adaptive``: follow the tables of adaptive routing where
    switches have them."""
    gbps = assumed_gbps(fabric)
    sends = (fabric.node_base[graph.switch_node[graph.link_switch]] + graph.out_port).astype(np.int64)
    network = Network.build(graph, lft, _graph_rows(fabric, graph, ends), gbps[sends], _end_gbps(fabric, graph, gbps))
    ejection = fabric.node_base[graph.switch_node[network.host_switch]] + graph.end_port[network.hosts]
    port = np.concatenate([sends, ends.port, ejection]).astype(np.int64)
    channel = np.full(fabric.sizes.ports, -1, np.int64)
    channel[port] = np.arange(len(port))
    live = np.flatnonzero(fabric.linked & fabric.linked[np.maximum(fabric.port_peer, 0)])
    groups = _groups(fabric, network) if adaptive else None
    return CoverRoutes(
        fabric, network, port, channel, live.astype(np.int64), gbps, groups, ends.ends.pod.astype(np.int64)
    )


def _graph_rows(fabric: Fabric, graph: SwitchGraph, ends: FabricEnds) -> np.ndarray:
    """Return the row of ``graph.end_*`` of each measuring port."""
    row = np.full(fabric.sizes.ports, -1, np.int64)
    row[fabric.node_base[graph.end_node] + graph.end_portnum] = np.arange(len(graph.end_node))
    return row[end_ports(fabric)[ends.row]]


def _end_gbps(fabric: Fabric, graph: SwitchGraph, gbps: np.ndarray) -> np.ndarray:
    rates: np.ndarray = gbps[fabric.node_base[graph.end_node] + graph.end_portnum]
    return rates


def _groups(fabric: Fabric, network: Network) -> AdaptiveGroups | None:
    """Return the groups of the switches that route adaptively; None if no switch does."""
    node = network.graph.switch_node
    row = fabric.switch_of_node[node]
    on = ARInfo.ar_enabled.get(fabric.ar_info[row]).astype(bool)
    if not on.any():
        return None
    lids = network.lft.shape[1]
    entry = np.zeros((len(row), lids), np.int64)
    held = min(lids, fabric.ar_lft.shape[1])
    entry[:, :held] = fabric.ar_lft[row, :held]
    number = np.where((entry >> STATE_SHIFT >= STATIC) | ~on[:, None], 0, entry & GROUP_MASK)
    group_of = np.full((len(row), lids), -1, np.int32)
    first, channels = [0], []
    for s in np.flatnonzero(number.any(axis=1)).tolist():
        for g in np.unique(number[s][number[s] > 0]).tolist():
            bits = np.unpackbits(fabric.ar_group[row[s], g].astype("<u8").view(np.uint8), bitorder="little")
            mine = network.chan_at[s, np.flatnonzero(bits)]
            mine = mine[mine >= 0]
            if len(mine):
                group_of[s, number[s] == g] = len(first) - 1
                channels.append(mine)
                first.append(first[-1] + len(mine))
    joined = np.concatenate(channels) if channels else np.zeros(0)
    return AdaptiveGroups(group_of, np.array(first, np.int64), joined.astype(np.int64))
