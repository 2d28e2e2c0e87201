"""Traces that spreadsheet programs leave in cabling lists: hidden parts, formulas, dates, encodings, characters
without a shape. The oracle is the fabric whose cables the list was made from."""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from softib.diags.cabling_plan.compare import compare
from softib.errors import UnreadableFile
from softib.fabric.builder import FabricBuilder
from softib.fabric.formats.cabling.explain import read_headings
from softib.fabric.formats.cabling.plan import CablingPlan, read_plan
from softib.fabric.model import Fabric
from softib.fabric.topologies.registry import generate
from softib.iba.constants import NodeType
from softib.render.phrases import plan_facts

openpyxl = pytest.importorskip("openpyxl")
HEADINGS = ["A-Node", "A-Port", "Z-Node", "Z-Port"]
TREE = generate("fat-tree", radix=8, levels=2)


def rows_of(fabric: Fabric) -> list[list[str]]:
    plan = CablingPlan.from_fabric(fabric)
    return [
        [str(x) for pair in zip(n, p, strict=True) for x in pair] for n, p in zip(plan.node, plan.label, strict=True)
    ]


ROWS = rows_of(TREE)
WRONG = ["leaf-1", "5", "spine-3", "7"]


def workbook(path: Path, edit: Callable[[Any, Any], None], headings: list[str], rows: list[list[str]]) -> CablingPlan:
    book = openpyxl.Workbook()
    sheet = book.active
    sheet.title = "Cables"
    for row in [headings, *rows]:
        sheet.append(row)
    edit(book, sheet)
    book.save(path)
    return read_plan(path)


def nothing(book: Any, sheet: Any) -> None:
    """Leave the workbook as it is."""


def second_sheet(state: str) -> Callable[[Any, Any], None]:
    def edit(book: Any, sheet: Any) -> None:
        other = book.create_sheet("Old")
        other.append(HEADINGS)
        other.append(WRONG)
        other.sheet_state = state

    return edit


@pytest.mark.parametrize("state", ["hidden", "veryHidden"])
def test_a_hidden_sheet_is_left_out_and_named(tmp_path: Path, state: str) -> None:
    plan = workbook(tmp_path / "p.xlsx", second_sheet(state), HEADINGS, ROWS)
    result = compare(TREE, plan)
    assert result.counts["matched"] == result.planned == len(ROWS)
    (finding,) = result.findings
    assert finding.code == "plan-hidden-parts" and "sheet 'Old' is hidden and left out" in finding.message
    assert any("'Old'" in line for line in read_headings(tmp_path / "p.xlsx").lines())


def test_findings_of_a_workbook_of_two_sheets_name_the_sheet(tmp_path: Path) -> None:
    plan = workbook(tmp_path / "p.xlsx", second_sheet("visible"), HEADINGS, ROWS)
    (finding,) = compare(TREE, plan).findings
    assert finding.code == "plan-conflicting-rows"
    assert "p.xlsx[Old]:2" in finding.message and "p.xlsx[Cables]:" in finding.message


def test_hidden_rows_are_read_and_counted_and_a_list_that_is_hidden_whole_is_refused(tmp_path: Path) -> None:
    def hide(book: Any, sheet: Any) -> None:
        for n in (3, 9, 10):
            sheet.row_dimensions[n].hidden = True

    result = compare(TREE, workbook(tmp_path / "p.xlsx", hide, HEADINGS, ROWS))
    assert result.counts["matched"] == len(ROWS)
    assert [f.message for f in result.findings] == ["3 hidden rows are read as part of the plan"]

    def hide_all(book: Any, sheet: Any) -> None:
        book.create_sheet("Notes")
        sheet.sheet_state = "hidden"

    with pytest.raises(UnreadableFile, match=r"'Cables' .* is hidden; unhide it"):
        workbook(tmp_path / "q.xlsx", hide_all, HEADINGS, ROWS)


@pytest.mark.parametrize(
    ("heading", "built", "dropped"),
    [
        ("Status", "installed", "CANCELLED"),
        ("Zustand", "geplant", "storniert"),
        ("Statut", "OK", "Supprimé"),
        ("状态", "已完成", "已取消"),
        ("Статус", "готово", "Отменено"),
        ("Cable Status", "planned", "removed 3/24"),
    ],
)
def test_rows_with_the_status_cancelled_are_left_out_and_others_kept(
    tmp_path: Path, heading: str, built: str, dropped: str
) -> None:
    rows = [[*row, built] for row in ROWS] + [[*WRONG, dropped]]
    result = compare(TREE, workbook(tmp_path / "p.xlsx", nothing, [*HEADINGS, heading], rows))
    assert result.counts["matched"] == result.planned == len(ROWS)
    assert [f.message for f in result.findings] == [f"1 row with the status {dropped!r}: left out"]


