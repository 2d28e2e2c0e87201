"""Oracle: what stock ibnetdiscover finds on stock ibsim, loaded with our netlist, is what we read."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
import pytest

from softib.fabric.builder import FabricBuilder
from softib.fabric.formats import registry
from softib.fabric.model import Fabric
from softib.fabric.power_up import active_speed_codes
from softib.iba.constants import NodeType
from softib.iba.rates import SPEED_BY_NAME
from tests.conftest import ROOT
from tests.fabric.formats import ibsim
from tests.fabric.formats.real import names


def discovered(fabric: Fabric, tmp_path: Path, stock) -> tuple[list[Fabric], list[str]]:
    """What ibnetdiscover sees of each connected part, and the writer's notes."""
    net = tmp_path / "fabric.net"
    notes = registry.write(fabric, net)
    found = []
    with ibsim.running(stock("ibsim"), net, fabric) as env:
        ours = registry.read(net).fabric if fabric.sizes.cables else fabric
        for start in ibsim.parts(ours):
            kind = {1: "H", 2: "S", 3: "R"}[int(ours.node_type[start])]
            text = ibsim.ibnetdiscover(stock("ibnetdiscover"), env, f"{kind}-{int(ours.node_guid[start]):016x}")
            seen = tmp_path / "seen"
            seen.write_bytes(text)
            found.append(registry.read(seen).fabric)
    return found, notes


def compare(fabric: Fabric, found: list[Fabric]) -> None:
    """Nodes with cables, links, and speeds up to what ibsim knows are the same."""
    cabled = np.unique(fabric.port_node[fabric.linked])
    of_all = sorted((int(fabric.node_type[i]), int(fabric.node_guid[i]), int(fabric.node_nports[i])) for i in cabled)
    assert sorted(n for f in found for n in ibsim.node_ids(f)) == of_all
    assert sorted(link for f in found for link in ibsim.links(f)) == ibsim.links(fabric)
    theirs = {k: v for f in found for k, v in rates(f).items()}
    fastest = SPEED_BY_NAME["HDR"].code
    for end, code in rates(fabric).items():
        assert theirs[end] == min(code, fastest), end


def rates(f: Fabric) -> dict[tuple[int, int], int]:
    """Slower of the two ends' speeds of each linked port: ibsim negotiates."""
    code = active_speed_codes(f.port_info, f.port_mlnx_speed)
    up = np.flatnonzero(f.linked)
    both = np.minimum(code[up], code[f.port_peer[up]])
    guid, num = f.node_guid[f.port_node[up]].tolist(), f.port_num[up].tolist()
    return {(g, n): int(c) for g, n, c in zip(guid, num, both.tolist(), strict=True)}


@pytest.mark.stock
@pytest.mark.parametrize("name", names("ibnetdiscover"))
def test_stock_tools_find_what_we_read(name: str, shared_data: Path, tmp_path: Path, stock) -> None:
    fabric = registry.read(shared_data / name).fabric
    found, _ = discovered(fabric, tmp_path, stock)
    compare(fabric, found)


@pytest.mark.stock
@pytest.mark.parametrize(
    ("name", "note"),
    [
        ("hk-examples/Topo.6_CS8500.txt", ""),
        ("superbench-logs/ib_traffic_topo_aware_ibnetdiscover.txt", "unknown peer"),
    ],
)
def test_what_kills_ibsim_is_changed_and_told(name: str, note: str, shared_data: Path, tmp_path: Path, stock) -> None:
    result = registry.read(shared_data / name)
    raw = tmp_path / "raw.net"
    raw.write_bytes((shared_data / name).read_bytes())
    with pytest.raises(AssertionError, match=r"ibsim (ended|died)"), ibsim.running(stock("ibsim"), raw, result.fabric):
        pass
    found, notes = discovered(result.fabric, tmp_path, stock)
    assert found and bool(result.problems) == bool(note) and any(note in n for n in [*notes, ""])


HOSTILE = (
    'node "in" quotes',
    "w=9 lid 3 #x",
    "has = many w= s= e=",
    "",
    "x" * 64,
    "with @ and # signs",
    "tab\tand\x07bell",
    "Zürich",
    "lid 5 4xEDR",
    " base port 0 lid 3",
    "[1] (2)",
)


def hostile_fabric() -> Fabric:
    """Names, GUIDs, widths and speeds that ibsim cannot take as they are."""
    b = FabricBuilder("hostile")
    n = len(HOSTILE)
    sw = b.nodes(2, NodeType.SWITCH, 40, desc=['a "switch"', "w=1"], speed="NDR", node_guid=np.array([7, 7], np.uint64))
    ca = b.nodes(
        n, NodeType.CA, 2, desc=HOSTILE, speed="NDR", node_guid=np.arange(100, 100 + 10 * n, 10).astype(np.uint64)
    )
    b.nodes(1, NodeType.CA, 0, desc=["portless"])
    b.links(np.repeat(sw[0], n), np.arange(1, n + 1), ca, 1, speed="NDR", lanes=np.resize([4, 2, 1, 4], n))
    b.links(sw[0], 20, sw[1], 20, speed="XDR", lanes=4)
    b.links(sw[0], 21, sw[0], 22, lanes=8)  # a cable from a switch to itself
    b.links(sw[0], 23, sw[0], 23)  # a loopback plug
    b.links(sw[0], 24, -1, 0)  # a peer that is not known
    b.links(sw[0], 25, sw[1], 25, speed="QDR", listed=1)  # (stock ibnetdiscover asks only some devices for FDR10)
    return b.build()


@pytest.mark.stock
def test_hostile_names_guids_and_speeds_load(tmp_path: Path, stock) -> None:
    fabric = hostile_fabric()
    found, notes = discovered(fabric, tmp_path, stock)
    text = " | ".join(notes)
    for told in (
        "not unique",
        "without ports",
        "unknown peer",
        "at one end only",
        "written as HDR",
        "NDR/XDR",
        "description",
    ):
        assert told in text, told
    back = registry.read(tmp_path / "fabric.net")
    assert (
        back.counts["links"] == fabric.sizes.cables - 1 and len(back.problems) == 2
    )  # the two cables back to the node itself
    compare(back.fabric, found)
    speeds = {k: v for k, v in rates(fabric).items() if k[0] >= 100}
    assert speeds.items() <= rates(back.fabric).items()  # NDR survives in our own reader


@pytest.mark.stock
def test_the_comparison_notices_a_moved_cable(shared_data: Path, tmp_path: Path, stock) -> None:
    """The oracle can fail: what ibsim got is not what the other fabric says."""
    fabric = registry.read(shared_data / "fdr10-stage/topo").fabric
    found, _ = discovered(fabric, tmp_path, stock)
    text = (shared_data / "fdr10-stage/topo").read_text()
    moved = tmp_path / "moved"
    moved.write_text(text.replace('[1]\t"H-24be05ffff980030"[1]', '[35]\t"H-24be05ffff980030"[1]', 1))
    with pytest.raises(AssertionError):
        compare(registry.read(moved).fabric, found)


@pytest.mark.stock
@pytest.mark.slow
def test_a_fat_tree_of_11664_hosts(tmp_path: Path, stock) -> None:
    """36-port switches, three levels; stock tools find all 34,992 cables."""
    spec = importlib.util.spec_from_file_location("read_netlist", ROOT / "bench" / "read_netlist.py")
    bench = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(bench)
    fabric = bench.fat_tree()
    found, notes = discovered(fabric, tmp_path, stock)
    assert fabric.sizes.cables == 34_992 and any("-N 13285 -S 1621" in n for n in notes)
    compare(fabric, found)
