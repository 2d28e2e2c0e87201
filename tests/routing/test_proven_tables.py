"""Laws: a proof of what changed says the same as a proof of everything."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from softib.routing.engine import route
from softib.routing.proof.reach import ProvenTables, lost_pairs
from softib.routing.proof.verify import verify
from tests.routing.fabrics import clos, kary_tree
from tests.routing.lab import changed, graphs


def scrambled(g, lft, rng, entries):
    """``lft`` with some entries drawn anew."""
    out = lft.copy()
    rows, columns = rng.integers(0, g.n_switches, entries), rng.integers(0, lft.shape[1], entries)
    out[rows, columns] = rng.choice([0, 1, 2, 3, 255], entries)
    return out


@given(graphs(lmc=1), st.integers(0, 2**32 - 1))
def test_lost_pairs_of_changed_columns_alone_are_those_of_all_columns(g, seed):
    rng = np.random.default_rng(seed)
    lft, proven = route(g, "minhop").lft, ProvenTables()
    for entries in (0, 0, 3, 1):
        lft = scrambled(g, lft, rng, entries)
        assert proven.lost_pairs(g, lft) == lost_pairs(g, lft)
        assert proven.walked <= lft.shape[1]


@given(st.integers(0, 2**32 - 1))
def test_a_cable_that_leads_elsewhere_counts_as_a_change_even_where_no_entry_does(seed):
    rng = np.random.default_rng(seed)
    g = clos(4, 3, 2)
    lft, proven = route(g, "minhop").lft, ProvenTables()
    assert proven.lost_pairs(g, lft) == 0
    for _ in range(3):
        other = changed(g, cut=set(rng.integers(0, 12, 2).tolist()))
        assert proven.lost_pairs(other, lft) == lost_pairs(other, lft)


def test_only_the_columns_that_use_a_cable_are_walked():
    g = kary_tree(4, 3, True)
    lft, proven = route(g, "ftree").lft, ProvenTables()
    assert proven.lost_pairs(g, lft) == 0
    assert proven.walked == len(g.end_lid)
    assert proven.lost_pairs(g, lft.copy()) == 0
    assert proven.walked == 0
    other = changed(g, cut={0})
    lost = proven.lost_pairs(other, lft)
    assert lost == verify(other, lft).unreachable > 0
    assert 0 < proven.walked < len(g.end_lid)
