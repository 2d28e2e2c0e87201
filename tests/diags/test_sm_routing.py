"""Subnet managers, and what proof and balance of routing tables say."""

from __future__ import annotations

import re

import numpy as np
import pytest

from softib.diags.check import check
from softib.diags.context import SubnetTables
from softib.diags.finding import Severity
from softib.fabric.faults.inject import remove_cable
from softib.fabric.model import Fabric
from softib.fabric.node_finder import find_node
from softib.fabric.topologies.registry import generate
from softib.iba.smp import PortInfo
from softib.routing.engine import RouteOptions, route
from softib.routing.graph import PortColumns, SwitchGraph
from softib.routing.proof.verify import verify
from softib.routing.quality import balance


def sm(fabric: Fabric, name: str, priority: int, state: object) -> dict:
    return {"node": find_node(fabric, name), "portnum": 1, "priority": priority, "state": state}


@pytest.mark.parametrize(
    ("sms", "codes"),
    [
        ([], ["sm-none"]),
        ([("leaf-1", 5, "standby")], ["sm-none"]),
        ([("leaf-1", 5, "master")], ["sm-no-standby"]),
        ([("leaf-1", 5, 3), ("leaf-2", 4, 2)], []),
        ([("leaf-1", 5, "master"), ("leaf-2", 5, "standby")], ["sm-equal-priorities"]),
        ([("leaf-1", 5, "master"), ("leaf-2", 4, "master")], ["sm-several-masters"]),
        ([("host-0003", 5, "master"), ("leaf-2", 4, "standby")], ["sm-on-compute-node"]),
    ],
)
def test_subnet_managers(sms: list, codes: list[str]) -> None:
    fabric = generate("fat-tree", radix=8, levels=2)
    rows = [sm(fabric, *s) for s in sms]
    assert [f.code for f in check(fabric, sms=rows)] == codes
    fabric.source.sms = rows
    fabric.source.records |= {"sm"}
    assert [f.code for f in check(fabric)] == codes


def test_nothing_is_said_of_subnet_managers_that_nobody_recorded() -> None:
    assert check(generate("fat-tree", radix=8, levels=2)) == []


def test_the_real_ibdiagnet_run_names_its_subnet_managers(shared_data) -> None:
    from softib.fabric.formats.registry import read

    files = sorted((shared_data / "sequoia-ndr-ibdiagnet").glob("*.db_csv"))
    if not files:
        pytest.skip("no db_csv here")
    result = read(files[0])
    if not result.fabric.source.sms:
        pytest.skip("the file lists no SM")
    assert not [f for f in check(result.fabric) if f.code in ("sm-none", "sm-several-masters")]


def test_lanes_by_direction_are_a_warning_and_those_of_lash_are_none() -> None:
    """On a ring of 16 dfsssp's paths half round differ there and back, so two VLs hold each direction by itself alone."""
    graph, _ = routed(fabric := generate("ring", switches=16), "minhop")
    for engine, codes in (("dfsssp", [("credit-loop-answers", Severity.WARNING)]), ("lash", [])):
        r = route(graph, engine, RouteOptions(data_vls=2))
        proof = verify(graph, r.lft, r.path_sl)
        assert [
            (f.code, f.severity) for f in check(fabric, tables=[SubnetTables(proof, balance(graph, r.lft), graph)])
        ] == codes


def routed(fabric: Fabric, engine: str):
    ends = fabric.end_ports()
    PortInfo.lid.set(fabric.port_info, np.arange(1, len(ends) + 1), ends)
    f = fabric
    graph = SwitchGraph.from_ports(
        PortColumns(
            node_type=f.node_type,
            node_guid=f.node_guid,
            node_nports=f.node_nports,
            port_node=f.port_node,
            port_num=f.port_num,
            port_guid=f.port_guid,
            port_peer=f.port_peer,
            port_lid=f.lid,
            port_lmc=f.lmc,
        )
    )
    return graph, route(graph, engine).lft


