"""Rows of different lengths. Oracle: loops over lists."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from softib.ragged import inverted, spread


@given(st.lists(st.integers(0, 5), max_size=12))
def test_spread_is_two_loops(count: list[int]):
    row, place = spread(np.array(count, np.int64))
    assert list(zip(row.tolist(), place.tolist(), strict=True)) == [
        (r, k) for r, n in enumerate(count) for k in range(n)
    ]


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 4)), max_size=20))
def test_inverted_names_who_has_an_entry(pairs: list[tuple[int, int]]):
    row, entry = np.array(pairs, np.int64).reshape(-1, 2).T
    first, rows, order = inverted(row, entry, 5)
    for e in range(5):
        part = slice(first[e], first[e + 1])
        assert rows[part].tolist() == [r for r, x in pairs if x == e]
        assert order[part].tolist() == [i for i, (_, x) in enumerate(pairs) if x == e]
