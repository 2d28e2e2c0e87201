"""The aggregation manager: trees that packets' own routes make, written by MADs; what the next sweep sends; the tree of a job."""

from __future__ import annotations

import numpy as np
import pytest

from softib.agents.plane import AgentPlane
from softib.errors import InputError
from softib.fabric.power_cycle import forget
from softib.fabric.sharp_trees import sharp_trees
from softib.fabric.topologies.registry import generate
from softib.iba.vendor.sharp import QPCConfig, TreeConfig
from softib.live.internal_sm.settings import ManagerSettings
from softib.sm.config import SmConfig, config_of
from softib.sm.options.file import read_options
from softib.sm.subnet_manager import SubnetManager
from tests.sm.wire import settle


def tree(**kw):
    return generate("fat-tree", **{"radix": 8, "levels": 2, "generation": "HDR", "aggregation_nodes": True, **kw})


def managed(f, text="aggregation TRUE"):
    sm = SubnetManager(config_of(read_options(text).options))
    plane = AgentPlane(f)
    port = int(f.port(f.cas[0], 1))
    settle(sm, plane, port)
    assert sm.report.problems == [], sm.report.problems
    return sm, plane, port


def again(sm, plane, port):
    sm.request_sweep()
    settle(sm, plane, port)
    return {k: n for k, n in sm.report.mads.items() if k.startswith("Set SHARP")}


def switch_of(f, row):
    return int(f.port_node[f.port_peer[f.port(f.sharp_node[row], 1)]])


def depth(parent, row):
    n = 0
    while parent[row] >= 0:
        row, n = parent[row], n + 1
    return n


def leaves(f):
    return [r for r in range(f.sizes.sharps) if f.node_name(switch_of(f, r)).startswith("leaf")]


def test_a_tree_joins_every_leaf_to_one_top_switch():
    f = tree()
    managed(f)
    latency, streaming = sharp_trees(f)
    assert (latency.streaming, streaming.streaming) == (False, True)
    for t in (latency, streaming):
        (root,) = np.flatnonzero(t.parent == -1).tolist()
        assert f.node_name(switch_of(f, root)).startswith("spine")
        assert [int(t.parent[r]) for r in leaves(f)] == [root] * 8
        assert (t.parent == -2).sum() == 3, "the other spines are in no way"
        assert t.osts > 0 and t.payload > 0
    assert latency.payload < streaming.payload
    assert latency.parent.tolist() != streaming.parent.tolist(), "two roots"


def test_three_levels_follow_the_forwarding_tables():
    f = generate("fat-tree", radix=4, levels=3, generation="NDR", aggregation_nodes=True)
    managed(f, "aggregation TRUE\naggregation_trees 5\naggregation_streaming_trees 3")
    trees = sharp_trees(f)
    assert [t.streaming for t in trees] == 5 * [False] + 3 * [True]
    for t in trees:
        (root,) = np.flatnonzero(t.parent == -1).tolist()
        assert all(depth(t.parent, r) == 2 for r in leaves(f))
        lid = int(f.lid[f.port(f.sharp_node[root], 1)])
        for row in np.flatnonzero(t.parent >= 0).tolist():
            node = switch_of(f, row)
            egress = f.port(node, int(f.lft[f.switch_of_node[node], lid]))
            assert int(f.port_node[f.port_peer[egress]]) == switch_of(f, t.parent[row]), (
                "the edge is a cable that packets take"
            )
    assert len({int(np.flatnonzero(t.parent == -1)[0]) for t in trees}) == 4, "every core is a root"


def test_both_ends_of_an_edge_name_each_other():
    f = tree()
    managed(f, "aggregation TRUE\naggregation_trees 9")
    lid = [int(f.lid[f.port(n, 1)]) for n in f.sharp_node]
    for t in sharp_trees(f):
        for child in np.flatnonzero(t.parent >= 0).tolist():
            above = int(t.parent[child])
            mine = int(TreeConfig.parent_qpn.get(f.sharp_tree[child, t.tree]))
            here = QPCConfig.unpack(f.sharp_qp[child, mine].tobytes())
            there = QPCConfig.unpack(f.sharp_qp[above, here["remote_qpn"]].tobytes())
            assert (here["remote_lid"], there["remote_lid"], there["remote_qpn"]) == (lid[above], lid[child], mine)
            assert here["remote_qpn"] in f.sharp_child[above, t.tree].tolist()


