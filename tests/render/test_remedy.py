"""The finding ``ftree-unfit``: its files work, and its figure is the prediction's."""

from __future__ import annotations

import json

import pytest

from softib.analysis.engines import ftree_unfit
from softib.analysis.pipeline import quietly
from softib.analysis.routed import routed
from softib.diags.check import check
from softib.source import load
from tests.cli.run import softib
from tests.live.lab import softib as running  # noqa: F401

FLAWED = """\
topology: {kind: fat-tree, radix: 8, levels: 3}
faults: [{kind: remove-cable, cable: "leaf-3[5]"}]
"""


@pytest.fixture
def flawed(tmp_path):
    path = tmp_path / "tree.yaml"
    path.write_text(FLAWED)
    return path


def finding_of(ran) -> list[dict]:
    """Those of the code, and those that are evidence of the missing cable."""
    found = ran.json()["findings"]
    return [f for x in found for f in (x, *x["evidence"].get("also", ())) if f["code"] == "ftree-unfit"]


def test_one_missing_cable_costs_our_ftree_nothing_and_opensms_its_engine(flawed, tmp_path):
    """ftree takes the tree as it is. Tables of another engine, such as stock OpenSM's in a running fabric, lack the files."""
    assert finding_of(softib("check", flawed, "--json")) == []
    ran = softib("route", flawed, "--guid-files", tmp_path / "guids", "--json")
    assert ran.json()["tables"] == "ftree" and ran.code == 0
    roots = (tmp_path / "guids" / "root_guids.conf").read_text().split()
    other = routed(load(str(flawed)), "updn", None, quietly)
    told = ftree_unfit(other.fabric, other.graph, other.lft)
    assert told is not None and told.cost >= 0.02 and not told.options.io_guids
    assert roots == [f"{g:#018x}" for g in told.options.root_guids]
    # The figures are those of reports with updn, with ftree alone and with the files.
    words = ("--engine", "updn"), (), ("-a", tmp_path / "guids" / "root_guids.conf")
    reports = [softib("report", flawed, "--json", *w).json() for w in words]
    pairs = [r["prediction"]["effective_bisection"]["relative"] for r in reports]
    assert pairs == pytest.approx([told.bisection, told.with_files, told.with_files], abs=1e-3)
    assert [r["routing"]["tables"] for r in reports] == ["updn", "ftree", "ftree"]
    (finding,) = check(other.fabric, remedy=told)
    (also,) = finding.evidence["also"]
    assert finding.code == "missing-cable" and "--guid-files" in finding.advice, "one row for the fault"
    assert "root_guid_file" in also["message"] and also["evidence"]["cost_percent"] == round(100 * told.cost, 1)
    assert f"costs {round(100 * told.cost, 1):g} %" in finding.message


def test_tables_of_a_dump_are_told_what_the_files_would_bring(flawed, tmp_path):
    """A dump does not say which engine its manager was to use: stock OpenSM's tables of such a tree are those of another."""
    dump = tmp_path / "tables.lft"
    softib("route", flawed, "--engine", "minhop", "--dump", dump)
    (told,) = finding_of(softib("report", flawed, "--lfts", dump, "--json"))
    assert told["evidence"]["cost_percent"] >= 2
    assert "root_guid_file" in told["message"] and "leaf-3 to 3" in told["message"], "nodes are told by name"
    softib("route", flawed, "--dump", dump)
    assert finding_of(softib("report", flawed, "--lfts", dump, "--json")) == [], "as much as ftree would carry"
    ran = softib("route", flawed, "--guid-files", tmp_path / "guids")
    assert "leaf-3" in ran.err and "0x" not in ran.err


def test_a_whole_tree_and_an_engine_of_ones_own_choice_get_none(flawed, tmp_path):
    whole = tmp_path / "whole.yaml"
    whole.write_text(FLAWED.splitlines()[0] + "\n")
    assert finding_of(softib("check", whole, "--json")) == []
    assert finding_of(softib("report", flawed, "--engine", "updn", "--json")) == []
    ran = softib("route", whole, "--guid-files", tmp_path / "none")
    assert "no GUID files written" in ran.err and not (tmp_path / "none").exists()


def test_files_stand_for_an_engine_not_beside_tables(flawed, tmp_path):
    ran = softib("route", flawed, "--lfts", "/dev/null", "-a", "/dev/null")
    assert ran.code == 2 and "GUID files are for an engine" in ran.err
    (tmp_path / "odd").write_text("leaf-1\n")
    ran = softib("check", flawed, "-a", tmp_path / "odd")
    assert ran.code == 2 and "odd:1" in ran.err and len(ran.err.strip().splitlines()) == 1
    assert json.loads(softib("check", flawed, "--json", "-u", tmp_path / "absent").out or "{}") == {}


@pytest.mark.slow
def test_a_running_manager_takes_the_files(flawed, tmp_path, running):  # noqa: F811
    """``up`` has the options of report, check and route; its manager writes the tables that route makes with the files."""
    softib("route", flawed, "--guid-files", tmp_path / "guids")
    files = ("-a", str(tmp_path / "guids" / "root_guids.conf"))
    running("up", str(flawed), "--detach", "--name", "tree", *files)

    def entries(*args: str) -> list[str]:
        running("route", *args, "--dump", "dump.lfts")
        return [x for x in (running.folder / "dump.lfts").read_text().splitlines() if x.startswith("0x")]

    assert entries("tree") == entries(str(flawed), *files) == entries(str(flawed))
    ran = softib("up", flawed, "--sm", "external", "-a", tmp_path / "guids" / "root_guids.conf")
    assert ran.code == 2 and "internal manager" in ran.err and len(ran.err.splitlines()) == 1
