"""softib's subnet manager inside the daemon: it is attached to a port like a program, and
communicates only through MADs. The module also measures how long SA queries wait, and assigns aggregation trees to
jobs."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np

from softib.errors import InputError
from softib.iba.constants import DEFAULT_PKEY, RESPONSE_BIT, Method, MgmtClass, PortState, SmpAttr
from softib.iba.smp import CLASS_AT, METHOD_AT, TID_AT, MadHeader, PortInfo
from softib.jit import small_work_in_python
from softib.live.clock import clock_ps
from softib.live.internal_sm.guid2lid import keep, restore
from softib.live.mad_router import MadRouter
from softib.live.status import JobTree, Wait
from softib.live.umad.file import Ancillary
from softib.live.umad.grh import pkey_index_at
from softib.mad.batch import MadBatch
from softib.sm.config import SmConfig
from softib.sm.managers.partitions import Partition
from softib.sm.subnet_manager import SubnetManager

__all__ = ["BOUNDS_S", "MANAGER_NUMBER", "InternalManager", "SaWait", "job_of"]


BOUNDS_S = (0.0001, 0.0003, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)
"""Upper bounds of the histogram in seconds."""
FORGOTTEN_PS = 60 * 10**12
"""A query without an answer for this time is no longer counted as waiting: it gets none (for example because of a wrong
SM_Key), and no client waits longer."""
PS = 1e12


class SaWait:
    """Waiting times of SA queries: a cumulative histogram of answered queries, and the queries without an answer so
    far."""

    def __init__(self) -> None:
        self.buckets = np.zeros(len(BOUNDS_S) + 1, np.int64)
        self.sum_s = 0.0
        self._since: dict[tuple[int, int, bytes], int] = {}

    def came(self, batch: MadBatch, now_ps: int) -> None:
        """Record queries that were delivered to the manager. The wait of a repeated query is counted from its first
        delivery."""
        mad = batch.mad
        for i in np.flatnonzero((mad[:, CLASS_AT] == MgmtClass.SUBN_ADM) & (mad[:, METHOD_AT] < RESPONSE_BIT)).tolist():
            self._since.setdefault(
                (int(batch.slid[i]), int(batch.sqp[i]), mad[i, TID_AT : TID_AT + 8].tobytes()), now_ps
            )

    def left(self, outbox: MadBatch, now_ps: int) -> None:
        """Record answers that leave the manager."""
        if not self._since:
            return
        mad = outbox.mad
        for i in np.flatnonzero(
            (mad[:, CLASS_AT] == MgmtClass.SUBN_ADM) & (mad[:, METHOD_AT] >= RESPONSE_BIT)
        ).tolist():
            began = self._since.pop(
                (int(outbox.dlid[i]), int(outbox.dqp[i]), mad[i, TID_AT : TID_AT + 8].tobytes()), None
            )
            if began is not None:
                seconds = (now_ps - began) / PS
                self.buckets[int(np.searchsorted(BOUNDS_S, seconds))] += 1
                self.sum_s += seconds

    def status(self, now_ps: int) -> Wait:
        """Return the waiting times of other programs' queries so far."""
        if self._since and now_ps - min(self._since.values()) > FORGOTTEN_PS:
            self._since = {name: at for name, at in self._since.items() if now_ps - at <= FORGOTTEN_PS}
        seen = np.cumsum(self.buckets).tolist()
        oldest = (now_ps - min(self._since.values())) / PS if self._since else 0.0
        buckets = dict(zip([*map(str, BOUNDS_S), "inf"], seen, strict=True))
        return Wait(buckets, round(self.sum_s, 6), round(oldest, 6))


