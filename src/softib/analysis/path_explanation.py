"""Explanation of the path of packets from one port to another: the entries of the tables, hop by hop, and the
alternatives."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from softib.analysis.path_ends import Ends, ends_of
from softib.analysis.path_lids import end_lids, further_lids
from softib.analysis.path_obstacles import (
    cables_apart,
    distances,
    partitions_apart,
    place_of,
    why_no_lid,
)
from softib.errors import SoftibError
from softib.fabric.model import Fabric
from softib.fabric.node_finder import distinct_names
from softib.iba.constants import LFT_NO_ROUTE
from softib.plural import counted, plural
from softib.result import Result
from softib.routing.graph import SwitchGraph
from softib.scenario.graph_view import graph_of

if TYPE_CHECKING:
    from softib.analysis.routing import Routed

__all__ = [
    "Alternative",
    "Explanation",
    "Hop",
    "explain",
    "explain_routed",
]


@dataclass(frozen=True)
class Alternative(Result):
    """Another egress port of a switch that is also on a shortest path."""

    portnum: int
    to: str
    """The port at the other end of its cable, for example ``spine-2[1]``."""
    lids: int
    """Number of end-port LIDs that the switch sends there."""


@dataclass(frozen=True)
class Hop(Result):
    """A node that forwards the packet."""

    node: str
    in_port: int | None
    """The ingress port; None at the source of the packet."""
    out_port: int
    """The egress port: a switch's entry for the DLID in its LFT; a CA's only port."""
    to: str
    """The next node."""
    to_port: int
    vl: int
    """Virtual lane on the cable."""
    lids: int = 0
    """Number of LIDs of end ports for which the switch has this egress port."""
    alternatives: tuple[Alternative, ...] = ()
    shorter: bool = False
    """Whether a neighbour is nearer to the destination than the next hop."""

    def __str__(self) -> str:
        came = "" if self.in_port is None else f"in {self.in_port}, "
        return f"{self.node}: {came}out {self.out_port} -> {self.to}[{self.to_port}], VL {self.vl}"


@dataclass
class Explanation(Result):
    """The path of packets from one port to another, with its reasons."""

    a: str
    """The source port, for example ``host-1[1]``."""
    b: str
    """The port that packets are to reach."""
    slid: int
    dlid: int
    engine: str
    """The routing engine that computed the tables."""
    sl: int
    """Service level."""
    sl_source: str
    """Source of the service level."""
    hops: list[Hop] = field(default_factory=list)
    ended: str = ""
    """Empty if the packet arrives, otherwise where and why it ends."""
    shortest: int | None = None
    """Number of switches on a shortest path; None if there is none."""
    reasons: list[str] = field(default_factory=list)
    """Sentences that say why packets take this path."""
    changes: list[str] = field(default_factory=list)
    """Sentences that say what would change the path."""

    def __repr__(self) -> str:
        end = f"{len(self.hops)} hops" if not self.ended else f"ends: {self.ended}"
        return f"<Explanation of {self.a} → {self.b} by {self.engine}: {end}, SL {self.sl}>"

    def lines(self) -> list[str]:
        """Return lines of text: the hops, the reasons, and the changes that would change the path."""
        a, b = (
            f"{port} ({f'LID {lid}' if lid else 'no LID'})" for port, lid in ((self.a, self.slid), (self.b, self.dlid))
        )
        sl = f"; SL {self.sl} ({self.sl_source})" if self.hops or not self.ended else ""
        return [
            f"{a} to {b}; engine {self.engine}{sl}",
            *(f"  {hop}" for hop in self.hops),
            *([f"  {self.ended}"] if self.ended else []),
            *(["why", *(f"  {reason}" for reason in self.reasons)] if self.reasons else []),
            *(["what would change it", *(f"  {change}" for change in self.changes)] if self.changes else []),
        ]


def explain(f: Fabric, ends: Ends, engine: str, sl: int = 0, sl_source: str = "") -> Explanation:
    """Return the path between ``ends`` in the tables of ``f``. ``engine`` and ``sl`` come from its
    manager."""
    names = distinct_names(f)
    a, b = ends.a, ends.b
    path = Explanation(place_of(f, names, a), place_of(f, names, b), *ends.lids(f), engine, sl, sl_source)
    graph = graph_of(f)
    distance = distances(f, graph, b)
    path.ended = cables_apart(f, names, graph, distance, a, b)
    if not path.ended and not (path.slid and path.dlid):
        why = why_no_lid(f, names, graph, distance, b)
        path.ended = f"{place_of(f, names, a if not path.slid else b)} has no LID: {why}"
    if path.ended:
        return path
    if a == b:
        path.reasons.append("Packets to a port's own LID stay inside its adapter or switch.")
        return path
    _walk(f, names, graph, distance, path, a, b)
    if not path.ended:
        path.ended = partitions_apart(f, names, a, b)
    _judge(f, names, path, a, b)
    return path


def explain_routed(tables: Routed, a: str, b: str) -> Explanation:
    """Return the path from ``a`` to ``b`` (:func:`ends_of`) in analysed tables. It has the SL of the path record if
    softib's subnet administration, or that of a running fabric, has such a record."""
    every = [tables, *tables.others]
    ends = ends_of(tables.fabric, a, b, (o.fabric for o in tables.others))
    tables = next((o for o in every if o.fabric.lid[ends.a]), tables)
    f = tables.fabric
    engine = tables.part.tables
    stated = _stated_sl(tables, ends.a, ends.b)
    explained = explain(f, ends, engine, stated.sl, stated.source)
    explained.dlid = max(ends.lids(o.fabric)[1] for o in every)
    if stated.refused and not explained.ended:
        explained.ended = stated.refused
    return explained


