"""Aggregation nodes: trees, QPs and quotas (every layout is softib's own; limits of Quantum and Quantum-2 are the vendor's)."""

import numpy as np
import pytest

from softib.errors import TopologyError
from softib.fabric.power_cycle import forget
from softib.fabric.sharp_trees import sharp_trees
from softib.fabric.topologies.registry import generate
from softib.iba.devices import is_aggregation_node
from softib.iba.vendor import sharp
from softib.scenario.bring_up import bring_up
from tests.agents.client_plane import ClientPlane
from tests.agents.smps import GET, SET, ask
from tests.fabric.subset import without_nodes


@pytest.fixture
def lab():
    f = generate("fat-tree", generation="HDR", radix=4, hosts=8, aggregation_nodes=True)
    b = bring_up(f, plane=ClientPlane(f))
    return f, b.plane, b.port, int(f.lid[f.port(f.sharp_node[0], 1)])


def talk(lab, struct, method=GET, mod=0, dlid=None, **fields):
    _f, plane, port, lid = lab
    got = ask(
        plane, port, klass=0x0B, attr=struct.attr, dlid=dlid or lid, method=method, mod=mod, data=struct.pack(**fields)
    )
    return got if got is None else (got[0], struct.unpack(got[1][: struct.size].tobytes()))


def test_every_switch_of_such_a_fabric_holds_one_behind_its_last_port(lab):
    f = lab[0]
    assert (
        f.sizes.sharps == f.sizes.switches == 6
        and (f.sharp_node == np.flatnonzero(is_aggregation_node(f.node_desc))).all()
    )
    peer = f.port_peer[f.port(f.sharp_node, 1)]
    assert f.is_switch[f.port_node[peer]].all() and (f.port_num[peer] == 5).all()
    assert (f.sys_guid[f.sharp_node] == f.node_guid[f.port_node[peer]]).all(), "of the switch's system"
    assert f.source.generator["node_level"][f.sharp_node].tolist() == [-1] * 6
    assert (f.sharp_cap == [126, 1]).all()
    assert generate("fat-tree", generation="NDR", radix=4, aggregation_nodes=True).sharp_cap[0, 0] == 1023
    assert generate("fat-tree", generation="NDR", radix=4).sizes.sharps == 0
    with pytest.raises(TopologyError, match="EDR switches have no SHARP"):
        generate("ring", generation="EDR", switches=4, aggregation_nodes=True)


def test_only_aggregation_nodes_answer(lab):
    f, plane, port, _ = lab
    host = int(f.lid[f.port(int(np.flatnonzero(f.source.generator["node_level"] == 0)[1]), 1)])
    assert ask(plane, port, klass=0x0B, attr=0x20, dlid=host) is None and len(plane.take_deliveries()) == 1
    assert talk(lab, sharp.ANInfo)[1]["tree_cap"] == 126 and talk(lab, sharp.ANInfo, SET)[0] == 0x0C


def test_qps_are_given_in_order_and_hold_where_they_lead(lab):
    assert talk(lab, sharp.QPCConfig, mod=1)[0] == 0x1C, "nothing is reserved"
    assert [talk(lab, sharp.QPAllocation, SET, count=n)[1]["first_qpn"] for n in (3, 2)] == [1, 4]
    assert talk(lab, sharp.ANInfo)[1]["qp_used"] == 6 and talk(lab, sharp.QPAllocation)[1]["count"] == 5
    context = {"qp_state": 1, "mtu": 5, "sl": 3, "pkey": 0x7FFF, "remote_lid": 9, "remote_qpn": 77}
    assert talk(lab, sharp.QPCConfig, SET, mod=5, **context)[0] == 0
    got = talk(lab, sharp.QPCConfig, mod=5)[1]
    assert {k: got[k] for k in context} == context and not lab[0].sharp_qp[0, :5].any()
    assert talk(lab, sharp.QPCConfig, SET, mod=6, **context)[0] == 0x1C
    assert talk(lab, sharp.QPAllocation, SET, count=sharp.SHARP_QPS - 5)[0] == 0x1C
    assert talk(lab, sharp.QPAllocation, SET, release=1, count=1)[1]["first_qpn"] == 1 and not lab[0].sharp_qp.any()


