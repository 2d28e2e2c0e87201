"""What we write as ``.topo`` reads back as the same fabric, here and in ibdm."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from softib.fabric.builder import FabricBuilder
from softib.fabric.diff import diff
from softib.fabric.formats.topo.reader import read as read_topo
from softib.fabric.formats.topo.writer import supported_speed, write
from softib.fabric.model import Fabric
from softib.fabric.power_up import active_speed_codes
from softib.iba.constants import NodeType
from tests.fabric.formats.cabling.ibdm import load
from tests.fabric.formats.cabling.lab import as_ibdm

REAL = (
    "ibutils-clusters/PartialGazelle",
    "ibutils-clusters/Buffalo8",
    "ibutils-demo/credit-loops",
    "ibmgtsim-topos/RhinoBased512Nodes",
    "ibutils-demo/gnu-based-32",
    "ibmgtsim-topos/4-ary-4-tree",
)


def modern() -> Fabric:
    """Speeds that ibdm's arrows cannot say, mixed generations, names its grammar has not, equal
    names."""
    b = FabricBuilder("modern")
    names = ["MF0;leaf 1:MQM8700/U1", "MF0;leaf-2:MQM8700/U1", "MF0;spine:MQM9700/U1"]
    b.nodes(3, NodeType.SWITCH, np.array([41, 41, 65]), desc=names, speed=["HDR", "HDR", "NDR"])
    b.nodes(4, NodeType.CA, 1, desc=["h1 mlx5_0", "h1 mlx5_1", "same", "same"], speed=["HDR", "EDR", "QDR", "FDR10"])
    b.links(
        [0, 1, 0, 0, 1, 1], [1, 1, 10, 11, 10, 11], [2, 2, 3, 4, 5, 6], [1, 2, 1, 1, 1, 1], lanes=[4, 2, 4, 4, 1, 4]
    )
    return b.build()


def renamed(f: Fabric) -> dict[str, str]:
    """How the writer must spell the names of :func:`modern`."""
    return {
        "MF0;leaf 1:MQM8700/U1": "MF0_leaf_1_MQM8700/U1",
        "MF0;leaf-2:MQM8700/U1": "MF0_leaf-2_MQM8700/U1",
        "MF0;spine:MQM9700/U1": "MF0_spine_MQM9700/U1",
        "h1 mlx5_0": "h1_mlx5_0/U1",
        "h1 mlx5_1": "h1_mlx5_1/U1",
    }


@pytest.mark.parametrize("name", REAL)
def test_real_topo_round_trip(name: str, shared_data: Path, tmp_path: Path) -> None:
    first = read_topo(shared_data / f"{name}.topo", ibnl_dirs=[shared_data / "ibutils-ibnl"]).fabric
    write(first, tmp_path / "net.topo")
    again = read_topo(tmp_path / "net.topo")
    assert again.problems == []
    assert diff(first, again.fabric) == []
    assert as_ibdm(first).links == as_ibdm(again.fabric).links  # front-panel labels, widths and speeds too
    assert again.fabric.source.system_links == first.source.system_links
    ours = {n: int(d) for n, d in zip(first.node_names(), first.device_id, strict=True)}
    assert ours == {n: int(d) for n, d in zip(again.fabric.node_names(), again.fabric.device_id, strict=True)}


def test_modern_fabric_round_trip(tmp_path: Path) -> None:
    f = modern()
    notes = write(f, tmp_path / "m.topo")
    again = read_topo(tmp_path / "m.topo")
    assert again.problems == [] and "speeds" in again.fabric.source.records
    new = renamed(f)
    for old, spelled in new.items():
        assert f"node {old!r} is written as {spelled}" in notes
    guid = int(f.node_guid[6])
    order = [again.fabric.node_names().index(n) for n in [*new.values(), "same/U1", f"same.{guid:016x}/U1"]]
    assert [supported_speed(again.fabric)[n] for n in order] == supported_speed(f)
    codes = [active_speed_codes(x.port_info, x.port_mlnx_speed) for x in (f, again.fabric)]
    for node, other in enumerate(order):
        ports, others = list(f.ports_of(node)), list(again.fabric.ports_of(other))
        linked = [p for p in ports if f.port_peer[p] >= 0]
        assert [p - ports[0] for p in linked] == [p - others[0] for p in others if again.fabric.port_peer[p] >= 0]
        assert codes[0][linked].tolist() == [codes[1][others[p - ports[0]]] for p in linked]


@pytest.mark.stock
@pytest.mark.parametrize("name", REAL)
def test_ibdm_loads_what_we_write(name: str, shared_data: Path, stock, tmp_path: Path, monkeypatch) -> None:
    ibdmsh = stock("ibdmsh")
    f = read_topo(shared_data / f"{name}.topo", ibnl_dirs=[shared_data / "ibutils-ibnl"]).fabric
    write(f, tmp_path / "net.topo")
    monkeypatch.setenv("IBDM_IBNL_PATH", str(tmp_path))
    theirs = load(ibdmsh, tmp_path / "net.topo", tmp_path)
    assert theirs.ok and theirs.links == as_ibdm(f).links


@pytest.mark.stock
def test_ibdm_loads_modern_fabrics_less_their_speeds(stock, tmp_path: Path, monkeypatch) -> None:
    ibdmsh = stock("ibdmsh")
    assert any("-2x->" in note for note in write(modern(), tmp_path / "m.topo"))
    monkeypatch.setenv("IBDM_IBNL_PATH", str(tmp_path))
    theirs = load(ibdmsh, tmp_path / "m.topo", tmp_path)
    ours = as_ibdm_without_speed(read_topo(tmp_path / "m.topo").fabric)
    assert theirs.ok and {k: (*v[:3], v[4]) for k, v in theirs.links.items()} == ours


def as_ibdm_without_speed(f: Fabric) -> dict[tuple[str, int], tuple[str, int, str, str]]:
    return {k: (*v[:3], v[4]) for k, v in as_ibdm(f).links.items() if v[2] != "2x"}


def test_generated_fabric_and_its_topo_do_not_differ(tmp_path: Path) -> None:
    generate = pytest.importorskip("softib.fabric.topologies.registry").generate
    f = generate("fat-tree", levels=3, radix=8)
    write(f, tmp_path / "tree.topo")
    assert diff(f, read_topo(tmp_path / "tree.topo").fabric) == []


def test_cables_that_a_topo_cannot_hold_are_noted(tmp_path: Path) -> None:
    b = FabricBuilder("odd")
    b.nodes(2, NodeType.SWITCH, 4, desc=["a", "b"])
    b.links([0, 0, 0], [1, 2, 3], [-1, 0, 1], [0, 2, 1])
    notes = write(b.build(), tmp_path / "odd.topo")
    assert [n for n in notes if "omitted" in n] == [
        "the cable in a[1] is omitted: its other end is unknown, and a .topo file needs both",
        "the cable from a[2] to itself is omitted: ibdm does not support it",
    ]
    assert read_topo(tmp_path / "odd.topo").counts["system_links"] == 1
