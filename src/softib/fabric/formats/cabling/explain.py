"""How softib reads a cabling list: the meaning of each heading, and how many rows it can use."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from softib.errors import InputError, UnreadableFile
from softib.fabric.formats.base import Problem
from softib.fabric.formats.cabling.csv import sheets_of
from softib.fabric.formats.cabling.plan import CablingPlan, read_plan
from softib.fabric.formats.cabling.sheet import HEADER_WITHIN, Sheet
from softib.foreign_text import shown
from softib.input_files import shown_name
from softib.plural import counted
from softib.result import HIDDEN, Result, also, key

__all__ = ["PlanReading", "SheetReading", "read_headings"]


@dataclass(frozen=True)
class Heading(Result):
    """A heading of a cabling list."""

    heading: str
    taken_for: str
    """Meaning of the heading; empty if its column is not used."""


@dataclass(frozen=True)
class SheetReading(Result):
    """A sheet of a cabling list."""

    name: str = field(metadata=key("sheet"))
    line: int
    """Line of the headings; 0 if the sheet has none."""
    headings: tuple[Heading, ...]
    rows: int
    """Number of rows below the headings, not counting empty rows, comments and repeated
    headings."""
    filled: int = field(metadata=key("filled_down"))
    """Number of devices, racks and units that were copied down from a merged cell."""


@dataclass(frozen=True)
class PlanReading(Result):
    """A cabling list as softib reads it."""

    document = "convert-explain"

    path: str = field(metadata=key("file"))
    sheets: tuple[SheetReading, ...]
    plan: CablingPlan | None = field(metadata=HIDDEN)
    why: str = ""
    """Reason why no row contains a cable; empty if at least one does."""

    @property
    @also(before="why")
    def cables(self) -> int:
        """Number of different cables. Rows that contradict an earlier row are not counted."""
        return 0 if self.plan is None else int(((self.plan.repeats < 0) & ~self.plan.conflict).sum())

    @property
    @also(before="why")
    def repeats(self) -> int:
        """Number of rows that repeat the cable of an earlier row, even if its two ends are
        exchanged."""
        return 0 if self.plan is None else int((self.plan.repeats >= 0).sum())

    @property
    @also(before="why")
    def problems(self) -> tuple[Problem, ...]:
        """Rows that could not be used."""
        return () if self.plan is None else tuple(self.plan.problems)

    @property
    @also(before="why")
    def notes(self) -> tuple[str, ...]:
        """Notes on parts of the list that are hidden, or whose status says that they are not to be
        built."""
        return () if self.plan is None else tuple(self.plan.notes)

    def lines(self) -> list[str]:
        """Return the lines of the text output."""
        out = []
        for s in self.sheets:
            where = f", sheet {s.name!r}" if s.name else ""
            out.append(
                f"{self.path}{where}: " + (f"headings in line {s.line}" if s.line else "no headings of a cabling list")
            )
            width = max((len(h.heading) for h in s.headings), default=0)
            out += [f"  {h.heading:{width}}  {h.taken_for or 'not used'}" for h in s.headings]
            if s.line:
                merged = f"; {counted(s.filled, 'cell')} filled down from merged cells" if s.filled else ""
                out.append(f"  {counted(s.rows, 'row')}{merged}")
        if self.plan is None:
            return [*out, self.why]
        repeats = f", {counted(self.repeats, 'row')} repeated" if self.repeats else ""
        out.append(f"{counted(self.cables, 'cable')}{repeats}, {counted(len(self.plan.problems), 'row')} with problems")
        out += self.plan.notes
        if len(self.plan):
            out.append(f"the first: {self.plan.end_name(0, 0)} – {self.plan.end_name(0, 1)}")
        return [shown(line) for line in out]


def read_headings(path: str | Path) -> PlanReading:
    """Read the list at ``path`` as ``--plan`` does. Raises :class:`UnreadableFile` if it has no
    cells."""
    sheets = sheets_of(path)
    if not any(s.rows for s in sheets):
        raise UnreadableFile(f"{shown_name(path)}: the workbook has no cells")
    try:
        plan, why = read_plan(path), ""
    except InputError as error:
        plan, why = None, str(error)
    return PlanReading(shown_name(path), tuple(_reading(s) for s in sheets if s.rows), plan, why)


def _reading(sheet: Sheet) -> SheetReading:
    name = shown(sheet.name, 60)
    if sheet.layout is None:
        widest = max(sheet.rows[:HEADER_WITHIN], key=lambda row: sum(map(bool, row[1])))[1]
        return SheetReading(name, 0, tuple(Heading(shown(c, 60), "") for c in widest[:40] if c), len(sheet.rows), 0)
    headings = zip(sheet.layout.headings, sheet.layout.taken, strict=True)
    body = sheet.body()
    filled = sum(n for field, n in sheet.filled.items() if field.startswith("node")) + sheet.merged
    line = sheet.rows[sheet.head][0]
    return SheetReading(name, line, tuple(Heading(shown(h, 60), t) for h, t in headings if h), len(body), filled)
