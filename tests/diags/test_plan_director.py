"""UFM-style cabling lists against director fabrics: every planted fault is found, nothing else."""

from __future__ import annotations

import time
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from softib.diags.cabling_plan.compare import compare
from softib.diags.cabling_plan.plan_on_fabric import PlanComparison
from softib.fabric.faults.inject import remove_cable, swap_cables
from softib.fabric.formats.cabling.csv import parse_cabling
from softib.fabric.formats.cabling.plan import CablingPlan, join_plans, read_plan
from softib.fabric.formats.registry import read
from tests.fabric.formats.cabling.director import NAMELESS, Made, director_fabric, rename, text


def plan_of(*lists: list[str]) -> CablingPlan:
    return join_plans([parse_cabling(text(rows), f"list{i}.ndt") for i, rows in enumerate(lists)])


def told(found: PlanComparison) -> dict[str, int]:
    return {status: n for status, n in found.counts.items() if n}


def port(made: Made, at: tuple[int, int]) -> int:
    return int(made.fabric.port(*at))


def test_ufms_list_of_a_director_fabric_matches_row_by_row() -> None:
    made = director_fabric()
    found = compare(made.fabric, plan_of(made.switch_list(), made.host_list()))
    cables = len(made.uplinks) + len(made.host_links)
    assert found.findings == [] and found.problems == [] and told(found) == {"matched": cables}
    assert found.rows == {
        "all": 2 * len(made.uplinks) + len(made.host_links),
        "repeated": len(made.uplinks),
        "mirrored": len(made.uplinks),
    }


@pytest.mark.parametrize(
    "form", ["Blade {c}_Port {u}/{p}", "L{c:02d}/U{u}/P{p}", "Leaf {c} U{u} Port {p}", "blade {c}_port {u}/{p:02d}"]
)
@pytest.mark.parametrize("case", [str.upper, str.lower, str.title])
def test_forms_of_a_directors_port(form: str, case) -> None:
    made = director_fabric(leaves=4)
    rows = []
    for a, b in made.uplinks:
        director, card, chip = made.chip[b[0]]
        rows.append(",".join([*made.end(a), case(director), form.format(c=card, u=chip, p=b[1]), "Data"]))
    assert told(compare(made.fabric, plan_of(rows))) == {"matched": len(rows)}


@pytest.mark.parametrize(
    "device", ["{d}/L{c:02d}/U{u}", "{d} L{c}/U{u}", "MF0;{d}:MCS8500/L{c:02d}/U{u}", "MF0;{d}:CS8500/L{c:02d}/U{u}"]
)
def test_a_device_may_name_the_chip_itself(device: str) -> None:
    made = director_fabric(leaves=4)
    rows = []
    for a, b in made.uplinks:
        director, card, chip = made.chip[b[0]]
        rows.append(",".join([*made.end(a), device.format(d=director, c=card, u=chip), f"Port {b[1]}", "Data"]))
    assert told(compare(made.fabric, plan_of(rows))) == {"matched": len(rows)}


@pytest.mark.parametrize("seed", range(12))
def test_every_planted_fault_is_found_and_no_other(seed: int) -> None:
    """Faults of the fabric (swaps, gaps, nameless adapters) and of the list (unknown devices and ports, ambiguous names,
    contradictions, repeated and mirrored rows), at cables of their own."""
    rng = np.random.default_rng(seed)
    made = director_fabric(leaves=16, directors=2, cards=4)
    f = made.fabric
    ups = [made.uplinks[i] for i in rng.permutation(len(made.uplinks))]
    hosts = [made.host_links[i] for i in rng.permutation(len(made.host_links))]
    switch_rows, host_rows = made.switch_list(), made.host_list()
    expected: Counter[str] = Counter(matched=len(ups) + len(hosts))

    for _ in range(2):  # two swaps, ends on four nodes
        a = ups.pop()
        b = next(x for x in ups if x[0][0] != a[0][0] and x[1][0] != a[1][0])
        ups.remove(b)
        swap_cables(f, port(made, a[1]), port(made, b[1]))
        expected.update(swapped=2, matched=-2)
    for _ in range(3):
        remove_cable(f, f.port_name(port(made, ups.pop()[0])))
        expected.update(missing=1, matched=-1)
    remove_cable(f, f.port_name(port(made, hosts.pop()[0])))
    expected.update(missing=1, matched=-1)
    for _ in range(4):  # the driver of a host has not named its adapter
        rename(f, hosts.pop()[0][0], NAMELESS)
        expected.update(unmatched=1, matched=-1)
    unplanned = hosts.pop()  # an adapter that the list forgot
    host_rows.remove(made.row(*unplanned))
    expected.update(unexpected=1, matched=-1)

    host_rows.append("HAL79999,HAL79999 ibp11s0f0,HAL7-77-01IB0,Port 3,Data")
    switch_rows.append("HAL7-01-01IB0,Port 99,HAL7-90IB1-A,Blade 1_Port 2/19,Data")
    switch_rows.append("HAL7-01-02IB0,Port 17,HAL7-90IB1-A,Blade 9_Port 1/1,Data")
    switch_rows.append("HAL7-01-02IB0,Port 18,HAL7-90IB1-A,Port 4,Data")
    expected.update(unmatched=4)
    good = ups.pop()  # the list contradicts itself, the fabric sides with one row
    contradiction = made.row(good[0], (next(c for c in made.chip if c != good[1][0]), 20))
    switch_rows.append(contradiction)
    expected.update(conflict=1)
    again = [switch_rows[i] for i in rng.permutation(len(made.uplinks))[:7]]
    rng.shuffle(switch_rows)

    found = compare(f, plan_of(switch_rows, host_rows, again))
    assert told(found) == {k: v for k, v in expected.items() if v}
    assert found.reasons == {"unknown device": 1, "unknown port": 2, "adapter without a name": 4, "ambiguous name": 1}
    assert found.rows["repeated"] == len(made.uplinks) + 7
    codes = Counter(x.code for x in found.findings)
    assert codes == {
        "plan-swapped-cables": 2,
        "plan-missing-cable": 4,
        "plan-unmatched-row": 5,
        "plan-unexpected-cable": 1,
        "plan-conflicting-rows": 1,
    }
    (conflict,) = [t for t in found.table if t.status == "conflict"]
    assert conflict.note.endswith(", and so has the fabric") and "list0.ndt:" in conflict.note


