"""Forwarding-table dumps: real files walked to their ends, OpenSM's own dumps of one subnet
compared."""

from __future__ import annotations

import os
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from softib.errors import UnreadableFile
from softib.fabric.builder import FabricBuilder
from softib.fabric.formats import registry
from softib.fabric.formats.base import Problems
from softib.fabric.formats.lft import parse
from softib.fabric.formats.lft.dump import read_lfts, read_lids, write_lfts
from softib.fabric.formats.lft.parse import read_hcas
from softib.fabric.formats.topo.reader import read as read_topo
from softib.fabric.model import Fabric
from softib.iba.constants import NodeType
from softib.iba.smp import PortInfo
from tests.cli.run import one_line, softib
from tests.live.serving import wait_for


def arrive(f: Fabric, lft: np.ndarray, lid: np.ndarray) -> tuple[int, int]:
    """Walk every entry that leaves its switch: (how many end at the port with that LID, how many
    there are)."""
    owner = {int(x): int(p) for p, x in enumerate(lid) if x}
    good = total = 0
    for switch, dest in zip(*np.nonzero((lft != 255) & (lft != 0)), strict=True):
        node, at, hops = int(f.switch_node[switch]), -1, 0
        while hops < 64:
            out = int(lft[f.switch_of_node[node], dest])
            at = int(f.port(node, 0)) if out == 0 else int(f.port_peer[f.port(node, out)]) if out != 255 else -1
            if out == 0 or at < 0 or not f.is_switch[f.port_node[at]]:
                break
            node, hops = int(f.port_node[at]), hops + 1
        total += 1
        good += at == owner.get(int(dest), -2)
    return good, total


def test_osm_fdbs_of_the_real_cluster_arrive(shared_data: Path) -> None:
    f = registry.read(shared_data / "ibutils-clusters/subnet.lst").fabric
    lft, problems = read_lfts(shared_data / "ibutils-clusters/osm.fdbs", f)
    assert problems == [] and lft.shape == (62, f.sizes.lft_cap)
    assert arrive(f, lft, f.lid) == (3968, 62 * 64)


def test_flit_simulator_tables_reach_every_host(shared_data: Path) -> None:
    base = shared_data / "flitsim/examples__is1_3l_32n__"
    f = read_topo(f"{base}is1_3l_32n.topo", ibnl_dirs=[shared_data / "ibutils-ibnl"]).fabric
    lft, problems = read_lfts(f"{base}is1_3l_32n.fdbs", f)
    lid, more = read_hcas(f"{base}ftree.hcas", f)
    assert problems == [] and more == [] and np.count_nonzero(lid) == 32
    assert arrive(f, lft, lid) == (640, 20 * 32)


def test_flit_simulator_tables_as_a_user_gives_them(shared_data: Path, tmp_path: Path) -> None:
    """``--lfts x.fdbs`` on the simulator's ``.topo``, its ``.ini`` and ``.hcas`` beside it: 20
    switches reach 32 hosts."""
    base = "flitsim/examples__is1_3l_32n__"
    for name in ("is1_3l_32n.topo", "is1_3l_32n.fdbs", "is1_3l_32n.fdbs.ini", "ftree.hcas"):
        (tmp_path / name).write_bytes((shared_data / f"{base}{name}").read_bytes())
    arguments = [
        "route",
        tmp_path / "is1_3l_32n.topo",
        "--lfts",
        tmp_path / "is1_3l_32n.fdbs",
        "--ibnl",
        shared_data / "ibutils-ibnl",
    ]
    ran = softib(*arguments)
    assert ran.code == 0 and "640 of 640 arrive" in ran.out, (ran.out, ran.err)
    (tmp_path / "other.hcas").write_text("H-1/U1/1 1\n")
    assert "2 .hcas files are in its folder; rename the right one to is1_3l_32n.hcas" in one_line(softib(*arguments))
    (tmp_path / "ftree.hcas").rename(tmp_path / "is1_3l_32n.hcas")
    assert softib(*arguments).code == 0


def test_flit_simulator_tables_of_another_topology_are_named(shared_data: Path) -> None:
    base = shared_data / "flitsim/examples__is1_1l_8n__is1_1l_8n"
    f = read_topo(f"{base}.topo", ibnl_dirs=[shared_data / "ibutils-ibnl"]).fabric
    _, problems = read_lfts(f"{base}.fdbs", f)
    names = [p.reason for p in problems]
    assert names == [f"no switch is called SW_L0_0_{i}_U1 (row {i}): this table is skipped" for i in range(1, 8)]


