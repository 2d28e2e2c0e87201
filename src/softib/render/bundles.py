"""The lines of a drawing: cables between two boxes, with their number, load, speed and findings."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from softib.analysis.tiers import Tiers
from softib.diags.finding import Finding
from softib.fabric.model import Fabric
from softib.routing.graph import SwitchGraph

__all__ = ["LOAD_STEPS", "MAX_LINES", "Bundle", "bundles", "ghosts", "load_class", "node_severity"]

MAX_LINES = 3000
"""Largest number of lines in a drawing. Lines with findings, then the busiest, are drawn first."""
LOAD_STEPS = (0.5, 0.9, 1.1, 2.0)
"""Thresholds of the load colours: the share of a link that uniform traffic at full rate needs; 1 = exactly full."""


@dataclass
class Bundle:
    """Cables between two boxes: their number, the largest load, speeds, and the worst finding (-1 = none)."""

    a: int
    b: int
    cables: int
    load: float
    speed: str
    slow: bool
    severity: int


def load_class(load: float) -> int:
    """Return the colour of a load, 0 to 4."""
    return int(np.searchsorted(LOAD_STEPS, load, side="right"))


def port_severity(fabric: Fabric, findings: Iterable[Finding]) -> np.ndarray:
    """Return the worst severity of the findings at each port (int8[ports], -1 = none)."""
    worst = np.full(fabric.sizes.ports, -1, np.int8)
    node_of = {int(g): i for i, g in enumerate(fabric.node_guid)}
    for finding in findings:
        for place in finding.where:
            node = node_of.get(place.guid)
            if node is None or not place.portnum or place.portnum > fabric.node_nports[node]:
                continue
            port = int(fabric.port(node, place.portnum))
            worst[port] = max(worst[port], int(finding.severity))
    return worst


def node_severity(fabric: Fabric, findings: Iterable[Finding]) -> np.ndarray:
    """Return the worst severity of the findings at each node (int8[nodes], -1 = none)."""
    worst = np.full(fabric.sizes.nodes, -1, np.int8)
    node_of = {int(g): i for i, g in enumerate(fabric.node_guid)}
    for finding in findings:
        for place in finding.where:
            node = node_of.get(place.guid)
            if node is not None:
                worst[node] = max(worst[node], int(finding.severity))
    return worst


def bundles(
    fabric: Fabric,
    graph: SwitchGraph,
    tiers: Tiers,
    load: np.ndarray | None,
    gbps: np.ndarray,
    findings: Iterable[Finding],
) -> list[Bundle]:
    """Return the cables between different boxes as lines: those with findings first, then the busiest. ``load``: the
    relative load of each link between switches."""
    owner = graph.link_switch
    row = np.flatnonzero(np.arange(len(owner)) < graph.reverse)
    a, b = tiers.box[owner[row]], tiers.box[graph.peer[row]]
    keep = a != b
    row, a, b = row[keep], a[keep], b[keep]
    a, b = np.minimum(a, b), np.maximum(a, b)
    key, which = np.unique(a.astype(np.int64) * len(tiers.box_tier) + b, return_inverse=True)
    port = fabric.node_base[graph.switch_node[owner[row]]] + graph.out_port[row]
    most, slowest, fastest = np.zeros(len(key)), np.full(len(key), np.inf), np.zeros(len(key))
    if load is not None:
        np.maximum.at(most, which, np.maximum(load[row], load[graph.reverse[row]]))
    np.minimum.at(slowest, which, gbps[port])
    np.maximum.at(fastest, which, gbps[port])
    severity = port_severity(fabric, findings)
    worst = np.full(len(key), -1)
    np.maximum.at(worst, which, np.maximum(severity[port], severity[fabric.port_peer[port]]))
    cables = np.bincount(which, minlength=len(key))
    order = np.lexsort((-most, -worst))[:MAX_LINES]
    n = max(len(tiers.box_tier), 1)
    return [
        Bundle(
            int(key[i] // n),
            int(key[i] % n),
            int(cables[i]),
            float(most[i]),
            _speeds(float(slowest[i]), float(fastest[i])),
            bool(slowest[i] < fastest[i]),
            int(worst[i]),
        )
        for i in order
    ]


def ghosts(fabric: Fabric, graph: SwitchGraph, tiers: Tiers, findings: Iterable[Finding]) -> list[Bundle]:
    """Return missing cables as lines of 0 cables: the findings that name two free switch ports."""
    switch_of = {int(graph.switch_guid[s]): s for s in range(graph.n_switches)}
    node_of = {int(g): i for i, g in enumerate(fabric.node_guid)}
    out = []
    for finding in findings:
        if len(finding.where) != 2 or any(p.guid not in switch_of or not p.portnum for p in finding.where):
            continue
        a, b = (int(tiers.box[switch_of[p.guid]]) for p in finding.where)
        nodes = [node_of[p.guid] for p in finding.where]
        ports = [int(fabric.port(n, p.portnum)) for n, p in zip(nodes, finding.where, strict=True)]
        exist = all(p.portnum <= fabric.node_nports[n] for n, p in zip(nodes, finding.where, strict=True))
        if a != b and exist and (fabric.port_peer[ports] < 0).all():
            out.append(Bundle(min(a, b), max(a, b), 0, 0.0, "no cable", False, int(finding.severity)))
    return out[:MAX_LINES]


def _speeds(slowest: float, fastest: float) -> str:
    low, high = f"{slowest:g}", f"{fastest:g}"
    return f"{high} Gb/s" if low == high else f"{low} to {high} Gb/s"