def judged(fabric: Fabric, graph: SwitchGraph, lft: np.ndarray):
    return check(fabric, tables=[SubnetTables(verify(graph, lft), balance(graph, lft), graph)])


def test_a_ring_under_minhop_has_a_credit_loop_and_none_under_updn() -> None:
    fabric = generate("ring", switches=6)
    graph, lft = routed(fabric, "minhop")
    (found,) = judged(fabric, graph, lft)
    assert found.code == "credit-loop"
    # Each place is an egress port; the link out of it leads to the switch of the next place.
    nodes = [find_node(fabric, p.node) for p in found.where]
    for here, place, there in zip(nodes, found.where, nodes[1:] + nodes[:1], strict=True):
        assert fabric.port_node[fabric.port_peer[fabric.port(here, place.portnum)]] == there
    graph, lft = routed(fabric, "updn")
    assert judged(fabric, graph, lft) == []


def test_routes_that_lead_nowhere_are_unreachable_pairs() -> None:
    fabric = generate("fat-tree", radix=8, levels=2)
    graph, lft = routed(fabric, "minhop")
    assert judged(fabric, graph, lft) == []
    host = find_node(fabric, "host-0005")
    lid = int(fabric.lid[fabric.port(host, 1)])
    broken = lft.copy()
    broken[:, lid] = 255
    (found,) = judged(fabric, graph, broken)
    assert found.code == "unreachable-pairs"
    assert found.evidence["pairs"] == 31  # every other host
    sender, leaf = re.search(r"; from (host-\d+) \(at (leaf-\d+)\) to host-0005 ", found.message).groups()
    assert sender != "host-0005"
    port = fabric.port_peer[fabric.port(find_node(fabric, sender), 1)]
    assert fabric.port_node[port] == find_node(fabric, leaf), "a host of that leaf"


def test_a_core_without_entries_for_the_hosts_of_a_pod_it_lost_its_cable_to() -> None:
    """As OpenSM's updn leaves it: no CA's packets pass there, so only the switch itself misses these hosts."""
    fabric = generate("fat-tree", radix=4, levels=3)
    core = find_node(fabric, "core-1")
    port = int(np.flatnonzero((fabric.port_node == core) & (fabric.port_peer >= 0))[0])
    spine = int(fabric.port_node[fabric.port_peer[port]])
    remove_cable(fabric, f"core-1[{int(fabric.port_num[port])}]")
    graph, lft = routed(fabric, "updn")
    found_in = lambda table: [f for f in judged(fabric, graph, table) if f.code == "unreachable-from-switches"]
    assert found_in(lft) == []
    row = int(np.flatnonzero(graph.switch_node == core)[0])
    leaves = {int(q) for q in graph.peer[graph.link_switch == int(np.flatnonzero(graph.switch_node == spine)[0])]}
    pod = ~graph.end_is_switch & np.isin(graph.end_switch, sorted(leaves))
    holed = lft.copy()
    holed[row, graph.end_lid[pod]] = 255
    (found,) = found_in(holed)
    assert found.severity == Severity.ERROR
    assert found.evidence["addresses_missed"] == {"core-1": int(pod.sum())}
    other = lft.copy()
    other[row, graph.end_lid[graph.end_is_switch & (graph.end_switch != row)][-1]] = 255
    (found,) = found_in(other)
    assert (found.code, found.severity, found.evidence["switch_pairs"]) == (
        "unreachable-from-switches",
        Severity.INFO,
        1,
    )


def test_all_routes_over_one_spine_are_uneven() -> None:
    fabric = generate("fat-tree", radix=8, levels=2)
    graph, lft = routed(fabric, "minhop")
    one = lft.copy()
    leaves = graph.switch_node < 8
    up = np.isin(one[leaves], [5, 6, 7, 8])
    one[leaves] = np.where(up, 5, one[leaves])
    found = [f for f in judged(fabric, graph, one) if f.code == "uneven-routes"]
    assert found and found[0].where[0].portnum == 5
    assert found[0].evidence["paths"] == pytest.approx(4 * found[0].evidence["mean"])
