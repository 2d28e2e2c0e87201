"""A running fabric: its arrays in shared memory, agents, servers and possibly a subnet manager, driven by one event
loop in one thread.

A peer of the loop registers its sockets in the selector. The data of a registration is a function that handles the
ready events. The peer also reports the longest time for which the loop may wait for a socket. No peer blocks, so none
delays another.
"""

from __future__ import annotations

import contextlib
import resource
import selectors
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from softib.agents.plane import AgentPlane
from softib.errors import InputError, SoftibError
from softib.fabric.model import Fabric
from softib.fabric.node_finder import port_named
from softib.fabric.power_cycle import power_on
from softib.input_files import read_text
from softib.live.clock import clock_ps
from softib.live.control import ControlServer
from softib.live.crash_log import CrashLog, say
from softib.live.faults.controller import FaultController
from softib.live.ibsim.server import IbsimServer
from softib.live.ibsim.sockets import UdpSockets, UnixSockets, drawn_name
from softib.live.instances import Instance
from softib.live.internal_sm.manager import InternalManager
from softib.live.mad_capture import MadCapture
from softib.live.mad_router import MadRouter
from softib.live.operations import Operations, Ranks
from softib.live.rdma_cm.server import RdmaCmServer
from softib.live.shared_fabric import SharedFabric
from softib.live.sysfs.node_profile import NodeProfile
from softib.live.umad.server import UmadServer
from softib.live.verbs.server import VerbsServer
from softib.live.verbs.shared_heap import UnreadCompletions
from softib.live.verbs.traffic import Traffic
from softib.sm.config import SmConfig
from softib.sm.managers.partitions import parse_changes

__all__ = ["Daemon", "EventLoop", "Peer", "Settings"]


class Peer(Protocol):
    """A part of the daemon that the event loop drives, in addition to sockets."""

    def wait_s(self, now_ps: int) -> float:
        """Return the seconds until :meth:`tick` has work (infinite: it has work only when a socket is ready)."""

    def tick(self, now_ps: int) -> None:
        """Execute everything that is due. Called after each wait, even one that ended early."""


class EventLoop:
    """The event loop: it waits for the sockets in ``selector``, and drives ``peers`` in order. ``on_ready`` gets the
    number of ready sockets before they are handled."""

    def __init__(
        self, selector: selectors.BaseSelector, *peers: Peer, on_ready: Callable[[int], None] = lambda sockets: None
    ):
        self.selector, self.peers, self.on_ready = selector, list(peers), on_ready

    def step(self, timeout_s: float) -> None:
        """Wait for at most ``timeout_s`` and handle everything that has arrived."""
        now_ps = clock_ps()
        ready = self.selector.select(min(timeout_s, *(peer.wait_s(now_ps) for peer in self.peers)))
        self.on_ready(len(ready))
        for key, events in ready:
            key.data(events)
        for peer in self.peers:
            peer.tick(clock_ps())


PAUSE_S = 0.05
DESCRIPTORS = 1 << 16
"""The daemon raises its limit of descriptors to this number, if the hard limit permits it."""
IDLE_S = 0.25
"""Longest wait of the loop, and so the longest delay before a signal is noticed."""
LEAST_ROOM = 1 << 16
"""A file system with fewer bytes left counts as full."""


def _raise_descriptor_limit() -> None:
    """Raise the limit: each attached program takes several descriptors of the daemon. (The low soft limit is meant for
    programs that use select(2).)"""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = DESCRIPTORS if hard == resource.RLIM_INFINITY else min(hard, DESCRIPTORS)
    if soft != resource.RLIM_INFINITY and soft < most:
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))


@dataclass(frozen=True)
class Settings:
    """The options of ``softib up``. ``sm``: internal, external (a stock manager will attach) or
    none. ``node``: the node of the internal manager (None:
    :func:`~softib.fabric.node_finder.default_port`). ``udp``: serve on this UDP port of the
    loopback instead of abstract Unix sockets. ``config``: the configuration of the internal
    manager; ``reread`` reads it from its files again. ``pcap``: capture MADs into this file.
    ``pace``: programs' messages take as long as on the wire. ``profile``: the machine model of every host."""

    source: str = ""
    sm: str = "internal"
    node: str | None = None
    config: SmConfig = field(default_factory=SmConfig)
    udp: int | None = None
    reread: Callable[[str | None], SmConfig] | None = None
    pcap: str | None = None
    pace: bool = False
    profile: NodeProfile | None = None


