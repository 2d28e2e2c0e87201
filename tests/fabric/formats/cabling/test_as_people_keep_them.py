"""Cabling lists as people keep them: other languages, merged cells, legs of breakout cables,
workbooks. The oracle is the fabric that each list was written from."""

from __future__ import annotations

import csv
import io
import random
import sys
import zipfile
from pathlib import Path

import pytest

from softib.errors import MissingLibrary, UnreadableFile
from softib.fabric.formats import registry
from softib.fabric.formats.cabling.csv import looks_like_cabling
from softib.fabric.formats.cabling.match import match_plan
from softib.fabric.formats.cabling.plan import CablingPlan, read_plan
from softib.fabric.topologies.registry import generate
from tests.cli.run import one_line, softib
from tests.fabric.formats.real import names

openpyxl = pytest.importorskip("openpyxl", reason="the extra xlsx is not installed")
Rows = list[tuple[str, int, str, int]]


@pytest.fixture(scope="module")
def fabric():
    return generate("fat-tree", radix=8, levels=2)


@pytest.fixture(scope="module")
def cables(fabric) -> Rows:
    """(switch, port, other node, its port) of every cable, as the fabric has it."""
    f, rows = fabric, []
    for a, b in f.cable_port.tolist():
        if not f.is_switch[f.port_node[a]]:
            a, b = b, a
        rows.append(
            (f.node_name(int(f.port_node[a])), int(f.port_num[a]), f.node_name(int(f.port_node[b])), int(f.port_num[b]))
        )
    return sorted(rows)


def written(path: Path, *lines: list[object]) -> Path:
    out = io.StringIO()
    csv.writer(out).writerows(lines)
    path.write_text(out.getvalue(), encoding="utf-8")
    return path


def is_the_fabric(plan: CablingPlan, fabric, count: int) -> None:
    """Every row is a cable of the fabric, and every cable is a row."""
    assert not plan.problems, plan.problems[:3]
    port = match_plan(plan, fabric).port
    assert len(plan) == count and (port >= 0).all()
    assert {frozenset(p) for p in port.tolist()} == {frozenset(c) for c in fabric.cable_port.tolist()}


HEADINGS = {
    "English": "Source Device,Source Port,Destination Device,Destination Port",
    "NDT": "StartDevice,StartPort,EndDevice,EndPort",
    "A and B": "A-End Device,A-End Port,B-End Device,B-End Port",
    "numbers": "Device 1,Port 1,Device 2,Port 2",
    "neighbours": "Local Device,Local Interface,Neighbor Device,Neighbor Interface",
    "order alone": "Device,Port,Device,Port",
    "German": "Quelle Gerät,Quelle Anschluss,Ziel Gerät,Ziel Anschluss",
    "von": ("Von Gerät,Von Port,Nach Gerät,Nach Port"),
    "French": "Équipement source,Port source,Équipement destination,Port destination",
    "de": "De,Port,Vers,Port",
    "Spanish": "Equipo origen,Puerto origen,Equipo destino,Puerto destino",
    "de a": ("De equipo,De puerto,A equipo,A puerto"),
    "Italian": "Dispositivo origine,Porta origine,Dispositivo destinazione,Porta destinazione",
    "Portuguese": "Equipamento origem,Porta origem,Equipamento destino,Porta destino",
    "Chinese": "源设备,源端口,目的设备,目的端口",
    "Chinese ends": "本端设备名称,本端端口,对端设备名称,对端端口",
    "Japanese": "接続元装置,接続元ポート,接続先装置,接続先ポート",
    "Korean": "출발 장비,출발 포트,도착 장비,도착 포트",
    "left and right": "Left Device,Left Port,Right Device,Right Port",
    "links und rechts": ("Gerät links,Anschluss links,Gerät rechts,Anschluss rechts"),
    "Russian": "Устройство источник,Порт источник,Устройство назначение,Порт назначение",
    "roles": ("Switch,Switch Port,Server,Server Port"),
}


@pytest.mark.parametrize("language", HEADINGS)
def test_headings_of_several_languages(language: str, fabric, cables: Rows, tmp_path: Path) -> None:
    path = written(tmp_path / "p.csv", ["Plan of hall 2"], HEADINGS[language].split(","), *map(list, cables))
    is_the_fabric(read_plan(path), fabric, len(cables))


