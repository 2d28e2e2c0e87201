"""Levels of detail of the map: what is drawn as one when the reader stands too far away to tell its
parts apart.

Level 0 are the nodes. On level 1 a leaf switch and its hosts are one (a rack), on level 2 the
switches of one tier of a block and what hangs on them, on level 3 what stands in one tile of the
map. Each level's groups are unions of the finer level's, so that an edge between two groups is a
bundle of edges.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from softib.fabric.model import Fabric
from softib.fabric.node_names import natural_rank
from softib.web.map_layout import Map

__all__ = ["Groups", "groups_of"]

TILES = 24
"""Tiles side by side, and below each other at most."""


@dataclass(frozen=True)
class Groups:
    """One level. ``of`` int32[nodes]: the group of each node; by group: ``x`` and ``y`` float64,
    ``count`` int64 of nodes, ``name``."""

    of: np.ndarray
    x: np.ndarray
    y: np.ndarray
    count: np.ndarray
    name: tuple[str, ...]


def groups_of(fabric: Fabric, drawn: Map) -> tuple[Groups, Groups, Groups]:
    """Levels 1 to 3 of ``drawn``. Near-linear in nodes."""
    n = fabric.sizes.nodes
    racks = drawn.leaf.astype(np.int64)
    # A block's tier; the top tier has no blocks, its switches are grouped by the tile that they stand in.
    switch = drawn.leaf == np.arange(n)
    tile = _tiles(drawn)
    tier = np.maximum(drawn.tier.astype(np.int64), 0)
    free = drawn.block < 0
    block = np.where(free, n + tile, drawn.block)
    tiers = (block * 128 + tier)[racks]
    # A tile is that of the level below's first switch: a group is never in two tiles.
    ids, at = np.unique(tiers, return_inverse=True)
    at = at.reshape(-1)
    first = np.full(len(ids), n, np.int64)
    np.minimum.at(first, at[switch], np.flatnonzero(switch))
    tiled = (tile[np.minimum(first, n - 1)] * 128 + tier[np.minimum(first, n - 1)])[at] if n else at
    names = fabric.node_names()
    rank = natural_rank(names)
    return tuple(_groups(fabric, drawn, switch, names, rank, key) for key in (racks, tiers, tiled))  # type: ignore[return-value]


def _tiles(drawn: Map) -> np.ndarray:
    """The tile of each node, int64[nodes]."""
    if not len(drawn.x):
        return np.zeros(0, np.int64)
    side = max(float(np.ptp(drawn.x)), float(np.ptp(drawn.y)), 1.0) / TILES
    across = np.minimum((drawn.x - drawn.x.min()) // side, TILES - 1).astype(np.int64)
    return across + TILES * np.minimum((drawn.y - drawn.y.min()) // side, TILES - 1).astype(np.int64)


def _groups(f: Fabric, drawn: Map, switch: np.ndarray, names: list[str], rank: np.ndarray, key: np.ndarray) -> Groups:
    """A group stands where its switches stand in the middle."""
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
