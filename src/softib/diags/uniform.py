"""Uneven tiers found without names: the table of links between a tier and the next, against its own majority.

Switches of a tier that reach the same set of parents are one kind (a pod, or the whole tier). Within a kind every row
of the table should be the same; a row that differs names its switch, and the parents that have more or fewer links than
usual. A switch alone with its set of parents is compared with the kind that it shares most parents with. Where no
majority is, nothing is said.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from softib.diags.rules import mode
from softib.diags.view import FabricView

__all__ = ["Uneven", "uneven"]

MIN_KIND = 3
"""Switches with equal rows that make a kind."""
MAX_ODD = 0.15
"""Larger shares of a tier that differ are its design, not faults."""


@dataclass(frozen=True)
class Uneven:
    """``switch`` has ``links`` uplinks, its kind ``usual``; nodes with ``fewer`` or ``more`` links from it than usual."""

    switch: int
    links: int
    usual: int
    fewer: tuple[int, ...]
    more: tuple[int, ...]


def uneven(view: FabricView, rank: np.ndarray) -> list[Uneven]:
    """Switches whose links to the tier above differ from those of their kind."""
    links = view.between_switches
    a, b = view.node_a[links], view.node_b[links]
    low, high = np.where(rank[a] < rank[b], a, b), np.where(rank[a] < rank[b], b, a)
    out: list[Uneven] = []
    for r in range(1, int(rank.max(initial=0))):
        tier = (rank[low] == r) & (rank[high] == r + 1)
        out += _uneven_tier(low[tier], high[tier])
    return out


def _uneven_tier(low: np.ndarray, high: np.ndarray) -> list[Uneven]:
    rows: dict[int, dict[int, int]] = {}
    pair, count = np.unique(np.stack([low, high]), axis=1, return_counts=True)
    for switch, parent, n in zip(*pair.tolist(), count.tolist(), strict=True):
        rows.setdefault(switch, {})[parent] = n
    kinds: dict[frozenset[tuple[int, int]], list[int]] = {}
    for switch, row in rows.items():
        kinds.setdefault(frozenset(row.items()), []).append(switch)
    usual = [(key, members) for key, members in kinds.items() if len(members) >= MIN_KIND]
    odd = [s for key, members in kinds.items() if len(members) < MIN_KIND for s in members]
    if not usual or len(odd) > max(1, MAX_ODD * len(rows)):
        return []
    by_parent: dict[int, list[int]] = {}
    for k, (key, _) in enumerate(usual):
        for parent, _ in key:
            by_parent.setdefault(parent, []).append(k)
    found = []
    for switch in sorted(odd):
        near = [k for parent in rows[switch] for k in by_parent.get(parent, ())]
        if near:
            expected = dict(usual[mode(np.array(near))[0]][0])
            found.append(_compare(switch, rows[switch], expected))
    return _credible(found)


def _compare(switch: int, row: dict[int, int], expected: dict[int, int]) -> Uneven:
    parents = sorted({*row, *expected})
    fewer = tuple(p for p in parents if row.get(p, 0) < expected.get(p, 0))
    more = tuple(p for p in parents if row.get(p, 0) > expected.get(p, 0))
    return Uneven(switch, sum(row.values()), sum(expected.values()), fewer, more)


def _credible(found: list[Uneven]) -> list[Uneven]:
    """Those that differ in a few parents only: a switch cabled otherwise altogether is a design, not a fault."""
    return [u for u in found if len(u.fewer) + len(u.more) <= max(4, u.usual // 4) and (u.fewer or u.more)]
