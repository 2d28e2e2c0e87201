"""ftree: the published property (no contention under any shift), what it refuses, and odd trees."""

import re
from dataclasses import replace

import numpy as np
import pytest

from softib.routing.engine import RouteOptions, route
from softib.routing.engines.fat_tree import NotATree, recognise
from softib.routing.proof.reach import port_map
from softib.routing.proof.verify import verify
from softib.routing.quality import balance
from tests.routing.brute import cut_off, dependencies, has_cycle
from tests.routing.fabrics import clos, kary_tree, ring, wire
from tests.routing.lab import changed, parts_of


def compute_node_order(graph, options=None):
    return recognise(graph, options or RouteOptions(), []).compute


def worst_shift(g, lft, order, nth=0):
    """Most flows on one link between switches over all shifts of ``order`` (flow i → i + shift), to the ``nth`` LID of each port."""
    at = port_map(g)
    n = len(order)
    worst = 0
    for shift in range(1, n):
        dest = np.roll(order, -shift)
        lid = g.end_lid[dest].astype(np.int64) + nth
        s = g.end_switch[order].astype(np.int64)
        load = np.zeros(len(g.peer), np.int64)
        flying = np.ones(n, bool)
        while flying.any():
            e = at[s, lft[s, lid]]
            arrived = e < 0
            assert (e[flying & arrived] == -2 - dest[flying & arrived]).all()
            flying &= ~arrived
            load += np.bincount(e[flying], minlength=len(load))
            s[flying] = g.peer[e[flying]]
        worst = max(worst, int(load.max()))
    return worst


def shuffled(g_switches, seed):
    return np.random.default_rng(seed).permutation(g_switches) + 1


TREES = {
    "8 leaves 4 spines": (lambda: clos(8, 4, 4)),
    "two cables to each spine": (lambda: clos(6, 2, 4, 2)),
    "2-ary 2": (lambda: kary_tree(2, 2)),
    "4-ary 2": (lambda: kary_tree(4, 2)),
    "2-ary 4": (lambda: kary_tree(2, 4)),
    "4-ary 3": (lambda: kary_tree(4, 3)),
    "3-ary 3 doubled": (lambda: kary_tree(3, 3, True)),
    "4-ary 3 doubled": (lambda: kary_tree(4, 3, True)),
    "6-ary 3 doubled": (lambda: kary_tree(6, 3, True)),
    "2-ary 4 doubled": (lambda: kary_tree(2, 4, True)),
}


@pytest.mark.parametrize("tree", TREES)
def test_no_shift_meets_contention_on_a_full_tree(tree):
    """Zahavi et al. 2010: on a full fat tree every link carries at most one flow of any shift permutation."""
    g = TREES[tree]()
    r = route(g, "ftree")
    assert r.engine == "ftree"
    assert worst_shift(g, r.lft, compute_node_order(g)) == 1


@pytest.mark.parametrize("lmc", [1, 3])
@pytest.mark.parametrize("make", [lambda: clos(8, 4, 4), lambda: kary_tree(3, 3, True), lambda: kary_tree(4, 3)])
def test_with_an_lmc_every_set_of_lids_is_as_free_of_contention(make, lmc):
    """The law of LMC 0 for the n-th LIDs of all ports; and what LMC is for: the LIDs of a port take different links."""
    whole = make()
    g = wire(whole.n_switches, *parts_of(whole), lmc=lmc)
    r = route(g, "ftree,updn")
    assert r.engine == "ftree" and verify(g, r.lft).ok and not has_cycle(dependencies(g, r.lft, switches=True))
    assert cut_off(g, r.lft) == []
    for nth in range(1 << lmc):
        assert worst_shift(g, r.lft, compute_node_order(g), nth) == 1
    far, near = np.flatnonzero(~g.end_is_switch)[-1], int(g.end_switch[0])
    links = {int(r.lft[near, int(g.end_lid[far]) + nth]) for nth in range(1 << lmc)}
    ups = int(np.count_nonzero(g.end_switch[~g.end_is_switch] == near))
    assert len(links) == min(1 << lmc, ups)