class _StatedSl(NamedTuple):
    """The SL of a path."""

    sl: int
    source: str
    """Where the SL comes from, as text."""
    refused: str = ""
    """Why there is no path record."""


def _stated_sl(tables: Routed, a: int, b: int) -> _StatedSl:
    """Return the SL that the subnet administration states for the path between two ports."""
    from softib.scenario.sa_requests import NO_RECORD, path_record_sls

    f, ports = tables.fabric, (np.array([a]), np.array([b]))
    without = [f.port_name(port) for port in dict.fromkeys((a, b)) if not f.lid[port]]
    if without:
        return _StatedSl(0, f"assumed: {' and '.join(without)} {plural(len(without), 'has', 'have')} no LID")
    if tables.subnet is not None:
        sl, source = int(path_record_sls(tables.subnet, *ports)[0]), "stated by softib's subnet administration"
    elif tables.ask_sls is not None:
        try:
            sl, source = int(tables.ask_sls(f.lid[ports[0]], f.lid[ports[1]])[0]), "stated by the subnet administration"
        except SoftibError as error:
            return _StatedSl(0, f"assumed: {error}")
    else:
        return _StatedSl(0, "assumed: tables from a file state no SL")
    if sl == NO_RECORD:
        return _StatedSl(
            0,
            source,
            "the subnet administration has no path record: the ports share no partition with a full member, or "
            "there is no route",
        )
    return _StatedSl(sl, source)


def _walk(
    f: Fabric, names: list[str], graph: SwitchGraph, distance: np.ndarray, path: Explanation, a: int, b: int
) -> None:
    port, in_port = a, None
    node = int(f.port_node[a])
    if not f.is_switch[node]:
        peer = int(f.port_peer[a])
        if peer < 0:
            path.ended = f"{place_of(f, names, a)} has no cable"
            return
        vl = _vl(f, a, 0, path.sl)
        path.hops.append(
            Hop(
                names[node],
                None,
                int(f.port_num[a]),
                names[int(f.port_node[peer])],
                int(f.port_num[peer]),
                vl,
            )
        )
        port, node, in_port = peer, int(f.port_node[peer]), int(f.port_num[peer])
    path.shortest = int(distance[node]) if f.is_switch[node] and distance[node] >= 0 else None
    passed: dict[int, int] = {}
    while node not in passed:
        passed[node] = len(path.hops)
        if node == int(f.port_node[b]) and (f.is_switch[node] or port == b):
            return
        if not f.is_switch[node]:
            path.ended = f"the packet reaches {names[node]}, which is not the destination"
            return
        out = int(f.lft[f.switch_of_node[node], path.dlid])
        name = names[node]
        if out == LFT_NO_ROUTE or not 0 < out <= int(f.node_nports[node]):
            path.ended = f"{name} has no route to LID {path.dlid} (LFT entry {out})"
            return
        here = int(f.node_base[node]) + out
        peer = int(f.port_peer[here])
        if peer < 0:
            path.ended = f"{name} sends LID {path.dlid} through port {out}, which has no cable"
            return
        path.hops.append(_hop(f, names, distance, path, node, in_port, out, peer))
        port, node, in_port = peer, int(f.port_node[peer]), int(f.port_num[peer])
    ring = [hop.node for hop in path.hops[passed[node] :]]
    path.ended = f"the packet loops: {' -> '.join([*ring, names[node]])}"


