"""The order of channels against a plain search: a dependency is refused if and only if it closes a cycle, whatever came and went before."""

import numpy as np
import pytest

from softib.jit.interpreted import run
from softib.routing.proof.credit_loops import channels, vl_state
from softib.routing.transition.order_kernels import ADDED, CYCLE, add_dependency, put, put_all, take, take_number
from tests.routing.fabrics import ring, wire
from tests.routing.lab import irregular


def star_with_chords(leaves):
    """A switch of ``leaves`` links, more than a word of 64 has bits, and a ring of those at their other ends."""
    spokes = [(0, i + 1, i + 1, 1) for i in range(leaves)]
    return wire(leaves + 1, spokes + [(i + 1, 2, (i + 1) % leaves + 1, 3) for i in range(leaves)], [])


def leads_to(waits, a, wanted):
    seen, stack = {a}, [a]
    while stack:
        for b in waits.get(stack.pop(), ()):
            if b not in seen:
                seen.add(b)
                stack.append(b)
    return wanted in seen


def read(c, state):
    """Dependencies by each of the three columns that hold them."""
    by_number, ahead, behind = set(), set(), set()
    for a, v in enumerate(c.peer.tolist()):
        for k in range(int(c.first[v + 1] - c.first[v])):
            b = int(c.first[v]) + k
            r = int(c.reverse[a] - c.first[v])
            if state.present[c.dep_first[a] + k] == ADDED:
                by_number.add((a, b))
            if int(state.ahead[a, k >> 6]) >> (k & 63) & 1:
                ahead.add((a, b))
            if int(state.behind[b, r >> 6]) >> (r & 63) & 1:
                behind.add((a, b))
    return by_number, ahead, behind


@pytest.mark.parametrize(
    "graph", [ring(5), irregular(12, 14, 1, 3), star_with_chords(70)], ids=["ring", "irregular", "star"]
)
@pytest.mark.parametrize("add", [add_dependency, lambda *args: run(add_dependency, args)], ids=["compiled", "python"])
def test_a_dependency_is_refused_where_a_plain_search_finds_a_cycle(graph, add):
    rng = np.random.default_rng(1)
    c, state = channels(graph), vl_state(graph)
    waits, numbers, refused = {}, {}, 0
    for _ in range(1500):
        a = int(rng.integers(len(graph.peer)))
        v = int(graph.peer[a])
        b = int(rng.integers(graph.first[v], graph.first[v + 1]))
        if numbers and rng.random() < 0.15:
            old = list(numbers)[int(rng.integers(len(numbers)))]
            if rng.random() < 0.5:
                take(c, state, *old, 0)
            else:
                take_number(c, state, numbers[old])
            del numbers[old]
            waits[old[0]].remove(old[1])
        got = add(c, state, a, b)
        if (a, b) in numbers:
            assert got == -2
        elif leads_to(waits, b, a):
            assert got == CYCLE
            refused += 1
        else:
            assert got >= 0
            numbers[a, b] = got
            waits.setdefault(a, set()).add(b)
    assert refused > 100
    assert all(found == set(numbers) for found in read(c, state))
    assert sorted(state.node_at.tolist()) == list(range(len(graph.peer)))
    assert all(state.place[a] < state.place[b] for a, b in numbers)


def test_put_takes_a_cycle_as_it_is():
    g = ring(3)
    c, state = channels(g), vl_state(g)
    for a in range(len(g.peer)):
        v = int(g.peer[a])
        for b in range(int(g.first[v]), int(g.first[v + 1])):
            put(c, state, a, b)
    assert len(read(c, state)[0]) == int(np.diff(g.first)[g.peer].sum())


@pytest.mark.parametrize(
    "graph", [ring(5), irregular(12, 14, 1, 3), star_with_chords(70)], ids=["ring", "irregular", "star"]
)
def test_all_at_once_places_the_channels_that_no_cycle_leads_to(graph):
    rng = np.random.default_rng(2)
    for share in (0.02, 0.3):
        c, state = channels(graph), vl_state(graph)
        for a, v in enumerate(graph.peer.tolist()):
            for b in range(int(graph.first[v]), int(graph.first[v + 1])):
                if rng.random() < share:
                    put(c, state, a, b)
        waits = read(c, state)[0]
        states = [vl_state(graph), vl_state(graph)]
        count = put_all(c, states[0], state.ahead)
        assert run(put_all, (c, states[1], state.ahead)) == count
        for each in states:
            assert all(found == waits for found in read(c, each))
            assert np.array_equal(each.node_at, states[0].node_at) and np.array_equal(each.place, states[0].place)
        ordered = set(states[0].node_at[:count].tolist())
        assert all(states[0].place[a] < states[0].place[b] for a, b in waits if {a, b} <= ordered)
        blocked = {b for a, b in waits if a not in ordered}
        assert ordered.isdisjoint(blocked) and ordered | blocked == set(range(len(graph.peer)))
