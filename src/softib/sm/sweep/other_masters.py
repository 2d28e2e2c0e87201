"""Where another manager may have written since the sweep before: on nodes that were away, and on
ports that name another master.

A subnet that falls apart has a master in each part (IBA 14.4.1). When the parts meet again and one
of them has died, nothing but its traces tells of it: a switch that was cut off may hold its tables
under the LinearFDBTop of ours, and end ports have its LID as MasterSMLID.
"""

from __future__ import annotations

import numpy as np

from softib.iba.smp import PortInfo
from softib.sm.database import Database

__all__ = ["named_masters", "returned"]


def returned(before: Database, db: Database) -> np.ndarray:
    """Nodes (rows of ``db``) that the sweep before did not find."""
    away: np.ndarray = np.flatnonzero(~np.isin(db.node_guid, before.node_guid))
    return away


def named_masters(before: Database, db: Database) -> list[int]:
    """LIDs that end ports name as their master's, who named this manager in the sweep before; empty
    where none does."""
    local_lid = int(before.port_lid[before.sm_port]) if before.sm_port >= 0 else 0
    ours = PortInfo.master_sm_lid.get(before.port_info) == local_lid
    ends, old = db.end_ports(), before.end_ports()
    named = PortInfo.master_sm_lid.get(db.port_info[ends]).astype(np.int64)
    followed = np.isin(db.port_guid[ends], before.port_guid[old[ours[old]]])
    other = db.has_port_info[ends] & followed & (named != 0) & (named != local_lid)
    return sorted(set(named[other].tolist()))
