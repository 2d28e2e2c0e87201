"""A cable from a switch to itself, in the place of uplinks, is one finding; the oracle is the ports that were cabled."""

from __future__ import annotations

from pathlib import Path

import pytest

from softib.diags.check import check
from softib.fabric.faults.inject import remove_cable, self_loop
from softib.fabric.faults.targets import port_at
from softib.fabric.formats.registry import read, write
from softib.fabric.topologies.registry import generate

LOOPS = {
    "both uplinks to a spine": ["leaf-1[9]", "leaf-1[10]"],
    "uplinks to two spines": ["leaf-3[9]", "leaf-3[12]"],
    "a loopback plug": ["leaf-4[13]"],
    "both cables of a leaf at a spine": ["spine-2[5]", "spine-2[6]"],
    "cables of two leaves at a spine": ["spine-2[5]", "spine-2[8]"],
}


@pytest.mark.parametrize("ports", LOOPS.values(), ids=LOOPS.keys())
def test_a_loop_in_the_place_of_uplinks_is_one_finding(ports: list[str], tmp_path: Path) -> None:
    fabric = generate("fat-tree", radix=16, levels=2, hosts=64)
    other_ends = {str(fabric.port_name(int(fabric.port_peer[port_at(fabric, p)]))) for p in ports}
    for port in ports:
        remove_cable(fabric, port)
    self_loop(fabric, *ports)
    remove_cable(fabric, "leaf-6[16]")
    write(fabric, tmp_path / "scan", "ibnetdiscover")
    result = read(tmp_path / "scan")
    found = {f.code: f for f in check(result.fabric, problems=result.problems)}
    assert found.keys() == {"self-loop-cable", "missing-cable"}, [f.message for f in found.values()]
    assert {str(p) for p in found["self-loop-cable"].where} == set(ports)
    assert all(port in found["self-loop-cable"].message for port in other_ends)
    assert "leaf-6[16]" in {str(p) for p in found["missing-cable"].where}
