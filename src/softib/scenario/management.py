"""The management plane of a packet simulation: agents and a subnet manager whose MADs are sent over
the simulated links.

The agents answer each MAD that arrives, and work on the fabric of the run, so a table that a Set
writes is in effect from that moment. The manager acts ``manager_ps`` after MADs arrive, and at its
deadlines; computing routes takes no virtual time. Traps are sent after the agent's processing time,
and repeated until the manager represses them.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from softib.agents.kernels.dispatch import ANSWERED, FOR_CLIENT
from softib.agents.plane import AgentPlane
from softib.agents.trap_queue import TrapQueue
from softib.fabric.model import Fabric
from softib.iba.constants import GSI_QP, LID_PERMISSIVE, Method, MgmtClass, SmpAttr
from softib.iba.notice import Notice
from softib.iba.smp import CLASS_AT, DATA_AT, METHOD_AT, MadHeader, PortInfo
from softib.mad.batch import MadBatch
from softib.mad.transactor import NEVER_PS
from softib.sim.packet.stepping import Arrived
from softib.sm.subnet_manager import SubnetManager

if TYPE_CHECKING:
    from softib.scenario.clock import RunClock
from softib.iba.constants import LFT_NO_ROUTE

__all__ = ["ManagementPlane", "Milestones", "PathsInUse", "Station"]


class PathsInUse:
    """Paths of messages, in both directions, because acknowledgements use the second one. Each path
    has the rows of its end ports, ``port`` and ``end``, and a ``lid``. There are no paths before
    :meth:`follow`.

    For each fault, in the order in which faults happen: ``broken``, the number of paths that it broke, and ``back_ps``,
    the time at which all of these led to their destination again (-1: not yet).
    """

    def __init__(self, fabric: Fabric):
        self.fabric = fabric
        self.broken: list[int] = []
        self.back_ps: list[int] = []
        self._down: list[np.ndarray] = []
        self.port = self.end = self.lid = np.zeros(0, np.int64)
        self._net: object = None

    def follow(self, net: object, src: np.ndarray, dst: np.ndarray, lid: np.ndarray) -> None:
        """Follow the paths from ports ``src`` to ``dst`` with LID ``lid``. ``net`` are the tables
        of the packet layer, which change during the run."""
        fabric, self._net = self.fabric, net
        pairs = np.concatenate(
            [np.stack([src, dst, lid], 1), np.stack([dst, src, fabric.lid[src].astype(np.int64)], 1)]
        )
        pairs = np.unique(pairs, axis=0)
        self.port, self.end, self.lid = pairs[:, 0], pairs[:, 1], pairs[:, 2]

    def faults_happened(self, number: int, now_ps: int) -> None:
        """Record which paths the ``number`` new faults broke (0: a link came back)."""
        dead = self.dead()
        for _ in range(number):
            rows = np.setdiff1d(dead, np.concatenate([*self._down, np.zeros(0, np.int64)]))
            self._down.append(rows)
            self.broken.append(len(rows))
            self.back_ps.append(-1 if len(rows) else now_ps)
        self.tables_changed(now_ps)

    def tables_changed(self, now_ps: int) -> None:
        """Record which broken paths lead to their destination again, after tables or links have
        changed."""
        for i, rows in enumerate(self._down):
            if len(rows):
                self._down[i] = rows = self.dead(rows)
                if not len(rows):
                    self.back_ps[i] = now_ps

    def dead(self, rows: np.ndarray | None = None) -> np.ndarray:
        """Return the rows, among ``rows`` or all paths, whose path does not reach its
        destination."""
        f, net = self.fabric, self._net
        peer, lft = net.port["peer"], net.lft  # type: ignore[attr-defined]
        rows = np.arange(len(self.port)) if rows is None else rows
        at = self.port[rows].astype(np.int64)
        lid, end = self.lid[rows], self.end[rows]
        here = f.is_switch[f.port_node[at]]  # port 0 sends from within its switch
        at = np.where(here, at, peer[at])
        alive = at >= 0
        for _ in range(f.sizes.switches + 1):
            at_switch = alive & f.is_switch[f.port_node[np.maximum(at, 0)]]
            going = np.flatnonzero(at_switch & (at != end))
            if not len(going):
                break
            node = f.port_node[at[going]]
            out = lft[f.switch_of_node[node], lid[going]].astype(np.int64)
            base = f.node_base[node].astype(np.int64)
            is_port = (out != LFT_NO_ROUTE) & (out <= f.node_nports[node])
            following = np.where(is_port, peer[np.where(is_port, base + out, 0)], -1)
            following = np.where(is_port & (out == 0), base, following)
            at[going] = following
            alive[going] = (following >= 0) & ~((out == 0) & (base != end[going]))
        return rows[~(alive & (at == end))]


SMPS = (MgmtClass.SUBN_LID, MgmtClass.SUBN_DR)
STEPS_AT_ONCE = 1000
"""Number of consecutive steps without a MAD after which the manager is considered stuck."""


@dataclass
class Milestones:
    """Times in ps of the manager's work: ``traps`` (arrival, LID of the issuer, trap number),
    ``sweeps`` [begin, end or -1], and ``tables`` (writes of forwarding tables)."""

    traps: list[tuple[int, int, int]] = field(default_factory=list)
    sweeps: list[list[int]] = field(default_factory=list)
    tables: list[int] = field(default_factory=list)


@dataclass
class Station:
    """The manager and its end port. ``manager_ps``: time between the arrival of a MAD and the
    manager's reaction."""

    sm: SubnetManager
    port: int
    manager_ps: int = 5_000_000


