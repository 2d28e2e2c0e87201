"""Drift of measured pairs: tests against published tables and worked examples, planted slow hosts, and false alarms of pure noise."""

from __future__ import annotations

from itertools import permutations, product

import numpy as np
import pytest

from softib.analysis.drift import compare_pairs, mann_whitney, signed_rank


@pytest.mark.parametrize(("n", "chance"), [(6, 0.03125), (8, 0.0078125), (10, 0.001953125)])
def test_all_of_one_sign_is_two_in_two_to_the_n(n: int, chance: float) -> None:
    assert signed_rank(np.arange(1, n + 1)) == pytest.approx(chance)


def test_the_exact_test_counts_signs() -> None:
    rank = np.arange(1, 8)
    for plus in (3, 7, 12):
        sums = [sum(r for r, s in zip(rank, signs, strict=True) if s) for signs in product((0, 1), repeat=7)]
        small = min(plus, 28 - plus)
        counted = min(1.0, 2 * sum(s <= small for s in sums) / len(sums))
        d = np.where(np.isin(rank, {3: [3], 7: [7], 12: [5, 7]}[plus]), rank, -rank)
        assert signed_rank(d) == pytest.approx(counted)


def test_the_published_table_of_wilcoxon() -> None:
    """n = 20: the critical value of the smaller sum at 0.05 two-sided is 52, and 53 is not significant (Wilcoxon 1945; every table since)."""

    def chance(smaller: int) -> float:
        rank, left, signs = np.arange(1, 21), smaller, np.ones(20)
        for r in rank[::-1]:
            if r <= left:
                signs[r - 1], left = -1, left - r
        assert left == 0
        return signed_rank(rank * signs)

    assert chance(52) <= 0.05 < chance(53)


def test_rank_sum_is_near_the_count_of_arrangements() -> None:
    a, b = np.array([1.1, 2.5, 3.0, 3.2, 9.9]), np.array([4.0, 5.5, 6.1, 7.0, 8.8])
    u = sum(x > y for x in a for y in b)
    pool = np.concatenate([a, b])
    counts, more = 0, 0
    for mine in {tuple(sorted(p[:5])) for p in permutations(range(10), 5)}:
        x, y = pool[list(mine)], np.delete(pool, mine)
        counts += 1
        more += abs(int((x[:, None] > y).sum()) - 12.5) >= abs(u - 12.5)
    assert mann_whitney(a, b) == pytest.approx(more / counts, abs=0.03)


def pairs(
    n: int, rng: np.random.Generator, slow: dict[int, float] | None = None, scale: float = 1.0
) -> dict[tuple[str, str], float]:
    """390 Gb/s with 1 % of noise between all of ``n`` hosts."""
    rate = {}
    for i, j in product(range(n), repeat=2):
        if i != j:
            factor = min((slow or {}).get(i, 1.0), (slow or {}).get(j, 1.0))
            rate[f"h{i}", f"h{j}"] = 390.0 * scale * factor * rng.normal(1, 0.01)
    return rate


def test_a_host_that_lost_five_percent_is_named_and_no_other() -> None:
    rng = np.random.default_rng(0)
    drift = compare_pairs(pairs(16, rng), pairs(16, rng, {3: 0.95}))
    assert [h.host for h in drift.hosts] == ["h3"] and drift.hosts[0].ratio == pytest.approx(0.95, abs=0.01)
    assert drift.changed()


def test_a_fabric_that_lost_one_percent_is_seen_as_a_whole() -> None:
    rng = np.random.default_rng(1)
    drift = compare_pairs(pairs(16, rng), pairs(16, rng, scale=0.99))
    assert drift.chance < 1e-6 and drift.hosts == () and drift.ratio == pytest.approx(0.99, abs=0.003)


def test_noise_is_no_drift() -> None:
    """At 0.01 at most 1 % of fabrics that did not change may name a host; 1 % may be called changed as a whole."""
    named = whole = 0
    for seed in range(100):
        rng = np.random.default_rng(1000 + seed)
        drift = compare_pairs(pairs(8, rng), pairs(8, rng))
        named += bool(drift.hosts)
        whole += drift.chance < 0.01
    assert named <= 3 and whole <= 4


def test_failed_and_new_pairs_are_counted_not_compared() -> None:
    drift = compare_pairs({("a", "b"): 10.0, ("b", "a"): 0.0, ("a", "c"): 9.0}, {("a", "b"): 10.0, ("a", "d"): 5.0})
    assert (drift.pairs, drift.only_before, drift.only_after, drift.chance) == (1, 1, 1, 1.0)
    assert compare_pairs({}, {}).chance == 1.0