@pytest.mark.parametrize("delimiter", ",;\t|")
@pytest.mark.parametrize(
    "headings",
    (
        ["Source\nSwitch", "Source\nPort #", "Destination\nDevice", "Destination\nPort #"],
        ["Source\nSwitch", "Source Port #", "Destination Device", "Destination Port #"],
        ["A-Node", "A-Port", "Z-Node", "Z-Port"],
    ),
)
def test_line_breaks_in_quoted_cells(headings: list[str], delimiter: str, fabric, cables: Rows, tmp_path: Path) -> None:
    """RFC 4180 allows them in headings and rows; Python's own writer is the oracle. Rows without one keep their line."""
    out = io.StringIO()
    notes = {3: 'first\nsecond "quoted"\n\nthird', 5: f"a{delimiter}\nb", 60: "\n"}
    writer = csv.writer(out, delimiter=delimiter, lineterminator="\r\n")
    writer.writerow([*headings, "Comment"])
    writer.writerows([*row, notes.get(i, "")] for i, row in enumerate(cables))
    path = tmp_path / "p.csv"
    path.write_text(out.getvalue(), newline="")
    plan = read_plan(path)
    is_the_fabric(plan, fabric, len(cables))
    above = sum(h.count("\n") for h in headings)
    breaks = [above + sum(notes[k].count("\n") for k in notes if k < i) for i in range(len(cables))]
    assert plan.line.tolist() == [i + 2 + n for i, n in enumerate(breaks)]


@pytest.mark.parametrize("until", (1, 2, 7, None))
def test_stray_quotes_cost_only_their_rows(until: int | None, fabric, cables: Rows, tmp_path: Path) -> None:
    """A quote at the start of a cell, and one at the end of a cell ``until`` rows below it (None: no other)."""
    rows = [[str(c) for c in row] for row in cables]
    rows[4][2] = '"' + rows[4][2]
    if until is not None:
        rows[4 + until][2] += '"'
    path = tmp_path / "p.csv"
    path.write_text("\n".join(",".join(row) for row in [HEADINGS["English"].split(","), *rows]) + "\n")
    plan = read_plan(path)
    stray = [6] if until is None else [6, 6 + until]
    assert [p.line for p in plan.problems] == stray and len(plan) == len(cables) - len(stray)


@pytest.mark.parametrize(
    "headings",
    (
        "Switch,Port,Remote,Remote Port",
        "Switch,Switch Port,Neighbor,Neighbor Port",
        "Switch,Port,Gegenstelle,Port",
        ("Switch,Port,Connected to,Port"),
        "Commutateur,Port,Voisin,Port voisin",
        "Switch,Puerto,Vecino,Puerto vecino",
        ("Dispositivo,Porta,Vicino,Porta vicino"),
        "Коммутатор,Порт,Сосед,Порт соседа",
        "スイッチ,ポート,対向,対向ポート",
        "스위치,포트,상대,상대 포트",
        "交换机,端口,对端,对端端口",
        "Gerät,Port,Gegenseite,Port Gegenseite",
        "Switch,Port,Link Partner,Partner Port",
        "Switch,Port,Other End,Other End Port",
        ("Switch,Port,Opposite,Opposite Port"),
        "Leaf,Port,Peer,Peer Port",
    ),
)
def test_a_far_end_beside_a_switch(headings: str, fabric, cables: Rows, tmp_path: Path) -> None:
    is_the_fabric(read_plan(written(tmp_path / "p.csv", headings.split(","), *map(list, cables))), fabric, len(cables))


@pytest.mark.parametrize(
    ("language", "encoding"),
    [
        ("German", "cp1252"),
        ("French", "cp1252"),
        ("Chinese", "gbk"),
        ("Japanese", "cp932"),
        ("Korean", "cp949"),
        ("Russian", "cp1251"),
    ],
)
def test_encodings_of_excel(language: str, encoding: str, fabric, cables: Rows, tmp_path: Path) -> None:
    """Semicolons, CR/LF and the encoding of the country."""
    lines = [HEADINGS[language].split(","), *([str(x) for x in row] for row in cables)]
    (tmp_path / "p.csv").write_bytes("\r\n".join(";".join(x) for x in lines).encode(encoding))
    is_the_fabric(read_plan(tmp_path / "p.csv"), fabric, len(cables))


