"""Position of each switch in the drawing: its tier, and its place in the tier. In a tier with many switches, several
switches share a box. Tiers come from :mod:`softib.diags.structure.ranks`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from softib.diags.structure.ranks import UNTIERED, count_tiers, tier_name
from softib.diags.view import components
from softib.natural_order import natural_rank
from softib.plural import counted
from softib.routing.graph import SwitchGraph

__all__ = ["MAX_BOXES", "Tiers", "tiers_of"]

MAX_BOXES = 64
"""Maximum number of boxes that a screen shows side by side in a tier."""
SHARED_BOXES = 48
"""Approximate number of boxes per tier if switches share boxes."""


@dataclass(frozen=True)
class Tiers:
    """``tier`` int32[switches], 0 = leaves; switches without a tier are in a row above all
    others. ``labels``: name of each tier.

    ``box`` int32[switches]: number of its box; boxes are numbered from 0, tier by tier, left to right. ``box_tier``
    int32[boxes], ``hosts`` int64[switches] CA ports of each switch."""

    tier: np.ndarray
    labels: list[str]
    box: np.ndarray
    box_tier: np.ndarray
    hosts: np.ndarray

    @property
    def n_tiers(self) -> int:
        """The number of rows in the drawing."""
        return len(self.labels)

    def boxes_of(self, tier: int) -> np.ndarray:
        """Return the boxes of a tier, from left to right."""
        return np.flatnonzero(self.box_tier == tier)


def tiers_of(graph: SwitchGraph, names: list[str], hosts: np.ndarray, rank: np.ndarray, tree: bool = True) -> Tiers:
    """Return the tiers and boxes of switches. All arguments are columns by switch; ``rank``: 1 for leaves and so on, 0
    or less for a switch without a tier. If ``tree`` is False, tiers have no names."""
    top = int(rank.max(initial=0))
    tier = np.where(rank > 0, rank - 1, top).astype(np.int32)
    numbers, lost = count_tiers(rank)
    labels = [_label(numbers.get(t, 0), tier_name(t) if tree else "") for t in range(1, top + 1)]
    if lost:
        labels.append(f"{_label(lost, '')} {UNTIERED}")
    order = _order(graph, tier, names, top)
    box = np.zeros(graph.n_switches, np.int32)
    box_tier: list[int] = []
    part = _parts(graph, tier, top)
    for t in range(len(labels)):
        for chunk in _chunks(order[t], part):
            box[chunk] = len(box_tier)
            box_tier.append(t)
    return Tiers(tier, labels, box, np.array(box_tier, np.int32), hosts)


def _label(n: int, name: str) -> str:
    return counted(n, f"{name} switch".lstrip())


def _parts(graph: SwitchGraph, tier: np.ndarray, top: int) -> np.ndarray:
    """Return, for each switch, the connected part to which it belongs if tier ``top`` is removed (the pods of a tree).
    A part is identified by its smallest switch."""
    if top < 3:
        return np.zeros(graph.n_switches, np.int64)
    owner = graph.link_switch
    inside = (tier[owner] < top - 1) & (tier[graph.peer] < top - 1)
    return components(graph.n_switches, owner[inside], graph.peer[inside])


def _order(graph: SwitchGraph, tier: np.ndarray, names: list[str], top: int) -> list[np.ndarray]:
    """Return the switches of each tier from left to right: leaves by part and name; switches above
    them by the position of the switches that they are cabled to."""
    part = _parts(graph, tier, top)
    rank = natural_rank(names)
    first_rank = np.full(len(names) + 1, len(names), np.int64)
    np.minimum.at(first_rank, part, rank)
    position = np.zeros(len(names))
    owner = graph.link_switch
    out = []
    for t in range(int(tier.max(initial=-1)) + 1):
        of_tier = np.flatnonzero(tier == t)
        pull = np.zeros(len(names))
        if t:
            down = tier[graph.peer] == t - 1
            total = np.bincount(owner[down], position[graph.peer[down]], len(names))
            links = np.maximum(np.bincount(owner[down], minlength=len(names)), 1)
            # Positions are rounded, so that one missing cable does not move a switch out of the order of names.
            pull = np.round(total / links * 20)
        of_tier = of_tier[np.lexsort((rank[of_tier], pull[of_tier], first_rank[part[of_tier]]))]
        position[of_tier] = (np.arange(len(of_tier)) + 0.5) / max(len(of_tier), 1)
        out.append(of_tier)
    return out


def _chunks(order: np.ndarray, part: np.ndarray) -> list[np.ndarray]:
    """Return one box per switch, or about ``SHARED_BOXES`` boxes of neighbouring switches, each
    inside one part if possible."""
    if len(order) <= MAX_BOXES:
        return [order[i : i + 1] for i in range(len(order))]
    size = -(-len(order) // SHARED_BOXES)
    starts = np.flatnonzero(np.diff(part[order], prepend=-1))
    runs = np.split(order, starts[1:])
    chunks = [c for run in runs for c in np.array_split(run, max(1, round(len(run) / size)))]
    return chunks if len(chunks) <= MAX_BOXES else np.array_split(order, SHARED_BOXES)
