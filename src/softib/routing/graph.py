"""The input of a routing engine: switches, the links between them, and the LIDs attached to them.

A graph is made from port columns, which both a fabric and the subnet manager's database have:
:meth:`SwitchGraph.from_ports`.
:meth:`SwitchGraph.from_ports`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from softib.errors import LimitError
from softib.iba.constants import LID_UCAST_MAX, NodeType

__all__ = ["PortColumns", "SwitchGraph"]


@dataclass(frozen=True)
class PortColumns:
    """The columns of a graph, named as in the fabric: ``node_*`` by node, ``port_*`` by port.

    ``port_peer`` is -1 if there is no usable link. ``sys_guid`` (SystemImageGUIDs) is used only
    with LMC > 0; if it is missing, every switch is a separate system. ``is_host`` bool[nodes] marks
    hosts (default: every CA). Routers and SHARP aggregation nodes are no hosts: they may also be on
    spines, so they do not show which switches are leaves. ``node_desc`` uint8[nodes, 64]
    (NodeDescriptions) is used only by engine ``chain``, whose groups may name nodes.
    """

    node_type: Any
    node_guid: Any
    node_nports: Any
    port_node: Any
    port_num: Any
    port_guid: Any
    port_peer: Any
    port_lid: Any
    port_lmc: Any
    sys_guid: Any = None
    is_host: Any = None
    node_desc: Any = None


@dataclass(frozen=True)
class SwitchGraph:
    """The switches, links and end ports of a fabric, as arrays that kernels accept directly.

    Switches are rows ``0…n_switches-1`` in the order of the caller's nodes. Links between switches
    are a CSR list. The links of switch ``s`` are rows ``first[s]:first[s+1]``, ascending by
    ``out_port``. Every cable appears once in each direction, and ``reverse[e]`` is the row of the
    other direction. A link to the switch itself (self-loop cable) is left out.

    End ports (``end_*``) have LIDs: every CA or router port with a link to a switch, and port 0 of
    each switch. They are sorted by base LID. ``end_switch`` is the switch of an end (for a switch's
    own port 0: itself), ``end_port`` the switch's egress port to it (0 for the switch itself),
    ``end_node`` and ``end_portnum`` the caller's node and portnum.
    """

    n_switches: int
    switch_node: np.ndarray  # int32[n_switches] caller's node
    switch_guid: np.ndarray  # uint64[n_switches]
    switch_nports: np.ndarray  # uint8[n_switches]
    first: np.ndarray  # int32[n_switches + 1]
    out_port: np.ndarray  # uint8[links]
    peer: np.ndarray  # int32[links] switch at the other end
    peer_port: np.ndarray  # uint8[links] its port
    reverse: np.ndarray  # int32[links]
    end_lid: np.ndarray  # uint16[ends] base LID
    end_lmc: np.ndarray  # uint8[ends]
    end_switch: np.ndarray  # int32[ends]
    end_port: np.ndarray  # uint8[ends]
    end_is_switch: np.ndarray  # bool[ends]
    end_guid: np.ndarray  # uint64[ends] PortGUID
    end_node: np.ndarray  # int32[ends]
    end_portnum: np.ndarray  # uint8[ends]
    max_lid: int
    switch_system: np.ndarray  # int32[n_switches] switches of one chassis (SystemImageGUID) share a number
    end_is_compute: np.ndarray  # bool[ends] a port of a host
    node_desc: np.ndarray | None = None  # uint8[nodes, 64] NodeDescriptions by the caller's node

    @property
    def link_switch(self) -> np.ndarray:
        """int64[links]: the switch at the beginning of each link; ``peer`` is the switch at its end."""
        return np.repeat(np.arange(self.n_switches), np.diff(self.first))

    @property
    def lft_size(self) -> int:
        """Number of columns of a table that covers ``max_lid``: a multiple of 64."""
        return (self.max_lid // 64 + 1) * 64

    @classmethod
    def from_ports(cls, columns: PortColumns) -> SwitchGraph:
        """Return the graph of ``columns``.

        End ports with LID 0 are left out. Raises :class:`LimitError` if LIDs are outside the unicast range.
        """
        c = columns
        node_type, port_node, port_num = np.asarray(c.node_type), np.asarray(c.port_node), np.asarray(c.port_num)
        port_peer, port_lid, port_lmc = np.asarray(c.port_peer), np.asarray(c.port_lid), np.asarray(c.port_lmc)
        is_sw = node_type == NodeType.SWITCH
        switch_node = np.flatnonzero(is_sw).astype(np.int32)
        switch_of = np.full(len(node_type), -1, np.int32)
        switch_of[switch_node] = np.arange(len(switch_node), dtype=np.int32)
        rows = np.flatnonzero(port_peer >= 0)
        switch, peer_switch = switch_of[port_node[rows]], switch_of[port_node[port_peer[rows]]]
        keep = (switch >= 0) & (peer_switch >= 0) & (switch != peer_switch)
        link_rows = rows[keep]
        order = np.lexsort((port_num[link_rows], switch_of[port_node[link_rows]]))
        link_rows = link_rows[order]
        row_of_port = np.full(len(port_node), -1, np.int32)
        row_of_port[link_rows] = np.arange(len(link_rows), dtype=np.int32)
        owner = switch_of[port_node[link_rows]]
        first = np.searchsorted(owner, np.arange(len(switch_node) + 1)).astype(np.int32)
        peers = port_peer[link_rows]
        ends, end_switch, end_port = _end_ports(switch_of, port_node, port_num, port_peer, port_lid)
        top = port_lid[ends].astype(np.int64) + (1 << port_lmc[ends].astype(np.int64)) - 1
        max_lid = int(top.max()) if len(ends) else 0
        if max_lid > LID_UCAST_MAX:
            raise LimitError(f"LID {max_lid} is beyond the last unicast LID {LID_UCAST_MAX} (IBA 4.1.3)")
        return cls(
            n_switches=len(switch_node),
            switch_node=switch_node,
            switch_guid=np.asarray(c.node_guid)[switch_node].astype(np.uint64),
            switch_nports=np.asarray(c.node_nports)[switch_node].astype(np.uint8),
            first=first,
            out_port=port_num[link_rows].astype(np.uint8),
            peer=switch_of[port_node[peers]],
            peer_port=port_num[peers].astype(np.uint8),
            reverse=row_of_port[peers],
            end_lid=port_lid[ends].astype(np.uint16),
            end_lmc=port_lmc[ends].astype(np.uint8),
            end_switch=end_switch.astype(np.int32),
            end_port=end_port.astype(np.uint8),
            end_is_switch=port_num[ends] == 0,
            end_guid=np.asarray(c.port_guid)[ends].astype(np.uint64),
            end_node=port_node[ends].astype(np.int32),
            end_portnum=port_num[ends].astype(np.uint8),
            max_lid=max_lid,
            end_is_compute=(port_num[ends] != 0)
            & np.asarray(node_type == NodeType.CA if c.is_host is None else c.is_host)[port_node[ends]],
            node_desc=c.node_desc,
            switch_system=_systems(c.node_guid if c.sys_guid is None else c.sys_guid, switch_node),
        )


def _systems(sys_guid: Any, switch_node: np.ndarray) -> np.ndarray:
    guids = np.asarray(sys_guid)[switch_node].astype(np.uint64)
    return np.unique(guids, return_inverse=True)[1].astype(np.int32)


def _end_ports(
    switch_of: np.ndarray, port_node: np.ndarray, port_num: np.ndarray, port_peer: np.ndarray, port_lid: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    switch = switch_of[port_node]
    peer_switch = np.where(port_peer >= 0, switch_of[port_node[np.maximum(port_peer, 0)]], -1)
    port0 = (switch >= 0) & (port_num == 0)
    ca = (switch < 0) & (peer_switch >= 0)
    ends = np.flatnonzero((port0 | ca) & (port_lid > 0))
    ends = ends[np.argsort(port_lid[ends], kind="stable")]
    at = np.where(port0[ends], switch[ends], peer_switch[ends])
    via = np.where(port0[ends], 0, port_num[np.maximum(port_peer[ends], 0)])
    return ends, at, via
