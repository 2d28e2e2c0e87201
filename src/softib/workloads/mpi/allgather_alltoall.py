"""Collectives in which each rank has separate data for the others: all-gather, all-to-all, gather,
scatter. ``count`` is the number of elements of a rank's block. In an all-gather, the buffer of each rank holds the
blocks of ranks 0, 1, … in order; in a gather or scatter, only rank 0 has such a buffer. In an all-to-all, a buffer
holds n blocks to send, then n received blocks.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from softib.workloads.mpi.bruck import bruck, bruck_alltoall
from softib.workloads.mpi.primitives import linear_bcast
from softib.workloads.mpi.program import Data, Program

__all__ = ["ALLGATHERS", "ALLTOALLS", "GATHERS", "SCATTERS"]

Maker = Callable[[Program, int, int], None]


def ring(p: Program, count: int, segment: int = 0) -> None:
    """Add n - 1 steps, in each of which every rank forwards the block that it received last."""
    n, r = p.ranks, p.every
    block = lambda who: Data(who % n * count, np.full(len(who), count))
    for k in range(n - 1):
        p.exchange(r, (r + 1) % n, block(r - k), (r - 1) % n, block(r - k - 1))


def recursive_doubling(p: Program, count: int, segment: int = 0) -> None:
    """Add log2 n exchanges, each of all blocks that a rank has. If the number of ranks is not a power of two,
    :func:`bruck` is used, as in Open MPI."""
    n, r, mask = p.ranks, p.every, 1
    if n & (n - 1):
        bruck(p, count)
        return
    while mask < n:
        peer = r ^ mask
        p.exchange(
            r,
            peer,
            Data.of(r // mask * mask * count, mask * count, n),
            peer,
            Data.of(peer // mask * mask * count, mask * count, n),
        )
        mask *= 2


def neighbor(p: Program, count: int, segment: int = 0) -> None:
    """Add n / 2 steps between neighbours. A rank sends one block in the first step, and two blocks in every later step.
    For an odd number of ranks, :func:`ring` is used, as in Open MPI."""
    n, r = p.ranks, p.every
    if n % 2:
        ring(p, count)
        return
    even = r % 2 == 0
    peers = [np.where(even, (r + 1) % n, (r - 1) % n), np.where(even, (r - 1) % n, (r + 1) % n)]
    block = lambda first, k: Data.of(first % n * count, k * count, n)
    p.exchange(r, peers[0], block(r, 1), peers[0], block(peers[0], 1))
    has = r // 2 * 2
    for k in range(1, n // 2):
        peer = peers[k % 2]
        comes = has[peer]
        p.exchange(r, peer, block(has, 2), peer, block(comes, 2))
        has = comes


def linear_allgather(p: Program, count: int, segment: int = 0) -> None:
    """Send all blocks to rank 0, and from there to all."""
    linear_gather(p, count)
    linear_bcast(p, count * p.ranks)


def linear_gather(p: Program, count: int, segment: int = 0) -> None:
    """Let every rank send its block to the root, which receives the blocks in turn."""
    below = p.every[1:]
    root, block = np.zeros(len(below), np.int64), Data.of(below * count, count, len(below))
    p.send(below, root, block)
    for k in range(len(below)):
        p.receive(root[:1], below[k : k + 1], block.at(np.array([k])))


def linear_sync_gather(p: Program, count: int, segment: int = 0) -> None:
    """Let the root request the first ``segment`` bytes of each rank in turn, while the remaining bytes of earlier ranks
    are still arriving."""
    n = p.ranks
    first = min(count, segment // p.element) if segment else 0
    root, rest = np.array([0]), []
    for k in range(1, n):
        who = np.array([k])
        begin, end = Data.of(k * count, first, 1), Data.of(k * count + first, count - first, 1)
        before = p.last[0].copy()
        p.send(root, who, Data.of(0, 0, 1))
        p.receive(who, root, Data.of(0, 0, 1))
        p.send(who, root, begin)
        p.send(who, root, end)
        came = p.receive(root, who, begin, needs=[before[:1]])
        rest.append(p.receive(root, who, end, needs=[before[:1]]))
        p.last[0] = came[0], -1
    p.wait(root, [p.last[:1, 0].copy(), *rest])


def binomial_gather(p: Program, count: int, segment: int = 0) -> None:
    """Send up a binomial tree: each rank sends its block and all blocks of the ranks below it in one message."""
    _along(p, count, up=True)


def binomial_scatter(p: Program, count: int, segment: int = 0) -> None:
    """Send down a binomial tree: each rank receives its block and all blocks of the ranks below it in one message."""
    _along(p, count, up=False)


def _along(p: Program, count: int, up: bool) -> None:
    n = p.ranks
    spans = [1 << k for k in range(max(n - 1, 0).bit_length())]
    for span in spans if up else reversed(spans):
        child = np.arange(span, n, 2 * span)
        data = Data(child * count, (np.minimum(child + span, n) - child) * count)
        pair = (child, child - span) if up else (child - span, child)
        p.send(*pair, data)
        p.receive(pair[1], pair[0], data)


def linear_scatter(p: Program, count: int, segment: int = 0) -> None:
    """Let the root send every rank its block, one after another."""
    below = p.every[1:]
    root, block = np.zeros(len(below), np.int64), Data.of(below * count, count, len(below))
    for k in range(len(below)):
        p.send(root[:1], below[k : k + 1], block.at(np.array([k])))
    p.receive(below, root, block)


def linear_nb_scatter(p: Program, count: int, segment: int = 0) -> None:
    """Let the root send all blocks at once."""
    below = p.every[1:]
    if not len(below):
        return
    root, block = np.zeros(len(below), np.int64), Data.of(below * count, count, len(below))
    rows = p.send(root, below, block, needs=[np.broadcast_to(c, len(below)) for c in p.last[0].copy()], blocking=False)
    p.wait(root[:1], list(rows[:, None]))
    p.receive(below, root, block)


def pairwise(p: Program, count: int, segment: int = 0) -> None:
    """Add n - 1 exchanges: in the k-th, rank r sends to rank r + k and receives from rank r - k."""
    n, r = p.ranks, p.every
    p.copy(r, count)
    for k in range(1, n):
        to, source = (r + k) % n, (r - k) % n
        p.exchange(r, to, Data.of(to * count, count, n), source, Data.of((n + source) * count, count, n))


def linear_alltoall(p: Program, count: int, segment: int = 0) -> None:
    """Let every rank post all receives and all sends at once."""
    n, r = p.ranks, p.every
    p.copy(r, count)
    before = p.last.copy()
    others = (r[:, None] + 1 + np.arange(n - 1)) % n
    who, peer = np.repeat(r, n - 1), others.ravel()
    needs = [before[who, 0], before[who, 1]]
    got = p.receive(who, peer, Data.of((n + peer) * count, count, len(who)), needs=needs)
    sent = p.send(who, peer, Data.of(peer * count, count, len(who)), needs=needs, blocking=False)
    p.wait(r, [*got.reshape(n, n - 1).T, *sent.reshape(n, n - 1).T])


ALLGATHERS: dict[str, Maker] = {
    "linear": linear_allgather,
    "bruck": bruck,
    "recursive-doubling": recursive_doubling,
    "ring": ring,
    "neighbor": neighbor,
    "pairwise": ring,
}
ALLTOALLS: dict[str, Maker] = {
    "linear": linear_alltoall,
    "pairwise": pairwise,
    "bruck": bruck_alltoall,
    "linear-sync": linear_alltoall,
}
GATHERS: dict[str, Maker] = {"linear": linear_gather, "binomial": binomial_gather, "linear-sync": linear_sync_gather}
SCATTERS: dict[str, Maker] = {"linear": linear_scatter, "binomial": binomial_scatter, "linear-nb": linear_nb_scatter}
