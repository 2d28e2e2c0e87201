"""Comparison with the previous sweep: devices whose answers have changed or are impossible, with a
message for each; switches whose tables are too short; and traces of other masters.

A switch whose LinearFDBCap is below the highest LID cannot forward to all LIDs (IBA 14.2.5.4). It
is omitted, together with the devices that are connected only through it, and the rest of the subnet
is managed without it. But if the switch earlier had a table of the needed length, it is kept: a
capacity does not change, so its answer is wrong. If a switch rejected a block of its table, its
table is too short, whatever capacity it reports. The manager's own switch is always kept.

If a subnet is divided, each part has a master (IBA 14.4.1). When the parts are connected again and
one master has stopped, only traces of it remain. A switch that was cut off may have that master's
tables although LinearFDBTop is this manager's value, and end ports have the LID of that master as
MasterSMLID.
"""

from __future__ import annotations

import numpy as np

from softib.iba.constants import LFT_BLOCK, NodeType
from softib.iba.smp import NodeInfo, PortInfo, SwitchInfo
from softib.plural import counted
from softib.sm.database import Database
from softib.sm.managers.ucast_mgr import LftStore

__all__ = [
    "changed_capacities",
    "changed_devices",
    "changed_neighbours",
    "leave_out_short",
    "named_masters",
    "refused_blocks",
    "returned",
    "wrong_lids",
    "wrong_tops",
]


def leave_out_short(db: Database, store: LftStore) -> list[tuple[int, str]]:
    """Remove switches whose forwarding table is too short for the assigned LIDs; return (NodeGUID,
    message) of each."""
    ends = db.end_ports()
    top = int((db.port_lid[ends].astype(np.int64) + (1 << db.port_lmc[ends].astype(np.int64)) - 1).max(initial=0))
    nodes = np.flatnonzero(db.is_switch & db.node_ok)
    guids = db.node_guid[nodes].tolist()
    stated = SwitchInfo.linear_fdb_cap.get(db.switch_info[nodes]).astype(np.int64)
    refused = np.array([store.refused.get(guid, 1 << 16) for guid in guids], np.int64)
    short = np.flatnonzero(np.minimum(stated, refused) <= top)
    first = [p for p in (db.sm_port, int(db.port_peer[db.sm_port])) if p >= 0] if db.sm_port >= 0 else []
    local_nodes = db.port_node[first].tolist()
    lines, out = [], np.zeros(db.n_nodes, bool)
    for i in short.tolist():
        node, guid = int(nodes[i]), guids[i]
        text = f"has a forwarding table of {counted(int(stated[i]), 'entry')}, but LIDs up to {top} are in use"
        if refused[i] <= top:
            text = (
                f"refused entries of its forwarding table from LID {int(refused[i])} on, but LIDs up to {top} are "
                f"in use"
            )
        held = store.tables.get(guid, (0, None))[0]
        local = node in local_nodes
        if local or (refused[i] > top and held >= top):
            lines.append((guid, text + ("; it is the manager's own" if local else "; it held that many before")))
        else:
            lines.append((guid, text + ": it is left out, with the devices that only it connects"))
            out[node] = True
    if out.any():
        db.node_ok[out] = False
        rows = np.flatnonzero(db.port_peer >= 0)
        cut = rows[out[db.port_node[rows]] | out[db.port_node[db.port_peer[rows]]]]
        db.port_peer[cut] = -1
    return lines


def refused_blocks(store: LftStore, guids: np.ndarray, blocks: np.ndarray) -> None:
    """Record the blocks of forwarding tables that switches rejected (NodeGUID and block of each),
    for the next sweep."""
    for guid, block in zip(guids.tolist(), blocks.tolist(), strict=True):
        store.refused[guid] = min(store.refused.get(guid, 1 << 16), block * LFT_BLOCK)


_OF_NODE = {"PartitionCap": (NodeInfo.partition_cap, "node_info")}
_OF_SWITCH = {
    "LinearFDBCap": (SwitchInfo.linear_fdb_cap, "switch_info"),
    "MulticastFDBCap": (SwitchInfo.mcast_fdb_cap, "switch_info"),
    "PartitionEnforcementCap": (SwitchInfo.partition_enforcement_cap, "switch_info"),
}
_OF_PORT = {"VLCap": PortInfo.vl_cap, "GUIDCap": PortInfo.guid_cap, "MTUCap": PortInfo.mtu_cap}
MOST_VLS = 5
"""Largest code of VLCap (IBA 14.2.5.6): 15 data VLs."""


