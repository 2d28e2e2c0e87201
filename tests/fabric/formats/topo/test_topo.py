"""``.topo`` and IBNL reading: real files by their counts, hostile ones by what is said about them."""

from __future__ import annotations

import contextlib
import csv
from pathlib import Path

import numpy as np
import pytest

from softib.errors import InputError, UnreadableFile
from softib.fabric.formats.base import ReadResult
from softib.fabric.formats.registry import detect
from softib.fabric.formats.topo.ibnl import parse_ibnl, read_ibnl
from softib.fabric.formats.topo.ibnl_expand import expand
from softib.fabric.formats.topo.reader import parse_topo
from softib.fabric.formats.topo.reader import read as read_topo
from tests.conftest import find_shared_data


def topo_rows() -> list[tuple[str, int]]:
    shared = find_shared_data()
    if shared is None:
        return []
    with (shared / "COUNTS.tsv").open() as file:
        rows = csv.DictReader(file, delimiter="\t")
        return [(r["file"], int(r["links"])) for r in rows if r["format"].startswith("topo")]


@pytest.mark.parametrize(("file", "links"), topo_rows())
def test_links_between_systems_are_those_of_counts(file: str, links: int, shared_data: Path) -> None:
    result = read_topo(shared_data / file, ibnl_dirs=[shared_data / "ibutils-ibnl"])
    assert result.counts["system_links"] == result.fabric.source.system_links == links
    # MTS400 has no description anywhere; ibdm refuses the file for it.
    unknown = ["MTS400"] if file.endswith("credit-loops.topo") else []
    assert [p.reason.split()[4] for p in result.problems] == unknown


def test_all_25_real_system_descriptions_parse_without_a_problem(shared_data: Path) -> None:
    files = sorted((shared_data / "ibutils-ibnl").glob("*.ibnl"))
    assert len(files) == 25
    for file in files:
        ibnl = read_ibnl(file)
        template = expand(ibnl, {})
        assert ibnl.problems == [] and template.problems == [] and template.panel, file


@pytest.mark.parametrize(
    ("name", "chips", "panel"),
    [
        # External ports as the vendors' data sheets have them.
        ("IS5100", 9, 108),
        ("IS5200", 18, 216),
        ("IS5300", 27, 324),
        ("MIS5600", 54, 648),
        ("MTS3610", 27, 324),
        ("SUNDCS648QDR", 54, 648),
        ("SUNDCS72QDR", 6, 72),
        ("MTS14400", 18, 144),
        ("Gazelle", 68, 96),
    ],
)
def test_known_chassis_have_their_ports(name: str, chips: int, panel: int, shared_data: Path) -> None:
    template = expand(read_ibnl(shared_data / "ibutils-ibnl" / f"{name}.ibnl"), {})
    assert (len(template.chips), len(template.panel)) == (chips, panel)


def test_rhino_topo_has_the_links_that_ibdiagnet_found_on_it(shared_data: Path) -> None:
    """RhinoBased512.lst is what ibdiagnet found on the cluster that RhinoBased512.topo describes:
    2752 links."""
    result = read_topo(shared_data / "ibutils-clusters/RhinoBased512.topo", ibnl_dirs=[shared_data / "ibutils-ibnl"])
    assert result.fabric.sizes.cables == 2752


CHASSIS = """
SYSTEM LEAF,LEAF:4x

NODE SW 4 MT43132 U1
   1 -4x-5G-> P1
   2 -> P2
   3 -> P3
   4 -> P4

SYSTEM LEAF:12x
NODE SW 4 MT43132 U1
   1 -12x-> Q1
   2 -> P2

TOPSYSTEM Box,BX
U1=isChaBma
SUBSYSTEM LEAF leaf1
   P1 -> L1/P1
   P2 -10G-> leaf2 P2
   Q1 -> L1/P1-12x
   P4 -> L1/P4
SUBSYSTEM LEAF leaf2
   P1 -> L2/P1
   P2 -> leaf1 P2
"""


def read_text(text: str, tmp_path: Path, ibnl: str = CHASSIS) -> ReadResult:
    (tmp_path / "box.ibnl").write_text(ibnl)
    return parse_topo(text, str(tmp_path / "net.topo"))


