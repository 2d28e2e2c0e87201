"""The subnet manager: MADs in, MADs out, no I/O and no clock.

    sm = SubnetManager(SmConfig(engine="ftree"))
    outbox, deadline_ps = sm.step(now_ps)
    while not sm.settled:
        outbox, deadline_ps = sm.step(now_ps, inbox)

A sweep is a list of phases; each one puts requests into the queue when it is entered, and the next one is entered when
all of them are answered or given up. The first sweep starts with the first ``step``; a trap or :meth:`request_sweep`
starts another one, which looks at everything anew, keeps LIDs, and sends only what is not as wanted.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from softib.errors import SoftibError
from softib.iba.constants import SMP_DATA, CapMask, MgmtClass, PortState, SmpAttr
from softib.iba.smp import PortInfo, SMInfo
from softib.mad.batch import MadBatch, SendStatus
from softib.mad.smp_requests import RequestQueue
from softib.mad.transactor import Completed, Transactor
from softib.routing.engine import Routing
from softib.routing.graph import SwitchGraph
from softib.sm import lid_mgr, link_mgr, ucast_mgr, unasked
from softib.sm.config import SmConfig
from softib.sm.database import Database
from softib.sm.discovery import Discovery
from softib.sm.report import PS_PER_S, SweepReport
from softib.sm.sa.administrator import Administrator
from softib.sm.sa.members import Members
from softib.sm.sa.subnet import Subnet
from softib.sm.state import SmEvent, SmState, next_state

__all__ = ["PHASES", "SubnetManager"]

PHASES = ("discover", "lids", "route", "tables", "tops", "ports", "arm", "activate")
"""``discover`` asks; ``lids`` configures end ports; ``route`` only computes; ``tables`` and ``tops`` program switches;
``ports`` configures switch ports; ``arm`` and ``activate`` take the links up."""
RESPONSE_BIT = 0x80
STATUS_BITS = 0x7FFF


class SubnetManager:
    """Discovers a subnet, gives LIDs, routes, programs the switches and brings the links up.

    Public: ``database`` (what MADs told), ``report`` (of the current or last sweep), ``state``, ``graph`` and ``routing`` (None
    before the first routing), ``phase`` (name, or "" between sweeps).
    """

    def __init__(self, config: SmConfig | None = None):
        self.config = config or SmConfig()
        self.state = SmState.DISCOVERING
        self.transactor = Transactor(self.config.window, self.config.timeout_ps, self.config.retries)
        self.database, self.report = Database(), SweepReport()
        self.graph: SwitchGraph | None = None
        self.routing: Routing | None = None
        self.sweeps = 0
        self.phase = ""
        self._phase_since = 0
        self._sweep_wanted = True
        self.sa = Administrator(self.config.sa_key)
        self._store = ucast_mgr.LftStore()
        self._queue = RequestQueue(self.database.routes)
        self._discovery = Discovery(self.database, self._queue, self.report, self.config)
        self._tables = np.zeros((0, 64), np.uint8)
        self._wanted = np.zeros((0, 64), np.uint8)
        self._before = (0, 0, 0)
        self._enter: dict[str, Callable[[], None]] = {
            "discover": self._discovery.start, "lids": self._lids, "route": self._route, "tables": self._send_tables,
            "tops": self._tops, "ports": self._ports, "arm": self._arm, "activate": self._activate,
        }  # fmt: skip

    # -- the surface --

    def step(self, now_ps: int, inbox: MadBatch | None = None) -> tuple[MadBatch, int]:
        """Take what arrived; return what shall leave now and the time of the next call if nothing arrives before.

        Raises :class:`~softib.errors.LimitError` when the subnet cannot be managed (too many LIDs, tables too short), and
        whatever a routing engine raises; the sweep is given up then, and :meth:`request_sweep` starts a new one.
        """
        replies = MadBatch.zeros(0)
        if inbox is not None and len(inbox):
            # A request of ours that the wire hands back (umad's ETIMEDOUT) is no question; its retry stands anyway.
            asked = (inbox.mad[:, 3] < RESPONSE_BIT) & (inbox.status == SendStatus.OK)
            if asked.any():
                replies = self._asked(now_ps, inbox[asked])
                inbox = inbox[~asked]
        self.transactor.receive(now_ps, inbox)
        try:
            for done in self.transactor.completed():
                self._take(done)
            self._advance(now_ps)
        except SoftibError:
            self._give_up()
            raise
        self._fill()
        outbox, deadline_ps = self.transactor.send(now_ps)
        if not self.settled and not self.transactor.busy:
            deadline_ps = now_ps  # the next phase: each starts in a step of its own, so that its time is its own
        return MadBatch.concat([replies, outbox]) if len(replies) else outbox, deadline_ps

    def request_sweep(self) -> None:
        """Look at the subnet again, after the current sweep if there is one."""
        self._sweep_wanted = True

    @property
    def settled(self) -> bool:
        """True when no sweep is under way or wanted: every port that can be is ACTIVE."""
        return not self.phase and not self._sweep_wanted

    @property
    def waiting(self) -> int:
        """Requests of this phase that are not built yet (for progress)."""
        return len(self._queue)

    # -- the sweep --

    def _advance(self, now_ps: int) -> None:
        if len(self._queue) or self.transactor.busy or self.settled:
            return
        if not self.phase:
            self._begin()
            following = PHASES[0]
        else:
            self.report.phase_s[self.phase] = (now_ps - self._phase_since) / PS_PER_S
            if self.phase == PHASES[-1] or self.database.sm_port < 0:
                self._end()
                return
            following = PHASES[PHASES.index(self.phase) + 1]
        self.phase, self._phase_since = following, now_ps
        self._enter[following]()

    def _begin(self) -> None:
        self._sweep_wanted = False
        if self.sweeps:
            self.state = next_state(self.state, SmEvent.TOPOLOGY_CHANGED)
        self.sweeps += 1
        self.database, self.report = Database(), SweepReport()
        self._queue = RequestQueue(self.database.routes, self.config.mkey)
        self._discovery = Discovery(self.database, self._queue, self.report, self.config)
        self._enter["discover"] = self._discovery.start
        self._before = (self.transactor.retried, self.transactor.timeouts, self.transactor.strays)

    def _give_up(self) -> None:
        self.phase, self._sweep_wanted = "", False
        self.transactor.abandon()
        self._queue = RequestQueue(self.database.routes)

    def _end(self) -> None:
        self.phase = ""
        db, report = self.database, self.report
        rows = link_mgr.linked(db)
        report.not_active = rows[db.port_state()[rows] != PortState.ACTIVE].tolist()
        report.count(self._queue.built)
        t, (retried, timeouts, strays) = self.transactor, self._before
        report.retries, report.timeouts, report.strays = t.retried - retried, t.timeouts - timeouts, t.strays - strays
        report.describe(db)
        if db.sm_port >= 0 and self.graph is not None and self.routing is not None:
            self.state = next_state(self.state, SmEvent.DISCOVERY_COMPLETED)
            subnet = Subnet(db, self.graph, self.routing, self.config)
            self.sa.refresh(subnet, Members.everybody(len(subnet)))

    def _fill(self) -> None:
        """Hand requests to the transactor as long as they could leave at once (a MAD is built when it leaves)."""
        most = min(self.transactor.room, self.config.chunk)
        while most > 0 and len(self._queue):
            batch, tags = self._queue.take(most)
            self.transactor.submit(batch, tags)
            most -= len(batch)

    # -- what entering a phase does --

    def _lids(self) -> None:
        self._discovery.finish()
        db = self.database
        if db.sm_port < 0:
            return
        lid_mgr.assign(db, self.config.lmc)
        self._count_subnet()
        self._wanted = link_mgr.wanted_port_info(db, self.config)
        link_mgr.queue_config(db, self._queue, self._wanted, db.end_ports())

    def _route(self) -> None:
        self.graph, self.routing = ucast_mgr.route_subnet(self.database, self.config.engine, self.config.options)
        self.report.notes += self.routing.notes

    def _send_tables(self) -> None:
        assert self.graph is not None and self.routing is not None
        self._tables = ucast_mgr.queue_blocks(self.database, self._queue, self.graph, self.routing.lft, self._store)

    def _tops(self) -> None:
        assert self.graph is not None
        ucast_mgr.queue_tops(self.database, self._queue, self.graph, self.config.packet_life_time)

    def _ports(self) -> None:
        link_mgr.queue_config(self.database, self._queue, self._wanted, link_mgr.linked(self.database))

    def _arm(self) -> None:
        link_mgr.queue_state(self.database, self._queue, link_mgr.linked(self.database), PortState.ARMED)

    def _activate(self) -> None:
        link_mgr.queue_state(self.database, self._queue, link_mgr.linked(self.database), PortState.ACTIVE)

    # -- answers --

    def _take(self, done: Completed) -> None:
        mad, tags = done.batch.mad, done.tags
        if self.phase == "tables":  # one attribute, and nothing in an answer but its status
            attr = np.full(len(mad), SmpAttr.LFT, np.uint16)
        else:
            attr = (mad[:, 16].astype(np.uint16) << 8) | mad[:, 17]
        if done.timed_out:
            for a in np.unique(attr).tolist():
                self._lost(a, tags[attr == a], "is not answered")
            return
        refused = (mad[:, 5] != 0) | ((mad[:, 4] & 0x7F) != 0)
        if refused.any():
            for a in np.unique(attr[refused]).tolist():
                self._refused(a, tags[refused & (attr == a)])
            mad, tags, attr = mad[~refused], tags[~refused], attr[~refused]
            if not len(mad):
                return
        first = int(attr[0])
        if (attr == first).all():
            self._heard(first, tags, mad[:, SMP_DATA : SMP_DATA + 64])
            return
        for a in np.unique(attr).tolist():
            rows = attr == a
            self._heard(a, tags[rows], mad[rows, SMP_DATA : SMP_DATA + 64])

    def _heard(self, attr: int, tags: np.ndarray, data: np.ndarray) -> None:
        if self.phase == "discover":
            self._discovery.handle(attr, tags, data)
        elif attr == SmpAttr.PORT_INFO:
            self.database.port_info[tags] = data
        elif attr == SmpAttr.SWITCH_INFO:
            self.database.switch_info[tags] = data

    def _refused(self, attr: int, tags: np.ndarray) -> None:
        kind = f"{'Get' if self.phase == 'discover' else 'Set'} {SmpAttr(attr).name}"
        self.report.refused[kind] = self.report.refused.get(kind, 0) + len(tags)
        self._lost(attr, tags, "is refused")

    def _lost(self, attr: int, tags: np.ndarray, why: str) -> None:
        if attr == SmpAttr.LFT:
            assert self.graph is not None
            switches = np.unique(tags // (self._tables.shape[1] // 64))
            self._store.forget(self.graph.switch_guid[switches].tolist())
            tags = self.graph.switch_node[switches]
        self._discovery.lost(attr, tags, why)

    # -- what others ask --

    def _asked(self, now_ps: int, asked: MadBatch) -> MadBatch:
        """Answers to requests and traps. Who is no master is no administrator."""
        to_sa = asked.mad[:, 1] == MgmtClass.SUBN_ADM
        told, changed = unasked.answer(asked[~to_sa], self._sm_info())
        self._sweep_wanted |= changed
        if not to_sa.any() or self.state != SmState.MASTER:
            return told
        self.sa.sm_info = self._sm_info()
        return MadBatch.concat([told, self.sa.answer(asked[to_sa], now_ps)])

    def _count_subnet(self) -> None:
        db, report = self.database, self.report
        report.nodes, report.switches = db.n_nodes, int(db.is_switch.sum())
        report.cas = report.nodes - report.switches
        peer = db.port_peer
        rows = np.flatnonzero(peer >= 0)
        report.links = int((rows <= peer[rows]).sum())
        report.lids = int((1 << db.port_lmc[db.end_ports()].astype(np.int64)).sum())
        is_sm = (PortInfo.cap_mask.get(db.port_info) & CapMask.IS_SM) > 0
        is_sm[db.sm_port] = False
        report.notes += [
            f"{db.port_name(p)} says that a subnet manager runs there" for p in np.flatnonzero(is_sm).tolist()
        ]

    def _sm_info(self) -> np.ndarray:
        """SMInfo of this manager (IBA 14.2.5.13); the SM_Key stays with those who know it."""
        db = self.database
        guid = int(db.port_guid[db.sm_port]) if db.sm_port >= 0 else 0
        return SMInfo.pack(guid=guid, act_count=self.transactor.sent & 0xFFFFFFFF, priority=self.config.priority,
                           sm_state=int(self.state))  # fmt: skip
