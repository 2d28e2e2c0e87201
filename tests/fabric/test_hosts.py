"""A router forwards between subnets and runs no program: it is no host, wherever hosts are counted, measured, simulated or started on."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from softib.analysis.acceptance.plan import ends_of_fabric
from softib.fabric.builder import FabricBuilder
from softib.fabric.formats import registry
from softib.fabric.node_finder import NodeFinder, default_port, host_of
from softib.iba.constants import NodeType
from softib.iba.devices import AGGREGATION_NODE_DESC
from softib.live.operations import Ranks
from softib.scenario.bring_up import bring_up
from softib.scenario.graph_view import graph_of
from softib.workloads.hosts import hosts_of
from tests.cli.run import softib

HOSTS = ["host-1 mlx5_0", "host-1 mlx5_1", "host-2 mlx5_0"]


@pytest.fixture
def dump(tmp_path: Path) -> Path:
    """A spine with a router and an aggregation node, listed first, over two leaves with three adapters of two hosts."""
    b = FabricBuilder("routers")
    router = b.nodes(1, NodeType.ROUTER, 2, desc=["gateway"])
    sharp = b.nodes(1, NodeType.CA, 1, desc=[AGGREGATION_NODE_DESC])
    spine, leaves = (
        b.nodes(1, NodeType.SWITCH, 8, desc=["spine"]),
        b.nodes(2, NodeType.SWITCH, 8, desc=["leaf-1", "leaf-2"]),
    )
    hosts = b.nodes(3, NodeType.CA, 1, desc=HOSTS)
    b.links(spine, 1, router, 1)
    b.links(spine, 2, sharp, 1)
    for i, leaf in enumerate(leaves):
        b.links([int(spine[0])], 3 + i, [int(leaf)], 8)
    for i, host in enumerate(hosts):
        b.links([int(leaves[i // 2])], 1 + i, [int(host)], 1)
    path = tmp_path / "routers.ibnetdiscover"
    registry.write(b.build(), path)
    return path


def test_one_definition_of_a_host(dump: Path) -> None:
    f = registry.read(dump).fabric
    assert sorted(f.node_name(int(n)) for n in np.flatnonzero(f.is_host)) == HOSTS
    assert f.node_name(int(f.port_node[default_port(f)])) in HOSTS, "the seat of a manager"
    assert NodeFinder(f).port("") == default_port(f)
    router = next(int(n) for n in np.flatnonzero(f.node_type == NodeType.ROUTER))
    assert host_of(f, router) == [router]


def test_prediction_simulation_acceptance_and_run(dump: Path) -> None:
    """Counts are those of a drawing with a pencil: three adapters, so an all-to-all has six messages."""
    ran = softib("simulate", dump, "all-to-all:1KB", "--json").json()
    assert ran["messages"] == 6, ran
    assert softib("report", dump, "--json").json()["prediction"]["hosts"] == 3
    f = registry.read(dump).fabric
    assert bring_up(f).port == default_port(f)
    graph = graph_of(f)
    assert set(hosts_of(f).name) == set(HOSTS) == set(ends_of_fabric(f, graph).ends.node)
    assert [f.node_name(n) for n in Ranks(NodeFinder(f))._each_host()] == [HOSTS[0], HOSTS[2]]
    leaves = {f.node_name(int(graph.switch_node[s])) for s in graph.end_switch[graph.end_is_compute].tolist()}
    assert leaves == {"leaf-1", "leaf-2"}, "a router makes no leaf of a spine"
