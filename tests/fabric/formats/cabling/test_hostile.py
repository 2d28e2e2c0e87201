"""Whatever the bytes: a result with problems, or one line from :class:`SoftibError`. Never another
exception."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from softib.errors import InputError, SoftibError, UnreadableFile
from softib.fabric.builder import FabricBuilder
from softib.fabric.formats import node_name_map, registry
from softib.fabric.formats.cabling.csv import parse_cabling
from softib.fabric.formats.cabling.encodings import decode
from softib.fabric.formats.cabling.match import match_plan
from softib.fabric.formats.cabling.plan import CablingPlan, read_plan, write_plan
from softib.fabric.formats.lft.dump import read_lfts, read_lids, write_lfts
from softib.fabric.formats.lft.parse import read_hcas
from softib.fabric.formats.topo.ibnl import parse_ibnl
from softib.fabric.formats.topo.ibnl_expand import expand
from softib.fabric.formats.topo.reader import read as read_topo
from softib.fabric.model import Fabric
from softib.iba.constants import NodeType
from tests.extent import examples, extent

IBNL = """SYSTEM LEAF,LEAF:4x
NODE SW 4 MT43132 U1
   1 -4x-5G-> P1
   2 -> P2
   3 -> U2 1
NODE SW 4 MT43132 U2
   1 -> U1 3
   2 -> P3
TOPSYSTEM Box,BX
U1=isChaBma
leaf1/U1=speed=EDR
SUBSYSTEM LEAF leaf1
   P1 -> L1/P1
   P2 -10G-> leaf2 P2
SUBSYSTEM LEAF leaf2
   P1 -> L2/P1
   P2 -> leaf1 P2
"""
TOPO = """# a
Box A CFG: leaf2=4x
   L1/P1 -4x-5G-> Box B L1/P1
   L2/P1 -> Cheetah9 H1 P1
# speed: EDR
BX B
   L2/P1 -> Cheetah9 H2 P1
"""
NDT = """,rack #,U height,#Fields:StartDevice,StartPort,StartDeviceLocation,EndDevice,EndPort,EndDeviceLocation,U height,LinkType,Speed,,Cable Length
,R1,U41,s0,Port 1,F01,h0,mlx5_0/1,F02,U25,Data,200000,200G HDR cable,10
,R1,U41,s0,1/1/2,F01,"s1",Blade 1_Port 1/5,F02,U24,Data,200000,,7 m
"""
P2P = (
    "A-Rack,A-U,A-Node,A-Port,Z-Rack,Z-U,Z-Node,Z-Port,Length\nR1,4,s0,swp1s0,R2,U5,s1,2,3 "
    "ft\nR1,4,s0,7,R2,U5,h0,mlx5_0,3\n"
)
LFT = """Unicast lids [0x0-0x4] of switch Lid 1 guid 0x0000000000000010 (s0):
  Lid  Out   Destination
       Port     Info\x20
