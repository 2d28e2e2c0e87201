"""A fabric from what was observed of ports alone: nodes, cables and rates, for results that show a
fabric beside their findings."""

from __future__ import annotations

import numpy as np

from softib.diags.observations import ObservedPorts
from softib.fabric.builder import FabricBuilder
from softib.fabric.model import Fabric, Source
from softib.iba.constants import NodeType

__all__ = ["fabric_of_ports"]


def fabric_of_ports(ports: ObservedPorts, name: str = "observed") -> Fabric:
    """Its nodes and cables. What the ports did not say (devices, LIDs of switches, tables) is as
    :class:`FabricBuilder` has it, and not recorded."""
    guid, first, node = np.unique(ports.node_guid, return_index=True, return_inverse=True)
    node = node.reshape(-1)
    switch = np.asarray(ports.switch, bool)[first]
    most = np.zeros(len(guid), np.int64)
    np.maximum.at(most, node, np.asarray(ports.portnum, np.int64))
    built, row = FabricBuilder(name), np.zeros(len(guid), np.int64)
    for is_switch, n in sorted({(bool(s), int(m)) for s, m in zip(switch, most, strict=True)}):
        mine = np.flatnonzero((switch == is_switch) & (most == n))
        row[mine] = built.nodes(
            len(mine),
            NodeType.SWITCH if is_switch else NodeType.CA,
            max(n, 1),
            desc=[ports.node[first[m]] for m in mine.tolist()],
            node_guid=guid[mine],
        )
    peer = np.asarray(ports.peer, np.int64)
    a = np.flatnonzero(
        (peer > np.arange(len(peer)))
        & (np.asarray(ports.portnum) > 0)
        & (np.asarray(ports.portnum)[np.maximum(peer, 0)] > 0)
    )
    if len(a):
        b = peer[a]
        built.links(row[node[a]], ports.portnum[a], row[node[b]], ports.portnum[b])
    fabric = built.build()
    fabric.source = Source("observed", name)
    return fabric
