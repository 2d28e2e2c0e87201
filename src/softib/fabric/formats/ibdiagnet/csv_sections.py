"""The frame of ibdiagnet2's .db_csv: ``START_X``, a header row, rows, ``END_X``, and an index of
all sections at the end."""

from __future__ import annotations

import csv
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from softib.fabric.formats.base import Problems
from softib.fabric.formats.text import shown

__all__ = ["NONE", "Section", "read_sections"]

NONE = -1
"""What :meth:`Section.column` gives for ``N/A`` and for fields that are no number."""
_ABSENT = ("N/A", "NA", "")


@dataclass
class Section:
    """One table: header names, rows of texts, and the line of each row."""

    name: str
    line: int
    header: list[str] = field(default_factory=list)
    rows: list[list[str]] = field(default_factory=list)
    lines: list[int] = field(default_factory=list)

    def has(self, *names: str) -> bool:
        """True when all these columns are there."""
        return all(n.lower() in self._column_numbers() for n in names)

    def text(self, name: str) -> list[str]:
        """A column as it stands. Names are compared without regard to case (ibdiagnet itself varies
        it)."""
        place = self._column_numbers()[name.lower()]
        return [row[place] for row in self.rows]

    def column(self, name: str, problems: Problems, dtype: type = np.int64) -> np.ndarray:
        """A column of integers, decimal or ``0x``; :data:`NONE` (0 for unsigned types) where there
        is none."""
        values = []
        absent = 0 if dtype is np.uint64 else NONE
        low, high = (0, 2**64 - 1) if dtype is np.uint64 else (-(2**63), 2**63 - 1)
        for text, line in zip(self.text(name), self.lines, strict=True):
            try:
                value = int(text[:24], 16 if text[:2] in ("0x", "0X") else 10)
                if not low <= value <= high:
                    raise ValueError
            except ValueError:
                if text.strip() not in _ABSENT:
                    problems.add(line, f"{self.name}: {name} {shown(text)} is no number")
                value = absent
            values.append(value)
        return np.array(values, dtype)

    def _column_numbers(self) -> dict[str, int]:
        return {n.strip().lower(): i for i, n in enumerate(self.header)}

    def counters(self, name: str) -> tuple[np.ndarray, np.ndarray]:
        """A column of counters (uint64), and which rows hold one: ``-1`` and ``N/A`` say that the
        port does not keep it."""
        values, there = [], []
        for text in self.text(name):
            try:
                value = int(text[:24], 16 if text[:2] in ("0x", "0X") else 10)
            except ValueError:
                value = -1
            good = 0 <= value < 1 << 64
            values.append(value if good else 0)
            there.append(good)
        return np.array(values, np.uint64), np.array(there, bool)


def read_sections(
    lines: list[str], wanted: Callable[[str], bool], problems: Problems
) -> tuple[dict[str, Section], dict[str, int]]:
    """The ``wanted`` sections of a .db_csv, and the number of rows of every section of it.

    What is cut, or not of the right width, is a problem.
    """
    sections: dict[str, Section] = {}
    rows_of: dict[str, int] = {}
    current: Section | None = None
    keep = False
    for number, line in enumerate(lines, 1):
        if line.startswith("START_") and line.rstrip()[6:].replace("_", "").isalnum():
            if current is not None:
                problems.add(number, f"section {current.name} of line {current.line} has no END_{current.name}")
                _close(current, sections, rows_of, problems)
            current = Section(line.rstrip()[6:], number)
            keep = current.name == "INDEX_TABLE" or wanted(current.name)
        elif line.startswith("END_") and current is not None and line.rstrip() == f"END_{current.name}":
            _close(current, sections, rows_of, problems)
            current = None
        elif current is not None:
            if keep:
                _row(current, number, line, problems)
            elif line.strip():
                rows_of[current.name] = rows_of.get(current.name, -1) + 1
        elif line.strip() and not line.startswith("#"):
            problems.add(number, f"outside of any section: {shown(line)}")
    if current is not None:
        problems.add(len(lines), f"section {current.name} of line {current.line} is not closed: the file is cut")
        _close(current, sections, rows_of, problems)
    _check_index(sections.pop("INDEX_TABLE", None), rows_of, lines, problems)
    return {n: s for n, s in sections.items() if wanted(n)}, rows_of


def _row(section: Section, number: int, line: str, problems: Problems) -> None:
    if not line.strip():
        return
    try:
        fields = line.split(",") if '"' not in line else next(csv.reader([line], strict=True))
    except csv.Error as error:
        problems.add(number, f"{section.name}: {error}: {shown(line)}")
        return
    if not section.header:
        section.header = fields
    elif len(fields) != len(section.header):
        problems.add(
            number, f"{section.name}: {len(fields)} fields, the header has {len(section.header)}: {shown(line)}"
        )
    else:
        section.rows.append(fields)
        section.lines.append(number)


def _close(section: Section, sections: dict[str, Section], rows_of: dict[str, int], problems: Problems) -> None:
    if section.name in sections:
        problems.add(
            section.line,
            f"section {section.name} stands a second time (first in line {sections[section.name].line}); "
            "the first is kept",
        )
        return
    sections[section.name] = section
    if section.header:
        rows_of[section.name] = len(section.rows)


def _check_index(index: Section | None, rows_of: dict[str, int], lines: list[str], problems: Problems) -> None:
    """The index names every section and its number of rows: what differs was lost or edited."""
    if index is None:
        if lines and "INDEX_TABLE offset" in lines[0]:
            problems.add(len(lines), "the index that line 1 announces is missing: the file is cut")
        return
    if not index.has("Name", "Rows"):
        problems.add(index.line, "INDEX_TABLE without Name and Rows")
        return
    for name, rows, line in zip(index.text("Name"), index.text("Rows"), index.lines, strict=True):
        name, rows = name.strip(), rows.strip()
        if name not in rows_of:
            problems.add(line, f"section {name}, which the index lists, is not in the file")
        elif rows.isdecimal() and int(rows[:9]) != rows_of[name]:
            problems.add(line, f"section {name} has {rows_of[name]} readable rows, the index says {rows}")