def reasons(result: ReadResult) -> list[tuple[int, str]]:
    return [(p.line, p.reason) for p in result.problems]


def test_description_beside_the_file_is_found_and_told_folders_win(tmp_path: Path) -> None:
    result = read_text("BX A\n  L1/P1 -> Box B L2/P1\n", tmp_path)
    assert result.problems == [] and result.fabric.node_names() == [
        "A/leaf1/U1",
        "A/leaf2/U1",
        "B/leaf1/U1",
        "B/leaf2/U1",
    ]
    other = tmp_path / "other"
    other.mkdir()
    (other / "x.ibnl").write_text("TOPSYSTEM Box\nNODE CA 1 MT25204 U1\n  1 -> L2/P1\n")
    told = parse_topo("BX A\n  L1/P1 -> Box B L2/P1\n", str(tmp_path / "net.topo"), ibnl_dirs=[other])
    assert told.fabric.node_names() == ["A/leaf1/U1", "A/leaf2/U1", "B/U1"]
    assert [int(t) for t in told.fabric.node_type] == [2, 2, 1]


def test_systems_labels_and_guids(tmp_path: Path) -> None:
    f = read_text("Box A\n  L1/P1 -> Box B L2/P1\n", tmp_path).fabric
    assert [f.node_system[n] for n in range(4)] == ["A", "A", "B", "B"]
    assert len(set(f.sys_guid[:2].tolist())) == 1 and f.sys_guid[0] != f.sys_guid[2]
    assert len(set(f.node_guid.tolist())) == 4
    ends = {f.port_label[int(p)] for p in f.cable_port[f.cable_port[:, 0] == f.port(0, 1)][0]}
    assert ends == {"L1/P1", "L2/P1"}
    assert f.device_id[0] == 43132


def test_same_file_same_bytes(tmp_path: Path) -> None:
    a, b = (read_text("Box A\n  L1/P1 -> Box B L2/P1\n", tmp_path).fabric for _ in range(2))
    assert all(
        np.array_equal(getattr(a, c), getattr(b, c)) for c in ("node_guid", "port_info", "cable_port", "node_desc")
    )


def test_modifier_takes_another_board_and_its_ports(tmp_path: Path) -> None:
    result = read_text("Box A CFG: leaf1=12x\n  L1/P1-12x -> Box B L1/P1\n  L1/P1 -> Box B L2/P1\n", tmp_path)
    assert reasons(result) == [(3, "Box A has no port L1/P1; near: L2/P1, L1/P1-12x")]
    assert result.counts["system_links"] == 1


def test_bad_lines_are_named_and_the_rest_is_kept(tmp_path: Path) -> None:
    text = (
        "   P1 -> Box A L1/P1\n"  # before any section
        "Box A CFG: leaf9=R leaf1\n"
        "  L1/P1 -4x-> Box B L1/P1\n"
        "  L1/P1 -> Box C L1/P1\n"  # taken
        "  L9/P1 -> Box C L1/P1\n"
        "  L1/P4 -3x-> Box C L1/P4\n"
        "  L1/P4 -7G-> Box C L1/P4\n"
        "  L1/P4 -> Box\n"
        "\n"
        "BX B\n"
        "  L1/P1 -> Box A L1/P1\n"  # the same cable from the other side
        "  L2/P1 -> Box B L2/P1\n"  # to itself
        "  L1/P4 -> Nonsense A L1/P4\n"
        "what is this = \n"
    )
    result = read_text(text, tmp_path)
    assert reasons(result) == [
        (1, "a cable before any 'TYPE NAME' line: its system is unknown"),
        (2, "CFG item 'leaf1' is not slot=modifier"),
        (2, "Box A has no slot leaf9"),
        (4, "A L1/P1 already has a cable (line 3); this one is skipped"),
        (5, "Box A has no port L9/P1; near: L2/P1, L1/P1"),
        (6, "link width 3x does not exist; InfiniBand has 1x, 2x, 4x, 8x and 12x"),
        (7, "link speed 7G does not exist; known: 2.5, 5, 10, FDR10, 14, 25, 50, 100, 200, 400"),
        (8, "not 'port -> TYPE NAME port': 'L1/P4 -> Box'"),
        (12, "B L2/P1 is cabled to itself; a cable has two ends"),
        (13, "system A is a Box at line 2, here a Nonsense; the first is used"),
        (14, "not 'TYPE NAME [CFG: slot=modifier, …]': 'what is this ='"),
    ]
    assert result.counts["system_links"] == 2


