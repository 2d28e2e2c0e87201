"""What the control socket offers on a running fabric: ``status``, ``attach``, ``fault``, ``sweep``,
``down`` and their kin."""

from __future__ import annotations

import time
from collections.abc import Callable
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np

from softib import __version__
from softib.errors import InputError
from softib.fabric.node_finder import default_port
from softib.iba.constants import PortState
from softib.jit import in_use
from softib.live.clock import clock_ps
from softib.live.internal_sm.jobs import job_of

if TYPE_CHECKING:
    from softib.live.daemon import Daemon

__all__ = ["Operations"]

MOST_NAMES = 1000
"""A shell's completion shows no more."""


class Operations:
    """Each takes a request and returns what the answer has. What cannot be done raises
    :class:`InputError`."""

    def __init__(self, daemon: Daemon):
        self.daemon = daemon

    def table(self) -> dict[str, Callable[[dict[str, Any]], dict[str, Any]]]:
        """Operation → what answers a request for it."""
        return {
            "status": lambda request: self.status(),
            "attach": self.attach,
            "refresh": self._refresh,
            "fault": self._fault,
            "down": self._down,
            "sweep": self._sweep,
            "job": self._job,
            "nodes": self._nodes,
        }

    def _refresh(self, request: dict[str, Any]) -> dict[str, Any]:
        """Every file of ``view`` says what is true now: ``{"files"}`` that changed."""
        view = self.daemon.umads.views.known.get(str(request.get("view")))
        return {"files": 0 if view is None else view.refresh_all()}

    def _fault(self, request: dict[str, Any]) -> dict[str, Any]:
        return self.daemon.faults.do(request)

    def _nodes(self, request: dict[str, Any]) -> dict[str, Any]:
        """Names of the nodes that begin with ``prefix``, at most ``MOST_NAMES``: ``{"nodes"}``.
        With ``type`` those of one NodeType."""
        f, prefix, kind = self.daemon.fabric, request.get("prefix") or "", request.get("type")
        names = (f.node_name(n) for n in range(f.sizes.nodes) if kind is None or int(f.node_type[n]) == kind)
        return {"nodes": list(islice((name for name in names if name.startswith(str(prefix))), MOST_NAMES))}

    def _down(self, request: dict[str, Any]) -> dict[str, Any]:
        self.daemon.stop()
        return {"stopping": True}

    def _sweep(self, request: dict[str, Any]) -> dict[str, Any]:
        """See :meth:`~softib.live.daemon.Daemon.sweep`: ``{"sweeps"}`` before it."""
        return {"sweeps": self.daemon.sweep(bool(request.get("reload")))}

    def _job(self, request: dict[str, Any]) -> dict[str, Any]:
        """An aggregation tree for ``hosts`` (names): see
        :func:`~softib.live.internal_sm.jobs.job_of`."""
        if self.daemon.manager is None or self.daemon.manager_failed:
            raise InputError(f"{self.daemon.instance.name} has no internal subnet manager, which gives jobs trees")
        hosts = request.get("hosts")
        if not isinstance(hosts, list) or not hosts:
            raise InputError("job wants hosts, a list of names")
        guids = [int(self.daemon.fabric.node_guid[self.daemon.server.finder.adapter(str(name))]) for name in hosts]
        return job_of(self.daemon.manager.sm, guids, bool(request.get("streaming")))

    def attach(self, request: dict[str, Any]) -> dict[str, Any]:
        """Environment for a program on ``node`` (and ``port``), for ``rank`` of a job of several:
        ``{"place", "name", "portnum", "env", "ports", "manager"}``; ``ports``: row and name of each
        port that it sees, ``manager``: which of them our own manager sits on, or ""."""
        node, portnum, rank = request.get("node") or "", request.get("port"), request.get("rank")
        if not isinstance(node, str) or not isinstance(portnum, int | None) or not isinstance(rank, int | None):
            raise InputError("attach wants node, a text, and port and rank, numbers")
        finder, f = self.daemon.server.finder, self.daemon.fabric
        node, host = self.daemon.ranks.of(node, rank)
        if host is not None:
            port = finder.port_on(host, portnum)
        elif portnum is not None:
            row = finder.adapter(node) if node else int(f.port_node[default_port(f)])
            port = finder.port_on(row, portnum)
        else:
            port = finder.port(node)
        row = int(f.port_node[port])
        env = {
            "SIM_HOST": f"{int(f.node_guid[row]):#x}:{int(f.port_num[port])}",
            **self.daemon.server.sockets.environment,
        }
        views = self.daemon.umads.views
        view = views.show(node, port, portnum is not None) if host is None or portnum else views.of_host(host)
        env["SOFTIB_UMAD"], env["SOFTIB_VIEW"] = str(self.daemon.umads.path), str(view.folder)
        addresses = list(self.daemon.cm.addresses.of_view(view))
        env["SOFTIB_ADDRESS"], env["SOFTIB_ADDRESSES"] = "".join(addresses[:1]), " ".join(addresses)
        if self.daemon.settings.pace:
            env["SOFTIB_PACE"] = "1"
        ours = (
            self.daemon.manager is not None
            and not self.daemon.manager_failed
            and self.daemon.manager.port in view.umads
        )
        return {
            "name": f.node_name(row),
            "portnum": int(f.port_num[port]),
            "place": f.port_name(port),
            "env": env,
            "ports": [[p, f.port_name(p)] for p in view.umads],
            "manager": f.port_name(self.daemon.manager.port) if ours and self.daemon.manager else "",
        }

    def status(self) -> dict[str, Any]:
        """Everything that ``softib status --json`` says."""
        f, router = self.daemon.fabric, self.daemon.router
        states = np.bincount(f.port_state[f.linked], minlength=5)
        clients = [
            {
                "client": c.number,
                "pid": c.pid,
                "node": c.name,
                "portnum": int(f.port_num[c.port]),
                "sm": c.issm,
                "waiting": len(c.queue),
            }
            for c in (*self.daemon.server.clients.values(), *self.daemon.umads.files.values())
        ]
        return {
            "name": self.daemon.instance.name,
            "pid": int(self.daemon.shared.header["pid"]),
            "source": self.daemon.settings.source,
            "ready": self.daemon.ready,
            "ready_s": self.daemon.ready_s,
            "uptime_s": round(time.monotonic() - self.daemon.began, 3),
            "nodes": f.sizes.nodes,
            "switches": f.sizes.switches,
            "cas": len(f.cas),
            "links": f.sizes.cables,
            "port_states": {s.name.lower(): int(states[s]) for s in PortState if s},
            "sm": self._manager_status(),
            "pace": self.daemon.settings.pace,
            "clients": clients,
            "verbs": self.daemon.verbs.memory.usage(),
            "mads": {"answered": router.answered, "forwarded": router.forwarded, "timed_out": router.bounced},
            "traps": {**router.trap_queue.stats(), **router.trap_queue.by_number()},
            "kernels": in_use(),
            "bugs": self.daemon.crash_log.count,
            "log": str(self.daemon.instance.log),
            "epoch": router.epoch,
            "shared_fabric": str(self.daemon.instance.shared_fabric),
            "sockname": self.daemon.server.sockets.environment.get("IBSIM_SOCKNAME", ""),
            "version": __version__,
        }

    def _manager_status(self) -> dict[str, Any]:
        if self.daemon.manager is None:
            return {"kind": self.daemon.settings.sm}
        sm = self.daemon.manager.sm
        return {
            "kind": "internal",
            "engine": sm.config.engine,
            "state": "FAILED" if self.daemon.manager_failed else sm.state.name,
            "phase": sm.phase,
            "sweeps": sm.sweeps,
            "node": self.daemon.fabric.port_name(self.daemon.manager.port),
            "engine_used": "" if sm.routing is None else sm.routing.engine,
            "problems": [str(p) for p in sm.report.problems[:20]],
            "sa": {
                "requests": sm.sa_manager.requests,
                "busy": sm.sa_manager.refused,
                "waiting": len(sm.sa_manager.queue) + len(sm.sa_manager.waiting),
                "wait": self.daemon.manager.sa_wait.status(clock_ps()),
            },
            "report": {
                **sm.report.as_dict(),
                "sent": sm.report.sent,
                "sets": sm.report.sets,
                "refused": sm.report.refused,
                "not_active": len(sm.report.not_active),
            },
        }
