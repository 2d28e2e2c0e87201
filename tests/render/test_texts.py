"""Terminal and JSON: the same figures, safe texts, stable keys."""

from __future__ import annotations

import io
import json
import re
from dataclasses import replace

import numpy as np
import pytest
from rich.console import Console

from softib.analysis.endpoints import endpoints_of
from softib.analysis.engines import compare_engines
from softib.analysis.prediction import predict
from softib.analysis.routing import judge
from softib.diags.finding import Severity
from softib.fabric.model import Fabric
from softib.fabric.topologies.registry import generate
from softib.natural_order import natural_key
from softib.render.phrases import headline, size_text, tiles, time_text
from softib.render.terminal import to_terminal
from softib.result import plain
from softib.routing.engine import route
from tests.render.samples import finding, report_of, tree, with_lids


def shown(report) -> str:
    out = io.StringIO()
    to_terminal(report, Console(file=out, width=100, force_terminal=True))
    return out.getvalue()


def test_names_cannot_write_escape_sequences_or_markup():
    fabric = tree(prefix="\x1b]0;owned\x07[bold red]")
    out = shown(report_of(fabric, findings=(finding(fabric, int(fabric.cable_port[0, 0])),)))
    assert "\x1b]0;" not in out
    assert "\x07" not in out
    assert "[bold red]" in out


def test_the_terminal_says_the_answer_first():
    fabric = tree()
    report = report_of(fabric)
    report.problems.clear()
    assert headline(report) == ("good", "No findings: every pair of hosts arrives, and no credit loop can form.")
    report.findings.append(finding(fabric, int(fabric.cable_port[0, 0]), Severity.WARNING))
    assert headline(report)[0] == "warn"
    report.findings.append(finding(fabric, int(fabric.cable_port[0, 0]), Severity.ERROR))
    assert headline(report)[0] == "bad"
    assert "1 error and 1 warning" in shown(report)


def test_many_findings_of_one_code_are_counted_not_listed():
    fabric = tree(8, 16, 4)
    report = report_of(fabric, findings=tuple(finding(fabric, int(p)) for p in fabric.cable_port[:100, 0]))
    out = shown(report)
    assert "92 more of link-slow" in out
    assert out.count("is bad") == 8


def test_json_is_json_and_holds_the_keys_of_the_contract():
    fabric = tree()
    report = report_of(fabric, findings=(finding(fabric, int(fabric.cable_port[0, 0])),))
    found = json.loads(json.dumps(report.to_json(), allow_nan=False))
    assert {"switches", "cas", "sharp_nodes", "links", "system_links"} <= set(found["fabric"])
    assert found["fabric"]["system_links"] is None
    assert {"code", "severity", "where", "message"} <= set(found["findings"][0])
    assert set(found["findings"][0]["where"][0]) == {"node", "guid", "portnum"}
    assert found["problems"] == [{"file": "pod.net", "line": 7, "reason": "no such port"}]
    assert {"engine", "deadlock_free", "credit_loop", "unreachable", "hops"} <= set(found["routing"])
    assert found["routing"]["credit_loop"] is None
    assert 0 < found["prediction"]["effective_bisection"]["relative"] <= 1


def test_a_credit_loop_is_a_list_of_triples():
    part = replace(report_of(tree()).routing, credit_loop=[("a", 3, 0), ("b", 1, 0)], hops={2: 5, 1: 3})
    found = part.to_json()
    assert found["credit_loop"] == [["a", 3, 0], ["b", 1, 0]]
    assert list(found["hops"].items()) == [("1", 3), ("2", 5)]


@pytest.mark.parametrize(
    ("value", "expected"), [(float("nan"), None), (float("inf"), None), (np.float64(0.5), 0.5), (np.arange(2), [0, 1])]
)
def test_plain(value, expected):
    assert plain({"x": value}) == {"x": expected}


