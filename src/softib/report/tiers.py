"""Where each switch stands in the drawing: its tier, its place in the tier, and boxes of switches where there are many."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from softib.report.endpoints import natural_key
from softib.routing.graph import SwitchGraph

__all__ = ["MAX_BOXES", "Tiers", "tiers_of"]

MAX_BOXES = 64
"""Boxes of a tier: what a screen shows side by side."""
SHARED_BOXES = 48
"""About so many boxes where switches have to share them."""
LEAF_SHARE = 4
"""A switch is a leaf when it has a quarter of the hosts that switches with hosts have in the middle (median)."""


@dataclass(frozen=True)
class Tiers:
    """``tier`` int32[switches], 0 = leaves. ``box`` int32[switches]: dense number of its box; boxes are numbered tier by
    tier, left to right. ``box_tier`` int32[boxes], ``hosts`` int64[switches] CA ports of each switch."""

    tier: np.ndarray
    box: np.ndarray
    box_tier: np.ndarray
    hosts: np.ndarray

    @property
    def n_tiers(self) -> int:
        """Tiers that exist."""
        return int(self.tier.max(initial=-1)) + 1

    def boxes_of(self, tier: int) -> np.ndarray:
        """Boxes of a tier, left to right."""
        return np.flatnonzero(self.box_tier == tier)


def tiers_of(graph: SwitchGraph, names: list[str], hosts: np.ndarray) -> Tiers:
    """Tiers by distance from the leaves; ``names`` and ``hosts`` (CA ports) are by switch."""
    tier = _distance(graph, _leaves(hosts))
    order = _order(graph, tier, names)
    box = np.zeros(graph.n_switches, np.int32)
    box_tier: list[int] = []
    for t in range(int(tier.max(initial=-1)) + 1):
        for chunk in _chunks(order[t], _parts(graph, tier)):
            box[chunk] = len(box_tier)
            box_tier.append(t)
    return Tiers(tier, box, np.array(box_tier, np.int32), hosts)


def _leaves(hosts: np.ndarray) -> np.ndarray:
    with_hosts = hosts[hosts > 0]
    if not len(with_hosts):
        return np.ones(len(hosts), bool)
    return np.asarray(hosts >= max(1.0, float(np.median(with_hosts)) / LEAF_SHARE))


def _distance(graph: SwitchGraph, start: np.ndarray) -> np.ndarray:
    """Hops from the nearest switch of ``start``; switches that none reaches count as tier 0."""
    owner = np.repeat(np.arange(graph.n_switches), np.diff(graph.first))
    far = np.where(start, 0, -1).astype(np.int32)
    step = 0
    while True:
        reached = graph.peer[far[owner] == step]
        fresh = np.unique(reached[far[reached] < 0])
        if not len(fresh):
            return np.maximum(far, 0)
        step += 1
        far[fresh] = step


def _parts(graph: SwitchGraph, tier: np.ndarray) -> np.ndarray:
    """Connected parts that remain without the top tier (the pods of a tree): smallest switch of the part, by switch."""
    part = np.arange(graph.n_switches)
    top = int(tier.max(initial=0))
    if top < 2:
        return np.zeros(graph.n_switches, np.int64)
    owner = np.repeat(np.arange(graph.n_switches), np.diff(graph.first))
    inside = (tier[owner] < top) & (tier[graph.peer] < top)
    a, b = owner[inside], graph.peer[inside]
    while True:
        before = part.copy()
        np.minimum.at(part, a, part[b])
        part = part[part]
        if np.array_equal(before, part):
            return part


def _order(graph: SwitchGraph, tier: np.ndarray, names: list[str]) -> list[np.ndarray]:
    """Switches of each tier from left to right: leaves by part and name, above them by where their links lead."""
    part = _parts(graph, tier)
    rank = np.empty(len(names), np.int64)
    rank[sorted(range(len(names)), key=lambda s: (natural_key(names[s]), s))] = np.arange(len(names))
    first_rank = np.full(len(names) + 1, len(names), np.int64)
    np.minimum.at(first_rank, part, rank)
    position = np.zeros(len(names))
    owner = np.repeat(np.arange(graph.n_switches), np.diff(graph.first))
    out = []
    for t in range(int(tier.max(initial=-1)) + 1):
        mine = np.flatnonzero(tier == t)
        pull = np.zeros(len(names))
        if t:
            down = tier[graph.peer] == t - 1
            total = np.bincount(owner[down], position[graph.peer[down]], len(names))
            links = np.maximum(np.bincount(owner[down], minlength=len(names)), 1)
            # Coarse, so that one missing cable does not move a switch out of the order of names.
            pull = np.round(total / links * 20)
        mine = mine[np.lexsort((rank[mine], pull[mine], first_rank[part[mine]]))]
        position[mine] = (np.arange(len(mine)) + 0.5) / max(len(mine), 1)
        out.append(mine)
    return out


def _chunks(order: np.ndarray, part: np.ndarray) -> list[np.ndarray]:
    """A box a switch, or about ``SHARED_BOXES`` boxes of neighbours that keep to one part where that is possible."""
    if len(order) <= MAX_BOXES:
        return [order[i : i + 1] for i in range(len(order))]
    size = -(-len(order) // SHARED_BOXES)
    starts = np.flatnonzero(np.diff(part[order], prepend=-1))
    runs = np.split(order, starts[1:])
    chunks = [c for run in runs for c in np.array_split(run, max(1, round(len(run) / size)))]
    return chunks if len(chunks) <= MAX_BOXES else np.array_split(order, SHARED_BOXES)
