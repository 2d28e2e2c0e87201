"""Counters of a file land in the fabric's columns: ibdiagnet's .db_csv and .pm of one run tell the
same, real perfquery output reads as it prints, and what stock ibqueryerrors prints of our fabric
reads back."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from softib.errors import SoftibError, UnknownFormat, UnreadableFile
from softib.fabric.columns import NO_TEMPERATURE, CableMedium
from softib.fabric.counters import COUNTER_NAMES, DETAIL_COUNTERS
from softib.fabric.formats import registry
from softib.fabric.formats.base import ReadResult
from softib.fabric.formats.counters_text import read_counters
from softib.fabric.topologies.registry import generate
from softib.iba.smp import PortInfo
from tests.extent import examples
from tests.fabric.formats.lab import FILE, PAIR, rows
from tests.live.ibsim.tools.tool_lab import Lab

PERFQUERY = "treydock-fixtures/collectors__fixtures__perfquery"
PORTS = "treydock-fixtures/collectors__fixtures__ibnetdiscover__test.out"


@pytest.fixture(scope="module")
def result(shared_data: Path) -> ReadResult:
    return registry.read(shared_data / f"{FILE}.db_csv")


def changed(text: str, section: str, column: str, value: str, row: int = 1) -> str:
    """The text of a .db_csv with another value in one field."""
    lines = text.split("\n")
    first = lines.index(f"START_{section}") + 1
    at = lines[first].split(",").index(column)
    fields = re.findall(r'"[^"]*"|[^,]+', lines[first + row])
    fields[at] = value
    lines[first + row] = ",".join(fields)
    return "\n".join(lines)


# -- .db_csv --


def test_counters_of_both_forms_of_one_run(result: ReadResult, shared_data: Path) -> None:
    """The .pm of the same run, over the .lst, gives what the .db_csv has: every counter of every
    port."""
    other = registry.read(shared_data / f"{FILE}.lst", counters=[shared_data / f"{FILE}.pm"])
    assert other.problems == [] and "counters" in other.fabric.source.records & result.fabric.source.records
    for names, column in ((COUNTER_NAMES, "counters"), (DETAIL_COUNTERS.names, "detail_counters")):
        a, b = (
            {
                (int(f.node_guid[f.port_node[p]]), int(f.port_num[p])): getattr(f, column)[p].tolist()
                for p in np.flatnonzero(f.linked)
            }
            for f in (result.fabric, other.fabric)
        )
        assert a == b and len(a) == 542 and names


def test_every_counter_of_pm_info(result: ReadResult, shared_data: Path) -> None:
    f = result.fabric
    node = {int(g): i for i, g in enumerate(f.node_guid.tolist())}
    stopped = 0
    for row in rows(shared_data / f"{FILE}.db_csv", "PM_INFO"):
        port = int(f.port(node[int(row["NodeGUID"], 16)], int(row["PortNumber"])))
        assert int(f.counters["port_xmit_wait"][port]) == int(row["PortXmitWaitExt"])
        assert int(f.counters["port_rcv_switch_relay_errors"][port]) == int(row["PortRcvSwitchRelayErrorsExt"])
        hoq = max(int(row["PortSwHOQLifetimeLimitDiscards"]), 0)  # -1: the port does not keep it
        assert int(f.detail_counters["port_sw_hoq_lifetime_limit_discards"][port]) == hoq
        errors = max(int(row["SymbolErrorCounter"]), int(row["SymbolErrorCounterExt"]))
        assert int(f.counters["symbol_error_counter"][port]) == errors
        stopped += errors == 0xFFFF
    assert stopped > 1, "adapters whose 16-bit counter has stopped while the 64-bit one reads 0"
    grown = result.extra["counter_deltas"]
    told = [int(r["PortXmitDataExtended"]) for r in rows(shared_data / f"{FILE}.db_csv", "PM_DELTA")]
    assert sorted(grown["port_xmit_data"][f.linked].tolist()) == sorted(told)


@pytest.mark.parametrize(
    ("told", "plain", "want"),
    [
        ("4000000000", "0", 4_000_000_000),
        ("0xffffffffffffffff", "0", 2**64 - 1),
        ("0", "65535", 65535),
        ("N/A", "17", 17),
        ("-1", "9", 9),
        ("18446744073709551616", "3", 3),
        ("x", "3", 3),
    ],
)
def test_a_counter_is_64_bits_wide_or_the_narrow_one(
    told: str, plain: str, want: int, shared_data: Path, tmp_path: Path
) -> None:
    text = changed((shared_data / f"{FILE}.db_csv").read_text(), "PM_INFO", "SymbolErrorCounterExt", told)
    (tmp_path / "f").write_text(changed(text, "PM_INFO", "SymbolErrorCounter", plain))
    f = registry.read(tmp_path / "f").fabric
    assert int(f.counters["symbol_error_counter"][f.port(0, 1)]) == want


def test_a_file_without_counters_says_so(tmp_path: Path) -> None:
    (tmp_path / "f").write_text(PAIR)
    f = registry.read(tmp_path / "f").fabric
    assert (
        not f.source.records & {"counters", "temperatures", "fec", "firmware"} and not f.counters.view(np.uint8).any()
    )
    assert (f.node_temperature == NO_TEMPERATURE).all() and (f.port_fec == 255).all() and not f.node_firmware.any()


def test_temperatures_firmware_and_fec(result: ReadResult, shared_data: Path) -> None:
    f, path = result.fabric, shared_data / f"{FILE}.db_csv"
    node = {int(g): i for i, g in enumerate(f.node_guid.tolist())}
    for row in rows(path, "TEMP_SENSING"):
        assert int(f.node_temperature[node[int(row["NodeGUID"], 16)]]) == int(row["CurrentTemperature"])
    info = (shared_data / f"{FILE}.nodes_info").read_text()
    told = re.findall(r"GUID=(0x\w+)\n(?:.*\n)*?FWInfo_PSID=(\w+)\n(?:.*\n)*?FWInfo_Extended_Version=([\d.]+)", info)
    assert len(told) > 250
    for guid, psid, version in told:
        of = node[int(guid, 16)]
        assert (
            bytes(f.node_psid[of]).rstrip(b"\0").decode() == psid and ".".join(map(str, f.node_firmware[of])) == version
        )
    dump = (shared_data / f"{FILE}.net_dump").read_text()
    names = {4: "RS_FEC_544_514", 14: "MLNX_RS_271_257_PLR", 255: "N/A"}
    on_switch = f.linked & f.is_switch[f.port_node]
    for code, name in names.items():
        printed = sum(
            f" {name} " in line and "ACT" in line and line.split(":")[7].strip() == name for line in dump.split("\n")
        )
        assert int((f.port_fec[on_switch] == code).sum()) == printed, name


def test_what_ibdiagnet_complained_of(result: ReadResult, shared_data: Path) -> None:
    """Each row of the WARNINGS sections, at its node."""
    said, text = result.fabric.source.reported, (shared_data / f"{FILE}.db_csv").read_text().split("\n")
    sections = re.findall(r"START_(WARNINGS_\w+)", "\n".join(text))
    assert len(said) == sum(len(rows(shared_data / f"{FILE}.db_csv", s)) for s in sections) == 24
    for one in said:
        assert one.severity == "warning" and one.node >= 0 and one.summary in text[one.line - 1]
        assert f"{int(result.fabric.node_guid[one.node]):#x}" in text[one.line - 1]
    assert {(s.portnum, s.event) for s in said if s.scope == "PORT"} == {(65, "PORT_HIERARCHY_MISSING")}


def test_sections_that_nobody_reads_are_one_note(result: ReadResult, shared_data: Path, tmp_path: Path) -> None:
    assert result.notes == ["sections that softib does not read: PM_PORT_SAMPLES_CONTROL (542 rows)"]
    text = (shared_data / f"{FILE}.db_csv").read_text()
    made = "START_PHY_DB16\nNodeGuid,field1\n0x1,2\n0x2,2\nEND_PHY_DB16\n"
    (tmp_path / "f").write_text(text.replace("START_INDEX_TABLE", made + "START_INDEX_TABLE"))
    (note,) = registry.read(tmp_path / "f").notes
    assert note.endswith("PM_PORT_SAMPLES_CONTROL (542 rows), PHY_DB16 (2 rows)")


def test_cables(shared_data: Path, tmp_path: Path) -> None:
    """(A made-up section: the real file was written without --get_cable_info.)"""
    a, b = rows(shared_data / f"{FILE}.db_csv", "LINKS")[:2]
    made = f"""START_CABLE_INFO
