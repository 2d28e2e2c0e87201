"""The map and what colours it, as columns of JSON: one document when the cabling changed, a small one every few seconds."""

from __future__ import annotations

import base64
from typing import Any, Literal

import numpy as np

from softib.diags.finding import Finding
from softib.fabric.model import Fabric
from softib.iba.constants import NodeType
from softib.web.map_groups import Groups, groups_of
from softib.web.rates import Sample
from softib.web.served import Now

__all__ = ["By", "map_document", "values_document"]

By = Literal["load", "wait", "errors", "findings"]
"""What edges can be coloured by."""


def map_document(now: Now) -> dict[str, Any]:
    """Columns: nodes with name, kind (0 switch, 1 adapter, 2 router), tier, leaf and place; edges as pairs of node rows; ``level``: the groups of each
    level of detail (:mod:`softib.web.map_groups`), null for the nodes themselves."""
    f, m = now.fabric, now.map
    kind = np.where(f.is_switch, 0, np.where(f.node_type == NodeType.ROUTER, 2, 1))
    return {
        "drawn": now.drawn, "name": f.node_names(), "guid": [f"{g:016x}" for g in f.node_guid.tolist()], "kind": kind.tolist(), "tier": m.tier.tolist(),
        "leaf": m.leaf.tolist(), "level": [None, *map(_level, groups_of(f, m))], "x": np.round(m.x, 2).tolist(), "y": np.round(m.y, 2).tolist(), "edge": m.edge.reshape(-1).tolist(),
    }  # fmt: skip


def _level(g: Groups) -> dict[str, Any]:
    return {"of": g.of.tolist(), "x": np.round(g.x, 2).tolist(), "y": np.round(g.y, 2).tolist(), "count": g.count.tolist(), "name": list(g.name)}


def values_document(now: Now, sample: Sample | None, by: By) -> dict[str, Any]:
    """``value`` of each edge, 0 to 255, base64 (uint8[edges]): ``load`` of its busiest port, 255 = the link is full; ``wait`` and ``errors`` on a logarithmic scale of the largest; ``findings``: 0 none,
    1 information, 2 warning, 3 error. ``node`` of each node, likewise: its worst finding."""
    edges = len(now.map.edge)
    value = np.zeros(edges)
    scale: float | None = 1.0
    if by == "findings":
        value, scale = _findings(now).astype(np.float64), None
    elif sample is not None and len(sample.load) == len(now.map.edge_of_port):
        value, scale = _of_ports(now, sample, by)
    return {"drawn": now.drawn, "version": now.version, "time": None if sample is None else sample.time_s, "by": by, "most": scale,
            "problem": now.problem, "node": _packed(_of_nodes(now)), "value": _packed(np.clip(np.ceil(value), 0, 255))}  # fmt: skip


def _of_ports(now: Now, sample: Sample, by: str) -> tuple[np.ndarray, float]:
    column = np.asarray(getattr(sample, by), np.float64)
    there = now.map.edge_of_port >= 0
    worst = np.zeros(len(now.map.edge))
    np.maximum.at(worst, now.map.edge_of_port[there], column[there])
    if by == "load":
        return worst * 255, 1.0
    most = float(worst.max(initial=0.0))
    return (np.log1p(worst) / np.log1p(most) * 255 if most else worst), most


def _findings(now: Now) -> np.ndarray:
    worst = np.zeros(len(now.map.edge), np.int64)
    for finding in now.findings:
        for port in _ports_of(now.fabric, finding):
            edge = int(now.map.edge_of_port[port])
            if edge >= 0:
                worst[edge] = max(worst[edge], int(finding.severity) + 1)
    return worst


def _of_nodes(now: Now) -> np.ndarray:
    worst = np.zeros(now.fabric.sizes.nodes, np.int64)
    row = {int(g): i for i, g in enumerate(now.fabric.node_guid.tolist())}
    for finding in now.findings:
        for place in finding.where:
            node = row.get(place.guid, -1)
            if node >= 0:
                worst[node] = max(worst[node], int(finding.severity) + 1)
    return worst


def _packed(values: np.ndarray) -> str:
    return base64.b64encode(values.astype(np.uint8).tobytes()).decode()


def _ports_of(f: Fabric, finding: Finding) -> list[int]:
    found = []
    for place in finding.where:
        nodes = np.flatnonzero(f.node_guid == np.uint64(place.guid))
        if place.portnum and len(nodes) == 1 and place.portnum <= f.node_nports[nodes[0]]:
            found.append(int(f.port(int(nodes[0]), place.portnum)))
    return found