def test_contradictions_between_files_are_named_and_repeats_are_not() -> None:
    made = director_fabric(leaves=4)
    a, b = made.uplinks[:2]
    first, other = made.switch_list(), [made.row(b[1], b[0]), made.row(a[0], (b[1][0], 19))]
    found = compare(made.fabric, plan_of(first, other, first))
    assert told(found) == {"matched": len(made.uplinks), "conflict": 1} and found.problems == []
    (finding,) = found.findings
    assert finding.code == "plan-conflicting-rows" and finding.message.startswith("plan list1.ndt:3: ")
    assert finding.evidence["rivals"] == ["list0.ndt:2"]


def test_a_switch_that_is_not_cabled_yet_is_one_finding() -> None:
    made = director_fabric()
    plan = plan_of(made.switch_list())
    for a, _ in made.uplinks[:12]:
        remove_cable(made.fabric, made.fabric.port_name(port(made, a)))
    found = compare(made.fabric, plan)
    (finding,) = found.findings
    assert told(found) == {"matched": len(made.uplinks) - 12, "missing": 12}
    assert finding.message == "MF0;hal7-01-01ib0:MQM8700/U1: none of its 12 planned cables is there"


def test_the_backplane_of_a_director_is_no_plan_matter() -> None:
    made = director_fabric()
    found = compare(made.fabric, plan_of(made.switch_list()))
    assert found.counts["unexpected"] == 0


def test_names_that_two_machines_bear_are_ambiguous() -> None:
    made = director_fabric(leaves=4)
    plan = plan_of(made.switch_list())
    rename(made.fabric, 1, made.fabric.node_name(0))
    found = compare(made.fabric, plan)
    own = len(made.uplinks) // 4
    assert told(found) == {"matched": 2 * own, "unmatched": 2 * own}
    assert found.reasons == {"ambiguous name": own, "unknown device": own}


def test_a_list_of_6390_rows_takes_seconds() -> None:
    """The size of a real UFM list: 160 leaves, four directors of 80 leaf chips; measured in processor time, of which a core that is shared
    with other threads takes twice as much. What compares each row with each would take minutes."""
    made = director_fabric(leaves=160, directors=4, cards=20, hosts=2, adapters=8, spines=20)
    rows = made.switch_list()[:6390]
    hosts = made.host_list()
    start = time.process_time()
    plan = plan_of(rows)
    read_in = time.process_time() - start
    found = compare(made.fabric, plan)
    took = time.process_time() - start
    assert told(found) == {"matched": 3195, "unexpected": 5} and len(plan) == 6390
    assert took < 6.0, f"reading {read_in:.2f} s, all {took:.2f} s"
    assert told(compare(made.fabric, plan_of(rows, hosts))) == {"matched": 3195 + len(hosts), "unexpected": 5}


UFM_FABRIC = "ufm-ndt/plugins__UFM_NDT_Plugin__tests__positive_flow_ibnetdiscover__ibnetdiscover_director.txt"
UFM_LISTS = [
    f"ufm-ndt/plugins__UFM_NDT_Plugin__tests__positive_flow_ndts__{x}.ndt"
    for x in ("switch_to_switch_topo2", "switch_to_host_topo1")
]


def test_a_real_list_against_its_real_fabric(shared_data: Path) -> None:
    """UFM's own test material (Mellanox/ufm_sdk_3.0): what UFM reports of the pair is the oracle. All 6,390 rows between
    switches match. Of the host list two rows name machines that are not there, two are wired otherwise, and 107 cables are
    in no row (one of them at a port that a wrong row plans)."""
    if not all((shared_data / x).is_file() for x in (UFM_FABRIC, *UFM_LISTS)):
        pytest.skip("the director fabric of UFM's cabling lists is not among the real files")
    fabric = read(shared_data / UFM_FABRIC).fabric
    lists = [read_plan(shared_data / x) for x in UFM_LISTS]
    found = compare(fabric, lists[0])
    assert found.findings == [] and told(found) == {"matched": 3195}
    assert found.rows == {"all": 6390, "repeated": 3195, "mirrored": 3195}
    found = compare(fabric, join_plans(lists))
    assert told(found) == {"matched": 3195 + 2219, "misplaced": 1, "unmatched": 3, "unexpected": 106}
    assert found.reasons == {"unknown device": 2, "unknown port": 1}
