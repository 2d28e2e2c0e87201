"""Fabrics and what is asked of them from Python. Oracles: closed forms of fat trees, the command line's JSON, planted faults."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

import softib
from softib.fabric.columns import COLUMNS
from softib.fabric.power_cycle import power_on
from tests.cli.run import softib as command

polars = pytest.importorskip("polars")
EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


@pytest.fixture(scope="module")
def tree() -> softib.Fabric:
    """A full-bisection tree of radix 4: k²/2 hosts, 3k/2 switches, k² cables (Leiserson 1985)."""
    return softib.generate("fat-tree", radix=4, levels=2)


def test_sizes_of_a_tree(tree):
    assert (tree.hosts, tree.switches, tree.cables) == (8, 6, 16)
    assert repr(tree) == "<Fabric 'fat-tree': 6 switches, 8 hosts, 16 cables>"


def test_tables_have_a_row_a_thing(tree):
    assert tree.nodes.height == 14 and tree.links.height == 16
    assert tree.ports.height == 6 * 5 + 8  # port 0 of switches too
    linked = tree.ports.filter(polars.col("peer").is_not_null())
    assert linked.height == 2 * 16
    back = dict(
        zip((f"{n}[{p}]" for n, p in zip(linked["node"], linked["port"], strict=True)), linked["peer"], strict=True)
    )
    assert all(back[far] == near for near, far in back.items()), "a cable has two ends"
    assert tree.links["gbps"].to_list() == [400.0] * 16
    with pytest.raises(softib.UnknownName, match="did you mean nodes"):
        tree.table("nodse")


def test_a_graph_is_the_cabling(tree):
    networkx = pytest.importorskip("networkx")
    graph = tree.to_networkx()
    assert dict(graph.degree()) == {n: 4 if not n.startswith("host") else 1 for n in graph}
    assert networkx.is_connected(graph) and networkx.diameter(graph) == 4


def test_two_devices_of_one_name_are_two_nodes_of_the_graph(tree, tmp_path):
    pytest.importorskip("networkx")
    net = tmp_path / "two.net"
    net.write_text(
        'Switch 8 "S-1" # "twin"\n[1] "S-2"[1]\n\nSwitch 8 "S-2" # "twin"\n[1] "S-1"[1]\n[2] "H-1"[1]\n\n'
        'Hca 1 "H-1" # "host"\n[1] "S-2"[2]\n'
    )
    graph = softib.load(net).to_networkx()
    assert len(graph) == 3 and graph.number_of_edges() == 2


def test_a_node_by_its_name(tree):
    """A leaf of radix 4 has two hosts and one cable to each of two spines."""
    leaf = tree["leaf-1"]
    assert repr(leaf) == "<Node 'leaf-1': switch, 4 ports>" and leaf.type == "switch"
    assert leaf.peers == ["host-0001", "host-0002", "spine-1", "spine-2"]
    assert leaf.ports.column("port") == [0, 1, 2, 3, 4] and set(leaf.ports.column("node")) == {"leaf-1"}
    assert leaf[3]["peer"] == tree["leaf-1[3]"]["peer"] == tree["leaf-1:3"]["peer"] == "spine-1[1]"
    assert tree[leaf.guid].name == "leaf-1" and tree["spine-1[1]"]["peer"] == "leaf-1[3]"
    assert (
        "leaf-1" in tree and "leaf-1[3]" in tree and "leaf-1[9]" not in tree and "leaf-7" not in tree and 1 not in tree
    )


@pytest.mark.parametrize(
    "key, says",
    [
        ("leaf1", "did you mean leaf-1"),
        ("leaf-1[9]", "no port 9; its ports are 0 to 4"),
        (3, "name or GUID"),
        ("", "no node"),
    ],
)
def test_a_node_that_is_not_there(tree, key, says):
    with pytest.raises(softib.InputError, match=says):
        tree[key]
    with pytest.raises(TypeError):
        list(tree)


ASKED = {
    "bring_up": lambda f: softib.bring_up(f, engine="updn"),
    "route": lambda f: softib.route(f, "minhop"),
    "check": softib.check,
    "report": softib.report,
    "predict": softib.predict,
    "diff": lambda f: softib.diff(f, f),
    "tables": lambda f: (f.nodes, f.ports, f.links),
    "plot": lambda f: f.plot(),
    "html": lambda f: f._repr_html_(),
    "arrays": lambda f: power_on(f.arrays),
}


@pytest.mark.parametrize("what", ASKED)
def test_nothing_changes_its_argument(tree, what):
    before = {c.name: getattr(tree.arrays, c.name).tobytes() for c in COLUMNS}
    ASKED[what](tree)
    assert {c.name: getattr(tree.arrays, c.name).tobytes() for c in COLUMNS} == before


def test_a_routing_is_proven(tree):
    made = softib.route(tree, "updn")
    assert made.good and made.deadlock_free and made.unreachable == 0 and made.credit_loop == ()
    assert made.hops == {0: 8, 1: 8 + 16, 2: 24, 3: 48}, "own leaf; its other host, spines; other leaves; their hosts"
    assert made.table().height == 6 * 14, (
        "from every switch to every LID; one spine reaches the other by a turn that closes no loop"
    )
    assert made.lft.dtype == np.uint8 and len(made.switch_names) == 6
    assert made.mads["sets"] > 0
    bad = softib.route(softib.generate("ring", switches=5, hosts_per_switch=1), "minhop")
    assert not bad.deadlock_free and len(bad.credit_loop) >= 3, "minimal routes around a ring of five close a circle"


def test_a_dump_is_verified_and_a_file_without_tables_says_so(tmp_path):
    pytest.importorskip("numba")
    source, dump = EXAMPLES / "cluster.yaml", tmp_path / "lfts"
    assert command("route", source, "--dump", dump).code == 0
    with_lids = tmp_path / "lids.ibnetdiscover"
    assert command("convert", source, with_lids).code == 0
    with pytest.raises(softib.InputError, match="has no forwarding tables"):
        softib.verify(source)


def test_findings_are_those_of_the_command_line():
    source, plan = EXAMPLES / "superpod-127-faults.yaml", EXAMPLES / "pod.yaml"
    found = softib.check(source, plan=plan)
    told = command("check", source, "--plan", plan, "--json").json()["findings"]
    # README's second example: its three planted faults, in that order of severity, and nothing else.
    planted = [{"leaf-3[40]", "leaf-12[45]"}, {"leaf-20[33]"}, {"leaf-7[50]"}]
    places = [{f"{p['node']}[{p['portnum']}]" for p in f["where"]} for f in told]
    assert len(told) == len(planted) and all(fault <= at for fault, at in zip(planted, places, strict=True)), told
    report = softib.report(source, plan=plan).to_json()["findings"]
    assert [f["code"] for f in report] == [f["code"] for f in told]
    assert sorted(f.code for f in found) == sorted(f["code"] for f in told)
    assert (not found.good and len(found.at_least("warning")) < len(found)) or all(f.severity for f in found)
    assert found.table().height == len(found)
    with pytest.raises(softib.UnknownName):
        found.of("no-such-code")
    with pytest.raises(softib.UnknownName, match="severity"):
        found.at_least("bad")


def test_a_report_is_that_of_the_command_line(tree, tmp_path):
    made = softib.report(tree)
    assert made.to_json()["fabric"]["switches"] == 6 and made.prediction is not None
    page = made.to_html(tmp_path / "page.html")
    assert (tmp_path / "page.html").read_text() == page and "</html>" in page
    assert 0 < made.prediction.bisection <= 1
    loads = made.prediction.loads("all-to-all")
    assert loads["load"].sum() == 8 * 6 * 2, "8 hosts × 6 in other leaves, over two links between switches each"
    with pytest.raises(softib.UnknownName):
        made.prediction.loads("all2all")
    with pytest.raises(softib.InputError, match="cannot write"):
        made.to_html(tmp_path / "no" / "page.html")


def test_a_drawing_is_one_svg(tree, tmp_path):
    """The file is one that a browser shows: well-formed XML in SVG's namespace (an <img> shows nothing without it)."""
    saved = tree.plot().save(tmp_path / "tree.svg")
    assert ElementTree.fromstring(saved.read_text()).tag == "{http://www.w3.org/2000/svg}svg"


