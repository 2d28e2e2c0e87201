"""What is a fat tree: OpenSM's rules said again in plain Python, and stock OpenSM itself, which logs its verdict."""

from __future__ import annotations

import re
from collections import Counter

import numpy as np
import pytest

from softib.routing.engine import RouteOptions, route
from softib.routing.proof.reach import lost_pairs
from softib.routing.proof.verify import verify
from tests.routing.brute import walk
from tests.routing.fabrics import clos, kary_tree, ring, wire
from tests.routing.lab import changed, parts_of
from tests.routing.stock_sm import ibsim, opensm


def fits(g) -> bool:
    """OpenSM's rules without a root GUID file (osm_ucast_ftree.c, by its messages): ranks from the switches farthest from
    CAs; two to eight levels; every CA on a switch of the greatest rank, two such switches at least; on each rank equal
    numbers of neighbours up and (above the leaves) down, and of cables to each."""
    cables, cas = parts_of(g)
    links = Counter()
    for a, _, b, _ in cables:
        links[a, b] += 1
        links[b, a] += 1

    near: dict[int, list[int]] = {}
    for a, b in links:
        near.setdefault(a, []).append(b)

    def ranks(start):
        rank, front = dict.fromkeys(start, 0), list(start)
        for s in front:
            for b in near.get(s, ()):
                if b not in rank:
                    rank[b] = rank[s] + 1
                    front.append(b)
        return rank

    leaves = {s for s, _ in cas}
    if len(leaves) < 2:
        return False
    height = ranks(sorted(leaves))
    top = max(height.values())
    rank = ranks([s for s in height if height[s] == top])
    most = max(rank.values())
    if len(rank) < g.n_switches or not 2 <= most + 1 <= 8 or {rank[s] for s in leaves} != {most}:
        return False
    seen: dict[tuple, set] = {}
    for s in rank:
        up = [links[s, b] for b in near[s] if rank[b] < rank[s]]
        down = [links[s, b] for b in near[s] if rank[b] > rank[s]]
        seen.setdefault((rank[s], "up"), set()).add(len(up))
        seen.setdefault((rank[s], "up cables"), set()).update(up)
        if rank[s] < most:
            seen.setdefault((rank[s], "down"), set()).add(len(down))
            seen.setdefault((rank[s], "down cables"), set()).update(down)
    return all(len(found) <= 1 for found in seen.values())


def pure(g) -> bool:
    """Does ftree take ``g`` as OpenSM's would, and not as a tree that is not pure?"""
    r = route(g, "ftree")
    return r.engine == "ftree" and not any(n.startswith("not a pure tree") for n in r.notes)


SEEDS = 120


def odd_tree(seed: int):
    """A tree with a few things that sites do to trees."""
    rng = np.random.default_rng(seed)
    base = (clos(4, 2, 3), clos(3, 3, 2, 2), kary_tree(2, 3), kary_tree(2, 3, True), kary_tree(3, 2), kary_tree(2, 4))
    g = base[int(rng.integers(len(base)))]
    n_cables = len(g.peer) // 2
    some = lambda most: rng.integers(0, most, int(rng.choice([0, 0, 0, 1, 2]))).tolist()
    return changed(
        g,
        cut=some(n_cables),
        empty=some(g.n_switches),
        hung=[(s, int(rng.integers(0, 3))) for s in some(g.n_switches)],
        hosts=some(g.n_switches),
    )


def test_what_opensms_rules_call_no_tree_is_none_here():
    verdicts = Counter()
    for seed in range(SEEDS):
        g = odd_tree(seed)
        if len({s for s, _ in parts_of(g)[1]}) < 1:
            continue
        taken, told = pure(g), fits(g)
        verdicts[taken, told] += 1
        assert told or not taken, seed
        # The other way round only what no tree connects: OpenSM takes it and leaves CAs without a way.
        if told and not taken:
            assert "no tree for all compute nodes" in " ".join(route(g, "ftree").notes), seed
    assert verdicts[True, True] > 20 and verdicts[False, False] > 50


def test_what_ftree_takes_it_connects():
    for seed in range(SEEDS):
        g = odd_tree(seed)
        r = route(g, "ftree")
        if r.engine == "ftree":
            p = verify(g, r.lft)
            assert p.unreachable == 0 and p.deadlock_free, seed


