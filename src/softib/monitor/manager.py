"""The state of the subnet manager. It shows whether a problem is a stalled manager or a fault of the network. In each
round, SMInfo of every manager is read with MADs (state, priority, and ActCount, which a running master increases; IBA
14.2.5.13). The daemon of a running softib fabric also reports sweeps and their time, problems of the last sweep, and
traps.
"""

from __future__ import annotations

import contextlib
import time
from collections import deque
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from softib.diags.managers.manager_health import ManagerRound
from softib.errors import SoftibError
from softib.iba.constants import CapMask, SmpAttr
from softib.iba.smp import DATA_AT, PortInfo, SMInfo
from softib.monitor.opening import Opened
from softib.monitor.perfmgr import Poller
from softib.monitor.requests import sa_gets, smp_gets
from softib.sm.ha.election import SmState

__all__ = ["Manager", "ManagerWatch"]

CLASS_PORT_INFO = 0x01
"""AttributeID of ClassPortInfo, which every class has (IBA 13.4.8.1)."""
STALLED_S = 30.0
"""A master is stalled if its ActCount did not change for this time (s) while its port answered. It is three times the
interval of OpenSM's light sweeps."""
KEPT = 120
"""Number of rounds whose state is kept."""
MISSED = 3
"""Number of consecutive rounds in which a master's port answered everything except SMInfo, after which the master
counts as stalled: a hanging process does not answer SMInfo."""


@dataclass
class Manager:
    """One subnet manager: ``guid`` of its port, ``lid``, ``state`` (name of SMState), ``priority``, ``act_count``;
    ``answers``: whether it answered in the last round; ``still_s``: seconds since its ActCount last rose (0: it rose in
    the last round, or the manager was seen for the first time); ``missed``: consecutive rounds without its answer in
    which the agents of its port answered."""

    guid: int
    lid: int
    state: str
    priority: int
    act_count: int
    answers: bool = True
    still_s: float = 0.0
    missed: int = 0

    @property
    def stalled(self) -> bool:
        """Whether the manager's process hangs although the network works: the port answers, but the manager makes no
        progress or does not answer."""
        moves = self.missed < MISSED and (self.still_s <= STALLED_S or not self.answers)
        return self.state == "MASTER" and not moves


