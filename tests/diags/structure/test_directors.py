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
