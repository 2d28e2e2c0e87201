"""Bring-up in process: laws on many topologies, and every way in which a fabric can be odd."""

from __future__ import annotations

import numpy as np
import pytest

from softib.agents.plane import AgentPlane
from softib.errors import InputError, LimitError, MadTimeout, UnknownName
from softib.fabric.formats.registry import read
from softib.fabric.node_finder import default_port, find_node
from softib.fabric.topologies.registry import generate
from softib.iba.constants import CapMask, PortState, SmpAttr
from softib.iba.smp import PortInfo, SwitchInfo
from softib.routing.engine import route
from softib.scenario.bring_up import bring_up
from softib.sm.subnet_manager import SubnetManager
from softib.sm.tables import lft_order
from tests.scenario.laws import check, check_lids, check_links, reached
from tests.scenario.planes import LossyPlane, MutePlane, NotingPlane, odd_fabric
from tests.sm.wire import settle

PS_PER_MS = 1_000_000_000
TOPOLOGIES = [
    ("fat-tree", {"radix": 4, "levels": 3}, "minhop"),
    ("fat-tree", {"radix": 8, "levels": 2}, "ftree"),
    ("fat-tree", {"radix": 12, "levels": 2, "oversubscription": 2}, "updn"),
    ("fat-tree", {"radix": 36, "levels": 2, "hosts": 40}, "ftree"),
    ("rail-optimized", {"nodes": 6, "rails": 4, "radix": 16}, "minhop"),
    ("ring", {"switches": 5, "hosts_per_switch": 2}, "updn"),
]


def make(kind: str, params: dict) -> object:
    return generate(kind, **params)


@pytest.mark.parametrize(("kind", "params", "engine"), TOPOLOGIES)
def test_laws_hold(kind, params, engine):
    fabric = make(kind, params)
    b = bring_up(fabric, engine)
    assert not len(b.unreached) and not b.report.problems
    check(fabric, int(fabric.port_node[b.port]), from_all=engine == "minhop")
    assert b.report.nodes == fabric.sizes.nodes and b.report.links == int((fabric.port_peer >= 0).sum()) // 2
    assert (b.routing.lft == fabric.lft[:, : b.graph.lft_size]).all()
    # The manager saw by MADs what the fabric is: the same engine on the fabric's own graph gives the same tables.
    alone = route(b.graph, engine)
    assert (alone.lft == b.routing.lft).all() and alone.roots == b.routing.roots
    assert alone.ranks is None or (alone.ranks == b.routing.ranks).all()


@pytest.mark.parametrize(("kind", "params", "engine"), TOPOLOGIES[:2])
@pytest.mark.parametrize("lmc", [1, 2, 3])
def test_laws_hold_with_an_lmc(kind, params, engine, lmc):
    if engine == "ftree":
        engine = "updn"  # OpenSM's ftree knows LMC 0 only
    fabric = make(kind, params)
    b = bring_up(fabric, engine, lmc=lmc)
    check(fabric, int(fabric.port_node[b.port]), lmc)


def test_a_switch_can_host_the_manager():
    fabric = make("fat-tree", {"radix": 4, "levels": 2})
    switch = int(fabric.switch_node[1])
    b = bring_up(fabric, node=switch)
    assert b.port == fabric.node_base[switch]
    check(fabric, switch)
    assert fabric.lid[b.port] == 1


def test_a_second_sweep_sets_nothing():
    fabric = make("fat-tree", {"radix": 8, "levels": 3})
    b = bring_up(fabric)
    before = {n: getattr(fabric, n).copy() for n in ("port_info", "switch_info", "lft", "sl2vl", "pkeys", "vl_arb")}
    report = b.sweep()
    assert report.sets == 0 and report.sent > 0
    for name, was in before.items():
        assert (getattr(fabric, name) == was).all(), name


