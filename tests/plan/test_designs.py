"""Designs for a demand against NVIDIA's published tables, and what growth changes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from softib.diags.structure.recognise import recognise
from softib.errors import InputError
from softib.plan import designs
from softib.plan.designs import Demand, candidates
from softib.plan.floor import read_floor
from softib.plan.growth import growth
from softib.plan.placement import lay_out

H100 = [(31, 8, 4, 252, 256), (63, 16, 8, 508, 512), (95, 24, 16, 764, 768), (127, 32, 16, 1020, 1024)]
"""DGX SuperPOD reference architecture (H100, B200): nodes, leaves, spines, cables to nodes and between switches."""
B300 = [(72, 8, 4, 576), (144, 16, 8, 1152), (288, 32, 18, 2304), (576, 64, 36, 4608), (1296, 144, 72, 10368)]
"""DGX SuperPOD reference architecture (B300, XDR), table 3: nodes, leaves, spines, cables to nodes and between switches."""


def first(demand: Demand):
    return candidates(demand).designs[0]


def counts(fabric) -> tuple[int, ...]:
    made = fabric.source.generator
    level, tiers = made["node_level"], made["tiers"]
    cables = {t: int((made["cable_tier"] == i).sum()) for i, t in enumerate(tiers)}
    return (int((level == 1).sum()), int((level == 2).sum()), cables["host-leaf"], cables["leaf-spine"])


@pytest.mark.parametrize("row", H100, ids=lambda row: f"{row[0]} nodes")
def test_published_designs_of_h100_and_b200(row):
    assert counts(first(Demand(row[0], 8)).fabric) == row[1:]


@pytest.mark.parametrize("row", B300, ids=lambda row: f"{row[0]} nodes")
def test_published_designs_of_b300(row):
    nodes, leaves, spines, cables = row
    assert counts(first(Demand(nodes, 8, "XDR")).fabric) == (leaves, spines, cables, cables)


@pytest.mark.parametrize(
    "demand",
    [Demand(500), Demand(3000, 1, "HDR"), Demand.of_gpus(1024), Demand(1000, oversubscription=2), Demand(40)],
    ids=str,
)
def test_every_candidate_holds_the_demand(demand):
    for candidate in candidates(demand).designs:
        fabric = candidate.fabric
        assert len(fabric.cas) >= demand.ports and candidate.room >= demand.hosts
        leaf = fabric.source.generator["node_level"] == 1
        assert candidate.room * demand.adapters <= leaf.sum() * demand.switch_ports  # no host beyond the leaves
        assert (fabric.port_peer[fabric.node_base[fabric.cas] + 1] >= 0).sum() >= demand.ports


@pytest.mark.parametrize(
    "demand", [Demand(25, 8, radix=40, oversubscription=7.3), Demand(100, oversubscription=3), Demand(70)], ids=str
)
def test_leaves_of_a_tree_have_room_for_its_room_and_no_more(demand):
    def leaves(hosts):
        tree = next(c for c in candidates(replace(demand, hosts=hosts)).designs if c.kind == "fat-tree")
        return tree, int((tree.fabric.source.generator["node_level"] == 1).sum())

    tree, count = leaves(demand.hosts)
    assert leaves(tree.room)[1] == count < leaves(tree.room + 1)[1]


@pytest.mark.parametrize(
    "demand",
    [
        Demand(1024, oversubscription=2),
        Demand(100, 1, "HDR", oversubscription=2),
        Demand(512, oversubscription=3),
        Demand(500, 1, "HDR"),
        Demand(1000, oversubscription=4),
        Demand(90, radix=36),
    ],
    ids=str,
)
def test_no_two_tiers_of_that_ratio_have_fewer_switches(demand):
    """Over every split of a leaf: leaves hold the hosts, and spines hold the uplinks, as many from each leaf."""
    radix, ratio = demand.switch_ports, demand.oversubscription
    fewest = 10**9
    for up in range(1, radix):
        down = min(radix - up, int(up * ratio))
        leaves = -(-demand.ports // down)
        spines = next((s for s in range(1, up + 1) if up % s == 0 and s * radix >= leaves * up), None)
        if spines is not None and leaves <= radix // (up // spines):
            fewest = min(fewest, leaves + spines)
    tree = next(c for c in candidates(demand).designs if c.kind == "fat-tree" and c.parameters["levels"] == 2)
    assert tree.fabric.sizes.switches == fewest
    assert tree.parameters.get("oversubscription", 1) == ratio


@pytest.mark.parametrize("gpus", [64, 200, 1024])
def test_adapters_of_a_host_stand_in_one_place(gpus):
    """Whatever the design, 8 GPUs and their adapters are one host of the floor plan."""
    for candidate in candidates(Demand.of_gpus(gpus)).designs:
        layout = lay_out([candidate.fabric], read_floor({"rows": 20, "racks": 20}))[0]
        spare = 2 if candidate.kind == "rail-optimized" else 0  # UFM's hosts
        hosts = sum(not e.is_switch for e in layout.elevations)
        assert gpus // 8 + spare >= hosts >= gpus // 8 or hosts == candidate.room


def test_impossible_demands_are_one_line():
    with pytest.raises(InputError, match="at least 1 host"):
        Demand(0)
    with pytest.raises(InputError, match="oversubscription"):
        Demand(4, oversubscription=0.5)
    with pytest.raises(InputError, match="at most 60 host ports per uplink"):
        Demand(4, oversubscription=300)
    with pytest.raises(InputError, match="no design for"):
        candidates(Demand(100_000, 1, radix=8))
    with pytest.raises(InputError, match=r"100 do not fit; 3 levels of 5-port switches hold 20") as odd:
        candidates(Demand(100, radix=5))
    assert str(odd.value).count("do not fit") == 1  # the reason stands once


def test_a_design_that_no_subnet_can_address_is_refused(monkeypatch):
    """IBA 4.1.3: 49,151 unicast LIDs, one for each host port and switch. Beyond it the reason is that limit, and among
    the others that of the demand's own oversubscription."""
    with pytest.raises(InputError, match="49,151 LIDs for host ports and switches"):
        candidates(Demand(65_536))
    with pytest.raises(InputError, match=r"3 levels of 4-port switches hold 16, 4 levels 32$"):
        candidates(Demand(1000, radix=4))
    monkeypatch.setattr(designs, "LID_UCAST_MAX", 128 + 79)  # a full tree of 8 ports: 32 leaves, 32 spines, 16 cores
    assert any(
        line.startswith("fat tree, 3 tiers: 208 host ports") for line in candidates(Demand(128, radix=8)).refused
    )
    monkeypatch.setattr(designs, "LID_UCAST_MAX", 128 + 80)
    assert "fat tree, 3 tiers" in {c.label for c in candidates(Demand(128, radix=8)).designs}


