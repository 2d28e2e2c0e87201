"""The map and its colour values, as columns in JSON. The browser reads the map only after the cabling has changed, and
the small document of colour values every few seconds.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from softib.diags.finding import Finding
from softib.fabric.model import Fabric
from softib.iba.constants import NodeType
from softib.natural_order import natural_rank
from softib.web.map_layout import Map
from softib.web.now import Now
from softib.web.rates import Sample, port_rows

__all__ = ["By", "Groups", "down_document", "groups_of", "map_document", "values_document"]


TILES = 24
"""Maximum number of rows, and of columns, of tiles."""


@dataclass(frozen=True)
class Groups:
    """The groups of one level of detail. ``of`` int32[nodes]: the group of each node. For each group: its position
    ``x`` and ``y`` float64, its ``count`` of nodes int64, and its ``name``.
    """

    of: np.ndarray
    x: np.ndarray
    y: np.ndarray
    count: np.ndarray
    name: tuple[str, ...]


def groups_of(fabric: Fabric, drawn: Map) -> tuple[Groups, Groups, Groups]:
    """Return levels 1 to 3 of ``drawn``. The time is nearly linear in the number of nodes."""
    n = fabric.sizes.nodes
    racks = drawn.leaf.astype(np.int64)
    # Switches are grouped by block and tier. The top tier has no blocks, so its switches are grouped by tile.
    switch = drawn.leaf == np.arange(n)
    tile = _tiles(drawn)
    tier = np.maximum(drawn.tier.astype(np.int64), 0)
    free = drawn.block < 0
    block = np.where(free, n + tile, drawn.block)
    tiers = (block * 128 + tier)[racks]
    # The tile of a switch is that of its first switch in the level below, so that no group is in two tiles.
    ids, at = np.unique(tiers, return_inverse=True)
    at = at.reshape(-1)
    first = np.full(len(ids), n, np.int64)
    np.minimum.at(first, at[switch], np.flatnonzero(switch))
    tiled = (tile[np.minimum(first, n - 1)] * 128 + tier[np.minimum(first, n - 1)])[at] if n else at
    names = fabric.node_names()
    rank = natural_rank(names)
    return tuple(_groups(fabric, drawn, switch, names, rank, key) for key in (racks, tiers, tiled))  # type: ignore[return-value]


def _tiles(drawn: Map) -> np.ndarray:
    """Return the tile of each node, int64[nodes]."""
    if not len(drawn.x):
        return np.zeros(0, np.int64)
    side = max(float(np.ptp(drawn.x)), float(np.ptp(drawn.y)), 1.0) / TILES
    across = np.minimum((drawn.x - drawn.x.min()) // side, TILES - 1).astype(np.int64)
    return across + TILES * np.minimum((drawn.y - drawn.y.min()) // side, TILES - 1).astype(np.int64)


def _groups(f: Fabric, drawn: Map, switch: np.ndarray, names: list[str], rank: np.ndarray, key: np.ndarray) -> Groups:
    """Return the groups; each is at the mean position of its switches."""
    _, of = np.unique(key, return_inverse=True)
    of = of.reshape(-1)
    k = int(of.max(initial=-1)) + 1
    count = np.bincount(of, minlength=k)
    switches = np.bincount(of[switch], minlength=k)
    x = np.bincount(of[switch], drawn.x[switch], minlength=k) / np.maximum(switches, 1)
    y = np.bincount(of[switch], drawn.y[switch], minlength=k) / np.maximum(switches, 1)
    order = np.flatnonzero(switch)
    order = order[np.argsort(rank[order], kind="stable")]
    first, last = np.zeros(k, np.int64), np.zeros(k, np.int64)
    first[of[order[::-1]]], last[of[order]] = order[::-1], order
    hosts = np.bincount(of[f.is_host], minlength=k)
    return Groups(
        of.astype(np.int32),
        x,
        y,
        count,
        tuple(
            _name(names[a], names[b], int(s), int(h))
            for a, b, s, h in zip(
                first.tolist(),
                last.tolist(),
                np.bincount(of[f.is_switch], minlength=k).tolist(),
                hosts.tolist(),
                strict=True,
            )
        ),
    )


def _name(first: str, last: str, switches: int, hosts: int) -> str:
    kinds = ((switches, "switch", "switches"), (hosts, "host", "hosts"))
    parts = [f"{n:,} {one if n == 1 else several}" for n, one, several in kinds if n]
    if switches + hosts == 1:
        return first
    if switches <= 1:
        return f"{first}, {parts[-1]}"
    return f"{first} … {last}: {', '.join(parts)}"


By = Literal["load", "wait", "errors", "findings", "jobs"]
"""The values by which edges can be coloured."""
REMOVED = 4
"""Value of a node that no longer exists."""


def map_document(now: Now) -> dict[str, Any]:
    """Return columns: nodes with name, kind (0 switch, 1 adapter, 2 router), tier, leaf and
    position; edges as pairs of node rows; ``level``: the groups of each level of detail
    (:mod:`softib.web.map_json`), null for the nodes themselves."""
    f, m = now.seen.fabric, now.map
    kind = np.where(f.is_switch, 0, np.where(f.node_type == NodeType.ROUTER, 2, 1))
    return {
        "drawn": now.drawn,
        "name": now.names,
        "guid": [f"{g:016x}" for g in f.node_guid.tolist()],
        "kind": kind.tolist(),
        "tier": m.tier.tolist(),
        "leaf": m.leaf.tolist(),
        "level": [None, *map(_level, groups_of(f, m))],
        "x": np.round(m.x, 2).tolist(),
        "y": np.round(m.y, 2).tolist(),
        "edge": m.edge.reshape(-1).tolist(),
    }


def _level(g: Groups) -> dict[str, Any]:
    return {
        "of": g.of.tolist(),
        "x": np.round(g.x, 2).tolist(),
        "y": np.round(g.y, 2).tolist(),
        "count": g.count.tolist(),
        "name": list(g.name),
    }


def values_document(now: Now, sample: Sample | None, by: By, job: str | None = None) -> dict[str, Any]:
    """Return ``value`` of each edge, 0 to 255, base64 (uint8[edges]): ``load`` of its busiest port
    (255: the link is full); ``wait`` as a share of time; ``errors`` on a logarithmic scale up to
    the largest; ``findings``: 0 none, 1 information, 2 warning, 3 error; ``jobs``: 0 none, the
    job's number, 255 several (only of ``job`` if it is given). ``down``: 1 for edges without any
    cable that is up. ``node``: the worst finding of each node (as for ``findings``), 4 if
    the node is missing; with ``by=jobs``, the node's job."""
    value, node = np.zeros(len(now.map.edge)), _of_nodes(now)
    scale: float | None = None
    if by == "findings":
        value = _findings(now).astype(np.float64)
    elif by == "jobs":
        if now.jobs is not None:
            value, node = now.jobs.colours(None if job is None else now.jobs.row(job))
    elif sample is not None:
        value, scale = _of_ports(now, sample, by)
    return {
        "drawn": now.drawn,
        "version": now.version,
        "time": None if sample is None else sample.time_s,
        "by": by,
        "most": scale,
        "problem": now.problem,
        "node": _packed(node),
        "value": _packed(np.clip(np.ceil(value), 0, 255)),
        "down": _packed(_down(now)),
    }


