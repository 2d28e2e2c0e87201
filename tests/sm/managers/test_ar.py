"""The manager of adaptive routing: what switches hold after a sweep, what the next one sends, and where it does nothing."""

from __future__ import annotations

import numpy as np
import pytest

from softib.agents.plane import AgentPlane
from softib.errors import InputError
from softib.fabric.power_cycle import forget
from softib.fabric.topologies.registry import generate
from softib.iba.vendor import ar
from softib.iba.vendor.ar import ARInfo
from softib.live.internal_sm.settings import ManagerSettings
from softib.sm.config import SmConfig, config_of
from softib.sm.options.file import read_options
from softib.sm.subnet_manager import SubnetManager
from tests.sm.wire import settle


def managed(f, text="adaptive_routing free"):
    sm = SubnetManager(config_of(read_options(text).options))
    plane = AgentPlane(f)
    port = int(f.port(f.cas[0], 1))
    settle(sm, plane, port)
    assert sm.report.problems == []
    return sm, plane, port


def tree(**kw):
    return generate("fat-tree", **{"radix": 8, "levels": 2, **kw})


def again(sm, plane, port):
    sm.request_sweep()
    settle(sm, plane, port)
    return {k: n for k, n in sm.report.mads.items() if k.startswith("Set MLNX_AR")}


