"""Finds the parts that slow pairs have in common: explains the measurements over paths with as few slow parts as
possible.

A pair of hosts is as fast as the slowest part of its path, and its latency is the sum of the delays of all parts of its
path (network tomography, Vardi 1996; the smallest set of bad links that explains the bad paths, Duffield 2006). The
method is greedy: each step blames the part that most reduces the sum of unexplained absolute deviations (with absolute
deviations, a single outlier has no effect). A part is blamed only if its measurements rank significantly lower than the
rest, in Wilcoxon's rank-sum test (exact for few measurements) with a correction for the number of examined parts and
tests.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

__all__ = ["LEAST_DELAY", "LEAST_LOSS", "LEVEL", "Blamed", "Parts", "blame", "deviation", "rank_sum"]

LEVEL = 0.01
"""Probability, over all parts of a fabric and all tests, of blaming any part by accident."""
LEAST_LOSS = 0.05
"""Minimum loss of bandwidth (share) for a part to be reported, even if the loss is significant."""
LEAST_DELAY = 0.25
"""Minimum added latency, as a share of the usual latency, for a part to be reported."""
LEAST_SCALE = 0.005
"""Minimum relative spread that is assumed for measurements. Without it, any different third value would be infinitely
unlikely after two equal values.
"""
EXACT_CELLS = 2_000_000
"""Maximum table size for exact counting of ranks."""
MOST = 64
"""Maximum number of slow parts that are reported; a fabric with more slow parts has another problem."""
MOST_REJECTED = 16
"""Number of insignificant candidates after which the search ends. Later candidates explain even less."""


@dataclass(frozen=True)
class Parts:
    """``p`` parts, and the measurements whose paths cross them: ``row[first[k]:first[k + 1]]``, ascending, for part k.
    ``weight`` float64[p]: if several parts explain the same measurements, the part with the smallest weight is
    blamed.
    """

    first: np.ndarray
    row: np.ndarray
    weight: np.ndarray

    def __len__(self) -> int:
        return len(self.first) - 1

    def rows(self, part: int) -> np.ndarray:
        """Return the measurements that cross ``part``."""
        return self.row[self.first[part] : self.first[part + 1]]


@dataclass(frozen=True)
class Blamed:
    """A blamed part. ``loss``: median loss of the measurements that cross it, without the loss that other blamed parts
    explain (as a share of the usual bandwidth, or as added share of the usual latency). ``measurements``: number of
    measurements that cross it. ``slow``: number of these measurements that lose more than half of ``loss``.
    ``probability`` of this result by chance, corrected for the number of tests.
    """

    part: int
    loss: float
    measurements: int
    slow: int
    probability: float


def deviation(value: np.ndarray, expected: np.ndarray, latency: bool) -> np.ndarray:
    """Return the amount by which each measurement is worse than usual (float64[m]; above 0: worse). For bandwidth it is
    -ln(measured / expected), for latency measured / expected - 1. The median is subtracted, so that an error common to
    all expected values blames no part. NaN if the measured or expected value is unknown.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        good = (value > 0) & (expected > 0) & np.isfinite(value) & np.isfinite(expected)
        ratio = np.where(good, value / expected, np.nan)
        if latency:
            middle = np.nanmedian(ratio) if good.any() else 1.0
            return np.asarray(ratio / middle - 1.0)
        d = -np.log(ratio)
    return np.asarray(d - (np.nanmedian(d) if good.any() else 0.0))


def blame(d: np.ndarray, parts: Parts, latency: bool, tests: int = 1) -> list[Blamed]:
    """Return the slow parts of one test, starting with the largest. ``d`` float64[m] is the result of
    :func:`deviation`. ``tests``: number of tests, for the correction of significance. ``latency``: whether the losses
    along a path add up; otherwise, only the largest counts.
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
        # Each further part must reduce the sum by more than the length of a code word that identifies the part among
        # all parts (Rissanen 1978).
        if best < 0 or gain[best] <= math.log(len(parts) + 1):
            break
        rows = parts.rows(best)
        free = explained < least
        p = rank_sum(d[rows[free[rows]]], d[np.setdiff1d(np.flatnonzero(free), rows, assume_unique=True)])
        p = min(1.0, p * len(parts) * tests)
        banned[best] = True
        if p >= LEVEL:
            rejected += 1
            continue
        loss = float(shift[best])
        lost = loss if latency else -math.expm1(-loss)
        blamed.append(Blamed(best, lost, len(rows), int((d[rows] > loss / 2).sum()), p))
        explained[rows] = explained[rows] + loss if latency else np.maximum(explained[rows], loss)
    return blamed


def _medians(d: np.ndarray, explained: np.ndarray, parts: Parts, owner: np.ndarray, latency: bool) -> np.ndarray:
    """Return the median loss of each part's measurements. For bandwidth, measurements that another blamed part explains
    are left out; for latency, the loss that other parts explain is subtracted.
    """
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
    # Use the lower of two middle values, because half of the measurements is not a majority.
    out[some] = np.minimum(values[low[some]], values[np.minimum(high[some], len(values) - 1)])
    return out


def _gains(
    d: np.ndarray, explained: np.ndarray, parts: Parts, owner: np.ndarray, shift: np.ndarray, latency: bool
) -> np.ndarray:
    """Return the amount by which each part would reduce the sum of absolute deviations."""
    now, each_shift = explained[parts.row], shift[owner]
    then = now + each_shift if latency else np.maximum(now, each_shift)
    values = d[parts.row]
    return np.bincount(owner, np.abs(values - now) - np.abs(values - then), len(parts))


def rank_sum(inside: np.ndarray, outside: np.ndarray) -> float:
    """Return the one-sided probability that randomly drawn values rank as high as ``inside`` (Wilcoxon 1945). It is
    exact for few values. For more values it is an upper bound, from a sum of exponential order statistics: unlike the
    normal approximation, this bound is valid far in the tail.
    """
    n, m = len(inside), len(outside)
    if not n or not m:
        return 1.0
    # Ranks are counted from the largest value. A tie gets the larger rank, so that ties never make a part look worse
    # than it is.
    place = np.searchsorted(np.sort(-outside), np.sort(-inside), side="right") + np.arange(1, n + 1)
    if n * (n + m) * int(place.sum()) <= EXACT_CELLS:
        return _exact(place, n, n + m)
    x = float(-np.log(place / (n + m + 1.0)).sum())
    return _erlang_tail(n, x)


def _exact(place: np.ndarray, n: int, total: int) -> float:
    """Return P(sum of ``n`` different ranks of 1 … total <= sum of ``place``)."""
    top = int(place.sum())
    choices = np.zeros((n + 1, top + 1))
    choices[0, 0] = 1.0
    for rank in range(1, min(total, top) + 1):
        choices[1:, rank:] += choices[:-1, : top + 1 - rank]
    return min(1.0, float(choices[n].sum()) / math.comb(total, n)) if math.comb(total, n) < 1e300 else 1.0


def _erlang_tail(n: int, x: float) -> float:
    """Return P(sum of ``n`` exponential variables of mean 1 > x)."""
    if x <= 0:
        return 1.0
    terms = np.arange(n) * math.log(x) - x - np.array([math.lgamma(k + 1.0) for k in range(n)])
    top = float(terms.max())
    return min(1.0, math.exp(top) * float(np.exp(terms - top).sum()))
