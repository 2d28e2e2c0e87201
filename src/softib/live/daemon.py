"""A running fabric: its arrays in shared memory, agents, servers and perhaps a subnet manager, driven by one event loop."""

from __future__ import annotations

import selectors
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import numpy as np

from softib import __version__
from softib.agents.plane import AgentPlane
from softib.errors import InputError, SoftibError
from softib.fabric.default_port import default_port
from softib.fabric.model import Fabric
from softib.fabric.node_finder import port_named
from softib.iba.constants import PortState
from softib.jit import in_use
from softib.live.clock import clock_ps
from softib.live.control.server import ControlServer
from softib.live.crash_log import CrashLog
from softib.live.event_loop import EventLoop, Peer
from softib.live.faults.controller import FaultController
from softib.live.ibsim.server import IbsimServer
from softib.live.ibsim.sockets import UdpSockets, UnixSockets
from softib.live.instances import Instance
from softib.live.internal_sm.jobs import job_of
from softib.live.internal_sm.manager import InternalManager
from softib.live.launch.ranks import Ranks
from softib.live.mad_capture import MadCapture
from softib.live.mad_router import MadRouter
from softib.live.rdma_cm.server import RdmaCmServer
from softib.live.rdma_cm.unread_completions import UnreadCompletions
from softib.live.shared_fabric import SharedFabric
from softib.live.umad.server import UmadServer
from softib.live.verbs.server import VerbsServer
from softib.live.verbs.traffic import Traffic
from softib.sm.config import SmConfig

__all__ = ["Daemon", "Settings"]

PAUSE_S = 0.05
IDLE_S = 0.25
"""Longest wait of the loop: how late a signal is noticed at most."""
MOST_NAMES = 1000
"""A shell's completion shows no more."""


@dataclass(frozen=True)
class Settings:
    """The options of ``softib up``. ``sm``: internal, external (a stock one will attach) or none. ``node``: the one that the
    internal manager sits on (None: :func:`~softib.fabric.default_port.default_port`). ``udp``: serve on this
    UDP port of the loopback instead of abstract Unix sockets. ``config``: of the internal manager,
    ``reread`` gives it as its files say now. ``pcap``: capture MADs into this file. ``pace``: what
    programs send takes the wire's time."""

    source: str = ""
    sm: str = "internal"
    node: str | None = None
    config: SmConfig = field(default_factory=SmConfig)
    udp: int | None = None
    reread: Callable[[], SmConfig] | None = None
    pcap: str | None = None
    pace: bool = False


