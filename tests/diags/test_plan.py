"""A fabric compared with its plan, cable by cable."""

from __future__ import annotations

import numpy as np
import pytest

from softib.diags.cabling_plan.compare import compare
from softib.diags.cabling_plan.result import STATUSES
from softib.diags.check import check
from softib.fabric.faults.inject import (
    move_cable,
    random_swap,
    remove_cable,
    set_length,
    slow_link,
    swap_cables,
)
from softib.fabric.formats.cabling.plan import CablingPlan, read_plan
from softib.fabric.plugging import add_cable
from softib.fabric.topologies.registry import generate


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
        "matched": len(plan) - 5, "swapped": 2, "missing": 1, "wrong-speed": 1, "wrong-length": 1,
    }  # fmt: skip
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