class Daemon:
    """The daemon that runs ``fabric`` in ``instance`` until :meth:`stop` is called. Raises :class:`InputError` if a
    socket or the shared fabric cannot be made. ``ready_s`` counts from ``began`` (monotonic seconds).
    """

    def __init__(self, instance: Instance, fabric: Fabric, settings: Settings, began: float | None = None):
        self.began = time.monotonic() if began is None else began
        self.instance, self.settings = instance, settings
        with contextlib.ExitStack() as parts:  # closes the parts if one of them fails
            self._make(fabric, parts.callback)
            self._parts = parts.pop_all()
        self.ready_s: float | None = None
        self._fold_at = 0.0
        self._full = False
        self.stopping = self.reload = False
        self.manager_failed = False
        self.partitions: str | None = None
        """The partition file that a program has passed to the manager since the start, if any."""

    def _make(self, fabric: Fabric, closing: Callable[[Callable[[], None]], object]) -> None:
        """Create the parts, and register the closing of each with ``closing``."""
        settings, instance = self.settings, self.instance
        fabric.name = instance.name
        power_on(fabric, keep_lids=True)  # before sharing: reading unwritten shared pages allocates them
        self.shared = SharedFabric.create(instance.shared_fabric, fabric)
        closing(self.shared.close)
        self.fabric = self.shared.fabric
        plane = AgentPlane(self.fabric)
        self.traffic = Traffic(instance.traffic, plane.tables)
        closing(self.traffic.close)
        self.router = MadRouter(plane, self.traffic.cells)
        self.faults = FaultController(self.router)
        self.crash_log = self.router.report_bug = CrashLog(instance.log)
        self.selector = selectors.DefaultSelector()
        closing(self.selector.close)
        sockets = UnixSockets(drawn_name(instance.name)) if settings.udp is None else UdpSockets(port=settings.udp)
        self.server = IbsimServer(self.router, sockets, self.selector)
        closing(self.server.close)
        self.ranks = Ranks(self.server.finder)
        self.umads = UmadServer(self.router, instance.folder, self.selector, profile=settings.profile)
        closing(self.umads.close)
        self.verbs = VerbsServer(self.router, self.traffic, self.shared, instance.folder, self.selector, clock_ps)
        closing(self.verbs.close)
        unread = UnreadCompletions(self.verbs.memory)
        self.cm = RdmaCmServer(self.router, instance.folder, self.selector, self.umads.views, unread=unread)
        closing(self.cm.close)
        self.operations = Operations(self)
        self.control = ControlServer(instance.control, self.selector, self.operations.table(), self.crash_log)
        closing(self.control.close)
        peers: tuple[Peer, ...] = self.router, self.server, self.umads, self.cm, self.faults
        self.loop = EventLoop(self.selector, *peers, on_ready=self.router.on_ready)
        self.manager: InternalManager | None = None
        if settings.sm == "internal":
            self.manager = InternalManager(
                self.router, port_named(self.fabric, settings.node), settings.config, instance.folder / "guid2lid"
            )
            self.manager.arrival = lambda: self.umads.requests.ancillary
        self.pcap = MadCapture(settings.pcap, self.fabric) if settings.pcap else None
        if self.pcap is not None:
            closing(self.pcap.close)
            self.router.capture(self.pcap)
            self.pcap.message, self.pcap.whole = self.umads.message, self.umads.takes_whole

    # -- life --

    @property
    def ready(self) -> bool:
        """Return whether the subnet is up, or this daemon has no manager to bring it up."""
        return self.manager is None or self.manager.ready

    def run(self, on_step: Callable[[Daemon], None] = lambda daemon: None) -> None:
        """Serve until :meth:`stop`, SIGINT or SIGTERM; ``on_step`` is called after each :meth:`step`."""
        _raise_descriptor_limit()
        before = {s: signal.signal(s, lambda *_: self.stop()) for s in (signal.SIGINT, signal.SIGTERM)}
        before[signal.SIGHUP] = signal.signal(signal.SIGHUP, lambda *_: setattr(self, "reload", True))
        try:
            while not self.stopping:
                self.step()
                on_step(self)
        finally:
            for s, handler in before.items():
                signal.signal(s, handler)
            self.close()

    def step(self) -> None:
        """Let the internal manager work, then serve every program once. An exception in the manager
        is logged, and the fabric keeps running."""
        self._publish()  # before a sweep, which takes time, so that a program learns at once that its cable was pulled
        if self.reload:  # SIGHUP has the same meaning as for OpenSM
            self.reload = False
            try:
                self.sweep(reload=True)
            except SoftibError as error:
                print(f"softib: {error}", file=sys.stderr)
        wait_s = min(IDLE_S, self._manage())
        self._publish()
        if self.ready_s is None and self.ready:
            self.ready_s = time.monotonic() - self.began
        try:
            self.loop.step(wait_s)
        except Exception:
            self.crash_log("serving")
            time.sleep(PAUSE_S)  # the operation may fail again at once

    def _manage(self) -> float:
        """Run the internal manager; return the seconds until it has work again. If it fails, it is removed from its
        port; the attributes that it has set stay. If the subnet is not up yet, the daemon fails too."""
        if self.manager is None or self.manager_failed:
            return IDLE_S
        now_ps = clock_ps()
        try:
            if self.manager.wait_s(now_ps) == 0.0:
                self.manager.run(clock_ps, now_ps)
            return self.manager.wait_s(clock_ps())
        except Exception:
            if self.ready_s is None:
                raise
            self.crash_log("managing the subnet")
            self.manager_failed = True
            self.router.leave(self.manager)
            return IDLE_S

    def _publish(self) -> None:
        """Report to applications the changes that MADs and faults have made, and count the applications' traffic."""
        try:
            if self.shared.epoch != self.router.epoch:
                self.faults.faults.publish()  # a link that trained to another speed has another rate
                self.shared.epoch = self.router.epoch
                self.verbs.tick()
            if time.monotonic() >= self._fold_at:
                self._fold_at = time.monotonic() + IDLE_S
                self.router.fold(clock_ps())
                self.faults.settle(clock_ps())
                self.verbs.memory.tick()
                self._watch_room()
                for server in (self.umads, self.verbs, self.cm, self.control):
                    server.expire()
                if self.pcap is not None:
                    self.pcap.flush()
        except Exception:
            self.crash_log("telling applications")

    def _watch_room(self) -> None:
        """Log once, each time that the file system of the fabric's directory becomes full."""
        full = self.verbs.memory.room() < LEAST_ROOM
        if full and not self._full:
            say(
                f"{self.instance.folder}: the file system is full; programs get ENOMEM for more RDMA objects until "
                f"there is room"
            )
        self._full = full

    def sweep(self, reload: bool = False, partitions: str | None = None) -> int:
        """Make the internal manager sweep the subnet again; with ``reload``, it reads its files first. ``partitions``:
        the partition file that it uses from now on. Returns the number of sweeps so far. Raises :class:`InputError` if
        there is no manager, or if a file cannot be used (the manager then continues as before)."""
        if self.manager is None or self.manager_failed:
            raise InputError(
                f"{self.instance.name} has no internal subnet manager, which a sweep needs; start the fabric with "
                f"'softib up --sm internal'"
            )
        sweeps = self.manager.sm.sweeps
        reread = self.settings.reread if reload else None
        config = None if reread is None else reread(partitions or self.partitions)
        self.partitions = partitions or self.partitions
        self.manager.sweep(config)
        return sweeps

    def repartition(self, path: str) -> bool:
        """Make the internal manager program only the partitions in the file ``path``. Return False if the change needs
        :meth:`sweep` with the complete partition file instead. Raises :class:`InputError` as :meth:`sweep` does."""
        if self.manager is None or self.manager_failed:
            raise InputError(
                f"{self.instance.name} has no internal subnet manager, which programs partitions; start the fabric "
                f"with 'softib up --sm internal'"
            )
        return self.manager.repartition(parse_changes(read_text(path, "changed partitions"), path))

    def stop(self) -> None:
        """Leave :meth:`run` after this :meth:`step`."""
        self.stopping = True

    def close(self) -> None:
        """Close every socket and release the fabric's name."""
        self._parts.close()
        self.instance.release()
