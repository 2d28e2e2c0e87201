"""Bring a fabric up: its agents and a subnet manager run on one clock, in one process, from
power-on until every cable is ACTIVE.

The manager reads and writes everything with MADs; this module only transfers them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from softib.agents.plane import AgentPlane
from softib.errors import MadTimeout
from softib.fabric.model import Fabric
from softib.fabric.node_finder import port_named, port_on
from softib.iba.constants import RESPONSE_BIT, CapMask, MgmtClass
from softib.iba.smp import CLASS_AT, METHOD_AT, PortInfo
from softib.mad.batch import MadBatch
from softib.routing.engine import DEFAULT_ENGINE, RouteOptions, Routing
from softib.routing.graph import SwitchGraph
from softib.scenario.graph_view import graph_of
from softib.sm.config import SmConfig
from softib.sm.subnet_manager import SubnetManager
from softib.sm.sweep.report import SweepReport

__all__ = ["BringUp", "Progress", "bring_up"]

WINDOW = 16384
"""Window of a manager in the same process: 4 MiB of requests and of responses. A larger window
needs fewer calls, but does not fit in the CPU's cache."""

Progress = Callable[[str, int, int], None]
"""Called with (phase of the sweep, total MADs sent, waiting requests of this phase)."""


@dataclass
class BringUp:
    """A running subnet in one process. ``graph``: has the rows of the fabric; ``routing.lft`` has
    its switches in the same order. ``report``: of the last sweep. ``unreached``: nodes that the
    manager did not find, or omitted because another device has the same GUID."""

    fabric: Fabric
    sm: SubnetManager
    plane: AgentPlane
    port: int
    graph: SwitchGraph
    routing: Routing
    report: SweepReport
    unreached: np.ndarray
    now_ps: int = 0

    def sweep(self, progress: Progress | None = None) -> SweepReport:
        """Sweep again, after a change, and update ``report``, ``graph`` and ``routing``."""
        self.sm.request_sweep()
        self.now_ps = _run(self.sm, self.plane, self.port, self.now_ps, progress, None)
        self.graph, self.routing = _as_fabric_rows(self.fabric, self.sm)
        self.report, self.unreached = self.sm.report, _unreached(self.fabric, self.sm, self.port)
        return self.report

    def to_administrator(self, requests: MadBatch) -> np.ndarray:
        """Pass ``requests`` of clients to the subnet administrator, and the manager's MADs to the
        agents, until the manager is idle. Return the responses (uint8[n, 256]) in the order in
        which they arrived."""
        inbox: MadBatch | None = requests
        replies = [np.zeros((0, 256), np.uint8)]
        while True:
            outbox, deadline_ps = self.sm.step(self.now_ps, inbox)
            to_clients = outbox.mad[:, CLASS_AT] == MgmtClass.SUBN_ADM
            replies.append(outbox.mad[to_clients & (outbox.mad[:, METHOD_AT] & RESPONSE_BIT > 0)].copy())
            rest = outbox[~to_clients]
            if len(rest):
                inbox = self.plane.send(rest, self.port, self.now_ps)
            elif self.sm.settled:
                return np.concatenate(replies)
            else:
                inbox, self.now_ps = None, max(self.now_ps, deadline_ps)


def bring_up(
    fabric: Fabric,
    engine: str = DEFAULT_ENGINE,
    *,
    node: str | int | None = None,
    options: RouteOptions | None = None,
    lmc: int = 0,
    plane: AgentPlane | None = None,
    progress: Progress | None = None,
    clock_ps: Callable[[], int] | None = None,
    config: SmConfig | None = None,
) -> BringUp:
    """Run a subnet manager on ``node`` (name, row, or None: the first host with a cable) until the
    subnet is up.

    Afterwards, ``fabric`` has the state that its devices would report: LIDs, forwarding tables and
    port states were written by MADs. Time is virtual, and advances only when nothing but a timeout
    can happen. ``clock_ps`` (picoseconds, monotonic) adds real time, so that the report has the
    seconds of each phase. ``plane`` are the fabric's agents, if they already run. ``config``
    contains all settings of the manager, and replaces ``engine``, ``options`` and ``lmc``.

    Raises :class:`UnknownName` (engine, node), :class:`LimitError` (more LIDs than InfiniBand has),
    :class:`InputError` (a node that cannot host a manager), :class:`MadTimeout` (the host itself does not answer,
    or an M_Key protects it).
    """
    port = _manager_port(fabric, node)
    config = config or SmConfig(engine=engine, options=options or RouteOptions(), lmc=lmc)
    config = replace(config, window=WINDOW, chunk=WINDOW)
    plane, sm = plane or AgentPlane(fabric), SubnetManager(config)
    # The driver of that port sets CapabilityMask.IsSM when a manager opens it (IBA 14.2.5.6).
    row = fabric.port_info[port : port + 1]
    PortInfo.cap_mask.set(row, PortInfo.cap_mask.get(row) | CapMask.IS_SM)
    now_ps = _run(sm, plane, port, 0, progress, clock_ps)
    graph, routing = _as_fabric_rows(fabric, sm)
    return BringUp(
        fabric=fabric,
        sm=sm,
        plane=plane,
        port=port,
        graph=graph,
        routing=routing,
        report=sm.report,
        unreached=_unreached(fabric, sm, port),
        now_ps=now_ps,
    )


