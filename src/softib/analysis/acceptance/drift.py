"""Statistical comparison of two sets of measurements between pairs of hosts. A signed-rank test on the changes of all
pairs shows whether the fabric changed (Wilcoxon 1945). The same test on the pairs of one host shows whether the host
changed; Holm's method corrects for the number of hosts (Holm 1979). If the two sets have different pairs, the rank-sum
test compares all rates (Mann and Whitney 1947).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np

from softib.result import HIDDEN, Result, key

__all__ = ["ClassDrift", "Drift", "HostDrift", "compare_pairs", "mann_whitney", "signed_rank"]

EXACT = 20
"""Up to this number of pairs, the signed-rank test counts all assignments of signs; for more pairs, it uses the normal
distribution, corrected for ties."""
LEAST = 6
"""Smallest number of pairs with which a change can be significant at 0.05 (two-sided: 2 / 2**6)."""

Pairs = Mapping[tuple[str, str], float]
"""(source, destination) -> measured value: Gb/s or microseconds."""


@dataclass(frozen=True)
class HostDrift:
    """Change of the pairs of one host. ``ratio``: median of (value after / value before); ``pairs``: their number;
    ``probability`` of such a change by chance, corrected for the number of hosts."""

    host: str
    ratio: float
    pairs: int
    probability: float


@dataclass(frozen=True)
class ClassDrift:
    """Change of the pairs of one class, for example across a core. ``ratio``: median of (value after / value before)
    for these ``pairs``; ``rest``: this median for all other pairs; ``probability`` of such a change by chance,
    corrected for the number of classes."""

    name: str
    ratio: float
    rest: float
    pairs: int
    probability: float


@dataclass(frozen=True)
class Drift(Result):
    """Change of the measured pairs between two runs of a test."""

    pairs: int
    """Number of pairs measured in both runs."""
    ratio: float = field(metadata=key(type=float | None))
    """Median of (value after / value before); null if no pair is in both sets."""
    probability: float
    """Probability of such a change by chance (signed-rank test; rank-sum test if no pair is in both sets)."""
    hosts: tuple[HostDrift, ...] = field(metadata=HIDDEN)
    """Hosts whose pairs changed differently from all other pairs, if that is significant; most certain first."""
    only_before: int
    """Number of pairs that only the first run measured."""
    only_after: int
    classes: tuple[ClassDrift, ...] = field(default=(), metadata=HIDDEN)
    """Classes of pairs that changed differently from the other classes, if that is significant. Their change is removed
    before hosts are compared."""

    def changed(self, level: float = 0.01) -> bool:
        """Return whether the fabric as a whole, a host, or a class of pairs changed."""
        parts = [h.probability for h in self.hosts] + [c.probability for c in self.classes]
        return self.probability < level or any(p < level for p in parts)


def compare_pairs(
    before: Pairs, after: Pairs, level: float = 0.01, class_of: Callable[[tuple[str, str]], str] | None = None
) -> Drift:
    """Return the change of pairs from ``before`` to ``after``. Hosts are reported at significance
    ``level``; classes of pairs too, if ``class_of`` returns the class of a pair. Values of 0 or
    less (failed pairs) are ignored.
    """
    first, second = ({k: v for k, v in m.items() if v > 0 and math.isfinite(v)} for m in (before, after))
    both = sorted(first.keys() & second.keys())
    log = np.array([math.log(second[k] / first[k]) for k in both])
    if not len(both):
        probability = mann_whitney(np.array(list(first.values())), np.array(list(second.values())))
        return Drift(0, float("nan"), probability, (), len(first), len(second))
    middle = float(np.median(log))
    names = np.array(["" if class_of is None else class_of(k) for k in both], object)
    classes = _classes(names, log, level)
    rest = log.copy()
    for one in classes:
        rest[names == one.name] -= math.log(one.ratio / one.rest)
    return Drift(
        len(both),
        math.exp(middle),
        signed_rank(log),
        _hosts(both, rest, float(np.median(rest)), level),
        len(first) - len(both),
        len(second) - len(both),
        classes,
    )


def _classes(names: np.ndarray, log: np.ndarray, level: float) -> tuple[ClassDrift, ...]:
    """Return the classes whose pairs changed by another ratio than the pairs of the other classes, most certain first.
    The test is the rank-sum test with Holm's step-down method."""
    left = sorted(set(names.tolist()))
    worst, classes = 0.0, []
    for tests in range(len(left), 1, -1):
        kept = np.isin(names, left)
        parts = {n: (log[names == n], log[kept & (names != n)]) for n in left}
        chances = {n: mann_whitney(*p) for n, p in parts.items() if min(map(len, p)) >= LEAST}
        # Of two classes that differ, the one with the larger change is reported.
        moved = [n for n in chances if abs(np.median(parts[n][0])) > abs(np.median(parts[n][1]))]
        name = min(moved, key=chances.__getitem__, default="")
        if not moved or signed_rank(parts[name][0]) >= level:
            break
        worst = max(worst, min(1.0, chances[name] * tests))
        if worst >= level:
            break
        ratio, rest = (math.exp(float(np.median(x))) for x in parts[name])
        classes.append(ClassDrift(name, ratio, rest, len(parts[name][0]), worst))
        left.remove(name)
    return tuple(classes)