def test_nue_spreads_base_lids_with_an_lmc_as_without():
    whole = kary_tree(4, 3, True)
    hosts = np.flatnonzero(~whole.end_is_switch)
    g = wire(whole.n_switches, *parts_of(whole), lmc=3)
    assert worst_shift(whole, route(whole, "nue").lft, hosts) == worst_shift(
        g, route(g, "nue").lft, np.flatnonzero(~g.end_is_switch)
    )


@pytest.mark.parametrize("seed", range(5))
def test_shuffled_guids_change_nothing(seed):
    """The index, not the GUIDs or the cabling order, keeps the planes aligned."""
    g = kary_tree(3, 3, True)
    g = replace(g, switch_guid=shuffled(g.n_switches, seed).astype(np.uint64))
    r = route(g, "ftree")
    assert verify(g, r.lft).ok
    assert worst_shift(g, r.lft, compute_node_order(g)) == 1


def test_another_order_or_engine_does_meet_contention():
    """So that the tests above can fail."""
    g = kary_tree(4, 3, True)
    order = compute_node_order(g)
    assert worst_shift(g, route(g, "ftree").lft, np.random.default_rng(1).permutation(order)) > 1
    assert worst_shift(g, route(g, "minhop").lft, order) > 1


def test_missing_hosts_keep_the_others_aligned():
    some = [(leaf, 1 + h) for leaf in range(6) for h in range(4) if (leaf, h) not in {(1, 2), (3, 0), (3, 1), (5, 3)}]
    cables = [(leaf, 5 + s, 6 + s, 1 + leaf) for leaf in range(6) for s in range(4)]
    g = wire(10, cables, some)
    r = route(g, "ftree")
    assert r.engine == "ftree" and verify(g, r.lft).ok
    assert balance(g, r.lft).destinations.max() <= 5, "a link up carries one host of each other leaf"


def test_loads_of_a_full_tree_are_even_at_every_level():
    g = kary_tree(4, 3, True)
    for tier in balance(g, route(g, "ftree").lft).tiers:
        assert tier.least == tier.most and tier.imbalance == 1.0


@pytest.mark.parametrize(
    "make, reason",
    [
        (lambda: wire(1, [], [(0, 1), (0, 2)]), "make no tree"),
        (lambda: ring(4), "every switch has compute nodes"),
        (
            lambda: wire(3, [(0, 1, 2, 1), (1, 1, 2, 2), (0, 2, 1, 2), (0, 3, 2, 3)], [(0, 5), (1, 5)]),
            "differ in parallel cables up",
        ),
        (lambda: wire(4, [(0, 1, 2, 1), (0, 2, 3, 1), (1, 1, 2, 2)], [(0, 5), (1, 5)]), "differ in their links"),
        (
            lambda: wire(4, [(0, 1, 2, 1), (1, 1, 2, 2), (2, 3, 3, 1)], [(0, 5), (1, 5), (2, 9)]),
            "compute nodes are on switches of ranks",
        ),
        (lambda: wire(4, [(0, 1, 2, 1), (1, 1, 3, 1)], [(0, 5), (1, 5), (3, 5)]), "no path to a top switch"),
    ],
)
def test_what_is_no_pure_tree_says_so_in_one_line(make, reason):
    """Routed by minhop as OpenSM does, or as the tree it still is."""
    g = make()
    with pytest.raises(NotATree, match=re.escape(reason)):
        recognise(g, RouteOptions(), [])
    r = route(g, "ftree")
    (note,) = [n for n in r.notes if reason in n]
    assert "\n" not in note
    if r.engine == "ftree":
        assert note.startswith("not a pure tree:") and verify(g, r.lft).ok
    else:
        assert note.startswith("ftree:") and (r.lft == route(g, "minhop").lft).all()


def test_with_roots_given_an_imperfect_tree_is_routed():
    g = wire(5, [(0, 1, 3, 1), (0, 2, 4, 1), (1, 1, 3, 2), (1, 2, 4, 2), (2, 1, 3, 3)], [(s, 5) for s in range(3)])
    r = route(g, "ftree", RouteOptions(root_guids=(4, 5)))
    assert r.engine == "ftree"
    p = verify(g, r.lft)
    assert p.ca_ca.lost == 0 and p.deadlock_free


