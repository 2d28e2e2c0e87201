"""What the control socket offers on a running fabric: ``status``, ``attach``, ``fault``, ``sweep``,
``down`` and their kin."""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from typing import TYPE_CHECKING, Any

from softib.errors import InputError
from softib.fabric.default_port import default_port
from softib.live.internal_sm.jobs import job_of
from softib.live.status import status_of

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
        return job_of(self.daemon.manager.sm, guids, bool(request.get("streaming"))).to_json()

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
        return status_of(self.daemon).to_json()
