"""Error counters of a source against the thresholds that infiniband-diags ships (``error_thresholds``)."""

from __future__ import annotations

from pathlib import Path

import pytest

from softib.diags.cables.counters import CONGESTION, SHORT, THRESHOLDS
from softib.diags.check import check
from softib.diags.finding import Finding, Severity
from softib.fabric.formats.registry import read
from softib.fabric.model import Fabric
from softib.fabric.node_finder import find_node
from softib.fabric.plugging import delete_cables
from softib.fabric.topologies.registry import generate

SHIPPED = Path("/etc/infiniband-diags/error_thresholds")


def fabric_with(counts: dict[str, dict[str, int]]) -> Fabric:
    fabric = generate("fat-tree", radix=16, levels=2)
    for place, values in counts.items():
        node, number = place.rstrip("]").split("[")
        for name, value in values.items():
            fabric.counters[name][fabric.port(find_node(fabric, node), int(number))] = value
    return fabric


def judged(fabric: Fabric) -> list[Finding]:
    return check(fabric, records=frozenset({"counters"}))


def test_thresholds_are_those_that_ibqueryerrors_is_shipped_with() -> None:
    if not SHIPPED.exists():
        pytest.skip("infiniband-diags is not installed")
    told = dict(line.lstrip("#").strip().split("=") for line in SHIPPED.read_text().splitlines() if "=" in line)
    assert {k: int(v) for k, v in told.items()} == {SHORT[n]: t for n, t in (THRESHOLDS | CONGESTION).items()}


@pytest.mark.parametrize("name", THRESHOLDS)
def test_a_counter_at_its_threshold_is_nothing_and_one_more_is_a_finding(name: str) -> None:
    assert judged(fabric_with({"leaf-3[9]": {name: THRESHOLDS[name]}})) == []
    (found,) = judged(fabric_with({"leaf-3[9]": {name: THRESHOLDS[name] + 1}}))
    assert found.code == "link-error-counters" and found.severity == Severity.WARNING
    assert {str(p) for p in found.where} == {"leaf-3[9]", "spine-1[3]"}
    assert "totals since the last clear" in found.message


def test_both_ends_of_a_cable_are_one_finding() -> None:
    (found,) = judged(
        fabric_with({"leaf-3[9]": {"symbol_error_counter": 4_000_000_000}, "spine-1[3]": {"port_rcv_errors": 77}})
    )
    assert found.evidence["counters"] == {
        "leaf-3[9]": {"SymbolErrorCounter": 4_000_000_000},
        "spine-1[3]": {"PortRcvErrors": 77},
    }


def test_what_all_ports_count_accuses_no_cable() -> None:
    """Every host was rebooted forty times; one link went down a thousand times."""
    fabric = fabric_with({})
    fabric.counters["link_downed_counter"][fabric.linked] = 40
    fabric.counters["link_downed_counter"][fabric.port(find_node(fabric, "leaf-5"), 2)] = 1000
    one, common = judged(fabric)
    assert "leaf-5[2]" in {str(p) for p in one.where} and one.evidence["counters"]["leaf-5[2]"] == {
        "LinkDownedCounter": 1000
    }
    assert common.severity == Severity.INFO and common.evidence["median"] == 40


def test_congestion_is_one_piece_of_information() -> None:
    fabric = fabric_with({})
    fabric.counters["port_xmit_wait"][fabric.linked] = 10**9
    (found,) = judged(fabric)
    assert found.code == "congestion-counters" and found.severity == Severity.INFO
    assert found.evidence["ports"] == int(fabric.linked.sum())


def test_counters_are_not_judged_where_the_source_states_none() -> None:
    assert check(fabric_with({"leaf-3[9]": {"symbol_error_counter": 99}})) == []


def test_a_real_directory_of_ibdiagnet(shared_data: Path) -> None:
    """Its worst cable by far: compute-27 mlx5_11 received 1,436,771 bad packets."""
    result = read(shared_data / "sequoia-ndr-ibdiagnet" / "data__ibdiagnet2__ibdiagnet2.db_csv")
    found = check(result.fabric, records=result.fabric.source.records | {"counters"})
    errors = [f for f in found if f.code == "link-error-counters" and f.severity > Severity.INFO]
    assert errors[0].evidence["counters"]["is-north-7-compute-27 mlx5_11[1]"] == {
        "SymbolErrorCounter": 65535,
        "PortRcvErrors": 1436771,
    }
    below = [f for f in found if f.code == "link-error-counters" and "signed number" in f.message]
    assert len(below) == 1 and "PortRcvErrors reads -40" in below[0].message and below[0].severity == Severity.INFO
    assert len(errors) == 19, "each cable is a finding of its own; the output cuts them short, not the check"


def test_ports_that_lost_their_link_are_named_without_a_plan_or_a_pattern() -> None:
    """A cable between two switches fits no rule, but both ports have counted the loss; spare ports have not."""
    fabric = generate("ring", switches=2, hosts_per_switch=2)
    fabric.source.records |= {"counters"}
    a, b = (
        int(p) for p in fabric.cable_port[[fabric.is_switch[fabric.port_node[c]].all() for c in fabric.cable_port]][0]
    )
    delete_cables(fabric, [int(fabric.port_cable[a])])
    assert "link-lost" not in {f.code for f in check(fabric)}
    fabric.counters["link_downed_counter"][[a, b]] = 1
    (lost,) = (f for f in check(fabric) if f.code == "link-lost")
    assert {str(p) for p in lost.where} == {fabric.port_name(a), fabric.port_name(b)}


def test_a_lost_link_is_one_finding() -> None:
    """Where the pattern names the cable, its ports are in no second finding."""
    fabric = generate("fat-tree", radix=16, levels=2)
    fabric.source.records |= {"counters"}
    port = fabric.ports_of(find_node(fabric, "leaf-3"))[12]
    ends = [port, int(fabric.port_peer[port])]
    fabric.counters["link_downed_counter"][ends] = 1
    delete_cables(fabric, [int(fabric.port_cable[port])])
    assert {f.code for f in check(fabric)} == {"missing-cable"}
