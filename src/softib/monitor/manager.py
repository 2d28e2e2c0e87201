"""The subnet manager's doings beside the ports', so that a stall of the manager is told apart from one of the network.

By MADs alone: SMInfo of every manager (state, priority, ActCount, which a living master raises; IBA 14.2.5.13), asked each round. Of a running softib fabric its daemon tells more:
sweeps and their time, what the last sweep could not do, traps.
"""

from __future__ import annotations

import contextlib
import time
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from softib.errors import SoftibError
from softib.iba.constants import CapMask, SmpAttr
from softib.iba.mad_offsets import DATA_AT
from softib.iba.smp import PortInfo, SMInfo
from softib.monitor.opening import Opened
from softib.monitor.poller import Poller
from softib.monitor.requests import sa_gets, smp_gets
from softib.sm.state import SmState

__all__ = ["Manager", "ManagerWatch"]

CLASS_PORT_INFO = 0x01
"""The one attribute that every class has (IBA 13.4.8.1)."""
STALLED_S = 30.0
"""A master whose ActCount stood still for so long while its port answered works no longer (three of OpenSM's light sweeps of 10 s)."""
MISSED = 3
"""Rounds in a row in which a master's port answered everything but SMInfo, from which on it is taken for stalled: a process that hangs answers none."""


@dataclass
class Manager:
    """One subnet manager: ``guid`` of its port, ``lid``, ``state`` (SMState's name), ``priority``, ``act_count``; ``answers``: it answered in the last round; ``still_s``:
    seconds since its ActCount last rose (0: it just did, or was first seen); ``missed``: rounds in a row in which it did not answer although the agents of its port did."""

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
        """The port answers, the manager does not move, or answers nothing: its process hangs, and the network does not."""
        moves = self.missed < MISSED and (self.still_s <= STALLED_S or not self.answers)
        return self.state == "MASTER" and not moves


@dataclass
class ManagerWatch:
    """Follows the managers of the subnet that ``poller`` reads. ``reported``: what the daemon of a running fabric says of its own manager (its ``status``), {} elsewhere;
    ``answer_s``: how long the last SMInfo took (NaN: none came), ``sa_answer_s`` the last query of the master's subnet administration; ``sweep_s``: seconds by phase of the last sweep that the daemon told of (its report of a light sweep has none)."""

    opened: Opened
    poller: Poller
    managers: dict[int, Manager] = field(default_factory=dict)
    reported: dict[str, Any] = field(default_factory=dict)
    answer_s: float = float("nan")
    sa_answer_s: float = float("nan")
    sweep_s: dict[str, float] = field(default_factory=dict)
    _moved: dict[int, tuple[int, float]] = field(default_factory=dict)

    def step(self) -> None:
        """Ask every manager for its SMInfo, and the daemon for its status."""
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

    def _unanswered(self, now: float) -> None:
        """Managers that did not answer SMInfo: their ports' agents may have (a manager answers it, not the agent of its port; IBA 14.4)."""
        last, ports = self.poller.last, self.poller.targets.ports
        for guid, one in self.managers.items():
            if one.answers or last is None or len(last) != len(ports):
                continue
            one.still_s = now - self._moved[guid][1]
            well = bool((last.answered & (ports.lid == one.lid)).any())
            one.missed = one.missed + 1 if well else 0

    def _administration(self) -> None:
        """Time one query of the master's subnet administration."""
        self.sa_answer_s = float("nan")
        master = [m.lid for m in self.managers.values() if m.answers and m.state == "MASTER"]
        if not master:
            return
        began = time.monotonic()

        def heard(tags: np.ndarray, mad: np.ndarray) -> None:
            if len(tags):
                self.sa_answer_s = time.monotonic() - began

        batch = sa_gets(CLASS_PORT_INFO, np.array(master[:1], np.uint16))
        self.poller.gets.run(batch, np.zeros(1, np.int64), 1, heard)

    def _where(self) -> tuple[list[int], np.ndarray]:
        """PortGUIDs and LIDs of the ports that say IsSM, or that discovery found to have a manager."""
        t, poller = self.poller.targets, self.poller
        says = PortInfo.cap_mask.get(poller._info) & int(CapMask.IS_SM) > 0
        lids = dict.fromkeys(t.ports.lid[says].tolist())
        known = poller.manager_lids
        lids.update(dict.fromkeys(known.values()))
        by_lid = {lid: guid for guid, lid in known.items()}
        found = [lid for lid in lids if lid]
        return [by_lid.get(lid, lid) for lid in found], np.array(found, np.uint16)

    def _take(self, guid: int, lid: int, info: np.ndarray, now: float) -> None:
        guid = int(SMInfo.guid.get(info)) or guid
        count, state = int(SMInfo.act_count.get(info)), int(SMInfo.sm_state.get(info))
        before = self._moved.get(guid)
        if before is None or before[0] != count:
            self._moved[guid] = (count, now)
        name = SmState(state).name if state in set(SmState) else str(state)
        still = now - self._moved[guid][1]
        self.managers[guid] = Manager(guid, lid, name, int(SMInfo.priority.get(info)), count, True, still)
