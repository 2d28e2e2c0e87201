"""Fabrics at the edge: empty, without switches, in many parts, with names that are serial numbers."""

from __future__ import annotations

import numpy as np

from softib.diags.check import check
from softib.diags.structure.recognise import recognise, summary
from softib.fabric.builder import FabricBuilder
from softib.fabric.faults.inject import swap_cables
from softib.fabric.topologies.registry import generate
from softib.iba.constants import NodeType


def test_an_empty_fabric_has_no_findings() -> None:
    fabric = FabricBuilder().build()
    assert check(fabric) == [] and summary(fabric, recognise(fabric))["kind"] == "no-switches"


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
