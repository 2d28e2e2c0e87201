"""The map shows each node once, hosts beside their leaf, each pair of neighbours as one edge, whatever the topology."""

from __future__ import annotations

import numpy as np
import pytest

import softib
from softib.web.map_json import groups_of
from softib.web.map_layout import map_of

FABRICS = {
    "tree of three levels": {"kind": "fat-tree", "radix": 8, "levels": 3},
    "tree of two levels": {"kind": "fat-tree", "radix": 8, "levels": 2},
    "rails": {"kind": "rail-optimized", "nodes": 15, "rails": 4, "radix": 16},
    "torus": {"kind": "torus", "dims": [3, 3, 3]},
    "dragonfly": {"kind": "dragonfly+", "g": 3, "l": 2, "s": 2, "p": 2, "h": 2},
    "ring": {"kind": "ring", "switches": 6},
}


def made(name: str):
    parameters = dict(FABRICS[name])
    kind = parameters.pop("kind")
    try:
        return softib.generate(kind, **parameters).arrays
    except softib.SoftibError as error:
        pytest.fail(f"{name}: {error}")


@pytest.mark.parametrize("name", FABRICS)
def test_no_two_nodes_stand_on_one_place(name):
    m = map_of(made(name))
    assert len(set(zip(m.x.tolist(), m.y.tolist(), strict=True))) == len(m.x)
    assert np.isfinite(m.x).all() and np.isfinite(m.y).all()


@pytest.mark.parametrize("name", FABRICS)
def test_an_edge_joins_each_pair_of_neighbours_once(name):
    f = made(name)
    m = map_of(f)
    rows = np.flatnonzero(f.linked)
    pairs = {
        tuple(sorted(p)) for p in zip(f.port_node[rows].tolist(), f.port_node[f.port_peer[rows]].tolist(), strict=True)
    }
    assert {tuple(e) for e in m.edge.tolist()} == pairs and len(m.edge) == len(pairs)
    for port in rows.tolist():
        assert set(m.edge[m.edge_of_port[port]].tolist()) == {
            int(f.port_node[port]),
            int(f.port_node[f.port_peer[port]]),
        }
    assert (m.edge_of_port[~f.linked] == -1).all()


@pytest.mark.parametrize("name", ["tree of three levels", "tree of two levels", "rails", "torus"])
def test_the_nearest_leaf_of_a_host_is_its_own(name):
    f = made(name)
    m = map_of(f)
    leaves = np.unique(m.leaf[~f.is_switch])
    for host in np.flatnonzero(~f.is_switch).tolist():
        far = np.hypot(m.x[leaves] - m.x[host], m.y[leaves] - m.y[host])
        assert int(leaves[np.argmin(far)]) == int(m.leaf[host])


def test_the_top_tier_stands_above_all_others():
    m = map_of(made("tree of three levels"))
    assert m.y[m.tier == 3].min() > m.y[m.tier < 3].max()


def test_a_fabric_without_cables_has_a_map():
    f = softib.generate("ring", switches=3).arrays
    f.port_peer[:] = -1
    f.port_cable[:] = -1
    m = map_of(f)
    assert len(m.edge) == 0 and len(set(zip(m.x.tolist(), m.y.tolist(), strict=True))) == f.sizes.nodes


@pytest.mark.parametrize("name", FABRICS)
def test_each_level_of_detail_joins_groups_of_the_finer_one(name):
    f = made(name)
    m = map_of(f)
    levels = groups_of(f, m)
    finer = np.arange(f.sizes.nodes)
    for level in levels:
        # All nodes of a finer group are in one group, and every group has its nodes.
        assert all(len(set(level.of[finer == g].tolist())) == 1 for g in np.unique(finer).tolist())
        assert level.count.sum() == f.sizes.nodes and (level.count > 0).all()
        assert np.isfinite(level.x).all() and len(level.name) == len(level.x)
        assert m.x.min() <= level.x.min() and level.x.max() <= m.x.max()
        finer = level.of
    assert len(levels[2].x) <= len(levels[1].x) <= len(levels[0].x) <= f.sizes.nodes


def test_a_rack_is_a_leaf_with_its_hosts():
    f = made("tree of two levels")
    racks = groups_of(f, map_of(f))[0]
    names = f.node_names()
    assert racks.name[racks.of[names.index("leaf-1")]] == "leaf-1, 4 hosts"
    assert racks.of[names.index("host-0001")] == racks.of[names.index("leaf-1")]
    assert racks.name[racks.of[names.index("spine-1")]] == "spine-1"
