"""Sessions of ``softib sm run``: one manager on one device, which sweeps once, runs until it is stopped, or makes a dry
run."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from softib.errors import InputError, MadTimeout
from softib.iba.smp import PortInfo, SMInfo
from softib.jit import small_work_in_python
from softib.live.internal_sm.guid2lid import read_keys, restore
from softib.live.umad_client.abi import ASKS, MANAGES
from softib.live.umad_client.devices import UmadDevice
from softib.live.umad_client.port import UmadPort
from softib.live.umad_client.wire import MadWire, Master, live_master
from softib.live.umad_sm.manager import Hooks, UmadManager, port_timeout_ms
from softib.mad.batch import MadBatch
from softib.sm.config import SmConfig
from softib.sm.dry_run import AttributeChange, DryRun
from softib.sm.ha.election import SmState
from softib.sm.managers.mkeys import MKeys
from softib.sm.subnet_manager import SubnetManager

__all__ = ["DryWire", "Job", "Plan", "Until", "default_lids", "dry_run", "managing", "serve"]


@dataclass
class DryWire:
    """A wire that passes everything except Sets to ``wire``."""

    wire: MadWire
    dry: DryRun = field(default_factory=DryRun)

    def exchange(self, outbox: MadBatch | None = None) -> MadBatch | None:
        """See :class:`~softib.live.umad_client.wire.MadWire`."""
        return self.dry.back(self.wire.exchange(None if outbox is None else self.dry.out(outbox)))

    def wait(self, timeout_s: float) -> bool:
        """See :class:`~softib.live.umad_client.wire.MadWire`."""
        return self.wire.wait(timeout_s)


TAKE_OVER_PRIORITY = 15
"""The highest priority in SMInfo: a master of lower priority hands over (IBA 14.4.1)."""
HANDOVER_S = 60.0
"""Maximum time for which ``--once`` waits for a master to hand over."""
NOBODY_S_KEY = 0x736F667469622121
"""The SM_Key of a dry run. A manager ignores managers with another SM_Key in the election, so a dry run sees the subnet
as if it were the only manager."""


@dataclass(frozen=True)
class Plan:
    """``once``: end when the subnet is up. ``elects``: the user gave a priority, so the election decides between this
    manager and a live master; otherwise a live master keeps the subnet (:class:`InputError`). ``take_over``: take part
    in the election with the highest priority. ``window``: number of requests on the wire. ``strict``: end if the tables
    have a fault, or if the first sweep left out a device."""

    once: bool = False
    elects: bool = False
    take_over: bool = False
    window: int = 8
    strict: bool = False


def default_lids(device: UmadDevice) -> Path | None:
    """Return the file for LIDs: ``guid2lid`` in OpenSM's OSM_CACHE_DIR if that is set; under ``softib run``, the file
    of the running fabric; otherwise a file for this port in the user's cache."""
    if folder := os.environ.get("OSM_CACHE_DIR"):
        return Path(folder) / "guid2lid"
    if server := os.environ.get("SOFTIB_UMAD"):
        return Path(server).parent / "guid2lid"
    if os.environ.get("IBSIM_SOCKNAME") or os.environ.get("SIM_HOST"):
        return None  # the LIDs of a simulated fabric differ in the next run
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "softib" / "sm"
    try:
        cache.mkdir(parents=True, exist_ok=True)
    except OSError:
        return None
    return cache / f"guid2lid-{device.guid:016x}"


@dataclass(frozen=True)
class Job:
    """A manager to be started: its port, its settings, and hooks."""

    device: UmadDevice
    config: SmConfig
    hooks: Hooks


@contextlib.contextmanager
def managing(job: Job, plan: Plan) -> Iterator[tuple[UmadManager, UmadPort]]:
    """Yield the manager of ``job`` and its open port, which has IsSM set until the block ends.

    Raises :class:`InputError` if a live master exists and no option permits to compete with it.
    """
    device, config = job.device, job.config
    if plan.take_over:
        config = replace(config, priority=TAKE_OVER_PRIORITY)
    port = UmadPort(device, MANAGES, port_timeout_ms(config), plan.window)
    try:
        with small_work_in_python(repeated=not plan.once):
            yield _manager_of(port, config, job, plan), port
    finally:
        port.close()


def _manager_of(port: UmadPort, config: SmConfig, job: Job, plan: Plan) -> UmadManager:
    """Return the manager of ``job`` on its open port, which then has IsSM set."""
    device, hooks = job.device, job.hooks
    if not (plan.elects or plan.take_over):
        _refuse(device, live_master(port, _local_key(device, config, hooks)))
    port.announce()
    # A master looks for other managers when a port sets IsSM (trap 144). It does not hand over to a manager that is
    # still discovering.
    hooks.on_standby = lambda: port.announce(repeated=True)
    return UmadManager(port, config, device, hooks)


