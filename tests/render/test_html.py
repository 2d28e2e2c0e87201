"""The HTML file: self-contained, safe against hostile names, of bounded size, the same for the same input."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser

import numpy as np
import pytest

from softib.analysis.labels import distinct_parts, short_name
from softib.analysis.model import Made
from softib.analysis.routing import with_names
from softib.analysis.tiers import MAX_BOXES, tiers_of
from softib.diags.finding import Severity
from softib.diags.structure.recognise import recognise
from softib.fabric.end_ports import port_gbps
from softib.fabric.node_finder import find_node
from softib.fabric.topologies.registry import generate
from softib.render.bundles import MAX_LINES, bundles, load_class
from softib.render.glossary import GLOSSARY
from softib.render.html import to_html
from tests.render.samples import finding, report_of, tree, with_lids

VOID = {"meta", "input", "br", "link", "img", "hr"}


class Page(HTMLParser):
    """Elements with their attributes, text by element, and unclosed or wrongly nested elements."""

    def __init__(self, page: str):
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text: list[str] = []
        self.open: list[str] = []
        self.wrong: list[str] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        if not self.open or self.open[-1] != tag:
            self.wrong.append(tag)
        elif self.open:
            self.open.pop()

    def handle_data(self, data):
        if not self.open or self.open[-1] not in ("script", "style"):
            self.text.append(data)


HOSTILE = [
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "' onmouseover='alert(1)",
    "</title></svg><script>alert(1)</script>",
    "{{ 7 * 7 }}{% raw %}",
    "a&lt;b&",
]


def data_of(report) -> str:
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', to_html(report), re.S)
    assert found
    return found[1]


@pytest.mark.parametrize("text", HOSTILE)
def test_names_and_messages_from_files_are_text_and_nothing_else(text):
    clean = Page(to_html(report_of(tree(2, 2, 2), findings=())))
    fabric = tree(2, 2, 2, prefix=text)
    fabric.name = text
    port = int(fabric.cable_port[0, 0])
    report = report_of(fabric, findings=(finding(fabric, port, message=text, advice=text),))
    report.source = text
    report.problems[0] = type(report.problems[0])(text, 1, text)
    report.notes.append(text)
    page = Page(to_html(report))
    scripts = [a for tag, a in page.elements if tag == "script"]
    assert [a.get("type") for a in scripts] == ["application/json", None]
    assert "<" not in re.search(r'id="data">(.*?)</script>', to_html(report), re.S)[1]
    assert not [a for _, a in page.elements if any(name.startswith("on") for name in a)]
    assert {tag for tag, _ in page.elements} <= {tag for tag, _ in clean.elements} | {
        "ol",
        "li",
        "button",
        "input",
        "details",
        "summary",
        "a",
        "dl",
        "dt",
        "dd",
        "b",
    }
    assert any(text in t for t in page.text)
    assert any(name.startswith(text) for name in json.loads(data_of(report))["name"])


def test_every_element_is_closed_in_order():
    fabric = tree()
    page = Page(to_html(report_of(fabric, findings=(finding(fabric, int(fabric.cable_port[0, 0])),))))
    assert page.wrong == []
    assert page.open == []


def test_nothing_is_loaded_from_elsewhere():
    html = to_html(report_of(tree()))
    page = Page(html)
    for tag, attributes in page.elements:
        assert tag not in ("link", "iframe", "object", "embed", "img", "base"), tag
        for name in ("src", "href", "action", "data"):
            value = attributes.get(name)
            assert value is None or value.startswith("#"), (tag, value)
    assert not re.search(r"url\(|@import|https?://|//[a-z]+\.", html)


def test_same_report_same_bytes():
    assert to_html(report_of(tree())) == to_html(report_of(tree()))


def test_findings_colour_their_link_and_stand_in_the_table():
    fabric = tree()
    up = int(
        np.flatnonzero(
            (fabric.cable_port >= 0).all(axis=1) & fabric.is_switch[fabric.port_node[fabric.cable_port[:, 1]]]
        )[0]
    )
    bad = finding(fabric, int(fabric.cable_port[up, 0]), Severity.ERROR)
    html = to_html(report_of(fabric, findings=(bad,)))
    assert len(re.findall(r'<path class="l\d s\d f2', html)) == 1
    assert "replace the cable" in html
    assert 'data-s="error"' in html


def test_the_drawing_stays_small_on_1620_switches():
    fabric = generate("fat-tree", radix=36, levels=3)
    report = report_of(fabric)
    html = to_html(report)
    assert len(html) < 2_000_000
    assert html.count("<path") <= MAX_LINES
    assert "324 core switches" in html
    assert "648 leaf switches" in html


def test_tiers_follow_the_generator():
    fabric = generate("fat-tree", radix=8, levels=3)
    graph = with_lids(fabric)
    hosts = np.bincount(graph.end_switch[~graph.end_is_switch], minlength=graph.n_switches)
    names = [fabric.node_name(int(n)) for n in graph.switch_node]
    tiers = tiers_of(graph, names, hosts, recognise(fabric).rank[graph.switch_node])
    assert np.bincount(tiers.tier).tolist() == [32, 32, 16]
    assert tiers.labels == ["32 leaf switches", "32 spine switches", "16 core switches"]
    assert max(len(tiers.boxes_of(t)) for t in range(3)) <= MAX_BOXES
    # Leaves of a pod stand together: each stretch of four is connected to the same four spines.
    order = np.argsort(tiers.box[tiers.tier == 0], kind="stable")
    leaves = np.flatnonzero(tiers.tier == 0)[order]
    above = [frozenset(graph.peer[graph.first[s] : graph.first[s + 1]].tolist()) for s in leaves]
    assert all(len(set(above[i : i + 4])) == 1 for i in range(0, 32, 4))


def test_bundles_hold_every_cable_between_switches_once():
    fabric = tree(4, 4, 2)
    graph = with_lids(fabric)
    hosts = np.bincount(graph.end_switch[~graph.end_is_switch], minlength=graph.n_switches)
    tiers = tiers_of(graph, [str(i) for i in range(6)], hosts, recognise(fabric).rank[graph.switch_node])
    lines = bundles(fabric, graph, tiers, None, port_gbps(fabric), ())
    assert sum(b.cables for b in lines) == 8
    assert {b.speed for b in lines} == {"100 Gb/s"}


def test_a_fabric_without_switches_still_makes_a_page():
    from softib.fabric.builder import FabricBuilder
    from softib.iba.constants import NodeType

    b = FabricBuilder("pair")
    ca = b.nodes(2, NodeType.CA, 1, desc=["a", "b"])
    b.links(ca[0], 1, ca[1], 1)
    page = Page(to_html(report_of(b.build())))
    assert page.wrong == []
    assert any("pair" in t for t in page.text)


def test_colours_and_names():
    assert [load_class(x) for x in (0, 0.49, 0.5, 1.0, 1.1, 1.99, 2.0, 99)] == [0, 0, 1, 2, 3, 3, 4, 4]
    assert short_name("MF0;leaf-1:MQM9700/U1") == "leaf-1"
    assert short_name("host-1 mlx5_0") == "host-1 mlx5_0"
    assert short_name("MF0;core:MCS8500/L16/U2") == "core/L16/U2"  # the chips of a director are told apart


def test_every_word_of_the_glossary_has_a_sentence():
    for word, meaning in GLOSSARY.items():
        assert meaning.endswith("."), word
        assert len(meaning) > 20


def test_a_missing_cable_is_drawn_as_a_dashed_line():
    fabric = generate("fat-tree", radix=8, levels=2)
    from softib.diags.finding import Finding, Location
    from softib.fabric.faults.inject import remove_cable

    leaf, spine = find_node(fabric, "leaf-2"), None
    port = int(fabric.port(leaf, 5))
    peer = int(fabric.port_peer[port])
    spine = int(fabric.port_node[peer])
    remove_cable(fabric, "leaf-2[5]")
    places = tuple(
        Location(fabric.node_name(n), int(fabric.node_guid[n]), int(p))
        for n, p in ((leaf, 5), (spine, int(fabric.port_num[peer])))
    )
    gone = Finding("missing-cable", Severity.WARNING, places, "no cable")
    html = to_html(report_of(fabric, findings=(gone,)))
    assert html.count('class="ghost f1"') == 1
    assert "leaf-2 – spine" in html


def test_boxes_are_named_by_what_tells_them_apart():
    assert distinct_parts(["leaf-1", "leaf-2", "leaf-10"]) == (["1", "2", "10"], "leaf-…")
    assert distinct_parts(["sp79.cn.a0807.qm8790.krskp", "sp8.cn.a0901.qm8790.krskp"]) == (
        ["79.cn.a0807", "8.cn.a0901"],
        "sp….qm8790.krskp",
    )
    assert distinct_parts(["a1", "b1"]) == (["a1", "b1"], "")
    assert distinct_parts(["x"]) == (["x"], "")
    assert distinct_parts(["leaf", "leaf-2"]) == (["leaf", "leaf-2"], ""), "nothing would be left of the first"


@pytest.mark.parametrize(("leaves", "prefix"), [(6, ""), (40, "MF0;rack-17-row-3-"), (64, "a-very-long-switch-name-")])
def test_every_box_has_a_label_that_no_other_has(leaves, prefix):
    html = to_html(report_of(tree(leaves, 2, 4, prefix=prefix)))
    labels = re.findall(r'data-box="\d+"[^>]*><title>.*?</title><rect[^>]*/><text[^>]*>([^<]+)</text>', html)
    assert len(labels) == leaves + 4
    assert len(set(labels[:leaves])) == leaves


def test_notes_have_names_instead_of_guids():
    fabric = tree()
    guid = int(fabric.node_guid[find_node(fabric, "leaf-1")])
    text = f"switches differ: {guid:#018x} and {guid:016x}, not 0x00000000deadbeef"
    assert with_names([text, "no GUID"], fabric) == [
        "switches differ: leaf-1 and leaf-1, not 0x00000000deadbeef",
        "no GUID",
    ]
    fabric.node_guid[find_node(fabric, "leaf-2")] = guid
    assert f"{guid:#018x}" in with_names([text], fabric)[0], "two nodes carry it: a name would be a guess"


def test_the_page_opens_on_findings_and_says_how_it_was_made():
    fabric = tree()
    bad = finding(fabric, int(fabric.cable_port[0, 0]))
    report = report_of(fabric, findings=(bad,))
    report.made = Made("2023-11-14 22:13 UTC", "1.2", "softib report 'a b.net' --html x.html")
    html = to_html(report)
    assert html.index('id="findings"') < html.index('id="fabric"') < html.index('id="tables"')
    assert "Made on 2023-11-14 22:13 UTC by softib 1.2" in html
    assert "softib report &#39;a b.net&#39; --html x.html" in html
    calm = to_html(report_of(tree()))
    assert calm.index('id="fabric"') < calm.index('id="findings"')


def test_a_finding_leads_to_its_place_and_to_what_it_means():
    fabric = tree()
    bad = finding(fabric, int(fabric.cable_port[0, 0]))
    page = Page(to_html(report_of(fabric, findings=(bad,))))
    places = [a for tag, a in page.elements if tag == "button" and a.get("class") == "place"]
    node, port = int(fabric.port_node[fabric.cable_port[0, 0]]), int(fabric.port_num[fabric.cable_port[0, 0]])
    assert [(a["data-node"], a["data-port"]) for a in places] == [(str(node), str(port))]
    ids = {a["id"] for _, a in page.elements if "id" in a}
    links = {a["href"] for tag, a in page.elements if tag == "a"}
    assert {link[1:] for link in links} <= ids
    assert "about-link-slow" in ids


def test_the_page_holds_every_node_and_cable_once():
    fabric = tree(4, 4, 2)
    data = json.loads(data_of(report_of(fabric)))
    assert data["name"] == fabric.node_names()
    ends = {(a, ap, b, bp) for a, ap, b, bp in zip(*(data["cable"][k] for k in ("a", "ap", "b", "bp")), strict=True)}
    truth = {
        (int(fabric.port_node[p]), int(fabric.port_num[p]), int(fabric.port_node[q]), int(fabric.port_num[q]))
        for p, q in fabric.cable_port.tolist()
    }
    assert ends == truth
    assert data["cable"]["left_out"] == 0


def test_a_page_of_ten_thousand_hosts_is_a_few_megabytes():
    """11,664 hosts, 34,992 cables: as columns, not as rows of HTML."""
    fabric = generate("fat-tree", radix=36, levels=3)
    report = report_of(tree())
    report.fabric, report.graph, report.prediction, report.recognised = fabric, None, None, None
    assert len(data_of(report)) < 3_000_000


def test_the_date_is_an_argument(monkeypatch):
    """SOURCE_DATE_EPOCH as reproducible-builds.org has it; nonsense is one line."""
    from softib.cli.look.report import _stamp
    from softib.errors import InputError
    from softib.render.phrases import made

    monkeypatch.setattr("sys.argv", ["/somewhere/softib", "report", "a b.net", "--html", "x.html"])
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")
    when, command = _stamp()
    assert command == "softib report 'a b.net' --html x.html"
    assert made(when, command).when == "2023-11-14 22:13 UTC"
    for wrong in ("yesterday", "1e99", "9" * 30):
        monkeypatch.setenv("SOURCE_DATE_EPOCH", wrong)
        with pytest.raises(InputError, match="SOURCE_DATE_EPOCH"):
            _stamp()