LENGTHS = {
    3.0: ["3", "3m", "3 m", "3,0 m", "3.0M", "３ｍ", "3米", "3 公尺", "3 mètres", "3 metri", "3 metros", "3 метра", "3メートル", "3미터", "300cm", (
        "3000 mm"
    ), "0.003 km", "ca. 3 m",
          "~3m", "3m (OM4)", "3 m AOC", "3 mts.", "3\xa0m"],
    3.048: ["10ft", "10 feet", "10'", "10 ft.", "10 Fuß", "10 pieds", "10 фут", "120 in", "120in", "10英尺"],
}  # fmt: skip # a table, its columns aligned
"""Metres (a foot is 0.3048 m, an inch 0.0254 m: the international yard of 1959) → how people write
them."""


def with_lengths(path: Path, cables: Rows, lengths: list[str], heading: str = "Length") -> Path:
    """``cables`` as a list, with ``lengths`` in turn."""
    rows = [[*row, lengths[i % len(lengths)]] for i, row in enumerate(cables)]
    return written(path, ["Switch", "Port", "Remote", "Remote Port", heading], *rows)


@pytest.mark.parametrize("metres", LENGTHS)
def test_lengths_as_people_write_them(metres: float, cables: Rows, tmp_path: Path) -> None:
    plan = read_plan(with_lengths(tmp_path / "plan.csv", cables, LENGTHS[metres]))
    assert not plan.problems
    assert plan.length_m.tolist() == pytest.approx([metres] * len(cables))


@pytest.mark.parametrize(
    ("heading", "metres"),
    [
        ("Length", 10),
        ("Länge in m", 10),
        ("Length (ft)", 3.048),
        ("Length [cm]", 0.1),
        ("长度(米)", 10),
        (("Longueur (pieds)"), 3.048),
    ],
)
def test_a_heading_states_the_unit(heading: str, metres: float, cables: Rows, tmp_path: Path) -> None:
    plan = read_plan(with_lengths(tmp_path / "plan.csv", cables, ["10"], heading))
    assert not plan.problems
    assert plan.length_m.tolist() == pytest.approx([metres] * len(cables))


def test_rows_that_are_wrong_alike_are_one_line(cables: Rows, tmp_path: Path) -> None:
    """The count is that of the list's rows, every line number is in the evidence, and the file is
    the plan's."""
    spec = tmp_path / "f.yaml"
    spec.write_text("generation: HDR\ntopology: {kind: fat-tree, radix: 8, levels: 2}\n")
    plan = with_lengths(tmp_path / "plan.csv", cables, [f"{i} ells" for i in range(len(cables))])
    ran = softib("check", spec, "--plan", plan, "--json")
    (found,) = [f for f in ran.json()["findings"] if f["code"] == "unreadable-records"]
    assert found["message"].startswith(f"{len(cables)} records of {plan} could not be used")
    assert [k["lines"] for k in found["evidence"]["kinds"]] == [list(range(2, len(cables) + 2))]
    assert len([line for line in softib("check", spec, "--plan", plan).complaints if "ells" in line]) == 1


FORMS = {
    "slash": "{}/{}",
    "colon": "{}:{}",
    "bracket": "{}[{}]",
    "port": "{} Port {}",
    "P": "{} P{}",
    "blank": "{} {}",
    "swp": "{}-swp{}",
}


@pytest.mark.parametrize("form", FORMS)
def test_device_and_port_in_one_cell(form: str, fabric, cables: Rows, tmp_path: Path) -> None:
    rows = [[FORMS[form].format(a, p), FORMS[form].format(b, q), "3 m"] for a, p, b, q in cables]
    plan = read_plan(written(tmp_path / "p.csv", ["From", "To", "Length"], *rows))
    is_the_fabric(plan, fabric, len(cables))
    assert (plan.length_m == 3).all()


def test_numbers_and_domains_of_spreadsheets(fabric, cables: Rows, tmp_path: Path) -> None:
    """Ports as 5.0, hosts with their domain."""
    rows = [[a, f"{p}.0", f"{b}.cluster.example.org", f"{q},0"] for a, p, b, q in cables]
    is_the_fabric(
        read_plan(written(tmp_path / "p.csv", ["Switch", "Port", "Server", "Port"], *rows)), fabric, len(cables)
    )


def merged(cables: Rows) -> list[list[object]]:
    """Rows in which a switch stands once, as a merged cell is exported."""
    out, last = [], ""
    for a, p, b, q in cables:
        out.append(["" if a == last else a, p, b, q])
        last = a
    return out


