"""Ports, systems and links of the fabric in UFM's form. Each is created on request, so that the cost of one port
does not depend on the size of the fabric."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np

from softib.fabric.model import Fabric
from softib.iba.constants import NodeType, PhysState, PortState
from softib.iba.rates import MTU_BYTES
from softib.iba.smp import PortInfo
from softib.tenants.model import CableEnd, guid_text, port_of
from softib.web.now import Now

__all__ = ["FabricRows", "guid_of", "page_of"]

LOGICAL = {PortState.DOWN: "Down", PortState.INIT: "Initialize", PortState.ARMED: "Armed", PortState.ACTIVE: "Active"}
PHYSICAL = {
    PhysState.SLEEP: "Sleep",
    PhysState.POLLING: "Polling",
    PhysState.DISABLED: "Disabled",
    PhysState.TRAINING: "Training",
    PhysState.LINK_UP: "Link Up",
    PhysState.LINK_ERROR_RECOVERY: "Error Recovery",
    PhysState.PHY_TEST: "Phy Test",
}
TYPES = {NodeType.CA: "Computer", NodeType.SWITCH: "Switch", NodeType.ROUTER: "Router"}


class FabricRows:
    """The rows of one reading of the fabric."""

    def __init__(self, now: Now):
        self.now, self.fabric = now, now.fabric
        f: Fabric = now.fabric
        rows = np.flatnonzero((f.port_num > 0) & (f.port_node >= 0))
        self.ports = rows
        """Rows of physical ports."""
        # Columns that a fabric computes at each access.
        self._state, self._phys = f.port_state, PortInfo.port_phys_state.get(f.port_info)
        self._lid, self._linked, self._mtu = f.lid, f.linked, PortInfo.neighbor_mtu.get(f.port_info)
        nodes = np.maximum(f.port_node, 0)
        by_node = (f.node_type[nodes] == int(NodeType.SWITCH)) | (f.port_guid == 0)
        self._guid = np.where(by_node, f.node_guid[nodes], f.port_guid)
        """The PortGUID of a host's port; for a switch's port its NodeGUID."""

    @cached_property
    def _worst(self) -> dict[tuple[int, int | None], str]:
        """(NodeGUID, portnum) → the worst severity of the findings that name the port."""
        out: dict[tuple[int, int | None], str] = {}
        for finding in reversed(self.now.findings):
            for place in finding.where:
                out[place.guid, place.portnum] = "Critical" if finding.severity.name == "ERROR" else "Warning"
        return out

    # -- ports --

    def name(self, row: int) -> str:
        """Return ``guid_number``: UFM's name of a port."""
        f = self.fabric
        return f"{guid_text(int(self._guid[row]))}_{int(f.port_num[row])}"

    def find(self, name: str) -> int | None:
        """Return the row of a port by its UFM name."""
        port = port_of(name)
        if port is None:
            return None
        f, (guid, portnum) = self.fabric, port
        matches = np.flatnonzero(f.port_guid == np.uint64(guid))
        nodes = np.flatnonzero(f.node_guid == np.uint64(guid))
        rows = [*matches.tolist(), *(r for n in nodes.tolist() for r in f.ports_of(n))]
        return next((int(r) for r in rows if int(f.port_num[r]) == portnum), None)

    def peer(self, row: int) -> int:
        """Return the row at the other end of the port's cable; -1 if there is none."""
        return int(self.fabric.port_peer[row]) if self._linked[row] else -1

    def cable_end(self, row: int) -> CableEnd:
        """Return a port as an end of its cable."""
        f, node = self.fabric, int(self.fabric.port_node[row])
        system = int(f.sys_guid[node] or f.node_guid[node])
        return CableEnd(int(f.node_guid[node]), int(f.port_num[row]), self.name(row), f.node_name(node), system)

    @property
    def disabled(self) -> np.ndarray:
        """Rows of ports that are disabled."""
        return self.ports[self._phys[self.ports] == PhysState.DISABLED]

    def port(self, row: int) -> dict[str, Any]:
        """Return one port."""
        f, node = self.fabric, int(self.fabric.port_node[row])
        kind, number, name = int(f.node_type[node]), int(f.port_num[row]), f.node_name(node)
        peer = self.peer(row)
        on_switch = kind == NodeType.SWITCH
        label = str(f.port_label.get(row) or number)
        out = {
            "name": self.name(row),
            "guid": guid_text(int(self._guid[row])),
            "number": number,
            "dname": label if on_switch else f"HCA-1/{number}",
            "node_description": f"{name}:{label}" if on_switch else name,
            "systemID": guid_text(int(f.sys_guid[node] or f.node_guid[node])),
            "system_name": name,
            "type": TYPES.get(NodeType(kind), ""),
            "lid": int(self._lid[f.node_base[node] if on_switch else row]),
            "logical_state": LOGICAL.get(PortState(int(self._state[row])), "Down"),
            "physical_state": PHYSICAL.get(PhysState(int(self._phys[row])), "Polling"),
            "mtu": MTU_BYTES.get(int(self._mtu[row]), 0),
            "severity": self._worst.get((int(f.node_guid[node]), number), "Info"),
        }
        if peer >= 0:
            other = int(f.port_node[peer])
            out |= {
                "peer": self.name(peer),
                "peer_guid": guid_text(int(self._guid[peer])),
                "peer_node_guid": guid_text(int(f.node_guid[other])),
                "peer_node_name": f.node_name(other),
                "peer_port_dname": str(f.port_label.get(peer) or int(f.port_num[peer])),
            }
        return out

    def ports_where(self, kind: str | None, active: bool | None, system: str | None) -> np.ndarray:
        """Return the rows of ports that match all given conditions: the type of the system, the state, and the
        system.
        """
        f, rows = self.fabric, self.ports
        if kind is not None:
            wanted = [int(t) for t, text in TYPES.items() if text.lower() == kind.lower()]
            rows = rows[np.isin(f.node_type[f.port_node[rows]], wanted)]
        if active is not None:
            rows = rows[(self._state[rows] == PortState.ACTIVE) == active]
        if system is not None:
            nodes = self._nodes_of(system)
            rows = rows[np.isin(f.port_node[rows], nodes)]
        return rows

    # -- systems --

    def _nodes_of(self, guid: str) -> np.ndarray:
        f, value = self.fabric, guid_of(guid)
        if value is None:
            return np.zeros(0, np.int64)
        return np.flatnonzero((f.sys_guid == np.uint64(value)) | (f.node_guid == np.uint64(value)))

    def systems_where(self, kind: str | None) -> np.ndarray:
        """Return nodes of that type."""
        f = self.fabric
        if kind is None:
            return np.arange(len(f.node_guid))
        wanted = [
            int(t)
            for t, text in TYPES.items()
            if text.lower() in (kind.lower(), {"host": "computer"}.get(kind.lower()))
        ]
        return np.flatnonzero(np.isin(f.node_type, wanted))

    def find_system(self, guid: str) -> int | None:
        """Return a node by its SystemImageGUID or NodeGUID."""
        nodes = self._nodes_of(guid)
        return int(nodes[0]) if len(nodes) else None

    def system(self, node: int, ports: bool = False) -> dict[str, Any]:
        """Return one system, together with its ports."""
        f = self.fabric
        kind = TYPES.get(NodeType(int(f.node_type[node])), "")
        guid = guid_text(int(f.sys_guid[node] or f.node_guid[node]))
        rows = [r for r in f.ports_of(node) if f.port_num[r] > 0]
        return {
            "name": guid,
            "guid": guid_text(int(f.node_guid[node])),
            "system_guid": guid,
            "system_name": f.node_name(node),
            "type": kind.lower() if kind == "Switch" else "host" if kind == "Computer" else kind.lower(),
            "state": "active",
            "vendor": f"{int(f.vendor_id[node]):#x}",
            "fw_version": f.node_firmware[node].tolist() if f.node_firmware.ndim > 1 else None,
            "total_alarms": 0,
            "ports": [self.port(r) if ports else self.name(r) for r in rows],
        }

    # -- links --

    @cached_property
    def cables(self) -> np.ndarray:
        """Cables with both ends."""
        return np.flatnonzero((self.fabric.cable_port >= 0).all(axis=1))

    def link(self, cable: int) -> dict[str, Any]:
        """Return one link."""
        f = self.fabric
        a, b = (int(r) for r in f.cable_port[cable])
        if f.node_type[f.port_node[b]] == NodeType.SWITCH and f.node_type[f.port_node[a]] != NodeType.SWITCH:
            a, b = b, a
        out: dict[str, Any] = {"name": f"{self.name(a)}:{self.name(b)}"}
        for side, row in (("source", a), ("destination", b)):
            node = int(f.port_node[row])
            label = str(f.port_label.get(row) or int(f.port_num[row]))
            on_switch = f.node_type[node] == NodeType.SWITCH
            out |= {
                f"{side}_guid": guid_text(int(f.node_guid[node])),
                f"{side}_port": str(int(f.port_num[row])),
                f"{side}_port_dname": label,
                f"{side}_port_node_description": f"{f.node_name(node)}:{label}" if on_switch else f.node_name(node),
            }
        worst = (self._worst.get((int(f.node_guid[f.port_node[r]]), int(f.port_num[r])), "Info") for r in (a, b))
        return out | {"severity": max(worst, key=("Info", "Warning", "Critical").index)}


def guid_of(text: str) -> int | None:
    """Return a GUID from hexadecimal digits; None for other text."""
    try:
        value = int(text, 16)
    except ValueError:
        return None
    return value if 0 <= value < 1 << 64 else None


def page_of(
    rows: np.ndarray, row: Callable[[int], dict[str, Any]], page_number: int | None, rpp: int | None
) -> list[dict[str, Any]]:
    """Return the rows of a page; without ``page_number`` all of them."""
    if page_number is not None:
        size = rpp or 20
        rows = rows[(page_number - 1) * size : page_number * size]
    return [row(r) for r in rows.tolist()]
