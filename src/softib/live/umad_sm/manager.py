"""The event loop of :class:`~softib.sm.subnet_manager.SubnetManager` on a umad device."""

from __future__ import annotations

import logging
import os
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from softib.errors import PeerError, SoftibError, os_reason
from softib.iba.constants import PortState
from softib.input_files import FILE_LIMIT, read_text
from softib.live.clock import clock_ps
from softib.live.internal_sm.guid2lid import keep, restore
from softib.live.umad_client.devices import UmadDevice, port_state
from softib.live.umad_client.wire import MadWire, Pacing
from softib.mad.batch import MadBatch
from softib.sm.config import SmConfig
from softib.sm.ha.election import SmState
from softib.sm.sa.dump import dump, read_dump
from softib.sm.subnet_manager import SubnetManager
from softib.sm.tables.table_proof import PROVED, TableProof, prove_tables

__all__ = ["Hooks", "PortLog", "UmadManager", "port_log"]

CHUNK = 4096
LONGEST_WAIT_S = 0.25
"""Longest wait of the loop, and so the longest delay before a signal is noticed."""
LOOK_S = 1.0
"""Interval at which the state of the manager's port is read from sysfs."""
RETRY_S = 10.0
"""Interval at which a manager tries again if its port has no link or does not answer (OpenSM's sweep_interval)."""
UNHEARD_PS = 20 * 10**9
"""If a process has not read the wire for this time, it reads before it judges timeouts. It may have waited for a
processor or for the manager of another port, and answers that arrived meanwhile are in time."""
KEEP_S = 10.0
"""The shortest time between two writes of the administrator's database."""


class PortLog(logging.LoggerAdapter[logging.Logger]):
    """The log of the manager on one port. Each line names the port, because one process may manage several."""

    def process(self, msg: Any, kwargs: Any) -> tuple[Any, Any]:
        """Add the port to a record."""
        return msg, {**kwargs, "extra": {**(self.extra or {}), **kwargs.get("extra", {})}}


def port_log(device: UmadDevice | None) -> PortLog:
    """Return the log of the manager on ``device``."""
    return PortLog(logging.getLogger("softib.sm"), {} if device is None else {"port": str(device)})


@dataclass
class Hooks:
    """Hooks and options of :meth:`UmadManager.run`: ``on_step`` after each step;
    ``on_standby`` when it becomes a standby; ``reread`` reads the settings from the files again (SIGHUP); ``lids``: the
    file that stores LIDs between runs (None: not stored; M_Keys are in the same folder); ``database``: the file that
    stores groups, subscriptions and services between runs (OpenSM's opensm-sa.dump); ``proves_all``: tables of any size
    are proved (for a manager that ends after that, so that nothing waits for it)."""

    on_step: Callable[[UmadManager], None] = lambda manager: None
    on_standby: Callable[[], None] = lambda: None
    reread: Callable[[], SmConfig] | None = None
    lids: Path | None = None
    database: Path | None = None
    proves_all: bool = False


@dataclass
class _Seen:
    """The most recently logged state."""

    sweeps: int = 0
    state: SmState = SmState.DISCOVERING
    problems: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    lft: np.ndarray | None = None
    links: int = 0


