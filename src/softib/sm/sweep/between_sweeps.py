"""Tasks between sweeps, of which one runs at a time: which task is due, its requests, and the
consequences of the answers (IBA 14.4).

* ``control``: Set(SMInfo) to another manager.
* ``sync``: read the master's LID from the manager's own port.
* ``poll``: a standby polls its master.
* ``light``: read PortStateChange of every switch.
* ``again``: read PortStateChange of some switches again.
* ``details``: read which subnets routers report, and states of adapters' virtual ports.
* ``isolate``: disable and enable ports.
* ``groups``: program changed multicast groups.
* ``members``: write P_Key tables of ports whose partitions changed.
* ``aliases``: write alias GUIDs.
* ``read``: read tables that a waiting SA query needs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from softib.iba.constants import SmpAttr
from softib.iba.smp import SMInfo, SwitchInfo
from softib.mad.smp_requests import RequestQueue
from softib.sm.database import Database
from softib.sm.ha.election import SmControl, SmEvent, SmState
from softib.sm.ha.handover import SWEEPS_IN
from softib.sm.managers.partition_table import queue_changed
from softib.sm.managers.router_mgr import TAG_BLOCKS
from softib.sm.managers.switch_info import queue_mft_tops
from softib.sm.responder import Responder
from softib.sm.sa.alias_guids import queue_aliases
from softib.sm.sa.inventory import Inventory
from softib.sm.sa.subnet import Subnet
from softib.sm.sweep.phases import PHASES
from softib.sm.sweep.runner import SweepRunner
from softib.sm.vports.vport_mgr import VPORT_ATTRIBUTES, changed_nodes, look_for_changes

__all__ = ["BetweenSweeps"]


class _Task(NamedTuple):
    """``send`` queues the requests. ``heard`` handles (attribute, tags, data uint8[n, 64]).
    ``lost`` handles the tags of requests without a good answer."""

    send: Callable[[RequestQueue], None]
    heard: Callable[[int, np.ndarray, np.ndarray], None] = lambda attr, tags, data: None
    lost: Callable[[np.ndarray], None] = lambda tags: None


class BetweenSweeps:
    """:meth:`wanted` returns the task that must run at once, :meth:`due` the task whose time has
    come. :meth:`run` begins a task, and :meth:`done` ends it."""

    def __init__(self, runner: SweepRunner, responder: Responder):
        self.runner, self.responder = runner, responder
        self.mastership, self.schedule, self.phase = runner.mastership, runner.schedule, runner.phase
        self.has, self.election = runner.mastership.has, runner.mastership.election
        self._check_master_lid = self._look_closer = False
        self._suspects: set[int] = set()
        """NodeGUIDs that the next sweep must read, because a task found a change there or could not
        exclude one."""
        self.repartitioned: set[int] = set()
        """PortGUIDs whose partitions changed since their tables were written."""
        self._now_ps = 0
        self._sent = self._accepted = SmControl.STANDBY
        """The last Set(SMInfo) that was sent, and the last one that another manager accepted."""
        self._port_info: np.ndarray | None = None
        """PortInfo of the manager's own port."""
        self._inventory: Inventory | None = None
        poll = lambda attr, tags, data: self.election.heard(tags, data)
        self._tasks = {
            "": _Task(lambda queue: None),
            "control": _Task(self._send_control, self._controlled),
            "sync": _Task(self._query_local_port, self._local_port),
            "poll": _Task(lambda queue: self.election.ask_one(self._db, queue), poll),
            "light": _Task(lambda queue: self._look(queue, self._db.switches), self._looked, self._suspect),
            "again": _Task(self._relook, self._looked, self._suspect),
            "details": _Task(self._ask_details, self._details, lambda tags: self._suspect_routers(tags[tags >= 0])),
            "isolate": _Task(lambda queue: self.has.flapping.queue(self._db, queue, self._now_ps)),
            "groups": _Task(self._program_groups, lost=self._lose_groups),
            "members": _Task(self._program_partitions, lost=self._lose_tables),
            "aliases": _Task(self._write_aliases, lost=lambda tags: self._suspect(self._db.port_node[tags])),
            "read": _Task(self._read, self._was_read),
        }

    @property
    def _db(self) -> Database:
        return self.runner.database

    @property
    def _subnet(self) -> Subnet:
        assert self.has.sa_manager.subnet is not None
        return self.has.sa_manager.subnet

    def wanted(self, now_ps: int) -> str:
        """Return the task, or the first phase of a sweep, that must run at once; "" if there is
        none."""
        m, schedule = self.mastership, self.schedule
        sa, master = self.has.sa_manager, m.state == SmState.MASTER
        if m.ready:
            return "control"
        if self._check_master_lid and master and not schedule.sweep:
            return "sync"
        if self._look_closer and master and not schedule.sweep:
            return "details"
        if m.state == SmState.STANDBY and now_ps >= self.has.replication.due_ps and self._db.sm_port >= 0:
            return "sync"
        if m.state not in SWEEPS_IN:
            return ""
        if schedule.sweep:
            return PHASES[0]
        if master and sa.subnet is not None:
            if self.has.flapping.due_ps() <= now_ps:
                return "isolate"
            if sa.sa.aliases.changed:
                return "aliases"
            if self.repartitioned:
                return "members"
            return "groups" if sa.groups.changed else "read" if sa.waiting else ""
        return ""

    def due(self, now_ps: int) -> str:
        """Return the task whose time has come; "" if there is none. If a light sweep is overdue, a
        sweep begins instead."""
        m, schedule = self.mastership, self.schedule
        if m.state == SmState.MASTER and schedule.overdue(now_ps):
            return ""
        if m.state == SmState.MASTER and schedule.relook(now_ps):
            return "again"
        if schedule.look(now_ps, m.state, m.config):
            return "poll" if m.state == SmState.STANDBY else "light"
        return ""

    def run(self, now_ps: int, task: str) -> None:
        """Begin ``task``: queue its requests."""
        self._now_ps = now_ps
        self.phase.enter(task, now_ps)
        runner, config = self.runner, self.mastership.config
        runner.transactor.window = config.window
        runner.requests.queue = queue = RequestQueue(self._db.routes, config.mkey)
        self._tasks[task].send(queue)

    def heard(self, attr: int, tags: np.ndarray, data: np.ndarray) -> None:
        """Handle answers to requests of the task."""
        self._tasks[self.phase.name].heard(attr, tags, data)

    def lost(self, tags: np.ndarray) -> None:
        """Handle a request without a good answer."""
        self._tasks[self.phase.name].lost(tags)

    def done(self, now_ps: int) -> None:
        """Handle the end of the task: all its requests are answered or abandoned."""
        task, m, sa = self.phase.name, self.mastership, self.has.sa_manager
        self.phase.leave()
        if task == "read" and self._inventory is not None:
            sa.was_read(sa.waiting[0].need, self._inventory.table)
        if self._suspects:
            (self.schedule.found_relooking if task == "again" else self.schedule.suspect)(self._suspects)
            self._suspects = set()
        if task == "control" and self._accepted == SmControl.HANDOVER:
            m.event(now_ps, SmEvent.ACKNOWLEDGED)
        if task == "sync" and self._port_info is not None:
            m.master_named(self._port_info)
        self._check_master_lid = task == "light"
        has_more = bool(self.has.stores.routers.held) or bool(self._db.vports.heads)
        self._look_closer |= task == "light" and has_more
        if task == "poll" and self.election.failures >= m.config.polling_retries:
            m.event(now_ps, SmEvent.POLLING_TIMEOUT)

    # -- other managers --

    def _send_control(self, queue: RequestQueue) -> None:
        port, self._sent = self.mastership.next_control()
        self._accepted = SmControl.STANDBY
        self.election.control(self._db, queue, port, self._sent, self.responder.sm_info())

    def _controlled(self, attr: int, tags: np.ndarray, data: np.ndarray) -> None:
        self._accepted = self._sent
        if SMInfo.guid.get(data).all():
            self.election.heard(tags, data)

    def _query_local_port(self, queue: RequestQueue) -> None:
        """Read PortInfo of the manager's own port, which states the master's LID."""
        self._check_master_lid = False
        if self.mastership.state == SmState.STANDBY:
            self.has.replication.asks(self._now_ps, self.mastership.config.polling_timeout_ps)
        port = np.array([self._db.sm_port])
        queue.get(SmpAttr.PORT_INFO, self._db.port_route[port], port, self._db.port_modifier(port))

    def _local_port(self, attr: int, tags: np.ndarray, data: np.ndarray) -> None:
        self._port_info = data[0].copy()

    # -- changes --

    def _suspect(self, nodes: np.ndarray) -> None:
        self._suspects.update(self._db.node_guid[nodes].tolist())

    def _look(self, queue: RequestQueue, nodes: np.ndarray) -> None:
        queue.get(SmpAttr.SWITCH_INFO, self._db.port_route[self._db.node_base[nodes]], nodes)

    def _relook(self, queue: RequestQueue) -> None:
        nodes = self._db.switches
        touched = np.array(sorted(self.schedule.touched), np.uint64)
        self._look(queue, nodes[np.isin(self._db.node_guid[nodes], touched)])

    def _looked(self, attr: int, tags: np.ndarray, data: np.ndarray) -> None:
        """Mark switches for the next sweep: those with PortStateChange, and those whose
        LinearFDBTop differs from the value that was written, because they were reset."""
        top = SwitchInfo.linear_fdb_top
        reset = top.get(data) != top.get(self._db.switch_info[tags])
        self._suspect(tags[reset | (SwitchInfo.port_state_change.get(data) > 0)])

    def _ask_details(self, queue: RequestQueue) -> None:
        self._look_closer = False
        self.has.stores.routers.reread(self._db, queue)
        look_for_changes(self._db, queue)

    def _details(self, attr: int, tags: np.ndarray, data: np.ndarray) -> None:
        if attr in VPORT_ATTRIBUTES:
            self._suspects |= changed_nodes(self._db, tags, data)
        else:
            self._suspect_routers(self.has.stores.routers.differ(self._db, attr, tags, data))

    def _suspect_routers(self, tags: np.ndarray) -> None:
        self._suspect(self._db.port_node[tags // TAG_BLOCKS])

    # -- tasks of the SA --

    def _program_groups(self, queue: RequestQueue) -> None:
        groups = self.has.sa_manager.groups
        groups.queue_blocks(self._subnet, queue, everything=False)
        queue_mft_tops(self._subnet, queue, groups.highest, self.mastership.config.use_mfttop)

    def _lose_groups(self, tags: np.ndarray) -> None:
        for guid in np.unique(self._db.node_guid[tags]).tolist():
            self.has.sa_manager.groups.forget_switch(guid)
        self._suspect(tags)

    def _program_partitions(self, queue: RequestQueue) -> None:
        config, tables = self.mastership.config, self.has.stores.pkeys
        self._suspects |= queue_changed(self._db, config, tables, queue, self.repartitioned)
        self.repartitioned = set()

    def _lose_tables(self, tags: np.ndarray) -> None:
        """Mark the tables of these ports as unknown, so that a sweep reads them."""
        self.has.stores.forget_ports(self._db.locations(tags))
        self._suspect(self._db.port_node[tags])

    def _write_aliases(self, queue: RequestQueue) -> None:
        queue_aliases(self._subnet, self.has.sa_manager.sa.aliases.take(), queue)

    def _read(self, queue: RequestQueue) -> None:
        self._inventory = Inventory(self._subnet, self.has.sa_manager.waiting[0].need)
        self._inventory.ask(queue)

    def _was_read(self, attr: int, tags: np.ndarray, data: np.ndarray) -> None:
        assert self._inventory is not None
        self._inventory.heard(tags, data)
