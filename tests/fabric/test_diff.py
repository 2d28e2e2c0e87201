"""``diff``: planted changes come out as exactly those changes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from softib.fabric.builder import FabricBuilder
from softib.fabric.diff import KINDS, Change, diff, lines_of
from softib.fabric.formats import registry
from softib.fabric.model import Fabric
from softib.iba.constants import NodeType
from softib.iba.smp import PortInfo
from tests.extent import examples

LEAVES, HOSTS, SPINES = 3, 4, 2


def tree(
    *,
    hosts: int = HOSTS,
    guid: int = 0x0002C90300000000,
    swap: bool = False,
    without: int = -1,
    speed: dict[int, str] | None = None,
    lanes: dict[int, int] | None = None,
    rename: dict[int, str] | None = None,
    spare: str = "",
    ports: int = 8,
) -> Fabric:
    """Leaves 0-2, spines 3-4, then hosts leaf by leaf; cables: hosts first, then leaf-spine."""
    b = FabricBuilder("tree")
    names = [f"leaf-{i}" for i in range(LEAVES)] + [f"spine-{i}" for i in range(SPINES)]
    names += [f"h-{leaf}-{i}" for leaf in range(LEAVES) for i in range(hosts)]
    names += [spare] if spare else []
    for node, name in (rename or {}).items():
        names[node] = name
    n = len(names)
    switches = LEAVES + SPINES
    guids = np.uint64(guid) + (np.arange(n, dtype=np.uint64) << np.uint64(8))
    kind = np.where(np.arange(n) < switches, NodeType.SWITCH, NodeType.CA)
    b.nodes(n, kind, np.where(kind == NodeType.SWITCH, ports, 1), desc=names, node_guid=guids, speed="HDR")
    links = [(leaf, 1 + i, switches + leaf * hosts + i, 1) for leaf in range(LEAVES) for i in range(hosts)]
    links += [(leaf, 7 + s, LEAVES + s, 1 + leaf) for leaf in range(LEAVES) for s in range(SPINES)]
    if swap:
        (a, pa, b1, pb), (c, pc, d, pd) = links[0], links[hosts]
        links[0], links[hosts] = (a, pa, d, pd), (c, pc, b1, pb)
    kept = [i for i in range(len(links)) if i != without]
    table = np.array([links[i] for i in kept])
    from softib.fabric.power_up import speed_codes

    codes = np.array([int(speed_codes((speed or {}).get(i, "HDR"))) for i in kept])
    b.links(*table.T, speed=codes, lanes=np.array([(lanes or {}).get(i, 4) for i in kept]))
    return b.build()


def found(a: Fabric, b: Fabric) -> list[tuple[str, str]]:
    return [(c.kind, c.message) for c in diff(a, b)]


def test_nothing_changed() -> None:
    assert found(tree(), tree()) == []


def test_swapped_pair_is_two_moves() -> None:
    assert found(tree(), tree(swap=True)) == [
        ("cable-moved", "leaf-0[1] leads to h-1-0[1], previously to h-0-0[1]"),
        ("cable-moved", "leaf-1[1] leads to h-0-0[1], previously to h-1-0[1]"),
    ]


def test_removed_and_added_cable() -> None:
    assert found(tree(), tree(without=0)) == [("cable-removed", "cable leaf-0[1] - h-0-0[1] was removed")]
    assert found(tree(without=0), tree()) == [("cable-added", "new cable leaf-0[1] - h-0-0[1]")]


def test_speed_and_width() -> None:
    assert found(tree(), tree(speed={2: "EDR"}, lanes={3: 2})) == [
        ("cable-speed", "cable leaf-0[3] - h-0-2[1]: speed was HDR, is EDR"),
        ("cable-width", "cable leaf-0[4] - h-0-3[1]: width was 4x, is 2x"),
    ]


def test_speeds_that_a_source_does_not_record_are_not_compared() -> None:
    b = tree(speed={2: "EDR"})
    b.source.format, b.source.records = "topo", frozenset()
    assert found(tree(), b) == []


def test_nodes() -> None:
    assert found(tree(), tree(spare="h-9-9")) == [("node-added", "CA h-9-9 is new")]
    assert found(tree(spare="h-9-9"), tree()) == [("node-removed", "CA h-9-9 was removed")]
    assert found(tree(), tree(rename={0: "leaf-zero"})) == [
        ("node-renamed", "leaf-0 is now called leaf-zero (GUID 0x0002c90300000000)")
    ]
    assert {k for k, _ in found(tree(), tree(ports=16))} == {"node-ports"}


def test_replaced_switch_is_one_device_with_another_guid() -> None:
    b = tree()
    b.node_guid[1] = 0x0002C903FFFF0000
    assert found(tree(), b) == [
        ("node-guid", "leaf-1 has GUID 0x0002c903ffff0000, previously 0x0002c90300000100: the device was replaced")
    ]


def test_other_guids_everywhere_match_by_name() -> None:
    assert found(tree(), tree(guid=0x0008F10500000000)) == []
    assert [k for k, _ in found(tree(), tree(guid=0x0008F10500000000, swap=True))] == ["cable-moved", "cable-moved"]


NODES = LEAVES + SPINES + LEAVES * HOSTS


@settings(max_examples=examples(60), deadline=None)
@given(st.permutations(range(NODES)), st.integers(2, 6), st.booleans())
def test_guids_that_move_between_nodes_are_changes_of_guid_alone(order: list[int], how_many: int, in_a: bool) -> None:
    """Adapters exchanged between nodes that keep name and cables, in either direction of the comparison."""
    plain, moved = tree(), tree()
    chosen = sorted(order[:how_many])
    moved.node_guid[chosen] = moved.node_guid[[*chosen[1:], chosen[0]]]
    a, b = (moved, plain) if in_a else (plain, moved)
    changes = diff(a, b)
    assert [(c.kind, c.where) for c in changes] == [("node-guid", (plain.node_name(n),)) for n in chosen]
    owner = {int(g): n for n, g in enumerate(a.node_guid)}
    assert all(
        c.message.endswith(f"the device of {a.node_name(owner[int(b.node_guid[n])])} is here now")
        for c, n in zip(changes, chosen, strict=True)
    )


@settings(max_examples=examples(60), deadline=None)
@given(st.permutations(range(NODES)), st.integers(2, 6))
def test_names_that_move_between_nodes_are_renames_alone(order: list[int], how_many: int) -> None:
    chosen = sorted(order[:how_many])
    names = tree().node_names()
    b = tree(rename={n: names[m] for n, m in zip(chosen, [*chosen[1:], chosen[0]], strict=True)})
    assert [(c.kind, c.before) for c in diff(tree(), b)] == [("node-renamed", names[n]) for n in chosen]


def test_an_adapter_from_another_host_beside_a_new_one() -> None:
    """The board of h-0-1 is in h-0-0 now, and h-0-1 has a new one: no host was removed, no cable moved."""
    a, b = tree(), tree()
    b.node_guid[5], b.node_guid[6] = a.node_guid[6], 0x0002C903FFFF0000
    for before, after in ((a, b), (b, a)):
        assert [(c.kind, c.where) for c in diff(before, after)] == [
            ("node-guid", ("h-0-0",)),
            ("node-guid", ("h-0-1",)),
        ]


def test_a_duplicate_guid_is_called_one() -> None:
    a, b = tree(), tree()
    b.node_guid[6] = b.node_guid[5]
    (now,), (before,) = diff(a, b), diff(b, a)
    assert now.message.startswith("h-0-1 has GUID") and now.message.endswith("a duplicate of h-0-0")
    assert before.message.startswith("h-0-1 has GUID") and before.message.endswith("no longer a duplicate of h-0-0")


OWN = 0x0250F1B000000000
"""GUIDs that softib generates: they count nodes."""


@pytest.mark.parametrize(
    "renamed",
    [[0], [3], [0, 3], [0, 1, 2], [7], range(LEAVES + SPINES), range(LEAVES + SPINES + LEAVES * HOSTS)],
    ids=str,
)
@pytest.mark.parametrize("other", [OWN, OWN + (1 << 40), 0x0002C90300000000], ids=["same", "shifted", "of devices"])
def test_renamed_nodes_without_guids_of_devices_are_renames_alone(renamed: list[int], other: int) -> None:
    """Exactly the planted names change: no cable does. Where nothing else matches, equal generated
    GUIDs are a start."""
    names = {i: f"new {i}" for i in renamed}
    changes = diff(tree(guid=OWN), tree(guid=other, rename=names))
    if len(names) == LEAVES + SPINES + LEAVES * HOSTS and other != OWN:
        assert {c.kind for c in changes} == {"node-added", "node-removed", "cable-added", "cable-removed"}
        return
    assert [(c.kind, c.after) for c in changes] == [("node-renamed", name) for name in names.values()]


def test_a_renamed_switch_keeps_its_exchanged_cables() -> None:
    a, b = tree(guid=OWN), tree(guid=OWN, rename={0: "new", 3: "core"}, swap=True)
    kinds = [c.kind for c in diff(a, b)]
    assert kinds == ["node-renamed", "node-renamed", "cable-moved", "cable-moved"]


def test_lids() -> None:
    a, b = tree(), tree()
    for f, shift in ((a, 0), (b, 0)):
        ends = f.end_ports()
        lid = np.zeros(f.sizes.ports, np.int64)
        lid[ends] = np.arange(1, len(ends) + 1) + shift
        PortInfo.lid.set(f.port_info, lid)
    assert found(a, b) == []
    row = b.port_info[int(b.port(5, 1)) : int(b.port(5, 1)) + 1]
    PortInfo.lid.set(row, 999)
    assert found(a, b) == [("lid", "h-0-0[1]: LID was 6, is 999")]
    assert found(tree(), b) == []  # one side has none


def test_records_are_json_and_ordered() -> None:
    changes = diff(tree(), tree(swap=True, spare="x", speed={2: "EDR"}, rename={4: "sp"}))
    order = [KINDS.index(c.kind) for c in changes]
    assert order == sorted(order) and len(changes) == 5
    assert changes[0].to_json() == {
        "kind": "node-added",
        "where": ["x"],
        "before": "",
        "after": "x",
        "message": "CA x is new",
    }
    assert all("\n" not in str(c) for c in changes)


@pytest.mark.parametrize(
    "file", ["psmn-x5/X5.topofile", "ufm-selene-storage/selene.storage.txt", "ibutils-clusters/subnet.lst"]
)
def test_real_files_do_not_differ_from_themselves(file: str, shared_data: Path) -> None:
    a, b = (registry.read(shared_data / file).fabric for _ in range(2))
    assert diff(a, b) == []


def test_two_real_scans_of_one_cluster(shared_data: Path) -> None:
    """RhinoBased512.no_sp2-3.lst is RhinoBased512.lst less spine 3 of system SL2: by COUNTS.tsv 272
    links less."""
    a, b = (registry.read(shared_data / f"ibutils-clusters/RhinoBased512{x}.lst").fabric for x in ("", ".no_sp2-3"))
    kinds = [c.kind for c in diff(a, b)]
    assert kinds.count("cable-removed") == 2752 - 2480 and "cable-added" not in kinds and "cable-moved" not in kinds


@settings(max_examples=examples(60), derandomize=True, deadline=None)
@given(st.permutations(range(12)), st.permutations(range(12)), st.integers(0, 12), st.integers(0, 12))
def test_every_cable_that_differs_is_told_once(first: list[int], second: list[int], cut: int, cut2: int) -> None:
    """On any two cablings of the same nodes: removed + moved = cables only in a; added + moved =
    cables only in b."""

    def cabled(order: list[int], n: int) -> Fabric:
        b = FabricBuilder("any")
        b.nodes(4, NodeType.SWITCH, 6, desc=[f"s{i}" for i in range(4)], node_guid=np.arange(1, 5, dtype=np.uint64))
        ends = np.array([(node, port) for port in range(1, 7) for node in range(4)])[
            [2 * i for i in range(12)] + [2 * i + 1 for i in order]
        ]
        a, z = ends[:n], ends[12 : 12 + n]
        b.links(a[:, 0], a[:, 1], z[:, 0], z[:, 1])
        return b.build()

    a, b = cabled(first, cut), cabled(second, cut2)
    kinds = [c.kind for c in diff(a, b)]
    cables = [{frozenset(f.port_name(int(p)) for p in pair) for pair in f.cable_port} for f in (a, b)]
    assert set(kinds) <= {"cable-added", "cable-removed", "cable-moved"}
    assert kinds.count("cable-removed") + kinds.count("cable-moved") == len(cables[0] - cables[1])
    assert kinds.count("cable-added") + kinds.count("cable-moved") == len(cables[1] - cables[0])
    assert (kinds == []) == (cables[0] == cables[1])


def test_cables_of_a_node_that_is_gone_are_a_number_in_its_line():
    gone = [("leaf-2[1]", "host-1[1]"), ("spine-1[2]", "leaf-2[5]"), ("leaf-1[1]", "host-9[1]")]
    changes = [Change("node-removed", ("leaf-2",), "leaf-2", "", "switch leaf-2 was removed")]
    changes += [
        Change("cable-removed", ends, " - ".join(ends), "", f"cable {' - '.join(ends)} was removed") for ends in gone
    ]
    assert lines_of(changes) == ["switch leaf-2 was removed, with 2 cables", "cable leaf-1[1] - host-9[1] was removed"]
