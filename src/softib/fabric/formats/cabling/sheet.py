"""The cells of a cabling list, with merged cells filled in. The list is a CSV file with any
delimiter, or an Excel workbook (needs the extra ``xlsx``)."""

from __future__ import annotations

import csv
import io
import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import islice, pairwise
from typing import Any

from softib.errors import MissingLibrary, UnreadableFile
from softib.extras import install_command
from softib.fabric.formats.cabling.headings import Layout, layout_of

__all__ = ["Sheet", "find_headings", "is_workbook", "sheets_of_text", "sheets_of_workbook"]

DELIMITERS = ",;\t|"
HEADER_WITHIN = 50
MOST_CELLS = 5_000_000
MOST_LINES_OF_CELL = 253
MOST_CHARACTERS_OF_CELL = 32_767
"""Maximum number of characters in a cell of Excel."""
MOST_UNPACKED = 256 << 20
"""Maximum size in bytes of all unpacked parts of a workbook (a ZIP archive)."""


@dataclass
class Sheet:
    """One sheet. ``rows`` holds (line, cells, text of the line); ``layout`` the meaning of the
    headings; ``head`` the last row of the headings; ``name`` the sheet's name in a workbook."""

    name: str
    rows: list[tuple[int, list[str], str]]
    layout: Layout | None = None
    head: int = -1
    filled: dict[str, int] = field(default_factory=dict)
    """Field of a column → number of its cells that got the value of a cell above."""
    merged: int = 0
    """Number of a workbook's cells that got the value of a merged cell."""
    hidden: bool = False
    hidden_rows: int = 0
    """Number of rows below the headings that are hidden in the workbook."""
    formulas: dict[int, list[str]] = field(default_factory=dict)
    """Line → its cells that hold a formula without a stored value."""

    def body(self) -> list[tuple[int, list[str], str]]:
        """Return the rows below the headings, with merged cells filled down. Empty rows, comments
        and repeated headings are left out."""
        assert self.layout is not None
        rows = [(n, list(cells), text) for n, cells, text in self.rows[self.head + 1 :]]
        column = self.layout.column
        for end in "012":
            merged = _fill_down(rows, column[f"node{end}"]) if f"node{end}" in column else []
            self.filled[f"node{end}"] = len(merged)
            for name in (f"rack{end}", f"shelf{end}"):
                self.filled[name] = len(_fill_down(rows, column[name])) if name in column else 0
            if f"u{end}" in column:  # a device has one unit: take the unit from the same row above as the device
                _fill_down(rows, column[f"u{end}"], merged)
        heading = [c.casefold() for c in self.rows[self.head][1]]
        return [row for row in rows if _is_data(row[1], heading)]


def _is_data(cells: list[str], heading: list[str]) -> bool:
    text = [c for c in cells if c]
    return bool(text) and not text[0].startswith("#") and [c.casefold() for c in cells] != heading


def is_workbook(start: bytes) -> bool:
    """Return whether ``start`` is the beginning of an Excel workbook (a ZIP archive)."""
    return start[:4] == b"PK\x03\x04"


def split_line(line: str, delimiter: str) -> list[str]:
    """Split one record, as returned by :func:`_records`, into cells."""
    try:
        return [clean(f) for f in next(csv.reader(io.StringIO(line, newline=""), delimiter=delimiter), [])]
    except (csv.Error, StopIteration):
        return [clean(f).strip('"') for f in line.split(delimiter)]


def clean(cell: str) -> str:
    """Return the cell without zero-width characters (zero-width spaces, byte-order marks, soft
    hyphens). All kinds of blanks become spaces."""
    if not cell.isascii():
        cell = "".join(" " if unicodedata.category(c) == "Zs" else c for c in cell if unicodedata.category(c) != "Cf")
    return cell.strip().replace("\0", "")


def sheets_of_text(text: str) -> Sheet:
    """Return the sheet of a CSV file. It has no layout if no delimiter gives a line of known
    headings."""
    lines = text.splitlines()
    best = Sheet("", [(i, [line], line) for i, line in enumerate(lines[:HEADER_WITHIN], 1)])
    for delimiter in DELIMITERS:
        records = ((i, split_line(record, delimiter), record) for i, record in _records(lines, delimiter))
        head = list(islice(records, HEADER_WITHIN))
        headings = find_headings(head)
        if headings is not None:
            return Sheet("", [*head, *records], *headings)
        if max((len(c) for _, c, _ in head), default=0) > max((len(c) for _, c, _ in best.rows), default=0):
            best = Sheet("", head)
    return best