def down_document(now: Now) -> list[dict[str, Any]]:
    """Return missing cables and nodes that were read before, the newest first. ``named``: a finding
    names both ends of the cable, or a node at an end is also missing."""
    at: dict[tuple[int, int | None], set[int]] = {}
    for i, finding in enumerate(now.findings):
        for p in finding.where:
            at.setdefault((p.guid, p.portnum), set()).add(i)
    none: set[int] = set()
    named = {
        (a, b) for a, b in now.seen.down if at.get(a, none) & at.get(b, none) or {a[0], b[0]} & now.seen.removed.keys()
    }
    f = now.seen.fabric
    row = {g: i for i, g in enumerate(f.node_guid.tolist())}
    names = now.names

    def end(guid: int, portnum: int) -> str:
        return f"{names[row[guid]]}[{portnum}]" if guid in row else f"{guid:#018x}[{portnum}]"

    removed: list[dict[str, Any]] = [
        {
            "what": "cable",
            "a": end(*a),
            "b": end(*b),
            "guids": [f"{g:#018x}" for g, _ in (a, b)],
            "since": since,
            "named": (a, b) in named,
        }
        for (a, b), since in now.seen.down.items()
    ]
    removed += [
        {"what": "node", "a": names[row[g]], "b": None, "guids": [f"{g:#018x}"], "since": s, "named": False}
        for g, s in now.seen.removed.items()
    ]
    return sorted(removed, key=lambda d: (-d["since"], d["what"], d["a"]))


def _of_ports(now: Now, sample: Sample, by: str) -> tuple[np.ndarray, float]:
    """Return the worst value of the ports of each edge."""
    rows = port_rows(now.seen.fabric, sample.guid, sample.portnum)
    edge = np.where(rows >= 0, now.map.edge_of_port[np.maximum(rows, 0)], -1)
    column = np.nan_to_num(np.asarray(getattr(sample, by), np.float64))
    worst = np.zeros(len(now.map.edge))
    np.maximum.at(worst, edge[edge >= 0], column[edge >= 0])
    most = float(worst.max(initial=0.0))
    if by == "errors":
        return (np.log1p(worst) / np.log1p(most) * 255 if most else worst), most
    return worst * 255, 1.0


def _down(now: Now) -> np.ndarray:
    """Return bool[edges]: whether all cables of the edge are down."""
    f, m = now.seen.fabric, now.map
    lost = [end for cable in now.seen.down for end in cable]
    lost_ports = np.zeros(f.sizes.ports, bool)
    if lost:
        rows = port_rows(f, np.array([g for g, _ in lost], np.uint64), np.array([p for _, p in lost], np.int32))
        lost_ports[rows[rows >= 0]] = True
    up = np.zeros(len(m.edge), bool)
    up[m.edge_of_port[f.linked & ~lost_ports]] = True
    return ~up


def _findings(now: Now) -> np.ndarray:
    worst = np.zeros(len(now.map.edge), np.int64)
    for finding in now.findings:
        for port in _ports_of(now.seen.fabric, finding):
            edge = int(now.map.edge_of_port[port])
            if edge >= 0:
                worst[edge] = max(worst[edge], int(finding.severity) + 1)
    return worst


def _of_nodes(now: Now) -> np.ndarray:
    f = now.seen.fabric
    worst = np.zeros(f.sizes.nodes, np.int64)
    row = {g: i for i, g in enumerate(f.node_guid.tolist())}
    for finding in now.findings:
        for place in finding.where:
            node = row.get(place.guid, -1)
            if node >= 0:
                worst[node] = max(worst[node], int(finding.severity) + 1)
    for guid in now.seen.removed:
        if guid in row:
            worst[row[guid]] = REMOVED
    return worst


def _packed(values: np.ndarray) -> str:
    return base64.b64encode(values.astype(np.uint8).tobytes()).decode()


def _ports_of(f: Fabric, finding: Finding) -> list[int]:
    ends = [(p.guid, p.portnum) for p in finding.where if p.portnum]
    if not ends:
        return []
    rows = port_rows(f, np.array([g for g, _ in ends], np.uint64), np.array([p for _, p in ends], np.int32))
    return [int(r) for r in rows.tolist() if r >= 0]