def test_merged_cells_are_filled_down(fabric, cables: Rows, tmp_path: Path) -> None:
    path = written(tmp_path / "p.csv", ["Switch", "Switch Port", "Server", "Server Port"], *merged(cables))
    is_the_fabric(read_plan(path), fabric, len(cables))
    ran = softib("convert", path, "--explain")
    blank = sum(not row[0] for row in merged(cables))
    assert ran.code == 0 and f"{blank} cells filled down" in ran.out, ran.out


def test_a_forgotten_device_is_no_merged_cell(cables: Rows, tmp_path: Path) -> None:
    """Where every row names its device, one that does not is left out."""
    rows = [list(r) for r in cables]
    rows[2][0] = ""
    plan = read_plan(written(tmp_path / "p.csv", ["Switch", "Port", "Server", "Port"], *rows))
    assert len(plan) == len(cables) - 1 and [(p.line, "no first device" in p.reason) for p in plan.problems] == [
        (4, True)
    ]


def workbook(path: Path, cables: Rows, title: str = "Kabel") -> Path:
    """Two sheets; a title over the table, two lines of headings, merged switches, numbers as
    floats."""
    book = openpyxl.Workbook()
    book.active.title = "Notes"
    book.active["A1"] = "ask Bob"
    sheet = book.create_sheet(title)
    sheet["A1"] = "Verkabelung Halle 2"
    sheet.merge_cells("A1:F1")
    for at, text in zip(("A3", "D3"), ("Quelle", "Ziel"), strict=True):
        sheet[at] = text
    sheet.merge_cells("A3:C3")
    sheet.merge_cells("D3:E3")
    for column, text in enumerate(("Schrank", "Gerät", "Anschluss", "Gerät", "Anschluss", "Länge"), 1):
        sheet.cell(4, column, text)
    first = row = 5
    for i, (a, p, b, q) in enumerate(cables):
        sheet.cell(row, 3, float(p))
        sheet.cell(row, 4, b)
        sheet.cell(row, 5, q)
        sheet.cell(row, 6, 2.5)
        if i + 1 == len(cables) or cables[i + 1][0] != a:
            sheet.cell(first, 1, f"R{first}")
            sheet.cell(first, 2, a)
            if row > first:
                sheet.merge_cells(start_row=first, end_row=row, start_column=1, end_column=1)
                sheet.merge_cells(start_row=first, end_row=row, start_column=2, end_column=2)
            first = row + 1
        row += 1
    book.save(path)
    return path


TWO_LINES = {
    "a length above alone": ("Source,,Target,,Length", "Device,Port,Device,Port,", "{0},{1},{2},{3},3"),
    "its unit below": ("Source,,Target,,Length,Remark", "Device,Port,Device,Port,m,", "{0},{1},{2},{3},3,x"),
    "the length first": ("Länge,Quelle,,Ziel,", ",Gerät,Anschluss,Gerät,Anschluss", "3,{0},{1},{2},{3}"),
    "numbers, racks, a remark": (
        "#,Von,,,Nach,,,Länge,Bemerkung",
        ",Schrank,Gerät,Port,Schrank,Gerät,Port,,",
        "7,A1,{0},{1},A2,{2},{3},3,neu",
    ),
    "a group of the cable": ("Source,,Target,,Cable,", "Device,Port,Device,Port,Length,Type", "{0},{1},{2},{3},3,DAC"),
    "below a lone heading": ("From,,To,,Length,", "Node,Port,Node,Port,,Remark", "{0},{1},{2},{3},3,x"),
}


@pytest.mark.parametrize("form", TWO_LINES)
def test_headings_in_two_lines_with_more_than_the_ends_above(form: str, fabric, cables: Rows, tmp_path: Path) -> None:
    upper, lower, row = TWO_LINES[form]
    path = tmp_path / "p.csv"
    path.write_text("\n".join([upper, lower, *(row.format(*c) for c in cables)]) + "\n", "utf-8")
    plan = read_plan(path)
    is_the_fabric(plan, fabric, len(cables))
    assert (plan.length_m == 3).all()
    ran = softib("convert", path, "--explain")
    assert ran.code == 0 and "headings in line 2" in ran.out and f"{len(cables)} cables, 0 rows" in ran.out


