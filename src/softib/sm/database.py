"""The subnet manager's database: it has the columns of a fabric, and is filled only from answers to
MADs.

``node``, ``portnum`` and ``port`` (a row: ``node_base + portnum``) have the same meaning as in a
fabric. Rows are in the order of discovery. A switch has rows for ports 0…NumPorts, a CA for
1…NumPorts.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from softib.foreign_text import field_text
from softib.iba.constants import SM_SUPPORTS_EXTENDED_SPEEDS, CapMask, NodeType
from softib.iba.devices import MELLANOX, MELLANOX_PARTS
from softib.iba.smp import NodeInfo, PortInfo
from softib.mad.smp_requests import Routes
from softib.sm.vports.vport_table import VPortTable

__all__ = ["Database", "Location"]

_GUID = re.compile(r"\b0x([0-9a-f]{16})\b")

Location = tuple[int, int]
"""(NodeGUID, portnum) of a port."""

_NODE_COLUMNS: dict[str, tuple[Any, tuple[int, ...], int]] = {
    "node_type": (np.uint8, (), 0),
    "node_nports": (np.uint8, (), 0),
    "node_base": (np.int32, (), 0),
    "node_guid": (np.uint64, (), 0),
    "sys_guid": (np.uint64, (), 0),
    "vendor_id": (np.uint32, (), 0),
    "device_id": (np.uint16, (), 0),
    "revision": (np.uint32, (), 0),
    "node_info": (np.uint8, (64,), 0),
    "node_desc": (np.uint8, (64,), 0),
    "node_route": (np.int32, (), 0),
    "node_entered": (np.bool_, (), 0),
    "node_ok": (np.bool_, (), 1),
    "switch_info": (np.uint8, (64,), 0),
    "has_switch_info": (np.bool_, (), 0),
}
"""``node_route``: row of ``routes`` through which the node was discovered. ``node_entered``:
whether the CA port to which this route leads has been stored. ``node_ok``: the node answered all
requests that are needed to use it. ``switch_info`` is zeros for a CA."""

_PORT_COLUMNS: dict[str, tuple[Any, tuple[int, ...], int]] = {
    "port_node": (np.int32, (), 0),
    "port_num": (np.uint8, (), 0),
    "port_guid": (np.uint64, (), 0),
    "port_peer": (np.int32, (), -1),
    "port_route": (np.int32, (), -1),
    "port_info": (np.uint8, (64,), 0),
    "has_port_info": (np.bool_, (), 0),
    "port_probed": (np.bool_, (), 0),
    "port_lid": (np.uint16, (), 0),
    "port_lmc": (np.uint8, (), 0),
}
"""``port_peer`` is the port that answered a NodeInfo sent through this port (-1: none).
``port_route`` is the row of ``routes`` that leads to the port (CA) or to its switch. The LID
manager sets ``port_lid`` and ``port_lmc``."""


class Database:
    """Columns that grow. The public arrays (``db.node_guid`` …) are views of the rows in use."""

    def __init__(self) -> None:
        self.n_nodes = self.n_ports = 0
        self.routes = Routes()
        self.sm_port = -1
        """Row of the port from which the subnet manager sends."""
        self._node = {k: _column(v, 64) for k, v in _NODE_COLUMNS.items()}
        self._port = {k: _column(v, 1024) for k, v in _PORT_COLUMNS.items()}
        self._by_guid = np.zeros(0, np.int32)
        """Nodes in the order of their GUIDs. It is sorted again after nodes were added."""
        self.vports = VPortTable()

    def __getattr__(self, name: str) -> np.ndarray:
        # Python calls this only for names that are not instance attributes, which are the columns.
        if name in _NODE_COLUMNS:
            return self._node[name][: self.n_nodes]
        if name in _PORT_COLUMNS:
            return self._port[name][: self.n_ports]
        raise AttributeError(name)

    # -- growth --

    def nodes_of(self, guids: np.ndarray) -> np.ndarray:
        """Return the node of each NodeGUID (int32[n]); -1 if the database does not have it."""
        guids = np.asarray(guids, np.uint64)  # with another type, the search would compare rounded numbers
        if not self.n_nodes:
            return np.full(len(guids), -1, np.int32)
        if len(self._by_guid) != self.n_nodes:
            self._by_guid = np.argsort(self.node_guid, kind="stable").astype(np.int32)
        at = np.searchsorted(self.node_guid, guids, sorter=self._by_guid)
        node = self._by_guid[np.minimum(at, self.n_nodes - 1)]
        return np.where(self.node_guid[node] == guids, node, -1).astype(np.int32)

    def node_of(self, guid: int) -> int:
        """Return the node of one NodeGUID, -1 if there is none."""
        return int(self.nodes_of(np.array([guid], np.uint64))[0])

    def add_nodes(self, info: np.ndarray, route: np.ndarray) -> np.ndarray:
        """Add nodes by their NodeInfo (uint8[n, 64]; the GUIDs are distinct and new) and the route
        to each."""
        n = len(info)
        first = self.n_nodes
        nodes = np.arange(first, first + n, dtype=np.int32)
        node_type, nports = NodeInfo.node_type.get(info), NodeInfo.num_ports.get(info)
        self._node = _grown(self._node, _NODE_COLUMNS, first + n)
        self.n_nodes = first + n
        for name, values in (
            ("node_type", node_type),
            ("node_nports", nports),
            ("node_guid", NodeInfo.node_guid.get(info)),
            ("node_route", route),
        ):
            self._node[name][nodes] = values
        self.refresh_nodes(nodes, info)
        is_switch = node_type == NodeType.SWITCH
        rows = nports.astype(np.int64) + is_switch
        starts = self.n_ports + np.cumsum(rows) - rows
        self._node["node_base"][nodes] = starts - ~is_switch
        total = int(rows.sum())
        ports = np.arange(self.n_ports, self.n_ports + total)
        self._port = _grown(self._port, _PORT_COLUMNS, self.n_ports + total)
        self.n_ports += total
        owner = np.repeat(nodes, rows)
        self._port["port_node"][ports] = owner
        self._port["port_num"][ports] = ports - self._node["node_base"][owner]
        on_switch = np.repeat(is_switch, rows)
        self._port["port_route"][ports] = np.where(on_switch, np.repeat(route, rows), -1)
        self._port["port_guid"][ports] = np.where(on_switch, np.repeat(NodeInfo.port_guid.get(info), rows), 0)
        return nodes

    def refresh_nodes(self, nodes: np.ndarray, info: np.ndarray) -> None:
        """Update known nodes that answered NodeInfo (uint8[n, 64]) again, because a device may have
        other firmware after a restart."""
        self._node["node_info"][nodes] = info
        for name in ("revision", "sys_guid", "vendor_id", "device_id"):
            self._node[name][nodes] = NodeInfo.fields[name].get(info)

    # -- between sweeps --

    def columns(self) -> dict[str, np.ndarray]:
        """Return every column by its name."""
        return {name: getattr(self, name) for name in (*_NODE_COLUMNS, *_PORT_COLUMNS)}

    @classmethod
    def of_columns(cls, columns: Mapping[str, np.ndarray], sm_port: int) -> Database:
        """Return a database with these columns, without routes. Raises :class:`KeyError` if one is
        missing."""
        out = cls()
        out._node = {k: columns[k] for k in _NODE_COLUMNS}
        out._port = {k: columns[k] for k in _PORT_COLUMNS}
        out.n_nodes, out.n_ports, out.sm_port = len(columns["node_guid"]), len(columns["port_node"]), sm_port
        return out

    def copy(self) -> Database:
        """Return an independent database with the same rows; unused routes are omitted."""
        out = Database()
        out.n_nodes, out.n_ports, out.sm_port = self.n_nodes, self.n_ports, self.sm_port
        out._node = {k: column[: self.n_nodes].copy() for k, column in self._node.items()}
        out._port = {k: column[: self.n_ports].copy() for k, column in self._port.items()}
        out.vports = self.vports.copy()
        named = np.concatenate([out._node["node_route"], out._port["port_route"]])
        used, row = np.unique(named, return_inverse=True)
        none = int(np.searchsorted(used, 0))  # -1: no route
        out.routes = self.routes.subset(used[none:])
        row = row.reshape(-1) - none
        row = np.maximum(row, -1).astype(np.int32)
        out._node["node_route"], out._port["port_route"] = row[: self.n_nodes], row[self.n_nodes :]
        return out

    def drop_nodes(self, removed: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Remove nodes (bool[nodes]) and their ports. The others keep their order. Returns the new
        row of each old node and of each old port; -1 for removed ones."""
        keep_port = ~removed[self.port_node]
        node_row = np.where(removed, -1, np.cumsum(~removed) - 1).astype(np.int32)
        port_row = np.where(keep_port, np.cumsum(keep_port) - 1, -1).astype(np.int32)
        first = self.node_base[~removed] + ~self.is_switch[~removed]  # a CA has no row for port 0
        self._node = {k: column[: self.n_nodes][~removed] for k, column in self._node.items()}
        self._port = {k: column[: self.n_ports][keep_port] for k, column in self._port.items()}
        self.n_nodes, self.n_ports = int((~removed).sum()), int(keep_port.sum())
        self._node["node_base"] = (port_row[first] - ~self.is_switch).astype(np.int32)
        self._port["port_node"] = node_row[self._port["port_node"]]
        peer = self._port["port_peer"]
        self._port["port_peer"] = np.where(peer >= 0, port_row[peer], -1).astype(np.int32)
        self.sm_port = int(port_row[self.sm_port]) if self.sm_port >= 0 else -1
        self._by_guid = self._by_guid[:0]
        return node_row, port_row

    # -- queries of managers --

    @property
    def is_switch(self) -> np.ndarray:
        """Mask of the switches (bool[nodes])."""
        return self.node_type == NodeType.SWITCH

    @property
    def external(self) -> np.ndarray:
        """Mask of the external ports of switches (bool[ports])."""
        return self.are_external(slice(None))

    def are_external(self, ports: np.ndarray | slice) -> np.ndarray:
        """Return :attr:`external`, only for ``ports``."""
        return (self.node_type[self.port_node[ports]] == NodeType.SWITCH) & (self.port_num[ports] > 0)

    @property
    def switches(self) -> np.ndarray:
        """Return the usable switches, ascending by NodeGUID, so that tables do not depend on the
        order in which answers arrived."""
        rows = np.flatnonzero(self.is_switch & self.node_ok)
        return rows[np.argsort(self.node_guid[rows], kind="stable")]

    def end_ports(self, guids: np.ndarray | None = None) -> np.ndarray:
        """Return the ports that have LIDs: port 0 of each usable switch, and each CA port that
        answered. They are sorted by PortGUID, with the manager's port first. ``guids``: return only
        ports with these PortGUIDs."""
        rows = np.arange(self.n_ports) if guids is None else np.flatnonzero(np.isin(self.port_guid, guids))
        node, number = self.port_node[rows], self.port_num[rows]
        on_switch = self.node_type[node] == NodeType.SWITCH
        rows = rows[np.where(on_switch, number == 0, self.has_port_info[rows]) & self.node_ok[node]]
        rows = rows[np.lexsort((self.port_num[rows], self.port_guid[rows]))]
        return np.concatenate([rows[rows == self.sm_port], rows[rows != self.sm_port]])

    def port_state(self, ports: np.ndarray | slice = slice(None)) -> np.ndarray:
        """Return PortState of ``ports`` as last read, 0 if unknown."""
        return PortInfo.port_state.get(self.port_info[ports])

    def port_modifier(self, ports: np.ndarray) -> np.ndarray:
        """Return the AttributeModifier of PortInfo for ``ports``: the portnum, and
        SMSupportExtendedSpeeds if the device supports the extended components (for a switch, port
        0's CapabilityMask says so)."""
        says = np.where(self.are_external(ports), self.node_base[self.port_node[ports]], ports)
        extended = self.has_port_info[says] & (
            (PortInfo.cap_mask.get(self.port_info[says]) & CapMask.EXTENDED_SPEEDS) > 0
        )
        return self.port_num[ports].astype(np.int64) | np.where(extended, SM_SUPPORTS_EXTENDED_SPEEDS, 0)

    def locations(self, ports: np.ndarray) -> list[Location]:
        """Return (NodeGUID, portnum) of each of ``ports``: the key that stays valid between sweeps."""
        return list(zip(self.node_guid[self.port_node[ports]].tolist(), self.port_num[ports].tolist(), strict=True))

    def location(self, port: int) -> Location:
        """Return (NodeGUID, portnum) of one port."""
        return int(self.node_guid[self.port_node[port]]), int(self.port_num[port])

    @property
    def is_mellanox(self) -> np.ndarray:
        """Mask of the devices that may support Mellanox' attributes (bool[nodes])."""
        return (self.vendor_id == MELLANOX) | np.isin(self.device_id, list(MELLANOX_PARTS))

    def name(self, node: int) -> str:
        """Return NodeDescription, or the GUID."""
        return field_text(self.node_desc[node]) or f"{int(self.node_guid[node]):#018x}"

    def port_name(self, port: int) -> str:
        """Return the port's name, ``leaf-3[40]``."""
        return f"{self.name(int(self.port_node[port]))}[{int(self.port_num[port])}]"

    def with_names(self, text: str) -> str:
        """Return ``text`` with NodeGUIDs replaced by node names; a name that several nodes have is not used."""
        return _GUID.sub(lambda found: self._name_of(int(found[1], 16)) or found[0], text)

    def _name_of(self, guid: int) -> str:
        node = self.node_of(guid)
        alone = node >= 0 and (self.node_desc == self.node_desc[node]).all(axis=1).sum() == 1
        return self.name(node) if alone else ""


def _column(spec: tuple[Any, tuple[int, ...], int], rows: int) -> np.ndarray:
    dtype, tail, fill = spec
    return np.full((rows, *tail), fill, dtype) if fill else np.zeros((rows, *tail), dtype)


def _grown(
    columns: dict[str, np.ndarray], specs: dict[str, tuple[Any, tuple[int, ...], int]], rows: int
) -> dict[str, np.ndarray]:
    old = len(next(iter(columns.values())))
    if rows <= old:
        return columns
    bigger = {k: _column(specs[k], max(2 * old, rows)) for k in columns}
    for k, column in columns.items():
        bigger[k][:old] = column
    return bigger