def test_after_a_cable_is_gone_and_back_lids_stay_and_routes_follow():
    fabric = make("fat-tree", {"radix": 8, "levels": 2})
    b = bring_up(fabric)
    lids = fabric.lid.copy()
    cable = next(
        c
        for c, (p, q) in enumerate(fabric.cable_port.tolist())
        if fabric.is_switch[fabric.port_node[p]] and fabric.is_switch[fabric.port_node[q]]
    )
    ends = fabric.cable_port[cable]
    peers = fabric.port_peer[ends].copy()
    unplug(fabric, ends)
    report = b.sweep()
    assert (fabric.lid == lids).all() and report.links == fabric.sizes.cables - 1
    check(fabric, int(fabric.port_node[b.port]))
    # One block a switch, once for each round that it has LIDs of.
    assert 0 < report.mads["Set LFT"] < 2 * fabric.sizes.switches
    fabric.port_peer[ends] = peers
    set_state(fabric, ends, PortState.INIT, 5)
    report = b.sweep()
    assert report.links == fabric.sizes.cables and (fabric.lid == lids).all()
    check(fabric, int(fabric.port_node[b.port]))
    assert b.sweep().sets == 0


def test_a_rebooted_switch_is_told_everything_again():
    fabric = make("fat-tree", {"radix": 8, "levels": 2})
    b = bring_up(fabric)
    fabric.lft[2] = 255
    SwitchInfo.linear_fdb_top.set(fabric.switch_info[2:3], 0)
    report = b.sweep()
    assert report.mads["Set LFT"] == b.graph.lft_size // 64
    check(fabric, int(fabric.port_node[b.port]))


def test_a_changed_port_switch_bit_is_cleared():
    fabric = make("fat-tree", {"radix": 4, "levels": 2})
    b = bring_up(fabric)
    SwitchInfo.port_state_change.set(fabric.switch_info[:1], 1)
    assert b.sweep().mads.get("Set SWITCH_INFO") == 1
    assert not SwitchInfo.port_state_change.get(fabric.switch_info).any()


def unplug(fabric, ends):
    fabric.port_peer[ends] = -1
    set_state(fabric, ends, PortState.DOWN, 2)


def set_state(fabric, ends, state, phys):
    rows = fabric.port_info[ends]
    PortInfo.port_state.set(rows, int(state))
    PortInfo.port_phys_state.set(rows, phys)
    fabric.port_info[ends] = rows


def test_loops_and_dual_port_cas():
    fabric = odd_fabric()
    b = bring_up(fabric)
    assert not b.report.problems and not len(b.unreached)
    check(fabric, int(fabric.port_node[b.port]))
    # Two CAs with two cabled ports each own two LIDs each.
    assert b.report.lids == 3 + 5 + 2


def test_a_dual_port_ca_hosts_the_manager():
    fabric = odd_fabric()
    b = bring_up(fabric, node="h4")
    check(fabric, find_node(fabric, "h4"))
    assert b.report.lids == 10


@pytest.mark.parametrize("kind", ["ca", "switch", "switch-apart"])
def test_a_duplicate_guid_is_reported_left_out_and_the_sweep_ends(kind):
    fabric = odd_fabric(duplicate=kind)
    b = bring_up(fabric)
    twin = 0x2010 if kind == "ca" else 0x1000
    assert {g for g, _ in b.report.duplicates} == {twin}
    assert any(f"{twin:#018x}" in line and "two devices" in line for line in b.report.problems)
    first, second = ("h1", "h3") if kind == "ca" else ("s0", "s2")
    names = fabric.node_names()
    behind_twin = [] if kind == "ca" else ["h3"]
    assert sorted(names[n] for n in b.unreached) == sorted([second, *behind_twin])
    # All but the twin and what hangs behind it is up.
    twin_port = fabric.ports_of(names.index(second))[6 if kind != "ca" else 0]
    assert fabric.port_state[twin_port] == PortState.INIT
    for name in ("s0", "s1", "h0", first, "h4"):
        ports = [p for p in fabric.ports_of(names.index(name)) if fabric.linked[p]]
        behind = [p for p in ports if names[fabric.port_node[fabric.port_peer[p]]] != second]
        assert behind and (fabric.port_state[behind] == PortState.ACTIVE).all(), name
    # Deterministic: a second look sees the same and changes nothing.
    assert b.sweep().sets == 0 and {g for g, _ in b.report.duplicates} == {twin}