def group_ports(f, switch, lid):
    """Ports among which ``switch`` chooses for ``lid``; [] where it does not choose."""
    entry = int(f.ar_lft[switch, lid])
    if entry >> ar.STATE_SHIFT == ar.STATIC:
        return []
    words = f.ar_group[switch, entry & ar.GROUP_MASK]
    return [p for p in range(256) if int(words[p // 64]) >> p % 64 & 1]


def is_leaf(f, node):
    return f.node_name(int(node)).startswith("leaf")


def test_leaves_choose_among_all_uplinks_and_the_last_hop_is_fixed():
    f = tree()
    managed(f)
    assert ARInfo.ar_enabled.get(f.ar_info).all() and not ARInfo.by_sl_en.get(f.ar_info).any()
    assert (ARInfo.by_transport_disable.get(f.ar_info) == ar.UD | ar.UC).all()
    leaves = [s for s, n in enumerate(f.switch_node) if is_leaf(f, n)]
    for s in leaves:
        node = int(f.switch_node[s])
        up = [
            int(f.port_num[p])
            for p in f.ports_of(node)
            if f.port_peer[p] >= 0 and f.is_switch[f.port_node[f.port_peer[p]]]
        ]
        for ca in f.cas.tolist():
            lid = int(f.lid[f.port(ca, 1)])
            mine = int(f.port_node[f.port_peer[f.port(ca, 1)]]) == node
            assert group_ports(f, s, lid) == ([] if mine else up)
            assert mine or int(f.lft[s, lid]) in up, "the table's port is one of them"
    assert not f.ar_group[:, 0].any(), "group 0 stays empty"
    assert {int(x) >> ar.STATE_SHIFT for x in f.ar_lft[leaves[0], 1 : int(f.lid.max()) + 1]} == {ar.FREE, ar.STATIC}


def test_a_spine_with_two_cables_to_a_leaf_chooses_between_them():
    f = tree(hosts=8, parallel=2)
    managed(f)
    spine = next(s for s, n in enumerate(f.switch_node) if not is_leaf(f, n))
    seen = [group_ports(f, spine, int(f.lid[f.port(ca, 1)])) for ca in f.cas]
    assert all(len(ports) == 2 for ports in seen)


def test_the_next_sweep_sends_nothing_and_a_lost_link_only_what_changed():
    f = tree()
    sm, plane, port = managed(f)
    assert sm.report.mads["Set MLNX_AR_INFO"] == f.sizes.switches
    assert again(sm, plane, port) == {}
    before = f.ar_group.copy()
    leaf = next(s for s, n in enumerate(f.switch_node) if is_leaf(f, n))
    node = int(f.switch_node[leaf])
    cut = next(p for p in f.ports_of(node) if f.is_switch[f.port_node[f.port_peer[p]]])
    numbers = set((f.ar_lft[leaf] & ar.GROUP_MASK).tolist()) - {0}
    plane.set_link(cut, False)
    sent = again(sm, plane, port)
    assert 0 < sum(sent.values()) < 60
    gone = int(f.port_num[cut])
    for ca in f.cas.tolist():
        assert gone not in group_ports(f, leaf, int(f.lid[f.port(ca, 1)]))
    for number in numbers:
        assert (f.ar_group[leaf, number] == before[leaf, number]).all(), (
            "a number does not change its meaning while it may be in use"
        )
    plane.set_link(cut, True)
    again(sm, plane, port)
    assert any(gone in group_ports(f, leaf, int(f.lid[f.port(ca, 1)])) for ca in f.cas.tolist())
    assert again(sm, plane, port) == {}


def test_a_switch_that_was_reset_gets_its_tables_again():
    f = tree()
    sm, plane, port = managed(f)
    held = f.ar_lft.copy()
    spine = next(int(n) for n in f.switch_node if not is_leaf(f, n))
    s = int(f.switch_of_node[spine])
    forget(f, spine)
    assert not f.ar_lft[s].any() and not f.ar_info[s].any()
    for p in f.ports_of(spine):
        if f.port_peer[p] >= 0:
            plane.set_link(p, False)
            plane.set_link(p, True)
    assert again(sm, plane, port)["Set MLNX_AR_INFO"] == 1
    assert (f.ar_lft == held).all() and ARInfo.ar_enabled.get(f.ar_info[s])


def test_masks_and_the_other_mode():
    f = tree()
    managed(f, "adaptive_routing bounded\nar_sl_mask 0xfff0\nar_transport_mask 0xf\n")
    assert ARInfo.by_sl_en.get(f.ar_info).all() and (ARInfo.enable_by_sl_mask.get(f.ar_info) == 0xFFF0).all()
    assert not ARInfo.by_transport_disable.get(f.ar_info).any()
    states = {int(x) >> ar.STATE_SHIFT for x in np.unique(f.ar_lft[:, 1 : int(f.lid.max()) + 1])}
    assert states == {ar.BOUNDED, ar.STATIC}


def test_switched_off_it_stops():
    f = tree()
    sm, plane, port = managed(f)
    sm.reconfigure(SmConfig())
    settle(sm, plane, port)
    assert not ARInfo.ar_enabled.get(f.ar_info).any()
    assert again(sm, plane, port) == {}
    sm.reconfigure(config_of({"adaptive_routing": ar.FREE}))
    settle(sm, plane, port)
    assert ARInfo.ar_enabled.get(f.ar_info).all()


@pytest.mark.parametrize(
    ("fabric", "engine", "says"),
    [
        (lambda: tree(), "minhop", "minhop does not rank switches"),
        (lambda: tree(generation="QDR"), "updn", "no switch of this subnet supports it"),
    ],
)
def test_where_it_cannot_be_it_says_why_and_writes_nothing(fabric, engine, says):
    f = fabric()
    sm, *_ = managed(f, f"adaptive_routing free\nrouting_engine {engine}\n")
    assert any(says in note for note in sm.report.notes)
    assert not f.ar_info.any() and not f.ar_group.any() and not f.ar_lft.any()


def test_without_the_option_nothing_is_asked():
    sm, *_ = managed(tree(), "")
    assert not [k for k in sm.report.mads if "AR" in k.split()[-1] and "MLNX" in k]


def test_options_that_cannot_be():
    with pytest.raises(InputError, match="f:1: adaptive_routing 'fast' is not possible; use free, bounded or off"):
        read_options("adaptive_routing fast", "f")
    with pytest.raises(InputError, match="ar_sl_mask has no effect"):
        config_of(read_options("ar_sl_mask 3").options)
    with pytest.raises(InputError, match=r"sm.ar_transport_mask: has no effect"):
        ManagerSettings(fallback={"ar_transport_mask": 2}).read()
    assert ManagerSettings(fallback={"adaptive_routing": "bounded"}).read().ar.state == ar.BOUNDED
    assert ManagerSettings(fallback={"adaptive_routing": False}).read().ar is None
