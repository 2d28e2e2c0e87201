"""The subnet after a finished sweep, as columns from which records are built.

``end`` is a row of the end ports, ascending by LID, followed by virtual ports; ``port`` and ``node`` are rows of
the manager's database.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

import numpy as np

from softib.iba.constants import LID_UCAST_MAX, NodeType
from softib.iba.rates import LANES_BY_BIT
from softib.iba.smp import PortInfo
from softib.ragged import spread
from softib.routing.engine import Routing
from softib.routing.graph import SwitchGraph
from softib.sm.config import SmConfig
from softib.sm.database import Database
from softib.sm.managers.router_mgr import RouterTables

__all__ = ["RATE_GBPS", "Subnet", "rate_codes"]

RATE_GBPS = {
    2: 2.5,
    5: 5,
    3: 10,
    11: 14,
    6: 20,
    15: 25,
    19: 28,
    4: 30,
    7: 40,
    20: 50,
    12: 56,
    8: 60,
    9: 80,
    16: 100,
    13: 112,
    10: 120,
    14: 168,
    17: 200,
    18: 300,
    21: 400,
    22: 600,
    23: 800,
    24: 1200,
}
"""Rate codes of PathRecord and MCMemberRecord → nominal Gb/s, slowest first (IBA 15.2.5.16; codes
23 and 24 are from Linux' ``ib_verbs.h``). A larger code is not always a faster rate."""


def _by_code(size: int, values: Mapping[int, float]) -> np.ndarray:
    table = np.zeros(size)
    table[list(values)] = list(values.values())
    return table


_LANES = _by_code(256, LANES_BY_BIT)
_LANE_GBPS = _by_code(16, {1: 2.5, 2: 5.0, 4: 10.0})
_LANE_GBPS_EXT = _by_code(16, {1: 14.0, 2: 25.0, 4: 50.0, 8: 100.0})
_LANE_GBPS_EXT2 = _by_code(4, {1: 200.0, 2: 400.0})
RATE_RANK = _by_code(64, {code: rank for rank, code in enumerate(RATE_GBPS, 1)}).astype(np.uint8)
"""uint8[64]: rank of a rate code from slow to fast, 0 for undefined codes."""
RATE_OF_RANK = np.array([0, *RATE_GBPS], np.uint8)


def rate_codes(port_info: np.ndarray) -> np.ndarray:
    """Return the rate code of each port from its active width and speed (uint8[n, 64] → uint8[n]);
    2.5 Gb/s if they are unset.

    If a rate has no code (an XDR link with 12 lanes), the code of the fastest slower rate is used.
    """
    lane = np.maximum(
        _LANE_GBPS[PortInfo.link_speed_active.get(port_info)],
        _LANE_GBPS_EXT[PortInfo.link_speed_ext_active.get(port_info)],
    )
    lane = np.maximum(lane, _LANE_GBPS_EXT2[PortInfo.link_speed_ext2_active.get(port_info)])
    gbps = _LANES[PortInfo.link_width_active.get(port_info)] * lane
    rank = np.searchsorted(np.array(list(RATE_GBPS.values())), gbps, side="right")
    return RATE_OF_RANK[np.maximum(rank, 1)]


class Subnet:
    """Read-only columns over a database, its graph and its routing."""

    def __init__(self, db: Database, graph: SwitchGraph, routing: Routing, config: SmConfig):
        self.db, self.graph, self.routing, self.config = db, graph, routing, config
        ends = db.end_ports()
        self.end_port = ends[np.argsort(db.port_lid[ends], kind="stable")]
        self.end_lid = db.port_lid[self.end_port].astype(np.int64)
        self.end_lmc = db.port_lmc[self.end_port].astype(np.int64)
        self.end_guid = db.port_guid[self.end_port]
        self.physical = len(ends)
        """Number of ends that are physical ports. The ends after them are virtual ports. These have
        a GUID, partitions and possibly a LID, and belong to the port of another end."""
        self._add_vports()
        self.end_node = db.port_node[self.end_port]
        self.alias_guid = self.alias_owner = np.zeros(0, np.uint64)
        """Alias GUIDs in ascending order, and the PortGUID of each."""
        self.router_tables = RouterTables()
        """The subnets reported by routers."""

    def _add_vports(self) -> None:
        vports = self.db.vports
        ports, lids = vports.ports(self.db), vports.lids_in_use(self.db)
        rows = np.flatnonzero((ports >= 0) & (lids > 0) & (vports.index > 0))
        rows = rows[np.lexsort((vports.index[rows], lids[rows]))]
        has_lid = vports.lid[rows] > 0
        self.owns_lid = np.concatenate([np.ones(self.physical, bool), has_lid])
        """bool[ends]: whether no other end has the LIDs of this end."""
        if not len(rows):
            return
        shared = np.where(lids[rows] == self.db.port_lid[ports[rows]], self.db.port_lmc[ports[rows]], 0)
        self.end_port = np.concatenate([self.end_port, ports[rows]])
        self.end_lid = np.concatenate([self.end_lid, lids[rows]])
        self.end_lmc = np.concatenate([self.end_lmc, shared.astype(np.int64)])
        self.end_guid = np.concatenate([self.end_guid, vports.guid[rows]])

    def __len__(self) -> int:
        return len(self.end_port)

    @cached_property
    def end_of_lid(self) -> np.ndarray:
        """int32[LIDs]: the end that has each LID, -1: unassigned."""
        owner = np.full(1 << 16, -1, np.int32)
        size = np.where(self.owns_lid, 1 << self.end_lmc, 0)
        end, offset = spread(size)
        lid = self.end_lid[end] + offset
        inside = lid <= LID_UCAST_MAX
        owner[lid[inside]] = end[inside]
        owner[0] = -1
        return owner

    @cached_property
    def _by_guid(self) -> tuple[np.ndarray, np.ndarray]:
        order = np.argsort(self.end_guid, kind="stable")
        return order, self.end_guid[order]

    def ends_of_guid(self, guid: np.ndarray) -> np.ndarray:
        """Return int64[n]: the end of each PortGUID or alias GUID, -1 if there is none."""
        order, sorted_guid = self._by_guid
        if not len(order):
            return np.full(len(guid), -1)
        if len(self.alias_guid):
            row = np.minimum(np.searchsorted(self.alias_guid, guid), len(self.alias_guid) - 1)
            guid = np.where(self.alias_guid[row] == guid, self.alias_owner[row], guid)
        at = np.minimum(np.searchsorted(sorted_guid, guid), len(order) - 1)
        return np.where((sorted_guid[at] == guid) & (guid != 0), order[at], -1)

    def ends_of_gid(self, gid: np.ndarray) -> np.ndarray:
        """Return the end of each GID (uint64[n, 2]) of this subnet, -1 if there is none."""
        here = (gid[:, 0] == np.uint64(self.config.subnet_prefix)) | (gid[:, 0] == np.uint64(LINK_LOCAL))
        return np.where(here, self.ends_of_guid(gid[:, 1]), -1)

    @cached_property
    def routers(self) -> np.ndarray:
        """The ends of router ports, ascending by LID."""
        kind = self.db.node_type[self.db.port_node[self.end_port]]
        ends = np.flatnonzero(kind == NodeType.ROUTER)
        return ends[np.argsort(self.end_lid[ends], kind="stable")]

    def is_off_subnet(self, gid: np.ndarray) -> np.ndarray:
        """Return bool[n]: whether each unicast GID (uint64[n, 2]) belongs to another subnet (IBA
        4.1.1), because its prefix is neither that of this subnet nor link-local."""
        prefix = gid[:, 0]
        multicast = (prefix >> np.uint64(56)) == np.uint64(0xFF)
        here = (prefix == np.uint64(self.config.subnet_prefix)) | (prefix == np.uint64(LINK_LOCAL))
        return ~here & ~multicast & (prefix != 0)

    def routers_of_gid(self, gid: np.ndarray) -> np.ndarray:
        """Return the end of the router that leads to each GID of another subnet; -1 if no router
        does. Destinations are distributed among the routers that report the subnet, or if there are
        none, among routers that report no subnet at all. The router for a GID is always the
        same."""
        ends = np.full(len(gid), -1)
        for prefix in np.unique(gid[:, 0]).tolist():
            routers = self._routers_to(prefix)
            rows = np.flatnonzero(gid[:, 0] == np.uint64(prefix))
            if len(routers):
                ends[rows] = routers[((gid[rows, 0] ^ gid[rows, 1]) % np.uint64(len(routers))).astype(np.int64)]
        return ends

    def _routers_to(self, prefix: int) -> np.ndarray:
        """Return the ends of the routers that may lead to the subnet. Configured prefix routes take
        precedence over the subnets that routers report."""
        if self.config.prefix_routes is not None:
            route = next((r for r in self.config.prefix_routes if r.prefix in (None, prefix)), None)
            if route is None:
                return self.routers[:0]
            if route.guid is not None:
                return self.routers[self.end_guid[self.routers] == np.uint64(route.guid)]
        named = [self.router_tables.prefixes(int(guid)) for guid in self.end_guid[self.routers]]
        leading = self.routers[np.array([prefix in prefixes for prefixes in named], bool)]
        return leading if len(leading) else self.routers[np.array([not prefixes for prefixes in named], bool)]

    @cached_property
    def lid_of_port(self) -> np.ndarray:
        """int64[ports]: LID of each port's end port (of a switch: its port 0), 0 if there is none."""
        db = self.db
        base = np.where(db.external, db.node_base[db.port_node], np.arange(db.n_ports))
        lid = np.zeros(db.n_ports, np.int64)
        lid[self.end_port[: self.physical]] = self.end_lid[: self.physical]
        return lid[base]

    @cached_property
    def ports_with_info(self) -> np.ndarray:
        """Ports whose PortInfo is known and whose end port has a LID, ascending by LID and portnum."""
        db = self.db
        rows = np.flatnonzero(db.has_port_info & (self.lid_of_port > 0))
        return rows[np.lexsort((db.port_num[rows], self.lid_of_port[rows]))]

    @cached_property
    def switch_rows(self) -> np.ndarray:
        """Rows of the graph's switches, ascending by their LID."""
        return np.argsort(self.switch_lid, kind="stable")

    @cached_property
    def switch_lid(self) -> np.ndarray:
        """int64[switches of the graph]"""
        return self.lid_of_port[self.db.node_base[self.graph.switch_node]]

    @cached_property
    def switch_of_node(self) -> np.ndarray:
        """int32[nodes]: row in the graph, -1 for a CA."""
        rows = np.full(self.db.n_nodes, -1, np.int32)
        rows[self.graph.switch_node] = np.arange(self.graph.n_switches, dtype=np.int32)
        return rows

    @cached_property
    def mtu(self) -> np.ndarray:
        """uint8[ports]: MTUCap."""
        return PortInfo.mtu_cap.get(self.db.port_info)

    @cached_property
    def rate_rank(self) -> np.ndarray:
        """uint8[ports]: rank of the port's rate, from slow to fast."""
        return RATE_RANK[rate_codes(self.db.port_info)]

    @cached_property
    def graph_end(self) -> np.ndarray:
        """int64[ends]: row of the end among the graph's end ports (-1: not attached to a switch)."""
        lids = self.graph.end_lid.astype(np.int64)
        if not len(lids):
            return np.full(len(self), -1)
        at = np.minimum(np.searchsorted(lids, self.end_lid), len(lids) - 1)
        return np.where(lids[at] == self.end_lid, at, -1)

    @cached_property
    def path_sl_row(self) -> np.ndarray:
        """int64[ends]: row of ``routing.path_sl`` for paths from each end: its switch, or 0 if one
        row applies to all."""
        table = self.routing.path_sl
        if table is None or len(table) == 1 or not len(self.graph.end_switch):
            return np.zeros(len(self), np.int64)
        return self.graph.end_switch[self.graph_end].astype(np.int64)


LINK_LOCAL = 0xFE80000000000000
