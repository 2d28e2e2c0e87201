"""Faults in sites of the forms that people build, planted by lists of cables (``sites.py``): how many are named.

Each fault is named, at all seeds; where names and places say nothing no floor is set, and nothing
false may be said.
"""

from __future__ import annotations

import numpy as np
import pytest

from softib.diags.check import check
from softib.fabric.formats.cabling.plan import CablingPlan
from tests.diags.sites import (
    SITES,
    Site,
    dead_host,
    dead_leaves,
    exchanged_racks,
    recall,
    shifted,
    sideways,
    tree,
    uneven,
)
from tests.extent import extent

NAMED = ["names", "one-number", "racks", "nameless", "columns", "serials-in-order"]
"""Sites whose hosts are numbered in the order of their places."""
HOSTS = [
    "dead host",
    "hosts turned by a port",
    "hosts moved up a port",
    "two hosts swapped at a leaf",
    "exchanged hosts",
    "exchanged racks",
]
TELLS_NOTHING = {("serials", "exchanged hosts"), ("serials", "exchanged racks")}
"""Serial numbers in no order: a host in another's place is a host like it in a place like it."""


@pytest.mark.parametrize("site", SITES)
def test_a_clean_site_has_no_finding_about_its_cables(site: str) -> None:
    assert {f.code for f in check(SITES[site]().fabric())} <= {"unnamed-nodes"}


@pytest.mark.parametrize("fault", HOSTS)
@pytest.mark.parametrize(
    "site",
    [*(pytest.param(s, marks=pytest.mark.slow) if s in ("one-number", "racks") else s for s in NAMED), "serials"],
)
def test_hosts_out_of_place_are_named(site: str, fault: str) -> None:
    found = recall(site, fault, range(extent(1, 5)))
    assert not found.stray, found.stray
    if (site, fault) not in TELLS_NOTHING:
        assert found.named == found.planted, found.missed


@pytest.mark.parametrize("site", ["serials", "serials-in-order"])
def test_a_lost_adapter_of_hosts_without_separators_is_named(site: str) -> None:
    found = recall(site, "lost adapter", range(extent(1, 5)))
    assert found.named == found.planted > 0 and not found.stray, found.missed


@pytest.mark.parametrize("fault", ["leaf to leaf", "spine to spine", "two leaf to leaf"])
@pytest.mark.parametrize("site", ["names", "nameless", "serials"])
def test_a_cable_within_a_tier_is_named(site: str, fault: str) -> None:
    found = recall(site, fault, range(extent(1, 5)))
    assert found.named == found.planted and not found.stray, (found.missed, found.stray)


@pytest.mark.parametrize(
    "fault", ["one dead leaf", "two dead leaves", "three dead leaves", "one dead spine", "two dead spines"]
)
@pytest.mark.parametrize("site", ["names", "racks", "nameless", "serials"])
def test_dead_switches_are_named_each(site: str, fault: str) -> None:
    """By name where names have a pattern, by the free ports at their place everywhere."""
    found = recall(site, fault, range(extent(1, 5)))
    assert found.named == found.planted and not found.stray, (found.missed, found.stray)


def test_the_plan_names_a_dead_leaf_that_leaves_no_gap() -> None:
    """The last of a row looks like spare ports; the plan knows it, and says it once for all its cables."""
    clean = SITES["names"]()
    plan = CablingPlan.from_fabric(clean.fabric())
    dead = clean.copy()
    dead.without({"leaf19", *(peer[0] for _, peer in dead.hosts_of("leaf19"))})
    found = check(dead.fabric(), plan=plan)
    (switch,) = (f for f in found if "leaf-20" in f.message)
    assert switch.code == "plan-absent-node" and switch.evidence["cables"] == 36
    assert {(dead.key_of[p.guid], p.portnum) for p in switch.where} == {
        (f"spine{m}", 39 + x) for m in range(9) for x in range(2)
    }


