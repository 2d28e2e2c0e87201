"""What is written reads back the same: nodes, cables, speeds, widths, LIDs, and the same bytes when written again."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from softib.errors import InputError, UnknownFormat, UnknownName
from softib.fabric.builder import FabricBuilder
from softib.fabric.formats import registry
from softib.fabric.model import Fabric
from softib.iba.constants import NodeType
from softib.iba.rates import SPEEDS
from softib.iba.smp import PortInfo, SwitchInfo
from tests.extent import examples
from tests.fabric.formats.real import names

NODE_COLUMNS = ("node_type", "node_nports", "node_guid", "sys_guid", "vendor_id", "device_id", "node_desc", "port_guid")


def assert_same(a: Fabric, b: Fabric, without: tuple[str, ...] = ()) -> None:
    """Equal where the format can say it; unlinked ports' widths and speeds are not in the text."""
    for column in (*NODE_COLUMNS, "port_peer"):
        if column not in without:
            assert (getattr(a, column) == getattr(b, column)).all(), column
    for field in (PortInfo.lid, PortInfo.lmc):
        own = ~a.is_switch[a.port_node] & a.linked | (a.is_switch[a.port_node] & (a.port_num == 0))
        assert (field.get(a.port_info) == field.get(b.port_info))[own].all(), field.name
    for field in (
        PortInfo.link_width_active,
        PortInfo.link_speed_active,
        PortInfo.link_speed_ext_active,
        PortInfo.link_speed_ext2_active,
    ):
        assert (field.get(a.port_info) == field.get(b.port_info))[a.linked].all(), field.name
    assert (a.port_mlnx_speed[:, 2] == b.port_mlnx_speed[:, 2])[a.linked].all()
    assert (SwitchInfo.enhanced_port0.get(a.switch_info) == SwitchInfo.enhanced_port0.get(b.switch_info)).all()


@pytest.mark.parametrize("name", names("ibnetdiscover"))
@pytest.mark.parametrize("suffix", [".ibnetdiscover", ".net"])
def test_real_files(name: str, suffix: str, shared_data: Path, tmp_path: Path) -> None:
    fabric = registry.read(shared_data / name).fabric
    once, twice = tmp_path / f"once{suffix}", tmp_path / f"twice{suffix}"
    notes = registry.write(fabric, once)
    back = registry.read(once)
    registry.write(back.fabric, twice)
    assert once.read_bytes() == twice.read_bytes()
    assert_same(fabric, back.fabric)
    loops = [p for p in back.problems if "same node" not in p.reason]
    assert loops == []
    assert any("unknown peer" in n for n in notes) == bool((fabric.cable_port[:, 1] < 0).any())


@st.composite
def fabrics(draw) -> Fabric:
    """Small fabrics with every node type, speed, width and kind of name, not all cabled."""
    b = FabricBuilder("drawn")
    text = st.text(st.characters(exclude_categories=("C", "Z"), include_characters=' "#[]()='), max_size=20)
    nports = draw(st.lists(st.integers(1, 6), min_size=2, max_size=5))
    kinds = draw(st.lists(st.sampled_from([1, 2, 2, 3]), min_size=len(nports), max_size=len(nports)))
    guids = draw(st.lists(st.integers(1, 2**64 - 300), min_size=len(nports), max_size=len(nports), unique=True))
    desc = [draw(text).strip() for _ in nports]
    for kind, n, guid, d in zip(kinds, nports, guids, desc, strict=True):
        b.nodes(1, kind, n, desc=[d], node_guid=np.array([guid], np.uint64), speed="SDR")
    free = draw(st.permutations([(i, p) for i, n in enumerate(nports) for p in range(1, n + 1)]))
    for (a, p), (c, q) in list(zip(free[::2], free[1::2], strict=False))[: draw(st.integers(0, 6))]:
        b.links(
            a,
            p,
            c,
            q,
            speed=draw(st.sampled_from([s.name for s in SPEEDS])),
            lanes=draw(st.sampled_from([1, 2, 4, 8, 12])),
        )
    f = b.build()
    lids = draw(st.lists(st.integers(0, 49151), min_size=f.sizes.ports, max_size=f.sizes.ports))
    ends = f.end_ports()
    PortInfo.lid.set(f.port_info, np.array(lids)[ends], where=ends)
    PortInfo.lmc.set(f.port_info, np.array(lids)[ends] % 8, where=ends)
    return f


@settings(max_examples=examples(150), deadline=None)
@given(f=fabrics())
def test_any_fabric(f: Fabric, tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.mktemp("rt") / "f.ibnetdiscover"
    registry.write(f, path)
    back = registry.read(path)
    linked_cas = [p for p in back.problems if "same node" not in p.reason]
    assert linked_cas == []
    f.node_desc[:] = _as_read(f)
    # a CA port without a cable has no line that could tell its PortGUID, LID or LMC; here they are the default
    assert_same(f, back.fabric)


def _as_read(f: Fabric) -> np.ndarray:
    """An empty description reads as the node's name in the text."""
    desc = f.node_desc.copy()
    for i in np.flatnonzero(~desc.any(axis=1)):
        name = f"{ {1: 'H', 2: 'S', 3: 'R'}[int(f.node_type[i])] }-{int(f.node_guid[i]):016x}".replace(" ", "")
        desc[i, : len(name)] = np.frombuffer(name.encode(), np.uint8)
    return desc


def test_format_by_suffix_and_name(tmp_path: Path) -> None:
    b = FabricBuilder("one")
    b.nodes(1, NodeType.SWITCH, 2, desc=["alone"])
    f = b.build()
    registry.write(f, tmp_path / "x.txt", "ibsim")
    assert "written by softib" in (tmp_path / "x.txt").read_text()
    with pytest.raises(UnknownFormat, match=r"\.ibnetdiscover"):
        registry.write(f, tmp_path / "x.txt")
    with pytest.raises(UnknownName, match="did you mean ibsim"):
        registry.write(f, tmp_path / "x.txt", "ibsym")
    with pytest.raises(InputError, match="cannot write"):
        registry.write(f, tmp_path / "absent" / "x.net")
