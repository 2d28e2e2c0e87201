"""ibdiagnet2's three files of one fabric tell the same, and PortInfo holds what the .db_csv's
columns say."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import softib
from softib.errors import UnreadableFile
from softib.fabric.formats import registry
from softib.fabric.formats.base import ReadResult
from softib.fabric.formats.ibdiagnet.db_csv_columns import PORT_INFO
from softib.fabric.model import Fabric
from softib.fabric.power_up import active_speed_codes
from softib.iba.rates import SPEED_BY_NAME
from softib.iba.smp import PortInfo, SwitchInfo
from tests.fabric.formats.ibsim import links, node_ids
from tests.fabric.formats.lab import FILE, rows


@pytest.fixture(scope="module")
def path(shared_data: Path) -> Path:
    return shared_data / f"{FILE}.db_csv"


@pytest.fixture(scope="module")
def result(path: Path) -> ReadResult:
    return registry.read(path)


def ends(f: Fabric, column: np.ndarray) -> dict[tuple[int, int], int]:
    """(NodeGUID, portnum) → value of a port column, of linked ports and ports 0."""
    use = f.linked | (f.is_switch[f.port_node] & (f.port_num == 0))
    return {(int(f.node_guid[f.port_node[p]]), int(f.port_num[p])): int(column[p]) for p in np.flatnonzero(use)}


@pytest.mark.parametrize("suffix", [".ibnetdiscover", ".lst"])
def test_the_three_files_tell_one_fabric(result: ReadResult, shared_data: Path, suffix: str) -> None:
    other = registry.read(shared_data / f"{FILE}{suffix}")
    assert result.problems == [] and other.problems == []
    a, b = result.fabric, other.fabric
    assert node_ids(a) == node_ids(b) and links(a) == links(b) and sorted(a.node_names()) == sorted(b.node_names())
    assert ends(a, a.lid) == ends(b, b.lid)
    width = PortInfo.link_width_active.get
    codes = [active_speed_codes(f.port_info, f.port_mlnx_speed) for f in (a, b)]
    linked = [f.linked for f in (a, b)]
    assert {codes[i][linked[i]].min() for i in (0, 1)} == {SPEED_BY_NAME["NDR"].code}
    assert (width(a.port_info)[a.linked] == 2).all() and (width(b.port_info)[b.linked] == 2).all()
    assert sorted(a.port_guid[a.linked].tolist()) == sorted(b.port_guid[b.linked].tolist())


def test_every_port_info_component(result: ReadResult, path: Path) -> None:
    f = result.fabric
    node = {int(g): i for i, g in enumerate(f.node_guid.tolist())}
    seen = 0
    for row in rows(path, "PORTS"):
        image = f.port_info[f.port(node[int(row["NodeGuid"], 16)], int(row["PortNum"]))]
        for column, name in PORT_INFO.items():
            text = row[column]
            if text == "N/A" or (column == "PortState" and text == "0"):
                continue
            assert int(getattr(PortInfo, name).get(image)) == int(text, 0), (row["NodeGuid"], row["PortNum"], column)
            seen += 1
        assert int(PortInfo.link_speed_active.get(image)) == int(row["LinkSpeedActv"]) & 0xFF
        assert int(PortInfo.link_speed_ext_active.get(image)) == int(row["LinkSpeedActv"]) >> 8
        assert int(PortInfo.link_speed_ext_supported.get(image)) == int(row["LinkSpeedSup"]) >> 8
    assert seen > 551 * 40


def test_switch_info_sms_pkeys_counters_and_labels(result: ReadResult, path: Path) -> None:
    f = result.fabric
    assert SwitchInfo.mcast_fdb_cap.get(f.switch_info).tolist() == [
        int(r["MCastFDBCap"]) for r in rows(path, "SWITCHES")
    ]
    assert f.source.sms == [{"node": 0, "portnum": 0, "priority": 12, "state": 3}]
    assert f.source.records == {
        "lids",
        "lmcs",
        "states",
        "speeds",
        "capabilities",
        "sm",
        "counters",
        "temperatures",
        "fec",
        "firmware",
    }
    pkeys = rows(path, "PKEY")
    assert int((f.pkeys == 0xFFFF).sum()) >= sum(r["PKey"] == "0x7fff" and r["Membership"] == "1" for r in pkeys)
    told = rows(path, "PM_INFO")
    assert int(f.counters["port_xmit_data"].sum()) == sum(int(r["PortXmitDataExtended"]) for r in told)
    assert int(f.counters["port_xmit_wait"].sum()) == sum(int(r["PortXmitWaitExt"]) for r in told)
    assert f.port_label[int(f.port(0, 1))] == "1/1/1"


def test_a_cut_file_is_kept_and_told(path: Path, tmp_path: Path) -> None:
    raw = path.read_bytes()
    cut = tmp_path / "cut.db_csv"
    for at in (60_000, 100_000, 340_000, 430_000, 965_900):
        cut.write_bytes(raw[:at])
        result = registry.read(cut)
        assert result.counts["switches"] == 9 and result.problems
        assert any("truncated" in p.reason and p.line == raw[:at].count(b"\n") + 1 for p in result.problems)
    cut.write_bytes(raw[: raw.index(b"NodeDesc,")])
    with pytest.raises(UnreadableFile):
        registry.read(cut)


def test_lost_and_edited_rows_are_told(path: Path, tmp_path: Path) -> None:
    lines = path.read_text().split("\n")
    links_at = lines.index("START_LINKS")
    del lines[links_at + 10]
    ports_at = lines.index("START_PORTS")
    lines[ports_at + 2] = lines[ports_at + 2] + ",7"
    lines[ports_at + 4] = lines[ports_at + 4].replace(",2,19,19,", ",999,x,19,")
    bad = tmp_path / "bad.db_csv"
    bad.write_text("\n".join(lines))
    result = registry.read(bad)
    told = {p.line: p.reason for p in result.problems}
    assert result.counts["links"] == 270
    assert "55 fields" in told[ports_at + 3] and "not a number" in told[ports_at + 5]
    assert any("does not fit" in p.reason and p.line == ports_at + 5 for p in result.problems)
    assert sum("the index says" in p.reason for p in result.problems) == 2


def test_links_of_unknown_nodes(path: Path, tmp_path: Path) -> None:
    text = path.read_text()
    guid = "0xb0cf0e0300e5b940"  # a switch
    head, nodes = text.split("START_NODES", 1)
    nodes, rest = nodes.split("END_NODES", 1)
    nodes = "\n".join(line for line in nodes.split("\n") if f"{guid},{guid}" not in line)
    lost = tmp_path / "lost.db_csv"
    lost.write_text(f"{head}START_NODES{nodes}END_NODES{rest}")
    result = registry.read(lost)
    dangling = sum(guid in line for line in text.split("START_LINKS")[1].split("END_LINKS")[0].split("\n"))
    assert result.counts["dangling"] == dangling > 0 and result.counts["links"] == 271
    assert sum("no node has GUID 0xb0cf0e0300e5b940" in p.reason for p in result.problems) > 0


def test_cable_lengths(path: Path, tmp_path: Path) -> None:
    """(A made-up section: the real file was written without --get_cable_info.)"""
    link = rows(path, "LINKS")[0]
    made = f"""START_CABLE_INFO
