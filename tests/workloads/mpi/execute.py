"""Executes the schedule of a collective on buffers that say whose contributions each element has: the oracle for what an algorithm computes."""

from __future__ import annotations

import numpy as np

from softib.workloads.mpi.program import Program
from softib.workloads.schedule.schedule import Kind, matched


def execute(program: Program, start: np.ndarray, seed: int = 0) -> np.ndarray:
    """Buffers after the schedule: int64[ranks, elements, ranks], how often each rank's contribution is in an element. ``start``: those before.

    Operations run in a random order that the dependencies allow. A send reads its buffer when it runs, a receive waits for its send; a receive that a
    reduction takes writes to a buffer of its own.
    """
    s, moves = program.schedule("test"), program.moves()
    s.check()
    receive_of = matched(s)
    n = len(s)
    waits: list[set[int]] = [set(s.needs[s.first[i] : s.first[i + 1]].tolist()) for i in range(n)]
    for i in np.flatnonzero(receive_of >= 0).tolist():
        waits[int(receive_of[i])].add(i)
    follows: list[list[int]] = [[] for _ in range(n)]
    for i, on in enumerate(waits):
        for j in on:
            follows[j].append(i)
    added = {m[2] for i, m in enumerate(moves) if s.kind[i] == Kind.COMPUTE and m[2] >= 0}
    state, mail, kept = start.copy(), {}, {}
    sender = {int(receive_of[i]): i for i in np.flatnonzero(receive_of >= 0).tolist()}
    ready = [i for i in range(n) if not waits[i]]
    rng, done = np.random.default_rng(seed), 0
    while ready:
        i = ready.pop(int(rng.integers(len(ready))))
        at, count, source = moves[i]
        r = int(s.rank[i])
        if s.kind[i] == Kind.SEND:
            mail[i] = state[r, at : at + count].copy()
        elif s.kind[i] == Kind.RECV:
            data = mail.pop(sender[i])
            assert len(data) == count
            if i in added:
                kept[i] = data
            else:
                state[r, at : at + count] = data
        elif source >= 0:
            state[r, at : at + count] += kept.pop(source)
        done += 1
        for j in follows[i]:
            waits[j].discard(i)
            if not waits[j]:
                ready.append(j)
    assert done == n
    return state


def meets(p: Program, n: int, count: int, algorithm: str) -> None:
    """Nobody leaves before the last has come: each rank's last operation is reached from every rank's first."""
    s = p.schedule("barrier")
    s.check()
    receive_of = matched(s)
    begins = np.searchsorted(s.rank, np.arange(n + 1))
    heard = [set() for _ in range(len(s))]
    waits = [set(s.needs[s.first[i] : s.first[i + 1]].tolist()) for i in range(len(s))]
    for i in np.flatnonzero(s.kind == Kind.SEND).tolist():
        waits[int(receive_of[i])].add(i)
    left = list(range(len(s)))
    while left:
        for i in [i for i in left if not any(j in left for j in waits[i])]:
            heard[i] = {int(s.rank[i])}.union(*(heard[j] for j in waits[i]))
            left.remove(i)
    for r in range(n):
        assert set().union(*heard[begins[r] : begins[r + 1]]) == set(range(n))
