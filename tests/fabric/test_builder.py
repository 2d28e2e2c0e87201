"""Invariants of the arrays that every package stands on."""

from dataclasses import fields

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from softib.errors import TopologyError
from softib.fabric.builder import LINK_DEFAULTS, NODE_DEFAULTS, FabricBuilder, LinkColumns, NodeColumns
from softib.fabric.columns import COLUMNS, LAZY_COLUMNS
from softib.fabric.formats.records import NODE_DEFAULTS as RECORD_DEFAULTS
from softib.fabric.formats.records import NodeFields, Records
from softib.fabric.power_cycle import power_on
from softib.fabric.power_up import active_speed_codes
from softib.iba.constants import NodeType, PhysState, PortState
from softib.iba.devices import MELLANOX
from softib.iba.rates import SPEEDS
from softib.iba.smp import PortInfo
from tests.extent import examples


def star(hosts=3, speed="EDR", **link):
    b = FabricBuilder("star")
    sw = b.nodes(1, NodeType.SWITCH, max(hosts, 1) + 1, desc=["sw"], speed=speed)
    ca = b.nodes(hosts, NodeType.CA, 2, desc=[f"h-{i} mlx5_0" for i in range(hosts)], speed=speed)
    b.links(np.repeat(sw, hosts), np.arange(hosts) + 1, ca, 2, **link)
    return b.build()


@settings(max_examples=examples(60), deadline=None)
@given(st.lists(st.tuples(st.sampled_from([1, 2]), st.integers(0, 9)), min_size=1, max_size=12), st.randoms())
def test_port_rows_peers_and_tables_are_consistent(nodes, random):
    b = FabricBuilder()
    for kind, nports in nodes:
        b.nodes(1, kind, nports)
    free = [(i, p) for i, (_, n) in enumerate(nodes) for p in range(1, n + 1)]
    random.shuffle(free)
    pairs = list(zip(free[::2], free[1::2], strict=False))
    if pairs:
        a, z = np.array([p[0] for p in pairs]), np.array([p[1] for p in pairs])
        b.links(a[:, 0], a[:, 1], z[:, 0], z[:, 1])
    f = b.build()
    rows = sum(n + (kind == NodeType.SWITCH) for kind, n in nodes)
    assert f.sizes.ports == rows == len(f.port_node)
    assert (f.node_base[f.port_node] + f.port_num == np.arange(rows)).all(), "port = node_base + portnum"
    linked = np.flatnonzero(f.port_peer >= 0)
    assert (f.port_peer[f.port_peer[linked]] == linked).all(), "a cable has two ends"
    assert len(linked) == 2 * len(pairs)
    assert (f.port_cable[linked] == f.port_cable[f.port_peer[linked]]).all()
    for base, cap in ((f.pkey_base, f.pkey_cap),):
        ends = base.astype(int) + cap
        assert (ends[:-1] == base[1:]).all() and (not rows or ends[-1] == len(f.pkeys)), "P_Key tables tile the pool"
    assert (f.port_state[linked] == PortState.INIT).all(), "a cabled port trains to INIT (IBA 7.2.7)"


def test_every_column_is_present_and_documented():
    f = star()
    for c in COLUMNS:
        assert getattr(f, c.name).shape == f.sizes.shape(c.dims), c.name
        assert c.doc and c.writer in ("hardware", "mad", "engine"), c.name


@pytest.mark.parametrize("speed", [s.name for s in SPEEDS if s.name != "GDR"])
def test_the_speed_of_a_link_survives_its_wire_image(speed):
    f = star(speed=speed)
    codes = active_speed_codes(f.port_info, f.port_mlnx_speed)
    assert {SPEEDS[c - 1].name for c in codes[f.linked]} == {speed}


