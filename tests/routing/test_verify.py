"""The proof against walks and depth-first search in plain Python, on tables that are wrong in every way."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from softib.routing.engine import route
from softib.routing.proof.credit_loops import NO_PATH
from softib.routing.proof.verify import verify
from tests.extent import examples
from tests.routing.brute import cas, dependencies, has_cycle, judge, walk
from tests.routing.fabrics import clos, kary_tree, ring, torus, wire
from tests.routing.lab import graphs


def garbage(g, seed, wrong):
    """Minhop tables with a share of entries replaced by any port number, real or not."""
    rng = np.random.default_rng(seed)
    lft = route(g, "minhop").lft.copy()
    hit = rng.random(lft.shape) < wrong
    few = int(g.switch_nports.max(initial=1)) + 2
    lft[hit] = rng.choice([*range(few), 255, 200], size=int(hit.sum()))
    return lft


def check_cycle(edges, cycle):
    """Each channel of ``cycle`` waits for the next."""
    assert all(b in edges[a] for a, b in zip(cycle, [*cycle[1:], cycle[0]], strict=True))
    assert len(set(cycle)) == len(cycle)


@settings(max_examples=examples(200), deadline=None)
@given(graphs(), st.integers(0, 9), st.sampled_from([0.0, 0.1, 0.5, 1.0]))
def test_any_table_is_judged_as_plain_walks_judge_it(g, seed, wrong):
    lft = garbage(g, seed, wrong)
    p = verify(g, lft)
    assert (p.hops, p.unreachable) == judge(g, lft)
    n, ends = len(cas(g)), len(g.end_lid)
    assert (p.ca_ca.total, p.ca_switch.total) == (n * (n - 1), n * (ends - n))
    for pairs in (p.ca_ca, p.ca_switch, p.switch_switch):
        assert pairs.arrived + pairs.dead_end + pairs.loop + pairs.misdelivered == pairs.total
    edges, of_all = dependencies(g, lft), dependencies(g, lft, switches=True)
    assert (p.credit_loop is not None) == has_cycle(edges)
    assert (p.credit_loop is not None or p.switch_loop is not None) == has_cycle(of_all)
    assert (p.channels, p.dependencies) == (len(of_all), sum(map(len, of_all.values())))
    for loop, of in ((p.credit_loop, edges), (p.switch_loop, of_all)):
        if loop:
            check_cycle(of, loop)
            assert len(loop) == shortest(of)


def shortest(edges):
    """Length of a shortest cycle: breadth first from every node."""
    best = len(edges) + 1
    for root in edges:
        dist, queue = {root: 0}, [root]
        for node in queue:
            for nxt in edges[node]:
                if nxt == root:
                    best = min(best, dist[node] + 1)
                elif nxt not in dist:
                    dist[nxt] = dist[node] + 1
                    queue.append(nxt)
    return best


@settings(max_examples=examples(100), deadline=None)
@given(graphs(), st.integers(0, 9), st.sampled_from([0.0, 0.2]), st.sampled_from([1, 2, 4]), st.booleans())
def test_paths_through_sls_and_vls_are_judged_as_plain_walks_judge_them(g, seed, wrong, data_vls, full):
    rng = np.random.default_rng(seed)
    lft = garbage(g, seed, wrong)
    ends = len(g.end_lid)
    path_sl = rng.choice([0, 1, 2, 3, NO_PATH], (ends, ends)).astype(np.uint8)
    ports = int(g.switch_nports.max(initial=0)) + 1
    if full:
        sl2vl = rng.integers(0, data_vls, (g.n_switches, ports, ports, 16)).astype(np.uint8)
        vl_of = lambda a, b: lambda s, i, o: int(sl2vl[s, i, o, path_sl[a, b]])
    else:
        sl2vl = None
        vl_of = lambda a, b: lambda s, i, o: int(path_sl[a, b]) % data_vls
    p = verify(g, lft, path_sl, sl2vl, data_vls)
    told = lambda a, b: path_sl[a, b] != NO_PATH
    edges = dependencies(g, lft, vl_of, told, switches=True, answers=True)
    # A cycle that only answers on the SL of the request, or packets of switches make stands apart; with several SLs, one of packets to their own LIDs, too.
    to_cas = lambda a, b: told(a, b) and not (g.end_is_switch[a] or g.end_is_switch[b])
    assert any(loop is not None for loop in (p.credit_loop, p.answer_loop, p.switch_loop)) == has_cycle(edges)
    if len(np.unique(path_sl[path_sl != NO_PATH])) > 1:
        assert (p.credit_loop is not None) == has_cycle(dependencies(g, lft, vl_of, to_cas))
    else:
        assert (p.credit_loop is not None) == has_cycle(dependencies(g, lft, vl_of, told))
    if p.credit_loop is None:
        assert (p.answer_loop is not None) == has_cycle(dependencies(g, lft, vl_of, to_cas, answers=True))
    assert (p.channels, p.dependencies) == (len(edges), sum(map(len, edges.values())))
    for loop in (p.credit_loop, p.answer_loop, p.switch_loop):
        if loop:
            check_cycle(edges, loop)
    assert (p.hops, p.unreachable) == judge(g, lft)


def test_answers_on_the_sl_of_the_request_are_followed_too():
    """A ring of eight, half round up from switch 0 and down from switch 4: SLs by direction (VL 1 over the dateline) are free of loops, as Dally and Seitz have it.
    A connection by the connection manager from 4 to 0 answers on VL 0 over the dateline, and closes the ring."""
    graph = ring(8)
    lft = np.full((8, graph.lft_size), 255, np.uint8)
    sl = np.zeros((8, len(graph.end_lid)), np.uint8)
    for end, (t, lid) in enumerate(zip(graph.end_switch, graph.end_lid, strict=True)):
        for s in range(8):
            up = (t - s) % 8
            goes_up = up < 4 or (up == 4 and s % 2 == 0)
            lft[s, lid] = graph.end_port[end] if s == t else (1 if goes_up else 2)
            sl[s, end] = s != t and (t < s) == goes_up
    proof = verify(graph, lft, sl)
    assert proof.credit_loop is None and proof.answer_loop is not None
    assert verify(graph, lft, sl & 0).credit_loop is not None


@settings(max_examples=examples(40), deadline=None)
@given(graphs(), st.integers(0, 9))
def test_sls_by_the_sources_switch_are_those_of_all_its_cas(g, seed):
    rng = np.random.default_rng(seed)
    by_switch = rng.choice([0, 1, 2, 3, NO_PATH], (g.n_switches, len(g.end_lid))).astype(np.uint8)
    sl2vl = rng.integers(0, 4, (g.n_switches, 1, int(g.switch_nports.max(initial=0)) + 1, 16)).astype(np.uint8)
    lft = garbage(g, seed, 0.1)
    for table in (None, sl2vl):
        a, b = verify(g, lft, by_switch, table, 3), verify(g, lft, by_switch[g.end_switch], table, 3)
        assert a == b
        one, same = by_switch[:1], np.repeat(by_switch[:1], g.n_switches, axis=0)
        assert verify(g, lft, one, table, 3) == verify(g, lft, same, table, 3)


def test_a_ring_shows_its_four_channels():
    g = ring(4)
    p = verify(g, route(g, "minhop").lft)
    assert len(p.credit_loop) == 4
    assert [s for s, _, _ in p.credit_loop] in ([0, 1, 2, 3], [0, 3, 2, 1])
    assert p.unreachable == 0 and not p.ok


def test_a_second_vl_breaks_the_ring():
    """Layers (Skeie et al.'s LASH in small): paths that cross the cable between switches 5 and 0 go on VL 1.

    Each layer then lacks a dependency of the ring: VL 0 never crosses that cable, and no minimal path of VL 1 gets
    from one side of it round to the other.
    """
    g = ring(6)
    lft = route(g, "minhop").lft
    assert len(verify(g, lft).credit_loop) == 6
    ends = len(g.end_lid)
    path_sl = np.zeros((ends, ends), np.uint8)
    for a in cas(g):
        for b in range(ends):
            path = walk(g, lft, int(g.end_switch[a]), int(g.end_lid[b]))[1]
            path_sl[a, b] = 3 * ((5, 1) in path or (0, 2) in path)
    sl2vl = np.zeros(16, np.uint8)
    assert verify(g, lft, path_sl, sl2vl, 2).credit_loop, "both SLs on one VL"
    sl2vl[3] = 1
    p = verify(g, lft, path_sl, sl2vl, 2)
    assert p.credit_loop is None and p.vls == 2 and p.ok
    assert verify(g, lft, path_sl, None, 4).credit_loop is None, "VL = SL mod data VLs"
    assert verify(g, lft, path_sl, None, 3).credit_loop, "SL 3 is VL 0 again"


def test_an_sl_without_a_vl_loses_the_packets():
    g = clos(2, 1, 2)
    lft = route(g, "minhop").lft
    ends = len(g.end_lid)
    path_sl = np.zeros((ends, ends), np.uint8)
    a, b = cas(g)[0], cas(g)[-1]
    path_sl[a, b] = 5
    sl2vl = np.arange(16, dtype=np.uint8) % 4
    sl2vl[5] = 15
    p = verify(g, lft, path_sl, sl2vl, 4)
    assert (p.ca_ca.dropped, p.unreachable) == (1, 1) and p.deadlock_free
    assert verify(g, lft, path_sl, np.tile(sl2vl, (3, 1)), 4).ca_ca.dropped == 1


@settings(max_examples=examples(100), deadline=None)
@given(graphs(), st.integers(0, 9), st.sampled_from([1, 2]))
def test_pairs_that_an_sl2vl_entry_drops_do_not_arrive_wherever_it_is(g, seed, data_vls):
    """Some entries name no VL: on the way, on the last link to a CA, or on a way that ends nowhere anyway."""
    rng = np.random.default_rng(seed)
    lft = garbage(g, seed, 0.1)
    ends, ports = len(g.end_lid), int(g.switch_nports.max(initial=0)) + 1
    path_sl = rng.integers(0, 3, (ends, ends)).astype(np.uint8)
    sl2vl = rng.integers(0, data_vls, (g.n_switches, ports, ports, 16)).astype(np.uint8)
    sl2vl[rng.random(sl2vl.shape) < 0.2] = 15
    far = {
        (s, int(g.out_port[e])): int(g.peer_port[e])
        for s in range(g.n_switches)
        for e in range(g.first[s], g.first[s + 1])
    }
    hops, lost = {}, 0
    for a in cas(g):
        for b in range(ends):
            if a == b:
                continue
            got, path = walk(g, lft, int(g.end_switch[a]), int(g.end_lid[b]))
            came, arrives = int(g.end_port[a]), got == b
            for s, port in path:
                arrives &= sl2vl[s, came, port, path_sl[a, b]] < data_vls
                came = far.get((s, port))
            if arrives:
                hops[len(path)] = hops.get(len(path), 0) + 1
            lost += not arrives
    p = verify(g, lft, path_sl, sl2vl, data_vls)
    assert (p.hops, p.unreachable) == (hops, lost)
    assert sum(p.hops_ca.values()) == p.ca_ca.arrived


def test_a_forwarding_loop_is_a_credit_loop():
    g = wire(2, [(0, 1, 1, 1)], [(0, 2), (1, 2)])
    lft = route(g, "minhop").lft.copy()
    lft[1, 2] = 1  # switch 1 sends its own host's LID back
    p = verify(g, lft)
    assert p.ca_ca.loop == 1 and len(p.credit_loop) == 2
    assert p.failures[0].what == "loop" and p.failures[0].lid == 2


def test_ports_that_lead_nowhere():
    g = wire(2, [(0, 1, 1, 1)], [(0, 2), (0, 3), (1, 2)])
    good = route(g, "minhop").lft
    for port, what in (
        (0, "delivered to the wrong port"),
        (3, "delivered to the wrong port"),
        (9, "dead end"),
        (254, "dead end"),
        (255, "dead end"),
    ):
        lft = good.copy()
        lft[0, 1] = port
        p = verify(g, lft)
        assert (p.ca_ca.lost, p.ca_ca.misdelivered) == (2, 2 * (what != "dead end"))
        assert {f.what for f in p.failures if f.kind == "CA→CA"} == {what}


def test_a_table_shorter_than_the_lids_has_no_route_beyond():
    g = wire(2, [(0, 1, 1, 1)], [(0, 2), (1, 2)], lid=[1, 500, 2, 3])
    lft = route(g, "minhop").lft
    assert verify(g, lft).ok
    assert verify(g, lft[:, :64]).ca_ca.dead_end == 1


def test_arrays_of_other_shapes_are_refused_in_one_line():
    g = ring(3)
    lft = route(g, "minhop").lft
    for args in ((lft[:2],), (lft, np.zeros((2, 2), np.uint8)), (lft, None, np.zeros((5, 3), np.uint8))):
        with pytest.raises(ValueError, match="; use "):
            verify(g, *args)


@pytest.mark.parametrize("name", ["minhop", "updn", "ftree"])
def test_every_pair_of_a_large_tree_is_counted(name):
    """3 levels of 16-port switches: 1,024 hosts. Hops from the definition of the tree: 8 on a leaf, 64 in a pod."""
    g = kary_tree(8, 3, True)
    p = verify(g, route(g, name).lft)
    assert p.hops_ca == {1: 1024 * 7, 3: 1024 * 56, 5: 1024 * 960}
    assert p.ok


def test_a_torus_cycle_is_a_shortest_one():
    g = torus(5, 4)
    p = verify(g, route(g, "minhop").lft)
    assert len(p.credit_loop) == 4