NodeGuid,PortGuid,PortNum,Vendor,PN,SN,Temperature,LengthSMFiber,LengthOM4,LengthCopperOrActive
{a["NodeGuid1"]},0x0,{a["PortNum1"]},"Mellanox","MCA4J80","MT1",41C,N/A,N/A,3 m
{b["NodeGuid1"]},0x0,{b["PortNum1"]},"Other",N/A,"MT2",N/A,0.5 km,N/A,N/A
{b["NodeGuid2"]},0x0,{b["PortNum2"]},"Other",N/A,"MT3",900,N/A,30 m,N/A
END_CABLE_INFO
"""
    text = (shared_data / f"{FILE}.db_csv").read_text()
    (tmp_path / "f").write_text(text.replace("START_INDEX_TABLE", made + "START_INDEX_TABLE"))
    result = registry.read(tmp_path / "f")
    f = result.fabric
    node = {int(g): i for i, g in enumerate(f.node_guid.tolist())}
    port, far, farther = (
        int(f.port(node[int(x[f"NodeGuid{e}"], 16)], int(x[f"PortNum{e}"]))) for x, e in ((a, 1), (b, 1), (b, 2))
    )
    assert result.extra["cables"][port] == {"Vendor": "Mellanox", "PN": "MCA4J80", "SN": "MT1"}
    assert int(f.module_temperature[port]) == 41 and int(f.module_temperature[far]) == NO_TEMPERATURE
    assert f.cable_length_m[f.port_cable[port]] == 3 and f.port_cable[far] == f.port_cable[farther]
    assert (
        f.cable_medium[f.port_cable[far]] == CableMedium.MULTIMODE
        and sum("temperature" in p.reason for p in result.problems) == 1
    )


def test_tables_as_long_as_the_file_says(result: ReadResult, shared_data: Path) -> None:
    """NodeInfo.PartitionCap and SwitchInfo.PartitionEnforcementCap are the lengths of the tables
    (IBA 14.2.5.3, .4)."""
    f = result.fabric
    node = {int(g): i for i, g in enumerate(f.node_guid.tolist())}
    for row in rows(shared_data / f"{FILE}.db_csv", "NODES"):
        of = node[int(row["NodeGUID"], 16)]
        assert int(f.pkey_cap[f.port(of, 0 if f.is_switch[of] else 1)]) == int(row["PartitionCap"])
    external = f.is_switch[f.port_node] & (f.port_num > 0)
    assert set(f.pkey_cap[external].tolist()) == {32} and len(f.pkeys) == int(f.pkey_cap.astype(int).sum())


# -- text of tools --


def test_real_perfquery_output(shared_data: Path) -> None:
    """Each counter that a file prints, on the port of that LID and number."""
    path = shared_data / f"{PERFQUERY}__0x7cfe9003009ce5b0.out"
    f = registry.read(shared_data / PORTS, counters=[path]).fabric
    text = path.read_text()
    for record in text.split("# Port")[1:]:
        lid, num = map(int, re.search(r"Lid (\d+) port (\d+)", record).groups())
        switch = f.port_node[np.flatnonzero((f.lid == lid) & (f.port_num == 0))[0]]
        row = f.counters[f.port(switch, num)]
        for name, column in (
            ("PortXmitData", "port_xmit_data"),
            ("PortXmitWait", "port_xmit_wait"),
            ("QP1Dropped", "qp1_dropped"),
        ):
            assert int(row[column]) == int(re.search(rf"{name}:\.*(\d+)", record)[1]) and lid == 1719
    details = shared_data / f"{PERFQUERY}-rcv-error__0x7cfe9003009ce5b0-1.out"
    assert read_counters(details, f) == []
    said = int(re.search(r"PortBufferOverrunErrors:\.*(\d+)", details.read_text())[1])
    assert said in f.detail_counters["port_buffer_overrun_errors"].tolist()


def test_a_lid_of_two_subnets_is_named_and_counts_for_neither(tmp_path: Path) -> None:
    """LIDs are unique in a subnet only (IBA 4.1.3): perfquery's text alone names two ports here."""
    f = generate("fat-tree", radix=4, levels=2)
    ends = np.flatnonzero((f.port_num == 0) & f.is_switch[f.port_node])[:3]
    PortInfo.lid.set(f.port_info, [7, 7, 8], ends)
    name = "# Port counters: Lid {} port 0 (CapMask: 0x5300)\nPortXmitData:....................{}\n"
    (tmp_path / "p.txt").write_text(name.format(7, 70) + name.format(8, 80))
    (problem,) = read_counters(tmp_path / "p.txt", f)
    assert problem.line == 1 and "several ports of the fabric have this LID" in problem.reason
    assert f.counters["port_xmit_data"][ends].tolist() == [0, 0, 80]


