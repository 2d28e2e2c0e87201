"""Credit loops while tables change, against all tables that stand in the switches on the way (plain Python walks)."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from softib.routing.engine import RouteOptions, route
from softib.routing.transition import transition_loop
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
