"""Trees with one dead spine, leaf or cable: the roots that updn and ftree find leave every shortest path between hosts legal, or balance no worse
than with all tops given as roots. The tops are known from how the tree was wired; paths are counted by plain search."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from softib.routing.engine import RouteOptions, route
from softib.routing.proof.verify import verify
from softib.routing.quality import balance
from tests.routing import fabrics
from tests.routing.brute import bfs, neighbours

TREES = {
    "4 leaves, 2 spines": lambda: fabrics.clos(4, 2, 2),
    "6 leaves, 3 spines": lambda: fabrics.clos(6, 3, 3),
    "parallel cables": lambda: fabrics.clos(6, 3, 6, parallel=2),
    "2-ary 3 doubled": lambda: fabrics.kary_tree(2, 3, True),
    "3-ary 3 doubled": lambda: fabrics.kary_tree(3, 3, True),
    "2-ary 4 doubled": lambda: fabrics.kary_tree(2, 4, True),
}
MOST = 10
"""Faults of a kind that are tried in a tree."""


def parts_of(tree, monkeypatch):
    """The arguments of ``wire`` for a tree."""
    parts = []
    with monkeypatch.context() as m:
        m.setattr(fabrics, "wire", lambda *args, **_: parts.extend(np.asarray(a).tolist() for a in args))
        tree()
    return parts


def without(n, cables, hosts, switch=None, cable=None):
    """The tree without a switch or a cable; its switches by their number in the whole tree."""
    row = {s: i for i, s in enumerate(s for s in range(n) if s != switch)}
    kept = [c for i, c in enumerate(cables) if i != cable and switch not in (c[0], c[2])]
    wired = [(row[a], p, row[b], q) for a, p, b, q in kept]
    return fabrics.wire(len(row), wired, [(row[s], p) for s, p in hosts if s != switch], guid=[s + 1 for s in row]), row


def shortest(g, source):
    """Number of shortest paths to each switch."""
    near, far = neighbours(g), bfs(g, source)
    paths = {source: 1}
    for s in sorted(far, key=far.get)[1:]:
        paths[s] = sum(paths[p] for _, p in near[s] if far[p] == far[s] - 1)
    return paths


def legal(g, place, source):
    """Number of those without a link up after a link down."""
    near, far = neighbours(g), bfs(g, source)
    at, paths = Counter({(source, False): 1}), Counter({source: 1})
    for length in range(1, max(far.values()) + 1):
        further = Counter()
        for (s, fell), count in at.items():
            for _, p in near[s]:
                down = place[p] > place[s]
                if down or not fell:
                    further[p, down] += count
        at = further
        for (s, _), count in at.items():
            paths[s] += count * (far[s] == length)
    return paths


def share_of_legal_paths(g, ranks):
    place = np.argsort(np.lexsort((g.switch_guid, ranks)))
    leaves = sorted(set(g.end_switch[~g.end_is_switch].tolist()))
    every = allowed = 0
    for s in leaves:
        paths, fine = shortest(g, s), legal(g, place, s)
        every += sum(paths.get(t, 0) for t in leaves)
        allowed += sum(fine[t] for t in leaves)
    return allowed / every


@pytest.mark.parametrize("name", TREES)
def test_a_dead_part_takes_no_other_path_with_it(name, monkeypatch):
    n, cables, hosts = parts_of(TREES[name], monkeypatch)
    leaves = {s for s, _ in hosts}
    height = dict.fromkeys(leaves, 0)
    while len(height) < n:
        height |= {b: height[a] + 1 for a, _, b, _ in cables if a in height and b not in height}
    tops = [s for s in range(n) if height[s] == max(height.values())]
    rng = np.random.default_rng(7)
    faults = [{"switch": int(s)} for s in rng.permutation(n)[:MOST]]
    faults += [{"cable": int(c)} for c in rng.permutation(len(cables))[:MOST]]
    for fault in [{}, *faults]:
        g, row = without(n, cables, hosts, **fault)
        given = RouteOptions(root_guids=tuple(int(g.switch_guid[row[t]]) for t in tops if t in row))
        for engine in ("updn", "ftree"):
            r = route(g, engine)
            assert r.engine == engine and verify(g, r.lft).ok, (fault, engine)
            assert balance(g, r.lft).most <= balance(g, route(g, engine, given).lft).most, (fault, engine)
            if len(r.roots) > 1 or len(given.root_guids) == 1:  # not one leaf, which balances better
                assert share_of_legal_paths(g, r.ranks) == 1, (fault, engine)
            else:
                assert balance(g, r.lft).most < balance(g, route(g, engine, given).lft).most, (fault, engine)