@dataclass
class ManagerWatch:
    """Follows the managers of the subnet that ``poller`` reads. ``reported``: the status of the manager that the daemon
    runs, {} without a daemon; ``answer_s``: time until the answer to the last SMInfo (NaN: no answer); ``sa_answer_s``:
    time until the answer to the last query to the subnet administrator (SA); ``sweep_s``: seconds of each phase of the
    last sweep that the daemon reported (a light sweep has no phases); ``rounds``: states of the master in the last
    rounds."""

    opened: Opened
    poller: Poller
    managers: dict[int, Manager] = field(default_factory=dict)
    reported: dict[str, Any] = field(default_factory=dict)
    answer_s: float = float("nan")
    sa_answer_s: float = float("nan")
    sa_answered: bool | None = None
    sweep_s: dict[str, float] = field(default_factory=dict)
    rounds: deque[ManagerRound] = field(default_factory=lambda: deque(maxlen=KEPT))
    _moved: dict[int, tuple[int, float]] = field(default_factory=dict)
    _waits: tuple[int, float] = (0, 0.0)

    def step(self) -> None:
        """Read SMInfo of every manager, and the daemon's status."""
        guids, lids = self._where()
        now = time.monotonic()
        for one in self.managers.values():
            one.answers = False
        self.answer_s = float("nan")
        if len(guids):

            def heard(tags: np.ndarray, mad: np.ndarray) -> None:
                self.answer_s = time.monotonic() - now
                for tag, info in zip(tags.tolist(), mad[:, DATA_AT : DATA_AT + SMInfo.size], strict=True):
                    self._take(guids[tag], int(lids[tag]), info, now)

            self.poller.gets.run(smp_gets(SmpAttr.SM_INFO, lids), np.arange(len(guids)), len(guids), heard)
        self._unanswered(now)
        self._administration()
        if self.opened.status is not None:
            with contextlib.suppress(SoftibError):
                self.reported = self.opened.status()
                self.sweep_s = self.reported.get("sm", {}).get("report", {}).get("phase_s") or self.sweep_s
        self.rounds.append(self._round())

    def _master(self) -> tuple[int, int, str]:
        """Return (PortGUID, LID, node) of the master: the manager that reports this state, or else the port whose LID
        is in the ports' PortInfo."""
        masters = [m for m in self.managers.values() if m.state == "MASTER" and m.answers]
        lid = masters[0].lid if masters else self.poller.master_lid
        ports = self.poller.targets.ports
        rows = np.flatnonzero(ports.lid == lid) if lid else np.zeros(0, np.int64)
        stated = next((g for g, m in self.managers.items() if m.lid == lid), 0) if lid else 0
        return (
            stated or (int(ports.node_guid[rows[0]]) if len(rows) else 0),
            lid,
            ports.node[rows[0]] if len(rows) else "",
        )

    def _round(self) -> ManagerRound:
        guid, lid, node = self._master()
        one = next((m for m in self.managers.values() if m.lid == lid), None)
        last, t = self.poller.last, self.poller.targets
        well = last is not None and len(last) == len(t) and bool((last.answered & (t.ports.lid == lid)).any())
        heard = (
            np.bincount(t.device, last.answered, len(t.device_guid)) > 0
            if last is not None and len(last) == len(t)
            else np.ones(len(t.device_guid), bool)
        )
        return ManagerRound(
            time_ns=self.poller.now_ns(),
            guid=guid,
            lid=lid,
            state=one.state if one else "",
            answered=one is not None and one.answers,
            port_answered=well,
            sa_answered=self.sa_answered,
            sm_answer_s=self.answer_s,
            sa_answer_s=self.sa_answer_s,
            act_count=one.act_count if one else 0,
            still_s=one.still_s if one else 0.0,
            agents=len(t.device_guid),
            agents_silent=int((~heard).sum()),
            sa_wait_s=self._mean_wait(),
            node=node,
        )

    def _mean_wait(self) -> float:
        """Return the mean time for which queries waited in the running fabric's manager, over those that it answered
        since the last round (NaN: it answered none)."""
        waits = self.reported.get("sm", {}).get("sa", {}).get("wait")
        if not waits:
            return float("nan")
        before, self._waits = self._waits, (int(waits["buckets"]["inf"]), float(waits["sum_s"]))
        n = self._waits[0] - before[0]
        return (
            max(float(waits["oldest_s"]), (self._waits[1] - before[1]) / n)
            if n > 0
            else float(waits["oldest_s"]) or float("nan")
        )

    def _unanswered(self, now: float) -> None:
        """Update managers that did not answer SMInfo. The agents of their ports may still have answered, since the
        manager answers SMInfo and not the port's agent (IBA 14.4)."""
        last, ports = self.poller.last, self.poller.targets.ports
        for guid, one in self.managers.items():
            if one.answers or last is None or len(last) != len(ports):
                continue
            one.still_s = now - self._moved[guid][1]
            well = bool((last.answered & (ports.lid == one.lid)).any())
            one.missed = one.missed + 1 if well else 0

    def _administration(self) -> None:
        """Measure the time of one query to the master's SA, even if the manager does not answer SMInfo."""
        self.sa_answer_s, self.sa_answered = float("nan"), None
        master = [m.lid for m in self.managers.values() if m.answers and m.state == "MASTER"] or [
            self.poller.master_lid
        ]
        if not master[0]:
            return
        self.sa_answered = False
        began = time.monotonic()

        def heard(tags: np.ndarray, mad: np.ndarray) -> None:
            if len(tags):
                self.sa_answer_s, self.sa_answered = time.monotonic() - began, True

        batch = sa_gets(CLASS_PORT_INFO, np.array(master[:1], np.uint16))
        self.poller.gets.run(batch, np.zeros(1, np.int64), 1, heard)

    def _where(self) -> tuple[list[int], np.ndarray]:
        """Return the PortGUIDs and LIDs of the ports that have IsSM set, or on which discovery found a manager."""
        t, poller = self.poller.targets, self.poller
        says = PortInfo.cap_mask.get(poller._info) & int(CapMask.IS_SM) > 0
        lids = dict.fromkeys(t.ports.lid[says].tolist())
        managers = poller.manager_lids
        lids.update(dict.fromkeys(managers.values()))
        by_lid = {lid: guid for guid, lid in managers.items()}
        lids_there = [lid for lid in lids if lid]
        return [by_lid.get(lid, lid) for lid in lids_there], np.array(lids_there, np.uint16)

    def _take(self, guid: int, lid: int, info: np.ndarray, now: float) -> None:
        guid = int(SMInfo.guid.get(info)) or guid
        count, state = int(SMInfo.act_count.get(info)), int(SMInfo.sm_state.get(info))
        before = self._moved.get(guid)
        if before is None or before[0] != count:
            self._moved[guid] = (count, now)
        name = SmState(state).name if state in set(SmState) else str(state)
        still = now - self._moved[guid][1]
        self.managers[guid] = Manager(guid, lid, name, int(SMInfo.priority.get(info)), count, True, still)
