"""Algorithms of MPI_Allreduce: those of Open MPI's ``coll/base`` (described by Thakur, Rabenseifner, Gropp 2005), and
UCC's recursive k-nomial."""

from __future__ import annotations

import numpy as np

from softib.workloads.mpi.decision import choose
from softib.workloads.mpi.primitives import blocks, halve, linear_bcast, linear_reduce, lower_power
from softib.workloads.mpi.program import Data, Program
from softib.workloads.mpi.rooted import BCASTS, REDUCES

__all__ = ["RADIX", "knomial", "nonoverlapping", "rabenseifner", "recursive_doubling", "ring", "segmented_ring"]

RADIX = 4
"""Number of ranks that exchange in one round of :func:`knomial` (UCC's
UCC_TL_UCP_ALLREDUCE_KN_RADIX)."""


def recursive_doubling(p: Program, count: int) -> None:
    """Add log2 n exchanges of the whole vector. Ranks beyond a power of two first send their vector to a neighbour and
    receive the result at the end."""
    p.copy(p.every, count)
    power = lower_power(p.ranks)
    extra = p.ranks - power
    whole = lambda k: Data.of(0, count, k)
    even = np.arange(0, 2 * extra, 2)
    if extra:
        p.send(even, even + 1, whole(extra))
        p.reduce(even + 1, p.receive(even + 1, even, whole(extra)), whole(extra))
    real = np.concatenate([even + 1, np.arange(2 * extra, p.ranks)])
    virtual, distance = np.arange(power), 1
    while distance < power:
        peer = real[virtual ^ distance]
        _, got = p.exchange(real, peer, whole(power), peer, whole(power))
        p.reduce(real, got, whole(power))
        distance *= 2
    if extra:
        p.receive(even, even + 1, whole(extra))
        p.send(even + 1, even, whole(extra))


def knomial(p: Program, count: int, radix: int = RADIX) -> None:
    """Add log_k n rounds. In each, groups of k ranks send the whole vector to each other: a rank sends k - 1 messages
    at the same time. This is the recursive k-nomial algorithm of UCC's ``tl/ucp/allreduce``, which UCC chooses up to 8
    KiB. (The algorithms of hcoll, UCC's predecessor, are not published.) Ranks beyond a multiple of a power of k first
    send their vector to a neighbour, and receive the result at the end."""
    p.copy(p.every, count)
    n = p.ranks
    power = 1
    while power * radix <= n:
        power *= radix
    full = n // power * power
    extra = n - full
    even = np.arange(0, 2 * extra, 2)
    whole = lambda k: Data.of(0, count, k)
    if extra:
        p.send(even + 1, even, whole(extra))
        p.reduce(even, p.receive(even, even + 1, whole(extra)), whole(extra))
    real = np.concatenate([even, np.arange(2 * extra, n)])
    distance = 1
    while distance < full:
        _knomial_round(p, real, distance, radix, count)
        distance *= radix
    if extra:
        p.receive(even + 1, even, whole(extra))
        p.send(even, even + 1, whole(extra))


def _knomial_round(p: Program, real: np.ndarray, distance: int, radix: int, count: int) -> None:
    """Let every rank send to the ranks whose numbers differ from its own in one digit, receive from them, wait for all,
    and then add their vectors one after another."""
    virtual = np.arange(len(real))
    block = distance * radix
    base = virtual - virtual % block
    begin = p.last.copy()
    ends: list[np.ndarray] = []
    got: list[tuple[np.ndarray, np.ndarray]] = []
    for k in range(1, radix):
        to, source = (base + (virtual + d * distance) % block for d in (k, radix - k))
        some, from_some = (v < len(real) for v in (to, source))
        who, whence = real[some], real[from_some]
        sends = p.send(who, real[to[some]], Data.of(0, count, len(who)), needs=list(begin[who].T), blocking=False)
        receives = p.receive(
            whence, real[source[from_some]], Data.of(0, count, len(whence)), needs=list(begin[whence].T)
        )
        ends += [_spread(sends, who, real, p.ranks), _spread(receives, whence, real, p.ranks)]
        got.append((whence, receives))
    p.wait(real, ends)
    for whence, receives in got:
        p.reduce(whence, receives, Data.of(0, count, len(whence)))


