"""Packets that start on a switch: answers to polls, traps, a subnet manager there. Stock OpenSM and plain searches in Python judge."""

import numpy as np
import pytest
from hypothesis import given, settings

from softib.iba.constants import LFT_NO_ROUTE
from softib.routing.engine import route
from softib.routing.proof.verify import verify
from tests.extent import examples
from tests.routing.brute import bfs, cut_off, dependencies, has_cycle, walk
from tests.routing.engines.torus_lab import Lab
from tests.routing.fabrics import clos, kary_tree, ring, torus, wire
from tests.routing.lab import changed, graphs, irregular, parts_of
from tests.routing.stock_sm import ibsim, opensm, tables

FREE = ("updn", "dnup", "ftree", "nue")
"""Engines whose tables close no credit loop on one VL."""
LANES = ("dfsssp", "lash")


def without_cores(share, seed, cores, tree=lambda: kary_tree(3, 3, True)):
    """A tree without a share of its cables and without some of its top switches (the last rows)."""
    g = tree()
    rng = np.random.default_rng(seed)
    cables, hosts = parts_of(g)
    n = g.n_switches - cores
    return wire(n, [c for c in cables if rng.random() >= share and max(c[0], c[2]) < n], hosts)


def one_cable_less(g):
    """Without the last cable: one of a core's."""
    return changed(g, cut=[len(parts_of(g)[0]) - 1])


def dragonfly(groups, per_group):
    """Groups of switches, all cabled to all, a cable between each two groups."""
    port = [1] * (groups * per_group)

    def cable(a, b):
        port[a] += 1
        port[b] += 1
        return a, port[a] - 1, b, port[b] - 1

    cables = [
        cable(g * per_group + i, g * per_group + j) for g in range(groups) for i in range(per_group) for j in range(i)
    ]
    cables += [
        cable(a * per_group + b % per_group, b * per_group + a % per_group) for a in range(groups) for b in range(a)
    ]
    return wire(groups * per_group, cables, [(s, 100) for s in range(0, groups * per_group, 2)])


FABRICS = {
    "a tree with one cable less": lambda: one_cable_less(kary_tree(3, 3, True)),
    "a tree without 15 % of its cables and two cores": lambda: without_cores(0.15, 1, 2),
    "another": lambda: without_cores(0.15, 2, 2),
    "a director without a fifth of its cables": lambda: without_cores(0.2, 1, 0, lambda: clos(6, 4, 4)),
    "a ring with hosts at two switches": lambda: wire(7, [(i, 1, (i + 1) % 7, 2) for i in range(7)], [(0, 3), (3, 3)]),
    "torus": lambda: torus(4, 5),
    "dragonfly": lambda: dragonfly(5, 4),
    "irregular": lambda: irregular(30, 60, 30, 5),
}


@pytest.mark.parametrize("engine", [*FREE, *LANES])
@pytest.mark.parametrize("name", FABRICS)
def test_every_switch_reaches_all_that_cables_join(name, engine):
    g = FABRICS[name]()
    r = route(g, engine)
    assert cut_off(g, r.lft) == []
    if r.engine == engine and r.path_sl is None:
        assert not has_cycle(dependencies(g, r.lft, switches=True)), "packets of switches take buffers, too"
        assert verify(g, r.lft).switch_loop is None


@pytest.mark.parametrize("engine", FREE)
def test_on_a_full_tree_pairs_of_switches_count_too(engine):
    """Up*/down* alone leaves out 1,776 of them: 80 switches, 16 cores, 32 switches below them in four planes."""
    g = kary_tree(4, 3, True)
    r = route(g, engine)
    p = verify(g, r.lft)
    assert p.switch_switch.total == p.switch_switch.arrived == 80 * 79 and p.switch_ca.lost == 0
    assert p.deadlock_free and p.switch_loop is None
    minimal = verify(g, route(g, "minhop").lft)
    assert engine == "nue" or p.hops_ca == minimal.hops_ca, "CAs' packets take no detour for it"


@settings(max_examples=examples(120), deadline=None)
@given(graphs(most=8))
def test_a_gap_stays_only_where_every_neighbour_would_close_a_loop(g):
    """A path is legal if no channels wait for each other in a circle then: any gap that stays is held against all of them."""
    r = route(g, "updn")
    edges = dependencies(g, r.lft, switches=True)
    far = {
        (s, int(g.out_port[e])): int(g.peer[e]) for s in range(g.n_switches) for e in range(g.first[s], g.first[s + 1])
    }
    for s, b in cut_off(g, r.lft):
        for (at, port), q in far.items():
            got, path = walk(g, r.lft, q, int(g.end_lid[b]))
            if at == s and got == b:
                more = {k: set(v) for k, v in edges.items()}
                onward = [(*hop, 0) for hop in path if hop in far][:1]
                more.setdefault((s, port, 0), set()).update(onward)
                for hop in onward:
                    more.setdefault(hop, set())
                assert has_cycle(more), (s, b, port)


@pytest.mark.stock
@pytest.mark.parametrize("name", ["a tree with one cable less", "another"])
def test_stock_opensm_by_default_leaves_no_hole_either(name, stock, tmp_path):
    g = FABRICS[name]()
    with ibsim(stock("ibsim"), g, tmp_path) as env:
        opensm(stock("opensm"), env, tmp_path, "minhop")
    lft, theirs = tables(tmp_path, g)
    assert bfs(g, 0).keys() == set(range(g.n_switches))
    assert (lft[:, theirs.end_lid.astype(int)] != LFT_NO_ROUTE).all()
    assert (route(g, "ftree,updn").lft[:, g.end_lid.astype(int)] != LFT_NO_ROUTE).all()


@pytest.mark.parametrize("missing", [(), ((1, 2, 0),), ((2, 2, 0), (2, 3, 0))])
def test_answers_on_a_torus_keep_to_its_lanes(missing):
    lab = Lab(6, 6, 1, missing=missing)
    r = lab.routed()
    p = verify(lab.graph, r.lft, r.path_sl, r.sl2vl)
    assert p.ok and not cut_off(lab.graph, r.lft)
    assert p.switch_loop is None and p.answer_loop is None


@pytest.mark.parametrize("engine", LANES)
@pytest.mark.parametrize("name", [*FABRICS, "larger", "torus 8 x 8", "ring"])
def test_answers_take_the_sl_of_the_request(name, engine):
    """Plain walks: with each answer on its request's SL, of CAs as of switches, nothing waits for what waits for it."""
    more = {"larger": lambda: irregular(60, 90, 120, 1), "torus 8 x 8": lambda: torus(8, 8), "ring": lambda: ring(5, 2)}
    g = (FABRICS | more)[name]()
    r = route(g, engine)
    p = verify(g, r.lft, r.path_sl)
    if name == "torus 8 x 8" and engine == "dfsssp":  # both directions of its paths on one SL need more than 8 VLs
        assert p.ok and p.answer_loop is not None and "answers with the SL of the request" in r.notes[-1]
        return
    assert r.engine == engine and p.ok and p.switch_loop is None and p.answer_loop is None and not cut_off(g, r.lft)
    if g.n_switches <= 30:
        vl_of = lambda a, b: lambda s, i, o: r.sl(int(g.end_switch[a]), b)
        assert not has_cycle(dependencies(g, r.lft, vl_of, switches=True, answers=True))