@pytest.mark.parametrize("speed", ["FDR", "EDR", "HDR", "NDR", "XDR"])
def test_a_linux_host_believes_the_speed(speed):
    """The extended speeds as the mlx5 driver takes them from PortInfo: each only where the
    capability bits allow it."""
    f = star(speed=speed)
    for port in f.end_ports():
        if not f.linked[port]:
            continue
        info = bytes(f.port_info[port])
        cap, cap2 = int.from_bytes(info[20:24], "big"), int.from_bytes(info[60:62], "big")
        assert cap >> 14 & 1 and cap >> 15 & 1
        read = {0: None, 1: "FDR", 2: "EDR", 4: "HDR" if cap2 >> 5 & 1 else None, 8: "NDR" if cap2 >> 10 & 1 else None}
        seen = read[info[62] >> 4]
        if cap2 >> 11 & 1 and (info[56] >> 4) & 6 == 2 and cap2 >> 12 & 1:
            seen = "XDR"
        assert seen == speed


def test_power_on_resets_what_mads_wrote():
    f = star()
    fresh = f.copy()
    PortInfo.lid.set(f.port_info, np.arange(f.sizes.ports))
    PortInfo.port_state.set(f.port_info, PortState.ACTIVE)
    f.lft[:, 5] = 1
    power_on(f)
    for c in COLUMNS:
        assert (getattr(f, c.name) == getattr(fresh, c.name)).all() or c.name == "cable_length_m", c.name
    assert set(PortInfo.port_phys_state.get(f.port_info[f.linked])) == {PhysState.LINK_UP}


def test_two_cables_in_one_port_are_refused_by_name():
    b = FabricBuilder()
    n = b.nodes(3, NodeType.SWITCH, 4, desc=["a", "b", "c"])
    b.links(n[[0, 1]], [1, 1], n[[2, 2]], [3, 3])
    with pytest.raises(TopologyError, match=r"c\[3\]"):
        b.build()


def test_a_port_beyond_the_node_is_refused_by_name():
    b = FabricBuilder()
    n = b.nodes(2, NodeType.SWITCH, 4, desc=["a", "b"])
    b.links(n[0], 5, n[1], 1)
    with pytest.raises(TopologyError, match="a has no port 5"):
        b.build()


def test_columns_have_the_defaults_that_are_declared():
    """What may be left out is what the tables name; another name is refused as Python refuses an
    unknown argument."""
    assert set(NODE_DEFAULTS) == set(NodeColumns.__annotations__)
    assert set(LINK_DEFAULTS) == set(LinkColumns.__annotations__)
    assert set(RECORD_DEFAULTS) == set(NodeFields.__annotations__) - {"desc"} < {f.name for f in fields(Records)}
    b = FabricBuilder()
    with pytest.raises(TypeError, match="no column vendor; the columns are desc, node_guid"):
        b.nodes(1, NodeType.CA, 1, vendor=1)
    with pytest.raises(TypeError, match="no column length"):
        b.links(0, 1, 1, 1, length=2.0)
    b.nodes(2, NodeType.CA, 1)
    b.nodes(2, NodeType.CA, 1, **NODE_DEFAULTS)
    f = b.build()
    assert f.vendor_id.tolist() == [MELLANOX] * 4 and len(set(f.device_id.tolist())) == 1
    assert (f.sys_guid == f.node_guid).all() and len(set(f.node_guid.tolist())) == 4


def test_a_record_with_an_unknown_peer_is_a_cable_with_one_end():
    b = FabricBuilder()
    n = b.nodes(1, NodeType.SWITCH, 4)
    b.links(n, 2, -1, 0, listed=1)
    f = b.build()
    assert f.sizes.cables == 1 and f.cable_port.tolist() == [[2, -1]]
    assert not f.linked.any()


def test_copying_does_not_bring_unwritten_columns_to_life():
    b = FabricBuilder()
    b.nodes(3, NodeType.SWITCH, 64)
    f = b.build()
    f.cc_table[5, 7] = 3
    f.vl_counters["port_vl_xmit_wait"][9, 2] = 4
    g = f.copy()
    for c in COLUMNS:
        assert getattr(g, c.name).tobytes() == getattr(f, c.name).tobytes(), c.name
        assert not np.shares_memory(getattr(g, c.name), getattr(f, c.name))
    assert sum(getattr(f, n).nbytes for n in LAZY_COLUMNS) / f.sizes.ports == pytest.approx(2939 + 131136 / 65, abs=20)
