"""Dragonflies, tori, meshes, HyperX and rings against the formulas of their papers."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from softib.errors import SoftibError
from softib.fabric.topologies.registry import generate
from tests.extent import examples

from .graphs import adjacency, check_wiring, degrees, level, switch_distances, tier_count


def switches(f):
    return np.flatnonzero(f.is_switch)


@pytest.mark.parametrize(("p", "a", "h", "hosts"), [(2, 4, 2, 72), (1, 2, 1, 6), (3, 6, 3, 342)])
def test_dragonfly_of_the_paper(p, a, h, hosts):
    """Kim et al. 2008: figure 5 is p = h = 2, a = 4, N = 72; k = p + a + h - 1, N = a p (a h + 1)."""
    f = generate("dragonfly", p=p, a=a, h=h, g=a * h + 1)
    check_wiring(f)
    assert len(f.cas) == hosts == a * p * (a * h + 1)
    assert (degrees(f, switches(f)) == p + a + h - 1).all()
    assert switch_distances(f).max() == 3
    group = f.source.generator["node_group"][switches(f)]
    links = adjacency(f)[np.ix_(switches(f), switches(f))]
    for i in range(a * h + 1):
        for j in range(i):
            assert links[np.ix_(group == i, group == j)].sum() == 1, "one cable between each pair of groups"
        own = links[np.ix_(group == i, group == i)]
        assert (own == 1 - np.eye(a, dtype=int)).all(), "all-to-all inside a group"


def test_dragonfly_of_64_ports_scales_as_published():
    """Kim et al. 2008: with routers of radix 64 the topology scales to over 256K nodes; checked
    without building it."""
    from softib.fabric.topologies.dragonfly import _balanced

    v = _balanced({"p": None, "a": None, "h": None, "radix": 64, "generation": "NDR"})
    assert v["a"] * v["p"] * (v["a"] * v["h"] + 1) == 262656
    assert v["p"] + v["a"] + v["h"] - 1 <= 64


@settings(max_examples=examples(40), deadline=None)
@given(p=st.integers(1, 3), a=st.integers(1, 5), h=st.integers(1, 3), data=st.data())
def test_dragonfly_laws(p, a, h, data):
    g = data.draw(st.integers(1, a * h + 1))
    f = generate("dragonfly", p=p, a=a, h=h, g=g)
    check_wiring(f)
    assert f.sizes.switches == a * g
    assert len(f.cas) == a * p * g
    each = a * h // (g - 1) if g > 1 else 0
    assert tier_count(f, "global") == g * (g - 1) // 2 * each
    assert tier_count(f, "local") == g * a * (a - 1) // 2
    hops = switch_distances(f)
    assert hops.min() >= 0
    assert hops.max() <= 3


@settings(max_examples=examples(40), deadline=None)
@given(
    l=st.integers(1, 4),
    s=st.integers(1, 4),
    p=st.integers(1, 3),
    h=st.integers(1, 3),
    c=st.integers(1, 2),
    data=st.data(),
)
def test_dragonfly_plus_laws(l, s, p, h, c, data):  # noqa: E741
    """Shpiner 2017: leaves and spines of a group are a complete bipartite graph; leaf to leaf at
    most 3 hops."""
    g = data.draw(st.integers(1, s * h + 1))
    f = generate("dragonfly+", l=l, s=s, p=p, h=h, g=g, parallel=c, radix=24)
    check_wiring(f)
    leaves, spines = level(f, 1), level(f, 2)
    assert (len(leaves), len(spines), len(f.cas)) == (g * l, g * s, g * l * p)
    links = adjacency(f)
    same = f.source.generator["node_group"][leaves][:, None] == f.source.generator["node_group"][spines][None, :]
    assert (links[np.ix_(leaves, spines)] == same * c).all()
    assert (links[np.ix_(leaves, leaves)] == 0).all()
    hops = switch_distances(f)
    is_leaf = np.isin(switches(f), leaves)
    assert hops.min() >= 0
    assert hops[np.ix_(is_leaf, is_leaf)].max() <= 3
    assert degrees(f, spines).max() <= l * c + h


@pytest.mark.parametrize(("g", "s", "h"), [(9, 8, 8), (5, 8, 8), (3, 8, 8), (7, 4, 5), (8, 8, 8), (6, 4, 6), (2, 3, 3)])
def test_cables_between_two_groups_leave_from_different_spines(g, s, h):
    """Shpiner 2017: what goes from a leaf to one other group has as many ways up as there are
    cables to it, or spines."""
    f = generate("dragonfly+", l=2, s=s, p=2, h=h, g=g, radix=24)
    spines, group = level(f, 2), f.source.generator["node_group"]
    links = adjacency(f)[np.ix_(spines, spines)] > 0
    cables = s * h // (g - 1)
    for a in range(g):
        for b in set(range(g)) - {a}:
            between = links[np.ix_(group[spines] == a, group[spines] == b)]
            assert between.any(axis=1).sum() == between.any(axis=0).sum() == min(cables, s)


def test_dragonfly_plus_of_full_size():
    """Shpiner 2017: radix k, (k/2)^2 hosts a group and at most (k/2)^2 + 1 groups."""
    f = generate("dragonfly+", radix=8, g=17)
    assert len(f.cas) == 16 * 17
    assert (degrees(f, switches(f)) == 8).all()


dims = st.lists(st.integers(2, 5), min_size=1, max_size=3)


@settings(max_examples=examples(40), deadline=None)
@given(dims=dims, hosts=st.integers(0, 2), cables=st.integers(1, 2), kind=st.sampled_from(["torus", "mesh"]))
def test_grid_laws(dims, hosts, cables, kind):
    """Dally and Towles: torus diameter sum(floor(d/2)), mesh sum(d - 1); N d/d cables a torus
    dimension, N (d-1)/d a mesh's."""
    f = generate(kind, dims=dims, hosts_per_switch=hosts, parallel=cables)
    check_wiring(f)
    n = math.prod(dims)
    assert (f.sizes.switches, len(f.cas)) == (n, n * hosts)
    hops = switch_distances(f)
    assert hops.min() >= 0
    assert hops.max() == sum(d // 2 if kind == "torus" else d - 1 for d in dims)
    for k, d in enumerate(dims):
        expected = n if kind == "torus" and d > 2 else n * (d - 1) // d
        assert tier_count(f, f"dim-{k}") == expected * cables
    at = f.source.generator["node_coordinates"][switches(f)]
    gap = np.abs(at[:, None, :] - at[None, :, :])
    if kind == "torus":
        gap = np.minimum(gap, np.array(dims) - gap)
    assert (hops == gap.sum(-1)).all(), "hops are the distance of the coordinates"


@settings(max_examples=examples(30), deadline=None)
@given(dims=dims, data=st.data(), hosts=st.integers(1, 3))
def test_hyperx_laws(dims, data, hosts):
    """Ahn 2009: radix T + sum((S-1) K), diameter L, hops = coordinates that differ."""
    cables = data.draw(st.lists(st.integers(1, 3), min_size=len(dims), max_size=len(dims)))
    f = generate("hyperx", dims=dims, parallel=cables, hosts_per_switch=hosts)
    check_wiring(f)
    assert (degrees(f, switches(f)) == hosts + sum((s - 1) * k for s, k in zip(dims, cables, strict=True))).all()
    at = f.source.generator["node_coordinates"][switches(f)]
    differ = at[:, None, :] != at[None, :, :]
    assert (switch_distances(f) == differ.sum(-1)).all()
    links = adjacency(f)[np.ix_(switches(f), switches(f))]
    expected = np.where(differ.sum(-1) == 1, (differ * np.array(cables)).sum(-1), 0)
    assert (links == expected).all()


@pytest.mark.parametrize("n", [2, 3, 4, 9])
def test_ring(n):
    f = generate("ring", switches=n, hosts_per_switch=2)
    check_wiring(f)
    assert f.node_name(0) == "switch-1"
    assert switch_distances(f).max() == n // 2
    assert tier_count(f, "dim-0") == (n if n > 2 else 1)


def test_ring_of_four_is_the_credit_loop_example(shared_data):
    """The hand-made ibsim net that shows a credit loop is a ring of four switches."""
    from softib.fabric.formats import registry

    path = next((shared_data / "hk-creditloop").glob("*.txt"))
    told = registry.read(path).fabric
    assert told.sizes.switches == 4
    ours = generate("ring", switches=4)
    assert sorted(map(tuple, np.sort(switch_distances(ours)))) == sorted(map(tuple, np.sort(switch_distances(told))))


@pytest.mark.parametrize(
    ("kind", "params", "says"),
    [
        ("dragonfly", {"p": 2, "a": 4, "h": 2, "g": 10}, "at most 9 groups"),
        ("dragonfly", {"p": 2, "a": 4, "h": 2}, "g is missing"),
        ("dragonfly", {"p": 2, "a": 4, "h": 2, "g": 9, "radix": 6}, "needs 7"),
        ("dragonfly+", {"g": 100, "s": 2, "h": 2, "l": 2, "p": 2}, "at most 5 groups"),
        ("dragonfly+", {"g": 2, "s": 4, "l": 4, "p": 8, "radix": 8}, "need 12 ports"),
        ("dragonfly+", {"g": 2, "s": 2, "l": 3, "p": 4, "h": 2, "radix": 16, "hosts": 18}, "hold 19 to 24"),
        ("dragonfly+", {"g": 2, "s": 2, "l": 3, "p": 4, "h": 2, "radix": 16, "hosts": 25}, "hold 19 to 24"),
        ("torus", {}, "dims is missing"),
        ("torus", {"dims": 4}, "for example [4, 4, 4]"),
        ("torus", {"dims": []}, "at least one"),
        ("torus", {"dims": [4, 1]}, "use 2 to"),
        ("torus", {"dims": [2] * 7}, "at most 6"),
        ("torus", {"dims": [4, 4], "parallel": 100}, "400 cables need 401 ports"),
        ("mesh", {"dims": [60000, 60000]}, "65536 switches, 32 GiB"),
        ("hyperx", {"dims": [4, 4], "parallel": [1]}, "1 numbers for 2 dimensions"),
        ("hyperx", {"dims": [300, 2]}, "ports"),
        ("ring", {"switches": 1}, "use 2 to"),
    ],
)
def test_impossible_ones_say_what_would_be_right(kind, params, says):
    with pytest.raises(SoftibError) as caught:
        generate(kind, **params)
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)