def test_growth_counts_cables_by_both_ends():
    """Two switches of 4 hosts each become three: by hand."""
    before = first(Demand(31, 8)).blueprint
    same = growth(before, before)
    assert (same.kept, same.moved, same.new, same.new_switches) == (508, 0, 0, 0)
    after = first(Demand(63, 8)).blueprint
    change = growth(before, after)
    assert change.new_switches == 12 and change.new == 1020 - 508  # the tables' own difference
    assert change.kept + change.moved == 508


@pytest.mark.parametrize(("hosts", "radix", "moves"), [(64, 8, 32), (4096, 64, 2048), (8192, 64, 4096)])
def test_a_tree_of_full_pods_moves_half_of_the_uplinks_of_each_spine(hosts, radix, moves):
    """Twice the pods need twice the cores, so half of the uplinks of each spine move to the new cores, and no other
    cable moves."""
    tree = lambda n: next(c for c in candidates(Demand(n, radix=radix)).designs if c.label == "fat tree, 3 tiers")
    change = growth(tree(hosts).blueprint, tree(2 * hosts).blueprint)
    assert (change.kept, change.moved, change.new) == (3 * hosts - moves, moves, 3 * hosts)
    assert (change.idle_switches, change.new_switches) == (0, 5 * hosts // radix)


@pytest.mark.parametrize("radix", [5, 7, 9, 63])
def test_switches_of_an_odd_number_of_ports_make_a_tree(radix):
    """A leaf has half of the even part for hosts, and a spine's odd port holds one more leaf."""
    half = radix // 2
    labels = {c.label: c for c in candidates(Demand(half * radix, radix=radix))[0]}
    fabric = labels["fat tree, 2 tiers"].fabric
    assert fabric.sizes.switches == radix + half
    assert np.count_nonzero(fabric.port_peer >= 0) == 2 * 2 * half * radix


@pytest.mark.parametrize("radix", [5, 7, 9, 17])
def test_three_tiers_of_an_odd_number_of_ports(radix):
    """Each leaf and each spine has half of its even part up and half down; a core uses its odd port too."""
    half = radix // 2
    for demand in (Demand(half * half * radix, radix=radix), Demand(half * radix, half, radix=radix)):
        for tree in (c for c in candidates(demand).designs if c.kind != "dragonfly+"):
            if tree.parameters.get("oversubscription", 1) != 1:
                continue
            fabric = tree.fabric
            level = fabric.source.generator["node_level"]
            used = np.bincount(fabric.port_node[fabric.port_peer >= 0], minlength=fabric.sizes.nodes)
            assert [int((level == k).sum()) for k in (1, 2, 3)] == [half * radix, half * radix, half**2], tree.label
            assert set(used[(level == 1) | (level == 2)]) == {2 * half} and set(used[level == 3]) == {radix}
            assert recognise(fabric).bisection.percent == 100


@pytest.mark.parametrize(
    "demand",
    [Demand(31, 9), Demand(33, 8), Demand(129, 2), Demand(65), Demand(33, radix=9), Demand(649, generation="FDR")],
)
def test_a_design_has_the_host_ports_of_the_demand_and_no_others(demand):
    """UFM's hosts apart; a leaf of a dragonfly+ has at most one port for hosts fewer than another."""
    for candidate in candidates(demand)[0]:
        fabric = candidate.fabric
        ufm = sum(name.startswith("ufm") for name in fabric.node_names())
        assert len(fabric.cas) - ufm == demand.ports, candidate.label
        if candidate.kind == "dragonfly+":
            hosts = fabric.port_node[fabric.port_peer[fabric.node_base[fabric.cas] + 1]]
            of_leaf = np.unique(hosts, return_counts=True)[1]
            leaves = np.count_nonzero(fabric.source.generator["node_level"] == 1)
            assert len(of_leaf) == leaves and np.ptp(of_leaf) <= 1