def test_an_unusable_list_is_explained_once(tmp_path: Path) -> None:
    """Also where its cables were to be written; no file is made."""
    path = written(tmp_path / "p.csv", ["From", "Port", "To", "Port"], ["a", "", "b", ""])
    for dest in ((), (tmp_path / "out.csv",)):
        ran = softib("convert", path, *dest, "--explain")
        assert ran.code == 1 and (ran.out + ran.err).count("no row names two devices") == 1
        assert "device of the first end" in ran.out and not (tmp_path / "out.csv").exists()


def test_a_workbook(fabric, cables: Rows, tmp_path: Path) -> None:
    plan = read_plan(workbook(tmp_path / "plan.xlsx", cables))
    is_the_fabric(plan, fabric, len(cables))
    assert (plan.length_m == 2.5).all() and all(r.startswith("R") for r in plan.rack[:, 0])
    registry.write(fabric, tmp_path / "f.ibnetdiscover")
    found = softib("check", tmp_path / "f.ibnetdiscover", "--plan", tmp_path / "plan.xlsx", "--json").json()
    assert found["plan"]["counts"]["matched"] == len(cables) == found["plan"]["cables"]


def test_a_workbook_as_a_sheet_and_back(fabric, cables: Rows, tmp_path: Path) -> None:
    ran = softib("convert", workbook(tmp_path / "plan.xlsx", cables), tmp_path / "plan.csv", "--explain")
    assert (
        ran.code == 0
        and "sheet 'Kabel': headings in line 4" in ran.out
        and "Anschluss  port of the second end" in ran.out
    )
    is_the_fabric(read_plan(tmp_path / "plan.csv"), fabric, len(cables))


