"""``softib check --plan`` on a director fabric: several lists, what stands first, and what ``--json`` holds."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from softib.cli.look.check import command
from softib.cli.look.report import command as report
from softib.fabric.faults.inject import remove_cable
from softib.fabric.formats.registry import write
from tests.fabric.formats.cabling.director import director_fabric, text


@pytest.fixture(scope="module")
def files(tmp_path_factory) -> dict[str, str]:
    folder: Path = tmp_path_factory.mktemp("plan")
    made = director_fabric(leaves=6, adapters=4)
    (folder / "switches.ndt").write_text(text(made.switch_list()))
    (folder / "hosts.ndt").write_text(
        text([*made.host_list(), "HAL79999,HAL79999 ibp11s0f0,HAL7-77-01IB0,Port 3,Data"])
    )
    remove_cable(made.fabric, made.fabric.port_name(int(made.fabric.port(*made.uplinks[3][0]))))
    write(made.fabric, folder / "fabric.ibnetdiscover")
    return {p.name: str(p) for p in folder.iterdir()}


def run(files: dict[str, str], *options: str):
    plans = [x for name in ("switches.ndt", "hosts.ndt") for x in ("--plan", files[name])]
    return CliRunner().invoke(command, [files["fabric.ibnetdiscover"], *plans, *options], standalone_mode=False)


def test_two_lists_are_one_plan(files) -> None:
    plan = json.loads(run(files, "--json").stdout)["plan"]
    assert plan["files"] == [files["switches.ndt"], files["hosts.ndt"]]
    cables = 6 * 12 + 6 * 4 + 1
    assert plan["cables"] == cables and plan["rows"] == {"all": 2 * 72 + 25, "repeated": 72, "mirrored": 72}
    assert {k: n for k, n in plan["counts"].items() if n} == {"matched": cables - 2, "missing": 1, "unmatched": 1}
    assert plan["reasons"] == {"unknown device": 1}
    assert [(t["status"], t["file"] == files["hosts.ndt"]) for t in plan["table"]] == [
        ("missing", False),
        ("unmatched", True),
    ]


def test_people_read_the_sum_before_the_findings(files) -> None:
    out = run(files).stdout
    part, findings = out.index("Cabling plan"), out.index("Findings")
    told = " ".join(out[part:findings].split())
    assert part < findings
    assert "169 in 2 files, of 97 cables; 72 rows repeat a cable (from its other end)" in told
    assert "as planned 95 97.9 %" in told and "missing 1" in told and "not found by name 1 1 unknown device" in told


def test_the_html_report_has_the_same_sum(files, tmp_path) -> None:
    """Each row of the text's summary stands in the page's card."""
    page = tmp_path / "report.html"
    plans = [x for name in ("switches.ndt", "hosts.ndt") for x in ("--plan", files[name])]
    ran = CliRunner().invoke(
        report, [files["fabric.ibnetdiscover"], *plans, "--html", str(page), "--seed", "1"], standalone_mode=False
    )
    assert ran.exception is None
    card = page.read_text().partition('id="plan">')[2].partition("</section>")[0]
    for name, value in (
        ("rows", "169 in 2 files, of 97 cables; 72 rows repeat a cable (from its other end)"),
        ("as planned", "95  97.9 %"),
        ("missing", "1"),
        ("not found by name", "1  1 unknown device"),
    ):
        assert f"<dt>{name}</dt><dd>{value}</dd>" in card
