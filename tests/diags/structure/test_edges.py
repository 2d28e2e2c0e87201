"""Fabrics at the edge: empty, without switches, in many parts, with names that are serial numbers."""

from __future__ import annotations

import numpy as np
import pytest

from softib.diags.check import check
from softib.diags.structure.recognise import recognise, summary
from softib.fabric.builder import FabricBuilder
from softib.fabric.faults.inject import remove_cable, swap_cables
from softib.fabric.faults.targets import node_at, port_at
from softib.fabric.topologies.registry import generate
from softib.iba.constants import NodeType
from softib.iba.smp import PortInfo


def test_an_empty_fabric_has_no_findings() -> None:
    fabric = FabricBuilder().build()
    assert check(fabric) == [] and summary(fabric, recognise(fabric)).kind == "no-switches"


def test_two_adapters_back_to_back() -> None:
    b = FabricBuilder()
    n = b.nodes(2, NodeType.CA, 1, desc=["a-1", "a-2"])
    b.links(n[0], 1, n[1], 1)
    assert check(b.build()) == []


def test_hundreds_of_parts_are_a_few_findings() -> None:
    b = FabricBuilder()
    switch = b.nodes(200, NodeType.SWITCH, 4, desc=[f"switch-{i}" for i in range(200)])
    host = b.nodes(200, NodeType.CA, 1, desc=[f"host-{i}" for i in range(200)])
    b.links(switch, 1, host, 1)
    found = check(b.build())
    assert {f.code for f in found} == {"isolated-part"} and len(found) == 1
    assert found[0].evidence["parts"] == 199 and found[0].evidence["nodes"] == 398 == len(found[0].where)


def test_serial_numbers_as_names_cost_no_time_and_bring_no_findings() -> None:
    rng = np.random.default_rng(1)
    fabric = generate("fat-tree", radix=16, levels=2)
    for node in range(fabric.sizes.nodes):
        text = f"n{rng.integers(10**9)}-{rng.integers(10**6)}".encode()
        fabric.node_desc[node] = np.frombuffer(text.ljust(64, b"\0"), np.uint8)
    assert check(fabric) == []


def test_plugs_exchanged_between_tiers_are_a_swap() -> None:
    fabric = generate("fat-tree", radix=16, levels=2)
    swap_cables(fabric, "leaf-3[2]", "leaf-5[10]")
    (found,) = check(fabric)
    assert found.code == "swapped-cables"
    assert {str(p) for p in found.where} == {"leaf-3[2]", "leaf-5[10]", "host-0018[1]", "spine-2[5]"}


def two_subnets(joining: int, alone: tuple[int, int]):
    """Two switches; ``joining`` hosts with a port on each, ``alone`` hosts with one on either."""
    b = FabricBuilder()
    switch = b.nodes(2, NodeType.SWITCH, 16, desc=["sw-a", "sw-b"])
    both = b.nodes(joining, NodeType.CA, 2, desc=[f"gate-{i}" for i in range(joining)])
    for i, node in enumerate(both.tolist()):
        b.links(switch[0], 1 + i, node, 1)
        b.links(switch[1], 1 + i, node, 2)
    for side, many in enumerate(alone):
        for i, node in enumerate(
            b.nodes(many, NodeType.CA, 1, desc=[f"h{'ab'[side]}-{i}" for i in range(many)]).tolist()
        ):
            b.links(switch[side], 8 + i, node, 1)
    return b.build()


def test_hosts_of_two_subnets_that_a_host_joins_do_not_reach_each_other() -> None:
    """Oracle: an adapter forwards nothing (IBA 17.2), so only what shares a switch's subnet is reached."""
    (found,) = check(two_subnets(1, (1, 2)))
    assert found.code == "subnets-apart" and found.evidence["hosts"] == ["ha-0"]
    assert found.evidence["joining"] == ["gate-0"] and {p.node for p in found.where} == {"ha-0", "sw-a"}
    assert [f.code for f in check(two_subnets(0, (1, 2)))] == ["isolated-part"]


def test_two_rails_of_all_hosts_or_of_some_are_no_fault() -> None:
    """Every host is reached: on both rails, or on the one that all have."""
    for alone in ((0, 0), (3, 0), (0, 3)):
        assert "subnets-apart" not in {f.code for f in check(two_subnets(3, alone))}


def test_many_subnets_apart_are_one_finding() -> None:
    """A chain of switches with a host of their own, each joined to the next by an adapter."""
    b, n = FabricBuilder(), 20
    switch = b.nodes(n, NodeType.SWITCH, 4, desc=[f"sw-{i}" for i in range(n)])
    host = b.nodes(n, NodeType.CA, 1, desc=[f"h-{i}" for i in range(n)])
    gate = b.nodes(n - 1, NodeType.CA, 2, desc=[f"g-{i}" for i in range(n - 1)])
    b.links(switch, 1, host, 1)
    b.links(switch[:-1], 2, gate, 1)
    b.links(switch[1:], 3, gate, 2)
    (found,) = [f for f in check(b.build()) if f.code == "subnets-apart"]
    assert found.evidence["subnets"] == n - 1 == len(found.evidence["each"])


@pytest.mark.parametrize("switch", ["leaf-8", "spine-2"])
def test_a_part_without_lids_is_one_finding(switch: str) -> None:
    """No manager reaches what was cut off: its LIDs of 0 follow from the cut; that of a host elsewhere does not."""
    fabric = generate("fat-tree", radix=16, levels=2, hosts=64)
    node = node_at(fabric, switch)
    PortInfo.lid.set(fabric.port_info, np.arange(1, 1 + len(fabric.end_ports())), fabric.end_ports())
    peers = [int(p) for p in fabric.port_peer[list(fabric.ports_of(node))] if p >= 0]
    part = {node, *(int(fabric.port_node[p]) for p in peers if not fabric.is_switch[fabric.port_node[p]])}
    ends = [int(p) for p in fabric.end_ports() if int(fabric.port_node[p]) in part]
    for p in peers:
        if int(fabric.port_node[p]) not in part:
            remove_cable(fabric, p)
    host = port_at(fabric, "host-0001[1]")
    PortInfo.lid.set(fabric.port_info, 0, [*ends, host])
    found = {f.code: f for f in check(fabric, records=frozenset({"lids"}))}
    assert found.keys() == {"isolated-part", "lid-zero"}, [f.message for f in found.values()]
    assert [str(p) for p in found["lid-zero"].where] == ["host-0001[1]"]
    assert found["isolated-part"].evidence["lid_zero"] == len(ends)