def _hosts(both: list[tuple[str, str]], log: np.ndarray, middle: float, level: float) -> tuple[HostDrift, ...]:
    """Return hosts whose pairs changed more than the median pair. A slow host affects only one pair
    of every other host, so it does not move the median."""
    rows: dict[str, list[int]] = {}
    for i, pair in enumerate(both):
        for host in dict.fromkeys(pair):
            rows.setdefault(host, []).append(i)
    tested = [(h, np.array(r)) for h, r in sorted(rows.items()) if len(r) >= LEAST]
    chances = np.array([signed_rank(log[r] - middle) for _, r in tested])
    order, worst, hosts = np.argsort(chances, kind="stable"), 0.0, []
    for rank, i in enumerate(order.tolist()):
        worst = max(worst, min(1.0, float(chances[i]) * (len(tested) - rank)))  # Holm's step-down
        if worst < level:
            host, pairs = tested[i]
            hosts.append(HostDrift(host, math.exp(float(np.median(log[pairs]))), len(pairs), worst))
    return tuple(hosts)


def signed_rank(differences: np.ndarray) -> float:
    """Return the two-sided probability of signed ranks at least as uneven as those of ``differences``, assuming that
    positive and negative differences are equally likely. Zeros are ignored."""
    d = np.asarray(differences, float)
    d = d[d != 0]
    n = len(d)
    if n == 0:
        return 1.0
    rank, ties = _ranks(np.abs(d))
    plus = float(rank[d > 0].sum())
    if n <= EXACT:
        return _exact(rank, plus)
    mean = n * (n + 1) / 4
    variance = n * (n + 1) * (2 * n + 1) / 24 - ties / 48
    return _two_sided(plus - mean, variance)


def _exact(rank: np.ndarray, plus: float) -> float:
    """Return the probability of :func:`signed_rank` from a count of all assignments of signs, that is, of the sums of
    all subsets of the ranks. Ranks are doubled in this count, so that those of ties are whole numbers. ``plus``: sum of
    the ranks of positive differences."""
    twice = np.rint(2 * rank).astype(np.int64)
    counts = np.zeros(int(twice.sum()) + 1)
    counts[0] = 1.0
    for r in twice.tolist():
        counts[r:] = counts[r:] + counts[:-r]
    at, whole = round(2 * plus), len(counts) - 1
    tail = counts[: min(at, whole - at) + 1].sum() / counts.sum()
    return min(1.0, 2.0 * float(tail))


def mann_whitney(a: np.ndarray, b: np.ndarray) -> float:
    """Return the two-sided probability that the ranks of ``a`` and ``b`` differ at least this much if both come from
    one distribution (normal approximation, corrected for ties)."""
    n, m = len(a), len(b)
    if not n or not m:
        return 1.0
    rank, ties = _ranks(np.concatenate([a, b]))
    u = float(rank[:n].sum()) - n * (n + 1) / 2
    total = n + m
    variance = n * m / 12 * (total + 1 - (ties / (total * (total - 1)) if total > 1 else 0.0))
    return _two_sided(u - n * m / 2, variance)


def _ranks(values: np.ndarray) -> tuple[np.ndarray, float]:
    """Return the ranks, which begin with 1 (equal values get the mean of their ranks), and the sum of t**3 - t over all
    groups of t equal values."""
    _, at, count = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(count)
    return (last - (count - 1) / 2)[at.reshape(-1)], float((count.astype(float) ** 3 - count).sum())


def _two_sided(deviation: float, variance: float) -> float:
    """Return the two-sided probability of a ``deviation`` at least this large, with continuity correction."""
    if variance <= 0:
        return 1.0
    return math.erfc(max(0.0, abs(deviation) - 0.5) / math.sqrt(2 * variance))