def test_a_tree_names_reserved_qps_and_a_quantum_holds_one_streaming_tree(lab):
    f = lab[0]
    children = [2, 3] + 30 * [0]
    assert talk(lab, sharp.TreeConfig, SET, tree_state=1, children=2, child_qpn=children)[0] == 0x1C, "no such QP"
    talk(lab, sharp.QPAllocation, SET, count=3)
    tree = {"tree_state": 1, "kind": sharp.STREAMING, "children": 2, "parent_qpn": 1, "child_qpn": children}
    assert talk(lab, sharp.TreeConfig, SET, mod=7, **tree)[0] == 0
    got = talk(lab, sharp.TreeConfig, mod=7)[1]
    assert all(np.array_equal(got[k], v) for k, v in tree.items())
    assert f.sharp_child[0, 7, :3].tolist() == [2, 3, 0] and not f.sharp_tree[1:].any()
    assert talk(lab, sharp.TreeConfig, SET, mod=8, **tree)[0] == 0x1C, "the second streaming tree"
    assert talk(lab, sharp.TreeConfig, SET, mod=7, **tree)[0] == 0, "the first again"
    assert talk(lab, sharp.TreeConfig, SET, mod=8, **{**tree, "kind": sharp.LATENCY})[0] == 0
    assert talk(lab, sharp.TreeConfig, SET, mod=1 << 16 | 7, child_qpn=[1] + 31 * [0])[0] == 0, "children 33 to 64"
    assert f.sharp_child[0, 7, 32] == 1 and talk(lab, sharp.TreeConfig, mod=7)[1]["children"] == 2
    for outside in (126, 2 << 16):
        assert talk(lab, sharp.TreeConfig, mod=outside)[0] == 0x1C
    assert talk(lab, sharp.QPAllocation, SET, release=1)[0] == 0
    assert not f.sharp_tree.any() and not f.sharp_child.any(), "the trees end with their QPs"


def test_a_quota_by_tree(lab):
    quota = {"groups": 4, "osts": 16, "buffers": 1 << 20, "payload": 4096}
    assert talk(lab, sharp.QuotaConfig, SET, mod=3, **quota)[0] == 0
    assert talk(lab, sharp.QuotaConfig, mod=3)[1] == quota
    assert talk(lab, sharp.QuotaConfig, SET, mod=3, osts=1 << 30)[0] == talk(lab, sharp.QuotaConfig, mod=126)[0] == 0x1C


def test_a_switch_without_power_forgets_its_node_and_a_scan_renumbers(lab):
    f = lab[0]
    talk(lab, sharp.QuotaConfig, SET, mod=3, osts=1)
    assert f.sharp_quota[0].any()
    peer = int(f.port_node[f.port_peer[f.port(f.sharp_node[0], 1)]])
    forget(f, peer)
    assert not f.sharp_quota.any()
    less = without_nodes(f, [int(f.sharp_node[1])])
    assert less.sizes.sharps == 5 and (less.sharp_of_node[less.sharp_node] == np.arange(5)).all()
    assert is_aggregation_node(less.node_desc[less.sharp_node]).all() and len(less.sharp_tree) == 5


def test_trees_are_read_by_following_qps(lab):
    f = lab[0]
    lid = [int(f.lid[f.port(n, 1)]) for n in f.sharp_node]
    for row in (0, 1, 2):
        talk(lab, sharp.QPAllocation, SET, dlid=lid[row], count=2)
    for child, parent, own, other in ((0, 2, 1, 1), (1, 2, 1, 2)):
        talk(lab, sharp.QPCConfig, SET, mod=own, dlid=lid[child], qp_state=1, remote_lid=lid[parent], remote_qpn=other)
        talk(lab, sharp.QPCConfig, SET, mod=other, dlid=lid[parent], qp_state=1, remote_lid=lid[child], remote_qpn=own)
        talk(lab, sharp.TreeConfig, SET, mod=4, dlid=lid[child], tree_state=1, parent_qpn=own)
        talk(lab, sharp.QuotaConfig, SET, mod=4, dlid=lid[child], osts=8 + child)
    assert sharp_trees(f)[0].parent.tolist() == [-1, -1, -2, -2, -2, -2], "the root is not in it yet"
    talk(lab, sharp.TreeConfig, SET, mod=4, dlid=lid[2], tree_state=1, children=2, child_qpn=[1, 2] + 30 * [0])
    talk(lab, sharp.QuotaConfig, SET, mod=4, dlid=lid[2], osts=99)
    (tree,) = sharp_trees(f)
    assert (tree.tree, tree.parent.tolist(), tree.streaming, tree.osts) == (4, [2, 2, -1, -2, -2, -2], False, 8)
    assert sharp_trees(generate("ring", switches=4)) == []
