"""Syntax of the sections in ibdiagnet2's .db_csv: ``START_X``, a header row, rows, ``END_X``. At
the end of the file is an index of all sections."""

from __future__ import annotations

import csv
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from softib.fabric.formats.base import Problems, shown
from softib.fabric.model import Fabric

__all__ = ["NONE", "Legal", "Section", "SectionWriter", "SectionsOfFile", "read_sections"]

NONE = -1
"""Value of :meth:`Section.column` for ``N/A`` and for fields that are not numbers."""
_ABSENT = ("N/A", "NA", "")


@dataclass
class Section:
    """One section of the file: column names, rows of text fields, and the line number of each
    row."""

    name: str
    line: int
    header: list[str] = field(default_factory=list)
    rows: list[list[str]] = field(default_factory=list)
    lines: list[int] = field(default_factory=list)

    def has(self, *names: str) -> bool:
        """Return whether the section has all these columns."""
        return all(n.lower() in self._column_numbers() for n in names)

    def text(self, name: str) -> list[str]:
        """Return a column as text. Names of columns are compared ignoring case, because ibdiagnet
        varies it."""
        place = self._column_numbers()[name.lower()]
        return [row[place] for row in self.rows]

    def column(self, name: str, problems: Problems, dtype: type = np.int64) -> np.ndarray:
        """Return a column of decimal or ``0x`` integers. A missing value becomes :data:`NONE` (0
        for unsigned types)."""
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
                    problems.add(line, f"{self.name}: {name} {shown(text)} is not a number")
                value = absent
            values.append(value)
        return np.array(values, dtype)

    def _column_numbers(self) -> dict[str, int]:
        return {n.strip().lower(): i for i, n in enumerate(self.header)}

    def counters(self, name: str) -> tuple[np.ndarray, np.ndarray]:
        """Return a column of counters (uint64), and a mask of the rows that have a value. ``-1``
        and ``N/A`` mean that the port does not have the counter."""
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


class SectionsOfFile(NamedTuple):
    """The sections of a .db_csv."""

    wanted: dict[str, Section]
    """The requested sections by name."""
    rows_of: dict[str, int]
    """Number of rows of every section, by name."""


def read_sections(lines: list[str], wanted: Callable[[str], bool], problems: Problems) -> SectionsOfFile:
    """Return the ``wanted`` sections of a .db_csv, and the number of rows of every section.
    Truncated sections, and rows with a wrong number of fields, are reported as problems.
    """
    sections: dict[str, Section] = {}
    rows_of: dict[str, int] = {}
    current: Section | None = None
    keep = False
    for number, line in enumerate(lines, 1):
        if line.startswith("START_") and line.rstrip()[6:].replace("_", "").isalnum():
            if current is not None:
                problems.add(number, f"section {current.name} at line {current.line} has no END_{current.name}")
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
            problems.add(number, f"line outside of any section: {shown(line)}")
    if current is not None:
        problems.add(len(lines), f"section {current.name} at line {current.line} has no end: the file is truncated")
        _close(current, sections, rows_of, problems)
    _check_index(sections.pop("INDEX_TABLE", None), rows_of, lines, problems)
    return SectionsOfFile({n: s for n, s in sections.items() if wanted(n)}, rows_of)


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
            f"section {section.name} is repeated (first at line {sections[section.name].line}); the first is kept",
        )
        return
    sections[section.name] = section
    if section.header:
        rows_of[section.name] = len(section.rows)


def _check_index(index: Section | None, rows_of: dict[str, int], lines: list[str], problems: Problems) -> None:
    """Report each section whose number of rows differs from the index, because rows were lost or
    edited."""
    if index is None:
        if lines and "INDEX_TABLE offset" in lines[0]:
            problems.add(len(lines), "the index that line 1 announces is missing: the file is truncated")
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


