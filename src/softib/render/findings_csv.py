"""Findings as CSV (RFC 4180), for tables and spreadsheets."""

from __future__ import annotations

import csv
import io

from softib.analysis.model import Report
from softib.foreign_text import shown_lines

__all__ = ["to_csv"]

COLUMNS = ("severity", "code", "where", "guids", "message", "advice")


def to_csv(report: Report) -> str:
    """Return one row per finding; several locations of a finding are in one cell, separated by ``; ``.

    A cell that a spreadsheet would treat as a formula gets an apostrophe in front, because names come from files.
    """
    out = io.StringIO()
    table = csv.writer(out, lineterminator="\n")
    table.writerow(COLUMNS)
    for f in report.findings:
        guids = "; ".join(f"{p.guid:#018x}" for p in f.where)
        cells = (f.severity.name.lower(), f.code, "; ".join(map(str, f.where)), guids, f.message, f.advice)
        table.writerow([_cell(c) for c in cells])
    return out.getvalue()


def _cell(text: str) -> str:
    text = shown_lines(text)
    return f"'{text}" if text.startswith(("=", "+", "-", "@")) else text