def test_unknown_type_is_read_as_one_chip_and_said_so(tmp_path: Path) -> None:
    result = parse_topo("SX6036 s1\n P1 -> SX6036 s2 P36\n P2 -> HCA9 h P1\n", str(tmp_path / "net.topo"))
    f = result.fabric
    assert f.node_names() == ["s1/U1", "s2/U1", "h/U1"] and f.node_nports.tolist() == [36, 36, 1]
    assert [int(t) for t in f.node_type] == [2, 2, 1]
    assert [p.line for p in result.problems] == [1, 3]
    assert all("no IBNL description of" in p.reason and str(tmp_path) in p.reason for p in result.problems)


def test_two_stray_words_make_no_system(tmp_path: Path) -> None:
    result = read_text("Box A\n  L1/P1 -> Box B L1/P1\nhello world\n", tmp_path)
    assert reasons(result) == [(3, "no IBNL description of hello, and no cable of world: left out")]
    assert set(result.fabric.node_system.values()) == {"A", "B"}


def test_description_that_holds_itself_ends(tmp_path: Path) -> None:
    loop = (
        "SYSTEM A\nSUBSYSTEM A a\nSUBSYSTEM A b\nSUBSYSTEM A c\nTOPSYSTEM Box\nSUBSYSTEM A a\nNODE SW 2 X U1\n 1 -> "
        "P1\n"
    )
    result = read_text("Box A\n  P1 -> Cheetah9 h P1\n", tmp_path, loop)
    assert any("nested deeper" in p.reason and p.file.endswith("box.ibnl") for p in result.problems)


def test_bad_description_lines_are_named_with_their_own_file(tmp_path: Path) -> None:
    bad = CHASSIS + "   P9 -> Q9\n  junk junk junk junk\nNODE SW 400 X U9\nSUBSYSTEM NOBOARD x1\n  P1 -> X1\n"
    result = read_text("Box A\n  L1/P1 -> Box B L2/P1\n", tmp_path, bad)
    assert result.counts["system_links"] == 1
    said = " ".join(str(p) for p in result.problems)
    assert "box.ibnl" in said and "'junk junk junk junk'" in said and "a chip of 400 ports" in said
    assert "no SYSTEM section describes board NOBOARD of slot x1" in said


def test_file_cut_within_a_line_says_so(tmp_path: Path) -> None:
    text = "Box A\n  L1/P1 -> Box B L1/P1\n  L1/P4 -> Box B L1/P4\n"
    for end in range(len("Box A\n  L1/P1 -> Box B L1/P1\n"), len(text)):
        result = read_text(text[:end], tmp_path)
        assert result.counts["system_links"] >= 1
        assert result.problems or text[end - 1] == "\n", text[:end]


def test_nothing_readable_is_one_line(tmp_path: Path) -> None:
    for text in ("", "\n\n", "# only a comment\n", "\0\1\2=>>>", "hello world\n"):
        with pytest.raises(UnreadableFile, match=r"net\.topo: contains n") as caught:
            parse_topo(text, str(tmp_path / "net.topo"))
        assert "\n" not in str(caught.value)


def test_ibnl_without_a_top_system_has_no_name() -> None:
    ibnl = parse_ibnl("SYSTEM X\nNODE SW 2 Y U1\n 1 -> P1\n", "x.ibnl")
    assert [p.reason for p in ibnl.problems] == ["no TOPSYSTEM section: the system type has no name"]


def test_content_tells_topo_from_the_rest(shared_data: Path) -> None:
    assert detect(shared_data / "ibutils-clusters/Buffalo8.topo").name == "topo"
    for other in ("jabl-tests/1.topo", "fdr10-stage/topo", "ibutils-clusters/osm.fdbs", "psmn-x5/X5.map"):
        with contextlib.suppress(InputError):
            assert detect(shared_data / other).name != "topo"