@pytest.mark.parametrize("right", [28, pytest.param(40, marks=pytest.mark.slow), 60])
def test_a_tier_without_a_majority_is_uneven_as_a_whole(right: int) -> None:
    """51 of 79 leaves lack some of 18 uplinks or spread them unevenly: nothing was said, because no majority is right."""
    site, wrong = uneven(right)
    found = [f for f in check(site.fabric()) if f.code == "uneven-uplinks"]
    assert len(found) == 1 and f"{len(wrong)} of 79" in found[0].message
    assert {site.key_of[p.guid] for p in found[0].where} == wrong
    assert found[0].evidence["usual"] == 18 and len(found[0].evidence["fewer"]) + len(
        found[0].evidence["uneven"]
    ) == len(wrong)


def test_smaller_leaves_with_as_many_uplinks_as_hosts_are_even() -> None:
    """An ordered tree whose last leaves are smaller (IS3-128 of ibmgtsim: 11 hosts and 11 uplinks beside 12 and 12)."""
    site = tree(leaves=20, hosts=18, spines=9)
    for k in range(8, 20):
        for i in range(16 + k % 2, 18):
            site.without({f"host{k}.{i}"})
            port, peer = [(p, peer) for p, peer in site.at(f"leaf{k}") if site.nodes[peer[0]][0]][-1]
            site.cables.remove(next(c for c in site.cables if (f"leaf{k}", port) in c and peer in c))
    assert [f for f in check(site.fabric()) if f.code == "uneven-uplinks"] == []


@pytest.mark.parametrize("leaf", ["leaf-{:02d}", "Quantum Mellanox Technologies"])
def test_a_cable_from_a_leaf_to_a_core_is_named_and_its_neighbours_are_not(leaf: str) -> None:
    """It draws the core into the spines' tier, so that all of its other cables seem to stay within one."""
    site = Site()
    pods, size = 4, 6
    for m in range(12):
        site.nodes[f"core{m}"] = (True, 40, "Quantum Mellanox Technologies")
    for pod in range(pods):
        for k in range(size):
            site.nodes[f"leaf{pod}.{k}"] = (True, 40, leaf.format(pod * size + k + 1))
            site.nodes[f"spine{pod}.{k}"] = (True, 40, "Quantum Mellanox Technologies")
        for k in range(size):
            for i in range(12):
                site.nodes[f"host{pod}.{k}.{i}"] = (False, 1, f"n{(pod * size + k) * 12 + i + 1:04d}")
                site.cables.append(((f"leaf{pod}.{k}", i + 1), (f"host{pod}.{k}.{i}", 1)))
            site.cables += [((f"leaf{pod}.{k}", 21 + m), (f"spine{pod}.{m}", k + 1)) for m in range(size)]
            site.cables += [((f"spine{pod}.{k}", 21 + m), (f"core{m}", pod * size + k + 1)) for m in range(12)]
    assert {f.code for f in check(site.fabric())} <= {"unnamed-nodes"}
    ends = ("leaf1.2", 40), ("core5", 39)
    site.cables.append(ends)
    (found,) = (f for f in check(site.fabric()) if f.code != "unnamed-nodes")
    assert found.code == "same-tier-cable" and {(site.key_of[p.guid], p.portnum) for p in found.where} == set(ends)


@pytest.mark.parametrize("with_plan", [False, True])
def test_five_faults_at_once_are_five_findings(with_plan: bool) -> None:
    """A dead leaf, two racks exchanged, a cable between leaves, a leaf turned by a port, a dead host: with a plan and without."""
    site = tree(
        24,
        16,
        8,
        2,
        radix=48,
        leaf="ib-leaf{:02d}",
        spine="ib-spine{:02d}",
        host=lambda g, i: f"cn{g * 16 + i + 1:04d} HCA-1",
    )
    plan = CablingPlan.from_fabric(site.fabric()) if with_plan else None
    rng = np.random.default_rng(5)
    truth = [fault(site, rng) for fault in (dead_leaves(1), exchanged_racks, sideways("leaf"), shifted, dead_host)]
    found = check(site.fabric(), plan=plan)
    assert len(found) == 5, [f.message for f in found]
    for (one,) in truth:
        assert (
            sum(
                len(one.ports & {(site.key_of[p.guid], p.portnum) for p in f.where}) >= 0.8 * len(one.ports)
                for f in found
            )
            >= 1
        )
