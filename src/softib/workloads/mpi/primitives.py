"""Building blocks of collectives: trees of ranks, blocks and segments of a vector, and walks down
and up a tree.

Rank 0 is the root of each tree.
"""

from __future__ import annotations

import numpy as np

from softib.workloads.mpi.program import Data, Program

__all__ = [
    "Tree",
    "bcast_tree",
    "binary",
    "binomial",
    "blocks",
    "chain",
    "halve",
    "in_order_binomial",
    "knomial_tree",
    "linear_bcast",
    "linear_reduce",
    "lower_power",
    "reduce_tree",
    "segments",
]

Tree = list[list[int]]
"""Children of each rank, in the order in which the rank sends to them."""


def chain(n: int) -> Tree:
    """Return a chain: each rank has the next one as its child."""
    return [[r + 1] if r + 1 < n else [] for r in range(n)]


def binary(n: int) -> Tree:
    """Return a binary tree with levels of 1, 2, 4, … ranks; odd ranks are below the root's first child, even ranks
    below its second."""
    children: Tree = [[] for _ in range(n)]
    for r in range(n):
        width = 1 << ((r + 1).bit_length() - 1)
        children[r] = [c for c in (r + width, r + 2 * width) if c < n]
    return children


def binomial(n: int) -> Tree:
    """Return a binomial tree in which the parent's number is that of the rank without the highest bit."""
    return [[r + m for m in _powers(n) if m > r and r + m < n] for r in range(n)]


def in_order_binomial(n: int) -> Tree:
    """Return a binomial tree in which the parent's number is that of the rank without the lowest set bit."""
    return [[r + m for m in _powers(n) if (r == 0 or m < (r & -r)) and r + m < n] for r in range(n)]


def knomial_tree(n: int, radix: int = 4) -> Tree:
    """Return a k-nomial tree: in base ``radix``, the parent's number is that of the rank without its last nonzero
    digit. The farthest child comes first."""
    out: Tree = []
    for r in range(n):
        span = 1
        while span < n and not r % (span * radix):
            span *= radix
        children = []
        while span > 1:
            span //= radix
            children += [r + span * k for k in range(1, radix) if r + span * k < n]
        out.append(children)
    return out


def parents(tree: Tree) -> np.ndarray:
    """Return the parent of each rank (int64[n], -1 of the root)."""
    up = np.full(len(tree), -1, np.int64)
    for r, children in enumerate(tree):
        up[children] = r
    return up


def columns(tree: Tree) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return (ranks that have a k-th child, the k-th child of each) for k = 0, 1, …"""
    most = max((len(c) for c in tree), default=0)
    pairs = [[(r, c[k]) for r, c in enumerate(tree) if len(c) > k] for k in range(most)]
    return [(np.array([a for a, _ in p], np.int64), np.array([b for _, b in p], np.int64)) for p in pairs]


def _powers(n: int) -> list[int]:
    return [1 << k for k in range(max(n - 1, 0).bit_length())]


def lower_power(n: int) -> int:
    """Return the largest power of two that is not above ``n``."""
    return 1 << (n.bit_length() - 1)


def blocks(count: int, parts: int) -> Data:
    """Return ``parts`` blocks of ``count`` elements in total; the first blocks may be one element larger than the
    others."""
    size = np.full(parts, count // parts, np.int64)
    size[: count % parts] += 1
    return Data(np.concatenate([[0], np.cumsum(size)[:-1]]).astype(np.int64), size)


def halve(p: Program, real: np.ndarray, count: int) -> list[tuple[Data, Data, np.ndarray]]:
    """Recursive halving with doubling distance: return (part sent, part kept, partner) for each step."""
    power = len(real)
    virtual, mask = np.arange(power), 1
    begin, size = np.zeros(power, np.int64), np.full(power, count, np.int64)
    steps = []
    while mask < power:
        peer = real[virtual ^ mask]
        lower = virtual < (virtual ^ mask)
        half = size // 2
        kept = Data(np.where(lower, begin, begin + half), np.where(lower, half, size - half))
        sent = Data(np.where(lower, begin + half, begin), np.where(lower, size - half, half))
        _, got = p.exchange(real, peer, sent, peer, kept)
        p.reduce(real, got, kept)
        steps.append((sent, kept, peer))
        begin, size, mask = kept.offset, kept.count, mask * 2
    return steps


def segments(count: int, octets: int, element: int) -> list[tuple[int, int]]:
    """Return (first element, count) of the segments of at most ``octets`` bytes (0: one segment)."""
    per = max(octets // element if octets else count, 1)
    return [(at, min(per, count - at)) for at in range(0, count, per)] or [(0, 0)]


def bcast_tree(p: Program, tree: Tree, pieces: list[tuple[int, int]], blocking: bool = False) -> None:
    """Let every rank forward each segment to its children when the segment has arrived and the previous one was sent.
    ``blocking``: use MPI_Send, otherwise MPI_Isend."""
    up = parents(tree)
    below = np.flatnonzero(up >= 0)
    by_child = columns(tree)
    inner = np.array([r for r, c in enumerate(tree) if c], np.int64)
    sent = p.last[p.every].T.copy()
    before = p.last[p.every].T.copy()
    for at, count in pieces:
        got = np.full(p.ranks, -1, np.int64)
        rows = p.receive(below, up[below], Data.of(at, count, len(below)), needs=[c[below] for c in before])
        got[below] = rows
        left = []
        for rank, child in by_child:
            row = np.full(p.ranks, -1, np.int64)
            after = [got[rank], *(c[rank] for c in sent)]
            row[rank] = p.send(rank, child, Data.of(at, count, len(rank)), needs=after, blocking=blocking)
            left.append(row)
        if len(inner):
            p.wait(inner, [row[inner] for row in (*left, got)])
        before = np.where(got >= 0, got, before[0])[None]
        sent = p.last.T.copy()
        sent[0] = np.where(np.isin(p.every, inner), p.last[:, 0], got)


def linear_bcast(p: Program, count: int, segment: int = 0) -> None:
    """Let the root send to all other ranks at once."""
    bcast_tree(p, [list(range(1, p.ranks)), *([] for _ in range(p.ranks - 1))], [(0, count)])


def reduce_tree(p: Program, tree: Tree, pieces: list[tuple[int, int]]) -> None:
    """Let every rank add each segment of its children to its own, and forward the sum. The receive of the next segment
    is posted while a segment is reduced."""
    up = parents(tree)
    below = np.flatnonzero(up >= 0)
    by_child = columns(tree)
    older = p.last[:, 0].copy()
    for at, count in pieces:
        for rank, child in by_child:
            data = Data.of(at, count, len(rank))
            last = p.last[rank].copy()
            rows = p.receive(rank, child, data, needs=[older[rank]])
            older[rank] = last[:, 0]
            p.last[rank, 0], p.last[rank, 1] = rows, last[:, 0]
            p.reduce(rank, rows, data)
        p.send(below, up[below], Data.of(at, count, len(below)))


def linear_reduce(p: Program, count: int, segment: int = 0) -> None:
    """Let the root receive from all other ranks in turn, starting with the last."""
    if p.ranks > 1:
        reduce_tree(p, [list(range(p.ranks - 1, 0, -1)), *([] for _ in range(p.ranks - 1))], [(0, count)])
