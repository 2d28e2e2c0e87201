"""Planted faults: each shows exactly where it was planted, and the arrays stay one consistent
fabric."""

from __future__ import annotations

import numpy as np
import pytest

from softib.errors import SoftibError
from softib.fabric.columns import COLUMNS
from softib.fabric.faults import inject
from softib.fabric.faults.kinds import FAULTS, plant
from softib.fabric.node_finder import find_node
from softib.fabric.power_cycle import power_on
from softib.fabric.power_up import active_speed_codes
from softib.fabric.topologies.registry import generate
from softib.iba.constants import PortState
from softib.iba.rates import speed_named
from softib.iba.smp import PortInfo
from tests.fabric.random_faults import random_fault, random_swap

from .graphs import adjacency, tier_count

IDENTITY = {"duplicate-guid", "duplicate-description"}


@pytest.fixture
def pod():
    return generate("rail-optimized", nodes=20, rails=4, radix=16)


def changed(a, b):
    """Names of the columns that differ."""
    return {
        c.name
        for c in COLUMNS
        if getattr(a, c.name).shape != getattr(b, c.name).shape
        or getattr(a, c.name).tobytes() != getattr(b, c.name).tobytes()
    }


def check_cables(f):
    """Port and cable columns say the same, one-sided and dangling records included."""
    assert len(f.cable_port) == f.sizes.cables == len(f.cable_ber) == len(f.cable_listed) == len(f.cable_length_m)
    for c, (a, b) in enumerate(f.cable_port.tolist()):
        assert a >= 0
        assert f.port_cable[a] == c
        assert f.port_peer[a] == b
        if b >= 0:
            assert f.port_cable[b] == c
            assert f.port_peer[b] == a
    assert (f.port_cable >= 0).sum() == len(np.unique(f.cable_port[f.cable_port >= 0]))
    truth = f.source.generator
    assert len(truth["cable_tier"]) == f.sizes.cables
    up = PortInfo.port_state.get(f.port_info) > PortState.DOWN
    physical = (f.port_num > 0) & (f.port_peer >= 0)
    if not any(p.kind == "inactive-link" for p in truth.get("faults", [])):
        assert (up[f.port_num > 0] == physical[f.port_num > 0]).all()


@pytest.mark.parametrize("kind", FAULTS)
@pytest.mark.parametrize("seed", [0, 1, 2, 3])
def test_random_fault_of_every_kind_keeps_the_arrays_consistent(pod, kind, seed):
    before = pod.copy()
    planted = random_fault(pod, kind, np.random.default_rng(seed))
    assert planted.kind == kind
    assert pod.source.generator["faults"] == [planted]
    assert "faults" not in before.source.generator
    check_cables(pod)
    touched = changed(before, pod)
    assert touched, "a fault changes something"
    if kind in IDENTITY:
        assert touched <= {"node_guid", "port_guid", "guids", "node_desc"}
    again = before.copy()
    assert random_fault(again, kind, np.random.default_rng(seed)) == planted
    assert not changed(again, pod), "same seed, same fabric"


@pytest.mark.parametrize("seed", range(5))
def test_many_faults_one_after_the_other(pod, seed):
    rng = np.random.default_rng(seed)
    kinds = [k for k in FAULTS if k not in IDENTITY]
    for kind in rng.permutation(kinds * 3):
        try:
            random_fault(pod, str(kind), rng)
        except SoftibError as error:
            assert "\n" not in str(error)
    check_cables(pod)


def test_swapping_twice_is_no_change(pod):
    before = pod.copy()
    a, b = "leaf-3[12]", "leaf-6[16]"
    inject.swap_cables(pod, a, b)
    x, y = (inject.port_at(pod, p) for p in (a, b))
    assert before.port_peer[x] == pod.port_peer[y]
    assert before.port_peer[y] == pod.port_peer[x]
    assert np.abs(adjacency(pod) - adjacency(before)).sum() == 8, "four cables' worth of ends changed"
    inject.swap_cables(pod, a, b)
    assert not changed(before, pod)


@pytest.mark.parametrize("seed", range(6))
def test_random_swap_changes_who_is_linked_and_a_parallel_one_does_not(pod, seed):
    before = adjacency(pod)
    other = pod.copy()
    random_swap(pod, np.random.default_rng(seed), tier="leaf-spine")
    assert np.abs(adjacency(pod) - before).sum() == 8
    f = generate("fat-tree", radix=8, levels=2, parallel=2)
    before = adjacency(f)
    random_swap(f, np.random.default_rng(seed), same_nodes=True)
    assert (adjacency(f) == before).all()
    with pytest.raises(SoftibError, match="did you mean leaf-spine"):
        random_swap(other, np.random.default_rng(seed), tier="leafspine")


