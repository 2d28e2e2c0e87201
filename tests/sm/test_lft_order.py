"""Forwarding tables change without a loop on the way: the law is checked after every single MAD, in random order within a round.

For each destination: no switch's packets meet a loop that neither the old nor the new tables have, and a switch that reaches it with the old
tables and with the new ones reaches it at every moment.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from softib.agents.plane import AgentPlane
from softib.fabric.topologies.registry import generate
from softib.iba.constants import LFT_BLOCK, SmpAttr
from softib.iba.smp import MadHeader
from softib.routing.engine import RouteOptions, route
from softib.routing.graph import SwitchGraph
from softib.scenario.bring_up import bring_up
from softib.scenario.graph_view import graph_of
from softib.sm.config import SmConfig
from softib.sm.options.softib_options import ChangeConfig
from softib.sm.subnet_manager import SubnetManager
from softib.sm.tables.lft_order import LftUpdate, _next_switch

ARRIVES, GAP, LOOP = 1, 2, 3


def outcome(lft: np.ndarray, next_switch: np.ndarray, home: np.ndarray, lids: np.ndarray) -> np.ndarray:
    """uint8[switches, lids]: what becomes of a packet for each LID that starts at each switch. ``home[lid]`` is the destination's switch."""
    n = len(lft)
    at = np.repeat(np.arange(n)[:, None], len(lids), axis=1)
    result = np.zeros((n, len(lids)), np.uint8)
    for _ in range(n + 1):
        arrived = (at == home[lids][None, :]) & (result == 0)
        result[arrived] = ARRIVES
        onward = next_switch[at, lft[at, lids[None, :]]]
        result[(onward < 0) & (result == 0)] = GAP
        at = np.where(result == 0, onward, at)
    result[result == 0] = LOOP
    return result


def home_of(graph: SwitchGraph, width: int) -> np.ndarray:
    home = np.full(width, -1, np.int64)
    home[graph.end_lid] = graph.end_switch
    return home


