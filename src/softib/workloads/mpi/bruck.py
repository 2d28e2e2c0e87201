"""Bruck's algorithms: an all-gather and an all-to-all in ceil(log2 n) steps, for any number of ranks
(Bruck et al., IEEE TPDS 1997). ``count`` is the number of elements of a rank's block."""

from __future__ import annotations

import numpy as np

from softib.workloads.mpi.program import Data, Program


def bruck(p: Program, count: int, segment: int = 0) -> None:
    """ceil(log2 n) steps at doubling distance; a rank has its own block first, and rotates its buffer
    at the end (the caller's buffer stays unrotated)."""
    n, r, distance = p.ranks, p.every, 1
    while distance < n:
        blocks = min(distance, n - distance)
        p.exchange(
            r,
            (r - distance) % n,
            Data.of(0, blocks * count, n),
            (r + distance) % n,
            Data.of(distance * count, blocks * count, n),
        )
        distance *= 2
    p.copy(r, n * count)


def bruck_alltoall(p: Program, count: int, segment: int = 0) -> None:
    """ceil(log2 n) steps: each sends together the blocks whose distance has the bit of the step. The
    blocks of a message are not adjacent; only their total size is given here."""
    n, r, distance = p.ranks, p.every, 1
    p.copy(r, n * count)
    while distance < n:
        blocks = int((np.arange(n) & distance > 0).sum())
        p.copy(r, blocks * count)
        p.exchange(
            r, (r + distance) % n, Data.of(0, blocks * count, n), (r - distance) % n, Data.of(0, blocks * count, n)
        )
        distance *= 2
    p.copy(r, n * count)
