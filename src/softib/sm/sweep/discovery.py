"""The directed-route sweep (IBA 14.4.3): the nodes, and the cables between ports.

NodeInfo requests are sent through every port that is up, at both ends of a cable. The other
attributes of a new node (NodeDescription, SwitchInfo, then PortInfo of each port) are read as soon
as its NodeInfo arrives, before all nodes at the same distance are known.

A switch raises trap 128 only when PortStateChange changes from 0 to 1 (IBA 14.2.5.4). So a master
clears this bit of a switch that it manages before it reads the switch's ports; a later change then
sets the bit and raises the trap again. A new switch may belong to another master. So its bit is
cleared only after the sweep has searched for other managers (phase ``tops``), and its ports are
then read again. A cable exists if both ends name each other; one end is enough if the request at
the other end was lost. In all other cases, there is a second device with the same NodeGUID, which
is reported and ignored. No request is sent through such a device, so the sweep ends after every
port of every distinct GUID was read once.
"""

from __future__ import annotations

import numpy as np

from softib.errors import LimitError
from softib.iba.constants import LID_UCAST_MAX, MAX_HOPS, NodeType, PortState, SmpAttr
from softib.iba.smp import NodeInfo, PortInfo, SwitchInfo
from softib.mad.smp_requests import RequestQueue
from softib.ragged import spread
from softib.sm.config import SmConfig
from softib.sm.database import Database
from softib.sm.managers.mkeys import MKeys
from softib.sm.sweep.report import SweepReport

__all__ = ["Discovery"]

LOCAL = -1
"""Tag of the first NodeInfo, which is not sent through a port."""
NOTHING = np.zeros(0, np.uint64)