def test_a_formula_without_a_value_names_its_cell(tmp_path: Path) -> None:
    plan = workbook(tmp_path / "p.xlsx", lambda _, sheet: sheet.__setitem__("A4", '="leaf-"&1'), HEADINGS, ROWS)
    (problem,) = plan.problems
    assert problem.line == 4 and "formula without a value in A4" in problem.reason
    assert len(plan) == len(ROWS) - 1


@pytest.mark.parametrize(
    "cell",
    [
        "5-Jan",
        "Jan 5",
        "05. Jan",
        "5.1.",
        "2026-01-05",
        "05.01.2026",
        "1月5日",
        "Jan-05",
        "5. Mai",
        "05-мар",
        "1/5/2026",
    ],
)
def test_a_port_that_became_a_date_is_not_guessed(tmp_path: Path, cell: str) -> None:
    for value in (cell, datetime.datetime(2026, 1, 5)):
        rows: list[Any] = [list(row) for row in ROWS]
        rows[2][1] = value
        plan = workbook(tmp_path / "p.xlsx", nothing, HEADINGS, rows)
        (problem,) = plan.problems
        assert problem.line == 4 and "is a date" in problem.reason and len(plan) == len(ROWS) - 1


@pytest.mark.parametrize("port", ["1/5", "1/1/2", "5", "swp5s1", "Port 5", "IB1/7", "mlx5_3/1", "L16/U2/P20", "1-5"])
def test_ports_are_no_dates(tmp_path: Path, port: str) -> None:
    plan = workbook(tmp_path / "p.xlsx", nothing, HEADINGS, [["a-1", port, "b-1", "2"]])
    assert not plan.problems and plan.label[0, 0] == port


@pytest.mark.parametrize("hyphen", "\u2010\u2011\u2012\u2013\u2014\u2212")
def test_characters_without_a_shape_and_hyphens_of_any_length_change_nothing(tmp_path: Path, hyphen: str) -> None:
    lines = [f"{a}\u200b,\u00a0{p},\ufeff{b.replace('-', hyphen)},{q}\u2060" for a, p, b, q in ROWS]
    path = tmp_path / "p.csv"
    path.write_text("\n".join([",".join(HEADINGS), *lines]), encoding="utf-8")
    result = compare(TREE, read_plan(path))
    assert result.ok and result.counts["matched"] == len(ROWS)


def cabled(cables: list[tuple[str, int, str, int]]) -> Fabric:
    """Build a fabric of ``cables``; first ends are switches, and so are second ends that are first ones too or have
    a port above 1."""
    b = FabricBuilder()
    switches = {a for a, _, _, _ in cables} | {z for _, _, z, q in cables if q > 1}
    rows = {
        name: int(b.nodes(1, NodeType.SWITCH if name in switches else NodeType.CA, 8, desc=[name])[0])
        for name in dict.fromkeys(n for a, _, z, _ in cables for n in (a, z))
    }
    b.links([rows[a] for a, *_ in cables], [x[1] for x in cables], [rows[x[2]] for x in cables], [x[3] for x in cables])
    return b.build()


def named(leaf: str, spine: str, host: str) -> Fabric:
    up = [(f"{leaf}{i}", j + 4, f"{spine}{j}", i + 1) for i in (1, 2) for j in (1, 2)]
    down = [(f"{leaf}{i}", j, f"{host}{2 * i + j}", 1) for i in (1, 2) for j in (1, 2)]
    return cabled(up + down)


@pytest.mark.parametrize(
    ("encoding", "names"),
    [
        ("cp1252", ("Gerät-", "Rückgrat-", "Knoten-")),
        ("cp1250", ("liść-", "Grzbiet-", "węzeł-")),
        ("mac_roman", ("Gerät-", "Rückgrat-", "Knoten-")),
        ("cp1251", ("лист-", "Хребет", "УЗЕЛ-")),
        ("koi8-r", ("лист-", "Хребет", "УЗЕЛ-")),
        ("cp866", ("лист-", "Хребет", "УЗЕЛ-")),
        ("cp932", ("リーフ", "スパイン", "ノード")),
        ("utf-16", ("叶交换机", "脊交换机", "节点")),
    ],
)
def test_the_encoding_is_found_by_the_names_where_headings_are_english(
    tmp_path: Path, encoding: str, names: tuple[str, str, str]
) -> None:
    fabric, path = named(*names), tmp_path / "p.csv"
    path.write_bytes("\n".join(",".join(row) for row in [HEADINGS, *rows_of(fabric)]).encode(encoding))
    result = compare(fabric, read_plan(path))
    assert result.ok and result.counts["matched"] == 8


