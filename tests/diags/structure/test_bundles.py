"""Missing cables of bundles of parallel ones are named with both ports; the oracle is the cables that were removed."""

from __future__ import annotations

import numpy as np
import pytest

from softib.diags.check import check
from softib.fabric.faults.inject import remove_cable
from softib.fabric.faults.targets import port_at
from softib.fabric.model import Fabric
from softib.fabric.topologies.registry import generate


def cut(fabric: Fabric, ports: list[str]) -> set[frozenset[str]]:
    """Remove the cables at ``ports``; return the names of both ends of each."""
    ends = [port_at(fabric, p) for p in ports]
    names = {frozenset(fabric.port_name(p) for p in (end, int(fabric.port_peer[end]))) for end in ends}
    for port in ports:
        remove_cable(fabric, port)
    return names


def bundled() -> Fabric:
    """Eight leaves with two uplinks to each of four spines."""
    return generate("fat-tree", radix=16, levels=2, hosts=64)


@pytest.mark.parametrize("leaf", [1, 4, 8])
@pytest.mark.parametrize("kept", [9, 12, 16])
def test_a_leaf_that_lost_all_uplinks_but_one_misses_each_of_them(leaf: int, kept: int) -> None:
    fabric = bundled()
    planted = cut(fabric, [f"leaf-{leaf}[{p}]" for p in range(9, 17) if p != kept])
    found = check(fabric)
    assert {f.code for f in found} == {"missing-cable"}, [f.message for f in found]
    assert {frozenset(map(str, f.where)) for f in found} == planted


@pytest.mark.parametrize("seed", range(6))
def test_each_of_some_uplinks_of_a_leaf_is_named_with_both_ports(seed: int) -> None:
    rng = np.random.default_rng(seed)
    fabric = bundled()
    leaf, ports = int(rng.integers(8)) + 1, rng.permutation(np.arange(9, 17))[: seed + 2]
    planted = cut(fabric, [f"leaf-{leaf}[{p}]" for p in ports.tolist()])
    found = check(fabric)
    assert {frozenset(map(str, f.where)) for f in found if f.code == "missing-cable"} == planted
    assert len(found) == len(planted), [f.message for f in found]
