"""Operations of the control socket on a running fabric: ``status``, ``attach``, ``fault``, ``sweep``,
``down`` and others. The module also chooses the hosts for the ranks of a parallel job: ``mpirun -np 2 softib run --
./program`` runs each rank on another host."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np

from softib import __version__
from softib.errors import InputError, UnknownName
from softib.fabric.node_finder import NodeFinder, default_port, host_of
from softib.iba.constants import PortState
from softib.jit import in_use
from softib.live.clock import clock_ps
from softib.live.control import Attached
from softib.live.internal_sm.manager import job_of
from softib.live.status import (
    Administration,
    Client,
    FabricStatus,
    LastSweep,
    Mads,
    ManagerStatus,
    Moved,
    PortStates,
)
from softib.live.sysfs.roce import is_ethernet

if TYPE_CHECKING:
    from softib.live.daemon import Daemon


__all__ = ["Operations", "Ranks"]


class Ranks:
    """Chooses the nodes on which the ranks of a job run."""

    def __init__(self, finder: NodeFinder):
        self.finder = finder
        self._hosts: list[int] = []
        self._more = self._each_host()

    def of(self, node: str, rank: int | None) -> tuple[str, int | None]:
        """Return the node of this rank: its name in ``--node``; without ``--node``, the row of its host.

        ``node`` is one name for all ranks, or several separated by commas: rank r gets the r-th name, and the list
        repeats after its end. Without a name, rank r gets the r-th host. Raises :class:`InputError` for several names
        without a rank, and if there is no host.
        """
        if node:
            names = [node] if "," not in node or self._known(node) else [n.strip() for n in node.split(",")]
            if not all(names):
                raise InputError(f"--node {node}: a name between the commas is empty")
            if len(names) > 1 and rank is None:
                raise InputError(
                    f"--node {node}: several nodes need a launcher (mpirun, srun, torchrun) that reports the rank of "
                    f"this process; name one node, or start 'mpirun -np N softib run --node A,B -- CMD'"
                )
            return names[(rank or 0) % len(names)], None
        return "", None if rank is None else self._host(rank)

    def _known(self, name: str) -> bool:
        try:
            self.finder.rows(name)
        except UnknownName:
            return False
        return True

    def _host(self, rank: int) -> int | None:
        """Return the row of a CA of the rank's host; None on a fabric without linked CAs."""
        while len(self._hosts) <= rank and (row := next(self._more, None)) is not None:
            self._hosts.append(row)
        return self._hosts[rank % len(self._hosts)] if self._hosts else None

    def _each_host(self) -> Iterator[int]:
        """Yield the first linked CA of each host, in the order of the file."""
        f = self.finder.fabric
        linked = np.unique(f.port_node[np.flatnonzero(f.linked)])
        seen: set[int] = set()
        for node in linked[f.is_host[linked]].tolist():
            if node not in seen:
                seen.update(host_of(f, node))
                yield node


SHOWN_PROBLEMS = 20
MOST_NAMES = 1000
"""Maximum number of node names in an answer: enough for shell completion."""


