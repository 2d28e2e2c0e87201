"""What a cabling list was taken for: its headings, and what became of its rows."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from softib.errors import InputError, UnreadableFile
from softib.fabric.formats.cabling.csv import sheets_of
from softib.fabric.formats.cabling.plan import CablingPlan, read_plan
from softib.fabric.formats.cabling.sheet import HEADER_WITHIN, Sheet
from softib.foreign_text import shown
from softib.input_files import shown_name
from softib.plural import counted

__all__ = ["PlanReading", "SheetReading", "read_headings"]


@dataclass(frozen=True)
class SheetReading:
    """One sheet: ``line`` of its headings (0: none found), each (heading, what it was taken for, ""
    for nothing), ``rows`` below, ``filled``: cells that took the value of a merged one."""

    name: str
    line: int
    headings: tuple[tuple[str, str], ...]
    rows: int
    filled: int

    def to_json(self) -> dict[str, Any]:
        """As ``--json`` prints it."""
        headings = [{"heading": h, "taken_for": t} for h, t in self.headings]
        return {
            "sheet": self.name,
            "line": self.line,
            "headings": headings,
            "rows": self.rows,
            "filled_down": self.filled,
        }


@dataclass(frozen=True)
class PlanReading:
    """A cabling list as it was read: its sheets, and its ``plan``, or ``why`` there is none."""

    path: str
    sheets: tuple[SheetReading, ...]
    plan: CablingPlan | None
    why: str = ""

    def lines(self) -> list[str]:
        """For people."""
        out = []
        for s in self.sheets:
            where = f", sheet {s.name!r}" if s.name else ""
            out.append(
                f"{self.path}{where}: " + (f"headings in line {s.line}" if s.line else "no headings of a cabling list")
            )
            width = max((len(h) for h, _ in s.headings), default=0)
            out += [f"  {h:{width}}  {t or 'not used'}" for h, t in s.headings]
            if s.line:
                merged = f"; {counted(s.filled, 'cell')} filled down from merged cells" if s.filled else ""
                out.append(f"  {counted(s.rows, 'row')}{merged}")
        if self.plan is None:
            return [*out, self.why]
        out.append(f"{counted(len(self.plan), 'cable')}, {counted(len(self.plan.problems), 'row')} with problems")
        if len(self.plan):
            out.append(f"the first: {self.plan.end_name(0, 0)} – {self.plan.end_name(0, 1)}")
        return [shown(line) for line in out]

    def to_json(self) -> dict[str, Any]:
        """As ``--json`` prints it."""
        return {
            "file": self.path,
            "sheets": [s.to_json() for s in self.sheets],
            "cables": 0 if self.plan is None else len(self.plan),
            "problems": [] if self.plan is None else [p.to_json() for p in self.plan.problems],
            "why": self.why,
        }


def read_headings(path: str | Path) -> PlanReading:
    """Read the list at ``path`` as ``--plan`` does. Raises :class:`UnreadableFile` where it has no
    cells."""
    sheets = sheets_of(path)
    if not any(s.rows for s in sheets):
        raise UnreadableFile(f"{shown_name(path)}: it has no cells")
    try:
        plan, why = read_plan(path), ""
    except InputError as error:
        plan, why = None, str(error)
    return PlanReading(shown_name(path), tuple(_reading(s) for s in sheets if s.rows), plan, why)


def _reading(sheet: Sheet) -> SheetReading:
    name = shown(sheet.name, 60)
    if sheet.layout is None:
        widest = max(sheet.rows[:HEADER_WITHIN], key=lambda row: sum(map(bool, row[1])))[1]
        return SheetReading(name, 0, tuple((shown(c, 60), "") for c in widest[:40] if c), len(sheet.rows), 0)
    headings = zip(sheet.layout.headings, sheet.layout.taken, strict=True)
    body = sheet.body()
    filled = sum(n for field, n in sheet.filled.items() if field.startswith("node")) + sheet.merged
    line = sheet.rows[sheet.head][0]
    rows = sum(1 for _, cells, _ in body if any(cells))
    return SheetReading(name, line, tuple((shown(h, 60), t) for h, t in headings if h), rows, filled)
