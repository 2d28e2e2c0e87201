"""The engines compared: laws of full trees, and honest rows for engines that refuse."""

from __future__ import annotations

import pytest

from softib.analysis.endpoints import endpoints_of
from softib.analysis.engines import compare_engines
from softib.analysis.model import Report
from softib.analysis.routing import judge
from softib.fabric.topologies.registry import generate
from softib.render.phrases import engine_hint
from softib.routing.engine import ENGINES, NEEDS, route
from tests.render.samples import report_of, with_lids


def rows_of(report: Report, used: str = "minhop"):
    ends = endpoints_of(report.fabric, report.graph)
    lft = route(report.graph, used).lft
    part = judge(report.fabric, report.graph, lft, used, "test")[0]
    return compare_engines(report.fabric, report.graph, ends, part, lft)


def test_ftree_carries_every_shift_of_a_full_tree():
    """Zahavi 2012: on a full fat tree d-mod-k is free of contention under every shift."""
    report = report_of(generate("fat-tree", radix=8, levels=3))
    rows = {r.engine: r for r in rows_of(report)}
    assert set(rows) == set(ENGINES) - set(NEEDS)
    assert rows["ftree"].shift == pytest.approx(1.0)
    assert rows["ftree"].deadlock_free
    assert all(0 < r.bisection <= 1 for r in rows.values())
    assert [r.used for r in rows.values()].count(True) == 1


def test_a_ring_shows_which_engine_can_deadlock():
    fabric = generate("ring", switches=5, hosts_per_switch=1)
    report = report_of(fabric)
    rows = {r.engine: r for r in rows_of(report)}
    assert not rows["minhop"].deadlock_free
    assert rows["updn"].deadlock_free


def test_engines_that_take_long_are_named_as_not_tried():
    """A torus of 144 switches: its shortest paths make credit loops, which dfsssp and lash break by a long search."""
    report = report_of(generate("torus", dims=[12, 12], hosts_per_switch=1))
    rows = {r.engine: r for r in rows_of(report)}
    assert set(rows) == set(ENGINES) - set(NEEDS)
    assert {name for name, row in rows.items() if not row.tried} == {"dfsssp", "lash"}
    assert "softib route --engine lash" in rows["lash"].note
    assert rows["nue"].bisection and rows["dor"].bisection


def test_the_hint_names_an_engine_only_where_it_is_safe_and_better():
    fabric = generate("fat-tree", radix=12, levels=3)
    report = report_of(fabric)
    assert with_lids(fabric).n_switches == report.graph.n_switches
    report.engines = rows_of(report)
    best = report.engines[0]
    used = next(r for r in report.engines if r.used)
    assert (engine_hint(report) != "") == (best.bisection >= 1.2 * used.bisection)
    report.engines = rows_of(report, used=best.engine)
    assert engine_hint(report) == ""


def test_tables_from_a_file_stand_beside_the_engines():
    """Their row is about them: here each host's leaf forgets the way up, so only pairs on one leaf have a rate."""
    report = report_of(generate("fat-tree", radix=8, levels=2))
    graph, ends = report.graph, endpoints_of(report.fabric, report.graph)
    lft = route(graph, "ftree").lft.copy()
    lft[lft > 4] = 255
    part = judge(report.fabric, graph, lft, "file", "read from a dump")[0]
    rows = compare_engines(report.fabric, graph, ends, part, lft)
    assert [r.engine for r in rows if r.used] == ["file"]
    assert {r.engine for r in rows} == {"file", *ENGINES} - {"torus-2QoS", "chain"}
    mine = next(r for r in rows if r.used)
    assert mine.unreachable == part.unreachable > 0
    assert mine.bisection < 0.5 * min(r.bisection for r in rows if not r.used)


@pytest.mark.parametrize("radix", [8, 16])
def test_an_all_to_all_puts_n_minus_1_flows_on_every_host_link(radix):
    """On one switch there are no other links."""
    report = report_of(generate("fat-tree", radix=radix, levels=1))
    assert report.prediction.pattern("all-to-all").most == radix - 1
