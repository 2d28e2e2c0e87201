"""Shapes of fat trees, and the cabling of their tiers, for ``fat-tree`` and ``rail-optimized``.

A tree is a PGFT(n; m; w; p) of Zahavi ("D-Mod-K routing providing non-blocking traffic for shift
permutations on real life fat trees", CCIT report 776, 2010). A PGFT is the XGFT of Öhring et al.
("On generalized fat trees", IPPS 1995) with parallel cables: a node of tier i has ``m[i]``
children, a node of tier i-1 has ``w[i]`` parents, and ``p[i]`` cables lead to each parent. Tier 0
consists of the hosts. A k-ary n-tree (Petrini and Vanneschi, IPPS 1997) is m = w = (k, …) with w[1]
= 1.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from softib.fabric.topologies.blueprint import Blueprint

__all__ = ["TIER_NAMES", "TreeShape", "evenly_spread", "grow", "tier_name", "wire_tree"]

TIER_NAMES = ("host", "leaf", "spine", "core")


def tier_name(level: int) -> str:
    """Return the beginning of the names of a tier's switches (tier 1: leaf)."""
    return TIER_NAMES[level] if level < len(TIER_NAMES) else f"tier{level}"


@dataclass(frozen=True)
class TreeShape:
    """The shape of a tree. ``m``, ``w`` and ``p`` are indexed by tier (0 = between hosts and
    leaves). ``leaves`` is the number of leaves; they fill subtrees from the left.

    ``first_up[t]`` is the portnum of the first uplink of a switch of tier t+1. All ports below it
    are for children, whether they are used or not.
    """

    m: tuple[int, ...]
    w: tuple[int, ...]
    p: tuple[int, ...]
    first_up: tuple[int, ...]
    leaves: int

    @property
    def levels(self) -> int:
        """Return the number of tiers of switches."""
        return len(self.m)

    def subtrees(self, level: int) -> int:
        """Return the number of subtrees whose roots are at tier ``level`` (1 = leaves)."""
        count = self.leaves
        for m in self.m[1:level]:
            count = -(-count // m)
        return count

    def roots(self, level: int) -> int:
        """Return the number of top switches of a subtree whose top tier is ``level``."""
        return math.prod(self.w[:level])

    def switches(self, level: int) -> int:
        """Return the number of switches of tier ``level``."""
        return self.subtrees(level) * self.roots(level)

    @property
    def n_switches(self) -> int:
        """Return the number of switches of all tiers."""
        return sum(self.switches(t) for t in range(1, self.levels + 1))

    @property
    def ports_used(self) -> int:
        """Return the largest number of ports that a switch of this tree uses."""
        up = [w * p for w, p in zip(self.w[1:], self.p[1:], strict=True)] + [0]
        first = [*self.first_up, 0]
        return max(
            max(m * p, (first[t] - 1 if up[t] else 0)) + up[t]
            for t, (m, p) in enumerate(zip(self.m, self.p, strict=True))
        )


def evenly_spread(children: int, up: int, down: int) -> int:
    """Return the number of parents: the smallest s >= ceil(children * up / down) for which s
    divides ``up``.

    Then every child has ``up // s`` cables to each parent. The results equal the number of spines in NVIDIA's DGX
    SuperPOD reference architecture: 4, 8, 16, 16 for 8, 16, 24, 32 leaves (64 ports, 32 uplinks each).
    """
    least = max(1, -(-children * up // down))
    return next(s for s in range(least, up + 1) if up % s == 0)


def grow(radix: int, h: int, u: int, leaves: int, most: list[int], cables: list[int | None]) -> TreeShape:
    """Return the tree of ``leaves`` leaves with ``h`` host ports and ``u`` uplinks each. Its
    switches have ``radix`` ports. Switches between leaves and top use half their ports for uplinks.
    ``most`` and ``cables`` have one entry per tier above the leaves: the maximum number of children
    per switch, and the number of parallel cables to each parent (None: :func:`evenly_spread`).
    """
    m, w, p, first_up = [h], [1], [1], [h + 1]
    units, up = leaves, u
    for i, (room, parallel) in enumerate(zip(most, cables, strict=True)):
        children = min(units, room)
        width = up // parallel if parallel else evenly_spread(children, up, radix if i == len(most) - 1 else radix // 2)
        m.append(children)
        w.append(width)
        p.append(up // width)
        first_up.append(radix // 2 + 1)
        units, up = -(-units // room), radix // 2
    return TreeShape(tuple(m), tuple(w), tuple(p), tuple(first_up[: len(most)]), leaves)


def wire_tree(b: Blueprint, shape: TreeShape, radix: int, pod_level: int) -> list[np.ndarray]:
    """Add the switches of every tier, and the cables between tiers. Return the nodes of each tier,
    leaves first.

    Child ports begin at port 1 and are used by the children in order; parallel cables to one child
    are adjacent. Uplinks begin at ``first_up``, with the parents in order. Subtrees whose top tier
    is ``pod_level`` are pods (label ``pod``).
    """
    tiers: list[np.ndarray] = []
    for t in range(1, shape.levels + 1):
        count, roots = shape.switches(t), shape.roots(t)
        below = math.prod(shape.m[t:pod_level]) if t <= pod_level else 0
        pod = np.arange(count) // roots // below if t <= pod_level else np.full(count, -1)
        tiers.append(b.switches(_names(t, count), radix, t, pod=pod))
    for t in range(2, shape.levels + 1):
        _wire_tier(b, shape, t, tiers[t - 2], tiers[t - 1])
    return tiers


def _names(level: int, count: int) -> list[str]:
    return [f"{tier_name(level)}-{i}" for i in range(1, count + 1)]


def _wire_tier(b: Blueprint, shape: TreeShape, t: int, child: np.ndarray, parent: np.ndarray) -> None:
    """Add the cables between tiers t-1 and t. The root at position k of each subtree is cabled to
    its parents k*w … k*w + w - 1."""
    m, w, p = shape.m[t - 1], shape.w[t - 1], shape.p[t - 1]
    roots = shape.roots(t - 1)
    i = np.arange(len(child))[:, None, None]
    j, s = np.arange(w)[None, :, None], np.arange(p)[None, None, :]
    subtree, position = i // roots, i % roots
    up = (subtree // m) * shape.roots(t) + position * w + j
    b.links(
        f"{tier_name(t - 1)}-{tier_name(t)}",
        child[i],
        shape.first_up[t - 2] + j * p + s,
        parent[up],
        (subtree % m) * p + s + 1,
    )
