"""Drift of measured pairs: tests against published tables and worked examples, planted slow hosts, and false alarms of pure noise."""

from __future__ import annotations

from itertools import permutations, product

import numpy as np
import pytest

from softib.analysis.acceptance.drift import compare_pairs, mann_whitney, signed_rank


@pytest.mark.parametrize(("n", "probability"), [(6, 0.03125), (8, 0.0078125), (10, 0.001953125)])
def test_all_of_one_sign_is_two_in_two_to_the_n(n: int, probability: float) -> None:
    assert signed_rank(np.arange(1, n + 1)) == pytest.approx(probability)


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

    def probability(smaller: int) -> float:
        rank, left, signs = np.arange(1, 21), smaller, np.ones(20)
        for r in rank[::-1]:
            if r <= left:
                signs[r - 1], left = -1, left - r
        assert left == 0
        return signed_rank(rank * signs)

    assert probability(52) <= 0.05 < probability(53)


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
    assert drift.probability < 1e-6 and drift.hosts == () and drift.ratio == pytest.approx(0.99, abs=0.003)


def test_noise_is_no_drift() -> None:
    """At 0.01 at most 1 % of fabrics that did not change may name a host; 1 % may be called changed as a whole."""
    named = whole = 0
    for seed in range(100):
        rng = np.random.default_rng(1000 + seed)
        drift = compare_pairs(pairs(8, rng), pairs(8, rng))
        named += bool(drift.hosts)
        whole += drift.probability < 0.01
    assert named <= 3 and whole <= 4


def test_failed_and_new_pairs_are_counted_not_compared() -> None:
    drift = compare_pairs({("a", "b"): 10.0, ("b", "a"): 0.0, ("a", "c"): 9.0}, {("a", "b"): 10.0, ("a", "d"): 5.0})
    assert (drift.pairs, drift.only_before, drift.only_after, drift.probability) == (1, 1, 1, 1.0)
    assert compare_pairs({}, {}).probability == 1.0


def of_classes(rng: np.random.Generator, spread: float, factor: dict[str, float]) -> tuple[dict, dict]:
    """Two runs over 12 hosts, three a leaf, two leaves a pod; both with ``spread`` of noise, the second with its classes at ``factor``."""
    before, after = {}, {}
    for i, j in product(range(12), repeat=2):
        if i != j:
            pair = f"h{i}", f"h{j}"
            before[pair] = 390.0 * rng.normal(1, spread)
            after[pair] = 390.0 * rng.normal(1, spread) * factor.get(class_name(pair), 1.0)
    return before, after


def class_name(pair: tuple[str, str]) -> str:
    a, b = (int(h[1:]) for h in pair)
    return "same leaf" if a // 3 == b // 3 else "across spine" if a // 6 == b // 6 else "across core"


@pytest.mark.parametrize("kind", ["same leaf", "across spine", "across core"])
def test_a_class_that_lost_three_percent_is_named_and_no_host_is(kind: str) -> None:
    """Spread of 1 % a measurement, 20 seeds each: always named, with p below 0.01, and no other class."""
    hosts = 0
    for seed in range(20):
        before, after = of_classes(np.random.default_rng(seed), 0.01, {kind: 0.97})
        drift = compare_pairs(before, after, class_of=class_name)
        assert [c.name for c in drift.classes] == [kind], (seed, drift.classes)
        assert drift.classes[0].ratio == pytest.approx(0.97, abs=0.01) and drift.classes[0].probability < 0.01
        hosts += len(drift.hosts)
    assert hosts <= 2, "at 0.01 a fifth of a false host is expected in 20 runs"


def test_noise_of_three_percent_is_no_drift_of_a_class() -> None:
    """The same size, as noise: of 100 seeds at most 3 name a class (level 0.01, all classes together)."""
    named = 0
    for seed in range(100):
        drift = compare_pairs(*of_classes(np.random.default_rng(seed), 0.03, {}), class_of=class_name)
        named += bool(drift.classes)
    assert named <= 3