def test_the_next_sweep_sends_nothing_and_a_reset_switch_is_joined_again():
    f = tree()
    sm, plane, port = managed(f)
    held = f.sharp_tree.copy()
    assert again(sm, plane, port) == {}
    root = int(np.flatnonzero(sharp_trees(f)[0].parent == -1)[0])
    node = switch_of(f, root)
    forget(f, node)
    assert not f.sharp_tree[root].any()
    for p in f.ports_of(node):
        if f.port_peer[p] >= 0:
            plane.set_link(p, False)
            plane.set_link(p, True)
    assert again(sm, plane, port)["Set SHARP QPAllocation"] == 1, "the other ends lead to the same LIDs and QPs"
    assert (f.sharp_tree == held).all() and again(sm, plane, port) == {}


def test_a_leaf_that_lost_its_way_to_the_root_is_joined_by_another():
    f = tree()
    sm, plane, port = managed(f)
    t = sharp_trees(f)[0]
    root, leaf = int(np.flatnonzero(t.parent == -1)[0]), leaves(f)[3]
    cut = next(p for p in f.ports_of(switch_of(f, leaf)) if f.port_node[f.port_peer[p]] == switch_of(f, root))
    plane.set_link(cut, False)
    again(sm, plane, port)
    now = sharp_trees(f)[0]
    assert depth(now.parent, leaf) >= 2 and (now.parent[leaves(f)] != -2).all()
    plane.set_link(cut, True)
    again(sm, plane, port)
    assert sharp_trees(f)[0].parent.tolist() == t.parent.tolist()


def test_limits_are_said():
    f = tree()
    sm, *_ = managed(f, "aggregation TRUE\naggregation_trees 200\naggregation_streaming_trees 2")
    assert any("2 streaming trees requested, but a node holds only 1" in n for n in sm.report.notes)
    assert any("200 trees requested, but a node holds only 125" in n for n in sm.report.notes)
    assert len(sharp_trees(f)) == 126
    plain = tree(aggregation_nodes=False)
    sm, *_ = managed(plain)
    assert any("no aggregation node" in n for n in sm.report.notes) and sharp_trees(plain) == []


def test_a_job_gets_the_tree_with_fewest_jobs_and_its_meeting_point():
    f = generate("fat-tree", radix=4, levels=3, generation="NDR", aggregation_nodes=True)
    sm, *_ = managed(f, "aggregation TRUE\naggregation_trees 2")
    manager, graph = sm.aggregation, sm.graph
    host = np.flatnonzero(graph.end_is_compute)
    near = manager.job(graph.end_switch[host[:2]])
    assert near.tree == 0 and near.nodes.tolist() == [near.top] and (near.node_of_host == near.top).all()
    pod = manager.job(graph.end_switch[host[:4]])
    assert pod.tree == 1 and len(pod.nodes) == 3
    wide = manager.job(graph.end_switch[host])
    assert (
        wide.tree == 0
        and wide.top == manager.tree_list[0].root
        and len(wide.nodes) == len(manager.tree_list[0].members)
    )
    assert manager.job(graph.end_switch[host], streaming=True).tree == 2
    assert manager.job(graph.end_switch[host[:0]]) is None


def test_options_that_cannot_be():
    with pytest.raises(InputError, match="aggregation_trees has no effect without aggregation TRUE"):
        config_of({"aggregation_trees": 3})
    with pytest.raises(InputError, match=r"sm.aggregation_streaming_trees: has no effect"):
        ManagerSettings(fallback={"aggregation_streaming_trees": 2}).read()
    with pytest.raises(InputError, match="f:1: aggregation_trees '0' is not possible; use a number from 1 to 1023"):
        read_options("aggregation_trees 0", "f")
    assert config_of({"aggregation": False}) == SmConfig()
