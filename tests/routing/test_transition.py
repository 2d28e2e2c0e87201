"""Credit loops while tables change, against all tables that stand in the switches on the way (plain Python walks)."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from softib.routing.engine import RouteOptions, route
from softib.routing.transition import transition_loop, transition_stages
from softib.routing.verify import has_credit_loop
from softib.sm.lft_order import LftUpdate
from tests.routing.brute import cas, lids, neighbours, walk
from tests.routing.fabrics import wire


def ring(n: int, chords=()):
    free = [1] * n

    def port(s):
        free[s] += 1
        return free[s] - 1

    ends = [(s, (s + 1) % n) for s in range(n)] + list(chords)
    cables = [(a, port(a), b, port(b)) for a, b in ends]
    return wire(n, cables, [(s, port(s)) for s in range(n)])


def waits(g, lft) -> set[tuple[tuple[int, int], tuple[int, int]]]:
    """(link, link) pairs of which a packet between two hosts holds one and wants the other."""
    links, found = {(s, p) for s, near in neighbours(g).items() for p, _ in near}, set()
    for a in cas(g):
        for b in cas(g):
            for lid in lids(g, b) if a != b else ():
                hops = [h for h in walk(g, lft, int(g.end_switch[a]), lid)[1] if h in links]
                found.update(pairwise(hops))
    return found


def cyclic(pairs) -> bool:
    after: dict = {}
    for a, b in pairs:
        after.setdefault(a, set()).add(b)
    while True:
        idle = [a for a, bs in after.items() if not any(b in after for b in bs)]
        if not idle:
            return bool(after)
        for a in idle:
            del after[a]


def on_the_way(g, old, new, rng):
    """Every table that stands while the rounds are sent, one Set after the other in any order within a round."""
    update, held = LftUpdate(g, old.copy(), new, np.ones(len(old), bool)), old.copy()
    while not update.over:
        which, image = update.next_round()
        for i in rng.permutation(len(which)).tolist():
            switch, block = divmod(int(which[i]), update.blocks)
            held[switch, 64 * block : 64 * (block + 1)] = image[i]
            yield held


@pytest.mark.parametrize("n", [4, 5, 6])
def test_what_can_arise_is_known_before(n):
    """updn from one root, then from another: neither loops; both together may."""
    g, seen = ring(n, [(0, 2)] if n == 6 else ()), set()
    rng = np.random.default_rng(n)
    for first in range(n):
        for second in range(n):
            old, new = (
                np.ascontiguousarray(route(g, "updn", RouteOptions(root_guids=(int(g.switch_guid[r]),))).lft) for r in (first, second)
            )  # fmt: skip
            assert not has_credit_loop(g, old) and not has_credit_loop(g, new)
            real = waits(g, old) | waits(g, new)
            for table in on_the_way(g, old, new, rng):
                real |= waits(g, table)
            loop = transition_loop(g, old, new)
            assert loop is not None or not cyclic(real), (first, second)
            if loop is not None:
                peer = {(s, p): t for s, near in neighbours(g).items() for p, t in near}
                assert all(peer[a] == b[0] for a, b in zip(loop, [*loop[1:], loop[0]], strict=True)), (
                    "a cycle of cables"
                )
            seen.add((loop is not None, cyclic(real)))
    assert (True, True) in seen and (False, False) in seen, "the test saw both kinds"


def test_the_same_tables_and_those_that_loop_by_themselves_are_not_the_changes_fault():
    g = ring(4)
    old = np.ascontiguousarray(route(g, "updn", RouteOptions(root_guids=(int(g.switch_guid[0]),))).lft)
    assert transition_loop(g, old, old) is None
    loops = np.ascontiguousarray(route(g, "minhop", RouteOptions()).lft)
    if has_credit_loop(g, loops):
        assert transition_loop(g, old, loops) is None and transition_loop(g, loops, old) is None


def failing(g, rng):
    """The same graph with one cable less; ports and LIDs stay."""
    cables = [
        (s, p, t, int(g.peer_port[e]))
        for s in range(g.n_switches)
        for e in range(g.first[s], g.first[s + 1])
        for p, t in [(int(g.out_port[e]), int(g.peer[e]))]
        if (s, p) < (t, int(g.peer_port[e]))
    ]
    cables.pop(int(rng.integers(len(cables))))
    hosts = [(int(g.end_switch[i]), int(g.end_port[i])) for i in cas(g)]
    return wire(g.n_switches, cables, hosts)


def in_stages(g, old, new, stages, discard, rng):
    """Cycles that could arise: after every single Set, what stands in the switches together with all that stood since the packets of the stage before drained."""
    update = LftUpdate(g, old.copy(), new, np.ones(len(old), bool), stages.stage, discard)
    held, hold, broken = old.copy(), waits(g, old), False
    while not update.over:
        if update.drains:
            hold = waits(g, held)
        which, image = update.next_round()
        for i in rng.permutation(len(which)).tolist():
            switch, block = divmod(int(which[i]), update.blocks)
            held[switch, 64 * block : 64 * (block + 1)] = image[i]
            hold = hold | waits(g, held)
            broken |= cyclic(hold)
    assert (held == new).all()
    return broken


def both(g, h, roots):
    """Tables of updn from two roots, the second on the damaged graph ``h``."""
    tables = [
        route(x, "updn", RouteOptions(root_guids=(int(x.switch_guid[r]),))).lft
        for x, r in zip((g, h), roots, strict=True)
    ]
    return [np.ascontiguousarray(t) for t in tables]


@pytest.mark.parametrize("seed", range(6))
def test_no_cycle_arises_where_all_lids_find_a_stage(seed):
    """Another root, another cable: what is said to be free of credit loops is so after every single Set; discarding makes the rest so."""
    rng = np.random.default_rng(seed)
    n = 4 + seed % 3
    g, seen = ring(n, [(0, 2), (1, 3)] if seed % 2 else ()), set()
    for _ in range(6):
        h = failing(g, rng) if seed % 2 and rng.random() < 0.5 else g
        old, new = both(g, h, rng.integers(n, size=2))
        stages = transition_stages(h, old, new)
        if stages is None:  # the tables before loop over the cables that are left
            continue
        together = transition_loop(h, old, new) is None
        assert not (together and (stages.left or stages.count > 1)), "who can go at once goes at once"
        assert stages.left or not in_stages(h, old, new, stages, False, rng)
        assert not in_stages(h, old, new, stages, True, rng), "without the packets of those that find no stage"
        changed = (old != new).any(axis=0)
        assert ((stages.stage != 0) <= changed).all()
        seen.add((together, stages.count > 1, stages.left > 0))
    assert seen


def test_stages_do_what_one_step_cannot():
    """A ring whose root moves by one: all destinations at once can close a cycle, in stages none arises."""
    staged = 0
    for n in (4, 5, 6):
        g = ring(n)
        for first in range(n):
            for second in range(n):
                old, new = both(g, g, (first, second))
                stages = transition_stages(g, old, new)
                assert stages is not None
                if stages.count > 1 and not stages.left:
                    staged += 1
                    assert transition_loop(g, old, new) is not None
                    assert not in_stages(g, old, new, stages, False, np.random.default_rng(first))
    assert staged


def test_a_lost_set_keeps_later_stages_back():
    g = ring(5)
    for first in range(5):
        for second in range(5):
            old, new = both(g, g, (first, second))
            stages = transition_stages(g, old, new)
            if stages.count < 2 and not stages.left:
                continue
            update = LftUpdate(g, old.copy(), new, np.ones(len(old), bool), stages.stage)
            which, _ = update.next_round()
            update.lost(which[:1])
            later = stages.stage[: new.shape[1]] != 1
            while not update.over:
                update.next_round()
            assert (update.held[:, later] == old[:, later]).all()
            return
    raise AssertionError("no change here has stages")
