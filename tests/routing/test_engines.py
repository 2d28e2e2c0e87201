"""Every engine against plain searches and walks on small random graphs, and against published properties."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from softib.errors import UnknownName
from softib.routing.engine import ENGINES, NEEDS, RouteOptions, route
from softib.routing.proof.verify import verify
from tests.extent import examples
from tests.routing.brute import bfs, cas, dependencies, has_cycle, judge, lids, neighbours, walk
from tests.routing.fabrics import clos, kary_tree, ring, torus, wire
from tests.routing.lab import graphs

ALONE = [name for name in ENGINES if name not in NEEDS]
"""Engines that need no file."""


def connected(g, a, b):
    return int(g.end_switch[b]) in bfs(g, int(g.end_switch[a]))


@settings(max_examples=examples(150), deadline=None)
@given(graphs())
def test_minhop_is_minimal(g):
    lft = route(g, "minhop").lft
    for b in range(len(g.end_lid)):
        away = bfs(g, int(g.end_switch[b]))
        for s in range(g.n_switches):
            got, path = walk(g, lft, s, int(g.end_lid[b]))
            if s in away:
                assert got == b
                assert len(path) == away[s] + (not g.end_is_switch[b])
            else:
                assert (got, path) == ("dead", []), "a LID in another part has no route"


@settings(max_examples=examples(150), deadline=None)
@given(graphs(), st.sampled_from(["updn", "dnup"]))
def test_updown_reaches_everything_and_never_turns_up_again(g, name):
    r = route(g, name)
    for a in cas(g):
        for b in cas(g):
            if a != b and connected(g, a, b):
                assert walk(g, r.lft, int(g.end_switch[a]), int(g.end_lid[b]))[0] == b
    assert verify(g, r.lft).unreachable == sum(
        not connected(g, a, b) for a in cas(g) for b in range(len(g.end_lid)) if a != b
    )
    assert verify(g, r.lft).deadlock_free
    assert not has_cycle(dependencies(g, r.lft, switches=True)), "second opinion: plain sets"
    far = {(s, p): q for s, near in neighbours(g).items() for p, q in near}
    place = {s: (int(r.ranks[s]), int(g.switch_guid[s])) for s in range(g.n_switches)}
    for s in range(g.n_switches):
        for b in range(len(g.end_lid)):
            got, path = walk(g, r.lft, s, int(g.end_lid[b]))
            assert got == b or got == "dead"
            turns = [place[far[hop]] < place[hop[0]] for hop in path if hop in far]  # True = up
            if int(g.end_switch[b]) in legally(far, place, s):
                assert got == b and turns == sorted(turns, reverse=True), "up after down"


def legally(far, place, source):
    """Switches that links first up and then down lead to, by a plain search."""
    seen, queue = {(source, True)}, [(source, True)]
    for s, may_rise in queue:
        for (at, _), q in far.items():
            up = place[q] < place[s]
            if at == s and (may_rise or not up) and (q, up) not in seen:
                seen.add((q, up))
                queue.append((q, up))
    return {s for s, _ in seen}


@settings(max_examples=examples(60), deadline=None)
@given(graphs(lmc=2), st.sampled_from(["minhop", "updn", "dnup"]))
def test_all_lids_of_a_port_arrive(g, name):
    lft = route(g, name).lft
    for a in cas(g):
        for b in cas(g):
            if a != b and connected(g, a, b):
                assert all(walk(g, lft, int(g.end_switch[a]), lid)[0] == b for lid in lids(g, b))


def test_lids_of_a_port_spread_over_switches_before_cables():
    g = clos(leaves=2, spines=4, hosts=2, parallel=2, lmc=2)
    lft = route(g, "minhop").lft
    for a in cas(g):
        for b in cas(g):
            if g.end_switch[a] != g.end_switch[b]:
                spines = {walk(g, lft, int(g.end_switch[a]), lid)[1][1][0] for lid in lids(g, b)}
                assert len(spines) == 4


def test_lids_of_a_port_spread_over_systems_first():
    # spines 2, 3 are one chassis, 4 another: the second LID must change the chassis
    cables = [(leaf, 3 + s, 2 + s, 1 + leaf) for leaf in range(2) for s in range(3)]
    sys_guid = [1, 2, 50, 50, 60, 7, 8]
    g = wire(5, cables, [(0, 1), (1, 1)], lmc=1, sys_guid=sys_guid)
    lft = route(g, "minhop").lft
    chassis = [sys_guid[walk(g, lft, 0, lid)[1][1][0]] for lid in lids(g, 1)]
    assert sorted(chassis) == [50, 60]


def test_parallel_cables_share_the_load():
    g = clos(leaves=2, spines=1, hosts=6, parallel=3)
    lft = route(g, "minhop").lft
    other = [int(g.end_lid[b]) for b in cas(g) if g.end_switch[b] == 1]
    assert sorted(np.bincount(lft[0, other])[7:10]) == [2, 2, 2]


def test_ports_go_to_the_least_loaded_and_lowest_first():
    # one leaf of four hosts seen over three equal cables: ports 7, 8, 9, then 7 again
    g = clos(leaves=2, spines=1, hosts=6, parallel=3)
    lft = route(g, "minhop").lft
    other = [int(g.end_lid[b]) for b in cas(g) if g.end_switch[b] == 1]
    assert list(lft[0, other]) == [7, 8, 9, 7, 8, 9]


@pytest.mark.parametrize("name", ENGINES)
def test_the_same_graph_gives_the_same_bytes(name):
    first = route(kary_tree(3, 3, True), name)
    assert (route(kary_tree(3, 3, True), name).lft == first.lft).all()


@pytest.mark.parametrize("name", ENGINES)
@pytest.mark.parametrize(
    "g", [wire(1, [], [(0, 1), (0, 2)]), wire(1, [], []), wire(0, [], [])], ids=["1sw", "bare", "none"]
)
def test_tiny_fabrics(name, g):
    r = route(g, name)
    assert r.lft.shape == (g.n_switches, g.lft_size)
    assert verify(g, r.lft).ok


def test_an_unknown_engine_names_the_near_ones():
    with pytest.raises(UnknownName, match="did you mean ftree"):
        route(ring(3), "ftre")


@pytest.mark.parametrize("name", ["minhop", "updn", "dnup", "ftree"])
def test_more_hops_than_a_table_can_say_are_said(name):
    assert not any("254 hops" in n for n in route(ring(200), name).notes)
    r = route(ring(600), name)
    beyond = 600 * (600 - 1 - 2 * 254)  # 254 others on either side are near enough
    assert f"{beyond:,} pairs of switches are more than 254 hops apart" in " ".join(r.notes)
    assert verify(ring(600), r.lft).ca_ca.loop == 0


# -- roots --


def storage_on_spines(lmc=0):
    """4 leaves of 2 hosts, 3 spines; a host on the first two spines each."""
    cables = [(leaf, 3 + s, 4 + s, 1 + leaf) for leaf in range(4) for s in range(3)]
    hosts = [(leaf, 1 + h) for leaf in range(4) for h in range(2)] + [(4, 9), (5, 9)]
    return wire(7, cables, hosts, lmc=lmc)


@pytest.mark.parametrize("lmc", [0, 2])
@pytest.mark.parametrize("name", ["updn", "dnup"])
def test_cas_on_two_spines_reach_each_other(name, lmc):
    g = storage_on_spines(lmc)
    p = verify(g, route(g, name).lft)
    assert p.ok and p.ca_ca.total == 10 * 9 << lmc


def test_detours_are_said_and_proved():
    g = storage_on_spines()
    cns = tuple(int(x) for x in g.end_guid[~g.end_is_switch][:8])
    r = route(g, "ftree", RouteOptions(cn_guids=cns))
    assert r.engine == "ftree" and any("down and up" in n for n in r.notes)
    p = verify(g, r.lft)
    assert p.ok and not has_cycle(dependencies(g, r.lft))
    b = next(i for i in cas(g) if g.end_switch[i] == 5)
    assert len(walk(g, r.lft, 4, int(g.end_lid[b]))[1]) == 3, "spine, leaf, spine"


def test_updn_picks_a_root_on_a_ring_and_says_so():
    r = route(ring(4), "updn")
    assert r.engine == "updn" and len(r.roots) == 1
    assert any("OpenSM would use minhop" in note for note in r.notes)


@pytest.mark.parametrize("leaves", [4, 19, 21, 40])
def test_updn_finds_the_spines_whatever_the_guids(leaves):
    # over 20 leaves OpenSM's histogram takes leaves for roots too
    for guids in (None, np.arange(leaves + 3, 0, -1)):
        g = clos(leaves, 3, 2)
        g = (
            g
            if guids is None
            else wire(
                leaves + 3,
                [(lf, 3 + s, leaves + s, 1 + lf) for lf in range(leaves) for s in range(3)],
                [(lf, 1 + h) for lf in range(leaves) for h in range(2)],
                guid=guids,
            )
        )
        r = route(g, "updn")
        assert sorted(r.roots) == sorted(int(x) for x in g.switch_guid[leaves:])
        assert list(r.ranks) == [1] * leaves + [0] * 3


def test_given_roots_are_obeyed_also_through_a_ca_guid():
    g = ring(5)
    r = route(g, "updn", RouteOptions(root_guids=(3,)))
    assert r.roots == (3,) and list(r.ranks) == [2, 1, 0, 1, 2]
    ca = int(g.end_guid[np.flatnonzero((g.end_switch == 1) & ~g.end_is_switch)[0]])
    assert route(g, "updn", RouteOptions(root_guids=(ca,))).roots == (2,)
    assert any("ignored" in n for n in route(g, "updn", RouteOptions(root_guids=(3, 0xDEAD))).notes)


def test_each_part_of_a_split_fabric_gets_a_root():
    cables = [(0, 1, 1, 1), (1, 2, 2, 1), (3, 1, 4, 1)]
    g = wire(5, cables, [(s, 5) for s in range(5)])
    r = route(g, "updn")
    assert (r.ranks >= 0).all()
    p = verify(g, r.lft)
    assert p.ca_ca.lost == 2 * 3 * 2  # only the pairs between the parts
    assert p.ca_ca.loop == p.ca_ca.misdelivered == 0


# -- credit loops --


@pytest.mark.parametrize(
    "g", [ring(4), ring(5, 2), ring(9), torus(4, 4), torus(5, 3)], ids=["r4", "r5", "r9", "t44", "t53"]
)
def test_rings_and_tori_deadlock_under_minhop_and_not_under_updn(g):
    assert verify(g, route(g, "minhop").lft).credit_loop
    for name in ("updn", "dnup"):
        p = verify(g, route(g, name).lft)
        assert p.ok
        assert not has_cycle(dependencies(g, route(g, name).lft)), "second opinion: plain sets"


@pytest.mark.parametrize("name", ALONE)
@pytest.mark.parametrize(
    "g",
    [
        pytest.param(clos(4, 2, 3), id="clos"),
        pytest.param(clos(3, 2, 4, 2), id="parallel"),
        pytest.param(kary_tree(2, 3), id="2-ary 3"),
        pytest.param(kary_tree(3, 3, True), id="3-ary 3 doubled", marks=pytest.mark.slow),
        pytest.param(kary_tree(2, 4), id="2-ary 4"),
    ],
)
def test_trees_are_free_of_loops_under_every_engine(name, g):
    r = route(g, name)
    assert r.engine == name
    p = verify(g, r.lft)
    assert p.ok and not has_cycle(dependencies(g, r.lft))
    assert (p.hops, p.unreachable) == judge(g, r.lft)
    if name == "nue":  # what it took for one destination may bar another's shortest path
        return
    minimal = verify(g, route(g, "minhop").lft)
    assert p.hops == minimal.hops, "in a tree no engine needs a detour"