def _records(lines: list[str], delimiter: str) -> Iterator[tuple[int, str]]:
    """Yield each record as (number of its first line, text). A record is one line, or several lines
    if a quoted cell contains line breaks (RFC 4180)."""
    at = 0
    while at < len(lines):
        last = _last_line(lines, at, delimiter) if '"' in lines[at] else at
        yield at + 1, "\n".join(lines[at : last + 1])
        at = last + 1


def _last_line(lines: list[str], at: int, delimiter: str) -> int:
    """Return the last line of the record that starts at line ``at``. If the quoted cell does not
    end within the size limit of a cell, or if each of its lines is a complete row, the quote is a
    stray character, and the record is this one line."""
    d = re.escape(delimiter)
    # matches a line that ends inside a quoted cell
    within = re.compile(rf'(?:(?:"(?:[^"]|"")*+"|(?!")[^{d}]*+){d})*+"(?:[^"]|"")*+')
    complete = re.compile(rf'(?:(?:"(?:[^"]|"")*+"|(?!")[^{d}]*+){d})*+(?:"(?:[^"]|"")*+"|(?!")[^{d}]*+)')
    if not within.fullmatch(lines[at]):
        return at
    size = len(lines[at])
    for last in range(at + 1, len(lines)):
        size += len(lines[last]) + 1
        if last - at > MOST_LINES_OF_CELL or size > MOST_CHARACTERS_OF_CELL:
            return at
        if '"' not in lines[last]:
            continue
        record = "\n".join(lines[at : last + 1])
        if complete.fullmatch(record):
            cells = len(split_line(record, delimiter))
            return at if all(line.count(delimiter) + 1 >= cells for line in lines[at : last + 1]) else last
        if not within.fullmatch(record):
            return at
    return at


def find_headings(rows: Sequence[tuple[int, list[str], str]]) -> tuple[Layout, int] | None:
    """Return the layout of the headings, and the row of their first line. Headings may span two
    lines: names of ends, and directly below, names of fields."""
    for at, (_, cells, _) in enumerate(rows[:HEADER_WITHIN]):
        if len(cells) > 1 and (layout := layout_of(cells)) is not None:
            below = rows[at + 1][1] if at + 1 < len(rows) else []
            over = None if _has_ports(layout) else layout_of(_over(cells, below))
            return (over, at + 1) if over is not None and _has_ports(over) else (layout, at)
    for at, (_, cells, _) in enumerate(rows[: min(HEADER_WITHIN, len(rows)) - 1]):
        if sum(map(bool, cells)) >= 2 and (layout := layout_of(_over(cells, rows[at + 1][1]))) is not None:
            return layout, at + 1
    return None


def _has_ports(layout: Layout) -> bool:
    """Return whether a column names ports. The upper line of two-line headings names only ends, so
    it has no port column."""
    return any(name[:-1] in ("port", "hca") for name in layout.column)


def _over(groups: Sequence[str], fields: Sequence[str]) -> list[str]:
    """Join two-line headings into one line: a line of ends (``Source, , Destination, , Length``)
    and the line of fields below it (``Device, Port, Device, Port,``). The name of an end applies
    until the next name. If the cell below is empty (often a merged cell), the upper cell is used
    alone."""
    out, group = [], ""
    for i in range(max(len(groups), len(fields))):
        above, one = (line[i] if i < len(line) else "" for line in (groups, fields))
        group = above or group
        out.append(f"{group} {one}".strip() if one else above)
        if above and not one:
            group = ""
    return out


def _fill_down(rows: list[tuple[int, list[str], str]], at: int, only: list[int] | None = None) -> list[int]:
    """Fill empty cells below a merged cell with its value. Return the number of filled rows. A
    column counts as merged if it has gaps and no value repeats in consecutive rows. Rows in
    ``only`` are always filled."""
    used = [i for i, (_, cells, _) in enumerate(rows) if any(cells)]
    values = [rows[i][1][at] if at < len(rows[i][1]) else "" for i in used]
    if only is None and (all(values) or any(a and a == b for a, b in pairwise(values))):
        return []
    filled, last = [], ""
    chosen = None if only is None else set(only)
    for i, value in zip(used, values, strict=True):
        cells = rows[i][1]
        if value:
            last = value
        elif last and (chosen is None or i in chosen):
            cells.extend([""] * (at + 1 - len(cells)))
            cells[at] = last
            filled.append(i)
    return filled