def walk(
    graph: SwitchGraph, old: np.ndarray, new: np.ndarray, seed: int, lose: float = 0.0, known: np.ndarray | None = None
) -> int:
    """Carry out the update a MAD at a time; returns the rounds."""
    rng = np.random.default_rng(seed)
    next_switch, home = _next_switch(graph), home_of(graph, new.shape[1])
    lids = np.sort(graph.end_lid.astype(np.int64))
    was, will = outcome(old, next_switch, home, lids), outcome(new, next_switch, home, lids)
    assert (was != LOOP).all() and (will != LOOP).all()
    keeps = (was == ARRIVES) & (will == ARRIVES)
    update = LftUpdate(graph, old.copy(), new, np.ones(len(new), bool) if known is None else known)
    now, count = old.copy(), 0
    while not update.over:
        which = update.next_round()
        count += 1
        for i in rng.permutation(len(which)).tolist():
            if rng.random() < lose:  # nobody answers: it was done, or not
                update.lost(which[i : i + 1])
                if rng.random() < 0.5:
                    continue
            s, block = divmod(int(which[i]), update.blocks)
            now[s, block * LFT_BLOCK : (block + 1) * LFT_BLOCK] = update.images[which[i]]
            here = lids[lids // LFT_BLOCK == block]
            state = outcome(now, next_switch, home, here)
            assert (state != LOOP).all(), (count, s, block)
            assert (state[keeps[:, lids // LFT_BLOCK == block]] == ARRIVES).all(), (count, s, block)
    if not lose:
        assert (now == new).all()
        assert (update.held == new).all()
    return count


def tables(kind: str, **spec) -> tuple[SwitchGraph, dict[str, np.ndarray]]:
    """A graph, and tables of several engines and roots for it."""
    fabric = generate(kind, **spec)
    bring_up(fabric, "minhop")
    graph = graph_of(fabric)
    out = {"minhop": route(graph, "minhop").lft}
    for k, root in enumerate((0, graph.n_switches // 2, graph.n_switches - 1)):
        options = replace(RouteOptions(), root_guids=(int(graph.switch_guid[root]),))
        out[f"updn-{k}"] = route(graph, "updn", options).lft
    return graph, {name: np.ascontiguousarray(lft[:, : graph.lft_size]) for name, lft in out.items()}


FABRICS = [
    ("torus", {"dims": [4, 4], "hosts_per_switch": 2}),
    ("fat-tree", {"radix": 8, "levels": 2}),
    ("ring", {"switches": 7, "hosts_per_switch": 3}),
]


@pytest.mark.parametrize(("kind", "spec"), FABRICS)
def test_from_any_tables_to_any_others(kind, spec):
    graph, lfts = tables(kind, **spec)
    most = 0
    for a, old in lfts.items():
        for b, new in lfts.items():
            if a != b:
                most = max(most, walk(graph, old, new, seed=len(a) + 7 * len(b)))
    assert most > 1 or kind == "fat-tree", "these changes do take rounds"


def test_all_at_once_would_loop():
    """The law above can fail: the same changes in one round do make loops."""
    graph, lfts = tables("ring", switches=7, hosts_per_switch=3)
    old, new = lfts["updn-0"], lfts["updn-2"]
    next_switch, home = _next_switch(graph), home_of(graph, new.shape[1])
    lids = np.sort(graph.end_lid.astype(np.int64))
    loops = 0
    for first in range(graph.n_switches):
        now = old.copy()
        now[first] = new[first]
        loops += int((outcome(now, next_switch, home, lids) == LOOP).sum())
    assert loops


@pytest.mark.parametrize("seed", range(8))
def test_lost_sets_make_no_loop_either(seed):
    graph, lfts = tables("torus", dims=[4, 4], hosts_per_switch=2)
    names = sorted(lfts)
    walk(graph, lfts[names[seed % 4]], lfts[names[(seed + 1) % 4]], seed, lose=0.1)


def test_switches_that_lost_their_tables_are_written_whole():
    graph, lfts = tables("fat-tree", radix=8, levels=2)
    old, new = lfts["minhop"].copy(), lfts["updn-0"]
    known = np.ones(len(old), bool)
    known[[2, 5]] = False
    old[[2, 5]] = 255
    walk(graph, old, new, 1, known=known)
    none = LftUpdate(graph, np.full_like(old, 255), new, np.zeros(len(old), bool))
    which = none.next_round()
    assert len(which) == len(new) * none.blocks and none.over
    assert (none.images[which].reshape(new.shape) == new).all()


@pytest.mark.parametrize("seed", range(4))
def test_a_manager_changes_tables_of_a_live_subnet_without_a_loop(seed):
    """A cable is pulled, or comes back. Each MAD of an outbox is carried alone, in random order; after each the tables are walked."""
    rng = np.random.default_rng(seed)
    fabric = generate("fat-tree", radix=8, levels=2)
    b = bring_up(fabric, "updn")
    sm, plane = b.sm, b.plane
    between = np.flatnonzero(
        fabric.linked
        & fabric.is_switch[fabric.port_node]
        & fabric.is_switch[fabric.port_node[np.maximum(fabric.port_peer, 0)]]
    )
    cable, now_ps = int(rng.choice(between)), b.now_ps
    for up in (False, True):
        plane.set_link(cable, up, now_ps)
        before = fabric.lft[:, : b.graph.lft_size].copy()
        changed = run(sm, plane, b.port, rng, Walk(plane, b.graph, before))
        assert changed > 0


class Walk:
    """After a Set: no loop, and every pair of hosts that ``before`` brings together over the cables that are up still is."""

    def __init__(self, plane: AgentPlane, graph: SwitchGraph, before: np.ndarray):
        self.fabric, self.graph = plane.fabric, graph
        ends = np.flatnonzero(~graph.end_is_switch)
        self.leaves, self.lids = np.unique(graph.end_switch[ends]), graph.end_lid[ends].astype(np.int64)
        self.next_switch, self.home = _next_switch(graph_of(plane.fabric)), home_of(graph, graph.lft_size)
        self.arrives = outcome(before, self.next_switch, self.home, self.lids)[self.leaves] == ARRIVES

    def __call__(self) -> None:
        state = outcome(self.fabric.lft[:, : self.graph.lft_size], self.next_switch, self.home, self.lids)
        assert (state != LOOP).all()
        assert (state[self.leaves][self.arrives] == ARRIVES).all(), "what the change does not concern runs on"


def run(sm: SubnetManager, plane: AgentPlane, port: int, rng: np.random.Generator, look: Walk) -> int:
    """A sweep whose MADs are carried one by one; ``look`` is called after each Set of a forwarding table."""
    from softib.mad.batch import MadBatch

    sm.request_sweep()
    inbox, count, now_ps = None, 0, 10**12
    while True:
        outbox, deadline_ps = sm.step(now_ps, inbox)
        if not len(outbox):
            if sm.settled:
                return count
            inbox, now_ps = None, max(now_ps, deadline_ps)
            continue
        answers = []
        for i in rng.permutation(len(outbox)).tolist():
            answers.append(plane.send(outbox[np.array([i])], port, now_ps))
            if MadHeader.attr_id.get(outbox.mad[i]) == SmpAttr.LFT:
                count += 1
                look()
        inbox = MadBatch.concat(answers)


@pytest.mark.parametrize("discard", [False, True])
def test_a_credit_loop_between_old_and_new_tables_is_avoided_or_said(discard):
    """A ring by up/down from one root, then from another: each is free of loops, a packet on an old path may wait for one on a new path."""
    made = bring_up(generate("ring", switches=5), config=SmConfig(engine="updn"))
    guids, states = made.graph.switch_guid.tolist(), []
    for root in guids:
        options, changes = RouteOptions(root_guids=(int(root),)), ChangeConfig(discard=discard)
        made.sm.reconfigure(SmConfig(engine="updn", options=options, window=4096, chunk=4096, changes=changes))
        before = made.now_ps
        report = made.sweep()
        states.append((report.tables_change, [n for n in report.notes if "credit loop" in n], made.now_ps - before))
    assert {state for state, _, _ in states} <= (
        {"acyclic", "unchanged"} if discard else {"acyclic", "unchanged", "loop"}
    )
    for state, notes, took_ps in states:
        assert notes or state != "loop", "what is not avoided is said"
        assert took_ps >= ChangeConfig.drain_ps or not [n for n in notes if "stages" in n], "packets drain"
    assert any(notes for _, notes, _ in states)
    assert made.sweep().tables_change == "unchanged"


def test_engines_that_give_paths_sls_say_what_can_arise():
    """A cable falls and comes back, then the engine is another: each change is judged with the SLs that senders kept, and a loop is said."""
    made = bring_up(generate("torus", dims=[4, 4], hosts_per_switch=1), config=SmConfig(engine="dfsssp"))
    fabric, states = made.fabric, []
    switch = fabric.is_switch[fabric.port_node]
    cables = np.flatnonzero(fabric.linked & switch & switch[np.maximum(fabric.port_peer, 0)])
    for port in cables[:9:4].tolist():
        for up in (False, True):
            made.plane.set_link(port, up, made.now_ps)
            report = made.sweep()
            states.append(report.tables_change)
            assert report.tables_change in ("acyclic", "loop", "loops-by-itself"), report.tables_change
            told = [n for n in report.notes if "can wait for each other" in n]
            assert bool(told) == (report.tables_change == "loop")
    made.sm.reconfigure(SmConfig(engine="lash", window=4096, chunk=4096))
    assert made.sweep().tables_change in ("acyclic", "loop")
    assert made.sweep().tables_change == "unchanged"
    assert "loop" in states, "SLs change with the tables of a torus"


def test_a_manager_that_takes_over_does_not_know_the_sls_of_paths():
    made = bring_up(generate("torus", dims=[4, 4], hosts_per_switch=1), config=SmConfig(engine="dfsssp"))
    history = made.sm._runner.sweep.store.sls
    assert history.known and history.by_pair
    before = history.before(made.graph)
    guid = int(made.graph.end_guid[np.flatnonzero(~made.graph.end_is_switch)[0]])
    history.restarted({guid})
    column = made.graph.end_guid == guid
    assert not history.before(made.graph)[:, column].any(), "connections to a port that restarts are gone"
    assert (history.before(made.graph)[:, ~column] == before[:, ~column]).all()
    history.forget()
    port = int(np.flatnonzero(made.fabric.linked & made.fabric.is_switch[made.fabric.port_node])[-1])
    made.plane.set_link(port, False, made.now_ps)
    report = made.sweep()
    assert report.tables_change == "unknown-sls" and history.known
