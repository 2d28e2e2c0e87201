"""Tasks between sweeps, one at a time: which is due, the requests it sends, and the consequences of their
answers (IBA 14.4).

``control``: Set(SMInfo) to another manager; ``sync``: ask the own port which manager is master;
``poll``: a standby asks its master; ``light``: ask every switch whether a port changed; ``again``:
ask some; ``details``: ask routers whether they lead where they led, and adapters whether virtual
ports came up or went down; ``isolate``: take ports out and give them back; ``groups``: program
multicast groups that changed; ``aliases``: write alias GUIDs; ``read``: tables that an SA question
waits for.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from softib.iba.constants import SmpAttr
from softib.iba.smp import SMInfo, SwitchInfo
from softib.mad.smp_requests import RequestQueue
from softib.sm.database import Database
from softib.sm.ha.election import Election, SmControl, SmEvent, SmState
from softib.sm.ha.handover import SWEEPS_IN
from softib.sm.managers.mcast_mgr import McastManager
from softib.sm.managers.router_mgr import TAG_BLOCKS
from softib.sm.managers.switch_info import queue_tops
from softib.sm.responder import Responder
from softib.sm.sa.alias_guids import AliasGuids, queue_aliases
from softib.sm.sa.inventory import Inventory, Need
from softib.sm.sa.subnet import Subnet
from softib.sm.sweep.phases import PHASES
from softib.sm.sweep.runner import SweepRunner
from softib.sm.vports.vport_mgr import VPORT_ATTRIBUTES, changed_nodes, look_for_changes

__all__ = ["BetweenSweeps", "LightSweep"]


LOOKS = ("light", "again")


@dataclass
class LightSweep:
    """One task at a time, on the database of the last sweep. After it, ``changed`` says that a
    sweep is called for, ``suspects`` which nodes (NodeGUIDs) it shall ask, ``read`` what was read
    for whom, and ``accepted`` what another manager accepted."""

    election: Election
    groups: McastManager
    use_mfttop: Callable[[], bool]
    changed: bool = False
    suspects: set[int] = field(default_factory=set)
    accepted: SmControl | None = None
    read: Inventory | None = None
    port_info: np.ndarray | None = None
    """Of the own port, after ``sync``."""
    _control: SmControl | None = field(default=None)

    def begin(
        self,
        task: str,
        db: Database,
        queue: RequestQueue,
        subnet: Subnet | None,
        need: Need | None,
        aliases: AliasGuids | None = None,
    ) -> None:
        """Queue what ``task`` sends (``control`` has a call of its own). ``subnet``: what the
        master's last sweep left; ``need``: for ``read``."""
        if task == "groups" and subnet is not None:
            self.groups.queue_blocks(subnet, queue, everything=False)
            queue_tops(subnet, queue, self.groups.highest, self.use_mfttop())
        elif task == "read" and subnet is not None and need is not None:
            self.read = Inventory(subnet, need)
            self.read.ask(queue)
        elif task == "aliases" and subnet is not None:
            queue_aliases(subnet, aliases.take() if aliases is not None else [], queue)
        elif task == "sync":
            self.local_port(db, queue)
        elif task == "poll":
            self.election.ask_one(db, queue)
        else:
            self.light(db, queue)

    def light(self, db: Database, queue: RequestQueue, guids: set[int] | None = None) -> None:
        """Ask every switch, or those with NodeGUIDs ``guids``, for SwitchInfo."""
        nodes = db.switches
        if guids is not None:
            nodes = nodes[np.isin(db.node_guid[nodes], np.array(sorted(guids), np.uint64))]
        queue.get(SmpAttr.SWITCH_INFO, db.port_route[db.node_base[nodes]], nodes)

    def local_port(self, db: Database, queue: RequestQueue) -> None:
        """Ask the manager's own port for PortInfo: it names the master's LID."""
        port = db.sm_port
        queue.get(SmpAttr.PORT_INFO, db.port_route[[port]], np.array([port]), db.port_modifier(np.array([port])))

    def control(self, db: Database, queue: RequestQueue, port: int, what: SmControl, sm_info: np.ndarray) -> None:
        """Set(SMInfo)."""
        self._control, self.accepted = what, None
        self.election.control(db, queue, port, what, sm_info)

    def heard(self, phase: str, db: Database, tags: np.ndarray, data: np.ndarray) -> None:
        """Answers to requests of ``phase``."""
        if phase in LOOKS:
            self._suspect(db, tags[self._differs(db, tags, data)])
        elif phase == "poll":
            self.election.heard(tags, data)
        elif phase == "control":
            self.accepted = self._control
            self.election.heard(tags, data) if SMInfo.guid.get(data).all() else None
        elif phase == "sync":
            self.port_info = data[0].copy()
        elif phase == "read" and self.read is not None:
            self.read.heard(tags, data)

    def lost(self, phase: str, db: Database, tags: np.ndarray) -> None:
        """No answer, or a bad one."""
        if phase in LOOKS:
            self._suspect(db, tags)
        elif phase == "aliases":
            self._suspect(db, np.unique(db.port_node[tags]))
        elif phase == "groups":
            tags = np.unique(tags)
            for node in tags.tolist():
                self.groups.forget_switch(int(db.node_guid[node]))
            self._suspect(db, tags)

    def _differs(self, db: Database, nodes: np.ndarray, data: np.ndarray) -> np.ndarray:
        """bool[n]: switches with PortStateChange, and those whose LinearFDBTop is not what was set:
        they were reset."""
        top = SwitchInfo.linear_fdb_top
        return (SwitchInfo.port_state_change.get(data) > 0) | (top.get(data) != top.get(db.switch_info[nodes]))

    def _suspect(self, db: Database, nodes: np.ndarray) -> None:
        self.suspects.update(db.node_guid[nodes].tolist())
        self.changed |= len(nodes) > 0


