"""Credit loops while tables change, against all tables that stand in the switches on the way (plain Python walks)."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from softib.routing.engine import RouteOptions, route
from softib.routing.proof.credit_loops import has_credit_loop
from softib.routing.proof.verify import verify
from softib.routing.transition.transition import SlUse, sl_masks, transition_loop, transition_stages
from softib.sm.tables.lft_order import LftUpdate
from tests.routing.brute import cas, lids, neighbours, walk
from tests.routing.engines.torus_lab import Lab
from tests.routing.fabrics import wire
from tests.routing.lab import irregular


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
        which = update.next_round()
        for i in rng.permutation(len(which)).tolist():
            switch, block = divmod(int(which[i]), update.blocks)
            held[switch, 64 * block : 64 * (block + 1)] = update.images[which[i]]
            yield held


@pytest.mark.parametrize("n", [4, 5, 6])
def test_what_can_arise_is_known_before(n):
    """updn from one root, then from another: neither loops; both together may."""
    g, seen = ring(n, [(0, 2)] if n == 6 else ()), set()
    rng = np.random.default_rng(n)
    for first in range(n):
        for second in range(n):
            old, new = (
                np.ascontiguousarray(route(g, "updn", RouteOptions(root_guids=(int(g.switch_guid[r]),))).lft)
                for r in (first, second)
            )
            assert not has_credit_loop(g, old) and not has_credit_loop(g, new)
            real = waits(g, old) | waits(g, new)
            for table in on_the_way(g, old, new, rng):
                real |= waits(g, table)
            loop = transition_loop(g, old, new)
            assert loop is not None or not cyclic(real), (first, second)
            if loop is not None:
                peer = {(s, p): t for s, near in neighbours(g).items() for p, t in near}
                assert all(
                    peer[a[:2]] == b[0] and a[2] == 0 for a, b in zip(loop, [*loop[1:], loop[0]], strict=True)
                ), "a cycle of cables"
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
        which = update.next_round()
        for i in rng.permutation(len(which)).tolist():
            switch, block = divmod(int(which[i]), update.blocks)
            held[switch, 64 * block : 64 * (block + 1)] = update.images[which[i]]
            hold = hold | waits(g, held)
            broken |= cyclic(hold)
    assert (held == new).all()
    return broken


def waits_on_vls(g, lft, sls):
    """(channel, channel) pairs, (switch, port, VL) each, of packets between two hosts; ``sls[source switch, end]``: masks of SLs, SL k on VL k."""
    links, found = {(s, p) for s, near in neighbours(g).items() for p, _ in near}, set()
    for a in cas(g):
        for b in cas(g):
            mask = int(sls[g.end_switch[a], b]) if a != b else 0
            for lid in lids(g, b) if mask else ():
                hops = [h for h in walk(g, lft, int(g.end_switch[a]), lid)[1] if h in links]
                for vl in (k for k in range(16) if mask >> k & 1):
                    found.update(pairwise([(*h, vl) for h in hops]))
    return found


def arises(g, old, new, stages, use, rng):
    """Does a cycle arise on the way? After every Set packets of old SLs follow what stands in the switches; at the end those of new SLs too."""
    update = LftUpdate(g, old.copy(), new, np.ones(len(old), bool), stages.stage)
    held, hold, broken = old.copy(), waits_on_vls(g, old, use.before), False
    while not update.over:
        if update.drains:
            hold = waits_on_vls(g, held, use.before)
        which = update.next_round()
        for i in rng.permutation(len(which)).tolist():
            switch, block = divmod(int(which[i]), update.blocks)
            held[switch, 64 * block : 64 * (block + 1)] = update.images[which[i]]
            hold = hold | waits_on_vls(g, held, use.before)
            broken |= cyclic(hold)
    return broken or cyclic(hold | waits_on_vls(g, new, use.after))


def laned(g, engine, data_vls=4):
    """Tables of an engine that gives paths SLs, and masks of them."""
    r = route(g, engine, RouteOptions(data_vls=data_vls, nue_max_num_vls=2))
    every = np.zeros((g.n_switches, len(g.end_lid)), np.uint8)
    return np.ascontiguousarray(r.lft), sl_masks(g, every if r.path_sl is None else r.path_sl), r.engine == engine


@pytest.mark.parametrize("seed", range(8))
def test_no_cycle_arises_where_paths_have_sls(seed):
    """Engines that break cycles by SLs, before and after a cable is gone, or one after the other: senders keep their SLs, on the new tables too."""
    rng, seen = np.random.default_rng(seed), []
    g = irregular(5 + seed % 3, 3 + seed % 4, 8, seed) if seed % 2 else ring(5 + seed % 3, [(0, 2)] if seed > 3 else ())
    for first, second in (
        ("dfsssp", "dfsssp"),
        ("lash", "lash"),
        ("dfsssp", "lash"),
        ("updn", "lash"),
        ("nue", "dfsssp"),
    ):
        for h in (g, failing(g, rng)):
            (old, before, fine), (new, fresh, also) = laned(g, first), laned(h, second)
            if not fine or not also or old.shape != new.shape:
                continue
            use = SlUse(before, fresh, np.arange(16, dtype=np.uint8))
            stages = transition_stages(h, old, new, use)
            cut = waits_on_vls(h, old, before)
            if stages is None:
                assert cyclic(cut) or cyclic(waits_on_vls(h, new, fresh))
                continue
            real = arises(h, old, new, stages, use, rng)
            assert stages.left or not real, (first, second)
            together = transition_loop(h, old, new, use)
            assert together is not None or not (stages.left or stages.count > 1), "who can go at once goes at once"
            kept = cyclic(waits_on_vls(h, new, use.after))
            assert stages.left or not kept, "path records that senders kept are thought of"
            seen.append((together is not None, stages.count, stages.left > 0, real))
    assert seen
    print(sorted(set(seen)))


def test_one_vl_is_a_case_of_several():
    """Masks of one SL for every pair, and the plain call: the same stages."""
    rng = np.random.default_rng(5)
    g = ring(6, [(0, 3)])
    for _ in range(8):
        old, new = both(g, g, rng.integers(6, size=2))
        one = np.ones((g.n_switches, len(g.end_lid)), np.uint16)
        plain, masked = transition_stages(g, old, new), transition_stages(g, old, new, SlUse(one, one, np.arange(16)))
        assert plain.count == masked.count and (plain.stage == masked.stage).all()
        assert transition_loop(g, old, new) == transition_loop(g, old, new, SlUse(one, one, np.arange(16)))


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
            which = update.next_round()
            update.lost(which[:1])
            later = stages.stage[: new.shape[1]] != 1
            while not update.over:
                update.next_round()
            assert (update.held[:, later] == old[:, later]).all()
            return
    raise AssertionError("no change here has stages")


@pytest.mark.parametrize("engine", ["torus-2QoS", "dfsssp", "lash", "nue"])
def test_tables_that_stay_loop_where_the_proof_says_so(engine):
    """By maps of VLs that depend on input and output port (torus-2QoS), and with all SLs on one VL, where the ring of a torus closes."""
    lab = Lab(5, 5, 1, hosts=1)
    g = lab.graph
    r = route(g, engine, RouteOptions(torus_config=lab.config(), nue_max_num_vls=2))
    assert r.engine == engine
    sl2vl = np.arange(16, dtype=np.uint8) % 8 if r.sl2vl is None else np.asarray(r.sl2vl)
    every = np.zeros((g.n_switches, len(g.end_lid)), np.uint8) if r.path_sl is None else r.path_sl
    masks = sl_masks(g, every)
    for table in (sl2vl, np.zeros(16, np.uint8)):
        proof = verify(g, r.lft, every, table)
        stages = transition_stages(g, r.lft, r.lft, SlUse(masks, masks, table))
        assert (stages is None) == (proof.credit_loop is not None)
        assert stages is None or (stages.count == 0 and not stages.stage.any())
    assert proof.credit_loop is not None, "on one VL it loops"
