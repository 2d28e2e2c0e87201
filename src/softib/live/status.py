"""The daemon's report of a running fabric, as ``softib status --json`` prints it."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

import numpy as np

from softib import __version__
from softib.iba.constants import PortState
from softib.jit import in_use
from softib.live.clock import clock_ps
from softib.live.internal_sm.manager import Wait
from softib.live.verbs.shared_heap import VerbsUsage
from softib.result import Result, key
from softib.sm.sweep.report import SweepReport

if TYPE_CHECKING:
    from softib.live.daemon import Daemon

__all__ = ["FabricStatus", "ManagerStatus", "Status", "status_of"]

SHOWN_PROBLEMS = 20


@dataclass
class PortStates(Result):
    """Linked ports by PortState (IBA 14.2.5.6)."""

    down: int
    init: int
    armed: int
    active: int


@dataclass
class LastSweep(Result):
    """The last sweep of the internal manager."""

    report: SweepReport = field(metadata=key(flat=SweepReport))
    sent: int
    sets: int
    refused: dict[str, int]
    """Maps method and attribute to the requests that a node answered with an error."""
    not_active: int
    """Ports that did not become ACTIVE."""


@dataclass
class Administration(Result):
    """Queries of the subnet administration by other programs: since it began, answered BUSY, and waiting now."""

    requests: int
    busy: int
    waiting: int
    wait: Wait


@dataclass
class ManagerStatus(Result):
    """The subnet manager; fields other than ``kind`` only for the internal one."""

    kind: str = field(metadata=key(type=Literal["internal", "external", "none"]))
    engine: str | None = field(default=None, metadata=key(optional=True))
    state: str | None = field(default=None, metadata=key(optional=True))
    """SMState (IBA 14.4.1), or FAILED."""
    phase: str | None = field(default=None, metadata=key(optional=True))
    """Its present activity; empty while it is idle."""
    sweeps: int | None = field(default=None, metadata=key(optional=True))
    node: str | None = field(default=None, metadata=key(optional=True))
    engine_used: str | None = field(default=None, metadata=key(optional=True))
    """The engine of the list that made the tables; empty before the first sweep."""
    problems: list[str] | None = field(default=None, metadata=key(optional=True))
    sa: Administration | None = field(default=None, metadata=key(optional=True))
    report: LastSweep | None = field(default=None, metadata=key(optional=True))


@dataclass
class Client(Result):
    """A program on a port."""

    client: int
    pid: int
    node: str
    portnum: int
    sm: bool
    """It is a subnet manager."""
    waiting: int
    """MADs that it has not read."""


@dataclass
class Mads(Result):
    """MADs since the fabric began to run."""

    answered: int
    forwarded: int
    timed_out: int


@dataclass
class FabricStatus(Result):
    """A running fabric."""

    name: str
    pid: int
    source: str
    ready: bool
    ready_s: float | None
    uptime_s: float
    nodes: int
    switches: int
    cas: int
    links: int
    port_states: PortStates
    sm: ManagerStatus
    pace: bool
    """Messages of programs take as long as on the wire (softib up --pace)."""
    clients: list[Client]
    verbs: VerbsUsage
    mads: Mads
    traps: dict[str, int]
    kernels: str
    bugs: int
    log: str
    epoch: int
    shared_fabric: str
    sockname: str
    version: str
    """The version of softib that runs it."""


@dataclass
class Status(Result):
    """Running fabrics; softib up --json prints the one that it started, as soon as it is ready."""

    fabrics: list[FabricStatus]


def status_of(daemon: Daemon) -> FabricStatus:
    """Return the report of ``daemon`` on its fabric now."""
    f, router = daemon.fabric, daemon.router
    states = np.bincount(f.port_state[f.linked], minlength=5)
    clients = (*daemon.server.clients.values(), *daemon.umads.files.values())
    return FabricStatus(
        daemon.instance.name,
        int(daemon.shared.header["pid"]),
        daemon.settings.source,
        daemon.ready,
        daemon.ready_s,
        round(time.monotonic() - daemon.began, 3),
        f.sizes.nodes,
        f.sizes.switches,
        len(f.cas),
        f.sizes.cables,
        PortStates(**{s.name.lower(): int(states[s]) for s in PortState if s}),
        _manager(daemon),
        daemon.settings.pace,
        [Client(c.number, c.pid, c.name, int(f.port_num[c.port]), c.issm, len(c.queue)) for c in clients],
        daemon.verbs.memory.usage(),
        Mads(router.answered, router.forwarded, router.bounced),
        {**router.trap_queue.stats(), **router.trap_queue.by_number()},
        in_use(),
        daemon.crash_log.count,
        str(daemon.instance.log),
        router.epoch,
        str(daemon.instance.shared_fabric),
        daemon.server.sockets.environment.get("IBSIM_SOCKNAME", ""),
        __version__,
    )


def _manager(daemon: Daemon) -> ManagerStatus:
    if daemon.manager is None:
        return ManagerStatus(daemon.settings.sm)
    sm, sa = daemon.manager.sm, daemon.manager.sm.sa_manager
    report = sm.report
    return ManagerStatus(
        "internal",
        sm.config.engine,
        "FAILED" if daemon.manager_failed else sm.state.name,
        sm.phase,
        sm.sweeps,
        daemon.fabric.port_name(daemon.manager.port),
        "" if sm.routing is None else sm.routing.engine,
        [str(p) for p in report.problems[:SHOWN_PROBLEMS]],
        Administration(
            sa.requests, sa.refused, len(sa.queue) + len(sa.waiting), daemon.manager.sa_wait.status(clock_ps())
        ),
        LastSweep(report, report.sent, report.sets, report.refused, len(report.not_active)),
    )
