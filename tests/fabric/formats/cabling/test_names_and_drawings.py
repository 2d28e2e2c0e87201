"""node-name-map, Slurm's topology.conf and GraphML."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ET
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from softib.errors import UnreadableFile
from softib.fabric.builder import FabricBuilder
from softib.fabric.formats import graphml, kubernetes, node_name_map, registry, slurm
from softib.fabric.model import Fabric
from softib.fabric.topologies.registry import generate
from softib.fabric.topologies.spec import load_fabric_yaml
from softib.iba.constants import NodeType

# -- node-name-map --


def test_map_names_nodes_and_reports_the_unknown(tmp_path: Path) -> None:
    (tmp_path / "map").write_text(
        '# names\n0x0002c90300000000 "leaf one"   # first\n0x2c90300000100\tplain\nnonsense\n'
        '0x99 "nobody"\n0x0002c90300000000 "again"\n0x0002c90300000200 "' + "x" * 70 + '"\n'
    )
    b = FabricBuilder("f")
    b.nodes(
        3,
        NodeType.SWITCH,
        4,
        desc=["a", "b", "c"],
        node_guid=np.array([0x2C90300000000 + (i << 8) for i in range(3)], np.uint64),
    )
    f = b.build()
    problems = node_name_map.apply(f, tmp_path / "map")
    assert f.node_names() == ["leaf one", "plain", "x" * 64]
    assert [(p.line, p.reason) for p in problems] == [
        (4, "not 0xGUID \"name\": 'nonsense'"),
        (6, "0x0002c90300000000 has another name at line 2; that one is used"),
        (7, "a name of 70 bytes; a NodeDescription holds 64, the rest is cut off"),
        (5, "no node with GUID 0x0000000000000099 (nobody) in the fabric"),
    ]


def test_map_through_the_registry(shared_data: Path, tmp_path: Path) -> None:
    f = registry.read(shared_data / "ibsim-net/net").fabric
    guid = int(f.node_guid[0])
    (tmp_path / "map").write_text(f'{guid:#x} "Sonja"\n')
    named = registry.read(shared_data / "ibsim-net/net", node_name_map=tmp_path / "map")
    assert named.fabric.node_name(0) == "Sonja"


def test_no_entry_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "map").write_text("hello\nworld\n")
    with pytest.raises(UnreadableFile, match="0xGUID"):
        node_name_map.read(tmp_path / "map")


# -- Slurm --


def slurm_lines(path: Path) -> dict[str, tuple[str, list[str]]]:
    found = (re.match(r"SwitchName=(\S+) (Nodes|Switches)=(\S+)$", line) for line in path.read_text().splitlines())
    return {m[1]: (m[2], slurm.expand_hostlist(m[3])) for m in found if m}


@pytest.mark.parametrize(
    ("names", "folded"),
    [
        # As `scontrol show hostlist` prints them (Slurm's manual, and the two real files).
        (["node1", "node2", "node3", "node4", "node7"], "node[1-4,7]"),
        (["n009", "n010", "n011", "n100"], "n[009-011,100]"),
        (["a", "b"], "a,b"),
        (["n1"], "n1"),
        (["n1", "n01"], "n1,n01"),
        (["r1-ib", "r2-ib"], "r[1-2]-ib"),
        (["S-0008f10500108098", "S-0008f10500108c5c"], "S-0008f10500108098,S-0008f10500108c5c"),
        (["n99", "n100", "n101"], "n[99-101]"),
    ],
)
def test_hostlists_fold(names: list[str], folded: str) -> None:
    assert slurm.fold_hostlist(names) == folded
    assert sorted(slurm.expand_hostlist(folded)) == sorted(names)


@given(
    st.lists(
        st.from_regex(r"[a-c]{0,2}-?[0-9]{0,4}[a-z]?", fullmatch=True).filter(bool),
        unique=True,
        min_size=1,
        max_size=30,
    )
)
def test_folding_loses_no_name(names: list[str]) -> None:
    assert sorted(slurm.expand_hostlist(slurm.fold_hostlist(names))) == sorted(names)


def test_real_slurm_hostlists_expand_and_fold_to_themselves(shared_data: Path) -> None:
    for file in ("slurm-superpod/topology.conf", "psmn-x5/X5.topology.conf"):
        for name, (_, members) in slurm_lines(shared_data / file).items():
            assert sorted(slurm.expand_hostlist(slurm.fold_hostlist(members))) == sorted(members), name


def test_leaves_are_those_of_the_site_itself(shared_data: Path, tmp_path: Path) -> None:
    """PSMN made X5.topology.conf of X5.topofile and X5.map with its own script: same nodes under
    the same leaves."""
    f = registry.read(shared_data / "psmn-x5/X5.topofile").fabric
    pairs = re.findall(r"^[HS]-([0-9a-f]{16})\s+(\S+)", (shared_data / "psmn-x5/X5.map").read_text(), re.MULTILINE)
    assert node_name_map.apply(f, {int(guid, 16): name for guid, name in pairs}) == []
    lines, notes = slurm.tree(f)
    theirs = slurm_lines(shared_data / "psmn-x5/X5.topology.conf")
    ours = {f"S-{int(f.node_guid[line.stands_for[0]]):016x}": set(line.nodes) for line in lines if line.nodes}
    assert (
        ours == {name: set(members) for name, (kind, members) in theirs.items() if kind == "Nodes"} and len(ours) == 6
    )
    # Their spines list the leaves one by one; Slurm wants a tree, so ours is one line over all six.
    (top,) = (line for line in lines if line.children)
    assert len(top.children) == 6 and notes == []
    named = {f"S-{int(f.node_guid[n]):016x}" for n in top.stands_for}
    assert named <= {name for name, (kind, _) in theirs.items() if kind == "Switches"}


def test_blocks_are_leaves_and_the_smallest_gives_the_base_size(tmp_path: Path) -> None:
    """topology.conf(5) of Slurm 23.11: BlockName=, Nodes=, BlockSizes=; each block has at least the
    planning base block size of nodes."""
    fabric = generate("fat-tree", radix=8, levels=2)
    slurm.write_blocks(fabric, tmp_path / "b.conf")
    lines = (tmp_path / "b.conf").read_text().splitlines()
    blocks = [re.fullmatch(r"BlockName=(\S+) Nodes=(\S+)", line) for line in lines[1:-1]]
    sizes = [len(slurm.expand_hostlist(b[2])) for b in blocks if b]
    assert sizes == [4] * 8 and lines[-1] == "BlockSizes=4,8,16,32"


@pytest.mark.parametrize(("nodes", "sizes"), [([2, 2], [2, 4]), ([2, 3], [2, 4]), ([2, 2, 2], [2, 4]), ([3], [3])])
def test_block_sizes_are_those_of_topograph(nodes: list[int], sizes: list[int]) -> None:
    """TestGetBlockSizes of NVIDIA/topograph e2b62507, its cases without requested sizes."""
    assert slurm.block_sizes(nodes) == sizes


def test_labels_name_leaf_and_tiers_above(tmp_path: Path) -> None:
    """Oracle: the cables. Hosts of one leaf share tier-0, hosts of one pod tier-1, all tier-2.
    Values and names are valid in Kubernetes."""
    f = three_tiers()
    kubernetes.write(f, tmp_path / "labels.json")
    nodes = json.loads((tmp_path / "labels.json").read_text())["items"]
    labels = {n["metadata"]["name"]: n["metadata"]["labels"] for n in nodes}
    at = lambda key: [labels[f"n{i:02d}"][f"network.topology.nvidia.com/{key}"] for i in range(4)]
    assert at("tier-0") == at("leaf") == ["leaf0", "leaf1", "leaf2", "leaf3"]
    assert at("tier-1") == at("spine") and at("tier-1")[0] == at("tier-1")[1] != at("tier-1")[2] == at("tier-1")[3]
    assert len(set(at("tier-2"))) == 1 and at("tier-2") == at("core")
    for name, values in labels.items():
        assert re.fullmatch(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?", name)
        assert all(re.fullmatch(r"[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?", v) for v in values.values())


def test_hosts_of_two_fabrics_stand_in_the_one_with_most_links() -> None:
    """Compute (two adapters a host) beside storage (one, and the first by name) that no switch
    joins."""
    b = FabricBuilder("two")
    names = ["compute", "storage", *[f"n{i}" for i in range(3)], "disk"]
    b.nodes(6, np.array([2, 2, 1, 1, 1, 1]), np.array([8, 8, 3, 3, 3, 3]), desc=names)
    links = [(2 + i, port, 0, 2 * i + port - 1) for i in range(3) for port in (2, 3)]
    links += [(2 + i, 1, 1, i + 1) for i in range(3)] + [(5, 1, 1, 8)]
    b.links(*np.array(links).T)
    lines, notes = slurm.tree(b.build())
    assert {line.name: line.nodes for line in lines} == {"compute": ["n0", "n1", "n2"], "storage": ["disk"]}
    assert any(note.startswith("3 hosts are on several fabrics") for note in notes), notes


def three_tiers() -> Fabric:
    """Two pods of two leaves and two spines, two cores; one host a leaf."""
    b = FabricBuilder("pods")
    names = (
        [f"leaf{i}" for i in range(4)]
        + [f"spine{i}" for i in range(4)]
        + ["core0", "core1"]
        + [f"n{i:02d}" for i in range(4)]
    )
    b.nodes(14, np.array([2] * 10 + [1] * 4), np.array([8] * 10 + [1] * 4), desc=names)
    links = [(i, 1, 10 + i, 1) for i in range(4)]
    links += [(leaf, 2 + s, 4 + (leaf // 2) * 2 + s, 1 + leaf % 2) for leaf in range(4) for s in range(2)]
    links += [(4 + s, 3 + c, 8 + c, 1 + s) for s in range(4) for c in range(2)]
    b.links(*np.array(links).T)
    return b.build()


def test_three_tiers_become_a_tree(tmp_path: Path) -> None:
    assert slurm.write(three_tiers(), tmp_path / "topology.conf") == []
    assert (tmp_path / "topology.conf").read_text() == (
        "# topology.conf for topology/tree, written by softib\n"
        "SwitchName=leaf0 Nodes=n00\nSwitchName=leaf1 Nodes=n01\nSwitchName=leaf2 Nodes=n02\nSwitchName=leaf3 "
        "Nodes=n03\n"
        "# spines1 stands for spine[0-1]\nSwitchName=spines1 Switches=leaf[0-1]\n"
        "# spines2 stands for spine[2-3]\nSwitchName=spines2 Switches=leaf[2-3]\n"
        "# spines3 stands for core[0-1]\nSwitchName=spines3 Switches=spines[1-2]\n"
    )


@pytest.mark.parametrize(
    "file",
    ["ufm-selene-storage/selene.storage.txt", "hk-examples/Topo.6_CS8500.txt", "fdr10-stage/topo", "jabl-tests/3.topo"],
)
def test_real_fabrics_give_a_tree(file: str, shared_data: Path, tmp_path: Path) -> None:
    slurm.write(registry.read(shared_data / file).fabric, tmp_path / "topology.conf")
    lines = slurm_lines(tmp_path / "topology.conf")
    children = [c for kind, members in lines.values() if kind == "Switches" for c in members]
    nodes = [n for kind, members in lines.values() if kind == "Nodes" for n in members]
    assert len(children) == len(set(children)) and set(children) <= set(lines)  # one parent each, all defined
    assert len(nodes) == len(set(nodes)) > 0  # one leaf each
    defined: set[str] = set()
    for name, (kind, members) in lines.items():
        assert kind == "Nodes" or set(members) <= defined  # from the leaves up
        defined.add(name)


# -- GraphML --


def test_graphml_reads_back_with_an_xml_parser(tmp_path: Path) -> None:
    f = three_tiers()
    f.cable_length_m[0], f.cable_medium[0] = 2.5, 1
    f.node_desc[0, :7] = np.frombuffer(b"a<&\x01>\xff\0", np.uint8)
    assert graphml.write(f, tmp_path / "g.graphml") == []
    root = ET.parse(tmp_path / "g.graphml").getroot()
    ns = {"g": "http://graphml.graphdrawing.org/xmlns"}
    nodes, edges = root.findall("g:graph/g:node", ns), root.findall("g:graph/g:edge", ns)
    assert (len(nodes), len(edges)) == (f.sizes.nodes, f.sizes.cables)
    keys = {k.get("id"): (k.get("for"), k.get("attr.name")) for k in root.findall("g:key", ns)}
    data = {e.get("id"): {keys[d.get("key")][1]: d.text for d in e.findall("g:data", ns)} for e in [*nodes, *edges]}
    assert data["n0"]["name"] == "a<&\ufffd>\ufffd" and data["n0"]["type"] == "switch" and data["n13"]["name"] == "n03"
    assert data["e0"]["length_m"] == "2.5" and data["e0"]["medium"] == "DAC" and "length_m" not in data["e1"]
    for cable, (a, b) in enumerate(f.cable_port.tolist()):
        e = edges[cable]
        assert (e.get("source"), e.get("target")) == (f"n{f.port_node[a]}", f"n{f.port_node[b]}")
        assert data[f"e{cable}"]["source_port"] == str(f.port_num[a]) and data[f"e{cable}"]["speed"] == "EDR"


def test_a_map_that_names_nothing_says_so(tmp_path: Path) -> None:
    """Another fabric's map, one of PortGUIDs, one without an entry; a generated fabric takes a map
    as a dump does."""
    f = three_tiers()
    ca = int(f.cas[0])
    f.port_guid[f.port(ca, 1)] = f.node_guid[ca] + np.uint64(0x100000)
    for text, words in (
        ('0x99 "a"\n0x98 "b"\n', "none of its 2 GUIDs is a node of the fabric: it may belong to another"),
        (f'{int(f.port_guid[f.port(ca, 1)]):#x} "a"\n', "1 are PortGUIDs; use NodeGUIDs"),
        ("# nothing\n", ("it has no entries")),
    ):
        (tmp_path / "names").write_text(text)
        (problem,) = node_name_map.apply(f, tmp_path / "names")
        assert words in problem.reason
    (tmp_path / "t.yaml").write_text("topology: {kind: ring, switches: 4}\n")
    assert load_fabric_yaml(tmp_path / "t.yaml", node_name_map=tmp_path / "names").problems
    guid = int(load_fabric_yaml(tmp_path / "t.yaml").fabric.node_guid[0])
    (tmp_path / "names").write_text(f'{guid:#x} "first"\n')
    found = load_fabric_yaml(tmp_path / "t.yaml", node_name_map=tmp_path / "names")
    assert found.fabric.node_name(0) == "first" and not found.problems