def _manager_port(fabric: Fabric, node: str | int | None) -> int:
    """Return the port (row) from which a manager on ``node`` sends."""
    return port_on(fabric, node) if isinstance(node, int) else port_named(fabric, node)


def _run(
    sm: SubnetManager,
    plane: AgentPlane,
    port: int,
    now_ps: int,
    progress: Progress | None,
    clock_ps: Callable[[], int] | None,
) -> int:
    """Transfer MADs until the manager is idle. Return the time at which it is."""
    inbox: MadBatch | None = None
    skipped = now_ps
    started = clock_ps() if clock_ps else 0
    while True:
        now_ps = skipped + (clock_ps() - started if clock_ps else 0)
        outbox, deadline_ps = sm.step(now_ps, inbox)
        if progress is not None:
            progress(sm.phase, sm.transactor.sent, sm.waiting)
        if len(outbox):
            inbox = plane.send(outbox, port, now_ps)
        elif sm.settled and not sm.patient:
            return now_ps
        else:
            inbox = None
            skipped += max(0, deadline_ps - now_ps)


def _as_fabric_rows(fabric: Fabric, sm: SubnetManager) -> tuple[SwitchGraph, Routing]:
    """Return the fabric's graph, and the manager's routing with its switches in the order of this
    graph."""
    graph, written = graph_of(fabric), sm.routing
    if written is None or sm.graph is None:
        raise MadTimeout(f"the node of the subnet manager does not answer: {'; '.join(sm.report.problems[:3])}")
    lft = np.ascontiguousarray(fabric.lft[:, : graph.lft_size])
    order = np.argsort(sm.graph.switch_guid, kind="stable")
    at = np.searchsorted(sm.graph.switch_guid, graph.switch_guid, sorter=order)
    at = order[np.minimum(at, len(order) - 1)] if len(order) else np.zeros(0, np.int64)
    same = sm.graph.switch_guid[at] == graph.switch_guid if len(order) else np.zeros(0, bool)
    ranks = written.ranks
    if ranks is not None and len(ranks) == len(order):
        ranks = np.where(same, ranks[at], -1)
    path_sl, sl2vl = written.path_sl, written.sl2vl
    if path_sl is not None:  # in both graphs, end ports ascend by LID, but the manager's may have fewer
        end = np.searchsorted(sm.graph.end_lid, graph.end_lid)
        end = np.minimum(end, max(len(sm.graph.end_lid) - 1, 0))
        same_end = sm.graph.end_lid[end] == graph.end_lid
        path_sl = path_sl[:, end] if len(path_sl) == 1 else path_sl[np.ix_(at, end)]
        path_sl = np.where(same_end, path_sl, 0).astype(np.uint8)
    if sl2vl is not None and np.ndim(sl2vl) > 1 and np.shape(sl2vl)[0] == len(order) > 1:
        sl2vl = np.asarray(sl2vl)[at]
    routing = replace(written, lft=lft, path_sl=path_sl, sl2vl=sl2vl, ranks=ranks, notes=list(written.notes))
    return graph, routing


def _unreached(fabric: Fabric, sm: SubnetManager, port: int) -> np.ndarray:
    """Return the nodes that no directed route of the manager reaches. GUIDs do not show this,
    because two devices may have the same GUID."""
    db = sm.database
    path, hops = db.routes.path[db.node_route], db.routes.hops[db.node_route].astype(np.int64)
    node = np.full(db.n_nodes, fabric.port_node[port])
    for i in range(1, int(hops.max(initial=0)) + 1):
        on = np.flatnonzero(hops >= i)
        node[on] = fabric.port_node[fabric.port_peer[fabric.port(node[on], path[on, i].astype(np.int64))]]
    return np.setdiff1d(np.arange(fabric.sizes.nodes), node)
