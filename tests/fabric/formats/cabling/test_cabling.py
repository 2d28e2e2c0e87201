"""Cabling lists: real UFM-NDT files, P2P sheets, and everything a spreadsheet can do to them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from softib.errors import UnreadableFile
from softib.fabric.builder import FabricBuilder
from softib.fabric.columns import CableMedium
from softib.fabric.formats.cabling.csv import parse_cabling
from softib.fabric.formats.cabling.match import match_plan
from softib.fabric.formats.cabling.plan import CablingPlan, read_plan, write_plan
from softib.fabric.model import Fabric
from softib.iba.constants import NodeType
from softib.iba.node_description import PortLabel, portnum_of_label
from softib.iba.rates import SPEED_BY_CODE

NDT = "plugins__UFM_NDT_Plugin__tests__other_ndts__"


def test_real_switch_to_switch_list(shared_data: Path) -> None:
    plan = read_plan(shared_data / f"ufm-ndt/{NDT}ndt.csv")
    # 20 leaves x 20 uplinks: what the names in the file say.
    assert len(plan) == 400 and plan.format == "ufm-ndt"
    assert len(np.unique(plan.node[:, 0])) == 20 and len(np.unique(plan.rack[:, 1])) == 10
    # A slip of the real file: ten chassis stand in ten racks, but two of them bear one name.
    assert said(plan) == [
        (
            12,
            (
                "DSM07-0101-0801-02IB1 is in rack F01C04-DX448, but at line 4 in F01C04-DR448: one name for several "
                "devices"
            ),
        )
    ]
    assert (plan.portnum[:, 0] >= 21).all() and (plan.portnum[:, 0] <= 40).all()
    assert (plan.portnum[:, 1] == 0).all()  # "Blade 1_Port 1/1" needs the chassis
    assert plan.rack[0].tolist() == ["F01C04-DR426", "F01C04-DR429"] and plan.u[0].tolist() == [41, 25]
    assert (plan.length_m[0], SPEED_BY_CODE[int(plan.speed[0])].name, int(plan.lanes[0])) == (10.0, "HDR", 4)
    assert plan.line[0] == 2 and plan.line[-1] == 401 and not plan.conflict.any()


def test_real_host_to_switch_list(shared_data: Path) -> None:
    plan = read_plan(shared_data / f"ufm-ndt/{NDT}ndth2s.csv")
    assert len(plan) == 320
    assert plan.node[0].tolist() == ["Server 1", "DSM07-0101-0806-01IB0"]
    assert plan.label[0].tolist() == ["IB Port 1", "Port 1"] and plan.portnum[0].tolist() == [1, 1]
    assert plan.rack[0].tolist() == ["F01C04-DX413", "F01C04-DR426"] and plan.u[0].tolist() == [3, 41]
    # Forty servers of eight ports: four numbers, told apart by rack.
    machines = {(n, r) for n, r in zip(plan.node[:, 0], plan.rack[:, 0], strict=True)}
    assert len(machines) == 40 and len(set(plan.node[:, 0])) == 4
    assert [p.reason.split(" is in rack")[0] for p in plan.problems] == [
        "Server 1",
        "Server 2",
        "Server 3",
        "Server 4",
    ]


@pytest.mark.parametrize(("label", "expected"), [
    ("7", PortLabel(7)), ("Port 7", PortLabel(7)), ("P07", PortLabel(7)), ("swp7", PortLabel(7)),
    ("IB Port 3", PortLabel(3)), ("IB1/7", PortLabel(7)), ("1/7", PortLabel(7)), ("Port 1/7", PortLabel(7)),
    ("1/5/2", PortLabel(10)), ("IB1/5/2", PortLabel(10)), ("5/2", PortLabel(10)), ("swp5s1", PortLabel(10)),
    ("mlx5_3/1", PortLabel(1, "mlx5_3")), ("mlx5_3", PortLabel(1, "mlx5_3")), ("HCA-2/2", PortLabel(2, "hca-2")),
    ("Blade 2_Port 1/5", PortLabel(5, "", "L2", 1)), ("Blade 16_Port 2/20", PortLabel(20, "", "L16", 2)),
    ("L16/U2/P20", PortLabel(20, "", "L16", 2)), ("leaf 16 u2 port 20", PortLabel(20, "", "L16", 2)),
    ("S03/U1/P4", PortLabel(4, "", "S3", 1)), ("Spine 3_Port 1/4", PortLabel(4, "", "S3", 1)),
    ("L1/P5", PortLabel(5, "", "L1")), ("ibp11s0f0", PortLabel(1, "ibp11s0f0")), ("", PortLabel()), ("0", PortLabel()), ("255", PortLabel()),
    ("ib0", PortLabel()), ("L16/U2/1/20", PortLabel()), ("5/3", PortLabel()), ("2/5/1", PortLabel()), ("eth", PortLabel()),
])  # fmt: skip # a packed list of short values
def test_rule_for_port_labels(label: str, expected: PortLabel) -> None:
    if label == "ib0":
        # ib0 is the first IPoIB interface, not port 0: no port of a fabric.
        assert portnum_of_label(label).portnum == 0
        return
    assert portnum_of_label(label) == expected


def test_twin_port_rule_is_that_of_a_real_ndr_fabric(shared_data: Path) -> None:
    registry = pytest.importorskip("softib.fabric.formats.registry")
    f = registry.read(shared_data / "sequoia-ndr-ibdiagnet/data__ibdiagnet2__ibdiagnet2.ibnetdiscover").fabric
    labels = {p: x for p, x in f.port_label.items() if f.is_switch[f.port_node[p]] and x.count("/") == 2}
    assert len(labels) > 250
    assert all(portnum_of_label(x).portnum == f.port_num[p] for p, x in labels.items())


P2P = "A-Rack,A-U,A-Node,A-Port,Z-Rack,Z-U,Z-Node,Z-Port,Cable Length,Cable Type,Speed\n"


def rows(text: str, header: str = P2P) -> CablingPlan:
    return parse_cabling(header + text, "sheet.csv")


def said(plan: CablingPlan) -> list[tuple[int, str]]:
    return [(p.line, p.reason) for p in plan.problems]


def test_p2p_sheet() -> None:
    plan = rows(
        'R1,U40,leaf-1,1/1/1,R2,12,"spine, 1",Port 3,7.5 m,AOC NDR,400G\nR1,,leaf-1,1/1/2,R9,U1,h1,mlx5_0/1,10 '
        "ft,DAC,HDR 2x\n"
    )
    assert plan.format == "p2p" and plan.problems == []
    assert plan.node.tolist() == [["leaf-1", "spine, 1"], ["leaf-1", "h1"]]
    assert plan.portnum.tolist() == [[1, 3], [2, 1]] and plan.u.tolist() == [[40, 12], [0, 1]]
    assert plan.length_m.tolist() == pytest.approx([7.5, 3.048])
    assert plan.medium.tolist() == [CableMedium.AOC, CableMedium.DAC]
    assert [SPEED_BY_CODE[int(s)].name for s in plan.speed] == ["NDR", "HDR"] and plan.lanes.tolist() == [4, 2]


@pytest.mark.parametrize(
    "header",
    [
        "Source,Source Port,Destination,Destination Port",
        "From Node\tFrom Port\tTo Node\tTo Port",
        "a_node;a_port;z_node;z_port",
        "#Fields:StartDevice,StartPort,EndDevice,EndPort",
    ],
)
def test_other_headings_and_delimiters(header: str) -> None:
    if header.startswith("Source"):
        header = header.replace("Source,", "Source Node,").replace("Destination,", "Destination Node,")
    delimiter = next(d for d in ",;\t" if d in header)
    plan = parse_cabling(f"{header}\n" + delimiter.join(["a", "1", "b", "2"]) + "\n", "x.csv")
    assert plan.node.tolist() == [["a", "b"]] and plan.portnum.tolist() == [[1, 2]] and plan.problems == []


@pytest.mark.parametrize(
    "dress",
    [
        lambda b: b"\xef\xbb\xbf" + b,
        lambda b: b.replace(b"\n", b"\r\n"),
        lambda b: b.replace(b"\n", b"\r"),
        lambda b: b.decode().encode("utf-16"),
        lambda b: b.rstrip(b"\n"),
        lambda b: b"Cabling of hall 3\n\n" + b,
    ],
)
def test_what_spreadsheets_do_to_a_file_changes_nothing(dress, tmp_path: Path) -> None:
    (tmp_path / "s.csv").write_bytes(dress((P2P + "R1,U4,a,1,R2,U5,b,2,3,DAC,HDR\n").encode()))
    plan = read_plan(tmp_path / "s.csv")
    assert plan.node.tolist() == [["a", "b"]] and plan.length_m.tolist() == [3.0] and plan.problems == []


def test_bad_rows_are_named_and_the_rest_is_kept() -> None:
    plan = rows(
        "R1,U4,a,1,R2,U5,b,1,3,DAC,HDR\n"
        "R1,U4,a,,R2,U5,b,2,3,DAC,HDR\n"
        "R1,U4,a,3\n"
        'R1,U4,"a,4,R2,U5,b,4,3,DAC,HDR\n'
        "R1,Q4,a,5,R2,U5,b,5,long,DAC,fast\n"
        "R1,U4,a,6,R2,U5,b,6,-3,DAC,HDR\n"
        ",,,,,,,,,,\n"
        "R1,U4,a,1,R2,U5,c,1,3,DAC,HDR\n"
        "R2,U5,b,5,R1,U4,a,5,3,DAC,HDR\n"
        "R1,U4,a,9,R1,U4,A,9,3,DAC,HDR\n"
    )
    assert said(plan) == [
        (3, "no first port; the row is skipped"),
        (4, "no second device and no second port; the row is skipped"),
        (5, "unclosed quote; the row is skipped"),
        (6, "'Q4' is not a rack unit like U12; read as unknown"),
        (6, "'long' is not a cable length in metres; read as unknown"),
        (6, "'fast' is not an InfiniBand rate; read as unknown"),
        (7, "'-3' is not a cable length in metres; read as unknown"),
        (9, "a 1 already has a cable at line 2"),
        (11, "both ends are a 9; a cable has two ends"),
    ]
    assert plan.line.tolist() == [2, 6, 7, 9, 10, 11]
    assert plan.conflict.tolist() == [False, False, False, True, False, True]
    assert plan.repeats.tolist() == [-1, -1, -1, -1, 1, -1]  # line 10 is line 6 from the other end
    assert np.isnan(plan.length_m[1]) and plan.speed[1] == 0


def test_a_device_keeps_the_number_that_is_its_own() -> None:
    """leaf-3 port 3 is not port 3 of "leaf"."""
    plan = rows(",,leaf-3,3,,,core P1,P1,,,\n,,Server 1 IB Port 2,IB Port 2,,,h_Port 1,Port 1,,,\n")
    assert plan.node.tolist() == [["leaf-3", "core P1"], ["Server 1", "h_Port 1"]]


def test_missing_columns_and_no_rows_are_one_line() -> None:
    for text in ("A-Rack,A-Node,A-Port,Z-Rack\nR1,a,1,R2\n", P2P, P2P + ",,,,\n", ""):
        with pytest.raises(UnreadableFile) as caught:
            parse_cabling(text, "sheet.csv")
        assert "sheet.csv" in str(caught.value) and "\n" not in str(caught.value)


def test_excel_workbook_is_told_how_to_become_readable(tmp_path: Path) -> None:
    (tmp_path / "p.xlsx").write_bytes(b"PK\x03\x04....")
    with pytest.raises(UnreadableFile, match="save the sheet as CSV"):
        read_plan(tmp_path / "p.xlsx")
    with pytest.raises(UnreadableFile, match=r"nowhere\.csv"):
        read_plan(tmp_path / "nowhere.csv")


def test_written_plan_reads_back(shared_data: Path, tmp_path: Path) -> None:
    for name in ("ndt.csv", "ndth2s.csv"):
        plan = read_plan(shared_data / f"ufm-ndt/{NDT}{name}")
        write_plan(plan, tmp_path / "p.csv")
        again = read_plan(tmp_path / "p.csv")
        for column in ("node", "label", "portnum", "rack", "u", "length_m", "medium", "speed", "lanes"):
            assert np.array_equal(getattr(plan, column), getattr(again, column)), column


# -- finding the ends in a fabric --


def small() -> Fabric:
    b = FabricBuilder("small")
    b.nodes(
        4,
        NodeType.SWITCH,
        40,
        desc=["MF0;leaf-1:MQM8700/U1", "MF0;Leaf-2:MQM8700/U1", "MF0;core:CS8500/L01/U1", "MF0;core:CS8500/L02/U1"],
        speed="HDR",
    )
    b.nodes(3, NodeType.CA, 1, desc=["h1 mlx5_0", "h1 mlx5_1", "h2 HCA-1"], speed="HDR")
    b.links([0, 0, 1, 0, 1], [1, 2, 1, 30, 30], [4, 5, 6, 2, 3], [1, 1, 1, 5, 6], length_m=[1, 2, 3, 4, 5])
    f = b.build()
    f.port_label[int(f.port(0, 30))] = "1/15/2"
    return f


def test_ends_are_found_by_what_people_call_them() -> None:
    f = small()
    plan = rows(
        ",,leaf-1,Port 1,,,h1,mlx5_0/1,,,\n"
        ",,LEAF-2,IB1/1,,,h2,1,,,\n"
        ",,MF0;leaf-1:MQM8700/U1,1/15/2,,,core,Blade 1_Port 1/5,,,\n"
        f",,{int(f.node_guid[1]):#018x},30,,,core,Blade 2_Port 1/6,,,\n"
    )
    got = match_plan(plan, f)
    assert got.problems == []
    at = f.port
    expected = [(at(0, 1), at(4, 1)), (at(1, 1), at(6, 1)), (at(0, 30), at(2, 5)), (at(1, 30), at(3, 6))]
    assert got.port.tolist() == [[int(a), int(b)] for a, b in expected]


@pytest.mark.parametrize(
    ("planned", "found"),
    [
        (["h1,1", "h2,1"], [2, 3]),
        (["h1,0", "h2,HCA-0"], [2, 3]),
        (["h1,1", "h1,2"], [-1, -1]),
        (["h1,HCA 3", "h2,hca-7"], [2, 3]),
        (["h1,mlx5_0", "h1,1"], [2, -1]),
        (["h3,1", "h2,1"], [-1, 3]),
    ],
)
def test_a_number_is_the_adapter_of_a_host_with_one(planned, found) -> None:
    """Two planned adapters of a host with one leave open which of them is absent; h3 has two without names."""
    b = FabricBuilder("plain")
    b.nodes(2, NodeType.SWITCH, 40, desc=["leaf-1", "leaf-2"], speed="HDR")
    b.nodes(4, NodeType.CA, 1, desc=["h1", "h2", "h3", "h3"], speed="HDR")
    b.links([0, 0, 1, 1], [1, 2, 1, 2], [2, 3, 4, 5], [1, 1, 1, 1])
    fabric = b.build()
    ends = "".join(f"leaf-1,{n},{host}\n" for n, host in enumerate(planned, 1))
    plan = rows(ends, "Switch,Switch Port,Server,HCA\n")
    nodes = [int(fabric.port_node[p]) if p >= 0 else -1 for p in match_plan(plan, fabric).port[:, 1].tolist()]
    assert nodes == found


def test_what_cannot_be_told_is_a_problem_not_a_guess() -> None:
    plan = rows(
        ",,leaf-3,1,,,h1,1,,,\n"
        ",,leaf-1,99,,,h1,mlx5_7/1,,,\n"
        ",,leaf-1,ib0,,,core,Blade 7_Port 1,,,\n"
        ",,leaf-3,2,,,core,3,,,\n"
    )
    got = match_plan(plan, small())
    assert (got.port == -1).all()
    assert [(p.line, p.reason) for p in got.problems] == [
        (2, "no node 'leaf-3' in the fabric; similar: Leaf-2, leaf-1"),
        (2, "h1 1: the name stands for 2 nodes (h1 mlx5_0, h1 mlx5_1) and '1' does not distinguish them"),
        (3, "leaf-1 99: MF0;leaf-1:MQM8700/U1 has no port 99; its ports are 1 to 40"),
        (3, "h1 mlx5_7/1: it has no adapter mlx5_7; its nodes are h1 mlx5_0, h1 mlx5_1"),
        (4, "leaf-1 ib0: 'ib0' has no port number and is not a label of MF0;leaf-1:MQM8700/U1"),
        (4, "core Blade 7_Port 1: it has no card L7; its cards are L1 to L2"),
        (
            5,
            "core 3: the name stands for 2 nodes (MF0;core:CS8500/L01/U1, MF0;core:CS8500/L02/U1) and '3' does not "
            "distinguish them",
        ),
    ]


def test_a_fabric_is_a_plan_of_itself() -> None:
    f = small()
    plan = CablingPlan.from_fabric(f)
    assert len(plan) == f.sizes.cables and plan.length_m.tolist() == [1, 2, 3, 4, 5]
    got = match_plan(plan, f)
    assert got.problems == [] and np.array_equal(got.port, f.cable_port)


def test_plan_in_names_of_ibdm_finds_a_fabric_in_other_names() -> None:
    b = FabricBuilder("plain")
    b.nodes(2, NodeType.SWITCH, 8, desc=["leaf-1", "spine-1/U1"])
    b.links(0, 1, 1, 2)
    got = match_plan(rows(",,leaf-1/U1,1,,,spine-1,2,,,\n"), b.build())
    assert got.problems == [] and got.node.tolist() == [[0, 1]]


def test_any_fabric_file_is_a_plan(shared_data: Path) -> None:
    pytest.importorskip("softib.fabric.formats.registry")
    plan = read_plan(shared_data / "ibutils-clusters/Buffalo8.topo", ibnl_dirs=[shared_data / "ibutils-ibnl"])
    assert len(plan) == 30 and plan.format == "fabric" and plan.label[0].tolist() == ["P1", "P1"]