def test_damaged_and_hostile_workbooks_are_one_line(cables: Rows, tmp_path: Path) -> None:
    good = workbook(tmp_path / "plan.xlsx", cables).read_bytes()
    bomb = io.BytesIO()
    with zipfile.ZipFile(bomb, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("xl/worksheets/sheet1.xml", bytes(300 << 20))
    damaged = [good[:n] for n in range(4, len(good), len(good) // 12)]
    damaged += [good[:n] + b"\xff\x00" + good[n + 2 :] for n in range(40, len(good), len(good) // 25)]
    for i, data in enumerate([bomb.getvalue(), *damaged]):
        path = tmp_path / f"{i}.xlsx"
        path.write_bytes(data)
        try:
            read_plan(path)
        except UnreadableFile as error:
            assert len(str(error).splitlines()) == 1
            continue
        assert i, "a bomb is read"


BREAKOUTS = {
    "two in a cell": (["Switch,Cage,Servers,HCA"], ["leaf,7,node-1; node-2,mlx5_0"]),
    "two in a cell, both ports": (["Switch,Port,Server,HCA"], ["leaf,7/1 & 7/2,node-1 & node-2,mlx5_0"]),
    "two columns": (["Switch,Port,Server 1,HCA 1,Server 2,HCA 2"], ["leaf,7,node-1,mlx5_0,node-2,mlx5_0"]),
    "legs by name": (
        ["Switch,Switch Port,Leg 1 Server,Leg 1 HCA,Leg 2 Server,Leg 2 HCA"],
        ["leaf,7,node-1,mlx5_0,node-2,mlx5_0"],
    ),
    "stated ends": (
        [("Source Device,Source Port,Destination 1 Device,Destination 1 Port,Destination 2 Device,Destination 2 Port")],
        ["leaf,7,node-1,mlx5_0,node-2,mlx5_0"],
    ),
    "adapters of one host": (["Switch,Port,Server,HCA"], ["leaf,7,node-1,mlx5_0; mlx5_1"]),
}


@pytest.mark.parametrize("form", BREAKOUTS)
def test_a_breakout_cable(form: str, tmp_path: Path) -> None:
    """Cage 7 has ports 13 and 14 (two a cage, as a real NDR dump numbers them)."""
    head, rows = ([line.split(",") for line in lines] for lines in BREAKOUTS[form])
    head[0] = [h.replace("Cage", "Port").replace("Servers", "Server") for h in head[0]]
    plan = read_plan(written(tmp_path / "p.csv", *head, *rows))
    assert not plan.problems and plan.portnum.tolist() == [[13, 1], [14, 1]], (plan.label, plan.problems)
    ends = plan.node[:, 1].tolist(), plan.label[:, 1].tolist()
    assert ends == (
        (["node-1"] * 2, ["mlx5_0", "mlx5_1"]) if "one host" in form else (["node-1", "node-2"], ["mlx5_0", "mlx5_0"])
    )


@pytest.mark.parametrize("kind", ["csv", "xlsx"])
def test_two_rows_under_one_merged_port(kind: str, tmp_path: Path) -> None:
    """Cage 7 of a leaf leads to two hosts, cage 8 to one; the same as CSV and as a workbook with
    merged cells."""
    rows = [
        ["Switch", "Port", "Server", "HCA"],
        ["leaf", 7, "node-1", "mlx5_0"],
        ["", "", "node-2", "mlx5_0"],
        ["", 8, "node-3", "mlx5_0"],
    ]
    path = tmp_path / f"p.{kind}"
    if kind == "csv":
        written(path, *rows)
    else:
        book = openpyxl.Workbook()
        for row in rows:
            book.active.append([cell or None for cell in row])
        book.active.merge_cells("A2:A4")
        book.active.merge_cells("B2:B3")
        book.save(path)
    plan = read_plan(path)
    assert not plan.problems and plan.node.tolist() == [["leaf", f"node-{i}"] for i in (1, 2, 3)]
    assert plan.portnum[:, 0].tolist() == [13, 14, 8]


def test_a_column_of_adapters(tmp_path: Path) -> None:
    """Rack, U, Switch, Switch Port, Server, HCA: the adapter names the port; with a port beside it,
    both do."""
    path = written(
        tmp_path / "p.csv",
        ["Rack", "U", "Switch", "Switch Port", "Server", "HCA", "Remark"],
        ["r1", "U40", "leaf", "5.0", "node-1", "mlx5_3", "x"],
        ["r1", "U40", "leaf", 6, "node-1", 2, ""],
    )
    plan = read_plan(path)
    assert (
        plan.label.tolist() == [["5", "mlx5_3"], ["6", "HCA-2"]]
        and plan.rack[:, 0].tolist() == ["r1", "r1"]
        and plan.u[:, 0].tolist() == [40, 40]
    )
    out = softib("convert", path, "--explain").out
    assert "Remark       not used" in out and "HCA          adapter of the second end" in out


def test_what_is_not_understood_shows_the_headings(tmp_path: Path) -> None:
    path = written(tmp_path / "p.csv", ["Foo", "Bar", "Qux", "Length"], ["a", 1, "b", 2])
    line = one_line(softib("check", path, "--plan", path))
    assert "Foo" in softib("convert", path, "--explain").out and softib("convert", path, "--explain").code == 1
    assert line
    with pytest.raises(UnreadableFile, match="found: 'Foo', 'Bar', 'Qux', 'Length'"):
        read_plan(path)
    some = written(tmp_path / "q.csv", ["From", "Port", "To", "Port", "Remark"], ["a", "", "b", "", "x"])
    with pytest.raises(
        UnreadableFile, match="headings: 'From': device of the first end; 'Port': port of the first end;"
    ):
        read_plan(some)
    document = softib("convert", some, "--explain", "--json").json()
    assert document["cables"] == 0 and document["sheets"][0]["headings"][4] == {"heading": "Remark", "taken_for": ""}


@pytest.mark.parametrize("kind", ["ibnetdiscover", "lst", "topo (links between systems)"])
def test_no_dump_of_a_fabric_is_taken_for_a_list(kind: str, shared_data: Path) -> None:
    for name in names(kind):
        assert not looks_like_cabling((shared_data / name).read_text("utf-8", "replace")[: 1 << 16]), name
    assert not looks_like_cabling(
        (shared_data / "sequoia-ndr-ibdiagnet/data__ibdiagnet2__ibdiagnet2.db_csv").read_text()[: 1 << 16]
    )


def test_a_list_is_no_fabric_and_says_where_it_belongs(
    cables: Rows, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    book = workbook(tmp_path / "plan.xlsx", cables)
    sheet = written(tmp_path / "plan.csv", HEADINGS["Spanish"].split(","), *map(list, cables))
    for path in (book, sheet):
        assert "--plan" in one_line(softib("check", path))
    monkeypatch.setitem(sys.modules, "openpyxl", None)
    with pytest.raises(MissingLibrary, match="an Excel workbook needs openpyxl; run pip install"):
        read_plan(book)


def test_other_names_are_proposed_by_the_cables_and_confirmed_as_a_file(fabric, cables: Rows, tmp_path: Path) -> None:
    """leaf-3 is R3-SW, spine-2 CORE02, host-0007 cn007: families of eight and four switches, and
    one of hosts. Two cables are exchanged."""
    other = lambda n: (
        f"R{n[5:]}-SW"
        if n.startswith("leaf")
        else f"CORE0{n[6:]}"
        if n.startswith("spine")
        else f"cn{int(n[5:]):03d}.hpc"
    )
    rows = [[other(a), p, other(b), q] for a, p, b, q in cables]
    rows[0][1], rows[1][1] = rows[1][1], rows[0][1]
    plan, names = written(tmp_path / "plan.csv", ["Von", "Port", "Nach", "Port"], *rows), tmp_path / "plan.names"
    registry.write(fabric, tmp_path / "f.ibnetdiscover")
    ran = softib("convert", plan, names, "--match", tmp_path / "f.ibnetdiscover")
    assert ran.code == 0 and f"{len(rows) - 2} of {len(rows)} cables are as planned" in ran.out, ran.err + ran.out
    assert "R3-SW      is leaf-3" in ran.out and f"--node-name-map {names}" in ran.out
    counts = softib("check", tmp_path / "f.ibnetdiscover", "--plan", plan, "--node-name-map", names, "--json").json()[
        "plan"
    ]["counts"]
    assert counts["matched"] == len(rows) - 2 and counts["unmatched"] == 0


def test_names_that_the_cables_do_not_tell_are_refused(fabric, tmp_path: Path) -> None:
    """A plan of another fabric, and one with fewer devices."""
    registry.write(fabric, tmp_path / "f.ibnetdiscover")
    few = written(tmp_path / "few.csv", ["From", "Port", "To", "Port"], ["x1", 1, "y1", 1])
    said = one_line(softib("convert", few, "--match", tmp_path / "f.ibnetdiscover"))
    assert "no group of names in the fabric has 1 device as x# has; it has leaf-# (8), spine-# (4)" in said
    flat = [[f"{name}{i}", 1, f"r{i}", 1 + (name == "l")] for i in range(1, 9) for name in ("l", "q")]
    several = written(tmp_path / "several.csv", ["From", "Port", "To", "Port"], *flat)
    said = one_line(softib("convert", several, "--match", tmp_path / "f.ibnetdiscover"))
    assert "l#, r#, q# have 8 devices each, and the fabric has fewer such groups: leaf-# (8)" in said
    rows = [[f"l{i}", 8 - j, f"s{j}", 8 - i] for i in range(1, 9) for j in range(1, 5)]
    wrong = written(tmp_path / "wrong.csv", ["From", "Port", "To", "Port"], *rows)
    assert "at most 1 of 32 cables is as planned under any assignment of names" in one_line(
        softib("convert", wrong, "--match", tmp_path / "f.ibnetdiscover")
    )


@pytest.mark.parametrize("seed", range(8))
def test_each_row_is_counted_once(tmp_path: Path, seed: int) -> None:
    """Cables, the same in either order, ports used twice, half rows, repeated headings, comments and empty lines."""
    rng = random.Random(seed)
    cables, repeats, conflicts, halves = (rng.randint(1, 9) for _ in range(4))
    good = [f"leaf-1,{i + 1},host-{i + 1},1" for i in range(cables)]
    rows = list(good)
    for _ in range(repeats):
        a, p, b, q = rng.choice(good).split(",")
        rows.append(rng.choice([f"{a},{p},{b},{q}", f"{b},{q},{a},{p}", f"{a.upper()},{p},{b},{q}"]))
    rows += [f"leaf-1,{rng.randint(1, cables)},other-{i},1" for i in range(conflicts)]
    rows += [f"leaf-1,{90 + i},," for i in range(halves)]
    rest = [*rows[cables:], "Device A,Port A,Device B,Port B", "# a comment,,,", ",,,"]
    rng.shuffle(rest)
    path = tmp_path / "plan.csv"
    path.write_text("\n".join(["Device A,Port A,Device B,Port B", *good, *rest]) + "\n")
    document = softib("convert", path, "--explain", "--json").json()
    counts = document["cables"], document["repeats"], len(document["problems"]), document["sheets"][0]["rows"]
    assert counts == (cables, repeats, conflicts + halves, cables + repeats + conflicts + halves)
    assert f"{repeats} row" in softib("convert", path, "--explain").out