class ManagementPlane:
    """The agents of the fabric, connected to the links of ``clock.steps``. ``station`` is None if
    there is no manager. ``written()`` is called when tables or port states have changed."""

    def __init__(self, clock: RunClock, plane: AgentPlane, station: Station | None, agent_ps: int):
        self.clock, self.plane, self.station, self.agent_ps = clock, plane, station, agent_ps
        self.fabric: Fabric = plane.fabric
        self.milestones = Milestones()
        self.written: Callable[[], None] = lambda: None
        self.answered = 0
        plane.take_notices()
        self.traps = TrapQueue(plane)
        self._later: list[tuple[int, int, int, np.ndarray, int]] = []
        self._order = 0
        self._inbox: list[Arrived] = []
        self._wake_ps = NEVER_PS
        self._free_ps = 0
        self._sweeps = station.sm.sweeps if station else 0

    # -- time --

    def next_ps(self) -> int:
        """Return the time at which :meth:`act` has work to do next
        (:data:`~softib.mad.transactor.NEVER_PS`: never)."""
        at = [self._wake_ps]
        if self._later:
            at.append(self._later[0][0])
        trap = self.traps.next_ps()
        if trap is not None:
            at.append(trap - self.clock.base_ps)
        return min(at)

    @property
    def idle(self) -> bool:
        """Return whether the management plane is idle: no trap waits, and the manager is idle and expects no
        response."""
        return not self._later and not self._inbox and (self.station is None or self.station.sm.settled)

    def act(self) -> None:
        """Send the MADs that are due, and call the manager's step if it is due."""
        while self._later and self._later[0][0] <= self.clock.now_ps:
            _, _, port, mad, lid = heapq.heappop(self._later)
            self._post(port, mad, lid)
        self._send_traps()
        if self._wake_ps <= self.clock.now_ps:
            self._step()

    def _send_traps(self) -> None:
        """Send the traps that devices raised or must repeat, each after the processing time."""
        self.traps.collect(self.clock.device_ps)
        while (trap := self.traps.take(self.clock.device_ps)) is not None:
            batch, port = trap
            self._order += 1
            leaves_ps = self.clock.now_ps + self.agent_ps
            heapq.heappush(self._later, (leaves_ps, self._order, port, batch.mad[0].copy(), int(batch.dlid[0])))

    # -- MADs that arrived --

    def take(self) -> None:
        """Answer the MADs that have arrived."""
        for a in self.clock.steps.arrived():
            self._arrived(a)

    def _arrived(self, a: Arrived) -> None:
        method, attr = int(a.mad[METHOD_AT]), int(MadHeader.attr_id.get(a.mad))
        is_smp = int(a.mad[CLASS_AT]) in SMPS
        lid = self._lid(a.source)
        fate = self.plane.answer(a.mad, a.ingress, lid, self.clock.device_ps)
        if fate == ANSWERED:
            self.answered += 1
            self._post(a.end, a.mad, lid, a.level, a.source == a.end)
            if method == Method.SET and is_smp:
                self._was_set(a, attr)
        elif fate == FOR_CLIENT:
            self._for_client(a, method)
        self._send_traps()

    def _for_client(self, a: Arrived, method: int) -> None:
        now_ps = self.clock.now_ps
        if method == Method.TRAP_REPRESS:
            self.traps.repressed(a.end, int(MadHeader.tid.get(a.mad)), self.clock.device_ps)
            return
        if self.station is None or a.end != self.station.port:
            return
        if method == Method.TRAP:
            notice = a.mad[DATA_AT : DATA_AT + 64]
            self.milestones.traps.append(
                (now_ps, int(Notice.issuer_lid.get(notice)), int(Notice.trap_number.get(notice)))
            )
        self._inbox.append(a)
        self._wake_ps = min(self._wake_ps, max(now_ps, self._free_ps) + self.station.manager_ps)

    def _was_set(self, a: Arrived, attr: int) -> None:
        """Apply those effects of an SMP's Set on packets that do not follow from the tables that
        both use."""
        f, node, now_ps = self.fabric, int(self.fabric.port_node[a.end]), self.clock.now_ps
        if attr == SmpAttr.LFT:
            self.milestones.tables.append(now_ps)
        if attr in (SmpAttr.PORT_INFO, SmpAttr.SWITCH_INFO, SmpAttr.VL_ARB):
            ports = np.array(list(f.ports_of(node)), np.int64)
            peers = f.port_peer[ports]
            self.clock.steps.links_changed(np.concatenate([ports, peers[peers >= 0]]), now_ps)
        if attr in (SmpAttr.LFT, SmpAttr.PORT_INFO):
            self.written()

    # -- MADs that are sent --

    def _lid(self, port: int) -> int:
        return int(PortInfo.lid.get(self.fabric.port_info[port]))

    def _post(self, port: int, mad: np.ndarray, lid: int, level: int = 0, to_self: bool = False) -> None:
        directed = mad[CLASS_AT] == MgmtClass.SUBN_DR
        vl = 15
        if to_self and not directed:
            vl = -1
        elif int(mad[CLASS_AT]) not in SMPS:
            vl = self.clock.steps.vl_of(port, level)
        self.clock.steps.post(port, mad, LID_PERMISSIVE if directed else lid, self.clock.now_ps, level, vl)

    # -- the manager --

    def _step(self) -> None:
        station, now_ps = self.station, self.clock.now_ps
        assert station is not None
        inbox, self._inbox = self._batch(self._inbox), []
        self._wake_ps, self._free_ps = NEVER_PS, now_ps
        for _ in range(STEPS_AT_ONCE):
            was_busy = bool(station.sm.phase)
            outbox, deadline_ps = station.sm.step(self.clock.device_ps, inbox)
            inbox, home = None, self._lid(station.port)
            self._note_sweeps(was_busy)
            for row in range(len(outbox)):
                lid = int(outbox.dlid[row])
                to_self = lid == home
                self._post(station.port, outbox.mad[row], lid, int(outbox.sl[row]), to_self)
            if deadline_ps > self.clock.device_ps:
                break
        if deadline_ps < NEVER_PS:
            self._wake_ps = max(deadline_ps - self.clock.base_ps, now_ps + 1)

    def _note_sweeps(self, was_busy: bool) -> None:
        assert self.station is not None
        sm, sweeps, now_ps = self.station.sm, self.milestones.sweeps, self.clock.now_ps
        if sm.sweeps > self._sweeps:
            self._sweeps = sm.sweeps
            sweeps.append([now_ps, -1])
        if was_busy and not sm.phase and sweeps and sweeps[-1][1] < 0:
            sweeps[-1][1] = now_ps

    def _batch(self, arrived: list[Arrived]) -> MadBatch | None:
        if not arrived:
            return None
        batch = MadBatch.zeros(len(arrived))
        for row, a in enumerate(arrived):
            batch.mad[row] = a.mad
            if a.mad[CLASS_AT] != MgmtClass.SUBN_DR:
                batch.slid[row], batch.dlid[row] = self._lid(a.source), self._lid(a.end)
            if not a.smp:
                batch.dqp[row] = batch.sqp[row] = GSI_QP
            batch.sl[row] = a.level
        batch.tid[:] = MadHeader.tid.get(batch.mad)
        return batch
