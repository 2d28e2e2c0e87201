"""MPI_Reduce_scatter, whose blocks differ by at most one element, and MPI_Barrier."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from softib.workloads.mpi.primitives import blocks, linear_reduce, lower_power
from softib.workloads.mpi.program import Data, Program

__all__ = ["BARRIERS", "REDUCE_SCATTERS"]

Maker = Callable[[Program, int, int], None]


def nonoverlapping(p: Program, count: int, segment: int = 0) -> None:
    """Add a reduce to rank 0, which then sends each rank its block."""
    b = blocks(count, p.ranks)
    linear_reduce(p, count)
    for k in range(1, p.ranks):
        one = np.array([k])
        p.send(np.array([0]), one, b.at(one))
        p.receive(one, np.array([0]), b.at(one))


def recursive_halving(p: Program, count: int, segment: int = 0) -> None:
    """Add log2 n exchanges of halves, with the farthest partner first. Ranks beyond a power of two send their vector to
    a neighbour and receive their block at the end."""
    n, power = p.ranks, lower_power(p.ranks)
    extra, b = n - power, blocks(count, n)
    p.copy(p.every, count)
    even = np.arange(0, 2 * extra, 2)
    whole = Data.of(0, count, extra)
    if extra:
        p.send(even, even + 1, whole)
        p.reduce(even + 1, p.receive(even + 1, even, whole), whole)
    real = np.concatenate([even + 1, np.arange(2 * extra, n)])
    edge = np.append(
        np.where(np.arange(power) < extra, b.offset[np.minimum(2 * np.arange(power), n - 1)], b.offset[real]), count
    )
    virtual, first, mask = np.arange(power), np.zeros(power, np.int64), power // 2
    while mask:
        low = virtual & mask == 0
        keep, give = np.where(low, first, first + mask), np.where(low, first + mask, first)
        span = lambda begin, mask=mask: Data(edge[begin], edge[begin + mask] - edge[begin])
        peer = real[virtual ^ mask]
        _, got = p.exchange(real, peer, span(give), peer, span(keep))
        p.reduce(real, got, span(keep))
        first, mask = keep, mask // 2
    if extra:
        p.send(even + 1, even, b.at(even))
        p.receive(even, even + 1, b.at(even))


def ring(p: Program, count: int, segment: int = 0) -> None:
    """Add n - 1 steps around a ring; the block of rank r is complete when it arrives at r."""
    n, r = p.ranks, p.every
    b = blocks(count, n)
    p.copy(r, count)
    for k in range(1, n):
        _, got = p.exchange(r, (r + 1) % n, b.at((r - k) % n), (r - 1) % n, b.at((r - k - 1) % n))
        p.reduce(r, got, b.at((r - k - 1) % n))


def linear_barrier(p: Program, count: int = 0, segment: int = 0) -> None:
    """Add messages from all ranks to rank 0, and back to all."""
    below, nothing = p.every[1:], Data.of(0, 0, p.ranks - 1)
    root = np.zeros(len(below), np.int64)
    if len(below):
        p.send(below, root, nothing)
        p.wait(root[:1], list(p.receive(root, below, nothing)[:, None]))
        p.send(root, below, nothing)
        p.receive(below, root, nothing)


def doubling_barrier(p: Program, count: int = 0, segment: int = 0) -> None:
    """Add log2 n exchanges; ranks beyond a power of two first send to a partner, and receive from it at the end."""
    n, power = p.ranks, lower_power(p.ranks)
    high, nothing, virtual, mask = np.arange(power, n), Data.of(0, 0, n), np.arange(power), 1
    if n > power:
        p.send(high, high - power, nothing.at(high))
        p.receive(high - power, high, nothing.at(high))
    while mask < power:
        p.exchange(virtual, virtual ^ mask, nothing.at(virtual), virtual ^ mask, nothing.at(virtual))
        mask *= 2
    if n > power:
        p.send(high - power, high, nothing.at(high))
        p.receive(high, high - power, nothing.at(high))


def bruck_barrier(p: Program, count: int = 0, segment: int = 0) -> None:
    """Add ceil(log2 n) steps, in which each rank sends a message to the rank at distance 1, 2, 4, …"""
    n, r, distance, nothing = p.ranks, p.every, 1, Data.of(0, 0, p.ranks)
    while distance < n:
        p.exchange(r, (r + distance) % n, nothing, (r - distance) % n, nothing)
        distance *= 2


def tree_barrier(p: Program, count: int = 0, segment: int = 0) -> None:
    """Add messages up a binomial tree and down again."""
    n = p.ranks
    spans = [1 << k for k in range(max(n - 1, 0).bit_length())]
    for span, up in [(s, True) for s in spans] + [(s, False) for s in reversed(spans)]:
        child = np.arange(span, n, 2 * span)
        pair = (child, child - span) if up else (child - span, child)
        p.send(*pair, Data.of(0, 0, len(child)))
        p.receive(pair[1], pair[0], Data.of(0, 0, len(child)))


def double_ring_barrier(p: Program, count: int = 0, segment: int = 0) -> None:
    """Add a message that passes around the ring of ranks twice."""
    n = p.ranks
    for _ in range(2 if n > 1 else 0):
        for r in range(n):
            a, b = np.array([r]), np.array([(r + 1) % n])
            p.send(a, b, Data.of(0, 0, 1))
            p.receive(b, a, Data.of(0, 0, 1))


REDUCE_SCATTERS: dict[str, Maker] = {
    "nonoverlapping": nonoverlapping,
    "recursive-halving": recursive_halving,
    "ring": ring,
    "butterfly": recursive_halving,
}
BARRIERS: dict[str, Maker] = {
    "linear": linear_barrier,
    "double-ring": double_ring_barrier,
    "recursive-doubling": doubling_barrier,
    "bruck": bruck_barrier,
    "tree": tree_barrier,
}