@pytest.mark.parametrize("victim", ["leaf", "spine", "host"])
def test_a_silent_node_is_reported_and_everything_else_comes_up(victim):
    fabric = make("fat-tree", {"radix": 8, "levels": 2})
    host_leaf = int(fabric.port_node[fabric.port_peer[fabric.port(int(fabric.cas[0]), 1)]])
    leaves = sorted({int(fabric.port_node[fabric.port_peer[fabric.port(int(c), 1)]]) for c in fabric.cas})
    spines = sorted(set(fabric.switch_node.tolist()) - set(leaves))
    node = {"leaf": leaves[-1], "spine": spines[0], "host": int(fabric.cas[-1])}[victim]
    assert node != host_leaf
    b = bring_up(fabric, plane=MutePlane(fabric, mute={node}))
    ports = np.array(fabric.ports_of(node))
    cables = int(fabric.linked[ports].sum())
    facing = 0 if victim == "host" else cables
    lost_hosts = 4 if victim == "leaf" else 0
    assert b.report.phase_s["discover"] == 0.02  # nobody waits for them but the caller, who wants everything:
    assert (
        b.now_ps == (20 + 4 * 200) * PS_PER_MS
    )  # one try in the sweep, three between sweeps, all silent ports side by side
    assert b.report.timeouts == (1 if victim == "host" else facing - lost_hosts)
    assert len(b.report.problems) == b.report.timeouts
    assert set(b.unreached.tolist()) >= {node} and len(b.unreached) == 1 + lost_hosts
    silent = fabric.copy()
    unplug(silent, np.concatenate([ports[fabric.linked[ports]], fabric.port_peer[ports[fabric.linked[ports]]]]))
    here = reached(silent, int(fabric.port_node[b.port]))[fabric.port_node]
    silent_links = silent.linked
    rows = np.flatnonzero(here & silent_links)
    assert (fabric.port_state[rows] == PortState.ACTIVE).all()
    check_lids(fabric, here & (silent_links | (fabric.port_num == 0)), 0)


@pytest.mark.parametrize("attr", [SmpAttr.SWITCH_INFO, SmpAttr.NODE_DESC])
def test_a_switch_that_does_not_tell_one_thing(attr):
    fabric = make("fat-tree", {"radix": 8, "levels": 2})
    spine = int(fabric.switch_node[-1])
    b = bring_up(fabric, plane=MutePlane(fabric, deaf={(spine, int(attr))}))
    assert any(attr.name in line for line in b.report.problems)
    state = fabric.port_state[list(fabric.ports_of(spine))]
    # Without SwitchInfo it cannot be programmed, so nothing may be routed over it; a name is only a name.
    assert (state == (PortState.ACTIVE if attr == SmpAttr.NODE_DESC else PortState.INIT)).all()


def test_lost_sets_are_reported_and_repaired_by_the_next_sweep():
    fabric = make("fat-tree", {"radix": 8, "levels": 2})
    spine = int(fabric.switch_node[-1])
    plane = MutePlane(fabric, deaf={(spine, int(SmpAttr.LFT))})
    b = bring_up(fabric, plane=plane)
    assert any("LFT" in line for line in b.report.problems)
    plane.deaf = set()
    b.sweep()
    assert not b.report.problems
    check(fabric, int(fabric.port_node[b.port]))


@pytest.mark.parametrize("seed", [0, 2, 3, 4])  # one of twenty loses a request four times in a row
def test_a_lossy_wire_with_answers_in_any_order_gives_the_same_subnet(seed):
    """The same but for the LIDs of devices whose first answer was lost, that nobody waited for: they came later, and have later ones."""
    told, clean = (make("fat-tree", {"radix": 8, "levels": 2}) for _ in range(2))
    b = bring_up(told, plane=LossyPlane(told, 0.05, seed))
    sm = SubnetManager(b.sm.config)
    sm.lids.update(b.sm.lids)
    settle(sm, AgentPlane(clean), b.port)
    assert b.sm.transactor.retried > 0 and not b.report.problems
    for f in (told, clean):
        PortInfo.cap_mask.set(f.port_info, PortInfo.cap_mask.get(f.port_info) & ~np.uint32(CapMask.IS_SM))
        PortInfo.client_reregister.set(f.port_info, 0)
    for name in ("port_info", "switch_info", "lft"):
        assert (getattr(told, name) == getattr(clean, name)).all(), name


