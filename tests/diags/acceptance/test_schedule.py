"""Rounds of matchings. Oracle: the 1-factorisation of a complete graph (everybody meets everybody once, nobody twice in a round)."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from softib.diags.acceptance.schedule import CLASSES, Ends, circle, class_of, rounds_of, sub_rounds
from softib.errors import InputError


def ends(sizes: list[list[int]], rails: int = 1) -> Ends:
    """``sizes``: of each pod, the hosts of each of its leaves; every rail has leaves of its own."""
    host, rail, leaf, pod, n = [], [], [], [], 0
    for p, leaves in enumerate(sizes):
        for k in leaves:
            for _ in range(k):
                for r in range(rails):
                    host.append(f"h{len(host) // rails}")
                    rail.append(r)
                    leaf.append(n * rails + r)
                    pod.append(p)
            n += 1
    column = lambda values: np.array(values, np.int32)
    names = tuple(host)
    return Ends(names, names, ("",) * len(names), column([1] * len(names)), column(rail), column(leaf), column(pod))


@pytest.mark.parametrize("n", range(2, 12))
def test_in_a_tournament_everybody_meets_everybody_once(n):
    met = [tuple(sorted(p)) for step in range(n - 1 + n % 2) for p in circle(n, step) if p[1] >= 0]
    assert sorted(met) == [(a, b) for a in range(n) for b in range(a + 1, n)]


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.lists(st.integers(1, 5), min_size=1, max_size=4), min_size=1, max_size=4),
    st.integers(1, 3),
    st.integers(0, 5),
)
def test_all_rounds_bring_all_pairs_of_a_rail_together_and_no_port_measures_twice_at_once(sizes, rails, seed):
    made = ends(sizes, rails)
    n = len(made) // rails
    if n < 2:
        with pytest.raises(InputError, match="a pair needs two"):
            rounds_of(made, None, seed)
        return
    met = set()
    for one in rounds_of(made, None, seed):
        both = np.concatenate([one.source, one.target])
        assert len(np.unique(both)) == len(both)
        assert (made.rail[one.source] == made.rail[one.target]).all()
        met |= {tuple(sorted(p)) for p in zip(one.source.tolist(), one.target.tolist(), strict=True)}
    assert len(met) == rails * n * (n - 1) // 2


def test_rounds_are_perfect_matchings_of_their_class():
    made = ends([[4, 4, 4, 4]] * 4)
    rounds = rounds_of(made, 3)
    assert [r.pairs for r in rounds] == [c for c in CLASSES for _ in range(3)]
    for r in rounds:
        assert len(r) == len(made) // 2
        assert set(class_of(made, r.source, r.target).tolist()) == {CLASSES.index(r.pairs)}


def test_who_is_alone_on_a_leaf_has_a_partner_nevertheless():
    made = ends([[3, 3]])
    for r in rounds_of(made, None):
        assert len(r) == 3


def test_the_same_seed_draws_the_same_rounds():
    made = ends([[4, 3], [5, 2]], 2)
    texts = [
        [(r.number, r.pairs, r.source.tolist(), r.target.tolist()) for r in rounds_of(made, 2, seed)]
        for seed in (1, 1, 2)
    ]
    assert texts[0] == texts[1] != texts[2]


def test_pairs_that_are_to_be_alone_share_neither_host_nor_link():
    made = ends([[4, 4]])
    one = rounds_of(made, 1)[1]
    crossed = [{0, 1}, {1, 2}, {3}, {2}]
    parts = sub_rounds(made, one, crossed)
    assert sorted(i for p in parts for i in p.tolist()) == [0, 1, 2, 3]
    for p in parts:
        links = [link for i in p.tolist() for link in crossed[i]]
        assert len(links) == len(set(links))
    assert [len(p) for p in sub_rounds(made, one, None, 1)] == [1, 1, 1, 1]


def test_no_rounds_is_refused():
    with pytest.raises(InputError, match="1 or more"):
        rounds_of(ends([[2]]), 0)