def sheets_of_workbook(data: bytes, name: str) -> list[Sheet]:
    """Read every sheet of the workbook ``data``. Raises :class:`MissingLibrary` if openpyxl is not
    installed, and :class:`UnreadableFile` if the workbook cannot be read."""
    try:
        import openpyxl
    except ImportError:
        raise MissingLibrary(
            f"{name}: an Excel workbook needs openpyxl; run {install_command('xlsx')}, or save the sheet as CSV"
        ) from None
    has_formulas = _check_archive(data, name)
    try:
        book = openpyxl.load_workbook(io.BytesIO(data), data_only=True)
        sheets = [_sheet(sheet) for sheet in book.worksheets if sheet.max_row * sheet.max_column <= MOST_CELLS]
        if has_formulas:
            _find_formulas(sheets, openpyxl.load_workbook(io.BytesIO(data)))
        return sheets
    except Exception as error:  # openpyxl does not catch the exceptions of its XML and ZIP libraries
        raise UnreadableFile(
            f"{name}: cannot read this workbook ({type(error).__name__}); save the sheet as CSV"
        ) from None


def _find_formulas(sheets: list[Sheet], book: Any) -> None:
    """Record the formulas that have no stored value, in a sheet with a layout those of its columns. Programs that
    write workbooks leave their evaluation to the spreadsheet program."""
    for sheet in sheets:
        used = set(sheet.layout.column.values()) if sheet.layout is not None else None
        values = {n: cells for n, cells, _ in sheet.rows}
        for row in book[sheet.name].iter_rows():
            for cell in row:
                if cell.data_type != "f" or (used is not None and cell.column - 1 not in used):
                    continue
                if not values[cell.row][cell.column - 1]:
                    sheet.formulas.setdefault(cell.row, []).append(cell.coordinate)


def _check_archive(data: bytes, name: str) -> bool:
    """Return whether a part of the workbook contains formulas. Raises :class:`UnreadableFile` if
    the file is not a ZIP archive, or if it unpacks to more than :data:`MOST_UNPACKED` bytes."""
    import zipfile

    formulas = False
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            size = 0
            for part in archive.infolist():
                with archive.open(part) as opened:  # the sizes in the archive's directory may be wrong
                    while chunk := opened.read(1 << 20):
                        size += len(chunk)
                        formulas |= b"<f>" in chunk or b"<f " in chunk
                        if size > MOST_UNPACKED:
                            raise UnreadableFile(
                                f"{name}: the workbook is larger than {MOST_UNPACKED >> 20} MiB; save the sheet as CSV"
                            )
    except (
        zipfile.BadZipFile,
        OSError,
        ValueError,
        RuntimeError,
        NotImplementedError,
        EOFError,
        zipfile.LargeZipFile,
    ) as error:
        raise UnreadableFile(f"{name}: the workbook is damaged ({str(error)[:60]}); save the sheet as CSV") from None
    except Exception as error:  # zlib.error, lzma.LZMAError
        if isinstance(error, UnreadableFile):
            raise
        raise UnreadableFile(f"{name}: the workbook is damaged; save the sheet as CSV") from None
    return formulas


def _sheet(sheet: Any) -> Sheet:
    rows = [[_text(cell) for cell in row] for row in sheet.iter_rows(values_only=True)]
    plain = Sheet(str(sheet.title), [(i, cells, "") for i, cells in enumerate(rows, 1)])
    plain.hidden = sheet.sheet_state != "visible"
    headings = find_headings(plain.rows)
    if headings is None:
        return plain
    plain.layout, plain.head = headings
    head = plain.rows[plain.head][0]
    plain.hidden_rows = sum(n > head and part.hidden and any(rows[n - 1]) for n, part in _dimensions(sheet, len(rows)))
    ports = {at for name, at in plain.layout.column.items() if name[:-1] in ("port", "hca")}
    for part in sheet.merged_cells.ranges:
        at = part.min_col - 1
        if part.min_row - 1 > plain.head and at not in ports:  # a merged port belongs to a breakout cable
            for row in rows[part.min_row : part.max_row]:
                row[at] = rows[part.min_row - 1][at]
                plain.merged += 1
    return plain


def _dimensions(sheet: Any, rows: int) -> list[tuple[int, Any]]:
    return [(n, part) for n, part in sheet.row_dimensions.items() if 1 <= n <= rows]


def _text(value: Any) -> str:
    """Return a cell's value as the spreadsheet shows it: 5 instead of 5.0, a date without its
    time."""
    if value is None:
        return ""
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    if isinstance(value, datetime):
        return str(value.date())
    return clean(str(value))