def test_swap_retrains_links_of_mixed_speed():
    f = generate("fat-tree", radix=8, levels=2, generation="HDR", host_generation="EDR")
    a, b = "leaf-1[1]", "leaf-2[5]"  # an EDR host link and an HDR uplink
    inject.swap_cables(f, a, b)
    speed = active_speed_codes(f.port_info, f.port_mlnx_speed)
    fresh = speed_named("EDR").code
    assert speed[inject.port_at(f, b)] == fresh == speed[f.port_peer[inject.port_at(f, b)]]
    assert speed[inject.port_at(f, a)] == speed_named("HDR").code


def test_slow_link_shows_at_both_ends_only(pod):
    before = pod.copy()
    planted = inject.slow_link(pod, "leaf-1[9]", speed="HDR")
    rows = np.flatnonzero((before.port_info != pod.port_info).any(axis=1))
    assert {pod.port_name(r) for r in rows} == set(planted.where)
    assert (active_speed_codes(pod.port_info, pod.port_mlnx_speed)[rows] == speed_named("HDR").code).all()
    assert changed(before, pod) == {"port_info"}
    inject.slow_link(pod, "leaf-1[10]", lanes=1)
    port = inject.port_at(pod, "leaf-1[10]")
    assert PortInfo.link_width_active.get(pod.port_info)[port] == 1
    for bad in ({"speed": "NDR"}, {"speed": "XDR"}, {"lanes": 12}, {"lanes": 4}, {}):
        with pytest.raises(SoftibError) as caught:
            inject.slow_link(pod, "leaf-1[11]", **bad)
        assert "\n" not in str(caught.value)


def test_ber_changes_nothing_but_the_ber(pod):
    before = pod.copy()
    inject.set_ber(pod, "leaf-3[10]", 1e-9)
    assert changed(before, pod) == {"cable_ber"}
    assert (pod.cable_ber > 0).sum() == 1


def test_removed_cable_and_dead_switch(pod):
    cables, uplinks = pod.sizes.cables, tier_count(pod, "leaf-spine")
    inject.remove_cable(pod, "leaf-2[9]")
    assert pod.sizes.cables == cables - 1
    assert tier_count(pod, "leaf-spine") == uplinks - 1
    port = inject.port_at(pod, "leaf-2[9]")
    assert PortInfo.port_state.get(pod.port_info)[port] == PortState.DOWN
    held = sum(pod.port_cable[p] >= 0 for p in pod.ports_of(find_node(pod, "spine-1")))
    inject.dead_switch(pod, "spine-1")
    assert pod.sizes.cables == cables - 1 - held
    check_cables(pod)


def test_removing_then_powering_on_equals_never_having_had_the_cable():
    """The builder is the oracle: a ring without one cable is a line, byte for byte in every port."""
    ring, line = generate("ring", switches=5), generate("mesh", dims=[5])
    inject.remove_cable(ring, "switch-5[2]")
    power_on(ring)
    assert (ring.port_info == line.port_info).all()
    assert (ring.port_peer == line.port_peer).all()
    assert (ring.port_mlnx_speed == line.port_mlnx_speed).all()


def test_lids_are_given_before_one_is_spoilt(pod):
    inject.duplicate_lid(pod, "leaf-1[0]", "node-001 mlx5_0[1]")
    lids = pod.lid[pod.end_ports()]
    assert len(np.unique(lids)) == len(lids) - 1
    assert "lids" in pod.source.records
    inject.zero_lid(pod, "leaf-2[0]")
    assert (pod.lid[pod.end_ports()] == 0).sum() == 1


def test_duplicates_take_the_whole_identity(pod):
    inject.duplicate_guid(pod, "node-001 mlx5_0", "node-002 mlx5_0")
    a, b = find_node(pod, "node-001 mlx5_0"), find_node(pod, "node-002 mlx5_0")
    assert pod.node_guid[a] == pod.node_guid[b]
    pa, pb = pod.port(a, 1), pod.port(b, 1)
    assert pod.port_guid[pa] == pod.port_guid[pb]
    assert pod.guids[pod.guid_base[pa]] == pod.port_guid[pb]