def job_of(sm: SubnetManager, guids: list[int], streaming: bool) -> JobTree:
    """Return an aggregation tree for the hosts of a job. ``guids``: the hosts' NodeGUIDs.

    Raises :class:`InputError` if there are no trees, or no tree can serve these hosts.
    """
    manager, graph = sm.aggregation, sm.graph
    if manager is None or graph is None:
        raise InputError("this fabric has no aggregation trees; set aggregation: true in its sm: section")
    db = sm.database
    switch_of = {int(node): int(s) for node, s in zip(graph.end_node, graph.end_switch, strict=True) if node >= 0}
    switches = [switch_of.get(db.node_of(guid), -1) for guid in guids]
    if min(switches) < 0:
        raise InputError("a host of the job is not up; softib status shows which ports are")
    job = manager.job(np.array(switches, np.int64), streaming)
    if job is None:
        raise InputError("no aggregation tree includes the switches of all these hosts; use other hosts")
    name = lambda row: db.name(int(graph.switch_node[manager.switch_of[row]]))
    nodes, hosts = ([name(row) for row in rows.tolist()] for rows in (job.nodes, job.node_of_host))
    return JobTree(job.tree, streaming, name(job.top), nodes, hosts)


MANAGER_NUMBER = 0xFFFF
"""The manager's client number; programs have smaller numbers."""
WINDOW = 4096
STATE_AT = PortInfo.port_state.byte
SLICE_PS = 20_000_000_000
"""Maximum time that the manager works before programs are served (20 ms)."""