class UmadManager:
    """A subnet manager on ``wire``. It watches the link of ``device`` (None: it watches no link).

    :meth:`run` serves until :meth:`stop`, SIGINT or SIGTERM; SIGHUP reads the settings again and
    sweeps. Raises :class:`PeerError` if the device was removed. An error of the first sweep is raised; errors of later
    sweeps are logged.
    """

    def __init__(self, wire: MadWire, config: SmConfig, device: UmadDevice | None = None, hooks: Hooks | None = None):
        self.wire, self.device, self.hooks = wire, device, hooks or Hooks()
        self.log = port_log(device)
        self.sm = SubnetManager(_on_wire(config))
        self.pacing = Pacing(self.sm.transactor)
        self.sm.mkeys.local_guid = 0 if device is None else device.guid
        if self.hooks.lids is not None:
            restore(self.hooks.lids, self.sm)
        self._kept, self._keep_at = "", 0.0
        self._restore()
        self.began_ps = clock_ps()
        self.stopping = self._reload = False
        self._inbox: MadBatch | None = None
        self._looked_ps = 0
        self._seen = _Seen()
        self._swept = 0
        self.proof: TableProof | None = None
        """The result of the proof of the tables from the last sweep as master."""
        self._link, self._look_at = 0, 0.0
        self._retry_at = 0.0

    # -- life --

    def run(self, until: Callable[[UmadManager], bool] = lambda manager: False) -> None:
        """Call :meth:`step` until ``until`` returns true or :meth:`stop` is called."""
        before = {s: signal.signal(s, lambda *_: self.stop()) for s in (signal.SIGINT, signal.SIGTERM)}
        before[signal.SIGHUP] = signal.signal(signal.SIGHUP, lambda *_: self.reload())
        try:
            while not self.stopping:
                wait_s = self.advance()
                if until(self):
                    return
                self._wait(wait_s)
        finally:
            self.close()
            for s, handler in before.items():
                signal.signal(s, handler)

    def stop(self) -> None:
        """Leave :meth:`run` after this step."""
        self.stopping = True

    def step(self) -> None:
        """Step the manager, send its MADs, and receive; wait if it has no work."""
        self._wait(self.advance())

    def _wait(self, wait_s: float | None) -> None:
        """Wait for MADs for the time that :meth:`advance` returned, and receive them."""
        if wait_s is not None and (wait_s <= 0 or self.wire.wait(wait_s)):
            self.take()

    def take(self) -> None:
        """Receive pending MADs for the next step."""
        self._exchange(None)

    def _exchange(self, outbox: MadBatch | None) -> None:
        came = self.wire.exchange(outbox)
        self._looked_ps = clock_ps()
        here = [batch for batch in (self._inbox, came) if batch is not None]
        self._inbox = MadBatch.concat(here) if len(here) > 1 else here[0] if here else None

    def reload(self) -> None:
        """Read the settings again before the next step, and sweep."""
        self._reload = True

    def close(self) -> None:
        """Store the state for the next run."""
        self._keep_database(now=True)

    def advance(self) -> float | None:
        """Do one step without a wait. Return None if MADs were sent (their answers have been received), otherwise the
        seconds for which the caller may wait for MADs before the next call. The caller must pass MADs that arrive
        meanwhile with :meth:`take`."""
        if self._reload:
            self._reload = False
            self._read_settings()
        self._look_at_link()
        now_ps = clock_ps()
        if now_ps - self._looked_ps > UNHEARD_PS:
            self.take()
        try:
            outbox, deadline_ps = self.sm.step(now_ps, self._inbox)
            self.sm.postpone(clock_ps() - now_ps)
        except SoftibError as error:
            if isinstance(error, PeerError) or self.sm.sweeps <= 1:
                raise
            self.log.error("sweep abandoned", extra={"why": str(error)})
            self._inbox, self._retry_at = None, time.monotonic() + RETRY_S
            return None
        self._inbox = None
        if len(outbox):
            began = clock_ps()
            self._exchange(outbox)
            self.pacing.took(len(outbox), clock_ps() - began)
        self._after()
        self.hooks.on_step(self)
        return None if len(outbox) else min(LONGEST_WAIT_S, (deadline_ps - clock_ps()) / 1e12)

    # -- files, and the link of the port --

    def _restore(self) -> None:
        """Load the subnet administrator's state from an earlier run, if its file exists. Raises :class:`InputError`
        with file and line."""
        path = self.hooks.database
        if path is None or not path.is_file():
            return
        copy = read_dump(
            read_text(path, "dump of the administrator", FILE_LIMIT, errors="replace"), str(path), clock_ps()
        )
        copy.here = list(self.sm.lids)
        self.sm.sa_manager.restore(copy, self.sm.config)

    def _keep_database(self, now: bool = False) -> None:
        """Write the file of the subnet administrator's state if the state has changed, at most once in ten seconds. An
        error is logged."""
        path, server = self.hooks.database, self.sm.sa_manager
        if path is None or server.subnet is None or (not now and time.monotonic() < self._keep_at):
            return
        self._keep_at = time.monotonic() + KEEP_S
        text = dump(server, clock_ps())
        if text == self._kept:
            return
        try:
            new = path.with_suffix(path.suffix + ".new")
            new.write_text(text, encoding="utf-8")
            os.replace(new, path)
            self._kept = text
        except OSError as error:
            self.log.warning("database not kept", extra={"why": f"{path}: {os_reason(error)}"})

    def _read_settings(self) -> None:
        """Read the files again after SIGHUP; an invalid file has no effect."""
        try:
            if self.hooks.reread is not None:
                self.sm.reconfigure(_on_wire(self.hooks.reread()))
            else:
                self.sm.request_sweep()
            self.log.info("settings read")
        except SoftibError as error:
            self.log.error("settings not read", extra={"why": str(error)})

    def _look_at_link(self) -> None:
        """Sweep if the link of the manager's port has come up; no trap reports this (see ``InternalManager``)."""
        now = time.monotonic()
        if self.device is None or now < self._look_at:
            return
        self._look_at = now + LOOK_S
        link = port_state(self.device.ca, self.device.portnum)
        if link > PortState.DOWN and self._link == PortState.DOWN:
            self.log.info("link is up")
            self.sm.request_sweep()
        self._link = link
        if self.sm.settled and self.sm.state == SmState.DISCOVERING and now >= self._retry_at:
            self._retry_at = now + RETRY_S
            self.sm.request_sweep()

    def _after(self) -> None:
        """Keep LIDs and write the log when a sweep is over."""
        sm, seen = self.sm, self._seen
        self._keep_database()
        if sm.state != seen.state:
            self._keep_at = 0.0
            self.log.info("state", extra={"was": seen.state.name, "now": sm.state.name})
            seen.state = sm.state
            if sm.state == SmState.STANDBY:
                self.hooks.on_standby()
        if sm.phase or sm.sweeps == seen.sweeps:
            return
        seen.sweeps = sm.sweeps
        self._retry_at = time.monotonic() + RETRY_S
        if self.hooks.lids is not None:
            keep(self.hooks.lids, sm)
        if sm.report.nodes or sm.state != SmState.STANDBY:  # a standby found the master
            self.log.info("sweep", extra=numbers(sm))
        self._judge_tables()
        for problem in sm.report.problems:
            if problem not in seen.problems:
                self.log.warning("problem", extra={"what": problem})
        for note in sm.report.notes:
            if note not in seen.notes:
                self.log.info("note", extra={"what": note})
        seen.problems, seen.notes = list(sm.report.problems), list(sm.report.notes)

    def _judge_tables(self) -> None:
        """Prove tables that are new, and log the verdict."""
        sm, seen = self.sm, self._seen
        if sm.state != SmState.MASTER or sm.graph is None or sm.routing is None or sm.routing.lft is seen.lft:
            return
        if not sm.graph.n_switches:
            self.proof = None
            return
        most = None if self.hooks.proves_all else PROVED
        began, before, links = clock_ps(), seen.lft, seen.links
        seen.lft, seen.links = sm.routing.lft, sm.report.links
        if before is not None and links == seen.links and np.array_equal(before, seen.lft):
            return
        self.proof = prove_tables(sm.database, sm.graph, sm.routing, sm.config, most)
        sm.postpone(clock_ps() - began)
        self.log.log(logging.INFO if self.proof.good else logging.WARNING, "tables", extra=self.proof.to_json())


def numbers(sm: SubnetManager) -> dict[str, Any]:
    """Return the numbers of the last sweep, for the log."""
    r = sm.report
    return {
        "sweep": sm.sweeps,
        "nodes": r.nodes,
        "switches": r.switches,
        "cas": r.cas,
        "links": r.links,
        "mads": r.sent,
        "sets": r.sets,
        "retries": r.retries,
        "timeouts": r.timeouts,
        "seconds": round(sum(r.phase_s.values()), 3),
        "problems": len(r.problems),
    }


def _on_wire(config: SmConfig) -> SmConfig:
    """Return ``config`` for a wire: pacing sets the number of MADs that are sent at a time, and the port has the window
    of outstanding requests."""
    return replace(config, chunk=CHUNK)


def port_timeout_ms(config: SmConfig) -> int:
    """Return the time for which the driver waits for an answer. It is a little shorter than the manager's timeout: the
    manager's retry has the same TransactionID, which must be free by then."""
    return max(1, config.timeout_ps * 9 // 10**10)
