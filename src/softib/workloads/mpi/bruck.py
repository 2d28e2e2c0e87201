"""Bruck's algorithms: an all-gather and an all-to-all in ceil(log2 n) steps, for any number of ranks
(Bruck et al., IEEE TPDS 1997). ``count`` is the number of elements of a rank's block."""

from __future__ import annotations

import numpy as np

from softib.workloads.mpi.program import Data, Program


def bruck(p: Program, count: int, segment: int = 0) -> None:
    """Add ceil(log2 n) steps, each at twice the distance of the previous one. A rank begins with its own block in first
    position, and rotates the buffer at the end. (The model leaves the buffer unrotated.)"""
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
    """Add ceil(log2 n) steps. In step k, a rank sends, in one message, all blocks whose distance has bit k set. The
    blocks of a message are not adjacent in the buffer, so a message has only their total size here."""
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
