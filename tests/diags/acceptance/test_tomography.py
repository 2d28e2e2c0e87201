"""Which parts slow pairs share. Oracles: every choice of ranks counted by hand, and paths made up with parts that are slow."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from softib.diags.acceptance.tomography import Parts, blame, deviation, rank_sum


def parts(*rows: list[int]) -> Parts:
    first = np.concatenate([[0], np.cumsum([len(r) for r in rows])])
    return Parts(first, np.concatenate([np.array(sorted(r)) for r in rows]), np.zeros(len(rows)))


@pytest.mark.parametrize(("n", "total"), [(1, 5), (2, 7), (3, 8), (4, 9)])
def test_ranks_are_counted_one_by_one(n, total):
    values = np.arange(total, dtype=float)
    for chosen in combinations(range(total), n):
        inside = values[list(chosen)]
        as_high = sum(sum(c) >= sum(chosen) for c in combinations(range(total), n))
        every = len(list(combinations(range(total), n)))
        assert rank_sum(inside, np.delete(values, chosen)) == pytest.approx(as_high / every)


def test_the_bound_for_many_is_on_the_safe_side():
    rng = np.random.default_rng(5)
    outside = rng.normal(size=400)
    inside = np.sort(rng.normal(size=400))[-8:] + 1
    from softib.diags.acceptance import tomography

    exact = rank_sum(inside, outside)
    place = np.searchsorted(np.sort(-np.concatenate([inside, outside])), -inside, side="right")
    bound = tomography._erlang_tail(8, float(-np.log(place / 409.0).sum()))
    assert exact < bound < 1e-5, "larger than the count, and small all the same"


def test_a_slow_part_is_named_and_the_others_on_its_paths_are_not():
    rng = np.random.default_rng(1)
    crossed = [sorted(rng.choice(12, 3, replace=False).tolist()) for _ in range(120)]
    d = np.abs(rng.normal(0, 0.01, 120))
    d += [0.4 if 7 in c else 0.0 for c in crossed]
    found = blame(d, parts(*([i for i, c in enumerate(crossed) if p in c] for p in range(12))), False)
    assert [b.part for b in found] == [7]
    assert found[0].loss == pytest.approx(1 - np.exp(-0.4), abs=0.02)
    assert found[0].slow == found[0].measurements == sum(7 in c for c in crossed)


def test_of_two_slow_parts_on_a_path_bandwidth_feels_the_slower_and_latency_both():
    rng = np.random.default_rng(2)
    crossed = [sorted(rng.choice(10, 3, replace=False).tolist()) for _ in range(300)]
    share = parts(*([i for i, c in enumerate(crossed) if p in c] for p in range(10)))
    noise = np.abs(rng.normal(0, 0.01, 300))
    for latency in (False, True):
        losses = [[{2: 0.3, 5: 0.9}[p] for p in c if p in (2, 5)] for c in crossed]
        d = noise + [(sum(x) if latency else max(x)) if x else 0.0 for x in losses]
        assert sorted(b.part for b in blame(d, share, latency)) == [2, 5]


def test_one_odd_measurement_accuses_nobody():
    d = np.zeros(60)
    d[17] = 3.0
    assert blame(d, parts(list(range(30)), list(range(15, 20)), list(range(30, 60))), False) == []


def test_nothing_is_found_in_noise_with_heavy_tails():
    crossed = np.random.default_rng(0).integers(0, 40, (400, 2))
    share = parts(*(np.flatnonzero((crossed == p).any(axis=1)).tolist() for p in range(40)))
    false = sum(len(blame(np.random.default_rng(s).exponential(0.2, 400), share, False)) for s in range(30))
    assert false <= 1, "0.3 are allowed at the level of 1 %"


def test_a_model_that_is_wrong_for_all_alike_accuses_nobody():
    value = np.array([50.0, 51.0, 49.0, 50.0])
    assert np.abs(deviation(value, np.full(4, 100.0), False)).max() < 0.03
    assert np.isnan(deviation(np.array([1.0, 0.0]), np.array([1.0, 1.0]), False)[1])