@pytest.mark.stock
def test_stock_tools_read_back(stock, tmp_path: Path) -> None:
    """What ibqueryerrors prints of a running fabric, read over a fabric of the same make."""
    lab = Lab(generate("fat-tree", radix=4, levels=2), tmp_path)
    try:
        rng = np.random.default_rng(1)
        ports = np.flatnonzero(lab.f.linked)
        planted = rng.integers(1, 60_000, len(ports))
        lab.f.counters["symbol_error_counter"][ports] = planted
        lab.f.counters["port_rcv_errors"][ports[::2]] = 5
        tool = stock("ibqueryerrors")
        (tmp_path / "errors").write_text(lab.tool("stock", tool)[1])
    finally:
        lab.stop()
    f = generate("fat-tree", radix=4, levels=2)
    assert registry.detect(tmp_path / "errors").kind == "counters" and read_counters(tmp_path / "errors", f) == []
    assert f.counters["symbol_error_counter"][ports].tolist() == planted.tolist()
    assert (f.counters["port_rcv_errors"] == 5).sum() == len(ports[::2])


def test_counters_are_no_fabric_and_belong_to_one(shared_data: Path, tmp_path: Path) -> None:
    with pytest.raises(UnknownFormat, match="with --fabric FABRIC"):
        registry.read(shared_data / f"{FILE}.pm")
    with pytest.raises(UnreadableFile, match="none of its 542 records"):
        registry.read(shared_data / "fdr10-stage/topo", counters=[shared_data / f"{FILE}.pm"])
    (tmp_path / "x").write_text("nothing\n")
    with pytest.raises(UnreadableFile, match="no counters"):
        registry.read(shared_data / "fdr10-stage/topo", counters=[tmp_path / "x"])


