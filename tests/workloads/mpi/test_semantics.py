"""What each algorithm computes, by executing its schedule on buffers in a random order: every contribution counts exactly once; and the octets that its formula says."""

from __future__ import annotations

from math import ceil, log2

import numpy as np
import pytest

from softib.workloads.mpi.collective import ALGORITHMS
from softib.workloads.mpi.primitives import blocks
from softib.workloads.mpi.program import Program
from tests.workloads.mpi.execute import execute, meets

RANKS = (2, 3, 5, 6, 8, 13)
MANY = (*range(2, 18), 21, 31, 32)


def ran(name: str, algorithm: str, ranks: int, count: int, segment: int = 0) -> Program:
    p = Program(ranks)
    ALGORITHMS[name][algorithm](p, count, segment)
    return p


def own(ranks: int, count: int) -> np.ndarray:
    """Each rank has its own contribution in all elements."""
    start = np.zeros((ranks, count, ranks), np.int64)
    start[np.arange(ranks), :, np.arange(ranks)] = 1
    return start


def check(name: str, algorithm: str, ranks: int, count: int) -> None:
    for segment in (0, 2):
        p = ran(name, algorithm, ranks, count, segment)
        CHECKS[name](p, ranks, count, algorithm)


def _sum_everywhere(p: Program, n: int, count: int, algorithm: str) -> None:
    assert (execute(p, own(n, count)) == 1).all()


def _sum_at_root(p: Program, n: int, count: int, algorithm: str) -> None:
    assert (execute(p, own(n, count))[0] == 1).all()


def _sum_in_blocks(p: Program, n: int, count: int, algorithm: str) -> None:
    out, b = execute(p, own(n, count)), blocks(count, n)
    for r in range(n):
        assert (out[r, b.offset[r] : b.offset[r] + b.count[r]] == 1).all()


def _roots_everywhere(p: Program, n: int, count: int, algorithm: str) -> None:
    start = np.zeros((n, count, n), np.int64)
    start[0, :, 0] = 1
    out = execute(p, start)
    assert (out[:, :, 0] == 1).all() and (out[:, :, 1:] == 0).all()


def _gathered(p: Program, n: int, count: int, algorithm: str) -> None:
    out = execute(p, placed(n, count, turned=False))
    assert (out[0].reshape(n, count, n) == np.eye(n, dtype=np.int64)[:, None]).all()


def placed(n: int, count: int, turned: bool) -> np.ndarray:
    """Each rank has its block at its place (Bruck: first)."""
    start = np.zeros((n, n * count, n), np.int64)
    for r in range(n):
        at = 0 if turned else r * count
        start[r, at : at + count, r] = 1
    return start


def _gathered_everywhere(p: Program, n: int, count: int, algorithm: str) -> None:
    turned = algorithm == "bruck" or (algorithm == "recursive-doubling" and n & (n - 1) != 0)
    out = execute(p, placed(n, count, turned)).reshape(n, n, count, n)
    for r in range(n):
        at = (np.arange(n) - r) % n if turned else np.arange(n)
        assert (out[r, at] == np.eye(n, dtype=np.int64)[:, None]).all()


def _scattered(p: Program, n: int, count: int, algorithm: str) -> None:
    start = np.zeros((n, n * count, n), np.int64)
    start[0] = np.repeat(np.eye(n, dtype=np.int64), count, axis=0)
    out = execute(p, start).reshape(n, n, count, n)
    assert all((out[r, r, :, r] == 1).all() for r in range(n))


def _exchanged(p: Program, n: int, count: int, algorithm: str) -> None:
    if algorithm == "bruck":  # its messages are of blocks far apart: octets alone are checked
        return
    start = np.zeros((n, 2 * n * count, n), np.int64)
    start[np.arange(n), : n * count, np.arange(n)] = 1
    out = execute(p, start)[:, n * count :].reshape(n, n, count, n)
    for r in range(n):
        for j in set(range(n)) - {r}:
            assert (out[r, j, :, j] == 1).all() and out[r, j].sum() == count


CHECKS = {
    "allreduce": _sum_everywhere,
    "reduce": _sum_at_root,
    "reduce_scatter": _sum_in_blocks,
    "bcast": _roots_everywhere,
    "gather": _gathered,
    "allgather": _gathered_everywhere,
    "scatter": _scattered,
    "alltoall": _exchanged,
    "barrier": meets,
}
ALL = [(name, algorithm) for name, known in ALGORITHMS.items() for algorithm in known]


@pytest.mark.parametrize(("name", "algorithm"), ALL)
def test_every_contribution_counts_once(name, algorithm):
    """Powers of two and others; counts of 0, 1, fewer than ranks, and no multiple of them (MPI-4, 6.1 to 6.10)."""
    for ranks in RANKS:
        for count in (1, ranks - 1, 2 * ranks + 1) if ranks < 13 else (0, 5, 17):
            check(name, algorithm, ranks, count)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "algorithm"), ALL)
def test_every_contribution_counts_once_of_many(name, algorithm):
    for ranks in MANY:
        for count in (0, 1, 3, ranks, ranks + 1, 40):
            check(name, algorithm, ranks, count)


@pytest.mark.parametrize("n", [2, 3, 4, 7, 8, 12, 16])
def test_octets_are_those_of_the_formula(n):
    """Octets that all ranks send (Thakur, Rabenseifner, Gropp 2005; Bruck et al. 1997), of a vector or block of c elements."""
    c = 16 * n
    power = 1 << int(log2(n))
    extra = n - power
    sent = lambda name, algorithm: ran(name, algorithm, n, c).schedule("x").octets
    by_four = 4 ** (n.bit_length() - 1 >> 1)
    if n == by_four:
        assert sent("allreduce", "knomial") == n * 3 * round(log2(n) / 2) * c
    assert sent("allreduce", "recursive-doubling") == power * int(log2(power)) * c + 2 * extra * c
    assert sent("allreduce", "ring") == 2 * (n - 1) * c
    assert sent("allreduce", "rabenseifner") == 2 * (power - 1) * c + extra * (c + c // 2 + c)
    assert sent("allgather", "ring") == sent("allgather", "neighbor") == sent("allgather", "bruck") == n * (n - 1) * c
    assert sent("alltoall", "pairwise") == sent("alltoall", "linear") == n * (n - 1) * c
    assert sent("alltoall", "bruck") == n * c * sum(i.bit_count() for i in range(n))
    assert sent("reduce_scatter", "ring") == (n - 1) * c
    assert sent("bcast", "binomial") == sent("reduce", "binomial") == sent("bcast", "pipeline") == (n - 1) * c
    assert sent("bcast", "scatter-allgather-ring") == _scatter_octets(n, c) + (n - 1) * c
    assert len(ran("barrier", "bruck", n, 0).schedule("x")) == 2 * n * ceil(log2(n))


def _scatter_octets(n: int, c: int) -> int:
    """Each block goes down a binomial tree: as often as its rank has bits set."""
    return sum(i.bit_count() for i in range(n)) * (c // n)
