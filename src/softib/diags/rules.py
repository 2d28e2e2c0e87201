"""Learns a rule ``target = f(numbers)`` from a column that a few faults have spoiled.

Three shapes cover how topologies are wired and sites are numbered (trees, rails, grids, dragonflies):

* *sum of digits*: ``sum over numbers s of g_s(x_s)``, each ``g_s`` a mixed-radix ramp: host i is on leaf i // 32; spine
  i of a pod meets core (i mod 4) * 4 + j;
* *around*: the same after ``(target - x_s) mod span``: the rings of a torus;
* *all but own*: the same after ``target - [target > x_s]``: all-to-all lines and groups, where a port list leaves the
  own position out.

Everything is a vote: steps between neighbouring members vote for the step, blocks vote for their value, and the rest
votes for the constant. A rule is only as good as the share of members that it predicts; the caller decides.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from softib.diags.labels import NodeClass

__all__ = ["fit_rule", "mode"]

ENOUGH_VOTES = 4
"""Votes for one step from which a table of steps is trusted as it is, without looking for its radix."""
MAX_DIGITS = 6


def mode(values: np.ndarray) -> tuple[int, int]:
    """Most frequent value (the smallest of equals) and how often; (0, 0) of nothing."""
    if not len(values):
        return 0, 0
    found, count = np.unique(values, return_counts=True)
    best = int(np.argmax(count))
    return int(found[best]), int(count[best])


def fit_rule(of: NodeClass, target: np.ndarray, told: np.ndarray) -> tuple[np.ndarray, float]:
    """Best rule for ``target`` int64[members], known where ``told``; returns (prediction for every member, share hit)."""
    best, share = np.zeros(len(target), np.int64), -1.0
    for values, back in _transforms(of, target):
        predicted = back(_sum_of_digits(of, values, told))
        hit = float((predicted[told] == target[told]).mean())
        if hit > share + 1e-9:
            best, share = predicted, hit
        if share >= 1.0 - 1e-9:
            break
    return best, share


def _transforms(of: NodeClass, target: np.ndarray) -> Iterator[tuple[np.ndarray, object]]:
    yield target, lambda v: v
    for s in range(of.numbers.shape[1]):
        x, span = of.numbers[:, s], int(of.span[s])
        if span > 2:
            yield (target - x) % span, lambda v, x=x, span=span: (v + x) % span
            yield target - (target > x), lambda v, x=x: v + (v >= x)


def _sum_of_digits(of: NodeClass, target: np.ndarray, told: np.ndarray) -> np.ndarray:
    total = np.zeros(len(target), np.int64)
    for s in range(of.numbers.shape[1]):
        total += _steps(of, s, target, told)[of.numbers[:, s]]
    constant, _ = mode((target - total)[told])
    return total + constant


def _steps(of: NodeClass, s: int, target: np.ndarray, told: np.ndarray) -> np.ndarray:
    """``g_s`` by value of number s (int64[span]): steps between neighbours, by vote, made regular."""
    span = int(of.span[s])
    follower = of.next_in[s]
    pair = np.flatnonzero((follower >= 0) & told & told[follower])
    if not len(pair):
        return np.zeros(span, np.int64)
    step = target[follower[pair]] - target[pair]
    at = of.numbers[pair, s]
    order = np.lexsort((step, at))
    at, step = at[order], step[order]
    new = np.concatenate([[True], (at[1:] != at[:-1]) | (step[1:] != step[:-1])])
    start = np.flatnonzero(new)
    count = np.diff(np.concatenate([start, [len(at)]]))
    by_count = np.argsort(count, kind="stable")  # later writes win: the most frequent step of each value
    d, votes = np.zeros(span - 1, np.int64), np.zeros(span - 1, np.int64)
    d[at[start[by_count]]] = step[start[by_count]]
    votes[at[start[by_count]]] = count[by_count]
    usual, _ = mode(d[votes > 0])
    d[votes == 0] = usual
    if votes[votes > 0].min() >= ENOUGH_VOTES:
        return np.concatenate([[0], np.cumsum(d)])
    return _ramp(np.concatenate([[0], np.cumsum(d)]), MAX_DIGITS)


def _ramp(y: np.ndarray, depth: int) -> np.ndarray:
    """Mixed-radix ramp nearest to ``y``: slope b for R steps, again and again, blocks on a ramp of their own."""
    x = np.arange(len(y))
    d = np.diff(y)
    if not len(d):
        return y.copy()
    b, _ = mode(d)
    best = b * x
    share = _agreement(y, best)
    if share == 1.0 or depth == 0:
        return best
    for radix in _radices(d, b):
        offset = x % radix
        blocks = _block_values(y - b * offset, radix)
        tried = _ramp(blocks, depth - 1)[x // radix] + b * offset
        got = _agreement(y, tried)
        if got > share + 1e-9:
            best, share = tried, got
    return best


def _agreement(y: np.ndarray, g: np.ndarray) -> float:
    return mode(y - g)[1] / len(y)


def _radices(d: np.ndarray, b: int) -> list[int]:
    """Candidate radices: the distances between breaks of the slope, the most frequent first; the first break too."""
    breaks = np.flatnonzero(d != b)
    gaps, count = np.unique(np.diff(breaks), return_counts=True)
    ordered = gaps[np.argsort(-count, kind="stable")][:4].tolist()
    first = int(breaks[0]) + 1
    return [r for r in dict.fromkeys([*ordered, first]) if 1 < r <= len(d)]


def _block_values(y: np.ndarray, radix: int) -> np.ndarray:
    """Mode of each block of ``radix`` values."""
    block = np.arange(len(y)) // radix
    order = np.lexsort((y, block))
    v, k = y[order], block[order]
    new = np.concatenate([[True], (k[1:] != k[:-1]) | (v[1:] != v[:-1])])
    start = np.flatnonzero(new)
    count = np.diff(np.concatenate([start, [len(v)]]))
    by_count = np.argsort(count, kind="stable")
    out = np.zeros(int(block[-1]) + 1, np.int64)
    out[k[start[by_count]]] = v[start[by_count]]
    return out
