"""What a routing engine sees of a fabric."""

from __future__ import annotations

import numpy as np

from softib.fabric.lids import unmanaged_ends
from softib.fabric.model import Fabric
from softib.iba.constants import PhysState
from softib.iba.devices import is_aggregation_node
from softib.iba.smp import PortInfo
from softib.routing.graph import SwitchGraph

__all__ = ["graph_of"]


def graph_of(fabric: Fabric) -> SwitchGraph:
    """The graph of ``fabric`` as it stands: links whose two ends are LinkUp, ports with their LIDs and LMCs.

    Nodes, ports and switches are the fabric's rows. End ports without a LID are not in it, nor those that no manager reached
    (:func:`~softib.fabric.lids.unmanaged_ends`). Raises
    :class:`~softib.errors.LimitError` when a LID is beyond the unicast range.
    """
    info = fabric.port_info
    up = PortInfo.port_phys_state.get(info) == PhysState.LINK_UP
    peer = fabric.port_peer
    usable = (peer >= 0) & up & up[np.maximum(peer, 0)]
    return SwitchGraph.from_ports(
        node_type=fabric.node_type, node_guid=fabric.node_guid, node_nports=fabric.node_nports,
        port_node=fabric.port_node, port_num=fabric.port_num, port_guid=fabric.port_guid,
        port_peer=np.where(usable, peer, -1), port_lid=np.where(unmanaged_ends(fabric), 0, fabric.lid), port_lmc=fabric.lmc,
        sys_guid=fabric.sys_guid, is_aggregator=is_aggregation_node(fabric.node_desc),
    )  # fmt: skip
