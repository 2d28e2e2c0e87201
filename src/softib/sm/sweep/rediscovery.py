"""Incremental discovery: read the switches that changed, and keep the rest of the last sweep's
database (IBA 14.4.3).

All ports of a switch are read if it reported PortStateChange, or if a trap named it. A cable counts
as unchanged if its port was ACTIVE and still is. Devices at the other end of all other ports that
are up are read again. The switch at the other end of a removed cable is read too, because its trap
may have been lost with the cable.

A directed route may use the cable that failed. So before a node is read, the ports on its route are
read, beginning at the manager, unless this sweep has already shown that they are unchanged.
Requests thus use only routes that are known to work, and none has to wait for its timeout. When a
cable is removed, the routes are computed again. Nodes that cannot be reached are removed.

A contradiction sets ``distrusted``, and the manager then discovers the whole subnet. Contradictions
are: one NodeGUID in two locations, a route that fails while it is read, and a port of the manager
that is not ACTIVE.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from softib.iba.constants import LID_UCAST_MAX, PortState, SmpAttr
from softib.iba.smp import NodeInfo, PortInfo
from softib.mad.smp_requests import RequestQueue
from softib.sm.config import SmConfig
from softib.sm.database import Database
from softib.sm.sweep.discovery import Discovery
from softib.sm.sweep.report import SweepReport

__all__ = ["Rediscovery", "Resume", "reroute"]


UNREACHABLE, PROVED = -1, -2


@dataclass
class Resume:
    """The start of an incremental sweep: the database of the last sweep, which is not changed, and
    the NodeGUIDs to read."""

    database: Database
    suspects: set[int] = field(default_factory=set)


class Rediscovery(Discovery):
    """``db`` is a copy of the last sweep's database, and is changed. ``suspects``: NodeGUIDs of the
    nodes to read. Devices that did not answer all requests of the last sweep are read too."""

    def __init__(self, db: Database, queue: RequestQueue, report: SweepReport, config: SmConfig, suspects: set[int]):
        super().__init__(db, queue, report, config, managed=db.node_guid.copy())
        self.distrusted = False
        self._forget_mute()
        nodes = (db.node_of(guid) for guid in sorted(suspects))
        self._left = {node: True for node in nodes if node >= 0}
        """Nodes to read; a dict used as an ordered set."""
        unread = db.external & ~db.has_port_info
        self._left |= dict.fromkeys(np.unique(db.port_node[unread]).tolist(), True)
        self._known = db.n_nodes
        self._queried: set[int] = set()
        up = db.external & (db.port_state() >= PortState.INIT) & (db.port_peer < 0)
        self._silent = np.flatnonzero(up).tolist()
        """Ports that are up but have no answering device."""
        self._proved: set[int] = set()
        self._checking: set[int] = set()
        self._described: set[int] = set()
        self._rerouted = False
        self._via = np.zeros(0, np.int32)

    def start(self) -> None:
        """Read the manager's own port, and the first suspects."""
        db = self.db
        self._lids = int((1 << db.port_lmc[db.end_ports()].astype(np.int64)).sum())
        self._proved.add(db.sm_port)
        rows = np.array([db.sm_port])
        self.queue.get(SmpAttr.PORT_INFO, db.port_route[rows], rows, db.port_modifier(rows))
        self._go_on()

    def handle(self, attr: int, tags: np.ndarray, data: np.ndarray) -> None:
        """Handle answers as a full discovery does. Then send the requests that have become
        possible."""
        super().handle(attr, tags, data)
        self._go_on()

    def lost(self, attr: int, tags: np.ndarray, why: str) -> None:
        """Handle a request without an answer: from a port on a known route, or from a node whose route is proven to
        work. This contradicts the last sweep."""
        if attr == SmpAttr.PORT_INFO and not self._over and self._checking.intersection(tags.tolist()):
            self.distrusted = True
        super().lost(attr, tags, why)

    def _forget_mute(self) -> None:
        """Remove the nodes and CA ports that the last sweep could not read from the database."""
        db = self.db
        db.port_probed[:] = False
        if not db.node_ok.all():
            db.drop_nodes(~db.node_ok)
        self._forget_ends(np.flatnonzero(~db.is_switch[db.port_node] & ~db.has_port_info))

    def _forget_ends(self, ends: np.ndarray) -> None:
        db = self.db
        db.has_port_info[ends] = False
        db.port_info[ends], db.port_guid[ends], db.port_route[ends] = 0, 0, -1
        db.port_lid[ends] = db.port_lmc[ends] = 0

    def _count_lids(self, count: int) -> None:
        self._lids += count
        # this counts ports that left too, so a full discovery must decide
        self.distrusted |= self._lids > LID_UCAST_MAX

    # -- the next requests --

    def _suspect(self, nodes: np.ndarray) -> None:
        for node in nodes.tolist():
            if node not in self._queried:
                self._left[node] = True

    def _go_on(self) -> None:
        """Read every node whose route is known to work, and on every other route the first port
        that is not checked yet."""
        if not self._left and not self._silent:
            return
        db, ask, check = self.db, [], {}
        if not self._rerouted:
            self._via, self._rerouted = reroute(db), True
            self.mkeys.fill(db)
        for node in list(self._left):
            port = self._unproved(node)
            if port == PROVED:
                del self._left[node]
                ask.append(node)
            elif port >= 0:
                check[port] = True
        for place in list(self._silent):
            port = self._unproved(int(db.port_node[place]))
            if port == PROVED:
                self._silent.remove(place)
                self._ask_silent(place)
            elif port >= 0:
                check[port] = True
        self._ask(np.array(ask, np.int64))
        rows = np.array([p for p in check if p not in self._checking], np.int64)
        self._checking.update(rows.tolist())
        self.queue.get(SmpAttr.PORT_INFO, db.port_route[rows], rows, db.port_modifier(rows))

    def _unproved(self, node: int) -> int:
        """Return the port on the route to ``node`` that is not checked yet and is nearest to the
        manager. Return PROVED if there is none, or UNREACHABLE if no cable leads to the node."""
        nearest, owner = PROVED, self.db.port_node
        while (port := int(self._via[node]) if node < len(self._via) else -1) >= 0:
            if port not in self._proved:
                nearest = port
            node = int(owner[port])
        return nearest if port == -2 else UNREACHABLE

    def _ask(self, nodes: np.ndarray) -> None:
        db = self.db
        self._queried.update(nodes.tolist())
        switches = nodes[db.is_switch[nodes]]
        db.has_switch_info[switches] = False
        zero = db.node_base[switches]
        self.queue.get(SmpAttr.SWITCH_INFO, db.port_route[zero], switches)
        self.queue.get(SmpAttr.PORT_INFO, db.port_route[zero], zero, db.port_modifier(zero))
        self._describe(nodes)
        for node in nodes[~db.is_switch[nodes]].tolist():
            first = int(db.node_base[node]) + 1
            ports = np.arange(first, first + int(db.node_nports[node]))
            ports = ports[db.port_route[ports] >= 0]
            self.queue.get(SmpAttr.PORT_INFO, db.port_route[ports], ports, db.port_modifier(ports))
            behind = db.port_peer[ports]
            behind = behind[(behind >= 0) & ~db.port_probed[np.maximum(behind, 0)]]
            self._probe(behind)

    def _ask_silent(self, port: int) -> None:
        db = self.db
        if db.port_state()[port] >= PortState.INIT and db.port_peer[port] < 0 and not db.port_probed[port]:
            self._probe(np.array([port]))

    def _describe(self, nodes: np.ndarray) -> None:
        nodes = np.array([n for n in nodes.tolist() if n not in self._described], np.int64)
        self._described.update(nodes.tolist())
        self.queue.get(SmpAttr.NODE_DESC, self.db.node_route[nodes], nodes)

    # -- answers --

    def _port_info(self, tags: np.ndarray, data: np.ndarray) -> None:
        db = self.db
        state = PortInfo.port_state.get(data)
        active = state == PortState.ACTIVE
        if db.sm_port in tags:
            self.distrusted |= not bool(active[tags == db.sm_port].all())
        same = db.has_port_info[tags] & active & (db.port_state(tags) == PortState.ACTIVE)
        db.port_info[tags], db.has_port_info[tags] = data, True
        self._port0_known(tags)
        external = db.are_external(tags)
        as_before = tags[same & external & (db.port_peer[tags] >= 0)]
        self._proved.update(as_before.tolist())
        changed = tags[external & ~same & (db.port_peer[tags] >= 0) & ~db.port_probed[tags]]
        self._cut(changed)
        self._suspect(np.unique(db.port_node[changed]))
        up = external & (state >= PortState.INIT) & (db.port_peer[tags] < 0)
        self._probe(tags[up & ~db.port_probed[tags]])

    def _cut(self, ports: np.ndarray) -> None:
        """Record that the device at each of ``ports`` may have been removed or exchanged."""
        if not len(ports):
            return
        db = self.db
        self._rerouted = False
        peers = db.port_peer[ports]
        db.port_peer[ports] = -1
        self.distrusted |= bool((peers == db.sm_port).any())
        peers = peers[~db.port_probed[peers]]
        db.port_peer[peers[np.isin(db.port_peer[peers], ports)]] = -1
        switch = db.is_switch[db.port_node[peers]]
        self._suspect(np.unique(db.port_node[peers[switch]]))
        self._forget_ends(peers[~switch])

    def _enter(self, tags: np.ndarray, info: np.ndarray, nodes: np.ndarray) -> None:
        db = self.db
        port = db.node_base[nodes] + NodeInfo.local_port_num.get(info)
        before = db.port_peer[tags]
        super()._enter(tags, info, nodes)
        cabled = db.port_peer[tags] == port
        self._proved.update(tags[cabled].tolist())
        if (before != db.port_peer[tags]).any():
            self._rerouted = False
        repeated = np.flatnonzero(cabled & (nodes < self._known))
        if not len(repeated):
            return
        db.refresh_nodes(nodes[repeated], info[repeated])
        switch = db.is_switch[nodes[repeated]]
        self._suspect(np.unique(nodes[repeated][switch]))
        ends = nodes[repeated][~switch]
        db.node_route[ends] = db.port_route[port[repeated][~switch]]
        self._describe(np.unique(ends))

    # -- the end --

    def finish(self) -> None:
        """Do the same final steps as a full discovery."""
        super().finish()
        self.distrusted |= self.db.sm_port < 0 or bool(self.report.duplicates)

    def _leave_out(self) -> None:
        """Remove unreachable nodes, and renumber the rows in the report."""
        db, report = self.db, self.report
        removed = reroute(db) == UNREACHABLE
        self.mkeys.fill(db)
        if not removed.any():
            return
        node_row, port_row = db.drop_nodes(removed)
        report.silent_ports[:] = [(int(port_row[p]), why) for p, why in report.silent_ports if port_row[p] >= 0]
        report.mute_ports[:] = [(int(port_row[p]), why) for p, why in report.mute_ports if port_row[p] >= 0]
        report.mute_nodes[:] = [(int(node_row[n]), a, why) for n, a, why in report.mute_nodes if node_row[n] >= 0]


