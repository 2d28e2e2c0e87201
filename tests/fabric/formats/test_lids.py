"""LIDs as files tell them: 65535 (IBA 4.1.3: the permissive LID) is not 0, and no router trips over it."""

from __future__ import annotations

from pathlib import Path

import pytest

from softib.diags.check import check
from softib.fabric.formats import registry
from softib.fabric.formats.lft.dump import write_lfts
from softib.scenario.graph_view import graph_of
from tests.fabric.formats.lab import FILE, PAIR, PORTS

LST = """\
{ CA Ports:01 SystemGUID:2 NodeGUID:2 PortGUID:3 VenID:000002C9 DevID:101B Rev:00000000 {h} LID:ffff PN:01 } \
{ SW Ports:24 SystemGUID:1 NodeGUID:1 PortGUID:1 VenID:000002C9 DevID:D2F0 Rev:00000000 {s} LID:0002 PN:04 } PHY=4x LOG=ACT SPD=25
"""


@pytest.fixture(params=["ibnetdiscover", "ibnetdiscover-ports", "lst", "db_csv"])
def told(request, shared_data: Path) -> str:
    """A file of each format in which one CA port has LID 65535."""
    if request.param == "ibnetdiscover":
        return PAIR.replace("lid 9 ", "lid 65535 ")
    if request.param == "ibnetdiscover-ports":
        return PORTS.replace("CA   134", "CA 65535")
    if request.param == "lst":
        return LST
    text = (shared_data / f"{FILE}.db_csv").read_text()
    return text.replace(",180,156,", ",180,65535,", 1)


def test_permissive_is_not_zero(told: str, tmp_path: Path) -> None:
    (tmp_path / "f").write_text(told)
    result = registry.read(tmp_path / "f")
    f = result.fabric
    assert not [p for p in result.problems if "LID" in p.reason]
    (port,) = [p for p in f.end_ports().tolist() if f.lid[p] == 0xFFFF]
    findings = check(f, problems=result.problems)
    (said,) = [x for x in findings if x.code == "lid-out-of-range"]
    assert (
        "65535" in said.message and "permissive" in said.message and f.node_name(int(f.port_node[port])) in said.message
    )
    assert not any(f.node_name(int(f.port_node[port])) in x.message for x in findings if x.code == "lid-zero")
    graph = graph_of(f)  # tables of the others can still be judged and written
    assert graph.max_lid < 0xC000 and int(f.port_node[port]) not in graph.end_node[graph.end_portnum > 0]
    write_lfts(f, f.lft, tmp_path / "x.lft")


@pytest.mark.parametrize("lid", ["65536", "99999999999", "-1", "0x7", "x"])
def test_what_is_no_lid_is_told(lid: str, tmp_path: Path) -> None:
    (tmp_path / "f").write_text(PAIR.replace("lid 9 ", f"lid {lid} "))
    result = registry.read(tmp_path / "f")
    assert any("LID" in p.reason or "cannot read" in p.reason for p in result.problems) and result.counts["links"] == 1