def test_notebooks_are_shown_tables(tree):
    for thing in (tree, softib.route(tree), softib.check(tree), softib.predict(tree), softib.diff(tree, tree)):
        shown = thing._repr_html_()
        assert shown.startswith("<") and "\n" not in repr(thing)


@pytest.mark.parametrize(
    ("call", "error", "says"),
    [
        (lambda: softib.load("no-such-file.net"), softib.UnreadableFile, "no such file"),
        (lambda: softib.load(""), softib.InputError, "SOURCE is empty"),
        (lambda: softib.generate("fat-tre"), softib.UnknownName, "did you mean fat-tree"),
        (lambda: softib.generate("fat-tree", radx=4), softib.UnknownName, "radix"),
        (lambda: softib.route(softib.generate("ring", switches=3), "mnhop"), softib.UnknownName, "minhop"),
        (
            lambda: softib.predict(softib.generate("ring", switches=3, hosts_per_switch=0)),
            softib.InputError,
            "no traffic to predict",
        ),
        (lambda: softib.running("nosuch"), softib.SoftibError, "nosuch|no fabric"),
    ],
)
def test_what_is_wrong_is_one_line(call, error, says):
    with pytest.raises(error, match=says) as raised:
        call()
    assert "\n" not in str(raised.value)


def test_python_dash_m_is_the_command():
    done = subprocess.run([sys.executable, "-m", "softib", "--version"], capture_output=True, text=True)
    assert softib.__version__ in done.stdout
