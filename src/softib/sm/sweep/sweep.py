"""One sweep: a list of phases (:mod:`~softib.sm.sweep.phases`), each of which queues requests.

The next phase begins when all requests of the current one are answered or abandoned. The caller
sends the requests, and :mod:`~softib.sm.sweep.answers` handles their answers.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from softib.iba.constants import PortState
from softib.iba.smp import PortInfo
from softib.mad.smp_requests import RequestQueue
from softib.routing.engine import Routing
from softib.routing.graph import SwitchGraph
from softib.sm.aggregation.aggregation_mgr import AggregationPhases
from softib.sm.config import SmConfig
from softib.sm.database import Database
from softib.sm.ha.election import Election
from softib.sm.health.isolation import fallen_links
from softib.sm.managers import lid_mgr, link_mgr, ucast_mgr
from softib.sm.managers.mcast_mgr import McastManager
from softib.sm.managers.mkeys import hidden
from softib.sm.managers.partitions import Members
from softib.sm.managers.pkey_mgr import members_of
from softib.sm.managers.switch_info import queue_lft_tops, queue_mft_tops
from softib.sm.sa.subnet import Subnet
from softib.sm.stores import Stores
from softib.sm.sweep.answers import SweepAnswers
from softib.sm.sweep.discovery import Discovery
from softib.sm.sweep.features import Features
from softib.sm.sweep.phases import SweepExtension
from softib.sm.sweep.read_back import ReadBack
from softib.sm.sweep.rediscovery import Rediscovery, Resume
from softib.sm.sweep.report import SHOWN, SweepReport
from softib.sm.sweep.wrong_answers import (
    changed_capacities,
    changed_devices,
    changed_neighbours,
    leave_out_short,
    named_masters,
    returned,
)
from softib.sm.tables.lft_order import LftUpdate
from softib.sm.tables.lft_plan import plan_change
from softib.sm.vports.vport_mgr import VPortManager

__all__ = ["Sweep"]


EXTENSIONS: tuple[type[SweepExtension], ...] = (VPortManager, AggregationPhases)
"""Extensions for protocols that softib defines: virtual ports and aggregation nodes."""


class Sweep:
    """One sweep of the manager.

    * ``registered``: PortGUIDs of the previous sweep. Clients on other ports must subscribe and
      join again. None: clients on all ports must, because the manager is a new master (IBA 14.4.1;
      OpenSM does the same).
    * ``lids``: the LIDs of each PortGUID. They are kept between sweeps.
    * ``before``: results of the previous sweep. Devices whose answers differ from them are
      reported.
    * ``master``: the manager is already master. For switches that it managed before, it clears
      PortStateChange before it reads their ports. For other switches, and if it is not master yet,
      it clears the bit when it programs the switches, and then reads their ports ``again``. If a
      port has changed meanwhile, ``answers.stale`` is set.

    ``resume``: an incremental sweep discovers only the changes since that database; the manager is
    then master. ``stores`` and ``groups`` hold the state of devices, and are kept between sweeps.
    """

    def __init__(
        self,
        config: SmConfig,
        stores: Stores,
        groups: McastManager,
        election: Election,
        *,
        registered: np.ndarray | None = None,
        lids: lid_mgr.Lids | None = None,
        master: bool = False,
        resume: Resume | None = None,
        before: Database | None = None,
    ):
        self.config, self.election, self.groups, self.registered, self.lids = config, election, groups, registered, lids
        self.stores, self.store = stores, stores.lft
        self.database = Database() if resume is None else resume.database.copy()
        self.report = SweepReport()
        self.queue = RequestQueue(self.database.routes, config.mkey)
        self.before = before
        self.graph: SwitchGraph | None = None
        self.routing: Routing | None = None
        self.subnet: Subnet | None = None
        self._reset = np.zeros(0, np.int64)
        """Switches that lost all values written to them."""
        self.fresh = np.zeros(0, bool)
        """bool[ports]: ports that came up again, and all ports of switches that were reset and of
        nodes that were absent."""
        self._back = np.zeros(0, np.int64)
        """Nodes that were absent in the previous sweep, so that another manager may have written to
        them."""
        self.fallen: list[tuple[int, int]] = []
        """(NodeGUID, portnum) of switch ports whose link has failed since the previous sweep."""
        self.misled = False
        """Whether requests of the previous sweep reached wrong devices, so that its data on devices
        that are not read again is unreliable."""
        self._resumed = resume is not None
        self.discovery = self._discovery(master, resume)
        stores.mkeys.configure(config.mkey, config.mkey_lookup)
        self.discovery.mkeys = stores.mkeys
        self.update: LftUpdate | None = None
        """The change of forwarding tables that phase ``tables`` writes."""
        self.held: ReadBack | None = None
        """The reading of tables in phase ``held``."""
        self.wanted = np.zeros((0, 64), np.uint8)
        """The PortInfo that ports should have, uint8[ports, 64]."""
        self._changed_switches = np.zeros(0, np.int64)
        self.features = Features(self.database, self.queue, config, stores, self.report)
        self.suspects = None if resume is None else resume.suspects
        """NodeGUIDs that an incremental sweep reads; None for a sweep of the whole subnet."""
        self.extensions = tuple(extension(self) for extension in EXTENSIONS)
        self.answers = SweepAnswers(self)
        between = lambda: link_mgr.between(self.database, self._reset)
        linked = lambda: link_mgr.linked(self.database)
        self._enter: dict[str, Callable[[], None]] = {
            "discover": self.discovery.start,
            "managers": self._managers,
            "lids": self._lids,
            "route": self._route,
            "held": self._read_held,
            "links": self._links,
            "links_arm": lambda: self._raise(between(), PortState.ARMED),
            "links_active": lambda: self._raise(between(), PortState.ACTIVE),
            "tables": self._start_tables,
            "tops": self._tops,
            "reread": lambda: link_mgr.queue_reread(self.database, self.queue, self._changed_switches),
            "multicast": self._multicast,
            "multicast_tops": self._multicast_tops,
            "ports": self._ports,
            "arm": lambda: self._raise(linked(), PortState.ARMED),
            "activate": lambda: self._raise(linked(), PortState.ACTIVE),
            "routers": lambda: stores.routers.ask(self.database, self.queue),
            "router_tables": lambda: stores.routers.ask_tables(self.database, self.queue),
            **self.features.enter,
        }
        self._extension_of = {phase: e for e in self.extensions for phase in e.enter}
        for extension in self.extensions:
            self._enter |= extension.enter

    def _discovery(self, master: bool, resume: Resume | None) -> Discovery:
        common = self.database, self.queue, self.report, self.config
        if resume is None:
            self.stores.trust_nothing()
            managed = np.zeros(0, np.uint64) if self.before is None or not master else self.before.node_guid
            return Discovery(*common, managed)
        return Rediscovery(*common, resume.suspects)

    def enter(self, phase: str) -> None:
        """Queue the requests of the phase."""
        self._enter[phase]()

    def idle(self, phase: str) -> bool:
        """Return whether this phase has no work and can be skipped."""
        extension = self.extension_of(phase)
        return extension is not None and extension.idle

    def extension_of(self, phase: str) -> SweepExtension | None:
        """Return the extension to which the phase belongs; None if it belongs to no extension."""
        return self._extension_of.get(phase)

    @property
    def local_guid(self) -> int:
        """PortGUID of the manager's port, 0 if the port did not answer."""
        db = self.database
        return int(db.port_guid[db.sm_port]) if db.sm_port >= 0 else 0

    @property
    def cut_off(self) -> bool:
        """Return whether the manager's own link is down."""
        db = self.database
        return db.sm_port >= 0 and bool(db.port_state()[db.sm_port] == PortState.DOWN)

    def _managers(self) -> None:
        self.discovery.finish()
        if self.before is not None:
            self.report.wrong_answers += changed_devices(self.before, self.database)
            self.report.wrong_answers += changed_capacities(self.before, self.database)
            self.fallen = fallen_links(self.before, self.database)
            moved = changed_neighbours(self.before, self.database)
            self.report.notes += moved[:SHOWN]
            others = named_masters(self.before, self.database)
            if others:
                lids = ", ".join(map(str, others))
                self.report.notes.append(f"ports have the master's LID {lids}: another master wrote to this subnet")
            if moved or others:
                self._forget_tables()
        self.election.ask(self.database, self.queue)

    def _forget_tables(self) -> None:
        """Discard the stored tables. Either another master wrote to the switches, or cables were
        exchanged, so that requests that the previous sweep sent along directed routes may have
        reached another device."""
        self.stores.clear()
        for guid in self.database.node_guid[self.database.switches].tolist():
            self.groups.forget_switch(guid)
        self.misled = self._resumed

    def _lids(self) -> None:
        db = self.database
        if db.sm_port < 0:
            return
        lid_mgr.assign(db, self.config.lmc, self.lids, self.config.reassign_lids and self.registered is None)
        for extension in self.extensions:
            extension.lids_given()
        self.report.wrong_answers += leave_out_short(db, self.store)
        self.report.count_subnet(db)
        self.wanted = link_mgr.wanted_port_info(db, self.config, self._reregister())
        self.features.configured(self.wanted)
        ends = db.end_ports()
        self.features.queue_link_modes()
        # Port 0 may have been read before its switch lost power, so its LID is set to 0.
        PortInfo.lid.set(db.port_info, 0, db.node_base[link_mgr.restarted(db)])
        link_mgr.queue_config(db, self.queue, self.wanted, ends)

    def _reregister(self) -> np.ndarray:
        """Return bool[ports]: ports whose clients must subscribe and join again."""
        registered = np.zeros(0, np.uint64) if self.registered is None else self.registered
        new: np.ndarray = ~np.isin(self.database.port_guid, registered)
        return new & (not self.config.no_clients_rereg)

    def _route(self) -> None:
        self.graph, self.routing = ucast_mgr.route_subnet(
            self.database, self.config.engines, self.config.options, self.store, self.config.max_op_vls
        )
        self.report.notes += map(self.database.with_names, self.routing.notes)
        self.subnet = Subnet(self.database, self.graph, self.routing, self.config)
        self.subnet.router_tables = self.stores.routers
        self._judge_switches()

    def _read_held(self) -> None:
        assert self.graph is not None
        self.held = ReadBack(self.database, self.graph, self.store, self.groups, self._reset)
        self.held.ask(self.queue)

    def _judge_switches(self) -> None:
        """Find the switches that lost their tables, and the ports that came up again."""
        assert self.graph is not None and self.routing is not None
        db = self.database
        restarted = db.node_guid[link_mgr.restarted(db)].tolist()
        back = np.zeros(0, np.int64) if self.before is None else returned(self.before, db)
        self.store.forget([*restarted, *db.node_guid[back].tolist()])
        nothing = [table is None for table in self.store.known(db, self.graph.switch_node)]
        self._reset = self.graph.switch_node[np.array(nothing, bool)].astype(np.int64)
        self.fresh = np.isin(db.port_node, [*self._reset, *back]) | (db.port_state() < PortState.ARMED)
        self._back = back
        for guid in restarted:
            self.store.refused.pop(guid, None)
        for guid in db.node_guid[self._reset].tolist():
            self.groups.forget_switch(guid)
        self.features.routed(self.graph, self.routing, self._reset, self.fresh)

    def _raise(self, ports: np.ndarray, state: PortState) -> None:
        link_mgr.queue_state(self.database, self.queue, ports, state)

    def _links(self) -> None:
        rows = link_mgr.between(self.database, self._reset)
        link_mgr.queue_config(self.database, self.queue, self.wanted, rows, arm=True)

    def _start_tables(self) -> None:
        assert self.graph is not None and self.routing is not None
        if self.held is not None:
            self.held.finish()
        self.store.sls.restarted(self._restarted_ends())
        plan = plan_change(self.database, self.graph, self.routing, self.store, self.config)
        self.report.tables_change = plan.state
        self.report.notes += [plan.note] if plan.note else []
        self.update = ucast_mgr.start_update(
            self.database, self.graph, self.routing.lft, self.store, plan.stage, plan.discard
        )
        self.more_tables()

    def _restarted_ends(self) -> set[int]:
        """Return :attr:`fresh_ends` without switches whose tables turned out to be intact when they
        were read, and without hosts that were only cut off."""
        assert self.graph is not None
        db, nodes = self.database, self.graph.switch_node
        read = nodes[[table is not None for table in self.store.known(db, nodes)]]
        hosts = self._back[~db.is_switch[self._back]]
        stayed = np.isin(db.port_node, [*read, *hosts]) & (db.port_state() >= PortState.ARMED)
        return self.fresh_ends - set(db.port_guid[stayed].tolist())

    def more_tables(self) -> bool:
        """Queue the next round of forwarding tables; return False if there is none."""
        if self.graph is None or self.update is None or self.update.over:
            return False
        ucast_mgr.queue_round(self.database, self.queue, self.graph, self.update)
        return True

    @property
    def drains(self) -> bool:
        """Return whether packets routed with old entries must drain before the next round of
        forwarding tables."""
        return self.update is not None and self.update.drains

    def _tops(self) -> None:
        assert self.graph is not None
        self._changed_switches = self.graph.switch_node[link_mgr.changed(self.database, self.graph.switch_node)]
        queue_lft_tops(self.database, self.queue, self.graph, self.config.packet_life_time)

    def _multicast(self) -> None:
        assert self.subnet is not None
        self.groups.queue_blocks(self.subnet, self.queue, everything=True)

    def _multicast_tops(self) -> None:
        assert self.subnet is not None
        self.report.notes += [self.groups.note] if self.groups.note else []
        queue_mft_tops(self.subnet, self.queue, self.groups.highest, self.config.use_mfttop)

    def _ports(self) -> None:
        for ports, inbound, outbound in self.features.enforcing:
            link_mgr.enforce(self.wanted, ports, inbound, outbound)
        link_mgr.queue_config(self.database, self.queue, self.wanted, link_mgr.linked(self.database), arm=True)

    # -- the end --

    def finish(self, built: dict[tuple[int, int], int]) -> None:
        """Fill the report."""
        db, report = self.database, self.report
        self.stores.mkeys.swept(db)
        ends = db.end_ports()
        report.locked = ends[hidden(db.port_info[ends])].tolist()
        self.answers.stale |= bool(self.features.training)
        self.answers.stale_switches |= self.features.training
        rows = link_mgr.linked(db)
        report.not_active = rows[db.port_state(rows) != PortState.ACTIVE].tolist()
        report.count(built)
        report.describe(db)

    @property
    def troubled(self) -> set[int]:
        """NodeGUIDs of devices without a good answer, which the next sweep reads again."""
        db, report = self.database, self.report
        nodes = {node for node, _, _ in report.mute_nodes} | {int(db.port_node[port]) for port, _ in report.mute_ports}
        return set(db.node_guid[sorted(nodes)].tolist()) if nodes else set()

    @property
    def fresh_ends(self) -> set[int]:
        """PortGUIDs of end ports that came up again."""
        db = self.database
        ends = db.end_ports()
        return set(db.port_guid[ends[self.fresh[ends]]].tolist())

    def members(self) -> Members:
        """Return partition memberships of the subnet's end ports."""
        assert self.subnet is not None
        return members_of(self.subnet, list(self.config.known_partitions), self.config.allow_both_pkeys)
