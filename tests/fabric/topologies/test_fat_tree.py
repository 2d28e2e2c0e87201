"""Fat trees against published counts, against real files, and against Zahavi's theorem on shift
permutations."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from softib.errors import LimitError, SoftibError, TopologyError, UnknownName
from softib.fabric.formats import registry as formats
from softib.fabric.node_finder import find_node
from softib.fabric.topologies.registry import generate
from tests.extent import examples

from .graphs import adjacency, check_wiring, degrees, fingerprint, level, switch_distances, tier_count


@pytest.mark.parametrize(
    ("radix", "levels", "hosts", "switches"),
    # Sizes that vendors' manuals print for maximal trees; 36 ports 3 levels is the issue's, 24 ports "3,456 nodes".
    [
        (36, 3, 11664, 1620),
        (24, 3, 3456, 720),
        (36, 2, 648, 54),
        (24, 2, 288, 36),
        (40, 2, 800, 60),
        (64, 2, 2048, 96),
        (8, 3, 128, 80),
        (4, 4, 32, 56),
        (36, 1, 36, 1),
    ],
)
def test_full_trees_have_the_published_sizes(radix, levels, hosts, switches):
    f = generate("fat-tree", radix=radix, levels=levels)
    assert (len(f.cas), f.sizes.switches) == (hosts, switches)
    assert f.sizes.cables == levels * hosts, "constant bisection: as many cables in every tier as hosts"
    # Every port of every switch is used.
    assert (degrees(f, np.flatnonzero(f.is_switch)) == radix).all()


@pytest.mark.parametrize(("radix", "levels"), [(4, 2), (4, 3), (6, 3), (4, 4), (8, 2)])
def test_diameter_of_a_k_ary_n_tree(radix, levels):
    f = generate("fat-tree", radix=radix, levels=levels)
    check_wiring(f)
    leaves = level(f, 1)
    hops = switch_distances(f)[np.ix_(leaves, leaves)]
    assert hops.max() == 2 * (levels - 1), "Petrini and Vanneschi 1997: 2(n-1) switch hops"
    assert hops.min() == 0


def test_real_file_of_a_4_ary_3_tree_has_the_same_structure(shared_data):
    told = formats.read(shared_data / "ftree-k4n3" / "k-4-n-3-Full.topo").fabric
    ours = generate("fat-tree", radix=8, levels=3)
    assert fingerprint(ours) == fingerprint(told)


@pytest.mark.parametrize(("k", "n"), [(4, 2), (12, 2), (4, 3), (2, 4)])
def test_ibutils_k_ary_n_trees_have_the_same_structure(shared_data, k, n):
    told = formats.read(shared_data / "ibmgtsim-topos" / f"{k}-ary-{n}-tree.topo").fabric
    ours = generate("fat-tree", m=[k] * n, w=[1] + [k] * (n - 1))
    assert fingerprint(ours) == fingerprint(told)


def test_wired_as_sites_do():
    f = generate("fat-tree", radix=8, levels=2)
    assert f.node_name(0) == "leaf-1"
    assert "host-0001" in f.node_names()
    leaf, spine = find_node(f, "leaf-3"), find_node(f, "spine-2")
    for portnum in range(1, 5):  # hosts below, in order
        peer = f.port_peer[f.port(leaf, portnum)]
        assert f.node_name(f.port_node[peer]) == f"host-{2 * 4 + portnum:04d}"
    for portnum in range(5, 9):  # uplink i meets spine i in the port of the leaf's number
        peer = f.port_peer[f.port(leaf, portnum)]
        assert f.node_name(f.port_node[peer]) == f"spine-{portnum - 4}"
        assert f.port_num[peer] == 3
    assert f.port_node[f.port_peer[f.port(spine, 8)]] == find_node(f, "leaf-8")


def shift_loads(f, shift: int) -> int:
    """Largest load of a directed cable when host i sends to host i + shift under D-Mod-K, followed
    port by port."""
    hosts = level(f, 0)
    levels = f.source.generator["node_level"]
    top = int(levels.max())
    w = [1] * (top + 1)
    links = adjacency(f)
    below = _hosts_below(f, links, levels, top)
    loads: dict[tuple[int, int], int] = {}
    ups, downs = {}, {}
    for s in np.flatnonzero(f.is_switch):
        peers = [(int(f.port_peer[p]), int(p)) for p in f.ports_of(s) if f.port_peer[p] >= 0]
        ups[s] = [(p, q) for q, p in peers if levels[f.port_node[q]] > levels[s]]
        downs[s] = [(p, q) for q, p in peers if levels[f.port_node[q]] < levels[s]]
    for tier in range(2, top + 1):
        child = level(f, tier - 1)[0]
        w[tier] = len({f.port_node[q] for _, q in ups[child]})
    for i in range(len(hosts)):
        j = (i + shift) % len(hosts)
        at = int(f.port_node[f.port_peer[f.port(hosts[i], 1)]])
        divisor = 1
        while at != hosts[j]:
            if j in below[at]:
                out, q = min(c for c in downs[at] if j in below[int(f.port_node[c[1]])])
            else:
                lvl = int(levels[at])
                parent = j // divisor % w[lvl + 1]
                divisor *= w[lvl + 1]
                out, q = sorted(ups[at])[parent * (len(ups[at]) // w[lvl + 1])]
            loads[out, q] = loads.get((out, q), 0) + 1
            at = int(f.port_node[q])
    return max(loads.values())


def _hosts_below(f, links, levels, top):
    hosts = {int(n): i for i, n in enumerate(level(f, 0))}
    below: dict[int, set[int]] = {n: {i} for n, i in hosts.items()}
    for tier in range(1, top + 1):
        for s in level(f, tier):
            children = [int(c) for c in np.flatnonzero(links[s]) if levels[c] < tier]
            below[int(s)] = set().union(*(below[c] for c in children))
    return below


@pytest.mark.parametrize(("radix", "levels"), [(4, 2), (4, 3), (8, 2), (6, 3)])
def test_every_shift_permutation_is_free_of_contention_under_d_mod_k(radix, levels):
    """Zahavi 2010, theorem 1: true of a complete RLFT wired as a PGFT, false of most other wirings
    of the same counts."""
    f = generate("fat-tree", radix=radix, levels=levels)
    n = len(f.cas)
    assert [shift_loads(f, s) for s in range(1, n, max(1, n // 12))] == [1] * len(range(1, n, max(1, n // 12)))


def test_oversubscription_at_the_leaves():
    f = generate("fat-tree", radix=36, levels=2, oversubscription="2:1")
    leaves = level(f, 1)
    assert len(leaves) == 36
    assert len(f.cas) == 36 * 24
    assert tier_count(f, "leaf-spine") == 36 * 12
    assert generate("fat-tree", radix=36, levels=2, oversubscription=2).sizes == f.sizes
    g = generate("fat-tree", radix=40, levels=2, hosts_per_leaf=24, uplinks=16, hosts=240)
    assert (len(level(g, 1)), tier_count(g, "leaf-spine")) == (10, 160)


def test_parallel_cables():
    f = generate("fat-tree", radix=36, levels=2, parallel=2)
    links = adjacency(f)[np.ix_(level(f, 1), level(f, 2))]
    assert links.shape == (18, 9)
    assert (links == 2).all()
    g = generate("fat-tree", radix=8, levels=3, parallel=[1, 2])
    assert (adjacency(g)[np.ix_(level(g, 2), level(g, 3))].max(), len(level(g, 3))) == (2, 8)


@settings(max_examples=examples(60), deadline=None)
@given(
    half=st.integers(1, 8),
    levels=st.sampled_from([None, 1, 2, 3]),
    hosts=st.integers(1, 400),
    ratio=st.sampled_from([1, 2, 3, 1.5]),
    parallel=st.sampled_from([None, 1, 2]),
)
def test_partial_trees_keep_the_laws(half, levels, hosts, ratio, parallel):
    radix = 2 * half
    try:
        f = generate("fat-tree", radix=radix, levels=levels, hosts=hosts, oversubscription=ratio, parallel=parallel)
    except TopologyError as error:
        assert any(reason in str(error) for reason in ("do not fit", "do not divide", "none are left"))
        assume(False)
    assume(f.sizes.nodes < 1500)
    check_wiring(f)
    assert len(f.cas) == hosts
    top = f.source.generator["levels"]
    hops = switch_distances(f)
    assert hops.min() >= 0, "connected"
    used = degrees(f, np.flatnonzero(f.is_switch))
    assert used.max() <= radix
    leaves = level(f, 1)
    if top > 1:
        links = adjacency(f)
        uplinks = links[np.ix_(leaves, level(f, 2))]
        assert len(np.unique(uplinks.sum(1))) == 1, "every leaf has the same number of uplinks"
        assert len(np.unique(uplinks[uplinks > 0])) == 1, "and the same number to each of its spines"
        for t in range(2, top):  # full bisection above the leaves, by construction: as many up as down at most
            nodes = level(f, t)
            up = links[np.ix_(nodes, level(f, t + 1))].sum(1)
            down = links[np.ix_(nodes, level(f, t - 1))].sum(1)
            assert (up >= down).all()
        most = links[np.ix_(leaves, level(f, 0))].sum(1).max()
        assert uplinks.sum(1)[0] * ratio + 1e-9 >= most, "no leaf is more oversubscribed than asked for"


def test_explicit_xgft_counts():
    """Öhring 1995: level-i nodes of XGFT(h; m; w) are prod(m[i+1:]) * prod(w[:i])."""
    m, w = [3, 4, 2, 5], [1, 2, 3, 2]
    f = generate("fat-tree", m=m, w=w)
    for i in range(len(m) + 1):
        assert len(level(f, i)) == int(np.prod(m[i:]) * np.prod(w[:i]))
    check_wiring(f)


@pytest.mark.parametrize(
    ("params", "says"),
    [
        ({"radix": 7}, "6 or 8"),
        ({"radix": "many"}, "not a whole number"),
        ({"radix": 0}, "use 2 to 254"),
        ({"radix": 300}, "use 2 to 254"),
        (
            {"radix": 36, "levels": 2, "hosts": 649},
            "649 do not fit; 2 levels of 36-port switches hold 648, 3 levels 11,664",
        ),
        ({"radix": 36, "hosts": -1}, "hosts"),
        ({"radix": 36, "levels": 2, "parallel": 5}, "1, 2, 3, 6, 9, 18"),
        ({"radix": 36, "levels": 2, "parallel": [1, 2]}, "give 1"),
        ({"radix": 36, "levels": 2, "hosts_per_leaf": 36}, "none are left"),
        ({"radix": 36, "oversubscription": "0:1"}, "between 1 and 60"),
        ({"radix": 36, "oversubscription": "a"}, "not a ratio"),
        ({"w": [1, 2]}, "m is missing"),
        ({"m": [2, 2], "w": [2, 2]}, "to one leaf; use 1"),
        ({"m": [2, 2], "w": [1, 2, 3]}, "m has 2"),
        ({"m": [20, 20], "w": [1, 20], "radix": 36}, "needs 40 ports"),
        ({"m": [200, 2], "w": [1, 99]}, "needs 299 ports"),
        ({"m": [2, 2, 2, 2], "w": [1, 999999, 999999, 999999]}, "ports"),
        ({"m": [2, 2], "oversubscription": 2}, "cannot be combined with"),
        ({"radix": 2, "hosts": 5}, "larger radix"),
        ({"generation": "WDR"}, "did you mean XDR"),
    ],
)
def test_impossible_trees_say_what_would_be_right(params, says):
    with pytest.raises(SoftibError) as caught:
        generate("fat-tree", **params)
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)


def test_more_than_memory_holds_is_refused_at_once():
    with pytest.raises(LimitError, match="1048576 hosts"):
        generate("fat-tree", radix=64, levels=8)
    with pytest.raises(LimitError, match="32 GiB"):
        generate("torus", dims=[240, 240], radix=254)


def test_unknown_names_give_the_near_ones():
    with pytest.raises(UnknownName, match="did you mean fat-tree"):
        generate("fattree")
    with pytest.raises(UnknownName, match="did you mean radix"):
        generate("fat-tree", radxi=3)