def gsi_fabric(text: str) -> Fabric:
    """The switches that the dump names (GUIDs cannot be looked up elsewhere)."""
    guids = [int(line.split("guid ")[1].split()[0], 16) for line in text.splitlines() if line.startswith("Unicast")]
    b = FabricBuilder("gsi")
    b.nodes(len(guids), NodeType.SWITCH, 36, node_guid=np.array(guids, np.uint64))
    return b.build()


@pytest.mark.parametrize("name", ["myTable.txt", "test.txt"])
def test_rewritten_dump_of_a_real_cluster(name: str, shared_data: Path) -> None:
    path = shared_data / "gsi-lqcd-lft" / name
    text = path.read_text()
    f = gsi_fabric(text)
    lft, problems = read_lfts(path, f)
    assert problems == [] and f.sizes.switches == 10
    plain = [line.split()[:2] for line in text.splitlines() if line.startswith("0x")]
    assert int((lft != 255).sum()) == len(plain) > 1000
    switch = -1
    for line in text.splitlines():
        switch += line.startswith("Unicast")
        if line.startswith("0x"):
            assert lft[switch, int(line.split()[0], 16)] == int(line.split()[1])


def two_switches(lids: bool = True) -> Fabric:
    b = FabricBuilder("two", lft_cap=256)
    b.nodes(2, NodeType.SWITCH, 8, desc=["s0", "s1"], node_guid=np.array([0x10, 0x20], np.uint64))
    b.nodes(2, NodeType.CA, 1, desc=["h0", "h1"], node_guid=np.array([0x30, 0x40], np.uint64))
    b.links([0, 0, 1], [1, 2, 2], [1, 2, 3], [1, 1, 1])
    f = b.build()
    if lids:
        for i, port in enumerate(f.end_ports().tolist()):
            row = f.port_info[port : port + 1]
            PortInfo.lid.set(row, i + 1)
    return f


def lft_file(tmp_path: Path, text: str) -> Path:
    (tmp_path / "x.lft").write_text(text)
    return tmp_path / "x.lft"


def test_bad_lines_are_named_and_the_rest_is_kept(tmp_path: Path) -> None:
    text = (
        "0x0001 001 : (early)\n"
        "Unicast lids [0x0-0x4] of switch Lid 1 guid 0x0000000000000010 (s0):\n"
        "  Lid  Out   Destination\n       Port     Info \n"
        "0x0001 000 : (x)\n"
        "0x0002 009 : (x)\n"
        "0x0003 2 : short number\n"
        "0x0007 001 : (nobody)\n"
        "0x0003 001 : (again)\n"
        "0x0100 001 : (beyond)\n"
        "gibberish\n"
        "9 valid lids dumped \n"
        "Unicast lids [0x0-0x4] of switch Lid 9 guid 0x99 (s9):\n0x0001 001\n"
        "Multicast mlids [0xc000-0xc001] of switch Lid 1 guid 0x10 (s0):\n 0xc000  x x\n"
    )
    lft, problems = read_lfts(lft_file(tmp_path, text), two_switches())
    assert {int(i): int(lft[0, i]) for i in np.flatnonzero(lft[0] != 255)} == {1: 0, 3: 2, 7: 1}
    assert (lft[1] == 255).all()
    assert [(p.line, p.reason) for p in problems] == [
        (0, "no table of switch s1"),
        (1, "an entry before any table's heading: its switch is unknown"),
        (6, "s0 has no port 9; its ports are 0 to 8"),
        (8, "LID 7: 1 switch routes to it, but no port of the fabric has it"),
        (9, "LID 3 has port 2 at line 7; that one is used"),
        (10, "LID 256 is not between 1 and 255"),
        (11, "not a table's heading nor '0xLID port': 'gibberish'"),
        (12, "the dump says 9 LIDs, 6 are in the table that begins at line 2"),
        (13, "no switch has GUID 0x0000000000000099: this table is skipped"),
    ]


@pytest.mark.parametrize("script", ("dump_fts", "dump_fts -M"))
def test_the_warning_of_the_stock_scripts_is_no_problem(script: str, tmp_path: Path) -> None:
    """Debian's dump_lfts and dump_mfts print it on stdout; other text in its place is a problem."""
    text = "".join(
        f"Unicast lids [0x0-0x4] of switch Lid {n + 1} guid 0x{16 + n:016x} (s{n}):\n  Lid  Out   Destination\n"
        f"       Port     Info \n0x0001 00{n} : (x)\n1 valid lids dumped \n"
        for n in range(2)
    )
    warning = f"\n*** WARNING ***: this command has been replaced by {script}\n\n\n"
    plain, clean = read_lfts(lft_file(tmp_path, text), two_switches())
    lft, problems = read_lfts(lft_file(tmp_path, text + warning), two_switches())
    assert problems == clean and np.array_equal(lft, plain)
    assert len(read_lfts(lft_file(tmp_path, text + warning.replace("***", "!!!")), two_switches())[1]) == len(clean) + 1


