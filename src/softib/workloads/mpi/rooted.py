"""MPI_Bcast from rank 0 down a tree, and MPI_Reduce up a tree to rank 0, both in segments."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from softib.workloads.mpi.primitives import (
    Tree,
    bcast_tree,
    binary,
    binomial,
    chain,
    halve,
    in_order_binomial,
    knomial_tree,
    linear_bcast,
    linear_reduce,
    lower_power,
    reduce_tree,
    segments,
)
from softib.workloads.mpi.program import Data, Program

__all__ = ["BCASTS", "REDUCES"]

Maker = Callable[[Program, int, int], None]


def split_binary(p: Program, count: int, segment: int) -> None:
    """Each half of the vector is sent down one side of a binary tree; then the ranks of the two
    sides exchange halves. A vector that is too short is sent along a chain, as in Open MPI."""
    n, first = p.ranks, (count + 1) // 2
    if n < 3 or not segment or segment > first * p.element:
        bcast_tree(p, chain(n), [(0, count)])
        return
    tree, start, ends = binary(n), p.last[0].copy(), []
    for side, (begin, length) in enumerate(((0, first), (first, count - first))):
        half = [[tree[0][side]] if r == 0 else c if r % 2 == 1 - side else [] for r, c in enumerate(tree)]
        p.last[0] = start
        bcast_tree(p, half, [(begin + a, c) for a, c in segments(length, segment, p.element)], blocking=True)
        ends.append(p.last[:1, 0].copy())
    p.wait(np.array([0]), ends)
    odd = np.arange(1, n - 1, 2)
    low, high = Data.of(0, first, len(odd)), Data.of(first, count - first, len(odd))
    p.exchange(odd, odd + 1, low, odd + 1, high)
    p.exchange(odd + 1, odd, high, odd, low)
    if n % 2 == 0:
        one, last = np.array([0]), np.array([n - 1])
        p.send(one, last, Data.of(first, count - first, 1))
        p.receive(last, one, Data.of(first, count - first, 1))


def _tree_of(make: Callable[[int], Tree]) -> Maker:
    return lambda p, count, segment: bcast_tree(p, make(p.ranks), segments(count, segment, p.element))


def _up_of(make: Callable[[int], Tree]) -> Maker:
    return lambda p, count, segment: reduce_tree(p, make(p.ranks), segments(count, segment, p.element))


def scatter_blocks(p: Program, count: int) -> Data:
    """Send the root's vector down a binomial tree: each rank receives its block and the blocks of the ranks below it.
    The first block is the largest."""
    n = p.ranks
    per = -(-count // n)
    begin = np.minimum(p.every * per, count)
    block = Data(begin, np.minimum(per, count - begin))
    span = 1 << max(n - 1, 0).bit_length()
    while span > 1:
        half = span // 2
        child = np.arange(half, n, span)
        end = np.minimum(np.minimum(child + half, n) * per, count)
        data = Data(block.offset[child], end - block.offset[child])
        some = data.count > 0
        child, data = child[some], data.at(some)
        p.send(child - half, child, data)
        p.receive(child, child - half, data)
        span = half
    return block


def scatter_allgather(p: Program, count: int, segment: int = 0) -> None:
    """Scatter, then all-gather by recursive doubling; ranks without a partner receive their
    missing parts from neighbours. With fewer elements than ranks, it is a linear broadcast."""
    n = p.ranks
    if count < n:
        linear_bcast(p, count)
        return
    block = scatter_blocks(p, count)
    per = -(-count // n)
    at, mask = p.every, 1
    while mask < n:
        other = at ^ mask
        pair = at[other < n]
        data = _span(pair // mask * mask, mask, n, per, count)
        into = _span(other[pair] // mask * mask, mask, n, per, count)
        p.exchange(pair, other[pair], data, other[pair], into)
        _pass_on(p, mask, per, count)
        mask *= 2
    assert len(block.count) == n


def _span(first: np.ndarray, blocks_: int, n: int, per: int, count: int) -> Data:
    """Return the elements of ``blocks_`` blocks from block ``first`` on."""
    begin = np.minimum(first * per, count)
    return Data(begin, np.minimum(np.minimum(first + blocks_, n) * per, count) - begin)


def _pass_on(p: Program, mask: int, per: int, count: int) -> None:
    """In an incomplete group of 2 × mask ranks, let ranks that received the second half forward it to ranks without a
    partner."""
    n, base = p.ranks, p.ranks // (2 * mask) * (2 * mask)
    have = n - base - mask
    if have <= 0 or have >= mask:
        return
    data = _span(np.array([base + mask]), mask, n, per, count)
    step = mask // 2
    while step:
        rank = np.arange(base, base + mask)
        to, group = rank ^ step, rank // (2 * step) * (2 * step)
        sends = (to > rank) & (rank < group + have) & (to >= group + have)
        r, t = rank[sends], to[sends]
        if len(r):
            wide = Data.of(data.offset, data.count, len(r))
            p.send(r, t, wide)
            p.receive(t, r, wide)
        step //= 2


def scatter_allgather_ring(p: Program, count: int, segment: int = 0) -> None:
    """Scatter, then all-gather around a ring; with fewer elements than ranks, a linear broadcast."""
    n = p.ranks
    if count < n:
        linear_bcast(p, count)
        return
    block = scatter_blocks(p, count)
    for k in range(n - 1):
        p.exchange(
            p.every, (p.every + 1) % n, block.at((p.every - k) % n), (p.every - 1) % n, block.at((p.every - k - 1) % n)
        )


def reduce_rabenseifner(p: Program, count: int, segment: int = 0) -> None:
    """Reduce-scatter by recursive halving, then a gather to the root; with fewer elements than ranks, a linear
    reduce."""
    n, power = p.ranks, lower_power(p.ranks)
    if count < power:
        linear_reduce(p, count)
        return
    extra = n - power
    even, odd = np.arange(0, 2 * extra, 2), np.arange(1, 2 * extra, 2)
    if extra:
        low, high = Data.of(0, count // 2, extra), Data.of(count // 2, count - count // 2, extra)
        _, got_low = p.exchange(even, odd, high, odd, low)
        _, got_high = p.exchange(odd, even, low, even, high)
        p.reduce(even, got_low, low)
        p.reduce(odd, got_high, high)
        p.send(odd, even, high)
        p.receive(even, odd, high)
    real = np.concatenate([even, np.arange(2 * extra, n)])
    for k, (out, kept, _) in reversed(list(enumerate(halve(p, real, count)))):
        live, gives = np.arange(1 << k), np.arange(1 << k, 2 << k)
        p.send(real[gives], real[live], kept.at(gives))
        p.receive(real[live], real[gives], out.at(live))


BCASTS: dict[str, Maker] = {
    "linear": linear_bcast,
    "chain": _tree_of(chain),
    "pipeline": _tree_of(chain),
    "split-binary": split_binary,
    "binary": _tree_of(binary),
    "binomial": _tree_of(binomial),
    "knomial": _tree_of(knomial_tree),
    "scatter-allgather": scatter_allgather,
    "scatter-allgather-ring": scatter_allgather_ring,
}
REDUCES: dict[str, Maker] = {
    "linear": linear_reduce,
    "chain": _up_of(chain),
    "pipeline": _up_of(chain),
    "binary": _up_of(binary),
    "binomial": _up_of(in_order_binomial),
    "in-order-binary": _up_of(binary),
    "rabenseifner": reduce_rabenseifner,
}
