"""The manager's table of virtual ports, as columns with one row for each virtual port in use. Its
rows are in addition to the ports of :class:`~softib.sm.database.Database`.

A row is identified by the PortGUID of the physical port and the index, so it stays valid when rows
of ports change. Index 0 is the physical function, which is the port itself: it has a row, but
neither LID nor GUID.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from softib.iba.constants import LFT_NO_ROUTE, LID_UCAST_MAX
from softib.iba.vendor.vports import VNodeInfo, VPortInfo

if TYPE_CHECKING:
    from softib.routing.engine import Routing
    from softib.routing.graph import SwitchGraph
    from softib.sm.database import Database

__all__ = ["VPortTable", "with_vports"]


_COLUMNS = {
    "owner": (np.uint64, ()),
    "index": (np.uint16, ()),
    "info": (np.uint8, (64,)),
    "vnode": (np.uint8, (64,)),
    "lid": (np.uint16, ()),
}


class VPortTable:
    """``owner`` uint64[n] is the PortGUID of the physical port, ``index`` uint16[n] the index.
    ``info`` and ``vnode`` uint8[n, 64] are VPortInfo and VNodeInfo as last read. ``lid`` uint16[n]
    is the assigned LID (0: the LID of the physical port). ``heads``: PortGUID → VirtualizationInfo
    (uint8[64])."""

    owner: np.ndarray
    index: np.ndarray
    info: np.ndarray
    vnode: np.ndarray
    lid: np.ndarray

    def __init__(self) -> None:
        self.heads: dict[int, np.ndarray] = {}
        for name, (dtype, tail) in _COLUMNS.items():
            setattr(self, name, np.zeros((0, *tail), dtype))

    def __len__(self) -> int:
        return len(self.owner)

    @property
    def guid(self) -> np.ndarray:
        """uint64[n]: VPortGUID."""
        return np.asarray(VPortInfo.vport_guid.get(self.info))

    @property
    def state(self) -> np.ndarray:
        """uint8[n]: VPortState as last read."""
        return np.asarray(VPortInfo.vport_state.get(self.info))

    @property
    def requires_lid(self) -> np.ndarray:
        """Return bool[n]: whether the subnet manager assigns a LID to the virtual port."""
        return np.asarray(VPortInfo.lid_required.get(self.info) > 0) & (self.index > 0)

    @property
    def pkey_blocks(self) -> np.ndarray:
        """int64[n]: number of blocks of VPortPKeyTable; at least one."""
        return np.maximum(1, -(-VNodeInfo.partition_cap.get(self.vnode).astype(np.int64) // 32))

    def copy(self) -> VPortTable:
        """Return a copy that shares no arrays with this table."""
        out = self.take(np.ones(len(self), bool))
        out.heads = dict(self.heads)
        return out

    def take(self, rows: np.ndarray) -> VPortTable:
        """Return a table of these rows, without heads."""
        out = VPortTable()
        for name in _COLUMNS:
            setattr(out, name, getattr(self, name)[rows].copy())
        return out

    def keep(self, rows: np.ndarray) -> None:
        """Keep only these rows (bool[n])."""
        for name in _COLUMNS:
            setattr(self, name, getattr(self, name)[rows])

    def forget(self, owners: set[int]) -> None:
        """Remove ports (PortGUIDs) that must be read again, or that left the subnet."""
        if owners:
            self.keep(~np.isin(self.owner, np.array(sorted(owners), np.uint64)))
            for guid in owners:
                self.heads.pop(guid, None)

    def add(self, owner: np.ndarray, index: np.ndarray) -> np.ndarray:
        """Add rows, and return them."""
        first, n = len(self), len(owner)
        for name, (dtype, tail) in _COLUMNS.items():
            setattr(self, name, np.concatenate([getattr(self, name), np.zeros((n, *tail), dtype)]))
        self.owner[first:], self.index[first:] = owner, index
        return np.arange(first, first + n)

    def ports(self, db: Database) -> np.ndarray:
        """Return int64[n]: the row of each virtual port's physical port; -1 if that port is absent
        or has no LID."""
        ends = db.end_ports() if len(self) else np.zeros(0, np.int64)
        if not len(ends):
            return np.full(len(self), -1)
        ends = ends[np.argsort(db.port_guid[ends], kind="stable")]
        at = np.minimum(np.searchsorted(db.port_guid[ends], self.owner), len(ends) - 1)
        return np.where(db.port_guid[ends[at]] == self.owner, ends[at], -1)

    def assign(self, db: Database, lids: dict[int, tuple[int, int]]) -> int:
        """Fill ``lid`` of the virtual ports that require one: the LID that is stored for the GUID,
        otherwise the LID that the virtual port has, otherwise the lowest free LID. ``lids`` is
        updated. Returns the number of virtual ports for which no LID was left."""
        ports = self.ports(db)
        wants = np.flatnonzero(self.requires_lid & (ports >= 0))
        self.lid[:] = 0
        if not len(wants):
            return 0
        used = np.zeros(LID_UCAST_MAX + 1, bool)
        used[0] = True
        ends = db.end_ports()
        for first, lmc in zip(db.port_lid[ends].tolist(), db.port_lmc[ends].tolist(), strict=True):
            used[first : first + (1 << lmc)] = True
        guids, held = self.guid[wants].tolist(), VPortInfo.vport_lid.get(self.info[wants]).tolist()
        for row, guid, now in zip(wants.tolist(), guids, held, strict=True):
            for lid in (lids.get(guid, (0, 0))[0], now):
                if 0 < lid <= LID_UCAST_MAX and not used[lid] and not self.lid[row]:
                    self.lid[row], used[lid] = lid, True
        away = np.zeros_like(used)
        here = set(guids)
        for guid, (first, last) in lids.items():
            if guid not in here:
                away[first : last + 1] = True
        open_ = wants[self.lid[wants] == 0]
        free = np.concatenate([np.flatnonzero(~used & ~away), np.flatnonzero(~used & away)])[: len(open_)]
        self.lid[open_[: len(free)]] = free
        for row in wants.tolist():
            if lid := int(self.lid[row]):
                lids[int(self.guid[row])] = (lid, lid)
        return len(open_) - len(free)

    def lids_in_use(self, db: Database) -> np.ndarray:
        """Return int64[n]: the LID by which each virtual port is reached; 0 if its physical port is
        absent. It is its own LID, that of another index to which it refers, or that of the physical
        port (NVIDIA's ``osm_vport_calc_lid``)."""
        ports = self.ports(db)
        base = np.where(ports >= 0, db.port_lid[ports], 0).astype(np.int64)
        by_place = {
            place: lid
            for *place_, lid in zip(self.owner.tolist(), self.index.tolist(), self.lid.tolist(), strict=True)
            if lid and (place := tuple(place_))
        }
        named = VPortInfo.lid_by_vport_index.get(self.info).tolist()
        other = np.array([by_place.get((o, i), 0) for o, i in zip(self.owner.tolist(), named, strict=True)], np.int64)
        return np.where(ports < 0, 0, np.where(self.lid > 0, self.lid, np.where(other > 0, other, base)))


def with_vports(db: Database, graph: SwitchGraph, routing: Routing) -> tuple[SwitchGraph, Routing]:
    """Return a graph and tables in which each LID of a virtual port has an additional end, a column
    and SLs. They equal those of the physical port's LID, for any engine, so proofs of the tables
    stay valid."""
    vports = db.vports
    ports = vports.ports(db)
    rows = np.flatnonzero((vports.lid > 0) & (ports >= 0))
    base = db.port_lid[ports[rows]]
    if not len(rows) or not len(graph.end_lid):
        return graph, routing
    end = np.minimum(np.searchsorted(graph.end_lid, base), len(graph.end_lid) - 1)
    routed = graph.end_lid[end] == base
    rows, base, end = rows[routed], base[routed], end[routed]
    lid = np.concatenate([graph.end_lid, vports.lid[rows]])
    order = np.argsort(lid, kind="stable")
    source = np.concatenate([np.arange(len(graph.end_lid)), end])[order]
    joined = lambda held, theirs: np.concatenate([held, np.asarray(theirs, held.dtype)])[order]
    zeros = np.zeros(len(rows), bool)
    wide = replace(
        graph,
        end_lid=lid[order],
        end_lmc=joined(graph.end_lmc, zeros),
        end_switch=graph.end_switch[source],
        end_port=graph.end_port[source],
        end_is_switch=graph.end_is_switch[source],
        end_guid=joined(graph.end_guid, vports.guid[rows]),
        end_node=graph.end_node[source],
        end_portnum=graph.end_portnum[source],
        end_is_compute=joined(graph.end_is_compute, zeros),
        max_lid=max(graph.max_lid, int(vports.lid[rows].max(initial=0))),
    )
    lft = np.full((len(routing.lft), wide.lft_size), LFT_NO_ROUTE, np.uint8)
    lft[:, : routing.lft.shape[1]] = routing.lft
    lft[:, vports.lid[rows]] = routing.lft[:, base]
    path_sl = None if routing.path_sl is None else np.ascontiguousarray(routing.path_sl[:, source])
    return wide, replace(routing, lft=lft, path_sl=path_sl)