class InternalManager:
    """A station (see :class:`softib.live.mad_router.Station`) whose program is
    :class:`SubnetManager`.

    It answers SMInfo and SA requests, and takes traps. ``arrival`` returns what accompanies
    delivered messages: the sender's port, and for the first bytes of an RMPP message the whole
    message. ``lids`` is the file that stores the LIDs of ports between runs (None: not stored).
    """

    number = MANAGER_NUMBER
    issm = True

    def __init__(self, router: MadRouter, port: int, config: SmConfig, lids: Path | None = None):
        self.router, self.port = router, port
        self.classes = np.zeros(256, np.uint8)
        self.sm = SubnetManager(_at_home(config))
        self.lids, self._swept = lids, 0
        self.sm.mkeys.local_guid = int(router.fabric.port_guid[port])
        if lids is not None:
            restore(lids, self.sm)
        self.arrival: Callable[[], Ancillary] = Ancillary
        self._inbox: list[MadBatch] = []
        self.sa_wait = SaWait()
        self._deadline_ps = 0
        self._port_info, self._was_up = router.fabric.port_info[port], True
        self.ready = False
        router.join(self)

    def takes(self, mad: np.ndarray) -> bool:
        """Return whether the MAD is for the manager: Get and Set of SMInfo, traps, SA requests, answers to its reports,
        and other managers' records."""
        klass, method, attr = int(mad[CLASS_AT]), int(mad[METHOD_AT]), int(MadHeader.attr_id.get(mad))
        if klass in (MgmtClass.SUBN_ADM, MgmtClass.SM_REPLICA):
            return method != Method.REPORT  # reports are for a subscriber on the same port
        if klass not in (MgmtClass.SUBN_LID, MgmtClass.SUBN_DR):
            return False
        if attr == SmpAttr.SM_INFO:
            return method in (Method.GET, Method.SET, Method.GET_RESP)
        return attr == SmpAttr.NOTICE and method == Method.TRAP

    def deliver(self, batch: MadBatch) -> None:
        """Keep the MADs until the next :meth:`run`."""
        batch = batch.copy()
        came = self.arrival()
        batch.sl[:] = 0  # its answers leave on SL 0, and with the P_Key of the request (IBA 13.5.4)
        batch.pkey_index[:] = [
            0 if came.port is None else pkey_index_at(self.router.fabric, came.port, index, self.port)
            for index in batch.pkey_index.tolist()
        ]
        if came.payload is not None:
            batch.payload = {0: os.pread(came.payload.fd, came.payload.octets, 0)}
        self.sa_wait.came(batch, clock_ps())
        self._inbox.append(batch)

    def sweep(self, config: SmConfig | None = None) -> None:
        """Sweep the whole subnet again, with the settings ``config`` if they are given."""
        if config is None:
            self.sm.request_sweep()
        else:
            self.sm.reconfigure(_at_home(config))
        self._deadline_ps = 0

    def repartition(self, changed: list[Partition]) -> bool:
        """Program only these partitions; return False if the change needs a sweep with the complete file."""
        self._deadline_ps = 0
        return self.sm.repartition(changed)

    def _choose_pkeys(self, outbox: MadBatch) -> None:
        """Send reports with the default P_Key, which every subscriber has; its index in the port's table may vary."""
        reports = (outbox.mad[:, CLASS_AT] == MgmtClass.SUBN_ADM) & (outbox.mad[:, METHOD_AT] == Method.REPORT)
        if reports.any():
            f, begin = self.router.fabric, int(self.router.fabric.pkey_base[self.port])
            table = f.pkeys[begin : begin + int(f.pkey_cap[self.port])]
            outbox.pkey_index[reports] = int(np.argmax(table & 0x7FFF == DEFAULT_PKEY & 0x7FFF))

    def _keep_lids(self) -> None:
        """Store the LIDs and M_Keys after a sweep."""
        if self.lids is not None and self._swept != self.sm.sweeps:
            keep(self.lids, self.sm)
        self._swept = self.sm.sweeps

    def _look_at_port(self) -> None:
        """Sweep if the manager's link is up again. No trap reports it: traps of the peer switch found no path while the
        link was down, and are repeated at growing intervals. A sweep in the meantime found no switch, so light sweeps
        have no switch to query. On a host, the driver reports the event "port active" (IBA 11.6.3.3)."""
        up = self._port_info[STATE_AT] & 0xF > PortState.DOWN  # called in every step: avoid building an array
        if up and not self._was_up:
            self.sweep()
        self._was_up = up

    def wait_s(self, now_ps: int) -> float:
        """Return the seconds until the manager has work (0: it has work now)."""
        self._look_at_port()
        if self._inbox:
            return 0.0
        return max(0.0, (self._deadline_ps - now_ps) / 1e12)

    def run(self, clock: object, now_ps: int) -> None:
        """Run the manager until it has to wait, or has worked for :data:`SLICE_PS`. ``clock`` gives the time in ps."""
        assert callable(clock)
        end_ps = now_ps + SLICE_PS
        while now_ps < end_ps:
            inbox = MadBatch.concat(self._inbox) if self._inbox else None
            self._inbox = []
            with small_work_in_python(repeated=True):
                outbox, self._deadline_ps = self.sm.step(now_ps, inbox)
            if len(outbox):
                _stamp(outbox)
                self._choose_pkeys(outbox)
                self.sa_wait.left(outbox, clock())
                answers = self.router.send(outbox, self.port, now_ps)
                self.router.traps(now_ps)
                if len(answers):
                    self._inbox.append(answers)
            elif self.sm.settled:
                self.ready = True
                self._keep_lids()
                return
            now_ps = clock()
            if not self._inbox and self._deadline_ps > now_ps:
                return


def _at_home(config: SmConfig) -> SmConfig:
    """Return ``config`` with the window for this manager. No wire is between the manager and the agents, so only the
    processor's cache limits the window."""
    return replace(config, window=WINDOW, chunk=WINDOW)


def _stamp(outbox: MadBatch) -> None:
    """Put the manager's number into the TIDs of requests, so that answers from programs are
    delivered to it. A TrapRepress keeps the trap's own TID."""
    asks = (outbox.mad[:, METHOD_AT] < RESPONSE_BIT) & (outbox.mad[:, METHOD_AT] != Method.TRAP_REPRESS)
    outbox.mad[asks, TID_AT], outbox.mad[asks, TID_AT + 1] = MANAGER_NUMBER >> 8, MANAGER_NUMBER & 0xFF
