"""Which parts do the slow pairs share? Measurements over paths, explained by as few slow parts as
possible.

A pair of hosts is as fast as the slowest part of its path, and its latency is the sum of the delays
of all of them (network tomography: Vardi 1996; for few bad links the smallest set that explains the
bad paths, Duffield 2006). Here: parts are taken one after another, each time the one that takes
most off the sum of what is left unexplained (least absolute deviations, so that a single odd
measurement moves nothing), as long as its measurements rank lower than those of the rest with
significance (Wilcoxon's rank sum, exact for few), corrected for the number of parts and of tests
that were looked at.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

__all__ = ["LEAST_DELAY", "LEAST_LOSS", "LEVEL", "Blamed", "Parts", "blame", "deviation", "rank_sum"]

LEVEL = 0.01
"""Chance, over all parts of a fabric and all tests, that any part is blamed by accident."""
LEAST_LOSS = 0.05
"""Share of the bandwidth that a part has to cost to be worth a walk to it, however sure it is."""
LEAST_DELAY = 0.25
"""The same of latency: share of the usual one."""
LEAST_SCALE = 0.005
"""Relative spread below which measurements are taken to be as exact as this: two equal ones do not
make a third one infinitely odd."""
EXACT_CELLS = 2_000_000
"""Size of the table up to which ranks are counted one by one."""
MOST = 64
"""Slow parts that are looked for; a fabric with more has another problem."""
MOST_REJECTED = 16
"""Candidates without significance after which the search ends: those that come then explain even
less."""


@dataclass(frozen=True)
class Parts:
    """``p`` parts and the measurements whose paths cross each: ``row[first[k]:first[k + 1]]``,
    ascending. ``weight`` float64[p]: of parts that explain equally much the one with the least is
    taken."""

    first: np.ndarray
    row: np.ndarray
    weight: np.ndarray

    def __len__(self) -> int:
        return len(self.first) - 1

    def rows(self, part: int) -> np.ndarray:
        """Measurements that cross ``part``."""
        return self.row[self.first[part] : self.first[part + 1]]


@dataclass(frozen=True)
class Blamed:
    """``loss``: median of what the part's measurements lose (share of the usual bandwidth, or of
    the usual latency on top) beyond what other blamed parts explain; ``measurements`` that cross
    it, ``slow`` of them (more than half of ``loss``); ``probability`` of as much by accident,
    corrected."""

    part: int
    loss: float
    measurements: int
    slow: int
    probability: float


def deviation(value: np.ndarray, expected: np.ndarray, latency: bool) -> np.ndarray:
    """How much worse each measurement is than usual, above 0 = worse (float64[m]): -ln of measured
    over expected bandwidth, or measured over expected latency - 1, each less its median, so that a
    model that is wrong for all alike blames no one. NaN without an expectation or a value."""
    with np.errstate(divide="ignore", invalid="ignore"):
        good = (value > 0) & (expected > 0) & np.isfinite(value) & np.isfinite(expected)
        ratio = np.where(good, value / expected, np.nan)
        if latency:
            middle = np.nanmedian(ratio) if good.any() else 1.0
            return np.asarray(ratio / middle - 1.0)
        d = -np.log(ratio)
    return np.asarray(d - (np.nanmedian(d) if good.any() else 0.0))


def blame(d: np.ndarray, parts: Parts, latency: bool, tests: int = 1, level: float = LEVEL) -> list[Blamed]:
    """The slow parts of one test, those that explain most first.

    ``d`` float64[m] as :func:`deviation` gives it. ``tests``: how many tests are looked at, for the
    correction. ``latency``: losses of a path add up, else the largest counts.
    """
    d = np.where(np.isfinite(d), d, 0.0)
    least = LEAST_DELAY if latency else -math.log1p(-LEAST_LOSS)
    explained = np.zeros(len(d))
    blamed: list[Blamed] = []
    owner = np.repeat(np.arange(len(parts)), np.diff(parts.first))
    banned = np.zeros(len(parts), bool)
    scale = max(float(np.median(np.abs(d))) * 1.4826, LEAST_SCALE) if len(d) else LEAST_SCALE
    rejected = 0
    while len(blamed) < MOST and rejected < MOST_REJECTED:
        shift = _medians(d, explained, parts, owner, latency)
        gain = _gains(d, explained, parts, owner, shift, latency) / scale
        gain[banned | (shift < least)] = -np.inf
        best = int(np.argmax(gain - 1e-6 * parts.weight)) if len(gain) else -1
        # Each further part has to pay for the choice among all of them (a code length, Rissanen 1978).
        if best < 0 or gain[best] <= math.log(len(parts) + 1):
            break
        rows = parts.rows(best)
        free = explained < least
        p = rank_sum(d[rows[free[rows]]], d[np.setdiff1d(np.flatnonzero(free), rows, assume_unique=True)])
        p = min(1.0, p * len(parts) * tests)
        banned[best] = True
        if p >= level:
            rejected += 1
            continue
        loss = float(shift[best])
        lost = loss if latency else -math.expm1(-loss)
        blamed.append(Blamed(best, lost, len(rows), int((d[rows] > loss / 2).sum()), p))
        explained[rows] = explained[rows] + loss if latency else np.maximum(explained[rows], loss)
    return blamed


def _medians(d: np.ndarray, explained: np.ndarray, parts: Parts, owner: np.ndarray, latency: bool) -> np.ndarray:
    """What most of each part's measurements have lost, those left out that another blamed part
    explains (bandwidth), or less what others explain (latency)."""
    left = d - explained if latency else d
    use = np.ones(len(parts.row), bool) if latency else explained[parts.row] == 0
    part, values = owner[use], left[parts.row[use]]
    order = np.lexsort((values, part))
    part, values = part[order], values[order]
    count = np.bincount(part, minlength=len(parts))
    start = np.concatenate([[0], np.cumsum(count)[:-1]])
    low, high = start + np.maximum(count - 1, 0) // 2, start + count // 2
    out = np.zeros(len(parts))
    some = count > 0
    # The lower one of two middle values: half of the measurements is no majority.
    out[some] = np.minimum(values[low[some]], values[np.minimum(high[some], len(values) - 1)])
    return out


def _gains(
    d: np.ndarray, explained: np.ndarray, parts: Parts, owner: np.ndarray, shift: np.ndarray, latency: bool
) -> np.ndarray:
    """How much of the sum of absolute deviations each part would take off."""
    now, each_shift = explained[parts.row], shift[owner]
    then = now + each_shift if latency else np.maximum(now, each_shift)
    values = d[parts.row]
    return np.bincount(owner, np.abs(values - now) - np.abs(values - then), len(parts))


def rank_sum(inside: np.ndarray, outside: np.ndarray) -> float:
    """One-sided chance that values drawn at random from both together rank as high as ``inside``
    does (Wilcoxon 1945): every choice counted where there are few, else by the bound of a sum of
    exponential order statistics, whose tail stays right where the normal distribution's is not."""
    n, m = len(inside), len(outside)
    if not n or not m:
        return 1.0
    # Ranks from the largest. Ties with the others count as the worse (larger) rank, so that they
    # never make a part look worse than it is.
    place = np.searchsorted(np.sort(-outside), np.sort(-inside), side="right") + np.arange(1, n + 1)
    if n * (n + m) * int(place.sum()) <= EXACT_CELLS:
        return _exact(place, n, n + m)
    x = float(-np.log(place / (n + m + 1.0)).sum())
    return _erlang_tail(n, x)


def _exact(place: np.ndarray, n: int, total: int) -> float:
    """P(sum of ``n`` different ranks of 1 … total <= sum of ``place``)."""
    top = int(place.sum())
    choices = np.zeros((n + 1, top + 1))
    choices[0, 0] = 1.0
    for rank in range(1, min(total, top) + 1):
        choices[1:, rank:] += choices[:-1, : top + 1 - rank]
    return min(1.0, float(choices[n].sum()) / math.comb(total, n)) if math.comb(total, n) < 1e300 else 1.0


def _erlang_tail(n: int, x: float) -> float:
    """P(sum of ``n`` exponential variables of mean 1 > x)."""
    if x <= 0:
        return 1.0
    terms = np.arange(n) * math.log(x) - x - np.array([math.lgamma(k + 1.0) for k in range(n)])
    top = float(terms.max())
    return min(1.0, math.exp(top) * float(np.exp(terms - top).sum()))