def test_the_same_fabric_gives_the_same_octets():
    hashes = []
    for _ in range(2):
        fabric = make("fat-tree", {"radix": 8, "levels": 2})
        plane = NotingPlane(fabric)
        bring_up(fabric, "ftree", plane=plane)
        hashes.append(plane.hash.hexdigest())
    assert hashes[0] == hashes[1]


def test_too_many_lids_are_refused_before_anything_is_set():
    fabric = make("fat-tree", {"radix": 36, "levels": 2})  # 648 hosts x 128 LIDs
    before = {n: getattr(fabric, n).copy() for n in ("port_info", "switch_info", "lft")}
    with pytest.raises(LimitError, match="49,151"):
        bring_up(fabric, lmc=7)
    is_sm = PortInfo.cap_mask.get(fabric.port_info) & CapMask.IS_SM
    assert (is_sm > 0).sum() == 1
    for name, was in before.items():
        differs = np.flatnonzero((getattr(fabric, name) != was).any(axis=1))
        assert len(differs) == (1 if name == "port_info" else 0)


def test_the_first_tables_are_written_once_and_nothing_is_ordered(monkeypatch):
    """Counts that keep bring-up fast: switches that hold nothing have no order of changes, and each block is one Set.

    A second sweep orders what a lost cable changes, and no more.
    """
    ordered = []
    rounds = lft_order.rounds
    monkeypatch.setattr(lft_order, "rounds", lambda *a: (ordered.append(len(a[3])), rounds(*a)))
    fabric = generate("fat-tree", radix=8, levels=3)
    b = bring_up(fabric, "ftree")
    switches, ends = fabric.sizes.switches, fabric.sizes.switches + len(fabric.cas)
    blocks = ends // 64 + 1
    assert ordered == []
    assert b.report.mads["Set LFT"] == switches * blocks
    linked_ports = int((fabric.is_switch[fabric.port_node] & fabric.linked).sum())
    assert b.report.mads["Get NODE_INFO"] == linked_ports + 2, (
        "the manager's own, what its cable leads to, and what each switch port leads to"
    )
    before = fabric.lft.copy()
    core = find_node(fabric, "core-1")
    port = int(np.flatnonzero((fabric.port_node == core) & fabric.linked)[0])
    unplug(fabric, np.array([port, int(fabric.port_peer[port])]))
    b.sweep()
    assert ordered and sum(ordered) == int((before != fabric.lft).sum()) < before.shape[0] * ends // 4


@pytest.mark.slow
def test_11664_hosts():
    fabric = generate("fat-tree", radix=36, levels=3)
    b = bring_up(fabric, "ftree")
    everything = np.ones(fabric.sizes.ports, bool)
    check_links(fabric, everything)
    assert len(check_lids(fabric, everything, 0)) == 13_284
    assert (SwitchInfo.linear_fdb_top.get(fabric.switch_info) == 13_284).all()
    assert (fabric.lft[:, 1:13_285] != 255).mean() > 0.9
    assert b.report.mads["Set LFT"] == 1620 * 208
    assert b.sweep().sets == 0


@pytest.mark.slow
def test_65536_hosts_are_refused():
    fabric = generate("fat-tree", radix=64, levels=3)
    assert fabric.sizes.nodes - fabric.sizes.switches == 65_536
    with pytest.raises(LimitError, match="49,151"):
        bring_up(fabric)
    assert not fabric.lid.any()


def test_a_switch_whose_table_is_too_short_is_named():
    fabric = odd_fabric()
    SwitchInfo.linear_fdb_cap.set(fabric.switch_info[1:2], 5)
    up = bring_up(fabric)
    assert [p for p in up.report.problems if p.startswith("s1: has a forwarding table of 5 entries")]
    assert len(up.routing.lft) == 3 and (up.routing.lft[1] == 255).all()  # nobody's packets lead through it