class Daemon:
    """Runs ``fabric`` in ``instance`` until :meth:`stop`. Raises :class:`InputError` where a socket or the shared fabric
    cannot be. ``began`` (monotonic seconds) is what ``ready_s`` counts from."""

    def __init__(self, instance: Instance, fabric: Fabric, settings: Settings, began: float | None = None):
        self.began = time.monotonic() if began is None else began
        self.instance, self.settings = instance, settings
        fabric.name = instance.name
        fabric.power_on(keep_lids=True)  # before: in shared memory a look at a page that nobody wrote costs it
        self.shared = SharedFabric.create(instance.shared_fabric, fabric)
        self.fabric = self.shared.fabric
        plane = AgentPlane(self.fabric)
        self.traffic = Traffic(instance.traffic, plane.tables)
        self.router = MadRouter(plane, self.traffic.cells)
        self.faults = FaultController(self.router)
        self.crash_log = self.router.report_bug = CrashLog(instance.log)
        self.selector = selectors.DefaultSelector()
        sockets = UnixSockets(instance.sockname) if settings.udp is None else UdpSockets(port=settings.udp)
        self.server = IbsimServer(self.router, sockets, self.selector)
        self.ranks = Ranks(self.server.finder)
        self.umads = UmadServer(self.router, instance.folder, self.selector)
        self.verbs = VerbsServer(self.router, self.traffic, instance.folder, self.selector, clock_ps)
        unread = UnreadCompletions(self.verbs.memory)
        self.cm = RdmaCmServer(self.router, instance.folder, self.selector, self.umads.views, unread=unread)
        self.control = ControlServer(instance.control, self.selector, self._operations(), self.crash_log)
        peers: tuple[Peer, ...] = self.router, self.server, self.umads, self.cm, self.faults
        self.loop = EventLoop(self.selector, *peers, on_ready=self.router.on_ready)
        self.manager: InternalManager | None = None
        if settings.sm == "internal":
            self.manager = InternalManager(
                self.router, port_named(self.fabric, settings.node), settings.config, instance.folder / "guid2lid"
            )
            self.manager.payload = lambda: self.umads.payload
        self.pcap = MadCapture(settings.pcap, self.fabric) if settings.pcap else None
        if self.pcap is not None:
            self.router.capture(self.pcap)
            self.pcap.message, self.pcap.whole = self.umads.message, self.umads.takes_whole
        self.ready_s: float | None = None
        self._fold_at = 0.0
        self.stopping = self.reload = False
        self.manager_failed = False

    # -- life --

    @property
    def ready(self) -> bool:
        """The subnet is up as far as this daemon is to bring it up."""
        return self.manager is None or self.manager.ready

    def run(self, on_step: Callable[[Daemon], None] = lambda daemon: None) -> None:
        """Serve until :meth:`stop`, SIGINT or SIGTERM; ``on_step`` is called after each :meth:`step`."""
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
        """The internal manager works, then programs are served once. A bug of ours in it is logged, and the fabric goes on."""
        self._publish()  # before a sweep, which takes its time: whose cable was pulled learns it now
        if self.reload:  # SIGHUP, as OpenSM takes it
            self.reload = False
            try:
                self._sweep({"reload": True})
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
            time.sleep(PAUSE_S)  # whatever it is may come again at once

    def _manage(self) -> float:
        """Let the internal manager work; seconds until it wants to again. One that fails is taken off its port: what
        it programmed stays. Before the subnet is up nothing is there to keep, so then the failure is the daemon's."""
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
        """Tell applications what MADs and faults changed, and count what they sent."""
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
                if self.pcap is not None:
                    self.pcap.flush()
        except Exception:
            self.crash_log("telling applications")

    def stop(self) -> None:
        """Leave :meth:`run` after this :meth:`step`."""
        self.stopping = True

    def close(self) -> None:
        """Close every socket and give the name free."""
        self.server.close()
        self.umads.close()
        self.verbs.close()
        self.traffic.close()
        self.cm.close()
        self.control.close()
        self.selector.close()
        if self.pcap is not None:
            self.pcap.close()
        self.shared.close()
        self.instance.release()

    # -- what the control socket offers --

    def _operations(self) -> dict[str, Callable[[dict[str, Any]], dict[str, Any]]]:
        return {
            "status": lambda request: self.status(), "attach": self._attach, "refresh": self._refresh,
            "fault": self._fault, "down": self._down, "sweep": self._sweep, "job": self._job, "nodes": self._nodes,
        }  # fmt: skip

    def _refresh(self, request: dict[str, Any]) -> dict[str, Any]:
        """Every file of ``view`` says what is true now: ``{"files"}`` that changed."""
        view = self.umads.views.known.get(str(request.get("view")))
        return {"files": 0 if view is None else view.refresh_all()}

    def _fault(self, request: dict[str, Any]) -> dict[str, Any]:
        return self.faults.do(request)

    def _nodes(self, request: dict[str, Any]) -> dict[str, Any]:
        """Names of the nodes that begin with ``prefix``, at most ``MOST_NAMES``: ``{"nodes"}``. With ``type`` those of one NodeType."""
        f, prefix, kind = self.fabric, request.get("prefix") or "", request.get("type")
        names = (f.node_name(n) for n in range(f.sizes.nodes) if kind is None or int(f.node_type[n]) == kind)
        return {"nodes": list(islice((name for name in names if name.startswith(str(prefix))), MOST_NAMES))}

    def _down(self, request: dict[str, Any]) -> dict[str, Any]:
        self.stop()
        return {"stopping": True}

    def _sweep(self, request: dict[str, Any]) -> dict[str, Any]:
        """The internal manager looks at the subnet again, after reading its files where ``reload`` says so: ``{"sweeps"}`` so
        far. :class:`InputError` where there is none, or a file cannot be used (the manager goes on as before then)."""
        if self.manager is None or self.manager_failed:
            raise InputError(
                f"{self.instance.name} has no internal subnet manager that could sweep; 'softib up --sm internal' gives one"
            )
        sweeps = self.manager.sm.sweeps
        reread = self.settings.reread if request.get("reload") else None
        self.manager.sweep(None if reread is None else reread())
        return {"sweeps": sweeps}

    def _job(self, request: dict[str, Any]) -> dict[str, Any]:
        """An aggregation tree for ``hosts`` (names): see :func:`~softib.live.internal_sm.jobs.job_of`."""
        if self.manager is None or self.manager_failed:
            raise InputError(f"{self.instance.name} has no internal subnet manager, which gives jobs trees")
        hosts = request.get("hosts")
        if not isinstance(hosts, list) or not hosts:
            raise InputError("job wants hosts, a list of names")
        guids = [int(self.fabric.node_guid[self.server.finder.adapter(str(name))]) for name in hosts]
        return job_of(self.manager.sm, guids, bool(request.get("streaming")))

    def _attach(self, request: dict[str, Any]) -> dict[str, Any]:
        """Environment for a program on ``node`` (and ``port``), for ``rank`` of a job of several:
        ``{"place", "name", "portnum", "env", "ports", "manager"}``;
        ``ports``: row and name of each port that it sees, ``manager``: which of them our own manager sits on, or ""."""
        node, portnum, rank = request.get("node") or "", request.get("port"), request.get("rank")
        if not isinstance(node, str) or not isinstance(portnum, int | None) or not isinstance(rank, int | None):
            raise InputError("attach wants node, a text, and port and rank, numbers")
        finder, f = self.server.finder, self.fabric
        node, host = self.ranks.of(node, rank)
        if host is not None:
            port = finder.port_on(host, portnum)
        elif portnum is not None:
            row = finder.adapter(node) if node else int(f.port_node[default_port(f)])
            port = finder.port_on(row, portnum)
        else:
            port = finder.port(node)
        row = int(f.port_node[port])
        env = {"SIM_HOST": f"{int(f.node_guid[row]):#x}:{int(f.port_num[port])}"}
        if self.settings.udp is None:
            env["IBSIM_SOCKNAME"] = self.instance.sockname
        else:
            env["IBSIM_SERVER_NAME"], env["IBSIM_SERVER_PORT"] = "127.0.0.1", str(self.settings.udp)
        views = self.umads.views
        view = views.show(node, port, portnum is not None) if host is None or portnum else views.of_host(host)
        env["SOFTIB_UMAD"], env["SOFTIB_VIEW"] = str(self.umads.path), str(view.folder)
        env["SOFTIB_ADDRESS"] = " ".join(self.cm.addresses.of_view(view))
        if self.settings.pace:
            env["SOFTIB_PACE"] = "1"
        ours = self.manager is not None and not self.manager_failed and self.manager.port in view.umads
        return {"name": f.node_name(row), "portnum": int(f.port_num[port]), "place": f.port_name(port), "env": env,
                "ports": [[p, f.port_name(p)] for p in view.umads],
                "manager": f.port_name(self.manager.port) if ours and self.manager else ""}  # fmt: skip

    def status(self) -> dict[str, Any]:
        """Everything that ``softib status --json`` says."""
        f, router = self.fabric, self.router
        states = np.bincount(f.port_state[f.linked], minlength=5)
        clients = [
            {"client": c.number, "pid": c.pid, "node": c.name, "portnum": int(f.port_num[c.port]), "sm": c.issm,
             "waiting": len(c.queue)} for c in (*self.server.clients.values(), *self.umads.files.values())
        ]  # fmt: skip
        return {
            "name": self.instance.name, "pid": int(self.shared.header["pid"]), "source": self.settings.source,
            "ready": self.ready, "ready_s": self.ready_s, "uptime_s": round(time.monotonic() - self.began, 3),
            "nodes": f.sizes.nodes, "switches": f.sizes.switches, "cas": len(f.cas), "links": f.sizes.cables,
            "port_states": {s.name.lower(): int(states[s]) for s in PortState if s},
            "sm": self._manager_status(), "clients": clients,
            "verbs": self.verbs.memory.usage(),
            "mads": {"answered": router.answered, "forwarded": router.forwarded, "timed_out": router.bounced},
            "traps": {**router.trap_queue.stats(), **router.trap_queue.by_number()},
            "kernels": in_use(),
            "bugs": self.crash_log.count, "log": str(self.instance.log), "epoch": router.epoch, "shared_fabric": str(self.instance.shared_fabric), "sockname": self.instance.sockname,
            "version": __version__,
        }  # fmt: skip

    def _manager_status(self) -> dict[str, Any]:
        if self.manager is None:
            return {"kind": self.settings.sm}
        sm = self.manager.sm
        return {
            "kind": "internal", "engine": sm.config.engine,
            "state": "FAILED" if self.manager_failed else sm.state.name, "phase": sm.phase,
            "sweeps": sm.sweeps, "node": self.fabric.port_name(self.manager.port),
            "engine_used": "" if sm.routing is None else sm.routing.engine,
            "problems": [str(p) for p in sm.report.problems[:20]],
            "sa": {"requests": sm.sa_manager.requests, "busy": sm.sa_manager.refused,
                   "waiting": len(sm.sa_manager.queue) + len(sm.sa_manager.waiting), "wait": self.manager.sa_wait.status(clock_ps())},
            "report": {**sm.report.as_dict(), "sent": sm.report.sent, "sets": sm.report.sets, "refused": sm.report.refused,
                       "not_active": len(sm.report.not_active)},
        }  # fmt: skip
