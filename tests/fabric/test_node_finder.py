"""One rule for names: the whole description, the first word, the GUID, a name that a client cut; several are an error."""

from __future__ import annotations

import pytest

from softib.errors import InputError, UnknownName
from softib.fabric.builder import FabricBuilder
from softib.fabric.faults.inject import node_at
from softib.fabric.node_finder import NodeFinder, find_node, port_named
from softib.iba.constants import NodeType

LONG = "a-host-whose-name-is-longer-than-31-bytes"


@pytest.fixture(scope="module")
def fabric():
    b = FabricBuilder("names")
    b.nodes(2, NodeType.SWITCH, 4, desc=["leaf-10 Quantum", "Quantum Mellanox Technologies"])
    b.nodes(2, NodeType.CA, 1, desc=["rails mlx5_0", "rails mlx5_1"])
    b.nodes(2, NodeType.CA, 1, desc=["twin", "twin"])
    b.nodes(1, NodeType.CA, 1, desc=[LONG])
    b.nodes(2, NodeType.CA, 1, desc=["MT4123 ConnectX6", "MT4123 ConnectX5"])
    return b.build()


@pytest.mark.parametrize(
    ("name", "row"),
    [
        ("leaf-10 Quantum", 0),
        ("leaf-10", 0),
        ("Quantum", 1),
        ("rails mlx5_1", 3),
        (LONG, 6),
        (LONG[:31], 6),
    ],
)
def test_a_name_of_one_node(fabric, name, row):
    assert find_node(fabric, name) == NodeFinder(fabric).adapter(name) == node_at(fabric, name) == row


@pytest.mark.parametrize("form", ["{:#x}", "{:x}", "{:X}", "{:#018x}", "H-{:016x}", "S-{:016x}"])
def test_a_guid_as_tools_write_it(fabric, form):
    assert find_node(fabric, form.format(int(fabric.node_guid[2]))) == 2


@pytest.mark.parametrize("name", ["leaf-1", "leaf", "rail", LONG[:30], LONG[:32], "0x7", "0xzz", "", "leaf-10 "])
def test_no_other_prefix_counts(fabric, name):
    with pytest.raises(UnknownName, match="no node named"):
        find_node(fabric, name)


def test_the_error_proposes_hosts_and_nodes(fabric):
    with pytest.raises(UnknownName, match="leaf-10"):
        find_node(fabric, "leaf-11")


@pytest.mark.parametrize(("name", "n"), [("rails", 2), ("twin", 2), ("MT4123", 2)])
def test_several_nodes_are_listed_in_one_line(fabric, name, n):
    with pytest.raises(InputError, match=f"matches {n} nodes") as error:
        find_node(fabric, name)
    rows = NodeFinder(fabric).rows(name)
    assert all(f"{int(fabric.node_guid[row]):#018x}" in str(error.value) for row in rows) and "\n" not in str(
        error.value
    )


def test_a_hosts_name_means_its_first_adapter_where_a_program_is_placed(fabric):
    finder = NodeFinder(fabric)
    assert finder.adapter("rails") == 2 and finder.port("rails:1") == finder.port("rails mlx5_0")
    assert port_named(fabric, "rails") == finder.port("rails")
    for name in ("twin", "MT4123"):  # of two hosts
        with pytest.raises(InputError, match="matches 2 nodes"):
            finder.adapter(name)


def test_a_name_is_suggested_once():
    from softib.fabric.topologies.registry import generate

    with pytest.raises(UnknownName, match=r"did you mean leaf-1\?$"):
        NodeFinder(generate("fat-tree", radix=4, levels=2)).node("leaf_1")
    with pytest.raises(UnknownName, match=r"did you mean host-0001\?$"):
        NodeFinder(generate("fat-tree", radix=4, levels=2)).node("host-1")
