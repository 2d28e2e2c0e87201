"""A fabric compared with its plan, cable by cable."""

from __future__ import annotations

import re

import numpy as np
import pytest

from softib.diags.cabling_plan.compare import compare
from softib.diags.cabling_plan.plan_on_fabric import STATUSES
from softib.diags.check import check
from softib.diags.finding import Severity
from softib.fabric.faults.inject import dead_switch, move_cable, remove_cable, set_length, slow_link, swap_cables
from softib.fabric.formats.cabling.plan import CablingPlan, read_plan
from softib.fabric.formats.ibnetdiscover import writer as ibnetdiscover
from softib.fabric.formats.ibnetdiscover.reader import read as read_ibnetdiscover
from softib.fabric.model import Fabric
from softib.fabric.node_finder import find_node
from softib.fabric.plugging import add_cable
from softib.fabric.topologies.registry import generate
from tests.fabric.random_faults import random_swap


def planned(**parameters):
    fabric = generate("rail-optimized", nodes=60, **parameters)
    fabric.cable_length_m[:] = 20.0
    return fabric, CablingPlan.from_fabric(fabric)


def test_as_built_is_as_planned() -> None:
    fabric, plan = planned()
    found = compare(fabric, plan)
    assert found.ok and found.findings == []
    assert found.counts == {s: len(plan) if s == "matched" else 0 for s in STATUSES}
    assert len(found.table) == len(plan)


def test_every_kind_of_difference_is_told_apart() -> None:
    fabric, plan = planned()
    swap_cables(fabric, "leaf-3[40]", "leaf-5[50]")
    remove_cable(fabric, "leaf-7[33]")
    slow_link(fabric, "leaf-8[34]", speed="HDR")
    set_length(fabric, "leaf-9[35]", 50.0)
    found = compare(fabric, plan)
    assert {k: v for k, v in found.counts.items() if v} == {
        "matched": len(plan) - 5,
        "swapped": 2,
        "missing": 1,
        "wrong-speed": 1,
        "wrong-length": 1,
    }
    by_code = {f.code: f for f in found.findings}
    assert {str(p) for p in by_code["plan-swapped-cables"].where} >= {"leaf-3[40]", "leaf-5[50]"}
    assert "leaf-7[33]" in by_code["plan-missing-cable"].message
    assert "runs at HDR, planned NDR" in by_code["plan-wrong-speed"].message
    assert "50 m long, planned 20 m" in by_code["plan-wrong-length"].message
    assert len(found.findings) == 5 - 1


def test_a_moved_plug_is_misplaced_and_an_extra_cable_unexpected() -> None:
    fabric = generate("fat-tree", radix=16, levels=2, hosts=100)
    plan = CablingPlan.from_fabric(fabric)
    free = int(np.flatnonzero((fabric.port_cable < 0) & fabric.is_switch[fabric.port_node] & (fabric.port_num > 0))[0])
    move_cable(fabric, "leaf-2[9]", free)
    found = compare(fabric, plan)
    assert found.counts["misplaced"] == 1 and found.counts["matched"] == len(plan) - 1
    (misplaced,) = [t for t in found.table if t.status == "misplaced"]
    assert misplaced.planned[0] == "leaf-2[9]" or misplaced.planned[1] == "leaf-2[9]"

    fabric = generate("fat-tree", radix=16, levels=2, hosts=100)
    ports = np.flatnonzero((fabric.port_cable < 0) & fabric.is_switch[fabric.port_node] & (fabric.port_num > 0))
    a, b = int(ports[0]), int(ports[-1])
    add_cable(fabric, a, b)
    found = compare(fabric, plan)
    assert found.counts["unexpected"] == 1 and found.counts["matched"] == len(plan)
    assert {str(p) for p in found.findings[0].where} == {fabric.port_name(a), fabric.port_name(b)}


@pytest.mark.parametrize("seed", range(20))
def test_any_swap_is_one_swap(seed: int) -> None:
    fabric, plan = planned()
    rng = np.random.default_rng(seed)
    swap = random_swap(fabric, rng, same_nodes=bool(seed % 2))  # a plan knows ports: parallel cables count too
    found = compare(fabric, plan)
    assert found.counts["swapped"] == 2 and found.counts["matched"] == len(plan) - 2
    (finding,) = found.findings
    assert {str(p) for p in finding.where} == set(swap.where)


def test_the_plan_is_part_of_a_check() -> None:
    fabric, plan = planned()
    remove_cable(fabric, "leaf-7[33]")
    (only,) = check(fabric, plan=plan)
    assert only.code == "plan-missing-cable" and [x["code"] for x in only.evidence["also"]] == ["missing-cable"]


def test_another_fabrics_plan_is_one_finding_not_a_thousand() -> None:
    fabric, _ = planned()
    plan = CablingPlan.from_fabric(generate("torus", dims=[8, 8]))
    found = compare(fabric, plan)
    assert found.counts["unmatched"] == len(plan) and len(found.findings) <= 2


def test_a_real_cabling_list_against_itself(shared_data) -> None:
    """Rows of a real UFM-NDT list on a fabric that has none of its nodes: each row is unmatched, none is guessed."""
    files = sorted((shared_data / "ufm-ndt").glob("*.csv"))
    if not files:
        pytest.skip("no cabling list here")
    plan = read_plan(files[0])
    found = compare(generate("ring", switches=4), plan)
    assert found.counts["unmatched"] == len(plan)