def _spread(rows: np.ndarray, who: np.ndarray, real: np.ndarray, ranks: int) -> np.ndarray:
    """Return the row of each of the ranks ``real``; -1 for ranks that are not in ``who``, whose rows are ``rows``."""
    column = np.full(ranks, -1, np.int64)
    column[who] = rows
    return column[real]


def ring(p: Program, count: int) -> None:
    """Reduce-scatter around a ring, then all-gather around it; with fewer elements than ranks,
    recursive doubling, as in Open MPI."""
    n, rank = p.ranks, p.every
    if n == 1:
        return
    if count < n:
        recursive_doubling(p, count)
        return
    b = blocks(count, n)
    p.copy(p.every, count)
    _ring_reduce(p, b)
    for k in range(n - 1):
        p.exchange(rank, (rank + 1) % n, b.at((rank + 1 - k) % n), (rank - 1) % n, b.at((rank - k) % n))


def _ring_reduce(p: Program, b: Data) -> None:
    """Add the reduce-scatter, at whose end rank r has block r + 1 of the sum. Each receive is posted before the wait
    for the previous one."""
    n, rank = p.ranks, p.every
    left, right = (rank - 1) % n, (rank + 1) % n
    posts: list[np.ndarray] = []
    start = p.last[rank].T.copy()
    for k in range(n - 1):
        into = b.at((rank - k - 1) % n)
        after = start if k < 2 else [posts[k - 2]]
        got = p.receive(rank, left, into, needs=after)
        sent = p.send(rank, right, b.at((rank - k) % n), needs=[posts[k - 1]] if k else start)
        p.last[rank, 0], p.last[rank, 1] = sent, got
        posts.append(p.reduce(rank, got, into))


def segmented_ring(p: Program, count: int, segment: int = 1 << 20) -> None:
    """:func:`ring`, but blocks are reduced in phases of at most ``segment`` bytes; the all-gather sends whole
    blocks."""
    n, rank = p.ranks, p.every
    if n == 1:
        return
    if count < n:
        recursive_doubling(p, count)
        return
    per = max(segment // p.element, 1)
    if count < n * per:
        ring(p, count)
        return
    b = blocks(count, n)
    phases = -(-count // (n * per))
    inner = [blocks(int(c), phases) for c in sorted(set(b.count.tolist()), reverse=True)]
    large = inner[0]
    small = inner[-1]
    early = b.count == b.count.max()
    p.copy(p.every, count)
    for f in range(phases):
        offset = b.offset + np.where(early, large.offset[f], small.offset[f])
        _ring_reduce(p, Data(offset, np.where(early, large.count[f], small.count[f])))
    for k in range(n - 1):
        p.exchange(rank, (rank + 1) % n, b.at((rank + 1 - k) % n), (rank - 1) % n, b.at((rank - k) % n))


def rabenseifner(p: Program, count: int) -> None:
    """Reduce-scatter by recursive halving, all-gather by recursive doubling; with fewer elements
    than ranks, :func:`linear`."""
    n = p.ranks
    power = lower_power(n)
    if count < power:
        linear(p, count)
        return
    extra = n - power
    p.copy(p.every, count)
    even, odd = np.arange(0, 2 * extra, 2), np.arange(1, 2 * extra, 2)
    low, whole = Data.of(0, count // 2, extra), Data.of(0, count, extra)
    high = Data.of(count // 2, count - count // 2, extra)
    if extra:
        _, got_low = p.exchange(even, odd, high, odd, low)
        _, got_high = p.exchange(odd, even, low, even, high)
        p.reduce(even, got_low, low)
        p.reduce(odd, got_high, high)
        p.send(odd, even, high)
        p.receive(even, odd, high)
    real = np.concatenate([even, np.arange(2 * extra, n)])
    halves = halve(p, real, count)
    for out, into, peer in reversed(halves):
        p.exchange(real, peer, into, peer, out)
    if extra:
        p.send(even, odd, whole)
        p.receive(odd, even, whole)


def linear(p: Program, count: int) -> None:
    """Let all ranks send to rank 0, which adds the vectors in turn and sends the result to all."""
    linear_reduce(p, count)
    linear_bcast(p, count)


def nonoverlapping(p: Program, count: int) -> None:
    """A reduce and then a broadcast, each with the algorithm that Open MPI chooses."""
    octets = count * p.element
    for name, table in (("reduce", REDUCES), ("bcast", BCASTS)):
        chosen = choose(name, octets, p.ranks, p.version, p.element)
        table[chosen.algorithm](p, count, chosen.segment)
