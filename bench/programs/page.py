"""The table of programs in the page of compatibility, between two comments."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from bench.programs.rows import PROGRAMS

__all__ = ["PAGE", "Row", "read_rows", "write_rows"]

PAGE = Path(__file__).resolve().parents[2] / "docs" / "evidence" / "compatibility.md"
BEGIN, END = "<!-- written by make programs -->\n", "<!-- end -->\n"
HEAD = "| program | version | from | data between two nodes | result |\n|---|---|---|---|---|\n"
ORIGINS = {"wheel": "Python package index", "debian": "Debian", "sources": "sources"}


@dataclass(frozen=True)
class Row:
    """What one run of a program gave. ``result`` names the reason where it did not pass, and whose fault that is."""

    name: str
    version: str
    data: str
    result: str


def _table(text: str) -> tuple[int, int]:
    return text.index(BEGIN) + len(BEGIN), text.index(END)


def read_rows() -> dict[str, Row]:
    """The rows of the page, by the program's name."""
    text = PAGE.read_text()
    begin, end = _table(text)
    cells = [[cell.strip() for cell in line.strip().strip("|").split("|")] for line in text[begin:end].splitlines()[2:]]
    return {name: Row(name, version, data, result) for name, version, _, data, result in cells}


def write_rows(rows: dict[str, Row]) -> None:
    """Write the table with these rows in the order of the programs."""
    text = PAGE.read_text()
    begin, end = _table(text)
    lines = []
    for program in PROGRAMS:
        if (row := rows.get(program.name)) is not None:
            shown = [
                re.sub(r"[|\n]", " ", cell)
                for cell in (row.name, row.version, ORIGINS[program.kind], row.data, row.result)
            ]
            lines.append("| " + " | ".join(shown) + " |\n")
    PAGE.write_text(text[:begin] + HEAD + "".join(lines) + text[end:])
