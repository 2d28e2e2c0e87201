"""Poisson bounds against published tables (Garwood 1936; Pearson and Hartley), tails against sums, hypergeometric tails against counting."""

from __future__ import annotations

import math
from itertools import combinations

import pytest

from softib.diags.cable_rules.chances import hypergeometric_tail, poisson_lower, poisson_tail, poisson_upper

PUBLISHED = {0: (0.0, 3.689), 1: (0.0253, 5.572), 3: (0.619, 8.767), 10: (4.795, 18.390), 50: (37.11, 65.92)}
"""95 % limits of a Poisson mean."""


@pytest.mark.parametrize("n", PUBLISHED)
def test_bounds_are_those_of_published_tables(n: int) -> None:
    low, high = PUBLISHED[n]
    assert poisson_lower(n, 0.025) == pytest.approx(low, rel=1e-3, abs=1e-3)
    assert poisson_upper(n, 0.025) == pytest.approx(high, rel=1e-3)


@pytest.mark.parametrize(("n", "mean"), [(1, 0.1), (3, 7.5), (20, 3.0), (20, 20.0), (40, 100.0), (5, 1e-9)])
def test_a_tail_is_the_sum_of_its_terms(n: int, mean: float) -> None:
    terms = math.fsum(math.exp(k * math.log(mean) - mean - math.lgamma(k + 1)) for k in range(n, n + 2000))
    assert poisson_tail(n, mean) == pytest.approx(terms, rel=1e-9)


def test_large_counts_join_the_exact_ones() -> None:
    exact, normal = poisson_lower(10_000, 0.025), poisson_lower(10_001, 0.025)
    assert abs(normal - exact) < 10
    assert poisson_lower(10**9, 0.025) < 10**9 < poisson_upper(10**9, 0.025)


def test_hypergeometric_tail_counts_draws() -> None:
    draws = list(combinations(range(10), 4))
    for k in range(5):
        hits = sum(sum(i < 3 for i in d) >= k for d in draws)
        assert hypergeometric_tail(k, 4, 3, 10) == pytest.approx(hits / len(draws))
