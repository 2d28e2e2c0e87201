"""Every kind of fault that can be planted is found, at its place, and brings no flood of other findings."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from softib.diags.check import check
from softib.diags.finding import Location, Severity, finding
from softib.diags.structure.one_fault import one_each
from softib.errors import InputError
from softib.fabric.builder import FabricBuilder
from softib.fabric.faults.inject import remove_cable, slow_link
from softib.fabric.faults.kinds import FAULTS
from softib.fabric.formats.base import Problem
from softib.fabric.topologies.registry import generate
from softib.iba.constants import NodeType
from softib.iba.smp import PortInfo
from softib.scenario.bring_up import bring_up
from tests.extent import extent
from tests.fabric.random_faults import random_fault

FABRICS = {
    "tree": lambda: generate("fat-tree", radix=12, levels=3, hosts=390),
    "rails": lambda: generate("rail-optimized", nodes=40, rails=4, radix=16),
    "torus": lambda: generate("torus", dims=[4, 5], hosts_per_switch=2, radix=12),
    "dragonfly": lambda: generate("dragonfly", g=9, a=4, p=2, h=2, radix=9),
    "dragonfly+": lambda: generate("dragonfly+", g=5, radix=10, l=4, s=4, p=4, h=4),
    "hyperx": lambda: generate("hyperx", dims=[4, 4], hosts_per_switch=2, radix=10),
}
EXPECTED = {
    "swap-cables": {"swapped-cables"},
    "crossed-rails": {"crossed-rails"},
    "move-cable": {"misplaced-cable", "unlinked-hca-port"},
    "remove-cable": {"missing-cable", "unlinked-hca-port"},
    "unlink-hca": {"unlinked-hca-port"},
    "dead-switch": {"isolated-part"},
    "self-loop": {"self-loop-cable"},
    "slow-link": {"link-slow", "link-narrow"},
    "ber": {"link-bit-errors"},
    "inactive-link": {"link-not-active"},
    "duplicate-guid": {"duplicate-node-guid"},
    "duplicate-description": {"duplicate-description"},
    "duplicate-lid": {"duplicate-lid"},
    "lid-0": {"lid-zero"},
    "one-sided": {"one-sided-record"},
    "dangling": {"dangling-record"},
}
ALLOWED_BESIDE = {"unlinked-hca-port", "missing-cable"}
"""True consequences: the adapters of a dead switch have no link, the port that a plug left is empty."""
NOT_A_FAULT_WITHOUT_A_PLAN = {"length"}


def test_every_kind_of_fault_is_expected_here() -> None:
    assert set(FAULTS) == set(EXPECTED) | NOT_A_FAULT_WITHOUT_A_PLAN


CASES = [(s, k) for k in EXPECTED for s in FABRICS if k != "crossed-rails" or s == "rails"]


@pytest.mark.parametrize(("shape", "kind"), CASES)
def test_a_planted_fault_is_found_at_its_place(shape: str, kind: str) -> None:
    clean, tried = FABRICS[shape](), 0
    for seed in range(extent(2, 4)):
        fabric = clean.copy()
        try:
            planted = random_fault(fabric, kind, np.random.default_rng(seed))
        except InputError:
            continue  # no place fits
        tried += 1
        findings = check(fabric)
        hits = [f for f in findings if f.code in EXPECTED[kind]]
        assert hits, (planted.message, [f.message for f in findings])
        nodes = {p.node for f in hits for p in f.where}
        named = {place.split("[")[0] for place in planted.where}
        assert named & nodes, (planted.message, [f.message for f in hits])
        assert {f.code for f in findings} <= EXPECTED[kind] | ALLOWED_BESIDE, [f.message for f in findings]
    assert tried


def test_a_slow_link_says_what_both_ends_can_do() -> None:
    fabric = generate("rail-optimized", nodes=127)
    slow_link(fabric, "leaf-3[40]", speed="EDR")
    (found,) = check(fabric)
    assert found.code == "link-slow" and found.severity == Severity.WARNING
    assert found.message == "leaf-3[40] ↔ spine-4[6]: runs at EDR, both ends support NDR"
    assert [str(p) for p in found.where] == ["leaf-3[40]", "spine-4[6]"]
    assert found.evidence["speed"] == "EDR" and found.evidence["can"] == "NDR" and found.evidence["peers"] == "NDR"


def test_without_capabilities_peers_and_device_ids_tell() -> None:
    """What an ibnetdiscover file records: speeds, no capabilities."""
    fabric = generate("fat-tree", radix=16, levels=2, generation="HDR")
    slow_link(fabric, "leaf-3[10]", speed="EDR")
    fabric.source.format = "ibnetdiscover"
    (found,) = check(fabric, records=frozenset({"speeds"}))
    assert found.code == "link-slower-than-peers"
    assert str(found.where[0]) == "leaf-3[10]"


def test_a_whole_tier_below_its_generation_is_one_finding() -> None:
    fabric = generate("fat-tree", radix=16, levels=2, generation="HDR")
    tier = fabric.source.generator["cable_tier"]
    for cable in np.flatnonzero(tier == fabric.source.generator["tiers"].index("leaf-spine")).tolist():
        slow_link(fabric, int(fabric.cable_port[cable, 0]), speed="EDR")
    (found,) = check(fabric)
    assert found.code == "links-below-generation" and found.evidence["links"] == 128


def test_lmc_ranges_that_overlap_are_found() -> None:
    fabric = generate("fat-tree", radix=8, levels=2)
    ends = fabric.end_ports()
    PortInfo.lid.set(fabric.port_info, np.arange(len(ends)) * 4 + 4, ends)
    PortInfo.lmc.set(fabric.port_info, 2, ends)
    records = frozenset({"lids", "lmcs"})
    assert check(fabric, records=records) == []
    PortInfo.lid.set(fabric.port_info, int(fabric.lid[ends[5]]) - 2, [ends[9]])
    found = check(fabric, records=records)
    assert {f.code for f in found} == {"duplicate-lid"} and all("LMC" in f.message for f in found)
    named = {frozenset(map(str, f.where)) for f in found}
    assert named == {frozenset(fabric.port_name(int(ends[i])) for i in (4, 9, 5))}  # 9's range reaches into both


@pytest.mark.parametrize("owners", [2, 3, 44])
def test_a_lid_of_several_ports_is_one_finding_with_the_pairs_that_it_costs(owners: int) -> None:
    """Tables lead a LID to one port: each of the other owners is missed by every other adapter (44 ends, 32 of them adapters)."""
    fabric = generate("fat-tree", radix=8, levels=2)
    up = bring_up(fabric)
    f = up.fabric
    ends = f.end_ports()
    cas = ends[~f.is_switch[f.port_node[ends]]]
    PortInfo.lid.set(f.port_info, int(f.lid[cas[0]]), (cas if owners == 44 else cas[:owners]))
    found = check(f, records=frozenset({"lids"}))
    (one,) = [x for x in found if x.code == "duplicate-lid"]
    count = len(cas) if owners == 44 else owners
    assert one.evidence["ports"] == len(one.where) == count


def test_pairs_that_a_duplicate_lid_costs_are_evidence_of_it() -> None:
    owners = [Location("a", 1, 1), Location("b", 2, 1)]
    lid = finding(
        "duplicate-lid", owners, "a and b both have LID 7", {"lid": 7, "lids": {"a[1]": [7, 7], "b[1]": [7, 7]}}
    )
    lost = finding(
        "unreachable-pairs",
        [],
        "43 of 1892 pairs do not arrive",
        {"pairs": 43, "of": 1892, "missed": ["a (LID 7)"]},
    )
    (one,) = one_each([lid, lost], None)
    assert (
        one.message == "a and b both have LID 7; 43 of 1,892 pairs do not arrive"
        and one.evidence["also"][0]["evidence"]["pairs"] == 43
    )
    other = replace(lost, evidence={**lost.evidence, "missed": ["a (LID 7)", "c (LID 8)"]})
    assert [f.code for f in one_each([lid, other], None)] == ["duplicate-lid", "unreachable-pairs"]


def test_nodes_without_any_link_are_found_even_where_there_is_one() -> None:
    for count in (1, 3):
        built = FabricBuilder("apart")
        built.nodes(count, NodeType.SWITCH, 8, desc=[f"sw-{i}" for i in range(count)])
        (found,) = check(built.build())
        assert found.code == "isolated-part" and len(found.where) == count


def test_nothing_is_judged_that_was_not_recorded() -> None:
    fabric = generate("fat-tree", radix=8, levels=2)
    slow_link(fabric, "leaf-3[5]", speed="SDR")
    remove_cable(fabric, "host-0001[1]")
    fabric.source.format = "topo"
    fabric.source.records = frozenset()
    assert [f.code for f in check(fabric)] == []


def test_makers_names_shared_by_hundreds_are_one_finding() -> None:
    fabric = generate("fat-tree", radix=16, levels=2)
    text = b"Quantum Mellanox Technologies"
    fabric.node_desc[fabric.is_switch] = np.frombuffer(text.ljust(64, b"\0"), np.uint8)
    (found,) = check(fabric)
    assert found.code == "unnamed-nodes" and found.evidence == {"description": text.decode(), "nodes": 24}


def test_problems_of_the_reader_are_one_finding() -> None:
    fabric = generate("ring", switches=8)
    (found,) = check(fabric, problems=[Problem("f", 3, "bad"), Problem("f", 4, "bad")])
    assert found.code == "unreadable-records" and "line 3: bad" in found.message and found.evidence["problems"] == 2


def test_the_worst_comes_first_and_the_order_is_the_same_every_time() -> None:
    fabric = generate("rail-optimized", nodes=60)
    rng = np.random.default_rng(3)
    for kind in ("slow-link", "swap-cables", "duplicate-guid", "one-sided", "ber"):
        random_fault(fabric, kind, rng)
    first, again = check(fabric), check(fabric.copy())
    assert [f.to_json() for f in first] == [f.to_json() for f in again]
    assert [f.severity for f in first] == sorted((f.severity for f in first), reverse=True)
    assert len(first) >= 5