def test_bad_arguments_are_one_line():
    fabric = odd_fabric()
    with pytest.raises(UnknownName, match="did you mean ftree"):
        bring_up(fabric, "ftre")
    with pytest.raises(UnknownName, match="no node named"):
        bring_up(fabric, node="h9")
    with pytest.raises(InputError, match="nodes 0 to 7"):
        bring_up(fabric, node=8)
    with pytest.raises(InputError, match="use an LMC of 0 to 7"):
        bring_up(fabric, lmc=9)
    assert not fabric.lid.any()


def test_the_smallest_mtu_and_fewest_vls_of_a_link_win():
    fabric = make("fat-tree", {"radix": 4, "levels": 2})
    host = fabric.port(int(fabric.cas[1]), 1)
    PortInfo.mtu_cap.set(fabric.port_info[host : host + 1], 4)
    PortInfo.vl_cap.set(fabric.port_info[host : host + 1], 2)
    bring_up(fabric)
    for port in (host, int(fabric.port_peer[host])):
        assert PortInfo.neighbor_mtu.get(fabric.port_info[port]) == 4
        assert PortInfo.operational_vls.get(fabric.port_info[port]) == 2
    check_links(fabric, np.ones(fabric.sizes.ports, bool))


def test_a_host_that_does_not_answer_its_own_manager():
    fabric = odd_fabric()
    with pytest.raises(MadTimeout, match="of the subnet manager does not answer"):
        bring_up(fabric, plane=MutePlane(fabric, mute={find_node(fabric, "h0")}), node="h0")


@pytest.mark.parametrize(
    ("host", "attr"), [("h0", SmpAttr.PORT_INFO), ("s0", SmpAttr.SWITCH_INFO), ("s0", SmpAttr.PORT_INFO)]
)
def test_a_manager_whose_own_port_gets_no_lid_sets_nothing(host, attr):
    fabric = odd_fabric()
    plane = MutePlane(fabric, deaf={(find_node(fabric, host), int(attr))})
    with pytest.raises(MadTimeout, match=f"{host}.*{attr.name} is not answered"):
        bring_up(fabric, plane=plane, node=host)
    assert not fabric.lid.any() and (fabric.port_state[fabric.linked] == PortState.INIT).all()


def test_parts_that_hang_on_nothing_are_named_as_unreached():
    fabric = odd_fabric()
    unplug(fabric, fabric.cable_port[0])  # s0 apart from s1
    far_port = int(fabric.port(find_node(fabric, "h2"), 2))  # h2 has a port in either part
    unplug(fabric, np.array([far_port, fabric.port_peer[far_port]]))
    b = bring_up(fabric, node="h0")
    names = [fabric.node_name(n) for n in b.unreached.tolist()]
    assert names == ["s1", "s2", "h3", "h4"]
    check(fabric, find_node(fabric, "h0"))


def test_a_manager_with_no_cable_manages_itself():
    fabric = odd_fabric()
    port = np.array([fabric.port(find_node(fabric, "h0"), 1)])
    unplug(fabric, np.concatenate([port, fabric.port_peer[port]]))
    b = bring_up(fabric, node="h0")
    assert b.report.nodes == 1 and fabric.lid[port[0]] == 1 and b.routing.lft.shape[0] == 3


def test_one_switch_alone():
    from softib.fabric.builder import FabricBuilder

    builder = FabricBuilder("alone", lft_cap=256)
    builder.nodes(1, 2, 4, desc=["s"])
    fabric = builder.build()
    b = bring_up(fabric)
    assert b.report.nodes == 1 and fabric.lid[0] == 1 and fabric.lft[0, 1] == 0
    with pytest.raises(InputError, match="no node"):
        bring_up(FabricBuilder("empty").build())


def test_the_manager_runs_on_a_host_and_not_in_a_switch(shared_data):
    """hk-examples/Topo.1 lists a SHARP aggregation node first; nobody can start a subnet manager on one."""
    fabric = read(shared_data / "hk-examples/Topo.1.txt").fabric
    b = bring_up(fabric)
    assert b.port == default_port(fabric)
    assert "Aggregation Node" not in fabric.port_name(b.port) and not fabric.is_switch[fabric.port_node[b.port]]
