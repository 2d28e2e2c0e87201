"""Two hosts of a rail fabric exchanged on all, all but one, two or one of their rails: one finding with exactly these
cables where names or port numbers show it. The oracle is the generator."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from softib.diags.check import check
from softib.fabric.faults.inject import swap_cables
from softib.fabric.model import Fabric
from softib.fabric.topologies.registry import generate

EIGHT: tuple[str, dict[str, Any]] = ("rail-optimized", {"nodes": 63})
ONE_UNIT: tuple[str, dict[str, Any]] = ("rail-optimized", {"nodes": 12, "rails": 8, "radix": 32})
FOUR: tuple[str, dict[str, Any]] = ("rail-optimized", {"nodes": 20, "rails": 4, "radix": 16})
PCI = (24, 63, 79, 105, 154, 190, 206, 220)
"""Bus numbers of the adapters of a machine with eight."""


def _site(case: tuple[str, dict[str, Any]], names: str) -> Fabric:
    """``names``: those of the generator, adapters by bus number (``ibp24s0``), or hosts without a number."""
    fabric = generate(case[0], **case[1])
    for node in np.flatnonzero(fabric.is_host).tolist():
        host, _, adapter = fabric.node_name(node).rpartition(" ")
        number = int(host.rpartition("-")[2])
        letters = "".join("abcdefghij"[int(c)] for c in f"{number:04d}")
        text = {
            "generated": f"{host} {adapter}",
            "bus": f"{host} ibp{PCI[int(adapter[-1])]}s0",
            "letters": f"{host.rpartition('-')[0]}-{letters} {adapter}",
        }[names].encode()
        fabric.node_desc[node] = 0
        fabric.node_desc[node, : len(text)] = np.frombuffer(text, np.uint8)
    return fabric


def _ports(fabric: Fabric, first_of_leaf: str) -> list[int]:
    """The host ports of the host in ``first_of_leaf``, by leaf."""
    node = next(n for n in range(fabric.sizes.nodes) if fabric.node_name(n) == first_of_leaf.split("[")[0])
    at = int(fabric.port_peer[fabric.port(node, int(first_of_leaf.split("[")[1][:-1]))])
    host = fabric.node_name(int(fabric.port_node[at])).rpartition(" ")[0] + " "
    adapters = [n for n in np.flatnonzero(fabric.is_host).tolist() if fabric.node_name(n).startswith(host)]
    return sorted((p for n in adapters for p in fabric.ports_of(n)), key=lambda p: int(fabric.port_peer[p]))


def _exchanged(case: tuple[str, dict[str, Any]], names: str, places: tuple[str, str], rails: int) -> Fabric:
    fabric = _site(case, names)
    one, other = (_ports(fabric, place) for place in places)
    for p, q in list(zip(one, other, strict=True))[:rails]:
        swap_cables(fabric, fabric.port_name(p), fabric.port_name(q))
    return fabric


def _planted(case: tuple[str, dict[str, Any]], names: str, places: tuple[str, str], rails: int) -> set[str]:
    fabric = _site(case, names)
    ports = [p for place in places for p in _ports(fabric, place)[:rails]]
    return {fabric.port_name(p) for p in ports} | {fabric.port_name(int(fabric.port_peer[p])) for p in ports}


INSIDE, ACROSS = ("leaf-1[2]", "leaf-1[5]"), ("leaf-1[2]", "leaf-9[4]")
NAMES = ("generated", "bus")
CASES = [
    *((EIGHT, names, slots, rails) for names in NAMES for slots in (INSIDE, ACROSS) for rails in (8, 7)),
    *((EIGHT, names, INSIDE, rails) for names in NAMES for rails in (2, 1)),
    *((ONE_UNIT, names, INSIDE, rails) for names in NAMES for rails in (8, 7, 2, 1)),
    *(
        (FOUR, names, ("leaf-1[2]", slot), rails)
        for names in NAMES
        for slot in ("leaf-1[4]", "leaf-5[1]")
        for rails in (4, 3)
    ),
    *((EIGHT, "letters", INSIDE, rails) for rails in (2, 1)),
]


@pytest.mark.parametrize(("case", "names", "places", "rails"), CASES, ids=str)
def test_one_finding_names_exactly_the_exchanged_cables(
    case: tuple[str, dict[str, Any]], names: str, places: tuple[str, str], rails: int
) -> None:
    clean = {(f.code, f.message) for f in check(_site(case, names))}
    new = [f for f in check(_exchanged(case, names, places, rails)) if (f.code, f.message) not in clean]
    assert [(f.code, {str(p) for p in f.where}) for f in new] == [
        ("swapped-hosts", _planted(case, names, places, rails))
    ]
    assert new[0].evidence["cables"] == rails
    assert new[0].severity.name == "INFO"


@pytest.mark.parametrize("names", ["generated", "bus"])
def test_two_cables_between_units_are_swapped_cables(names: str) -> None:
    """Two of eight rails of hosts of different units: these rails reach other leaves, an error each."""
    found = check(_exchanged(EIGHT, names, ACROSS, 2))
    assert [f.code for f in found] == ["swapped-cables"] * 2
    assert {str(p) for f in found for p in f.where} == _planted(EIGHT, names, ACROSS, 2)


@pytest.mark.parametrize("pair", [(a, b) for a in range(1, 9) for b in range(a + 1, 9)], ids=str)
def test_any_two_hosts_of_one_of_two_units_are_named_with_all_cables(pair: tuple[int, int]) -> None:
    """The leaves of the exchanged unit and those of the other disagree about two ports, half of the leaves each."""
    case, places = ("rail-optimized", {"nodes": 16, "rails": 4, "radix": 16}), tuple(f"leaf-1[{p}]" for p in pair)
    (found,) = check(_exchanged(case, "generated", (places[0], places[1]), 4))
    assert found.code == "swapped-hosts"
    assert {str(p) for p in found.where} == _planted(case, "generated", (places[0], places[1]), 4)