def test_storage_on_the_spine_is_reached_when_compute_nodes_are_named():
    g = wire(4, [(0, 1, 2, 1), (0, 2, 3, 1), (1, 1, 2, 2), (1, 2, 3, 2)], [(0, 5), (0, 6), (1, 5), (1, 6), (2, 9)])
    cns = tuple(int(x) for x in g.end_guid[np.flatnonzero(~g.end_is_switch)][:4])
    r = route(g, "ftree", RouteOptions(root_guids=(3, 4), cn_guids=cns))
    p = verify(g, r.lft)
    assert r.engine == "ftree" and p.ca_ca.lost == 0 and p.deadlock_free
    storage = int(g.end_guid[np.flatnonzero(~g.end_is_switch)][4])
    r = route(g, "ftree", RouteOptions(root_guids=(3, 4), io_guids=(storage,)))
    assert r.engine == "ftree" and verify(g, r.lft).ca_ca.lost == 0


def test_cables_between_leaves_do_no_harm():
    g = wire(
        4, [(0, 1, 2, 1), (0, 2, 3, 1), (1, 1, 2, 2), (1, 2, 3, 2), (0, 3, 1, 3)], [(0, 5), (0, 6), (1, 5), (1, 6)]
    )
    r = route(g, "ftree", RouteOptions(root_guids=(3, 4)))
    p = verify(g, r.lft)
    assert r.engine == "ftree" and p.ok


# -- trees that are not pure --


def damaged(share, seed, tree=lambda: kary_tree(4, 3, True)):
    g = tree()
    n = len(g.peer) // 2
    return changed(g, cut=set(np.random.default_rng(seed).choice(n, max(1, int(share * n)), replace=False).tolist()))


@pytest.mark.parametrize("share", [0.001, 0.03, 0.1])
@pytest.mark.parametrize("seed", range(4))
def test_a_tree_with_missing_cables_stays_a_tree(share, seed):
    """As much as it can be: no pair is lost, none deadlocks, and no link carries more than under minhop or updn."""
    g = damaged(share, seed)
    r = route(g, "ftree")
    assert r.engine == "ftree" and verify(g, r.lft).ok
    worst = balance(g, r.lft).most
    assert worst <= min(balance(g, route(g, name).lft).most for name in ("updn", "minhop"))
    assert any("unlike OpenSM's ftree" in n for n in r.notes)


IMPERFECT = {
    "two cables here, one there": lambda: wire(
        6,
        [
            (leaf, 1 + c, 4 + s, 1 + 2 * leaf + c - s)
            for leaf in range(4)
            for s in range(2)
            for c in range(2 * s, 2 + s)
        ],
        [(leaf, 9 + h) for leaf in range(4) for h in range(3)],
    ),
    "a management switch on a core": lambda: changed(kary_tree(3, 3, True), hung=[(36, 1)]),
    "a management switch below a leaf": lambda: changed(kary_tree(3, 3, True), hung=[(0, 2)]),
    "a leaf without hosts": lambda: changed(kary_tree(3, 3, True), empty=(2,)),
    "storage on a core": lambda: changed(kary_tree(3, 3, True), hosts=(37,)),
}


@pytest.mark.parametrize("name", IMPERFECT)
def test_imperfect_trees_are_routed_as_trees(name):
    g = IMPERFECT[name]()
    r = route(g, "ftree")
    assert r.engine == "ftree" and verify(g, r.lft).ok
    assert balance(g, r.lft).most <= balance(g, route(g, "updn").lft).most


def test_one_cable_less_costs_the_shifts_little():
    """A whole tree carries every shift with one flow a link; with a cable less some link carries two, not many."""
    g = damaged(0.001, 1)
    order = compute_node_order(g, RouteOptions(root_guids=route(g, "ftree").roots))
    assert worst_shift(g, route(g, "ftree").lft, order) <= 3 < worst_shift(g, route(g, "minhop").lft, order)