def _hop(
    f: Fabric,
    names: list[str],
    distance: np.ndarray,
    path: Explanation,
    node: int,
    in_port: int | None,
    out: int,
    peer: int,
) -> Hop:
    base, nports = int(f.node_base[node]), int(f.node_nports[node])
    to = int(f.port_node[peer])
    lids = np.bincount(f.lft[f.switch_of_node[node], end_lids(f)], minlength=256)
    others = []
    shorter = False
    if f.is_switch[to]:
        for p in range(1, nports + 1):
            q = int(f.port_peer[base + p])
            if q < 0 or p == out or not f.is_switch[f.port_node[q]] or distance[f.port_node[q]] < 0:
                continue
            shorter |= bool(distance[f.port_node[q]] < distance[to])
            if distance[f.port_node[q]] == distance[node] - 1:
                others.append(Alternative(p, place_of(f, names, q), int(lids[p])))
    vl = _vl(f, base + out, in_port or 0, path.sl)
    return Hop(
        node=names[node],
        in_port=in_port,
        out_port=out,
        to=names[to],
        to_port=int(f.port_num[peer]),
        vl=vl,
        lids=int(lids[out]),
        alternatives=tuple(others),
        shorter=shorter,
    )


def _vl(f: Fabric, out: int, in_port: int, sl: int) -> int:
    """Return the VL of ``sl`` at egress port row ``out`` for packets that entered through ``in_port``
    (IBA 14.2.5.8)."""
    pair = int(f.sl2vl[int(f.sl2vl_base[out]) + in_port, sl // 2])
    return pair >> 4 if sl % 2 == 0 else pair & 15


def _ports(numbers: str) -> str:
    return f"ports {numbers} lead" if "," in numbers else f"port {numbers} leads"


def _judge(f: Fabric, names: list[str], path: Explanation, a: int, b: int) -> None:
    """Write the sentences that give the reason for this path and the changes that would move it."""
    switches = [h for h in path.hops if h.in_port is not None or h.lids]
    if path.ended or not switches:
        return
    passed = len(switches) + bool(f.is_switch[f.port_node[b]])
    if path.shortest is not None and passed == path.shortest:
        path.reasons.append(f"It is a shortest path: {counted(passed, 'switch')}.")
    elif path.shortest is not None:
        path.reasons.append(
            f"It passes {counted(passed, 'switch')}; a shortest path passes {path.shortest}. {path.engine} excludes "
            f"shorter paths that turn from down to up, or that need links missing in its order of ranks."
        )
    for hop in switches:
        if not hop.alternatives:
            continue
        least = min(x.lids for x in hop.alternatives)
        ports = ", ".join(str(x.portnum) for x in hop.alternatives[:12]) + (" …" if len(hop.alternatives) > 12 else "")
        most = max(x.lids for x in hop.alternatives)
        others = f"{least} to {most}" if least < most else f"{least}"
        why = (
            f"the LFT entry of LID {path.dlid} is port {hop.out_port}, which carries {hop.lids} end-port LIDs; the "
            f"others carry {others}"
        )
        path.reasons.append(f"At {hop.node}, {_ports(ports)} on a shortest path too; {why}.")
        path.changes.append(
            f"Without the cable at {hop.node}[{hop.out_port}], packets would leave {hop.node} through port "
            f"{ports.replace(', ', ' or ')}."
        )
    if not path.changes:
        path.changes.append(
            "No other shortest path exists: if a cable on it fails, packets take a longer path, or have none."
        )
    if further := further_lids(f, names, a, b, path.dlid):
        path.changes.append(further)
    else:
        path.changes.append("With LMC 1 or more, B would have further LIDs, which the engine spreads over other paths.")
    path.changes.append("Another engine, or a file of root GUIDs, can give other tables.")