@settings(max_examples=examples(30), deadline=None)
@given(
    lines=st.lists(
        st.sampled_from(
            [
                "Port=1 Lid=0x0007 GUID=0x2c90300000010 Device=1",
                "# Port counters: Lid 9 port 2 (",
                ("   GUID 0x2c90300000020 port 2: [PortRcvErrors == 3"),
                "   GUID 0x2c90300000020 port ALL: [PortRcvErrors == 3]",
                "# Port counters: Lid 9 port 255",
                ("# Port counters: Lid 65535 port 300"),
                "port_rcv_errors=0xffffffffffffffff",
                "PortRcvErrors:....99999999999999999999",
                "PortRcvErrors:..-1",
                "symbol_error_counter=NA",
                "",
                "Port=255 Lid=0x0 GUID=0x0",
                "=",
                "[",
                "PortXmitWait:" + "." * 4000 + "x",
            ]
        ),
        max_size=25,
    )
)
def test_hostile_counters(lines: list[str], tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("c")
    (folder / "f").write_text(PAIR)
    (folder / "c").write_text("\n".join(lines))
    f = registry.read(folder / "f").fabric
    try:
        problems = read_counters(folder / "c", f)
    except SoftibError as error:
        assert "\n" not in str(error)
        return
    assert all(1 <= p.line <= len(lines) and p.reason.isprintable() for p in problems)


def test_counters_that_name_no_port_say_so_and_are_read_with_the_line_that_does(
    shared_data: Path, tmp_path: Path
) -> None:
    """LDMS' sample of its ibnet sampler: perfquery's fields without its first line."""
    sample = shared_data / "ldms-ibnet" / "query_out"
    fabric = registry.read(shared_data / f"{FILE}.db_csv").fabric
    with pytest.raises(
        UnreadableFile,
        match=r"line 3: counters without a port; .*'# Port extended counters: Lid 12 port 1'",
    ) as error:
        read_counters(sample, fabric)
    assert "\n" not in str(error.value)
    end = int(fabric.end_ports()[-1])
    (tmp_path / "f").write_text(
        f"# Port extended counters: Lid {int(fabric.lid[end])} port {max(1, int(fabric.port_num[end]))}\n"
        + sample.read_text()
    )
    assert read_counters(tmp_path / "f", fabric) == []
    port = end if fabric.port_num[end] else end + 1
    assert (
        int(fabric.counters["port_xmit_discards"][port]) == 8900
        and int(fabric.counters["port_xmit_data"][port]) == 224862916
    )
