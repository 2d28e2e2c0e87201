"""sssp, dfsssp, lash, nue: every pair is reached and no VL's channels wait in a circle, on any graph."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from softib.routing.engine import RouteOptions, route
from softib.routing.proof.verify import verify
from softib.routing.quality import balance
from tests.extent import examples
from tests.routing.brute import bfs, cas, cut_off, dependencies, has_cycle, judge, walk
from tests.routing.fabrics import kary_tree, ring, torus, wire
from tests.routing.lab import GRAPHS, graphs, irregular

LANES = ("dfsssp", "lash", "nue")


def unconnected(g):
    """(CA, end) pairs that no cable joins."""
    return sum(
        int(g.end_switch[b]) not in bfs(g, int(g.end_switch[a]))
        for a in cas(g)
        for b in range(len(g.end_lid))
        if a != b
    )


def waits(g, r, wanted=lambda a, b: True, switches=False, answers=False):
    """The dependencies of all packets by plain walks; VL = SL."""
    vl_of = lambda a, b: lambda s, i, o: r.sl(int(g.end_switch[a]), b)
    return dependencies(g, r.lft, vl_of, wanted, switches, answers)


@settings(max_examples=examples(120), deadline=None)
@given(graphs(most=8), st.sampled_from(LANES), st.sampled_from([1, 2, 4]))
def test_every_pair_is_reached_without_a_credit_loop(g, name, vls):
    r = route(g, name, RouteOptions(data_vls=vls, nue_max_num_vls=0))
    if r.engine != name:
        assert name != "nue" and "data VL" in r.notes[-1]
        return
    assert r.vls <= vls and (r.path_sl is None or int(r.path_sl.max()) < r.vls)
    p = verify(g, r.lft, r.path_sl, r.sl2vl, vls)
    assert p.unreachable == unconnected(g) and p.ca_ca.loop == p.ca_ca.misdelivered == 0
    assert p.deadlock_free
    assert not has_cycle(waits(g, r, lambda a, b: not g.end_is_switch[b])), "second opinion: plain sets"
    if not any("can make a credit loop" in n for n in r.notes):
        assert not has_cycle(waits(g, r, switches=True, answers=True)), (
            "and packets that switches send, and answers on the SL of the request"
        )
    elif r.one_sl and not any("requests and answers" in n for n in r.notes):
        assert not has_cycle(waits(g, r, switches=True, answers=None)), "what is laid by direction, one way"
    else:
        assert name != "lash" or "between" in r.notes[-1], "lash lays both directions on one VL, as OpenSM's"
    assert not cut_off(g, r.lft)


def test_a_pair_of_switches_that_fits_on_no_vl_both_ways_is_laid_by_direction():
    """21 switches, 9 hosts and 2 VLs: a path and its answer on one VL close a loop for one pair; each alone does not."""
    g = irregular(21, 8, 9, 371)
    r = route(g, "dfsssp", RouteOptions(data_vls=2))
    assert r.engine == "dfsssp" and "between 1 pair of switches" in r.notes[-1] and "a separate SL there" in r.notes[-1]
    assert not has_cycle(waits(g, r, switches=True, answers=None))
    assert has_cycle(waits(g, r, switches=True)), "so the note is true"
    assert not has_cycle(waits(g, r, lambda a, b: not g.end_is_switch[b] and not g.end_is_switch[a], answers=True))


@settings(max_examples=examples(60), deadline=None)
@given(graphs(most=8), st.sampled_from(["sssp", "dfsssp", "lash", "dor"]))
def test_shortest_paths_are_no_longer_than_minhops(g, name):
    minimal = verify(g, route(g, "minhop").lft)
    r = route(g, name)
    between = verify(g, r.lft)
    assert between.unreachable == minimal.unreachable and between.hops_ca == minimal.hops_ca
    if r.vls > 1 or name in ("sssp", "dor"):  # else entries for switches' own LIDs may go round a credit loop
        assert judge(g, r.lft) == (minimal.hops, minimal.unreachable)


@settings(max_examples=examples(40), deadline=None)
@given(graphs(lmc=2), st.sampled_from(["sssp", "dor", *LANES]))
def test_all_lids_of_a_port_arrive(g, name):
    r = route(g, name)
    p = verify(g, r.lft, r.path_sl, r.sl2vl)
    expected = verify(g, route(g, "minhop").lft)
    assert p.ca_ca.arrived == expected.ca_ca.arrived
    assert name in ("sssp", "dor") or p.deadlock_free


@pytest.mark.parametrize("name", ["dfsssp", "lash"])
@pytest.mark.parametrize("n", [5, 6, 9, 16])
def test_a_ring_takes_two_vls(name, n):
    """One is too few for shortest paths round a ring (Dally and Seitz 1987), two are enough."""
    r = route(ring(n), name, RouteOptions(data_vls=2))
    assert r.engine == name and r.vls == 2 and verify(ring(n), r.lft, r.path_sl).ok
    few = route(ring(n), name, RouteOptions(data_vls=1))
    assert few.engine == "minhop" and "more than the 1 data VL there is" in few.notes[-1]


@pytest.mark.parametrize("vls", [1, 2, 3, 8])
@pytest.mark.parametrize("name", ["ring", "torus", "irregular a", "irregular b", "4-ary 3"])
def test_nue_does_with_any_number_of_vls(name, vls):
    """Domke et al. 2016: the number of VLs is the operator's choice."""
    g = GRAPHS[name]()
    r = route(g, "nue", RouteOptions(nue_max_num_vls=vls))
    p = verify(g, r.lft, r.path_sl, r.sl2vl, vls)
    assert r.engine == "nue" and r.vls <= vls and p.ok
    assert (p.switch_loop is None and p.answer_loop is None) or (vls > 1 and "can make a credit loop" in r.notes[-1])


