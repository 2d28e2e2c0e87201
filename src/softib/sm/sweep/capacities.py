"""What devices say that they have room for, and what to do where that does not suffice or is not so
(IBA 14.2.5.4, 14.2.5.3).

A switch whose LinearFDBCap does not reach the highest LID cannot forward to all. It is left out,
and what hangs on it alone with it: nobody's packets lead through it, and the rest of the subnet is
managed. One that held a table of that length when it said so is kept: a capacity does not change,
so that it lies. One that refused a block of its table has no room for it, whatever it says. The
manager's own switch is kept always.
"""

from __future__ import annotations

import numpy as np

from softib.iba.constants import LFT_BLOCK
from softib.iba.smp import NodeInfo, PortInfo, SwitchInfo
from softib.plural import counted
from softib.sm.database import Database
from softib.sm.managers.ucast_mgr import LftStore

__all__ = ["changed_capacities", "leave_out_short", "refused_blocks"]


def leave_out_short(db: Database, store: LftStore) -> list[tuple[int, str]]:
    """Take switches out whose forwarding table is too short for the LIDs that are given; (NodeGUID,
    what it says) of each."""
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
        what = (
            f"says that its forwarding table has {counted(int(stated[i]), 'entry')}, where LIDs up to {top} are in use"
        )
        if refused[i] <= top:
            what = (
                f"refused entries of its forwarding table from LID {int(refused[i])} on, where LIDs up to {top} are "
                f"in use"
            )
        held = store.tables.get(guid, (0, None))[0]
        local = node in local_nodes
        if local or (refused[i] > top and held >= top):
            lines.append((guid, what + ("; it is the manager's own" if local else "; it held as many before")))
        else:
            lines.append((guid, what + ": it is left out, and what hangs on it alone"))
            out[node] = True
    if out.any():
        db.node_ok[out] = False
        rows = np.flatnonzero(db.port_peer >= 0)
        cut = rows[out[db.port_node[rows]] | out[db.port_node[db.port_peer[rows]]]]
        db.port_peer[cut] = -1
    return lines


def refused_blocks(store: LftStore, guids: np.ndarray, blocks: np.ndarray) -> None:
    """These blocks of forwarding tables were refused (NodeGUID and block of each): the next sweep
    goes by that."""
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
    """(NodeGUID, what it says) of devices that have room for more or less than in the sweep before,
    or for what cannot be."""
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
            f"VLCap of port {int(db.port_num[p])} is {int(PortInfo.vl_cap.get(db.port_info[p]))}, which means nothing",
        )
        for p in wrong.tolist()
    ]
    return lines
