"""Sets LinearFDBTop and MulticastFDBTop in SwitchInfo (IBA 14.2.5.4), which limit the part of the
forwarding tables that a switch uses.

LinearFDBTop is raised only after blocks are written, so that a switch never uses an unwritten
entry. MulticastFDBTop (OpenSM's ``use_mfttop``): a switch whose port 0 has
IsMulticastFDBTopSupported discards packets to MLIDs above it. 0xBFFF means that the table is empty;
0, the value after power-up, means that the whole table is used. The manager raises it after blocks
are written, so that entries of an earlier manager forward no packets.
"""

from __future__ import annotations

import numpy as np

from softib.iba.constants import LID_MCAST_MIN, MFT_BLOCK, CapMask, SmpAttr
from softib.iba.smp import PortInfo, SwitchInfo
from softib.mad.smp_requests import RequestQueue
from softib.routing.graph import SwitchGraph
from softib.sm.database import Database
from softib.sm.sa.subnet import Subnet

__all__ = ["queue_lft_tops", "queue_mft_tops", "top_of"]

EMPTY = LID_MCAST_MIN - 1


def top_of(highest: int, caps: np.ndarray) -> np.ndarray:
    """Return MulticastFDBTop for switches whose tables have ``caps`` entries. It is the end of the
    block that contains the highest MLID in use (0: none), so that a new group seldom changes it."""
    blocks = -(-(highest - EMPTY) // MFT_BLOCK) if highest else 0
    return EMPTY + np.minimum(blocks * MFT_BLOCK, caps.astype(np.int64))


def queue_mft_tops(subnet: Subnet, queue: RequestQueue, highest: int, wanted: bool) -> None:
    """Queue a Set(SwitchInfo) for each switch whose top differs; without ``wanted``, the whole table is used (0)."""
    db = subnet.db
    nodes = subnet.graph.switch_node
    able = PortInfo.cap_mask.get(db.port_info[db.node_base[nodes]]) & CapMask.MCAST_FDB_TOP > 0
    caps = SwitchInfo.mcast_fdb_cap.get(db.switch_info[nodes])
    nodes, caps = nodes[able & (caps > 0)], caps[able & (caps > 0)]
    old = db.switch_info[nodes]
    new = old.copy()
    SwitchInfo.mcast_fdb_top.set(new, top_of(highest, caps) if wanted else 0)
    SwitchInfo.port_state_change.set(new, 0)  # writing 1 would clear the bit before it is read
    rows = np.flatnonzero(SwitchInfo.mcast_fdb_top.get(new) != SwitchInfo.mcast_fdb_top.get(old))
    SwitchInfo.mcast_fdb_top.set(
        db.switch_info, SwitchInfo.mcast_fdb_top.get(new[rows]), nodes[rows]
    )  # if the Set is lost, the content of the switch is unknown
    queue.set(SmpAttr.SWITCH_INFO, db.port_route[db.node_base[nodes[rows]]], nodes[rows], 0, new[rows])


def queue_lft_tops(db: Database, queue: RequestQueue, graph: SwitchGraph, life_time: int) -> None:
    """Queue a Set(SwitchInfo) for each switch whose LinearFDBTop or LifeTimeValue differs from its
    target, or whose PortStateChange must be cleared."""
    nodes = graph.switch_node
    old = db.switch_info[nodes]
    wanted = old.copy()
    SwitchInfo.linear_fdb_top.set(wanted, graph.max_lid)
    SwitchInfo.life_time_value.set(wanted, life_time)
    change = (wanted != old).any(axis=1) | (SwitchInfo.port_state_change.get(old) > 0)
    rows = np.flatnonzero(change)
    queue.set(SmpAttr.SWITCH_INFO, db.port_route[db.node_base[nodes[rows]]], nodes[rows], 0, wanted[rows])
