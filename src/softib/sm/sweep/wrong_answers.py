"""Devices whose answers do not fit what they said, or were told, before: a line each for people;
nothing else depends on it."""

from __future__ import annotations

import numpy as np

from softib.iba.constants import NodeType
from softib.iba.smp import PortInfo, SwitchInfo
from softib.plural import counted
from softib.sm.database import Database

__all__ = ["changed_devices", "changed_neighbours", "wrong_lids", "wrong_tops"]

_KIND = {int(NodeType.CA): "CA", int(NodeType.SWITCH): "switch", int(NodeType.ROUTER): "router"}


def changed_devices(before: Database, db: Database) -> list[tuple[int, str]]:
    """(NodeGUID, what it says) of devices that are of another type, or have another number of
    ports, than in the sweep before."""
    guids, old, new = np.intersect1d(before.node_guid, db.node_guid, return_indices=True)
    differ = (before.node_type[old] != db.node_type[new]) | (before.node_nports[old] != db.node_nports[new])
    return [
        (int(guids[i]), f"says that it is {_what(db, int(new[i]))}; it was {_what(before, int(old[i]))}")
        for i in np.flatnonzero(differ).tolist()
    ]


def changed_neighbours(before: Database, db: Database) -> list[str]:
    """A line for each port behind which another NodeGUID is than in the sweep before: another
    device, or one that lies."""
    old_port, old_peer = _cables(before)
    port, peer = _cables(db)
    _, a, b = np.intersect1d(_place(before, old_port), _place(db, port), return_indices=True)
    was, now = before.port_node[old_peer[a]], db.port_node[peer[b]]
    differ = np.flatnonzero(before.node_guid[was] != db.node_guid[now])
    return [
        f"behind {db.port_name(int(port[b[i]]))}: {db.name(int(now[i]))} (NodeGUID "
        f"{int(db.node_guid[now[i]]):#018x}), where"
        f" {before.name(int(was[i]))} ({int(before.node_guid[was[i]]):#018x}) was"
        for i in differ.tolist()
    ]


def wrong_tops(db: Database, nodes: np.ndarray, switch_info: np.ndarray, top: int) -> list[tuple[int, str]]:
    """(NodeGUID, what it says) of switches whose answer to a Set of LinearFDBTop has another one
    (uint8[n, 64])."""
    read = SwitchInfo.linear_fdb_top.get(switch_info)
    wrong = np.flatnonzero(read != top)
    return [
        (int(db.node_guid[nodes[i]]), f"LinearFDBTop reads {int(read[i])} after it was set to {top}")
        for i in wrong.tolist()
    ]


def wrong_lids(db: Database, ports: np.ndarray, port_info: np.ndarray) -> list[tuple[int, str]]:
    """(NodeGUID, what it says) of end ports whose answer to a Set of their LID has another one
    (uint8[n, 64])."""
    read = PortInfo.lid.get(port_info)
    wrong = np.flatnonzero(read != db.port_lid[ports])
    return [
        (
            int(db.node_guid[db.port_node[ports[i]]]),
            f"port {int(db.port_num[ports[i]])} reads LID {int(read[i])} after it was given "
            f"{int(db.port_lid[ports[i]])}",
        )
        for i in wrong.tolist()
    ]


def _what(db: Database, node: int) -> str:
    return (
        f"a {_KIND.get(int(db.node_type[node]), 'device of no type')} of {counted(int(db.node_nports[node]), 'port')}"
    )


def _cables(db: Database) -> tuple[np.ndarray, np.ndarray]:
    """Ports of switches with a cable, and their peers."""
    port = np.flatnonzero(db.external & (db.port_peer >= 0))
    return port, db.port_peer[port]


def _place(db: Database, ports: np.ndarray) -> np.ndarray:
    """(NodeGUID, portnum) as one comparable value each."""
    out = np.zeros(len(ports), [("guid", np.uint64), ("portnum", np.uint8)])
    out["guid"], out["portnum"] = db.node_guid[db.port_node[ports]], db.port_num[ports]
    return out
