"""A ring of any number of ranks without a row for every chunk: its steps on the time of each hop, steady state by its period, fill and drain in full.

Rank i hands chunk after chunk to rank i + 1. Step j of rank i begins when its hop is free (step j - 1 has left) and what it hands on is there: step j - 1 of
rank i - 1 arrived. A hop is busy for ``busy_us`` and what it handed over arrives ``latency_us`` after that. The law is linear in the max-plus algebra, so after some
rounds every round takes the same (Cohen, Dubois, Quadrat, Viot 1985): from there on rounds are counted, not run.
"""

from __future__ import annotations

import numpy as np

__all__ = ["enumerated_us", "period_of", "ring_us"]

SURE = 3
"""Rounds in sequence with one difference after which it stays."""


def period_of(busy_us: np.ndarray, latency_us: np.ndarray) -> int:
    """Ranks after which the hops repeat: those of a node where all nodes are alike."""
    n = len(busy_us)
    for p in _divisors(n):
        if (busy_us == np.tile(busy_us[:p], n // p)).all() and (latency_us == np.tile(latency_us[:p], n // p)).all():
            return p
    return n


def _divisors(n: int) -> list[int]:
    small = [d for d in range(1, int(n**0.5) + 1) if n % d == 0]
    return sorted({*small, *(n // d for d in small)})


def ring_us(busy_us: np.ndarray, latency_us: np.ndarray, steps: int, loops: int = 1) -> float:
    """µs until the last of ``loops`` times ``steps`` steps has arrived everywhere; ``busy_us`` and ``latency_us`` float64[ranks] by the hop that leaves a rank. A loop
    begins where the one before has left, and its first step waits for nothing.

    Ranks that repeat are one: time is the same at ranks a period apart, by symmetry.
    """
    p = period_of(busy_us, latency_us)
    busy, latency = busy_us[:p].astype(np.float64), latency_us[:p].astype(np.float64)
    free = np.zeros(p)
    end = 0.0
    begun: list[np.ndarray] = []
    for loop in range(loops):
        free, arrived = _steps(free, busy, latency, steps)
        end = max(end, float(arrived.max()))
        begun.append(free)
        if len(begun) > SURE and _repeats(begun):
            return end + (loops - loop - 1) * float((begun[-1] - begun[-2])[0])
    return end


def _repeats(begun: list[np.ndarray]) -> bool:
    growth = [begun[-k] - begun[-k - 1] for k in range(1, SURE + 1)]
    first = growth[0][0]
    return all(np.allclose(g, first, rtol=1e-13, atol=0.0) for g in growth)


def _steps(free: np.ndarray, busy: np.ndarray, latency: np.ndarray, steps: int) -> tuple[np.ndarray, np.ndarray]:
    """One loop: when each hop is free again, and when its last step arrived."""
    left = free + busy
    arrived = left + latency
    ring = len(free)
    states: list[np.ndarray] = [np.concatenate([left, arrived])]
    step = 1
    while step < steps:
        begin = np.maximum(left, np.roll(arrived, 1))
        left = begin + busy
        arrived = left + latency
        step += 1
        if step % ring == 0:
            states.append(np.concatenate([left, arrived]))
            if len(states) > SURE and _repeats(states):
                growth = float((states[-1] - states[-2])[0])
                rounds = (steps - step) // ring
                left, arrived = left + rounds * growth, arrived + rounds * growth
                step += rounds * ring
                states = states[-1:]
    return left, arrived


def enumerated_us(busy_us: np.ndarray, latency_us: np.ndarray, steps: int, loops: int = 1) -> float:
    """The same with every step of every rank, one after another: what :func:`ring_us` must equal."""
    n = len(busy_us)
    free = [0.0] * n
    end = 0.0
    for _ in range(loops):
        there = [0.0] * n  # when what rank i hands on next is there
        for _ in range(steps):
            after = [0.0] * n
            for i in range(n):
                free[i] = max(free[i], there[i]) + float(busy_us[i])
                after[(i + 1) % n] = free[i] + float(latency_us[i])
            there = after
        end = max(end, *there)
    return end