Legal = tuple[np.ndarray, np.ndarray | bool]
"""Legal values of a component: bool[2**bits], indexed by value; and a mask of the rows (bool[rows],
or one bool for all) in which 0 is legal too."""


class SectionWriter:
    """Find the nodes and ports of a section's rows in ``f``, and write the section's columns to
    them. ``records`` collects the attributes that the section contains (names of
    ``Source.records``). Data for which the fabric has no column goes to ``extra`` (of the
    :class:`ReadResult`).
    """

    def __init__(self, f: Fabric, problems: Problems):
        self.f, self.problems = f, problems
        self.records: set[str] = set()
        self.extra: dict[str, Any] = {}
        self.order = np.argsort(f.node_guid, kind="stable")
        self.sorted_guids = f.node_guid[self.order]

    def find(self, guid: np.ndarray) -> np.ndarray:
        """Return the nodes with these NodeGUIDs; -1 if no node has the GUID."""
        at = np.minimum(np.searchsorted(self.sorted_guids, guid), len(self.sorted_guids) - 1)
        return np.where(self.sorted_guids[at] == guid, self.order[at], -1).astype(np.int64)

    def nodes(self, s: Section, guid_name: str = "NodeGUID") -> tuple[np.ndarray, np.ndarray]:
        """Return (rows of the section, their nodes). Rows of unknown nodes are left out and reported as problems."""
        if not s.has(guid_name) or not s.rows:
            return np.zeros(0, np.int64), np.zeros(0, np.int64)
        guid = s.column(guid_name, self.problems, np.uint64)
        node = self.find(guid)
        for i in np.flatnonzero(node < 0):
            self.problems.add(s.lines[int(i)], f"{s.name}: no node has GUID {int(guid[i]):#018x}")
        return np.flatnonzero(node >= 0), node[node >= 0]

    def ports(self, s: Section) -> tuple[np.ndarray, np.ndarray]:
        """Return (rows of the section, their ports). A row whose port number is higher than its
        node's number of ports is left out and reported as a problem."""
        num_name = next((n for n in ("PortNum", "PortNumber", "LocalPortNum") if s.has(n)), None)
        rows, node = self.nodes(s)
        if not len(rows) or num_name is None:
            return rows[:0], node[:0]
        num = s.column(num_name, self.problems)[rows]
        good = (num >= np.where(self.f.is_switch[node], 0, 1)) & (num <= self.f.node_nports[node])
        for i in np.flatnonzero(~good):
            self.problems.add(
                s.lines[int(rows[i])], f"{s.name}: {shown(self.f.node_name(int(node[i])))} has no port {int(num[i])}"
            )
        return rows[good], (self.f.node_base[node[good]] + num[good]).astype(np.int64)

    def write(
        self,
        s: Section,
        name: str,
        target: Any,
        image: np.ndarray,
        rows: np.ndarray,
        at: np.ndarray,
        legal: Legal | None = None,
    ) -> None:
        """Write column ``name`` into the component ``target`` of the wire images ``image[at]``.
        Values that are not ``legal`` for a device, or too large for the component, are reported as
        problems, and the image keeps its previous value.
        """
        value = s.column(name, self.problems, np.uint64 if target.bits > 63 else np.int64)[rows]
        fits = (value <= target.mask) & (value >= 0)
        for i in np.flatnonzero(~fits & (value != NONE)):
            self.problems.add(
                s.lines[int(rows[i])], f"{s.name}: {name} {int(value[i])} does not fit in {target.bits} bits"
            )
        good = fits
        if legal is not None:
            values, zero = legal
            good = fits & (values[np.where(fits, value, 0)] | ((value == 0) & zero))
            for i in np.flatnonzero(fits & ~good):
                kept = int(target.get(image[at[i]]))
                self.problems.add(
                    s.lines[int(rows[i])], f"{s.name}: {name} {int(value[i])} is not a legal value; using {kept}"
                )
        target.set(image, value[good].astype(np.uint64), where=at[good])
