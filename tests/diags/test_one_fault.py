"""With a plan, each fault is one finding. The planted faults are the oracle: their number, and their ports."""

from __future__ import annotations

from softib.diags.check import check
from softib.diags.finding import Severity
from softib.fabric.faults.inject import move_cable, remove_cable, set_length, slow_link, swap_cables
from softib.fabric.formats.cabling.plan import CablingPlan
from softib.fabric.topologies.registry import generate


def pod():
    fabric = generate("rail-optimized", nodes=60)
    fabric.cable_length_m[:] = 20.0
    return fabric


def places(finding):
    return {str(p) for p in finding.where}


def test_four_faults_are_four_findings_of_the_plan() -> None:
    """A swap, a missing cable, a slow one, one to an adapter: eight rows before."""
    fabric = pod()
    plan = CablingPlan.from_fabric(fabric)
    swap_cables(fabric, "leaf-3[40]", "leaf-5[50]")
    remove_cable(fabric, "leaf-7[33]")
    slow_link(fabric, "leaf-8[34]", speed="HDR")
    remove_cable(fabric, "leaf-1[4]")
    found = check(fabric, plan=plan)
    assert len(found) == 4 and all(f.code.startswith("plan-") for f in found), [f.message for f in found]
    for fault in ({"leaf-3[40]", "leaf-5[50]"}, {"leaf-7[33]"}, {"leaf-8[34]"}, {"leaf-1[4]"}):
        assert sum(fault <= places(f) for f in found) == 1
    # Whoever follows the list exchanges the plugs once.
    assert sum("exchange the two plugs" in f.advice for f in found) == 1
    assert all(f.evidence["also"] for f in found), "the pattern's word is evidence"


def test_a_moved_plug_with_a_plan() -> None:
    fabric = generate("fat-tree", radix=16, levels=2, hosts=100)
    plan = CablingPlan.from_fabric(fabric)
    move_cable(fabric, "leaf-2[9]", "leaf-13[8]")
    found = check(fabric, plan=plan)
    assert {f.code for f in found if f.severity == Severity.ERROR} == {"plan-misplaced-cable"}
    assert not [f for f in found if not f.code.startswith("plan-")], [f.message for f in found]


def test_a_pattern_that_the_plan_contradicts_is_information() -> None:
    """The site planned two cables crosswise: as built, as planned."""
    fabric = pod()
    swap_cables(fabric, "leaf-3[40]", "leaf-5[50]")
    without = check(fabric)
    assert [f.code for f in without] == ["swapped-cables"] and without[0].severity == Severity.ERROR
    (found,) = check(fabric, plan=CablingPlan.from_fabric(fabric))
    assert found.code == "swapped-cables" and found.severity == Severity.INFO and found.evidence["as_planned"]


def test_half_of_the_cables_of_a_kind_are_one_finding() -> None:
    fabric = pod()
    plan = CablingPlan.from_fabric(fabric)
    hosts = [
        p
        for p in range(fabric.sizes.ports)
        if fabric.node_name(fabric.port_node[p]).startswith("node-") and fabric.port_cable[p] >= 0
    ]
    fabric.cable_length_m[fabric.port_cable[hosts]] = 3.0
    set_length(fabric, "leaf-9[35]", 50.0)
    found = check(fabric, plan=plan)
    assert sorted(f.code for f in found) == ["plan-wrong-length"] * 2
    bulk = max(found, key=lambda f: len(f.where))
    assert bulk.evidence["cables"] == bulk.evidence["of"] == len(hosts) == len(bulk.evidence["lines"])
    assert places(bulk) >= {fabric.port_name(p) for p in hosts}
    (single,) = (f for f in found if f is not bulk)
    assert "leaf-9[35]" in places(single)