@pytest.mark.parametrize(
    ("entry", "says"),
    [
        ({"kind": "swap-cable", "ports": []}, "did you mean swap-cables"),
        ({"kind": "swap-cables", "ports": ["leaf-1[9]"]}, "two ports whose plugs"),
        ({"kind": "swap-cables", "ports": ["leaf-1[9]", "leaf-1[9]"]}, "ends of one cable"),
        ({"kind": "swap-cables", "ports": ["leaf-1[9]", "spine-1[1]"]}, "ends of one cable"),
        ({"kind": "swap-cables", "ports": ["leaf-1[9]", "leaf-9[6]"]}, "leaf-9[6] has no cable"),
        ({"kind": "swap-cables", "ports": "leaf-1[9]"}, "two ports whose plugs"),
        ({"kind": "remove-cable"}, "needs cable"),
        ({"kind": "remove-cable", "cable": "leaf-1"}, "use node[port]"),
        ({"kind": "remove-cable", "cable": "leaf-1[99]"}, "its ports are 1 to 16"),
        ({"kind": "remove-cable", "cable": "leaf-1[-1]"}, "use node[port]"),
        ({"kind": "remove-cable", "cable": "node-001[1]"}, "matches 4 nodes"),
        ({"kind": "remove-cable", "cable": "leef-1[1]"}, "did you mean leaf-1"),
        ({"kind": "remove-cable", "cable": "0xzz[1]"}, "no node named"),
        ({"kind": "remove-cable", "cable": 3.5}, "a port that the cable is in"),
        ({"kind": "remove-cable", "cabel": "leaf-1[9]"}, "did you mean cable"),
        ({"cable": "leaf-1[9]"}, "needs a kind"),
        ({}, "needs a kind"),
        ({"cable": "leaf-1[9]", "ber": 2}, "from 0 to below 1"),
        ({"cable": "leaf-1[9]", "ber": "high"}, "raw bit error ratio"),
        ({"cable": "leaf-1[9]", "ber": float("nan")}, "from 0 to below 1"),
        ({"cable": "leaf-1[9]", "length_m": 0}, "not a cable length"),
        ({"cable": "leaf-1[9]", "length_m": True}, "metres"),
        ({"cable": "leaf-1[9]", "lanes": 1.5}, "active width"),
        ({"cable": "leaf-1[9]", "speed": 3}, "active generation"),
        ({"cable": "leaf-1[9]", "speed": "QQR"}, "no link speed"),
        ({"cable": 7, "ber": 0.1}, "a port that the cable is in"),
        ({"kind": "swap-cables", "ports": [3, 4]}, "two ports whose plugs"),
        ({"kind": "crossed-rails", "node": "node-001", "rails": [0, 0]}, "two different rails"),
        ({"kind": "crossed-rails", "node": "node-001", "rails": 1}, "for example [0, 1]"),
        ({"kind": "crossed-rails", "node": "node-001", "rails": [0, 9]}, "no node named"),
        ({"kind": "dead-switch", "switch": "node-001 mlx5_0"}, "not a switch"),
        ({"kind": "unlink-hca", "port": "leaf-1[9]"}, "is a switch port"),
        ({"kind": "self-loop", "ports": ["leaf-1[9]", "leaf-1[10]"]}, "needs a free port"),
        ({"kind": "move-cable", "port": "leaf-1[9]", "to": "leaf-1[10]"}, "already holds"),
        ({"kind": "duplicate-lid", "port": "leaf-1[9]", "of": "leaf-2[0]"}, "so use leaf-1[0]"),
        ({"kind": "duplicate-guid", "node": "leaf-1", "of": "leaf-1"}, "same node"),
        ({"kind": "inactive-link", "cable": "leaf-1[9]", "state": "BROKEN"}, "DOWN, INIT, ARMED"),
    ],
)
def test_bad_faults_say_what_would_be_right(pod, entry, says):
    before = pod.copy()
    with pytest.raises(SoftibError) as caught:
        plant(pod, entry)
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)
    assert not changed(before, pod), "a fault that cannot be planted changes nothing"


def test_self_loops_and_guids_as_names(pod):
    free = [p for p in pod.ports_of(find_node(pod, "leaf-9")) if pod.port_cable[p] < 0]
    a, b = (pod.port_name(p) for p in free[:2])
    guid = int(pod.node_guid[find_node(pod, "leaf-9")])
    plant(pod, {"kind": "self-loop", "ports": [f"{guid:#x}[{pod.port_num[free[0]]}]", b]})
    assert pod.port_peer[free[0]] == free[1]
    plant(pod, {"kind": "self-loop", "ports": [pod.port_name(free[2])]})
    assert pod.port_peer[free[2]] == free[2]
    check_cables(pod)
    with pytest.raises(SoftibError, match="loopback plug"):
        plant(pod, {"kind": "swap-cables", "ports": [pod.port_name(free[2]), "leaf-1[9]"]})
    with pytest.raises(SoftibError, match="needs a free port"):
        plant(pod, {"kind": "self-loop", "ports": [a]})
