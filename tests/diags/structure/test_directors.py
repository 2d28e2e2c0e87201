"""Directors with empty slots, leaves in reserve, switches without links. Oracle: how the site was built."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from softib.diags.check import check, check_structure
from softib.diags.finding import Severity
from softib.diags.structure.recognise import recognise, summary
from softib.fabric.builder import FabricBuilder
from softib.fabric.formats.registry import read
from softib.iba.constants import NodeType
from tests.diags.sites import Site, directors, exchange


def told(s: Site):
    return [f for f in check(s.fabric()) if f.code != "unnamed-nodes"]


@pytest.mark.parametrize("bare", [0, 5, 16, 30])
def test_slots_that_all_directors_leave_empty_are_no_finding(bare: int) -> None:
    """27 of 36 line boards, the same in all three, every fourth slot empty: 24 false warnings before."""
    assert told(directors(bare=bare)) == []


@pytest.mark.parametrize("bare", [0, 5, 16, 30])
def test_leaves_in_reserve_are_leaves(bare: int) -> None:
    s = directors(bare=bare)
    fabric = s.fabric()
    tiers = summary(fabric, recognise(fabric)).tiers
    assert tiers == {1: 72, 2: 81, 3: 54}


def test_a_line_card_that_the_other_directors_have_is_a_fault() -> None:
    s = directors(bare=0)
    freed = {peer for _, peer in s.at("line2.10")}
    s.without({"line2.10"})
    found = [f for f in told(s) if f.code == "absent-switch"]
    assert (
        len(found) == 1
        and found[0].severity == Severity.WARNING
        and "core2" in found[0].message
        and "L10" in found[0].message
    )
    places = {(s.key_of[p.guid], p.portnum) for p in found[0].where}
    assert {(f"fab2.{m}", 10) for m in range(18)} <= places <= freed
    assert "between theirs are free" not in found[0].message, "ports of a backplane are not free"


@pytest.mark.parametrize("count", [1, 2])
def test_the_middle_one_of_three_fabric_boards_is_named_by_the_others(count: int) -> None:
    """Two boards make no row of names, but the ports between theirs are free on all line boards."""
    s = Site()
    for d in range(1, count + 1):
        for kind, boards in (("S", 3), ("L", 6)):
            s.nodes |= {
                f"{kind}{d}.{n}": (True, 36, f"MF0;dir{d}:CS7500/{kind}{n:02d}/U1") for n in range(1, boards + 1)
            }
        s.cables += [
            ((f"L{d}.{n}", 19 + 6 * m + k), (f"S{d}.{m + 1}", 6 * (n - 1) + k + 1))
            for n in range(1, 7)
            for m in range(3)
            for k in range(6)
        ]
    for leaf in range(1, 7):
        s.nodes[f"edge{leaf}"] = (True, 36, f"MF0;edge{leaf}:SB7800/U1")
        s.cables += [
            ((f"edge{leaf}", 18 + 6 * d + n), (f"L{d + 1}.{n}", leaf)) for d in range(count) for n in range(1, 7)
        ]
        for port in range(1, 13):
            s.nodes[f"host{leaf}.{port}"] = (False, 1, f"n{12 * leaf + port - 12:03d} mlx5_0")
            s.cables.append(((f"edge{leaf}", port), (f"host{leaf}.{port}", 1)))
    assert told(s) == []
    freed = {peer for _, peer in s.at("S1.2")}
    s.without({"S1.2"})
    (found,) = told(s)
    assert (found.code, found.evidence["name"]) == ("absent-switch", "MF0;dir1:CS7500/S02/U1")
    assert {(s.key_of[p.guid], p.portnum) for p in found.where} == freed


def test_empty_slots_of_a_lone_director_are_one_piece_of_information() -> None:
    found = told(directors(count=1, edges=24, bare=0, uplinks=18))
    assert [(f.code, f.severity) for f in found] == [("absent-switch", Severity.INFO)]
    assert found[0].evidence["slots"] == 8 and len(found[0].where) == 8 * 18


def test_tiers_of_a_real_director_site(shared_data: Path) -> None:
    """CS8500: 72 leaves (16 of them without hosts), 2 directors of 40 line chips and 20 fabric chips each."""
    fabric = read(shared_data / "hk-examples" / "Topo.6_CS8500.txt").fabric
    names = fabric.node_names()
    line, spine = (sum(f":MCS8500/{kind}" in n for n in names) for kind in "LS")
    edges = int(fabric.is_switch.sum()) - line - spine
    assert summary(fabric, recognise(fabric)).tiers == {1: edges, 2: line, 3: spine} == {1: 72, 2: 80, 3: 40}


@pytest.mark.parametrize("switches", [2, 8, 9, 40])
def test_switches_without_any_link_are_an_error(switches: int) -> None:
    b = FabricBuilder("dark")
    b.nodes(switches, NodeType.SWITCH, 36, desc=[f"leaf-{i}" for i in range(switches)])
    fabric = b.build()
    fabric.source.format = "ibnetdiscover"
    found, structure = check_structure(fabric, records=frozenset())
    assert structure.kind == "unlinked"
    (only,) = found
    assert (
        only.code == "isolated-part"
        and only.severity == Severity.ERROR
        and len(only.where) == switches
        and str(switches) in only.message
    )


def test_scalable_units_are_those_that_leaves_are_called_after() -> None:
    """Two units of four rails and one of which only two leaves are in use."""
    b = FabricBuilder("units")
    units, rails, hosts = 3, 4, 12
    leaf = b.nodes(
        units * rails, NodeType.SWITCH, 40, desc=[f"SU{u + 1}-leaf-{r + 1}" for u in range(units) for r in range(rails)]
    )
    spine = b.nodes(4, NodeType.SWITCH, 40, desc=[f"spine-{m + 1}" for m in range(4)])
    for m in range(4):
        b.links(leaf, 33 + m, np.full(len(leaf), spine[m]), np.arange(len(leaf)) + 1)
    for u in range(units):
        for r in range(rails):
            made = b.nodes(hosts, NodeType.CA, 1, desc=[f"dgx-{u * hosts + h + 1:03d} mlx5_{r}" for h in range(hosts)])
            b.links(np.full(hosts, leaf[u * rails + r]), np.arange(hosts) + 1, made, 1)
    fabric = b.build()
    assert summary(fabric, recognise(fabric)).units == units


def test_chips_exchanged_between_two_directors_leave_empty_slots_unreported() -> None:
    """The backplane ports of an empty slot are then on a chip that calls itself after the other director."""
    site = directors(edges=36, bare=8)
    clean = {f.message for f in check(site.fabric())}
    exchange(site, "fab1.3", "fab2.9")
    (found,) = [f for f in check(site.fabric()) if f.message not in clean]
    assert found.code == "exchanged-switches" and "core1:CS7500" in found.message and "core2:CS7500" in found.message
