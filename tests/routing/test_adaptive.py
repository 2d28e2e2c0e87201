"""Adaptive choices: every mixture of them arrives, and with the tables beside them no cycle of waiting channels exists."""

from __future__ import annotations

from graphlib import CycleError, TopologicalSorter

import numpy as np
import pytest

from softib.routing.adaptive import _bends, _positions, adaptive_ports, could_deadlock
from softib.routing.engine import RouteOptions, route
from softib.routing.tables import min_hops
from tests.routing.fabrics import clos, kary_tree, ring, wire
from tests.routing.lab import irregular, parts_of


def ports_of(mask):
    return [p for p in range(256) if int(mask[p // 64]) >> p % 64 & 1]


def choices(g, routing):
    """{(switch, destination switch): egress ports}: the group where there is one, else the table's port (of any LID there)."""
    found = adaptive_ports(g, routing.ranks)
    out = {}
    for end in range(len(g.end_lid)):
        d = int(g.end_switch[end])
        for s in range(g.n_switches):
            which = int(found[s].mask_of[d])
            static = int(routing.lft[s, g.end_lid[end]])
            group = ports_of(found[s].masks[which]) if which >= 0 else []
            if s != d and static != 255:
                out.setdefault((s, d), set()).update(group, [static])
    return out


def acyclic(g, out):
    """Do links that wait for each other form no cycle? (A packet on link a → b waits for any port that b may choose.)"""
    peer = {
        (s, int(g.out_port[e])): int(g.peer[e]) for s in range(g.n_switches) for e in range(g.first[s], g.first[s + 1])
    }
    waits = {}
    for (s, d), ports in out.items():
        for p in ports:
            b = peer[s, p]
            waits.setdefault((s, p), set()).update((b, q) for q in out.get((b, d), ()) if b != d)
    try:
        return bool(list(TopologicalSorter(waits).static_order()))
    except CycleError:
        return False


@pytest.mark.parametrize("engine", ["updn", "ftree", "dnup"])
@pytest.mark.parametrize("g", [kary_tree(4, 2), kary_tree(3, 3), clos(4, 3, 2)], ids=["4-ary 2", "3-ary 3", "clos"])
def test_in_a_tree_every_choice_is_shortest_and_every_leaf_chooses_among_all_its_uplinks(g, engine):
    routing = route(g, engine, RouteOptions())
    assert routing.engine == engine and not could_deadlock(g, routing.ranks, routing.lft)
    found, hops = adaptive_ports(g, routing.ranks), min_hops(g).hops
    leaves = np.unique(g.end_switch[~g.end_is_switch])
    seen = 0
    for s in range(g.n_switches):
        peer = {int(g.out_port[e]): int(g.peer[e]) for e in range(g.first[s], g.first[s + 1])}
        for d in leaves.tolist():
            if found[s].mask_of[d] < 0:
                continue
            ports = ports_of(found[s].masks[found[s].mask_of[d]])
            shortest = [p for p, q in peer.items() if hops[q, d] == hops[s, d] - 1]
            assert sorted(ports) == sorted(shortest), "all of them, and no other"
            seen += 1
    for s in leaves.tolist():
        groups = {tuple(ports_of(m)) for m in found[s].masks[np.unique(found[s].mask_of[leaves[leaves != s]])]}
        assert max(map(len, groups)) == g.first[s + 1] - g.first[s]
    assert seen and acyclic(g, choices(g, routing))


@pytest.mark.parametrize("seed", range(12))
def test_on_any_graph_no_mixture_deadlocks_and_every_walk_arrives(seed):
    g = irregular(9, 9, 2, seed)
    routing = route(g, "updn", RouteOptions())
    rng = np.random.default_rng(seed)
    if could_deadlock(g, routing.ranks, routing.lft):  # the manager leaves adaptive routing off
        assert any("down and up" in n for n in routing.notes)
        return
    out = choices(g, routing)
    assert acyclic(g, out)
    found = adaptive_ports(g, routing.ranks)
    peer = {
        (s, int(g.out_port[e])): int(g.peer[e]) for s in range(g.n_switches) for e in range(g.first[s], g.first[s + 1])
    }
    for s, d in list(out)[:200]:
        at, steps = s, 0
        while at != d:
            which = int(found[at].mask_of[d])
            ports = ports_of(found[at].masks[which]) if which >= 0 else sorted(out[at, d])
            at, steps = peer[at, int(rng.choice(ports))], steps + 1
            assert steps <= 2 * g.n_switches


def test_a_lost_cable_of_a_tree_takes_no_choice_away_though_ftree_then_goes_up_after_a_down():
    whole = kary_tree(4, 2)
    cables, hosts = parts_of(whole)
    g = wire(whole.n_switches, cables[1:], hosts)
    known = route(whole, "ftree", RouteOptions())
    routing = route(g, "ftree", RouteOptions(past_roots=known.roots))
    assert len(_bends(g, _positions(g, routing.ranks), routing.lft)), "the case that is meant"
    assert not could_deadlock(g, routing.ranks, routing.lft) and acyclic(g, choices(g, routing))


def test_routes_that_could_wait_in_a_cycle_are_noticed():
    g = ring(6)
    routing = route(g, "minhop", RouteOptions())
    ranks = route(g, "updn", RouteOptions()).ranks
    assert could_deadlock(g, ranks, routing.lft)
