"""Cabling lists as plans: UFM-NDT CSV, point-to-point sheets and informal lists, from CSV or a
workbook (:mod:`.sheet`).

:mod:`.headings` finds the columns in any order and in several languages; :mod:`.cells` reads the
cells. Rules for rows:

* UFM-NDT (NVIDIA UFM's Network Definition): if a location looks like a rack unit (``U3``), it is
  one, and ``rack #`` names the rack. If a device is written with its port (``Server 1 IB Port 1``),
  the port is removed from the device's name.
* An adapter column (``HCA``: ``mlx5_0``, ``1``) names the port, with or without a port column.
* If a list has no port column, the device's cell holds both: ``leaf-1/5``, ``leaf-1:5``,
  ``leaf-1[5]``, ``leaf-1 Port 5``.
* Merged cells: a device, rack or unit that is written once also applies to the empty cells below it
  (:func:`.sheet._fill_down`).
* Breakout cables: two peers are two cables. They are in one cell (``node-1; node-2``), in two
  columns (``Server 1``, ``Server 2``), or in two rows that share a merged port cell. If both cables
  have the same local port, it is a cage, and its halves are ports 1 and 2.

A speed in Mb/s or Gb/s is that of a 4x link: 200000 is HDR.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

from softib.errors import UnreadableFile
from softib.fabric.formats.base import Problem, Problems
from softib.fabric.formats.cabling import cells
from softib.fabric.formats.cabling.encodings import text_of
from softib.fabric.formats.cabling.headings import Layout, normal
from softib.fabric.formats.cabling.plan import CablingPlan, mark_repeats
from softib.fabric.formats.cabling.sheet import HEADER_WITHIN, Sheet, is_workbook, sheets_of_text, sheets_of_workbook
from softib.foreign_text import NAME, shown
from softib.input_files import content, shown_name
from softib.plural import counted, plural

__all__ = ["looks_like_cabling", "parse_cabling", "parse_workbook", "sheets_of"]


def looks_like_cabling(text: str) -> bool:
    """Return whether one of the first lines holds the headings of a cabling list."""
    return sheets_of_text(text).layout is not None


def parse_cabling(text: str, file: str) -> CablingPlan:
    """Parse a list in CSV. Raises :class:`UnreadableFile` if the list has no headings or no
    readable row."""
    sheet = sheets_of_text(text)
    problems = Problems(file)
    rows = _rows_of(sheet, file, problems)
    last = sheet.rows[-1]
    if text[-1:] not in ("\n", "\r") and rows and len(last[1]) < len(sheet.rows[sheet.head][1]):
        # Many editors omit the last line end. If the last row also lacks columns, the file was
        # truncated.
        problems.add(last[0], "the file ends within this row: it may be cut off")
    return _plan(rows, [sheet], file, problems, (file,), [])


def sheets_of(path: str | Path) -> list[Sheet]:
    """Return the sheets of the list at ``path``: one for a text file, all for a workbook."""
    data, name = content(path, kind="cabling list").data, shown_name(path)
    return sheets_of_workbook(data, name) if is_workbook(data) else [sheets_of_text(text_of(data, name))]


def parse_workbook(data: bytes, file: str) -> CablingPlan:
    """Parse every sheet of a workbook that has headings. Raises :class:`UnreadableFile` if no sheet
    has headings."""
    sheets = sheets_of_workbook(data, file)
    used = [s for s in sheets if s.layout is not None]
    if not used:
        raise UnreadableFile(
            f"{file}: no sheet has the headings of a cabling list; {_found(sheets[0] if sheets else None)}"
        )
    seen = [s for s in used if not s.hidden]
    if not seen:
        raise UnreadableFile(
            f"{file}: sheet {used[0].name!r} has the headings of a cabling list, but is hidden; unhide it"
        )
    rows: list[dict[str, Any]] = []
    problems: list[Problem] = []
    files = tuple(f"{file}[{s.name}]" for s in seen) if len(seen) > 1 else (file,)
    for i, (sheet, of) in enumerate(zip(seen, files, strict=True)):
        of_sheet = Problems(of)
        rows += _rows_of(sheet, of, of_sheet, i)
        problems += of_sheet
    notes = [f"sheet {s.name!r} is hidden and left out; unhide it to use it" for s in used if s.hidden]
    return _plan(rows, seen, file, problems, files, notes)


def _plan(
    rows: list[dict[str, Any]],
    sheets: list[Sheet],
    file: str,
    problems: list[Problem],
    files: tuple[str, ...],
    notes: list[str],
) -> CablingPlan:
    several = len(files) > 1
    left_out = Counter(row["status"] for row in rows if row["status"])
    kept = [row for row in rows if row["readable"] and not row["status"]]
    if not kept:
        opening = f"; line {problems[0].line}: {problems[0].reason}" if problems else ""
        if left_out:
            opening = f"; {_statuses(left_out)}"
        raise UnreadableFile(f"{file}: no row names two devices and two ports{opening}; {_found(sheets[0])}")
    _find_names_in_two_racks(kept, files, problems)
    form = "ufm-ndt" if any("start" in normal(h) for h in sheets[0].rows[sheets[0].head][1]) else "p2p"
    plan = CablingPlan.from_rows(kept, form, file, [])
    plan.left_out = [row for row in rows if row["status"] or not row["readable"]]
    plan.files, plan.file = files, np.array([row["sheet"] for row in kept], np.int16)
    order = {name: i for i, name in enumerate(files)}
    plan.problems = sorted([*problems, *mark_repeats(plan).values()], key=lambda p: (order.get(p.file, 0), p.line))
    plan.notes = notes + [
        f"{counted(s.hidden_rows, 'hidden row')}{f' of sheet {s.name!r}' if several else ''} "
        f"{plural(s.hidden_rows, 'is', 'are')} read as part of the plan"
        for s in sheets
        if s.hidden_rows
    ]
    if left_out:
        plan.notes.append(f"{_statuses(left_out)}: left out")
    return plan


def _statuses(rows: Counter[str]) -> str:
    return ", ".join(f"{counted(n, 'row')} with the status {shown(text, 30)!r}" for text, n in rows.items())


def _found(sheet: Sheet | None) -> str:
    """Return the headings of the sheet as text for an error message."""
    if sheet is None or not sheet.rows:
        return "it has no cells"
    if sheet.layout is None:
        widest = max(sheet.rows[:HEADER_WITHIN], key=lambda row: sum(map(bool, row[1])))[1]
        return (
            f"found: {', '.join(repr(shown(c, 30)) for c in widest[:12] if c)}; name two devices and two ports, for "
            f"example Device A, Port A, Device B, Port B"
        )
    pairs = [
        f"{shown(h, 30)!r}: {t or 'not used'}"
        for h, t in zip(sheet.layout.headings, sheet.layout.taken, strict=True)
        if h
    ]
    return f"headings: {'; '.join(pairs[:12])}"


def _rows_of(sheet: Sheet, file: str, problems: Problems, index: int = 0) -> list[dict[str, Any]]:
    if sheet.layout is None:
        raise UnreadableFile(
            f"{file}: no line with the headings of a cabling list, for example "
            f"StartDevice,StartPort,EndDevice,EndPort or A-Node,A-Port,Z-Node,Z-Port; {_found(sheet)}"
        )
    raw = {n: row for n, row, _ in sheet.rows[sheet.head + 1 :]}
    rows: list[dict[str, Any]] = []
    above: dict[str, Any] | None = None
    for number, row, line in sheet.body():
        reader = _Row(row, raw[number], sheet.layout, number, problems, sheet.merged > 0)
        if line.count('"') % 2:
            problems.add(number, "unclosed quote; the row is skipped")
            continue
        if number in sheet.formulas:
            cells_text = ", ".join(sheet.formulas[number][:4])
            unread = _Row(row, raw[number], sheet.layout, number, Problems(file), sheet.merged > 0)
            unread.cables(None)
            rows += [{**cable, "sheet": index, "readable": False} for cable in unread.partial]
            problems.add(
                number,
                f"{plural(len(sheet.formulas[number]), 'formula', 'formulas')} without a value in {cells_text}; open "
                f"the workbook in a spreadsheet program and save it; the row is skipped",
            )
            continue
        cables, above = reader.cables(above)
        rows += [{**cable, "sheet": index} for cable in cables]
        rows += [{**cable, "sheet": index, "readable": False} for cable in reader.partial]
    return rows


class _Row:
    """A row of a cabling list."""

    def __init__(self, row: list[str], raw: list[str], layout: Layout, number: int, problems: Problems, filled: bool):
        self.filled = filled  # was filled in from merged cells of a workbook
        self.columns, self.unit_m = layout.column, layout.unit_m
        self.row, self.raw, self.number, self.problems = row, raw, number, problems
        self.partial: list[dict[str, Any]] = []
        """Cables of a row that has an unreadable cell."""

    def get(self, name: str, row: list[str] | None = None) -> str:
        """Return the cell of a field, or "" if the list has no column for it."""
        at, row = self.columns.get(name, -1), self.row if row is None else row
        return row[at] if 0 <= at < len(row) else ""

    def cables(self, above: dict[str, Any] | None) -> tuple[list[dict[str, Any]], dict[str, Any] | None]:
        """Return the cables of this row. If the cells of its first end are merged with those of the
        row below, the cable in that row is included."""
        first, others = self.ends(0), [e for end in (1, 2) for e in self.ends(end)]
        others = [e for e in others if e[0] or e[1]]
        same = above is not None and self.filled and above["node"][0] == self.get("node0")
        merged = (
            "port0" in self.columns and not self.get("port0", self.raw) and (same or not self.get("node0", self.raw))
        )
        if merged and above is not None and len(first) == len(others) == 1:
            both = cells.halves(above["label"][0])
            if both:
                above["label"][0] = both[0]
                first = [(above["node"][0], both[1])]
        elif len(first) == 1 and len(others) == 2:
            first = [(first[0][0], half) for half in cells.halves(first[0][1]) or [first[0][1]] * 2]
        elif len(first) == 1:
            first = first * len(others) or first
        if len(others) == 1 and len(first) > 1:
            others = others * len(first)
        missing = self.missing(first, others) or self.unreadable([*first, *others])
        if not missing and len(first) != len(others):
            missing = f"{len(first)} first and {len(others)} second ends"
        status = self.get("status")
        left_out = status if cells.NOT_BUILT.search(normal(status)) else ""
        if missing:
            if not left_out:
                self.problems.add(self.number, f"{missing}; the row is skipped")
            if len(first) == len(others):
                ends = zip(map(cells.readable, first), map(cells.readable, others), strict=True)
                self.problems = Problems(self.problems.file)  # this row already has a problem
                self.partial = [{**self.cable(a, b), "status": left_out} for a, b in ends]
            return [], None
        row_cables = [
            {**self.cable(a, b), "status": left_out, "readable": True} for a, b in zip(first, others, strict=True)
        ]
        return row_cables, row_cables[0] if len(row_cables) == 1 and not merged else None

    def missing(self, first: list[tuple[str, str]], others: list[tuple[str, str]]) -> str:
        """Return a text that lists the parts that this row lacks."""
        lacks = [
            f"no {place} {field}"
            for place, ends in (("first", first), ("second", others))
            for k, field in enumerate(("device", "port"))
            if not ends or any(not e[k] for e in ends)
        ]
        return " and ".join(lacks)

    def unreadable(self, ends: list[tuple[str, str]]) -> str:
        """Return a text that describes the error in a name or a port."""
        for node, label in ends:
            if "\ufffd" in node + label:
                return f"{shown(node + ' ' + label, 60)!r} is in no encoding that softib knows: save the file as UTF-8"
            if cells.DATE.match(label):
                return (
                    f"port {shown(label, 30)!r} is a date: the spreadsheet took a port like 1/5 for one; format the "
                    f"column as text and enter the ports again"
                )
        return ""

    def ends(self, end: int) -> list[tuple[str, str]]:
        """Return (device, label) of each leg at end ``end``."""
        nodes, hcas, ports = (cells.pieces(self.get(f"{field}{end}")) for field in ("node", "hca", "port"))
        if f"port{end}" not in self.columns and f"hca{end}" not in self.columns:
            return [cells.of_cell(node) for node in nodes] if nodes != [""] else ([("", "")] if end < 2 else [])
        if end == 2 and nodes == [""]:
            return []
        most = max(len(nodes), len(hcas), len(ports))
        if any(len(x) not in (1, most) for x in (nodes, hcas, ports)):
            most = 1
            nodes, hcas, ports = ([self.get(f"{field}{end}")] for field in ("node", "hca", "port"))
        wide = [x * (most // len(x)) for x in (nodes, hcas, ports)]
        return [(cells.without_port(n, p), cells.joined_label(h, p)) for n, h, p in zip(*wide, strict=True)]

    def cable(self, a: tuple[str, str], b: tuple[str, str]) -> dict[str, Any]:
        """Return one cable as a row of the plan (see :meth:`.plan.CablingPlan.from_rows`)."""
        get, number, problems = self.get, self.number, self.problems
        mounted = {end: cells.rack_unit(get, end, number, problems) for end in (0, 1)}
        length, medium = cells.length(get("length"), self.unit_m, number, problems), cells.medium(get("cable"))
        code, lanes = cells.speed(get("speed"), get("cable"), number, problems)
        return {
            "node": [shown(a[0], NAME), shown(b[0], NAME)],
            "label": [shown(a[1], NAME), shown(b[1], NAME)],
            "rack": [shown(mounted[0][0], NAME), shown(mounted[1][0], NAME)],
            "u": [mounted[0][1], mounted[1][1]],
            "length_m": length,
            "medium": medium,
            "speed": code,
            "lanes": lanes,
            "purpose": shown(get("purpose"), NAME),
            "line": number,
        }


def _find_names_in_two_racks(rows: list[dict[str, Any]], files: tuple[str, ...], problems: list[Problem]) -> None:
    """Report device names that occur in several racks. Their rows are kept, but a comparison by
    name cannot distinguish these devices."""
    racks: dict[str, dict[str, tuple[int, str]]] = {}
    for row in rows:
        for end in (0, 1):
            if row["rack"][end]:
                place = (row["line"], files[row["sheet"]])
                racks.setdefault(row["node"][end], {}).setdefault(row["rack"][end], place)
    for name, where in racks.items():
        if len(where) > 1:
            (first, (line, of)), (second, (other, file)) = list(where.items())[:2]
            rest = f" and {len(where) - 2} more racks" if len(where) > 2 else ""
            at = f"line {line}" if of == file else f"{of}:{line}"
            text = f"{name} is in rack {second}, but at {at} in {first}{rest}: one name for several devices"
            problems.append(Problem(shown_name(file), other, text))