def test_headings_without_guid_are_matched_by_name_then_lid(tmp_path: Path) -> None:
    text = "Unicast lids [0x0-0x4] of switch ('s1'):\n0x0001 001\nUnicast lids [0-4] of switch Lid 1:\n0x0002 001\n"
    lft, problems = read_lfts(lft_file(tmp_path, text), two_switches())
    assert problems == [] and lft[1, 1] == 1 and lft[0, 2] == 1


def test_unreachable_and_255_are_no_route(tmp_path: Path) -> None:
    text = (
        "Switch 0x10\nLID    : Port : Hops : Optimal\n0x0001 : 001  : 01   : yes\r\n0x0002 : UNREACHABLE\n0x0003 : "
        "255  : 00\n"
    )
    lft, problems = read_lfts(lft_file(tmp_path, text), two_switches())
    assert [p.reason for p in problems] == ["no table of switch s1"]
    assert np.flatnonzero(lft[0] != 255).tolist() == [1]


def test_nothing_readable_is_one_line(tmp_path: Path) -> None:
    for text in ("", "hello\n", "Unicast lids [0x0-0x4] of switch guid 0x77 (x):\n0x0001 001\n", "0: 255 1 1\n"):
        with pytest.raises(UnreadableFile) as caught:
            read_lfts(lft_file(tmp_path, text), two_switches())
        assert "x.lft" in str(caught.value) and "\n" not in str(caught.value)


def test_file_that_ends_within_a_line_is_said_to_be_cut(tmp_path: Path) -> None:
    text = "Switch 0x10\nLID    : Port : Hops : Optimal\n0x0001 : 001  : 01   : yes\n0x0002 : 00"
    lft, problems = read_lfts(lft_file(tmp_path, text), two_switches())
    assert lft[0, 1] == 1 and (4, "the file ends within this line: it may be truncated") in [
        (p.line, p.reason) for p in problems
    ]


@pytest.mark.parametrize("lids", [True, False])
def test_written_tables_read_back_the_same(lids: bool, tmp_path: Path) -> None:
    f = two_switches(lids)
    rng = np.random.default_rng(7)
    lft = rng.choice(np.array([0, 1, 2, 8, 255], np.uint8), (2, 256))
    lft[:, 0] = 255
    write_lfts(f, lft, tmp_path / "w.lft")
    again, problems = read_lfts(tmp_path / "w.lft", f)
    assert np.array_equal(again, lft)
    assert all("no port of the fabric has it" in p.reason for p in problems)


# -- stock programs --


@pytest.fixture
def opensm_run(stock, tmp_path: Path) -> Iterator:
    """``run(netlist, *options)`` starts ibsim, lets OpenSM sweep once, and gives the environment
    and dump folder. OpenSM's cache is there too: LIDs that another run gave would stand."""
    opensm, ibsim = stock("opensm"), stock("ibsim")
    preload = Path("/usr/lib/x86_64-linux-gnu/umad2sim/libumad2sim.so")
    if not preload.is_file():
        pytest.skip("libumad2sim.so is not installed")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    children: list[subprocess.Popen] = []

    def run(netlist: Path, *options: str) -> tuple[dict[str, str], Path]:
        dumps = tmp_path / f"dumps{len(children)}"
        dumps.mkdir()
        base = port + 40 * len(children)
        log = (dumps / "ibsim.log").open("w")
        child = subprocess.Popen(
            [ibsim, "-s", "-r", "-l", str(base), "-n", str(netlist)], stdin=subprocess.PIPE, stdout=log, stderr=log
        )
        children.append(child)
        bound = f":{base:04X} "
        assert wait_for(lambda: bound in Path("/proc/net/udp").read_text()), log.name
        env = {
            **os.environ,
            "LD_PRELOAD": str(preload),
            "IBSIM_SERVER_NAME": "127.0.0.1",
            "IBSIM_SERVER_PORT": str(base),
            "OSM_CACHE_DIR": str(dumps),
            "OSM_TMP_DIR": str(dumps),
        }
        command = [opensm, "-o", "-D", "0x43", "-f", str(dumps / "osm.log"), "--dump_files_dir", str(dumps), *options]
        subprocess.run(command, env=env, capture_output=True, timeout=240, check=True)
        return env, dumps

    yield run
    for child in children:
        child.kill()
        child.wait()


