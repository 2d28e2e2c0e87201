"""Structures are recognised as they were generated; bisection agrees with the textbooks."""

from __future__ import annotations

import numpy as np
import pytest

from softib.diags.structure.recognise import recognise, summary
from softib.fabric.faults.inject import remove_cable
from softib.fabric.topologies.registry import generate
from tests.fabric.random_faults import random_swap

CASES = [
    ("fat-tree", {"radix": 8, "levels": 2}),
    ("fat-tree", {"radix": 8, "levels": 3, "hosts": 77}),
    ("fat-tree", {"radix": 6, "levels": 4}),
    ("fat-tree", {"radix": 40, "levels": 2, "hosts": 300, "parallel": 2}),
    ("rail-optimized", {"nodes": 31}),
    ("rail-optimized", {"nodes": 127}),
    ("rail-optimized", {"nodes": 500}),
    ("dragonfly", {"g": 9, "a": 4, "p": 2, "h": 2}),
    ("dragonfly", {"g": 33, "a": 8, "p": 4, "h": 4}),
    ("dragonfly+", {"g": 5, "radix": 8}),
    ("dragonfly+", {"g": 9, "radix": 16}),
    ("torus", {"dims": [4, 4]}),
    ("torus", {"dims": [5, 4, 3]}),
    ("mesh", {"dims": [4, 5]}),
    ("mesh", {"dims": [7]}),
    ("hyperx", {"dims": [8]}),
    ("hyperx", {"dims": [3, 4, 5], "parallel": 2}),
    ("ring", {"switches": 5}),
    ("ring", {"switches": 30, "hosts_per_switch": 3}),
]


@pytest.mark.parametrize(("kind", "parameters"), CASES)
def test_kind_levels_and_coordinates_are_recognised(kind: str, parameters: dict) -> None:
    fabric = generate(kind, **parameters)
    truth, found = fabric.source.generator, recognise(fabric)
    assert found.kind == kind
    assert (found.rank == truth["node_level"]).all()
    if "dims" in parameters:
        assert found.dims == tuple(parameters["dims"])
    if "g" in parameters:
        assert found.groups == parameters["g"]
        switches = fabric.is_switch
        assert (found.group[switches] == truth["node_group"][switches]).all()


@pytest.mark.parametrize(
    ("nodes", "units", "leaves", "spines"), [(31, 1, 8, 4), (63, 2, 16, 8), (95, 3, 24, 16), (127, 4, 32, 16)]
)
def test_the_superpods_of_the_reference_table(nodes: int, units: int, leaves: int, spines: int) -> None:
    """Leaves and spines of NVIDIA's DGX SuperPOD reference architecture; rails as generated."""
    fabric = generate("rail-optimized", nodes=nodes)
    found = recognise(fabric)
    told = summary(fabric, found)
    assert (told.kind, told.rails, told.units) == ("rail-optimized", 8, units)
    assert (told.leaves, told.spines, told.levels) == (leaves, spines, 2)
    truth = fabric.source.generator["node_rail"]
    nodes_of_rails = np.array([n.startswith("node-") for n in fabric.node_names()])
    assert (found.node_rail[nodes_of_rails] == truth[nodes_of_rails]).all()
    assert (found.node_rail[found.leaf] == truth[found.leaf]).all()


@pytest.mark.parametrize(("kind", "parameters"), CASES)
def test_a_fault_or_two_does_not_change_what_it_is(kind: str, parameters: dict) -> None:
    clean = generate(kind, **parameters)
    if clean.sizes.cables < 40:
        pytest.skip("in so small a fabric one cable is a tenth of it")
    for seed in range(3):
        fabric = clean.copy()
        rng = np.random.default_rng(seed)
        random_swap(fabric, rng)
        remove_cable(fabric, int(fabric.cable_port[rng.integers(fabric.sizes.cables), 0]))
        assert recognise(fabric).kind == kind


LINK = 100.0  # EDR 4x carries 100 Gb/s of data