NodeGuid,PortGuid,PortNum,Vendor,LengthSMFiber,LengthCopperOrActive
{link["NodeGuid1"]},0x0,{link["PortNum1"]},"Mellanox",N/A,3 m
{link["NodeGuid2"]},0x0,{link["PortNum2"]},"Mellanox",N/A,7
END_CABLE_INFO
"""
    more = tmp_path / "more.db_csv"
    more.write_text(path.read_text().replace("START_INDEX_TABLE", made + "START_INDEX_TABLE"))
    f = registry.read(more).fabric
    assert f.cable_length_m[~np.isnan(f.cable_length_m)].tolist() == [3.0] and "lengths" in f.source.records


POWER = """
START_POWER_SUPPLIES
NodeGuid,PSUIndex,IsPresent,IsFRU,ACInput,DCState,AlertState,FanState,TemperatureState,PowerConsumption,SerialNumber
{guid},0,YES,YES,OK,OK,OK,OK,OK,71,"MT1944X10558"
{guid},1,YES,YES,OK,{dc},OK,OK,OK,0,"MT1944X10555"
{guid},2,NO,N/A,N/A,N/A,N/A,N/A,N/A,0,"N/A"
END_POWER_SUPPLIES
START_FANS_SPEED
NodeGuid,SensorIndex,FanSpeed
{guid},1,8493
{guid},2,{rpm}
{guid},3,N/A
{guid},4,-1
END_FANS_SPEED
"""


@pytest.mark.parametrize(
    ("dc", "rpm", "messages"),
    [
        ("OK", 7349, []),
        ("ERROR", 7349, ["power supply 1 of {name}: DCState ERROR"]),
        ("ERROR", 0, ["power supply 1 of {name}: DCState ERROR", "fan 2 of {name}: 0 rpm"]),
    ],
)
def test_a_dead_power_supply_and_a_fan_that_stands_are_findings(path: Path, tmp_path: Path, dc, rpm, messages) -> None:
    """What is absent, or states no value, is no fault."""
    f = registry.read(path).fabric
    before = len(f.source.reported)
    switch = int(f.switch_node[0])
    text = POWER.format(guid=f"{int(f.node_guid[switch]):#018x}", dc=dc, rpm=rpm)
    cut = tmp_path / "x.db_csv"
    cut.write_text(path.read_text() + text)
    read = registry.read(cut)
    added = [r for r in read.fabric.source.reported if r.check in ("POWER_SUPPLIES", "FANS_SPEED")]
    name = f.node_name(switch)
    assert [r.summary for r in added] == [m.format(name=name) for m in messages]
    assert len(read.fabric.source.reported) == before + len(messages) and read.problems == []
    found = [x for x in softib.check(cut) if x.evidence.get("check") in ("POWER_SUPPLIES", "FANS_SPEED")]
    assert sorted(x.severity.name for x in found) == ["WARNING"] * len(messages)