@pytest.mark.parametrize(("encoding", "name"), [("cp949", "리프"), ("cp1253", "ΦΎΛΛΟ-")])
def test_an_encoding_that_stays_open_is_refused_with_what_to_do(tmp_path: Path, encoding: str, name: str) -> None:
    path = tmp_path / "p.csv"
    path.write_bytes(
        "\n".join(",".join(row) for row in [HEADINGS, [f"{name}1", "1", f"{name}2", "2"]]).encode(encoding)
    )
    with pytest.raises(UnreadableFile, match="in no encoding that softib knows: save the file as UTF-8"):
        read_plan(path)


@pytest.mark.parametrize(
    ("adapters", "numbers", "rows", "matched"),
    [
        ((0, 1, 2, 3), (0, 1, 2, 3), 4, True),
        ((0, 1, 2, 3), (1, 2, 3, 4), 4, True),
        ((0, 3, 4, 5), (0, 1, 2, 3), 4, True),
        ((0, 3, 4, 5), (1, 2, 3, 4), 4, True),
        ((0, 3, 4, 5), (0, 3, 4, 5), 4, True),
        ((0, 1, 2, 3), (1, 2, 3, 4), 2, False),  # mlx5_1 and mlx5_2, or the first two
    ],
)
def test_adapter_numbers_are_those_that_the_whole_plan_allows(
    tmp_path: Path, adapters: tuple[int, ...], numbers: tuple[int, ...], rows: int, matched: bool
) -> None:
    places = [(host, rail) for host in range(3) for rail in range(4)]
    fabric = cabled([(f"leaf-{rail}", host + 1, f"node-{host} mlx5_{adapters[rail]}", 1) for host, rail in places])
    lines = [f"node-{host},{numbers[rail]},leaf-{rail},{host + 1}" for host, rail in places if rail < rows]
    path = tmp_path / "p.csv"
    path.write_text("\n".join(["Server,HCA,Switch,Port", *lines]))
    result = compare(fabric, read_plan(path))
    assert result.counts["matched" if matched else "unmatched"] == 3 * rows
    if not matched:
        assert "may be any of" in result.findings[0].message


@pytest.mark.parametrize("cell", [1, 3])
def test_the_cable_of_a_row_with_a_date_is_not_unexpected(tmp_path: Path, cell: int) -> None:
    """Its other end identifies it, and the row is a problem of the plan already."""
    rows: list[Any] = [list(row) for row in ROWS]
    rows[-1][cell] = "5-Jan"
    plan = workbook(tmp_path / "p.xlsx", nothing, HEADINGS, rows)
    result = compare(TREE, plan)
    assert len(plan.problems) == 1 and result.findings == [] and result.counts["matched"] == len(ROWS) - 1


def test_the_cable_of_a_row_with_a_formula_is_not_unexpected(tmp_path: Path) -> None:
    plan = workbook(tmp_path / "p.xlsx", lambda _, sheet: sheet.__setitem__("B4", "=2+3"), HEADINGS, ROWS)
    assert len(plan.problems) == 1 and compare(TREE, plan).findings == []


def test_a_cancelled_cable_that_is_there_is_said_once(tmp_path: Path) -> None:
    """A cable of the same port that leads elsewhere is none of the row's, and unexpected."""
    rows = [[*row, "" if i else "cancelled"] for i, row in enumerate(ROWS)]
    (found,) = compare(TREE, workbook(tmp_path / "p.xlsx", nothing, [*HEADINGS, "Status"], rows)).findings
    assert found.code == "plan-hidden-parts" and "(line 2)" in found.message
    a, b = (f"{ROWS[0][i]}[{ROWS[0][i + 1]}]" for i in (0, 2))
    assert {str(p) for p in found.where} == {a, b}
    rows[0][2:4] = rows[1][2:4]
    codes = {
        f.code for f in compare(TREE, workbook(tmp_path / "q.xlsx", nothing, [*HEADINGS, "Status"], rows)).findings
    }
    assert codes == {"plan-hidden-parts", "plan-unexpected-cable"}


@pytest.mark.parametrize(
    ("files", "text"),
    [
        (("a.csv",), "9"),
        (("a.csv", "b.csv"), "9 in 2 files"),
        (("a.xlsx[hosts]", "a.xlsx[spines]", "a.xlsx[core]"), "9 in 3 sheets"),
        (("a.xlsx[hosts]", "a.xlsx[spines]", "b.csv"), "9 in 2 files"),
        (("a [1].xlsx[hosts]", "a [1].xlsx[spines]"), "9 in 2 sheets"),
    ],
)
def test_the_sheets_of_a_workbook_are_not_counted_as_files(files, text):
    comparison = compare(TREE, CablingPlan.from_fabric(TREE))
    counts = {"all": 9, "repeated": 0, "mirrored": 0}
    facts = dict(plan_facts(dataclasses.replace(comparison, files=files, rows=counts)))
    assert facts["rows"] == f"{text}, of {comparison.planned} cables"
