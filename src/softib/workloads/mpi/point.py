"""Programs of two ranks, as the OSU micro-benchmarks run them (osu_latency, osu_bw)."""

from __future__ import annotations

import numpy as np

from softib.workloads.mpi.program import Data, Program

__all__ = ["ping_pong", "windows"]

A, B = np.array([0]), np.array([1])


def ping_pong(p: Program, count: int, iterations: int = 1) -> None:
    """Rank 0 sends and rank 1 answers, so many times; half of the time of a round trip is the latency."""
    data = Data.of(0, count, 1)
    for _ in range(iterations):
        p.send(A, B, data)
        p.receive(B, A, data)
        p.send(B, A, data)
        p.receive(A, B, data)


def windows(p: Program, count: int, iterations: int = 1, window: int = 64) -> None:
    """Rank 0 sends ``window`` messages without waiting, rank 1 answers when it has them all."""
    many = np.zeros(window, np.int64)
    data, answer = Data.of(0, count, window), Data.of(0, min(4, count), 1)
    for _ in range(iterations):
        before = p.last[[0, 1]].copy()
        wide = lambda r, before=before: [np.broadcast_to(c, window) for c in before[r]]
        sent = p.send(many, many + 1, data, needs=wide(0), blocking=False)
        got = p.receive(many + 1, many, data, needs=wide(1))
        p.wait(A, list(sent[:, None]))
        p.wait(B, list(got[:, None]))
        p.send(B, A, answer)
        p.receive(A, B, answer)