def changed_capacities(before: Database, db: Database) -> list[tuple[int, str]]:
    """Return (NodeGUID, message) of devices whose capacity is impossible, or differs from the previous sweep."""
    lines: list[tuple[int, str]] = []
    _, old, new = np.intersect1d(before.node_guid, db.node_guid, return_indices=True)
    same = (before.node_type[old] == db.node_type[new]) & (before.node_nports[old] == db.node_nports[new])
    old, new = old[same], new[same]
    both = before.has_switch_info[old] & db.has_switch_info[new]
    for name, (field, column) in (_OF_NODE | _OF_SWITCH).items():
        was, now = field.get(getattr(before, column)[old]), field.get(getattr(db, column)[new])
        differ = (was != now) & (both if column == "switch_info" else True)
        lines += [
            (int(db.node_guid[new[i]]), f"{name} is {int(now[i])}; it was {int(was[i])}")
            for i in np.flatnonzero(differ).tolist()
        ]
    guid = db.node_guid[db.port_node]
    ends = db.end_ports()
    ends_before = before.end_ports()
    _, a, b = np.intersect1d(before.port_guid[ends_before], db.port_guid[ends], return_indices=True)
    port_before, port = ends_before[a], ends[b]
    for name, of_port in _OF_PORT.items():
        was, now = of_port.get(before.port_info[port_before]), of_port.get(db.port_info[port])
        differ = (was != now) & before.has_port_info[port_before] & db.has_port_info[port]
        lines += [
            (int(guid[port[i]]), f"{name} of port {int(db.port_num[port[i]])} is {int(now[i])}; it was {int(was[i])}")
            for i in np.flatnonzero(differ).tolist()
        ]
    wrong = np.flatnonzero(db.has_port_info & (PortInfo.vl_cap.get(db.port_info) > MOST_VLS))
    lines += [
        (
            int(guid[p]),
            f"VLCap of port {int(db.port_num[p])} is {int(PortInfo.vl_cap.get(db.port_info[p]))}, which is undefined",
        )
        for p in wrong.tolist()
    ]
    return lines


def returned(before: Database, db: Database) -> np.ndarray:
    """Return the nodes (rows of ``db``) that were absent in the previous sweep."""
    away: np.ndarray = np.flatnonzero(~np.isin(db.node_guid, before.node_guid))
    return away


def named_masters(before: Database, db: Database) -> list[int]:
    """Return the MasterSMLIDs of end ports that had this manager's LID there in the previous
    sweep."""
    local_lid = int(before.port_lid[before.sm_port]) if before.sm_port >= 0 else 0
    ours = PortInfo.master_sm_lid.get(before.port_info) == local_lid
    ends, old = db.end_ports(), before.end_ports()
    named = PortInfo.master_sm_lid.get(db.port_info[ends]).astype(np.int64)
    followed = np.isin(db.port_guid[ends], before.port_guid[old[ours[old]]])
    other = db.has_port_info[ends] & followed & (named != 0) & (named != local_lid)
    return sorted(set(named[other].tolist()))


_KIND = {int(NodeType.CA): "CA", int(NodeType.SWITCH): "switch", int(NodeType.ROUTER): "router"}


def changed_devices(before: Database, db: Database) -> list[tuple[int, str]]:
    """Return (NodeGUID, message) of devices whose type or number of ports differs from the previous
    sweep."""
    guids, old, new = np.intersect1d(before.node_guid, db.node_guid, return_indices=True)
    differ = (before.node_type[old] != db.node_type[new]) | (before.node_nports[old] != db.node_nports[new])
    return [
        (int(guids[i]), f"is {_what(db, int(new[i]))}; it was {_what(before, int(old[i]))}")
        for i in np.flatnonzero(differ).tolist()
    ]


def changed_neighbours(before: Database, db: Database) -> list[str]:
    """Return a line for each port whose neighbour's NodeGUID has changed. Either the neighbour is
    another device, or an answer was wrong."""
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
    """Return (NodeGUID, message) of switches whose answer to a Set of LinearFDBTop (uint8[n, 64])
    contains another value."""
    read = SwitchInfo.linear_fdb_top.get(switch_info)
    wrong = np.flatnonzero(read != top)
    return [
        (int(db.node_guid[nodes[i]]), f"LinearFDBTop reads {int(read[i])} after it was set to {top}")
        for i in wrong.tolist()
    ]


def wrong_lids(db: Database, ports: np.ndarray, port_info: np.ndarray) -> list[tuple[int, str]]:
    """Return (NodeGUID, message) of end ports whose answer to a Set of their LID (uint8[n, 64])
    contains another LID."""
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
    kind = _KIND.get(int(db.node_type[node]), "device of unknown type")
    return f"a {kind} with {counted(int(db.node_nports[node]), 'port')}"


def _cables(db: Database) -> tuple[np.ndarray, np.ndarray]:
    """Return the ports of switches that have a cable, and their peers."""
    port = np.flatnonzero(db.external & (db.port_peer >= 0))
    return port, db.port_peer[port]


def _place(db: Database, ports: np.ndarray) -> np.ndarray:
    """Return one comparable value for each (NodeGUID, portnum)."""
    out = np.zeros(len(ports), [("guid", np.uint64), ("portnum", np.uint8)])
    out["guid"], out["portnum"] = db.node_guid[db.port_node[ports]], db.port_num[ports]
    return out
