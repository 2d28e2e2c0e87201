"""Running fabrics for the tests of ibsim's protocol."""

from __future__ import annotations

import pytest

from softib.fabric.topologies.registry import generate
from softib.iba.constants import NodeType
from softib.iba.smp import SwitchInfo
from tests.live.ibsim.fuzzing import Running, hardware
from tests.live.ibsim.tools.tool_answers import (
    named,
)
from tests.live.ibsim.tools.tool_lab import Lab


@pytest.fixture
def running(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    one = Running("fuzz")
    before = hardware(one)
    yield one
    after = hardware(one)
    one.stop()
    assert [name for name in before if before[name] != after[name]] == []


@pytest.fixture(scope="module")
def lab(tmp_path_factory):
    """16 end nodes of which one is a router, 20 switches, HDR, one link down; our manager brought it up."""
    f = generate("fat-tree", radix=4, levels=3, generation="HDR")
    f.node_type[f.cas[-1]] = NodeType.ROUTER
    one = Lab(f, tmp_path_factory.mktemp("tools"))
    one.fault("link-down", "leaf-8[1]")
    one.settle()
    f = one.f
    SwitchInfo.mcast_fdb_top.set(f.switch_info, 0xC003)  # the manager knows no group so high
    for row in range(f.sizes.switches):  # a group whose tree is the way to host-0001
        ports = {int(f.lft[row, f.lid[named(f, "host-0001")]]), 1}
        f.mft[row, 3] = 0
        f.mft[row, 3, 0] = sum(1 << p for p in ports)
    (one.folder / "map").write_text(f'{one.guid(named(f, "leaf-2"))} "The Second Leaf"\n')
    code, said = one.tool("own", "ibnetdiscover", "--cache", "cache")
    assert code == 0, said
    (one.folder / "lft").write_text(one.tool("own", "dump_fts")[1])
    (one.folder / "pairs").write_text(f"{one.lid(named(f, 'host-0001'))} {one.lid(named(f, 'host-0009'))}\n")
    yield one
    one.stop()