class BetweenSweeps:
    """:meth:`wanted` names what shall be done at once, :meth:`due` what the clock calls for;
    :meth:`run` begins a task, :meth:`done` ends it."""

    def __init__(self, runner: SweepRunner, responder: Responder):
        self.runner, self.responder = runner, responder
        self.mastership, self.schedule, self.phase = runner.mastership, runner.schedule, runner.phase
        self.has = runner.mastership.has
        self.light_sweep = LightSweep(
            runner.mastership.election, self.has.sa_manager.groups, lambda: self.has.sa_manager.config.use_mfttop
        )
        self._check_master_lid = self._look_closer = False
        self._changed: set[int] = set()
        """NodeGUIDs of routers that lead to other subnets than before, and of adapters with other
        virtual ports."""

    def wanted(self, now_ps: int) -> str:
        """The task, or first phase of a sweep, that shall be done at once; "" for nothing."""
        m, schedule = self.mastership, self.schedule
        sa, replication = self.has.sa_manager, self.has.replication
        if m.ready:
            return "control"
        if self._check_master_lid and m.state == SmState.MASTER and not schedule.sweep:
            return "sync"
        if self._look_closer and m.state == SmState.MASTER and not schedule.sweep:
            return "details"
        if m.state == SmState.STANDBY and now_ps >= replication.due_ps and self.runner.database.sm_port >= 0:
            return "sync"
        if m.state not in SWEEPS_IN:
            return ""
        if schedule.sweep:
            return PHASES[0]
        if m.state == SmState.MASTER and sa.subnet is not None:
            if self.has.flapping.due_ps() <= now_ps:
                return "isolate"
            if sa.sa.aliases.changed:
                return "aliases"
            return "groups" if sa.groups.changed else "read" if sa.waiting else ""
        return ""

    def due(self, now_ps: int) -> str:
        """The task that the clock calls for, "" for none. A sweep that is overdue is called for."""
        m, schedule = self.mastership, self.schedule
        if m.state == SmState.MASTER and schedule.overdue(now_ps):
            return ""
        if m.state == SmState.MASTER and schedule.relook(now_ps):
            return "again"
        if schedule.look(now_ps, m.state, m.config):
            return "poll" if m.state == SmState.STANDBY else "light"
        return ""

    def run(self, now_ps: int, task: str) -> None:
        """Begin ``task``: queue what it sends."""
        self.phase.enter(task, now_ps)
        m, runner, work, sa = self.mastership, self.runner, self.light_sweep, self.has.sa_manager
        db = runner.database
        runner.transactor.window = m.config.window
        runner.requests.queue = queue = RequestQueue(db.routes, m.config.mkey)
        if task == "control":
            port, what = m.next_control()
            work.control(db, queue, port, what, self.responder.sm_info())
            return
        if task == "sync":
            self._check_master_lid = False
            if m.state == SmState.STANDBY:
                self.has.replication.asks(now_ps, m.config.polling_timeout_ps)
        if task == "isolate":
            self.has.flapping.queue(db, queue, now_ps)
            return
        if task == "details":
            self._look_closer = False
            self.has.stores.routers.reread(db, queue)
            look_for_changes(db, queue)
            return
        if task == "again":
            work.light(db, queue, self.schedule.touched)
            return
        need = sa.waiting[0].need if task == "read" else None
        work.begin(task, db, queue, sa.subnet, need, sa.sa.aliases)

    def heard(self, attr: int, tags: np.ndarray, data: np.ndarray) -> None:
        """Answers to requests of the task."""
        db = self.runner.database
        if self.phase.name == "details" and attr in VPORT_ATTRIBUTES:
            self._changed |= changed_nodes(db, tags, data)
            return
        if self.phase.name == "details":
            self._suspect_routers(self.has.stores.routers.differ(db, attr, tags, data))
            return
        self.light_sweep.heard(self.phase.name, self.runner.database, tags, data)

    def lost(self, tags: np.ndarray) -> None:
        """No answer, or a bad one."""
        if self.phase.name == "details":
            self._suspect_routers(tags[tags >= 0])
            return
        self.light_sweep.lost(self.phase.name, self.runner.database, tags)

    def _suspect_routers(self, tags: np.ndarray) -> None:
        db = self.runner.database
        self._changed.update(db.node_guid[db.port_node[tags // TAG_BLOCKS]].tolist())

    def done(self, now_ps: int) -> None:
        """All requests of the task are answered or given up."""
        task, work, m, sa = self.phase.name, self.light_sweep, self.mastership, self.has.sa_manager
        self.phase.leave()
        if task == "read" and work.read is not None:
            sa.was_read(sa.waiting[0].need, work.read.table)
        if work.changed:
            work.changed = False
            (self.schedule.found_relooking if task == "again" else self.schedule.suspect)(work.suspects)
            work.suspects.clear()
        if task == "control" and work.accepted == SmControl.HANDOVER:
            m.event(now_ps, SmEvent.ACKNOWLEDGED)
        if task == "sync" and work.port_info is not None:
            m.master_named(work.port_info)
        self._check_master_lid = task == "light"
        has_more = bool(self.has.stores.routers.held) or bool(self.runner.database.vports.heads)
        self._look_closer |= task == "light" and has_more
        if self._changed:
            self.schedule.suspect(self._changed)
            self._changed = set()
        if task == "poll" and m.election.failures >= m.config.polling_retries:
            m.event(now_ps, SmEvent.POLLING_TIMEOUT)