def reroute(db: Database) -> np.ndarray:
    """Give every node and port that can be reached over known cables the shortest directed route
    (IBA 14.2.2) from the manager's port. No request is sent.

    Routes are added, never changed: outstanding requests keep their routes, and nodes that cannot
    be reached keep their last one. Returns int32[nodes]: the ingress port (row) of a node; -2 for
    the manager's own node, -1 for a node that cannot be reached. ``db.sm_port`` must be known.
    """
    peer, port_node, switch = db.port_peer, db.port_node, db.is_switch
    via = np.full(db.n_nodes, -1, np.int32)
    home = int(port_node[db.sm_port])
    via[home] = -2
    cabled = np.flatnonzero(
        (peer >= 0) & ((db.port_num > 0) & switch[port_node] | (np.arange(db.n_ports) == db.sm_port))
    )
    from_node, to_node = port_node[cabled], port_node[peer[cabled]]
    level = np.zeros(db.n_nodes, bool)
    level[home] = True
    route = np.full(db.n_nodes, -1, np.int32)
    route[home] = db.routes.add_local()
    while level.any():
        fresh = np.flatnonzero(level[from_node] & (via[to_node] == -1))
        nodes, first = np.unique(to_node[fresh], return_index=True)
        rows = cabled[fresh[first]]
        via[nodes] = rows
        route[nodes] = db.routes.extend(route[port_node[rows]], db.port_num[rows])
        level[:] = False
        level[nodes[switch[nodes]]] = True
    reached = route >= 0
    db.node_route[reached] = route[reached]
    on_switch = switch[port_node] & reached[port_node]
    db.port_route[on_switch] = route[port_node[on_switch]]
    # Each port of a CA has a separate route; the route to the manager's own port has no hops.
    into_ca = cabled[~switch[to_node] & reached[from_node] & (peer[cabled] != db.sm_port)]
    entered_here = via[port_node[peer[into_ca]]] == into_ca
    db.port_route[peer[into_ca[entered_here]]] = route[port_node[peer[into_ca[entered_here]]]]
    other = into_ca[~entered_here]
    db.port_route[peer[other]] = db.routes.extend(route[port_node[other]], db.port_num[other])
    if not switch[home]:
        db.port_route[db.sm_port] = route[home]
    return via