@pytest.mark.parametrize(
    ("kind", "parameters", "links"),
    [
        # Dally and Towles 2004, table 3.1 and section 5.2: a k-ary n-cube is cut by 2 N / k cables (both ways one), a mesh by N / k.
        ("torus", {"dims": [8, 8], "hosts_per_switch": 8}, 2 * 64 / 8),
        ("torus", {"dims": [4, 4, 4], "hosts_per_switch": 8}, 2 * 64 / 4),
        ("mesh", {"dims": [8, 8], "hosts_per_switch": 8}, 64 / 8),
        ("ring", {"switches": 16, "hosts_per_switch": 2}, 2),
        # HyperX: every line of S is cut by (S/2)^2 cables (Ahn et al. 2009), N / S lines.
        ("hyperx", {"dims": [8, 8], "hosts_per_switch": 64}, 8 * 16),
        # Full fat trees: half of the hosts; 3:1 oversubscribed: a third of it.
        ("fat-tree", {"radix": 16, "levels": 2}, 64),
        ("fat-tree", {"radix": 8, "levels": 3}, 64),
        ("fat-tree", {"radix": 16, "levels": 2, "oversubscription": 3}, 16 * 4 / 2),
        # Dragonfly of 8 groups (one cable a pair where a*h = 7): 4 x 4 pairs across.
        ("dragonfly", {"g": 8, "a": 7, "p": 8, "h": 1}, 16),
    ],
)
def test_bisection_is_the_textbooks(kind: str, parameters: dict, links: float) -> None:
    fabric = generate(kind, generation="EDR", **parameters)
    assert recognise(fabric).bisection_gbps == pytest.approx(links * LINK)


def test_full_trees_are_non_blocking_and_oversubscribed_ones_say_how_much() -> None:
    full = recognise(generate("fat-tree", radix=36, levels=3))
    assert full.bisection.percent == 100.0 and set(full.oversubscription) == {1.0}
    half = recognise(generate("fat-tree", radix=12, levels=2, oversubscription=2))
    assert half.bisection.percent == 50.0 and set(half.oversubscription) == {2.0}


def test_a_missing_uplink_costs_its_share_of_the_bisection() -> None:
    fabric = generate("fat-tree", radix=16, levels=2, generation="EDR")
    remove_cable(fabric, "leaf-3[10]")
    found = recognise(fabric)
    assert found.bisection_gbps == pytest.approx(63 * LINK), "the half with this leaf"
    row = {r.leaf: r for r in summary(fabric, found).oversubscription}["leaf-3"]
    assert row.ratio == pytest.approx(8 / 7, abs=1e-3)


def test_a_leaf_without_uplinks_is_named_beside_the_worst_of_the_others() -> None:
    fabric = generate("fat-tree", radix=8, levels=2, generation="EDR")
    ratio = lambda: dict(summary(fabric, recognise(fabric)).facts())["Most oversubscribed leaf"]
    assert ratio() == "1 : 1"
    for port in range(5, 9):
        remove_cable(fabric, f"leaf-3[{port}]")
    assert ratio() == "1 : 1; without uplinks: leaf-3"


def test_a_ufm_server_on_a_spine_makes_it_no_leaf(shared_data) -> None:
    """Topo.5 has management hosts on two spines."""
    from softib.fabric.formats.registry import read

    found = recognise(read(shared_data / "hk-examples" / "Topo.5.txt").fabric)
    assert (found.kind, found.levels, len(found.leaf), found.rails) == ("rail-optimized", 3, 56, 8)


def test_random_graphs_are_irregular() -> None:
    from softib.fabric.builder import FabricBuilder
    from softib.iba.constants import NodeType

    rng = np.random.default_rng(5)
    b = FabricBuilder("random")
    n = 24
    switch = b.nodes(n, NodeType.SWITCH, 36, desc=[f"sw-{i}" for i in range(n)])
    host = b.nodes(n, NodeType.CA, 1, desc=[f"host-{i}" for i in range(n)])
    b.links(switch, 1, host, 1)
    pairs = rng.permutation(np.array(np.triu_indices(n, 1)).T)[:60]
    next_port = np.full(n, 2)
    for i, j in pairs.tolist():
        b.links(switch[i], next_port[i], switch[j], next_port[j])
        next_port[[i, j]] += 1
    from softib.diags.check import check

    fabric = b.build()
    found = recognise(fabric)
    assert found.kind == "irregular"
    assert found.bisection.how.endswith("an upper bound") and 0 < found.bisection.percent <= 100
    assert [f.code for f in check(fabric) if f.code in ("swapped-cables", "misplaced-cable", "missing-cable")] == []


def test_one_switch_and_no_switch() -> None:
    assert recognise(generate("fat-tree", radix=8, levels=1)).kind == "single-switch"
    from softib.fabric.builder import FabricBuilder

    assert recognise(FabricBuilder("empty").build()).kind == "no-switches"
