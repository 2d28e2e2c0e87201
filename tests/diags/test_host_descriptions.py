"""Fabrics whose adapters carry their host's name alone, each card with a SystemImageGUID of its own or all with one."""

from __future__ import annotations

import numpy as np
import pytest

from softib.diags.check import check
from softib.diags.finding import Severity
from softib.diags.view import adapter_of, host_descriptions
from softib.fabric.model import Fabric
from softib.fabric.topologies.registry import generate
from tests.fabric.subset import without_nodes

HOSTS = 40


def _called(fabric: Fabric, node: int, text: str) -> None:
    fabric.node_desc[node] = np.frombuffer(text.encode().ljust(64, b"\0"), np.uint8)


def _named_by_host(cards_of_their_own: bool) -> Fabric:
    """``node-017`` instead of ``node-017 mlx5_3``."""
    fabric = generate("rail-optimized", nodes=HOSTS)
    for node, name in enumerate(fabric.node_names()):
        if (both := adapter_of(name)) and not fabric.is_switch[node]:
            _called(fabric, node, both[0])
    if cards_of_their_own:
        hosts = ~fabric.is_switch
        fabric.sys_guid[hosts] = fabric.node_guid[hosts]
    return fabric


def _found(fabric: Fabric) -> list:
    return [f for f in check(fabric) if f.severity >= Severity.WARNING]


@pytest.mark.parametrize("cards_of_their_own", [False, True])
def test_a_lost_adapter_is_found_and_its_leaf_port_named(cards_of_their_own: bool) -> None:
    clean = _named_by_host(cards_of_their_own)
    assert _found(clean) == []
    own = [n for n, name in enumerate(clean.node_names()) if name == "node-017"]
    for lost in own[0], own[5]:
        free = clean.port_name(int(clean.port_peer[clean.port(lost, 1)]))
        (found,) = _found(without_nodes(clean, [lost]))
        assert found.code == "missing-adapter" and str(found.where[0]) == free
        assert found.message == f"node-017 has 7 adapters, {HOSTS - 1} hosts of its kind have 8; free: {free}"


@pytest.mark.parametrize("cards_of_their_own", [False, True])
def test_an_absent_host_is_named_with_all_its_leaf_ports(cards_of_their_own: bool) -> None:
    clean = _named_by_host(cards_of_their_own)
    own = [n for n, name in enumerate(clean.node_names()) if name == "node-017"]
    free = {clean.port_name(int(clean.port_peer[clean.port(n, 1)])) for n in own}
    (found,) = _found(without_nodes(clean, own))
    assert found.code == "absent-host" and found.evidence["name"] == "node-017"
    assert {str(p) for p in found.where} == free and len(free) == 8


@pytest.mark.parametrize("cards_of_their_own", [False, True])
def test_an_adapter_that_calls_itself_as_another_host_is_the_one_finding(cards_of_their_own: bool) -> None:
    fabric = _named_by_host(cards_of_their_own)
    _called(fabric, fabric.node_names().index("node-017"), "node-018")
    (found,) = _found(fabric)
    assert found.code == "duplicate-description" and "9 adapters are all called 'node-018'" in found.message


def test_makers_names_are_no_hosts() -> None:
    alike = ["MT4123 ConnectX6 Mellanox Technologies"] * 40
    assert host_descriptions(alike) == {}
    named = [f"gpu-{i}" for i in range(6) for _ in range(4)] + ["login-1"] * 2
    found = host_descriptions([*alike, *named])
    assert set(found) == set(named) and found["login-1"].usual == 2
    assert host_descriptions([f"gpu-{i}" for i in range(40)]) == {}, (
        "one adapter each: names of adapters and hosts at once"
    )
