"""What tests of this package share."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from tests.routing.fabrics import clos, kary_tree, ring, torus, wire


@st.composite
def graphs(draw, most=7, lmc=0):
    """Random multigraphs of switches, perhaps in parts, with hosts here and there and shuffled GUIDs."""
    n = draw(st.integers(1, most))
    links = draw(st.lists(st.tuples(st.integers(0, n - 1), st.integers(0, n - 1)), max_size=3 * n))
    hosts = draw(st.lists(st.integers(0, n - 1), min_size=1, max_size=6))
    guid = draw(st.permutations(range(1, n + 1)))
    nxt = [1] * n

    def port(s):
        nxt[s] += 1
        return nxt[s] - 1

    cables = [(a, port(a), b, port(b)) for a, b in links if a != b]
    return wire(n, cables, [(s, port(s)) for s in hosts], guid=guid, lmc=lmc)


def parts_of(g):
    """(cables, hosts) as :func:`wire` takes them."""
    owner = np.repeat(np.arange(g.n_switches), np.diff(g.first))
    cables = [
        (int(owner[e]), int(g.out_port[e]), int(g.peer[e]), int(g.peer_port[e]))
        for e in range(len(g.peer))
        if e < g.reverse[e]
    ]
    cas = np.flatnonzero(~g.end_is_switch)
    return cables, [(int(g.end_switch[i]), int(g.end_port[i])) for i in cas]


def changed(g, *, cut=(), empty=(), hung=(), hosts=()):
    """``g`` with cables left out, all hosts of switches taken away, and new switches (with ``hosts`` CAs each) hung on others."""
    cables, cas = parts_of(g)
    cables = [c for i, c in enumerate(cables) if i not in cut]
    cas = [c for c in cas if c[0] not in empty]
    n, free = g.n_switches, 100
    for at, count in hung:
        cables.append((at, free, n, 1))
        cas += [(n, 2 + h) for h in range(count)]
        n, free = n + 1, free + 1
    for at in hosts:
        cas.append((at, free))
        free += 1
    return wire(n, cables, cas)


def irregular(n, extra, hosts, seed):
    """A random tree of switches, ``extra`` more cables, hosts anywhere, GUIDs shuffled."""
    rng = np.random.default_rng(seed)
    nxt = np.ones(n, int)
    cables = []

    def port(s):
        nxt[s] += 1
        return int(nxt[s]) - 1

    pairs = [(i, int(rng.integers(0, i))) for i in range(1, n)]
    pairs += [(int(a), int(b)) for a, b in rng.integers(0, n, (extra, 2)) if a != b]
    for a, b in pairs:
        cables.append((a, port(a), b, port(b)))
    return wire(n, cables, [(int(s), port(int(s))) for s in rng.integers(0, n, hosts)], guid=rng.permutation(n) + 1)


GRAPHS = {
    "clos": lambda: clos(4, 2, 3),
    "22 leaves": lambda: clos(22, 3, 3),
    "parallel cables": lambda: clos(3, 2, 4, 2),
    "3-ary 3 doubled": lambda: kary_tree(3, 3, True),
    "4-ary 3": lambda: kary_tree(4, 3),
    "ring": lambda: ring(5, 2),
    "torus": lambda: torus(4, 4),
    "irregular a": lambda: irregular(12, 20, 20, 1),
    "irregular b": lambda: irregular(30, 60, 30, 5),
}