class Operations:
    """The operations of the control socket. Each method takes a request, and returns the content of the answer. An
    invalid request raises :class:`InputError`."""

    def __init__(self, daemon: Daemon):
        self.daemon = daemon

    def table(self) -> dict[str, Callable[[dict[str, Any]], dict[str, Any]]]:
        """Return the method that executes each operation, by the operation's name."""
        return {
            "status": lambda request: self.status().to_json(),
            "attach": lambda request: self.attach(request).to_json(),
            "refresh": self._refresh,
            "fault": self._fault,
            "down": self._down,
            "sweep": self._sweep,
            "partitions": self._partitions,
            "job": self._job,
            "nodes": self._nodes,
            "moved": self._moved,
        }

    def _refresh(self, request: dict[str, Any]) -> dict[str, Any]:
        """Update every file of ``view``. The answer ``{"files"}`` is the number of files that changed."""
        view = self.daemon.umads.views.known.get(str(request.get("view")))
        return {"files": 0 if view is None else view.refresh_all()}

    def _moved(self, request: dict[str, Any]) -> dict[str, Any]:
        """Return the bytes that programs have moved over the ports of ``view`` (without a view: of all hosts)."""
        f, name = self.daemon.fabric, request.get("view")
        view = self.daemon.umads.views.known.get(str(name))
        every = [] if name is not None else np.flatnonzero(f.is_host[f.port_node] & (f.port_num > 0)).tolist()
        self.daemon.verbs.traffic.fold(self.daemon.verbs.clock())
        verbs, ip = self.daemon.verbs.traffic.moved(every if view is None else view.umads)
        return Moved(verbs, ip).to_json()

    def _fault(self, request: dict[str, Any]) -> dict[str, Any]:
        return self.daemon.faults.do(request)

    def _nodes(self, request: dict[str, Any]) -> dict[str, Any]:
        """Return ``{"nodes"}``: the names of nodes that begin with ``prefix``, at most ``MOST_NAMES`` of them. With
        ``type``, only nodes of that NodeType."""
        f, prefix, kind = self.daemon.fabric, request.get("prefix") or "", request.get("type")
        names = (f.node_name(n) for n in range(f.sizes.nodes) if kind is None or int(f.node_type[n]) == kind)
        return {"nodes": list(islice((name for name in names if name.startswith(str(prefix))), MOST_NAMES))}

    def _down(self, request: dict[str, Any]) -> dict[str, Any]:
        self.daemon.stop()
        return {"stopping": True, "pid": os.getpid()}

    def _sweep(self, request: dict[str, Any]) -> dict[str, Any]:
        """See :meth:`~softib.live.daemon.Daemon.sweep`. The answer ``{"sweeps"}`` is the number of sweeps before this
        one."""
        partitions = request.get("partitions")
        if not isinstance(partitions, str | None):
            raise InputError("sweep needs partitions, the path of a file")
        return {"sweeps": self.daemon.sweep(bool(request.get("reload") or partitions), partitions)}

    def _partitions(self, request: dict[str, Any]) -> dict[str, Any]:
        """See :meth:`~softib.live.daemon.Daemon.repartition`; the reply ``{"programmed"}`` states whether the
        partitions were programmed."""
        if not isinstance(request.get("file"), str):
            raise InputError("partitions needs file, the path of the changed partitions")
        return {"programmed": self.daemon.repartition(request["file"])}

    def _job(self, request: dict[str, Any]) -> dict[str, Any]:
        """Return an aggregation tree for ``hosts`` (names): see
        :func:`~softib.live.internal_sm.manager.job_of`."""
        if self.daemon.manager is None or self.daemon.manager_failed:
            raise InputError(
                f"{self.daemon.instance.name} has no internal subnet manager, which assigns aggregation trees; start "
                f"the fabric with 'softib up --sm internal'"
            )
        hosts = request.get("hosts")
        if not isinstance(hosts, list) or not hosts:
            raise InputError("job needs hosts, a list of names")
        guids = [int(self.daemon.fabric.node_guid[self.daemon.server.finder.adapter(str(name))]) for name in hosts]
        return job_of(self.daemon.manager.sm, guids, bool(request.get("streaming"))).to_json()

    def attach(self, request: dict[str, Any]) -> Attached:
        """Return the environment for a program on ``node`` (and ``port``). ``rank``: its rank, if the job has
        several."""
        node, portnum, rank = request.get("node") or "", request.get("port"), request.get("rank")
        if not isinstance(node, str) or not isinstance(portnum, int | None) or not isinstance(rank, int | None):
            raise InputError("attach needs node (a string), port and rank (numbers)")
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
        return Attached(
            f.node_name(row),
            int(f.port_num[port]),
            f.port_name(port),
            bool(is_ethernet(f, port)),
            env,
            [(int(p), f.port_name(p)) for p in view.umads],
            f.port_name(self.daemon.manager.port) if ours and self.daemon.manager else "",
        )

    def status(self) -> FabricStatus:
        """Return the present status of the fabric."""
        return _status(self.daemon)


def _status(daemon: Daemon) -> FabricStatus:
    """Return the present status of the fabric of ``daemon``."""
    f, router = daemon.fabric, daemon.router
    states = np.bincount(f.port_state[f.linked], minlength=5)
    clients = (*daemon.server.clients.values(), *daemon.umads.files.values())
    return FabricStatus(
        name=daemon.instance.name,
        pid=int(daemon.shared.header["pid"]),
        source=daemon.settings.source,
        ready=daemon.ready,
        ready_s=daemon.ready_s,
        uptime_s=round(time.monotonic() - daemon.began, 3),
        nodes=f.sizes.nodes,
        switches=f.sizes.switches,
        cas=len(f.cas),
        links=f.sizes.cables,
        port_states=PortStates(**{s.name.lower(): int(states[s]) for s in PortState if s}),
        sm=_manager_status(daemon),
        pace=daemon.settings.pace,
        clients=[Client(c.number, c.pid, c.name, int(f.port_num[c.port]), c.issm, len(c.queue)) for c in clients],
        verbs=daemon.verbs.memory.usage(),
        mads=Mads(router.answered, router.forwarded, router.bounced),
        traps={**router.trap_queue.stats(), **router.trap_queue.by_number()},
        kernels=in_use(),
        bugs=daemon.crash_log.count,
        log=str(daemon.instance.log),
        epoch=router.epoch,
        shared_fabric=str(daemon.instance.shared_fabric),
        sockname=daemon.server.sockets.environment.get("IBSIM_SOCKNAME", ""),
        version=__version__,
    )


def _manager_status(daemon: Daemon) -> ManagerStatus:
    if daemon.manager is None:
        return ManagerStatus(daemon.settings.sm)
    sm, sa = daemon.manager.sm, daemon.manager.sm.sa_manager
    report = sm.report
    return ManagerStatus(
        kind="internal",
        engine=sm.config.engine,
        state="FAILED" if daemon.manager_failed else sm.state.name,
        phase=sm.phase,
        sweeps=sm.sweeps,
        node=daemon.fabric.port_name(daemon.manager.port),
        engine_used="" if sm.routing is None else sm.routing.engine,
        problems=[str(p) for p in report.problems[:SHOWN_PROBLEMS]],
        sa=Administration(
            sa.requests, sa.refused, len(sa.queue) + len(sa.waiting), daemon.manager.sa_wait.status(clock_ps())
        ),
        report=LastSweep(report, report.sent, report.sets, report.refused, len(report.not_active)),
    )