def serve(device: UmadDevice, config: SmConfig, plan: Plan, hooks: Hooks) -> UmadManager:
    """Manage the subnet of ``device`` until SIGINT or SIGTERM, or with ``Plan.once`` until it is up.

    Raises :class:`InputError` if a live master exists and no option permits to compete with it, :class:`MadTimeout` if
    the manager's port has no link.
    """
    with managing(Job(device, config, hooks), plan) as (manager, _):
        manager.run(Until(plan, device))
        return manager


def _local_key(device: UmadDevice, config: SmConfig, hooks: Hooks) -> int:
    """Return the M_Key of the manager's port, if known."""
    mkeys = MKeys(config.mkey, config.mkey_lookup)
    if hooks.lids is not None and config.mkey_lookup:
        read_keys(hooks.lids, mkeys)
    return mkeys.held.get(device.guid) or config.mkey


def _refuse(device: UmadDevice, master: Master | None) -> None:
    if master is not None:
        raise InputError(
            f"{device}: this subnet has a master ({master}); --priority N takes part in the election, --take-over "
            f"takes the subnet"
        )


class Until:
    """The condition that ends the session of a manager. It also reports why a manager cannot continue.

    If a manager finds a live master before it has been master itself, the live master keeps the subnet, unless the plan
    permits an election. A manager that was master and has handed over is a standby of the new master (IBA 14.4.1).
    """

    def __init__(self, plan: Plan, device: UmadDevice):
        self.plan, self.device, self.deadline = plan, device, time.monotonic() + HANDOVER_S
        self.judged = self.was_master = False

    def __call__(self, manager: UmadManager) -> bool:
        sm = manager.sm
        self.was_master |= sm.state == SmState.MASTER
        if self.plan.strict and manager.proof is not None and not manager.proof.good:
            return True
        if not sm.phase and sm.sa_manager.subnet is not None and not sm.stale and not sm.patient:
            # A sweep as master is complete. (The trap that IsSM caused requests another one, which is unnecessary.)
            first, self.judged = not self.judged, True
            if self.plan.once or (self.plan.strict and first and sm.report.left_out):
                return True
        if not sm.settled or not sm.sweeps:
            return False
        if sm.state == SmState.STANDBY and not (self.plan.elects or self.plan.take_over or self._stands_by):
            _refuse(self.device, _winner(sm))
            return False
        if not self.plan.once:
            return False
        if sm.state == SmState.DISCOVERING:
            why = "; ".join(sm.report.problems[:3]) or "its link is down"
            raise MadTimeout(f"{self.device}: cannot manage the subnet from this port: {why}")
        if time.monotonic() > self.deadline:
            raise MadTimeout(
                f"{self.device}: another master has not handed over the subnet after {HANDOVER_S:.0f} s; use a "
                f"--priority above its own (it is {sm.config.priority} here)"
            )
        return False

    @property
    def _stands_by(self) -> bool:
        """Return whether this plan lets a standby wait until its master ends."""
        return self.was_master and not self.plan.once


def _winner(sm: SubnetManager) -> Master:
    """Return the master that won the election against this manager, or else the first manager that answered; LID 0 if
    it is unknown."""
    for port in [*sm.election.masters(), *sm.election.others][:1]:
        info = sm.election.others[port]
        lid = int(PortInfo.lid.get(sm.database.port_info[port]))
        return Master(lid, int(SMInfo.guid.get(info)), int(SMInfo.priority.get(info)))
    return Master(0, 0, 0)


@small_work_in_python()
def dry_run(
    device: UmadDevice, config: SmConfig, plan: Plan, hooks: Hooks
) -> tuple[UmadManager, list[AttributeChange], Master | None]:
    """Sweep once as the master of ``device``'s subnet, but without sending a Set. Return the manager, the changes that
    it would make, and the present master.

    The port does not set IsSM, ignores the MADs of others, and sees the subnet as if there were no other manager.
    """
    port = UmadPort(device, ASKS, port_timeout_ms(config), plan.window)
    try:
        master = live_master(port, _local_key(device, config, hooks))
        wire = DryWire(port)
        config = replace(config, sm_key=NOBODY_S_KEY, sweep_interval_ps=0)
        manager = UmadManager(wire, config, device, replace(hooks, lids=None, database=None))
        if hooks.lids is not None:
            restore(hooks.lids, manager.sm)
        manager.run(lambda m: m.sm.sweeps >= 1 and not m.sm.phase)
        if manager.stopping:
            raise KeyboardInterrupt
        if manager.sm.database.sm_port < 0:
            why = "; ".join(manager.sm.report.problems[:3]) or "its link is down"
            raise MadTimeout(f"{device}: cannot read the subnet from this port: {why}")
        return manager, wire.dry.changes(manager.sm.database), master
    finally:
        port.close()
