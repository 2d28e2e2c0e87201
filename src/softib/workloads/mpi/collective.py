"""The schedule of a collective (with the algorithm that Open MPI chooses or that the user names), or of sends and
receives between two ranks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from softib.errors import InputError, LimitError, UnknownName
from softib.workloads.mpi import allgather_alltoall as personal
from softib.workloads.mpi import allreduce, rooted, scattering
from softib.workloads.mpi.cost import Costs
from softib.workloads.mpi.decision import Choice, choose
from softib.workloads.mpi.han import HAN, SEGMENT, takes_han
from softib.workloads.mpi.program import Data, Program

__all__ = ["ALGORITHMS", "REDUCTIONS", "program_of"]

Maker = Callable[[Program, int, int], Any]
MAX_STEPS = 30_000_000
"""Maximum estimated number of operations of a schedule."""

ALLREDUCES: dict[str, Maker] = {
    "linear": lambda p, count, segment: allreduce.linear(p, count),
    "nonoverlapping": lambda p, count, segment: allreduce.nonoverlapping(p, count),
    "recursive-doubling": lambda p, count, segment: allreduce.recursive_doubling(p, count),
    "ring": lambda p, count, segment: allreduce.ring(p, count),
    "segmented-ring": lambda p, count, segment: allreduce.segmented_ring(p, count, segment or 1 << 20),
    "rabenseifner": lambda p, count, segment: allreduce.rabenseifner(p, count),
    "knomial": lambda p, count, segment: allreduce.knomial(p, count),
}
ALGORITHMS: dict[str, dict[str, Maker]] = {
    "allreduce": ALLREDUCES,
    "allgather": personal.ALLGATHERS,
    "alltoall": personal.ALLTOALLS,
    "barrier": scattering.BARRIERS,
    "bcast": rooted.BCASTS,
    "gather": personal.GATHERS,
    "reduce": rooted.REDUCES,
    "reduce_scatter": scattering.REDUCE_SCATTERS,
    "scatter": personal.SCATTERS,
}
"""Collective → its algorithms by name."""
REDUCTIONS = ("allreduce", "reduce", "reduce_scatter")
"""Collectives that allocate scratch buffers, which takes the additional time ``Costs.call_ns``."""
SQUARE = {
    "allreduce": ("ring", "segmented-ring"),
    "allgather": ("ring", "neighbor", "pairwise"),
    "alltoall": ("linear", "pairwise", "linear-sync"),
    "reduce_scatter": ("ring",),
}
"""Algorithms with about one operation for each pair of ranks."""


def program_of(
    collective: str,
    size: int,
    ranks: int,
    costs: Costs,
    *,
    algorithm: str = "",
    segment: int = 0,
    version: str = "4.1",
    iterations: int = 1,
    each: int = 1,
) -> tuple[Program, Choice]:
    """Return the program of ``ranks`` ranks, and the chosen algorithm. ``size``: bytes of the vector; for allgather,
    alltoall, gather and scatter, bytes of a rank's block; for ``latency`` and ``bandwidth``, bytes of a message.
    ``each`` consecutive ranks are on one host. Elements have 4 bytes if ``size`` is a multiple of 4, like OSU's floats.

    Raises :class:`UnknownName` for a collective, algorithm or version, :class:`InputError` for
    fewer than two ranks, :class:`LimitError` for too many operations.
    """
    element = 4 if size % 4 == 0 else 1
    p = Program(ranks, element, costs.reduce_ps, costs.copy_ps, costs.reduce_ns)
    p.version = version
    if collective in ("latency", "bandwidth"):
        if ranks != 2:
            raise InputError(f"mpi-{collective} is between 2 ranks; there are {ranks:,}")
        (ping_pong if collective == "latency" else windows)(p, size // element, iterations)
        return p, Choice("eager" if size <= costs.overheads.eager_limit else "rendezvous")
    if collective not in ALGORITHMS:
        raise UnknownName("MPI collective", collective, ALGORITHMS)
    algorithms = ALGORITHMS[collective]
    if ranks < 2:
        raise InputError(f"mpi-{collective.replace('_', '-')} of {ranks} rank: it needs at least two")
    if algorithm == "han" or (not algorithm and takes_han(collective, version, ranks, each)):
        return _han(p, collective, size, each, version, iterations, costs.call_ns)
    if algorithm and algorithm not in algorithms:
        raise UnknownName(f"algorithm of {collective}", algorithm, algorithms)
    chosen = Choice(algorithm, segment) if algorithm else choose(collective, size, ranks, version, element)
    if segment:
        chosen = Choice(chosen.algorithm, segment)
    per_rank = (ranks if chosen.algorithm in SQUARE.get(collective, ()) else 24) * max(
        -(-size // chosen.segment) if chosen.segment else 1, 1
    )
    if ranks * per_rank * 3 * iterations > MAX_STEPS:
        raise LimitError(
            f"{collective} by {chosen.algorithm} of {ranks:,} ranks is more than {MAX_STEPS:,} operations; "
            f"use fewer ranks or another algorithm"
        )
    for _ in range(iterations):
        if costs.call_ns and collective in REDUCTIONS:
            p.compute(p.every, costs.call_ns)
        algorithms[chosen.algorithm](p, size // element, chosen.segment)
    return p, chosen


def _han(
    p: Program, collective: str, size: int, each: int, version: str, iterations: int, call_ns: float
) -> tuple[Program, Choice]:
    """Return the program of the collective with HAN, and the chosen algorithms. Raises :class:`InputError` if HAN does
    not run this collective, or not in this version."""
    why = ""
    if collective not in HAN:
        why = f"softib's HAN has {', '.join(HAN)}"
    elif version == "4.0":
        why = "Open MPI 4.0 has no HAN; use version 4.1 or 5.0"
    elif each < 2 or p.ranks <= each or p.ranks % each:
        why = (
            f"HAN needs several ranks on each of several hosts, the same number on each; there are {p.ranks:,} "
            f"with {each} a host"
        )
    if why:
        raise InputError(f"mpi-{collective.replace('_', '-')} by han: {why}")
    if p.ranks * 24 * max(-(-size // SEGMENT), 1) * iterations > MAX_STEPS:
        raise LimitError(
            f"{collective} by han of {p.ranks:,} ranks is more than {MAX_STEPS:,} operations; use fewer ranks or "
            f"another algorithm"
        )
    for _ in range(iterations):
        if call_ns and collective in REDUCTIONS:
            p.compute(p.every, call_ns)
        HAN[collective](p, size // p.element, each)
    return p, Choice("han", SEGMENT)


A, B = np.array([0]), np.array([1])


def ping_pong(p: Program, count: int, iterations: int = 1) -> None:
    """Let rank 0 send and rank 1 answer, ``iterations`` times; the latency is half of a round trip."""
    data = Data.of(0, count, 1)
    for _ in range(iterations):
        p.send(A, B, data)
        p.receive(B, A, data)
        p.send(B, A, data)
        p.receive(A, B, data)


def windows(p: Program, count: int, iterations: int = 1, window: int = 64) -> None:
    """Let rank 0 send ``window`` messages without waiting, and rank 1 answer when all have arrived; repeat this
    ``iterations`` times."""
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
