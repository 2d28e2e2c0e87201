"""The trees that Open MPI's broadcasts and reductions go along; rank 0 is the root of each."""

from __future__ import annotations

import numpy as np

__all__ = ["binary", "binomial", "chain", "in_order_binomial", "knomial"]

Tree = list[list[int]]
"""Children of each rank, in the order in which it serves them."""


def chain(n: int) -> Tree:
    """Each rank has the next as its child."""
    return [[r + 1] if r + 1 < n else [] for r in range(n)]


def binary(n: int) -> Tree:
    """Levels of 1, 2, 4, … ranks; odd ranks stand below the root's first child, even ones below its second."""
    children: Tree = [[] for _ in range(n)]
    for r in range(n):
        width = 1 << ((r + 1).bit_length() - 1)
        children[r] = [c for c in (r + width, r + 2 * width) if c < n]
    return children


def binomial(n: int) -> Tree:
    """The parent of a rank has its number without the highest bit."""
    return [[r + m for m in _powers(n) if m > r and r + m < n] for r in range(n)]


def in_order_binomial(n: int) -> Tree:
    """The parent of a rank has its number without the lowest bit."""
    return [[r + m for m in _powers(n) if (r == 0 or m < (r & -r)) and r + m < n] for r in range(n)]


def knomial(n: int, radix: int = 4) -> Tree:
    """A rank's parent has its number without the last digit that is not 0, in base ``radix``; the farthest child comes first."""
    out: Tree = []
    for r in range(n):
        span = 1
        while span < n and not r % (span * radix):
            span *= radix
        found = []
        while span > 1:
            span //= radix
            found += [r + span * k for k in range(1, radix) if r + span * k < n]
        out.append(found)
    return out


def parents(tree: Tree) -> np.ndarray:
    """Parent of each rank (int64[n], -1 of the root)."""
    up = np.full(len(tree), -1, np.int64)
    for r, children in enumerate(tree):
        up[children] = r
    return up


def columns(tree: Tree) -> list[tuple[np.ndarray, np.ndarray]]:
    """(ranks that have a k-th child, that child) for k = 0, 1, …"""
    most = max((len(c) for c in tree), default=0)
    pairs = [[(r, c[k]) for r, c in enumerate(tree) if len(c) > k] for k in range(most)]
    return [(np.array([a for a, _ in p], np.int64), np.array([b for _, b in p], np.int64)) for p in pairs]


def _powers(n: int) -> list[int]:
    return [1 << k for k in range(max(n - 1, 0).bit_length())]
