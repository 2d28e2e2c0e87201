"""The SuperPOD against NVIDIA's tables and the rules of its design."""

from __future__ import annotations

import numpy as np
import pytest

from softib.errors import SoftibError
from softib.fabric.topologies.registry import generate

from .graphs import adjacency, check_wiring, degrees, level, switch_distances, tier_count


def counts(f):
    truth = f.source.generator
    tiers = [len(level(f, t)) for t in range(1, truth["levels"] + 1)] + [0]
    return (*tiers[:3], tier_count(f, "host-leaf"), tier_count(f, "leaf-spine"), tier_count(f, "spine-core"))


@pytest.mark.parametrize(
    ("nodes", "expected"),
    [
        # DGX SuperPOD reference architecture H100/B200, compute fabric: leaf, spine, core,
        # node-leaf, leaf-spine, spine-core.
        (31, (8, 4, 0, 252, 256, 0)),
        (63, (16, 8, 0, 508, 512, 0)),
        (95, (24, 16, 0, 764, 768, 0)),
        (127, (32, 16, 0, 1020, 1024, 0)),
        # The same document's table of larger systems (units full, UFM elsewhere).
        (64, (16, 8, 0, 512, 512, 0)),
        (128, (32, 16, 0, 1024, 1024, 0)),
        (256, (64, 32, 0, 2048, 2048, 0)),
        (512, (128, 128, 64, 4096, 4096, 4096)),
        (1024, (256, 256, 128, 8192, 8192, 8192)),
        (2048, (512, 512, 256, 16384, 16384, 16384)),
    ],
)
def test_reference_tables_come_out_exactly(nodes, expected):
    f = generate("rail-optimized", nodes=nodes, rails=8, radix=64)
    assert counts(f) == expected


def test_rails_meet_their_leaf():
    f = generate("rail-optimized", nodes=127)
    check_wiring(f)
    names = f.node_names()
    for node, rail, unit in ((1, 0, 0), (33, 7, 1), (127, 3, 3)):
        ca = names.index(f"node-{node:03d} mlx5_{rail}")
        peer = f.port_peer[f.port(ca, 1)]
        assert names[f.port_node[peer]] == f"leaf-{unit * 8 + rail + 1}"
        assert f.port_num[peer] == (node - 1) % 32 + 1
    assert (degrees(f, level(f, 1))[:24] == 64).all()
    assert (degrees(f, level(f, 2)) == 64).all()


def test_ufm_fits_in_the_free_slot_of_the_last_unit():
    f = generate("rail-optimized", nodes=127)
    names = f.node_names()
    leaves = []
    for ca in ("ufm-1 mlx5_0", "ufm-1 mlx5_1", "ufm-2 mlx5_0", "ufm-2 mlx5_1"):
        peer = f.port_peer[f.port(names.index(ca), 1)]
        assert f.port_num[peer] == 32
        leaves.append(names[f.port_node[peer]])
    assert leaves == ["leaf-25", "leaf-26", "leaf-27", "leaf-28"]
    assert degrees(f, level(f, 1)).tolist()[24:] == [64] * 4 + [63] * 4
    assert len(generate("rail-optimized", nodes=127, ufm=False).cas) == 127 * 8
    assert len(generate("rail-optimized", nodes=20).cas) == 164


def test_adapters_of_a_node_share_a_system():
    f = generate("rail-optimized", nodes=33)
    hosts = f.source.generator["node_host"]
    for host in range(33):
        rows = np.flatnonzero(hosts == host)
        assert len(rows) == 8
        assert len(np.unique(f.sys_guid[rows])) == 1
        assert f.sys_guid[rows[0]] == f.node_guid[rows[0]]
    assert len(np.unique(f.sys_guid[f.cas])) == 33 + 2


@pytest.mark.parametrize("nodes", [5, 31, 70, 200, 300, 400])
@pytest.mark.parametrize(("rails", "radix"), [(8, 64), (4, 16), (6, 40)])
def test_laws_over_sizes(nodes, rails, radix):
    nodes = min(nodes, radix // 2 * radix)  # three tiers hold radix units of 4 rails at radix 16
    f = generate("rail-optimized", nodes=nodes, rails=rails, radix=radix)
    check_wiring(f)
    assert (switch_distances(f) >= 0).all()
    used = degrees(f, np.flatnonzero(f.is_switch))
    assert used.max() <= radix
    truth, links = f.source.generator, adjacency(f)
    up = links[np.ix_(level(f, 1), level(f, 2))]
    assert (up.sum(1) == radix // 2).all(), "half of a leaf's ports go up"
    assert len(np.unique(up[up > 0])) == 1
    assert (up.sum(1) >= links[np.ix_(level(f, 1), level(f, 0))].sum(1)).all(), "full bisection at the leaves"
    for ca in f.cas[:: max(1, len(f.cas) // 50)]:  # the leaf of a rail carries that rail only
        leaf = f.port_node[f.port_peer[f.port(ca, 1)]]
        assert truth["node_rail"][ca] == truth["node_rail"][leaf]
        assert truth["node_unit"][ca] == truth["node_unit"][leaf]


def test_core_tier_by_wish_and_by_need():
    two = generate("rail-optimized", nodes=256)
    three = generate("rail-optimized", nodes=256, tiers=3)
    assert counts(two)[2] == 0
    assert counts(three) == (64, 64, 32, 2048, 2048, 2048)
    assert counts(generate("rail-optimized", nodes=257))[2] > 0


@pytest.mark.parametrize(
    ("params", "says"),
    [
        ({"nodes": 4, "radix": 7, "rails": 8}, "use 6 or 8"),
        ({}, "nodes is missing"),
        ({"nodes": 0}, "use 1"),
        ({"nodes": 40, "nodes_per_unit": 33}, "at most 32"),
        ({"nodes": 32, "ufm": True}, "nodes: 31"),
        ({"nodes": 3, "rails": 2, "ufm": True}, "ports need 4 rails"),
        ({"nodes": 300, "tiers": 2}, "at most 256 nodes, or tiers: 3"),
        ({"nodes": 9000}, "at most 8192 nodes"),
        ({"nodes": 40, "ufm": "yes"}, "neither true nor false"),
        ({"nodes": 4, "rails": 8.5}, "not a whole number"),
    ],
)
def test_impossible_pods_say_what_would_be_right(params, says):
    with pytest.raises(SoftibError) as caught:
        generate("rail-optimized", **params)
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)