0x0001 000 : (Switch portguid 0x0000000000000010: 's0')
0x0002 001 : (Channel Adapter portguid 0x0000000000000031: 'h0')
2 valid lids dumped\x20
dump_ucast_routes: Switch 0x0000000000000020
LID    : Port : Hops : Optimal
0x0001 : 003  : 01   : yes
0x0002 : UNREACHABLE
"""
FDBS = "0: 255 1 1 0 254\n1: 255 0 1 2 3\n"
INI = "[General]\n**.s0.pktfwd.fdbIndex = 0\n**.s*.fdbIndex = 1\n"
HCAS = "h0/1 1\nh1/1 2\n"
NAMES = '0x10 "s zero" # c\n0x20 s1\n'


def small() -> Fabric:
    b = FabricBuilder("small", lft_cap=64)
    b.nodes(2, NodeType.SWITCH, 8, desc=["s0", "s1"], node_guid=np.array([0x10, 0x20], np.uint64))
    b.nodes(2, NodeType.CA, 1, desc=["h0", "h1"], node_guid=np.array([0x30, 0x40], np.uint64))
    b.links([0, 0, 1], [1, 2, 2], [1, 2, 3], [1, 1, 1])
    return b.build()


FABRIC = small()


def with_bytes(name: str, read: Callable[[Path], Any]) -> Callable[[bytes, Path], Any]:
    def run(data: bytes, folder: Path) -> Any:
        (folder / name).write_bytes(data)
        return read(folder / name)

    return run


def read_ibnl_bytes(data: bytes, folder: Path) -> Any:
    ibnl = parse_ibnl(data.decode("utf-8", "replace"), "x.ibnl")
    if ibnl.top is not None:
        expand(ibnl, {"leaf1": "4x", "leaf2": "R"})
    return ibnl


def topo_beside_bad_ibnl(data: bytes, folder: Path) -> Any:
    (folder / "box.ibnl").write_bytes(data)
    (folder / "net.topo").write_text(TOPO)
    return read_topo(folder / "net.topo")


def topo_beside_good_ibnl(data: bytes, folder: Path) -> Any:
    (folder / "box.ibnl").write_text(IBNL)
    (folder / "net.topo").write_bytes(data)
    return read_topo(folder / "net.topo")


def plan(data: bytes, folder: Path) -> Any:
    found = parse_cabling(decode(data), "x.csv")
    match_plan(found, FABRIC)
    return found


def omnet(data: bytes, folder: Path) -> Any:
    (folder / "x.fdbs.ini").write_text(INI)
    return with_bytes("x.fdbs", lambda p: read_lfts(p, FABRIC))(data, folder)


def omnet_ini(data: bytes, folder: Path) -> Any:
    (folder / "x.fdbs.ini").write_bytes(data)
    (folder / "x.fdbs").write_text(FDBS)
    return read_lfts(folder / "x.fdbs", FABRIC)


READERS: dict[str, tuple[str, Callable[[bytes, Path], Any]]] = {
    "topo": (TOPO, topo_beside_good_ibnl),
    "ibnl": (IBNL, read_ibnl_bytes),
    "ibnl-of-topo": (IBNL, topo_beside_bad_ibnl),
    "ndt": (NDT, plan),
    "p2p": (P2P, plan),
    "lft": (LFT, with_bytes("x.lft", lambda p: read_lfts(p, FABRIC))),
    "lids": (LFT, with_bytes("x.lft", lambda p: read_lids(p, FABRIC))),
    "fdbs": (FDBS, omnet),
    "fdbs.ini": (INI, omnet_ini),
    "hcas": (HCAS, with_bytes("x.hcas", lambda p: read_hcas(p, FABRIC))),
    "names": (NAMES, with_bytes("x.map", lambda p: node_name_map.apply(FABRIC.copy(), node_name_map.read(p)))),
}


def outcome(name: str, data: bytes, folder: Path) -> Any:
    """The result, or None after one clean line."""
    try:
        return READERS[name][1](data, folder)
    except SoftibError as error:
        assert str(error) and "\n" not in str(error)
        return None


@pytest.mark.parametrize("name", READERS)
def test_the_unharmed_text_reads(name: str, tmp_path: Path) -> None:
    assert outcome(name, READERS[name][0].encode(), tmp_path) is not None


@pytest.mark.parametrize("name", READERS)
def test_truncated_at_any_byte(name: str, tmp_path: Path) -> None:
    data = READERS[name][0].encode()
    for end in range(0, len(data), extent(7, 1)):
        outcome(name, data[:end], tmp_path)


mutations = st.lists(
    st.tuples(st.integers(0, 10_000), st.one_of(
        st.binary(max_size=3),
        st.sampled_from([b"\n", b"\0", b'"', b",", b"->", b" ", b"=", b"99999999999999999999", b"-1", b"\xff\xfe", b"(", b"\r", b"[", "²".encode(), "٣".encode()]),
    )), min_size=1, max_size=6,
)  # fmt: skip # a packed list of short values


@pytest.mark.parametrize("name", READERS)
@settings(
    max_examples=examples(80),
    derandomize=True,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(changes=mutations)
def test_mutated_anywhere(name: str, changes: list[tuple[int, bytes]], tmp_path: Path) -> None:
    data = bytearray(READERS[name][0].encode())
    for at, new in changes:
        at %= len(data) + 1
        data[at : at + len(new)] = new
        data[at:at] = new if at % 2 else b""
    outcome(name, bytes(data), tmp_path)


@pytest.mark.parametrize("name", READERS)
@settings(
    max_examples=examples(40),
    derandomize=True,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(order=st.lists(st.integers(0, 30), max_size=40))
def test_lines_shuffled_and_repeated(name: str, order: list[int], tmp_path: Path) -> None:
    lines = READERS[name][0].splitlines()
    outcome(name, "\n".join(lines[i % len(lines)] for i in order).encode(), tmp_path)


@pytest.mark.parametrize("name", READERS)
def test_random_bytes_and_one_endless_line(name: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    outcome(name, rng.integers(0, 256, 100_000, np.uint8).tobytes(), tmp_path)
    for unit in (b"a", b"0", b'"', b",", b" ", b"-", b"P1 -> ", b"0x0001 001 "):
        outcome(name, unit * (1_000_000 // len(unit)), tmp_path)


@pytest.mark.parametrize("name", ["topo", "ndt", "p2p", "lft"])
def test_a_bad_line_in_the_middle_costs_only_itself(name: str, tmp_path: Path) -> None:
    text = READERS[name][0]
    lines = text.splitlines()
    bad = "junk > junk" if name != "lft" else "junk"
    harmed = outcome(name, "\n".join([*lines[:4], bad, *lines[4:], ""]).encode(), tmp_path)
    whole = outcome(name, text.encode(), tmp_path)
    problems = harmed[1] if name == "lft" else harmed.problems
    before = whole[1] if name == "lft" else whole.problems
    assert [p.line for p in problems if p.reason not in {q.reason for q in before}] == [
        5 if len(lines) >= 4 else len(lines) + 1
    ]
    if name == "topo":
        assert harmed.counts == whole.counts
    elif name == "lft":
        assert np.array_equal(harmed[0], whole[0])
    else:
        assert harmed.node.tolist() == whole.node.tolist()


def test_read_plan_of_nonsense_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"\1\2\3 nothing")
    with pytest.raises(SoftibError) as caught:
        read_plan(tmp_path / "x")
    assert "\n" not in str(caught.value)


def test_paths_that_do_not_work_are_one_line(tmp_path: Path) -> None:
    nowhere = tmp_path / "no" / "such"
    calls: list[Callable[[], Any]] = [
        lambda: read_topo(nowhere),
        lambda: read_topo(tmp_path),
        lambda: read_plan(nowhere),
        lambda: read_plan(tmp_path),
        lambda: read_lfts(nowhere, FABRIC),
        lambda: read_lids(tmp_path, FABRIC),
        lambda: read_hcas(nowhere, FABRIC),
        lambda: node_name_map.read(tmp_path),
        lambda: write_lfts(FABRIC, FABRIC.lft, nowhere / "x"),
        lambda: write_plan(CablingPlan.from_fabric(FABRIC), nowhere / "x"),
        lambda: registry.write(FABRIC, nowhere / "x.topo"),
        lambda: registry.write(FABRIC, nowhere / "topology.conf"),
        lambda: registry.write(FABRIC, nowhere / "x.graphml"),
        lambda: registry.write(FABRIC, nowhere / "x.lft"),
    ]
    for call in calls:
        with pytest.raises(InputError) as caught:
            call()
        assert str(tmp_path) in str(caught.value) and "\n" not in str(caught.value)
    (tmp_path / "net.topo").write_text(TOPO)
    with pytest.raises(UnreadableFile, match="give the folder of the IBNL files"):
        read_topo(tmp_path / "net.topo", ibnl_dirs=[nowhere])