@pytest.mark.stock
def test_three_stock_dumps_of_one_subnet_are_the_same_tables(
    opensm_run, stock, shared_data: Path, tmp_path: Path
) -> None:
    env, dumps = opensm_run(shared_data / "qnib-net/netlist.clos5")
    out = {}
    for program in ("ibnetdiscover", "dump_fts"):
        done = subprocess.run([stock(program)], env=env, capture_output=True, text=True, timeout=240, check=True)
        out[program] = tmp_path / f"{program}.txt"
        out[program].write_text(done.stdout)
    f = registry.read(out["ibnetdiscover"]).fabric
    assert f.sizes.switches == 7 and np.count_nonzero(f.lid[f.end_ports()]) == 23
    tables = []
    for path in (out["dump_fts"], dumps / "opensm.fdbs", dumps / "opensm-lfts.dump"):
        lft, problems = read_lfts(path, f)
        assert problems == [], path
        tables.append(lft)
    assert int((tables[0] != 255).sum()) == 7 * 23
    assert np.array_equal(tables[0], tables[1]) and np.array_equal(tables[0], tables[2])
    assert arrive(f, tables[0], f.lid) == (7 * 22, 7 * 22)
    # The netlist knows no LIDs; the dumps' destinations tell them.
    bare = registry.read(shared_data / "qnib-net/netlist.clos5").fabric
    named = {f.port_name(int(p)): int(f.lid[p]) for p in f.end_ports()}
    for path in (out["dump_fts"], dumps / "opensm-lfts.dump"):
        lid, problems = read_lids(path, bare)
        assert problems == [] and not bare.lid[bare.end_ports()].any()
        assert {bare.port_name(int(p)): int(lid[p]) for p in bare.end_ports()} == named


@pytest.mark.stock
def test_opensm_loads_the_tables_we_write(opensm_run, stock, shared_data: Path, tmp_path: Path) -> None:
    """OpenSM's ``file`` routing engine reads our dump; a table with one route changed shows that it
    did."""
    net = shared_data / "qnib-net/netlist.clos5"
    env, dumps = opensm_run(net)
    done = subprocess.run([stock("ibnetdiscover")], env=env, capture_output=True, text=True, timeout=240, check=True)
    (tmp_path / "net.txt").write_text(done.stdout)
    f = registry.read(tmp_path / "net.txt").fabric
    lft, _ = read_lfts(dumps / "opensm.fdbs", f)
    # On the first switch that has a choice, send one destination another way.
    switch, dest = 0, int(np.flatnonzero((lft[0] != 255) & (lft[0] != 0))[0])
    others = [
        p for p in range(1, int(f.node_nports[f.switch_node[0]]) + 1) if f.port_peer[f.port(f.switch_node[0], p)] >= 0
    ]
    lft[switch, dest] = next(p for p in others if p != lft[switch, dest])
    write_lfts(f, lft, tmp_path / "ours.lft")
    _, again = opensm_run(net, "-R", "file", "-U", str(tmp_path / "ours.lft"))
    loaded, problems = read_lfts(again / "opensm-lfts.dump", f)
    assert problems == []
    assert np.array_equal(loaded, lft)


def test_fixed_columns_are_what_the_expressions_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lines in every form, some of them broken: reading columns at once and each line alone give
    the same."""
    rng = np.random.default_rng(2)
    lines = [b"Unicast lids [0x0-0x40] of switch Lid 7 guid 0x0002c90200000007 (spine):"]
    for lid, port, kind in zip(
        rng.integers(0, 1 << 16, 400), rng.integers(0, 300, 400), rng.integers(0, 8, 400), strict=True
    ):
        form = (
            b"0x%04x %03d : (Channel Adapter portguid 0x1: 'h')",
            b"0x%04x : %03d  : 00   : yes",
            b"0x%04X %03d",
            b"0x%04x %03d :\r",
            b"0x%04x %d : x",
            b"0x%x %03d : x",
            b"%d %03d",
            b"0x%04x%03d",
        )[kind]
        lines.append(form % (lid, port))
    data = b"\n".join([*lines, b"0x0001 UNREACHABLE", b""])
    problems = [Problems("columns"), Problems("lines")]
    columns = parse.parse_dump(data, problems[0])
    none = lambda raw, starts, ends: (
        np.zeros(len(starts), np.int32),
        np.zeros(len(starts), np.int32),
        np.zeros(len(starts), bool),
    )
    monkeypatch.setattr(parse, "_fixed_columns", none)
    alone = parse.parse_dump(data, problems[1])
    for name, value in vars(columns).items():
        other = vars(alone)[name]
        assert np.array_equal(value, other) if isinstance(value, np.ndarray) else value == other, name
    assert len(columns.lid) > 150 and len(problems[0]) == len(problems[1])