STOCK = {
    "whole": (lambda: clos(6, 3, 2), True),
    "a cable fewer": (lambda: changed(kary_tree(2, 3), cut=(5,)), False),
    "a switch without hosts below a spine": (lambda: changed(clos(6, 3, 2), hung=[(6, 0)]), False),
    "a management switch on a spine": (lambda: changed(clos(6, 3, 2), hung=[(7, 1)]), False),
    "a management switch on a core": (lambda: changed(kary_tree(2, 3), hung=[(9, 1)]), False),
    "a leaf without hosts": (lambda: changed(kary_tree(2, 3, True), empty=(0,)), False),
    "hosts at two ranks": (lambda: changed(kary_tree(2, 3), hosts=(4, 5, 6, 7)), None),
    "all hosts on one leaf": (lambda: changed(clos(3, 2, 3), empty=(1, 2)), False),
    "a leaf below one spine alone": (
        lambda: wire(4, [(0, 1, 2, 1), (1, 1, 2, 2), (2, 3, 3, 1)], [(0, 5), (1, 5)]),
        True,
    ),
    "ring": (lambda: ring(5), False),
}
"""Graph → whether OpenSM takes it (None: whatever the log says)."""


@pytest.mark.stock
@pytest.mark.parametrize("name", STOCK)
def test_stock_opensm_says_the_same(name, stock, tmp_path):
    make, expected = STOCK[name]
    g = make()
    with ibsim(stock("ibsim"), g, tmp_path) as env:
        log = opensm(stock("opensm"), env, tmp_path, "ftree")
    taken = re.findall(r"(\S+) tables configured on all switches", log)[-1] == "ftree"
    assert expected is None or taken == expected, log[-600:]
    assert fits(g) == taken, "the rules above are OpenSM's"
    assert pure(g) == taken


def test_hosts_at_two_heights_whose_counts_agree_are_no_tree():
    """Leaves and cores with hosts, and two tiers between them: all ranks and counts agree, OpenSM takes it, and no way up
    and down leads from one half to the other."""
    pod, tops = 2, 2
    cables = []
    for p in range(2):  # leaves 0-3, lower 4-7, upper 8-11, cores 12-15: a ladder of four tiers
        for a in range(pod):
            for b in range(pod):
                cables += [(2 * p + a, 1 + b, 4 + 2 * p + b, 1 + a), (8 + 2 * p + a, 1 + b, 12 + 2 * p + b, 1 + a)]
    cables += [(4 + i, 5, 8 + i, 5) for i in range(4)] + [(4 + i, 6, 8 + (i + tops) % 4, 6) for i in range(4)]
    g = wire(16, cables, [(s, 8 + h) for s in (0, 1, 2, 3, 12, 13, 14, 15) for h in range(2)])
    assert fits(g)
    r = route(g, "ftree,updn")
    assert lost_pairs(g, r.lft) == verify(g, r.lft).unreachable == 0
    assert r.engine == "updn" or verify(g, r.lft).deadlock_free


def test_a_list_takes_the_first_engine_that_reaches_every_pair():
    """ftree with one spine as root obeys, and so leaves out who hangs elsewhere: the next engine has its turn, and says so."""
    two_halves = wire(
        6, [(0, 1, 4, 1), (1, 1, 4, 2), (2, 1, 5, 1), (3, 1, 5, 2), (4, 3, 5, 3)], [(s, 5) for s in (0, 1, 2, 3)]
    )
    options = RouteOptions(root_guids=(5, 6))
    alone = route(two_halves, "ftree", options)
    assert alone.engine == "ftree"
    lost = lost_pairs(two_halves, alone.lft)
    sources = np.flatnonzero(~two_halves.end_is_switch)
    by_hand = sum(
        walk(two_halves, alone.lft, int(two_halves.end_switch[a]), int(two_halves.end_lid[b]))[0] != b
        for a in sources
        for b in range(len(two_halves.end_lid))
        if a != b
    )
    assert lost == by_hand
    chosen = route(two_halves, "ftree,minhop", options)
    assert (chosen.engine == "ftree") == (lost == 0)
    if lost:
        assert chosen.engine == "minhop" and any(f"ftree leaves {lost} pairs" in n for n in chosen.notes)


def test_parts_without_a_cable_between_them_are_nobodys_loss():
    g = wire(6, [(0, 1, 2, 1), (1, 1, 2, 2), (3, 1, 5, 1), (4, 1, 5, 2)], [(s, 5) for s in (0, 1, 3, 4)])
    assert lost_pairs(g, route(g, "minhop").lft) == 0 < verify(g, route(g, "minhop").lft).unreachable
    assert not any("without a route" in n for n in route(g, "ftree,updn").notes)


def test_a_tree_with_a_hole_keeps_its_roots():
    whole = kary_tree(4, 3, True)
    roots = route(whole, "ftree").roots
    hole = changed(whole, cut=(17,))
    assert not pure(hole)
    r = route(hole, "ftree", RouteOptions(past_roots=roots))
    assert r.engine == "ftree" and set(r.roots) == set(roots) and verify(hole, r.lft).ok
    assert any("used the top switches of the complete tree" in n for n in r.notes)
    # A hint is no order: what they do not fit is routed as if they had not been told.
    other = ring(6)
    assert route(other, "ftree", RouteOptions(past_roots=roots)).engine == "minhop"