class Discovery:
    """One sweep. It queues requests in ``queue``, handles answers by attribute, and fills the
    database.

    ``managed``: NodeGUIDs of the switches whose PortStateChange is cleared. These are only switches
    of this master, because traps to another master depend on the bit. When all other requests are
    answered, the phase does not wait for devices at the other end of links in INIT (``unawaited``
    is the number of these requests): such a device was never managed and may not answer. A device
    at the other end of a link that is ARMED or ACTIVE has answered some manager, so its requests
    get all retries.
    """

    def __init__(
        self, db: Database, queue: RequestQueue, report: SweepReport, config: SmConfig, managed: np.ndarray = NOTHING
    ):
        self.db, self.queue, self.report, self.config, self.managed = db, queue, report, config, managed
        self.mkeys = MKeys(config.mkey)
        self._keys_tried: dict[int, list[int]] = {}
        self._lids = 0
        self._over = False
        self.distrusted = False
        """Whether the discovery contradicts the last sweep. (Only
        :class:`~softib.sm.sweep.rediscovery.Rediscovery` uses this.)"""
        self._unawaited: set[int] = set()
        self._waiting: set[int] = set()
        """Switches whose external ports are read once PortInfo of port 0 has arrived."""
        self.answering: frozenset[tuple[int, int]] = frozenset()
        """(NodeGUID, portnum) at which a device answered recently. The phase waits for these
        devices."""
        self._handlers = {
            int(SmpAttr.NODE_INFO): self._node_info,
            int(SmpAttr.NODE_DESC): self._node_desc,
            int(SmpAttr.SWITCH_INFO): self._switch_info,
            int(SmpAttr.PORT_INFO): self._port_info,
        }

    def start(self) -> None:
        """Read the manager's own port."""
        route = self.db.routes.add_local()
        if self.mkeys.in_play:
            key = self.mkeys.of(np.array([self.mkeys.local_guid], np.uint64))
            self.db.routes.set_mkey(np.array([route]), key)
            self._keys_tried[LOCAL] = key.tolist()
        self.queue.get(SmpAttr.NODE_INFO, np.array([route], np.int32), np.array([LOCAL]))

    def handle(self, attr: int, tags: np.ndarray, data: np.ndarray) -> None:
        """Handle answers to one attribute: ``tags`` as sent, ``data`` uint8[n, 64].

        Raises :class:`LimitError` as soon as the subnet needs more LIDs than exist.
        """
        data = np.ascontiguousarray(data)  # many fields are read, and rows of MADs are 256 bytes apart
        self._handlers[attr](tags, data)
        if attr == SmpAttr.PORT_INFO:
            self.mkeys.learn(self.db, tags, data)

    @property
    def unawaited(self) -> int:
        """Number of requests through links in INIT that are not answered yet."""
        return len(self._unawaited)

    def leave_silent(self) -> None:
        """End the wait for these devices."""
        self._keys_tried.clear()
        self.lost(SmpAttr.NODE_INFO, np.array(sorted(self._unawaited), np.int64), "is not answered")

    def lost(self, attr: int, tags: np.ndarray, why: str) -> None:
        """Handle requests that were refused or not answered."""
        db = self.db
        if attr == SmpAttr.NODE_INFO:
            tags = self._with_other_keys(tags)
            self._unawaited.difference_update(tags.tolist())
            for port in tags.tolist():
                self.report.silent_ports.append((port, why))
        elif attr == SmpAttr.PORT_INFO:
            self.report.mute_ports.extend((p, why) for p in tags.tolist())
            self._port0_known(tags)
        else:
            self.report.mute_nodes.extend((n, SmpAttr(attr).name, why) for n in tags.tolist())
            if attr == SmpAttr.SWITCH_INFO:
                db.node_ok[tags] = False
                if not self._over:
                    self._ports_due(tags)

    # -- answers --

    def _node_info(self, tags: np.ndarray, info: np.ndarray) -> None:
        if self._unawaited:
            self._unawaited.difference_update(tags.tolist())
        good = self._plausible(tags, info)
        tags, info = tags[good], info[good]
        db = self.db
        self._keys_that_fit(tags, info)
        guid = NodeInfo.node_guid.get(info)
        nodes = db.nodes_of(guid)
        fresh = np.flatnonzero(nodes < 0)
        if len(fresh):
            _, first = np.unique(guid[fresh], return_index=True)
            fresh = fresh[np.sort(first)]
            added = db.add_nodes(info[fresh], self._routes_through(tags[fresh]))
            self.mkeys.enter(db.routes, db.node_route[added], NodeInfo.port_guid.get(info[fresh]))
            self._ask_about(added)
            nodes = db.nodes_of(guid)
        if db.sm_port < 0 and len(info):
            number = 0 if db.node_type[0] == NodeType.SWITCH else int(NodeInfo.local_port_num.get(info[0]))
            db.sm_port = int(db.node_base[0]) + number
        same = (NodeInfo.node_type.get(info) == db.node_type[nodes]) & (
            NodeInfo.num_ports.get(info) == db.node_nports[nodes]
        )
        self._duplicate(tags[~same], nodes[~same])
        self._enter(tags[same], info[same], nodes[same])

    def _plausible(self, tags: np.ndarray, info: np.ndarray) -> np.ndarray:
        node_type, nports = NodeInfo.node_type.get(info), NodeInfo.num_ports.get(info)
        bad = (
            (node_type < NodeType.CA)
            | (node_type > NodeType.ROUTER)
            | (nports == 0)
            | (nports == 255)
            | (NodeInfo.local_port_num.get(info) > nports)
            | (NodeInfo.node_guid.get(info) == 0)
            | ((node_type != NodeType.SWITCH) & (NodeInfo.local_port_num.get(info) == 0))
        )
        for port in tags[bad].tolist():
            self.report.silent_ports.append((port, "impossible NodeInfo"))
        return ~bad

    def _routes_through(self, tags: np.ndarray) -> np.ndarray:
        """Return routes to the devices at the other end of ``tags``, which are ports."""
        db = self.db
        if len(tags) and tags[0] == LOCAL:
            return np.zeros(len(tags), np.int32)
        return db.routes.extend(db.port_route[tags], db.port_num[tags])

    def _enter(self, tags: np.ndarray, info: np.ndarray, nodes: np.ndarray) -> None:
        """Record the port from which each answer came: its cable, and for a new CA port, the route
        to it."""
        db = self.db
        port = db.node_base[nodes] + NodeInfo.local_port_num.get(info)
        local = tags == LOCAL
        end = ~db.is_switch[nodes]
        self._enter_ends(tags, info, nodes, port, np.flatnonzero(end & (db.port_route[port] < 0)))
        tags, port, end, info = tags[~local], port[~local], end[~local], info[~local]
        # A CA port has one cable, so a second answer for it comes from another device with the same
        # GUID.
        twice = end & (db.port_guid[port] != NodeInfo.port_guid.get(info))
        order = np.arange(len(port))
        first_claim = np.full(len(port), -1)
        ends = np.flatnonzero(end & ~twice)
        _, firsts = np.unique(port[ends], return_index=True)
        first_claim[ends[firsts]] = ends[firsts]
        free = (db.port_peer[port] < 0) | (db.port_peer[port] == tags)
        twice |= end & ((first_claim != order) | ~free)
        self._duplicate(tags[twice], db.port_node[port[twice]])
        tags, port, end = tags[~twice], port[~twice], end[~twice]
        db.port_peer[tags] = port
        db.port_peer[port[end]] = tags[end]

    def _enter_ends(
        self, tags: np.ndarray, info: np.ndarray, nodes: np.ndarray, port: np.ndarray, new: np.ndarray
    ) -> None:
        """Add CA ports that are new (rows ``new`` of the answers): the route to them, and their
        PortInfo."""
        if not len(new):
            return
        db = self.db
        _, first = np.unique(port[new], return_index=True)
        new = new[np.sort(first)]
        rows, owners = port[new], nodes[new]
        # The answer that added the node used the node's own route; its other ports need separate
        # routes.
        _, first = np.unique(owners, return_index=True)
        by_node_route = np.zeros(len(new), bool)
        by_node_route[first] = True
        by_node_route &= ~db.node_entered[owners]
        db.node_entered[owners] = True
        route = db.node_route[owners]
        route[~by_node_route] = self._routes_through(tags[new[~by_node_route]])
        db.port_route[rows] = route
        db.port_guid[rows] = NodeInfo.port_guid.get(info[new])
        self.mkeys.enter(db.routes, route, db.port_guid[rows])
        self._count_lids(len(rows) << self.config.lmc)
        self.queue.get(SmpAttr.PORT_INFO, route, rows, db.port_num[rows])

    def _ask_about(self, nodes: np.ndarray) -> None:
        db = self.db
        switches = nodes[db.is_switch[nodes]]
        self._count_lids(len(switches))
        self.queue.get(SmpAttr.NODE_DESC, db.node_route[nodes], nodes)
        zero = db.node_base[switches]
        self.queue.get(SmpAttr.SWITCH_INFO, db.port_route[zero], switches)
        self.queue.get(SmpAttr.PORT_INFO, db.port_route[zero], zero, 0)

    def _ports_due(self, switches: np.ndarray) -> None:
        """Read the external ports of ``switches``, after port 0 of each has given the modifier
        (:meth:`Database.port_modifier`)."""
        ready = self.db.has_port_info[self.db.node_base[switches]]
        self._ask_ports(switches[ready])
        self._waiting.update(switches[~ready].tolist())

    def _port0_known(self, tags: np.ndarray) -> None:
        """Handle that PortInfo of port 0 arrived, or was lost, for ``tags``."""
        if self._waiting:
            nodes = self.db.port_node[tags[self.db.port_num[tags] == 0]]
            due = nodes[np.isin(nodes, np.fromiter(self._waiting, np.int64))]
            self._waiting.difference_update(due.tolist())
            self._ask_ports(due)

    def _ask_ports(self, switches: np.ndarray) -> None:
        if not len(switches):
            return
        db = self.db
        row, portnum = spread(db.node_nports[switches].astype(np.int64))
        ports = db.node_base[switches][row] + portnum + 1
        self.queue.get(SmpAttr.PORT_INFO, db.port_route[ports], ports, db.port_modifier(ports))

    def _count_lids(self, count: int) -> None:
        self._lids += count
        if self._lids > LID_UCAST_MAX:
            raise LimitError(
                f"this subnet needs at least {self._lids:,} LIDs with LMC {self.config.lmc}; a subnet has"
                f" {LID_UCAST_MAX:,} unicast LIDs (IBA 4.1.3): split it, or lower the LMC"
            )

    def _node_desc(self, tags: np.ndarray, data: np.ndarray) -> None:
        self.db.node_desc[tags] = data

    def _switch_info(self, tags: np.ndarray, data: np.ndarray) -> None:
        db = self.db
        unread = ~db.has_switch_info[tags]
        db.switch_info[tags] = data
        db.has_switch_info[tags] = True
        stays = tags[~unread & (SwitchInfo.port_state_change.get(data) > 0)]
        self.report.wrong_answers += [
            (guid, "PortStateChange is still set after it was cleared") for guid in db.node_guid[stays].tolist()
        ]
        clear = unread & (SwitchInfo.port_state_change.get(data) > 0)
        clear &= np.isin(db.node_guid[tags], self.managed)
        rows = tags[clear]
        self.queue.set(SmpAttr.SWITCH_INFO, db.port_route[db.node_base[rows]], rows, 0, data[clear])
        self._ports_due(tags[~clear])

    def _port_info(self, tags: np.ndarray, data: np.ndarray) -> None:
        db = self.db
        db.port_info[tags] = data
        db.has_port_info[tags] = True
        self._port0_known(tags)
        up = PortInfo.port_state.get(data) >= PortState.INIT
        through = (db.are_external(tags) | (tags == db.sm_port)) & (db.port_num[tags] > 0)
        self._probe(tags[up & through & ~db.port_probed[tags]])

    def _probe(self, rows: np.ndarray) -> None:
        """Request NodeInfo from the devices at the other end of ports ``rows``."""
        db = self.db
        deep = db.routes.hops[db.port_route[rows]] >= MAX_HOPS
        self.lost(SmpAttr.NODE_INFO, rows[deep], f"is further than the {MAX_HOPS} hops of a directed route")
        rows = rows[~deep]
        db.port_probed[rows] = True
        self._unawaited.update(self._unknown(rows[db.port_state(rows) == PortState.INIT]))
        keys = self.mkeys.behind(db, rows)
        if keys is not None:
            self._keys_tried.update((p, [k]) for p, k in zip(rows.tolist(), keys.tolist(), strict=True))
        self.queue.get(SmpAttr.NODE_INFO, db.port_route[rows], rows, 0, db.port_num[rows], keys)

    def _with_other_keys(self, tags: np.ndarray) -> np.ndarray:
        """Repeat the request to devices that did not answer, with the next M_Key. ``tags`` are the
        ports that lead to them. Return the ports for which no key is left."""
        if not self._keys_tried:
            return tags
        db, given_up = self.db, []
        for port in tags.tolist():
            tried = self._keys_tried.get(port)
            key = None if tried is None else self.mkeys.next_key(tried)
            if tried is None or key is None:
                given_up.append(port)
                continue
            tried.append(key)
            row, keys = np.array([port]), np.array([key], np.uint64)
            if port == LOCAL:
                db.routes.set_mkey(np.zeros(1, np.int64), keys)
                self.queue.get(SmpAttr.NODE_INFO, np.zeros(1, np.int32), row)
            else:
                self.queue.get(SmpAttr.NODE_INFO, db.port_route[row], row, 0, db.port_num[row], keys)
        return np.array(given_up, np.int64)

    def _keys_that_fit(self, tags: np.ndarray, info: np.ndarray) -> None:
        """Record the M_Keys to which devices answered."""
        if not self._keys_tried:
            return
        for port, guid in zip(tags.tolist(), NodeInfo.port_guid.get(info).tolist(), strict=True):
            tried = self._keys_tried.get(port)
            if tried is not None:
                self.mkeys.guess(guid, tried[-1], first=len(tried) == 1)

    def _unknown(self, rows: np.ndarray) -> list[int]:
        """Return those of the ports ``rows`` at whose other end no device has answered."""
        if not self.answering:
            return list(rows.tolist())
        locations = self.db.locations(rows)
        return [port for port, place in zip(rows.tolist(), locations, strict=True) if place not in self.answering]

    def _duplicate(self, tags: np.ndarray, nodes: np.ndarray) -> None:
        guids = self.db.node_guid[nodes]
        self.report.duplicates.extend(zip(guids.tolist(), tags.tolist(), strict=True))

    # -- the end of the sweep --

    def finish(self) -> None:
        """Keep only cables that both ends confirm, and nodes that answered enough. ``sm_port``
        becomes -1 if the manager's own port did not answer."""
        self._over = True
        self._confirm_cables()
        self._leave_out()
        db = self.db
        base = np.where(db.is_switch, db.node_base, 0)
        db.node_ok[:] &= ~db.is_switch | (db.has_switch_info & db.has_port_info[base])
        usable = db.node_ok[db.port_node] & db.has_port_info
        cabled = np.flatnonzero(db.port_peer >= 0)
        lost = cabled[~(usable[cabled] & usable[db.port_peer[cabled]])]
        db.port_peer[lost] = -1
        if db.sm_port not in db.end_ports():  # a manager without a LID cannot manage
            db.sm_port = -1

    def _leave_out(self) -> None:
        """Do nothing: every device that a full discovery found is present."""

    def _confirm_cables(self) -> None:
        db = self.db
        ports = np.flatnonzero(db.port_peer >= 0)
        peers = db.port_peer[ports]
        back = db.port_peer[peers]
        silent = np.zeros(db.n_ports, bool)
        silent[[p for p, _ in self.report.silent_ports if p >= 0]] = True
        one_sided = (back < 0) & silent[peers]
        bad = (back != ports) & ~one_sided
        adopt = np.flatnonzero(one_sided)
        _, first = np.unique(peers[adopt], return_index=True)
        adopted = adopt[first]
        bad[np.setdiff1d(adopt, adopted)] = True
        self._duplicate(ports[bad], db.port_node[peers[bad]])
        db.port_peer[ports[bad]] = -1
        db.port_peer[peers[adopted]] = ports[adopted]
        heard = set(peers[adopted].tolist())
        self.report.silent_ports[:] = [(p, why) for p, why in self.report.silent_ports if p not in heard]
