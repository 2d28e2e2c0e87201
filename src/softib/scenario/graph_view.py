"""The graph of a fabric in the form that routing engines use."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from softib.fabric.end_ports import unmanaged_ends
from softib.fabric.model import Fabric
from softib.iba.constants import LID_PERMISSIVE, PhysState
from softib.iba.smp import PortInfo
from softib.iba.virtual_lanes import DATA_VLS
from softib.routing.graph import PortColumns, SwitchGraph

__all__ = ["VlTables", "graph_of", "vls_of"]


def graph_of(fabric: Fabric, dead: np.ndarray | None = None) -> SwitchGraph:
    """Return the graph of ``fabric`` as it is now: links whose two ends are LinkUp, and ports with
    their LIDs and LMCs. ``dead`` bool[ports]: ports whose links are down. A switch whose ports are
    all down is omitted.

    Nodes, ports and switches have the rows of the fabric. End ports without a LID (0, or the
    permissive 65535 of a dump), and those that no manager reached
    (:func:`~softib.fabric.end_ports.unmanaged_ends`), are omitted. Raises
    :class:`~softib.errors.LimitError` if a LID is beyond the unicast range.
    """
    info = fabric.port_info
    up = PortInfo.port_phys_state.get(info) == PhysState.LINK_UP
    peer, node_type = fabric.port_peer, fabric.node_type
    if dead is not None:
        up = up & ~dead
        alive = np.bincount(fabric.port_node[~dead & (fabric.port_num > 0)], minlength=fabric.sizes.nodes) > 0
        node_type = np.where(alive, node_type, 0)
    usable = (peer >= 0) & up & up[np.maximum(peer, 0)]
    return SwitchGraph.from_ports(
        PortColumns(
            node_type=node_type,
            node_guid=fabric.node_guid,
            node_nports=fabric.node_nports,
            port_node=fabric.port_node,
            port_num=fabric.port_num,
            port_guid=fabric.port_guid,
            port_peer=np.where(usable, peer, -1),
            port_lid=np.where(_absent(fabric), 0, fabric.lid),
            port_lmc=fabric.lmc,
            sys_guid=fabric.sys_guid,
            is_host=fabric.is_host,
            node_desc=fabric.node_desc,
        )
    )


def _absent(fabric: Fabric) -> np.ndarray:
    """Return the ports that cannot be addressed (bool[ports])."""
    absent: np.ndarray = unmanaged_ends(fabric) | (fabric.lid == LID_PERMISSIVE)
    return absent


class VlTables(NamedTuple):
    """The VLs of a fabric in the form of :func:`~softib.routing.proof.verify.verify`."""

    sl2vl: np.ndarray
    """uint8[switches, ports + 1, ports + 1, 16] by input and output portnum."""
    data_vls: int
    """Number of data VLs of the port with the most."""


def vls_of(fabric: Fabric, graph: SwitchGraph) -> VlTables:
    """Return the VLs that the switches of ``graph`` use.

    If the output port does not operate the VL, the table has 15: such packets are dropped (IBA 7.6.6).
    """
    most = int(graph.switch_nports.max(initial=0)) + 1
    table = np.full((graph.n_switches, most, most, 16), 15, np.uint8)
    vls = DATA_VLS[PortInfo.operational_vls.get(fabric.port_info) & 7]
    for s, node in enumerate(graph.switch_node.tolist()):
        n = int(fabric.node_nports[node]) + 1
        base = int(fabric.node_base[node])
        first = fabric.sl2vl_base[base : base + n].astype(np.int64)
        rows = fabric.sl2vl[first[None, :] + np.arange(n)[:, None]]  # [input, output, 8]
        node_vls = np.stack([rows >> 4, rows & 15], axis=3).reshape(n, n, 16)
        limit = vls[base : base + n][None, :, None]
        table[s, :n, :n] = np.where(node_vls < limit, node_vls, 15)
    return VlTables(table, int(vls[fabric.linked].max(initial=1)))
