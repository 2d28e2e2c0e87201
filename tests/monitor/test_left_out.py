"""ibqueryerrors twice: what it does not print is at most its threshold. Oracles: its own words (checked, thresholds, suppressed), arithmetic on them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import softib
from softib.fabric.formats.registry import write
from softib.fabric.node_finder import find_node
from softib.fabric.topologies.registry import generate

HOUR = 3600


def queried(
    path: Path,
    ports: dict[str, dict[str, int]],
    *,
    checked: int,
    thresholds: str = "",
    suppressed: str = "",
    at: int = 0,
) -> str:
    """A file as the tool prints it (infiniband-diags 44)."""
    lines = [
        f"   GUID {where}: " + " ".join(f"[{k} == {v}]" for k, v in counters.items())
        for where, counters in ports.items()
    ]
    head = ['Errors for 0x1 "x"'] if ports else []
    tail = [
        "",
        f"## Summary: {checked} nodes checked, {len(ports)} bad nodes found",
        f"##          {checked} ports checked, {len(ports)} ports have errors beyond threshold",
        f"## Thresholds: {thresholds}",
        f"## Suppressed:{suppressed}",
    ]
    path.write_text("\n".join([*head, *lines, *tail]) + "\n")
    os.utime(path, (1_700_000_000 + at, 1_700_000_000 + at))
    return str(path)


@pytest.fixture
def fabric(tmp_path: Path) -> str:
    made = generate("fat-tree", radix=4, levels=2, generation="HDR")
    write(made, tmp_path / "f.ibnetdiscover", "ibnetdiscover")
    return str(tmp_path / "f.ibnetdiscover")


def port(fabric: str, name: str, number: int) -> str:
    f = softib.load(fabric).arrays
    return f"{int(f.node_guid[find_node(f, name)]):#x} port {number}"


def told(*files: str, fabric: str):
    seen = softib.observe(*files, fabric=fabric)
    return [f for f in softib.diagnose(seen) if f.code != "observed-too-short"]


def test_from_unlisted_to_sixty_thousand(shared_data: Path) -> None:
    """guilbaults/infiniband-exporter#20: the second file lists leaf[2] for the first time, with 60,003 symbol errors."""
    there = shared_data.parent / "trials" / "counters"
    if not there.exists():
        pytest.skip("no trials beside the data")
    found = told(str(there / "g1.txt"), str(there / "g2.txt"), fabric=str(there / "ss.ibnetdiscover"))
    by = {str(p) for f in found if f.severity.name == "ERROR" for p in f.where}
    assert by == {"leaf[1]", "spine[1]", "leaf[2]", "n1[1]"}
    assert all(f.evidence["known"]["leaf[2]"] for f in found if "leaf[2]" in map(str, f.where))


@pytest.mark.parametrize(("thresholds", "least"), [("", 5000), ("[SymbolErrorCounter = 20]", 4980)])
def test_what_was_left_out_is_at_most_the_threshold(tmp_path: Path, fabric: str, thresholds: str, least: int) -> None:
    where = port(fabric, "leaf-1", 1)
    first = queried(tmp_path / "a", {}, checked=32, thresholds=thresholds)
    second = queried(tmp_path / "b", {where: {"SymbolErrorCounter": 5000}}, checked=32, thresholds=thresholds, at=HOUR)
    (found,) = told(first, second, fabric=fabric)
    assert found.code == "link-bit-errors" and found.evidence["errors"]["leaf-1[1]"] == least
    back = told(
        queried(tmp_path / "a", {where: {"SymbolErrorCounter": 5000}}, checked=32),
        queried(tmp_path / "b", {}, checked=32, at=HOUR),
        fabric=fabric,
    )
    assert [f.code for f in back] == ["counters-unknown"], "somebody cleared it, or the switch started again"
    assert {p.node for p in back[0].where} == {"leaf-1"}


def test_a_suppressed_counter_is_unknown(tmp_path: Path, fabric: str) -> None:
    where = port(fabric, "leaf-1", 1)
    files = [
        queried(
            tmp_path / n,
            {where: {"SymbolErrorCounter": v}} if v else {},
            checked=32,
            suppressed=" SymbolErrorCounter",
            at=t,
        )
        for n, v, t in (("a", 0, 0), ("b", 5000, HOUR))
    ]
    assert told(*files, fabric=fabric) == []


def test_ports_that_the_tool_did_not_look_at_are_said_as_unknown(tmp_path: Path, fabric: str) -> None:
    """``--switch`` and partial scans: 24 of 32 cabled ports, and which is not said."""
    where = port(fabric, "leaf-1", 1)
    files = [
        queried(tmp_path / n, {where: {"SymbolErrorCounter": v}}, checked=24, at=t)
        for n, v, t in (("a", 3, 0), ("b", 4, HOUR))
    ]
    seen = softib.observe(*files, fabric=fabric)
    (found,) = [f for f in softib.diagnose(seen) if f.code == "counters-unknown"]
    assert found.severity.name == "WARNING" and len(found.where) == 31 and "31 of 32" in found.message
    assert any("24 of 32" in str(p) for p in seen.problems)
