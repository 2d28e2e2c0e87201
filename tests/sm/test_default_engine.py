"""The default engine under a manager: what a fault does to a tree that was whole."""

from __future__ import annotations

import numpy as np
import pytest

from softib.fabric.node_finder import find_node
from softib.fabric.power_cycle import set_data_vls
from softib.fabric.topologies.registry import generate
from softib.iba.vendor.ar import FREE
from softib.routing.engine import DEFAULT_ENGINE
from softib.routing.proof.verify import verify
from softib.scenario.bring_up import bring_up
from softib.sm.config import SmConfig, config_of
from softib.sm.managers.partitions import Partition
from tests.routing.brute import cas, walk


def test_one_default_for_a_manager_and_a_report():
    assert SmConfig().engine == DEFAULT_ENGINE == "ftree,updn,dfsssp,lash"
    assert bring_up(generate("fat-tree", radix=8, levels=3)).routing.engine == "ftree"


def worst(up) -> int:
    """Paths on the worst link, by plain walks."""
    paths: dict[tuple[int, int], int] = {}
    for a in cas(up.graph):
        for b in cas(up.graph):
            for hop in walk(up.graph, up.routing.lft, int(up.graph.end_switch[a]), int(up.graph.end_lid[b]))[1][:-1]:
                paths[hop] = paths.get(hop, 0) + 1
    return max(paths.values())


@pytest.mark.parametrize(
    ("kind", "parameters"),
    [
        ("torus", {"dims": [5, 5], "hosts_per_switch": 1}),
        ("torus", {"dims": [4, 6], "hosts_per_switch": 2}),
        ("ring", {"switches": 6}),
    ],
)
def test_without_a_top_lanes_are_taken_where_they_pay(kind, parameters):
    up, plain = bring_up(generate(kind, **parameters)), bring_up(generate(kind, **parameters), "updn")
    assert up.routing.engine in ("lash", "dfsssp") and any("worst link" in n for n in up.routing.notes)
    proof = verify(up.graph, up.routing.lft, up.routing.path_sl)
    assert proof.ok and proof.answer_loop is None and proof.switch_loop is None
    assert worst(up) <= 3 / 4 * worst(plain)


def test_lanes_are_left_to_those_who_use_them():
    """Devices with one VL, a partition on an SL, tables of QoS, adaptive routing: paths need no SL then."""
    partition = Partition("storage", 0x7001, sl=3)
    assert bring_up(generate("torus", dims=[5, 5])).routing.engine in ("lash", "dfsssp")
    one_vl = generate("torus", dims=[5, 5])
    set_data_vls(one_vl, 1)
    assert bring_up(one_vl).routing.engine == "updn"
    for config in (
        SmConfig(partitions=(partition,)),
        config_of({"qos": True}),
        config_of({"adaptive_routing": FREE}),
        SmConfig(max_op_vls=1),
    ):
        up = bring_up(generate("torus", dims=[5, 5]), config=config)
        assert up.routing.engine == "updn" and up.routing.path_sl is None


def test_a_cable_less_makes_no_other_engine_of_a_running_tree():
    """A fresh manager routes the broken tree by updn; one that has seen it whole keeps its top switches, reaches everything,
    and writes a fraction of the tables anew."""
    f = generate("fat-tree", radix=12, levels=3)
    b = bring_up(f)
    assert b.routing.engine == "ftree"
    all_sets = b.report.sets
    leaf = find_node(f, "leaf-3")
    up = next(p for p in f.ports_of(leaf) if f.linked[p] and f.is_switch[f.port_node[f.port_peer[p]]])
    b.plane.set_link(up, False)
    b.sweep()
    assert b.routing.engine == "ftree" and any("of the complete tree" in n for n in b.routing.notes)
    proof = verify(b.graph, b.routing.lft)
    assert proof.ok and b.report.sets < all_sets / 10
    used = np.unique(f.lft[f.switch_of_node[leaf]])
    assert int(f.port_num[up]) not in used.tolist()
    b.plane.set_link(up, True)
    b.sweep()
    assert b.routing.engine == "ftree" and verify(b.graph, b.routing.lft).ok
