"""Probabilities for the rules, computed without a statistics library: exact Poisson tails and bounds, and
hypergeometric tails.
"""

from __future__ import annotations

import math

__all__ = ["hypergeometric_tail", "poisson_lower", "poisson_tail", "poisson_upper"]

EXACT = 10_000
"""Largest count for which bounds are exact. For larger counts, the normal distribution is used (error below 0.1 %)."""
TINY = 1e-17


def poisson_tail(n: int, mean: float) -> float:
    """Return P(N >= n) of a Poisson distribution with this mean."""
    if n <= 0:
        return 1.0
    if mean <= 0:
        return 0.0
    if mean < n:
        return min(1.0, _term(n, mean) * _series(mean, n))
    # The mean is n or more, so the complement has fewer terms.
    total, part, k = 0.0, 1.0, n - 1
    while k >= 0 and part > TINY * max(total, 1.0):
        total += part
        part *= k / mean
        k -= 1
    return max(0.0, 1.0 - _term(n - 1, mean) * total)


def _term(n: int, mean: float) -> float:
    """Return P(N = n)."""
    return math.exp(n * math.log(mean) - mean - math.lgamma(n + 1))


def _series(mean: float, n: int) -> float:
    """Return the sum of P(N = k) over k >= n, divided by P(N = n); ``mean`` < n."""
    total, part, k = 0.0, 1.0, n
    while part > TINY * total:
        total += part
        k += 1
        part *= mean / k
    return total


def poisson_lower(n: int, probability: float) -> float:
    """Return the exact lower bound of the mean after a count of ``n`` (Garwood 1936). ``probability``: chance of such a
    count or a larger one at this mean.
    """
    if n <= 0:
        return 0.0
    if n > EXACT:
        return max(0.0, n - _normal(probability) * math.sqrt(n))
    return _solve(lambda mean: poisson_tail(n, mean) - probability, 0.0, float(n))


def poisson_upper(n: int, probability: float) -> float:
    """Return the exact upper bound of the mean after a count of ``n``. ``probability``: chance of such a count or a
    smaller one at this mean.
    """
    if n > EXACT:
        return n + _normal(probability) * math.sqrt(n)
    most = n + 20.0 * math.sqrt(n + 1.0) - math.log(probability) + 10.0
    return _solve(lambda mean: poisson_tail(n + 1, mean) - (1.0 - probability), float(n), most)


def _normal(probability: float) -> float:
    """Return the standard normal deviate that is exceeded with this probability."""
    return _solve(lambda z: probability - 0.5 * math.erfc(z / math.sqrt(2.0)), 0.0, 40.0)


def _solve(rises: object, low: float, high: float) -> float:
    """Return the zero of a function that increases between ``low`` and ``high``."""
    assert callable(rises)
    for _ in range(100):
        middle = 0.5 * (low + high)
        if rises(middle) < 0:
            low = middle
        else:
            high = middle
        if high - low <= 1e-12 * high:
            break
    return 0.5 * (low + high)


def hypergeometric_tail(k: int, group: int, marked: int, total: int) -> float:
    """Return P(at least ``k`` of a ``group`` drawn from ``total`` are among the ``marked``)."""
    if k <= max(0, group + marked - total):
        return 1.0
    whole = _log_choose(total, group)
    return min(
        1.0,
        math.fsum(
            math.exp(_log_choose(marked, i) + _log_choose(total - marked, group - i) - whole)
            for i in range(k, min(group, marked) + 1)
        ),
    )


def _log_choose(n: int, k: int) -> float:
    return math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)