def test_natural_order_and_rails():
    assert sorted(["n10", "n9", "n1 mlx5_1", "n1 mlx5_0"], key=natural_key) == ["n1 mlx5_0", "n1 mlx5_1", "n9", "n10"]
    fabric = tree(2, 4, 1)
    for i, name in enumerate(
        ["n1 hca0", "n1 hca1", "n2 hca0", "n2 hca1", "n3 hca0", "n3 hca1", "n4 hca0", "x Aggregation Node"]
    ):
        raw = name.encode().ljust(64, b"\0")
        fabric.node_desc[fabric.cas[i]] = np.frombuffer(raw, np.uint8)
    ends = endpoints_of(fabric, with_lids(fabric))
    assert ends.name == ["n1 hca0", "n1 hca1", "n2 hca0", "n2 hca1", "n3 hca0", "n3 hca1", "n4 hca0"]
    assert ends.rail.tolist() == [0, 1, 0, 1, 0, 1, 0]
    assert ends.rails == 2


@pytest.mark.parametrize(
    ("ps", "expected"),
    [(500, "500 ps"), (1_500, "1.5 ns"), (2_000_000, "2 µs"), (85_800_000_000, "85.8 ms"), (3e15, "3,000 s")],
)
def test_times(ps, expected):
    assert time_text(ps) == expected


def test_sizes():
    assert [size_text(s) for s in (10, 1 << 20, 3 << 29)] == ["10 B", "1 MiB", "1.5 GiB"]


def test_information_is_not_called_no_findings():
    fabric = tree()
    report = report_of(fabric, findings=(finding(fabric, int(fabric.cable_port[0, 0]), Severity.INFO),))
    report.problems.clear()
    tone, sentence = headline(report)
    assert tone == "good"
    assert sentence == ("No errors, no warnings, 1 remark: every pair of hosts arrives, and no credit loop can form.")


def mixed(slow_every: int) -> Fabric:
    """A tree whose every ``slow_every``-th host has a link of a quarter of the others' rate."""
    fabric = tree(4, 8, 2)
    from softib.fabric.faults.inject import slow_link

    for i in range(0, 32, slow_every):
        slow_link(fabric, f"host-{i}[1]", speed="SDR")
    return fabric


@pytest.mark.parametrize("slow_every", [100, 2, 3])
def test_percentages_divide_the_sums_beside_them(slow_every):
    """Where hosts differ in rate, the mean over pairs is another figure than the quotient of the sums: both are told."""
    report = report_of(mixed(slow_every))
    tile = next(t for t in tiles(report) if t.label == "Effective bisection")
    found = re.search(r"in sum ([\d.,]+) (\w)b/s of ([\d.,]+) (\w)b/s(?: \(([\d.]+) %\))?", tile.note)
    assert found, tile.note
    a, b = (float(found[i].replace(",", "")) * (1000 if found[i + 1] == "T" else 1) for i in (1, 3))
    said = float(found[5] or tile.value.split(" ")[0])
    assert 100 * a / b == pytest.approx(said, abs=0.1)


def test_the_limit_of_random_pairs_is_named_apart_from_the_bisection():
    """Half of random pairs stay on one side: with half of the bisection they may still all have their rate."""
    report = report_of(mixed(100))
    report.prediction.random_pairs = replace(report.prediction.random_pairs, limit=1.0)
    tile = next(t for t in tiles(report) if t.label == "Effective bisection")
    assert tile.note.endswith("; by the wiring at most 100.0 %, as about half of these pairs cross no bisection")


def test_the_same_engine_has_the_same_figures_in_both_tables():
    report = report_of(generate("fat-tree", radix=12, levels=3), engine="updn")
    report.prediction = predict(report.fabric, report.graph, report.lft)
    rows = compare_engines(report.fabric, report.graph, report.prediction.endpoints, report.routing, report.lft)
    used = next(r for r in rows if r.used)
    assert used.bisection == report.prediction.random_pairs.relative
    assert used.shift == report.prediction.pattern("shift").relative


def test_ports_without_a_lid_stand_beside_the_pairs_without_a_path():
    """No pair of theirs is counted as one without a path: 0 alone would say that everybody reaches everybody."""
    report = report_of(tree())
    assert report.routing.ports_without_lid == 0 and report.routing.good
    graph = with_lids(tree(hosts=3))  # the last four hosts have no address
    report.routing = judge(report.fabric, graph, route(graph, "minhop").lft, "minhop", "test")[0]
    tile = next(t for t in tiles(report) if t.label == "Pairs without a path")
    assert report.routing.ports_without_lid == 4 and not report.routing.good
    assert "4 cabled host ports have none" in tile.note and tile.tone == "bad"
    assert report.to_json()["routing"]["ports_without_lid"] == 4