TREE = {"kind": "fat-tree", "radix": 8, "levels": 3, "hosts": 64}


def scan_without(gone: set[str], path) -> Fabric:
    """The fat tree as a scan finds it where the nodes ``gone`` answer nothing: neither they nor their cables."""
    whole = generate(**TREE)
    ibnetdiscover.write(whole, path)
    guids = {f"{int(whole.node_guid[n]):016x}" for n, name in enumerate(whole.node_names()) if name in gone}
    blocks = path.read_text().split("\n\n")
    blocks = [b for b in blocks if not any(re.search(rf'^(Switch|Ca).*-{g}"', b, re.MULTILINE) for g in guids)]
    lines = "\n\n".join(blocks).split("\n")
    path.write_text("\n".join(x for x in lines if not (x.startswith("[") and any(f'-{g}"' in x for g in guids))) + "\n")
    return read_ibnetdiscover(path).fabric


@pytest.mark.parametrize("hosts_too", [False, True])
def test_a_dead_leaf_is_absent_as_planned(hosts_too, tmp_path) -> None:
    """Oracle: what was cut out of the scan. Its hosts are listed without any link, or not at all."""
    plan = CablingPlan.from_fabric(generate(**TREE))
    hosts = [f"host-{i:04}" for i in range(33, 37)]
    fabric = scan_without({"leaf-9", *(hosts if hosts_too else ())}, tmp_path / "d.ibnetdiscover")
    (found,) = [f for f in check(fabric, plan=plan) if f.severity > Severity.INFO]
    assert found.code == "plan-absent-node" and "leaf-9 is planned with 8 cables and is absent" in found.message
    assert found.evidence["with_it"] == (hosts if hosts_too else [])
    free = {f"spine-{s}[1]" for s in range(9, 13)}
    assert {str(p) for p in found.where} == (free if hosts_too else free | {f"{h}[1]" for h in hosts})
    assert {x["code"] for x in found.evidence["also"]} >= {"absent-switch"}
    assert compare(fabric, plan).counts == {s: {"matched": 184, "missing": 8}.get(s, 0) for s in STATUSES}


def test_a_misspelled_name_is_no_absent_node() -> None:
    """The plan's leaf-9 is there under another name: with its cables, or with none at all."""
    plan = CablingPlan.from_fabric(generate(**TREE))
    plan.node[plan.node == "leaf-9"] = "laef-9"
    plan.node_guid[:] = 0
    for dead in (False, True):
        fabric = generate(**TREE)
        if dead:
            dead_switch(fabric, "leaf-9")
        found = compare(fabric, plan)
        assert {f.code for f in found.findings if "laef-9" in f.message} == {"plan-unmatched-row"}
        assert found.counts["unmatched"] == 8


def test_a_listed_dead_leaf_is_one_finding_with_and_without_a_plan() -> None:
    """Eight cables, four to hosts: one cause, each of its ports in the evidence or the places."""
    fabric = generate(**TREE)
    plan, leaf = CablingPlan.from_fabric(fabric), find_node(fabric, "leaf-9")
    ports = [int(p) for p in fabric.ports_of(leaf) if fabric.port_peer[p] >= 0]
    places = {fabric.port_name(q) for p in ports for q in (p, int(fabric.port_peer[p]))}
    dead_switch(fabric, "leaf-9")
    for given, code in ((None, "isolated-part"), (plan, "plan-missing-cable")):
        (found,) = [f for f in check(fabric, plan=given) if f.severity > Severity.INFO]
        known = places if given else {p for p in places if p.startswith("host")}
        assert found.code == code and known <= {str(p) for p in found.where}
        assert "uplinks" not in found.advice
    assert "none of its 8 planned cables" in found.message
    assert "isolated-part" in {x["code"] for x in found.evidence["also"]}


@pytest.mark.parametrize("with_plan", [False, True])
def test_four_faults_one_of_them_a_dead_leaf_are_four_findings(with_plan) -> None:
    """Oracle: the faults planted, each at its place."""
    fabric = generate(**TREE)
    plan = CablingPlan.from_fabric(fabric) if with_plan else None
    swap_cables(fabric, "leaf-1[5]", "leaf-6[6]")
    remove_cable(fabric, "spine-7[6]")
    dead_switch(fabric, "leaf-9")
    slow_link(fabric, "core-3[2]", lanes=1)
    found = [f for f in check(fabric, plan=plan) if f.severity > Severity.INFO]
    assert len(found) == 4, [f.message for f in found]
    for port in ("leaf-1[5]", "spine-7[6]", "leaf-9[1]", "core-3[2]", "leaf-9[8]"):
        assert sum(port in {str(p) for p in f.where} for f in found) == 1, port


def test_lanes_are_told_of_both_where_they_differ() -> None:
    fabric = generate(**TREE)
    plan = CablingPlan.from_fabric(fabric)
    slow_link(fabric, "core-3[2]", lanes=1)
    (found,) = compare(fabric, plan).findings
    assert "runs at 1x NDR, planned 4x NDR" in found.message