def test_nue_takes_opensms_default_of_one_vl():
    r = route(torus(5, 5), "nue")
    assert r.vls == 1 and r.path_sl is None and verify(torus(5, 5), r.lft).ok


@pytest.mark.parametrize("name", ["sssp", "dfsssp", "nue"])
def test_links_of_a_tree_are_as_even_as_ftrees(name):
    """36 switches, 54 hosts: minhop gives one link three times as many paths (docs/routing.md)."""
    g = kary_tree(3, 3, True)
    assert balance(g, route(g, name).lft).most <= 1.2 * balance(g, route(g, "ftree").lft).most


@pytest.mark.parametrize("seed", range(6))
def test_large_irregular_fabrics(seed):
    g = irregular(60, 90, 120, seed)
    for name in LANES:
        r = route(g, name)
        assert r.engine == name and verify(g, r.lft, r.path_sl, r.sl2vl).ok
        again = route(g, name)
        assert (again.lft == r.lft).all() and np.array_equal(again.path_sl, r.path_sl)


def test_dor_on_a_mesh_turns_in_one_order_alone():
    """Ports 1, 2 are x, 3, 4 are y: dimension order has no credit loop on a mesh, and none is sought."""
    side = 4
    cables = [(i * side + j, 1, (i + 1) * side + j, 2) for i in range(side - 1) for j in range(side)]
    cables += [(i * side + j, 3, i * side + j + 1, 4) for i in range(side) for j in range(side - 1)]
    g = wire(side * side, cables, [(s, 5) for s in range(side * side)])
    r = route(g, "dor")
    assert verify(g, r.lft).ok
    for a in cas(g):
        for b in cas(g):
            ports = [p for _, p in walk(g, r.lft, int(g.end_switch[a]), int(g.end_lid[b]))[1][:-1]]
            assert [p > 2 for p in ports] == sorted(p > 2 for p in ports), "first x, then y"
    assert verify(torus(6, 6), route(torus(6, 6), "dor").lft).credit_loop, "a torus is another matter"
