"""Our subnet manager inside the daemon: it sits on a port like a program, and speaks nothing but
MADs."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np

from softib.iba.constants import RESPONSE_BIT, Method, MgmtClass, PortState, SmpAttr
from softib.iba.smp import CLASS_AT, METHOD_AT, TID_AT, MadHeader, PortInfo
from softib.live.clock import clock_ps
from softib.live.internal_sm.guid2lid import read_lids, write_lids
from softib.live.internal_sm.kept_keys import read_keys, write_keys
from softib.live.internal_sm.sa_wait import SaWait
from softib.live.mad_router import MadRouter
from softib.live.umad.file import RmppPayload
from softib.mad.batch import MadBatch
from softib.sm.config import SmConfig
from softib.sm.subnet_manager import SubnetManager

__all__ = ["MANAGER_NUMBER", "InternalManager"]

MANAGER_NUMBER = 0xFFFF
"""Its client number; programs have smaller ones."""
WINDOW = 4096
STATE_AT = PortInfo.port_state.byte
SLICE_PS = 20_000_000_000
"""How long it may work before programs have their turn (20 ms)."""


class InternalManager:
    """A station (see :class:`softib.live.mad_router.Station`) whose program is
    :class:`SubnetManager`.

    It answers SMInfo and SA requests, and takes traps. ``payload`` gives the whole of an RMPP
    message while its first octets are delivered (None: it is no longer than a MAD). ``lids`` is the
    file that keeps the LIDs of ports from one run to the next (None: nothing is kept).
    """

    number = MANAGER_NUMBER
    issm = True

    def __init__(self, router: MadRouter, port: int, config: SmConfig, lids: Path | None = None):
        self.router, self.port = router, port
        self.classes = np.zeros(256, np.uint8)
        self.sm = SubnetManager(_at_home(config))
        self.lids, self._swept = lids, 0
        if lids is not None and not config.reassign_lids:
            self.sm.lids.update(read_lids(lids))
        self.sm.mkeys.local_guid = int(router.fabric.port_guid[port])
        if lids is not None:
            read_keys(lids, self.sm.mkeys)
        self.payload: Callable[[], RmppPayload | None] = lambda: None
        self._inbox: list[MadBatch] = []
        self.sa_wait = SaWait()
        self._deadline_ps = 0
        self._port_info, self._was_up = router.fabric.port_info[port], True
        self.ready = False
        router.join(self)

    def takes(self, mad: np.ndarray) -> bool:
        """Get and Set of SMInfo, traps, SA requests, answers to what it reported, and other
        managers' records."""
        klass, method, attr = int(mad[CLASS_AT]), int(mad[METHOD_AT]), int(MadHeader.attr_id.get(mad))
        if klass in (MgmtClass.SUBN_ADM, MgmtClass.SM_REPLICA):
            return True
        if klass not in (MgmtClass.SUBN_LID, MgmtClass.SUBN_DR):
            return False
        if attr == SmpAttr.SM_INFO:
            return method in (Method.GET, Method.SET, Method.GET_RESP)
        return attr == SmpAttr.NOTICE and method == Method.TRAP

    def deliver(self, batch: MadBatch) -> None:
        """Keep them until the next :meth:`run`."""
        batch = batch.copy()
        batch.sl[:] = batch.pkey_index[:] = 0  # its answers leave on SL 0, with the first P_Key of its port
        payload = self.payload()
        if payload is not None:
            batch.payload = {0: os.pread(payload.fd, payload.octets, 0)}
        self.sa_wait.came(batch, clock_ps())
        self._inbox.append(batch)

    def sweep(self, config: SmConfig | None = None) -> None:
        """Look at the whole subnet again, with other settings if there are some."""
        if config is None:
            self.sm.request_sweep()
        else:
            self.sm.reconfigure(_at_home(config))
        self._deadline_ps = 0

    def _keep_lids(self) -> None:
        """After a sweep."""
        if self.lids is not None and self._swept != self.sm.sweeps and self.sm.lids:
            write_lids(self.lids, self.sm.lids)
            write_keys(self.lids, self.sm.mkeys)
        self._swept = self.sm.sweeps

    def _look_at_port(self) -> None:
        """Its own link came back: sweep. No trap tells it: those of the switch at the other end
        found no way while the link was down, and are repeated ever more rarely; and a sweep
        meanwhile saw no switch that could be asked again. The host's driver knows (event "port
        active", IBA 11.6.3.3)."""
        up = self._port_info[STATE_AT] & 0xF > PortState.DOWN  # at each turn of the daemon: no array for it
        if up and not self._was_up:
            self.sweep()
        self._was_up = up

    def wait_s(self, now_ps: int) -> float:
        """Seconds until it wants to run again (0: at once)."""
        self._look_at_port()
        if self._inbox:
            return 0.0
        return max(0.0, (self._deadline_ps - now_ps) / 1e12)

    def run(self, clock: object, now_ps: int) -> None:
        """Step the manager until it has to wait, or its slice is over. ``clock`` gives the time in
        ps."""
        assert callable(clock)
        end_ps = now_ps + SLICE_PS
        while now_ps < end_ps:
            inbox = MadBatch.concat(self._inbox) if self._inbox else None
            self._inbox = []
            outbox, self._deadline_ps = self.sm.step(now_ps, inbox)
            if len(outbox):
                _stamp(outbox)
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
    """Nothing is between the manager and the agents: the window is as wide as the cache."""
    return replace(config, window=WINDOW, chunk=WINDOW)


def _stamp(outbox: MadBatch) -> None:
    """Put the manager's number into the TIDs of requests: programs that answer them are heard then.
    A TrapRepress carries the trap's own."""
    asks = (outbox.mad[:, METHOD_AT] < RESPONSE_BIT) & (outbox.mad[:, METHOD_AT] != Method.TRAP_REPRESS)
    outbox.mad[asks, TID_AT], outbox.mad[asks, TID_AT + 1] = MANAGER_NUMBER >> 8, MANAGER_NUMBER & 0xFF
