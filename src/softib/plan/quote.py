"""A vendor's quote compared with the items that a fabric needs: missing and superfluous pieces.

Rows are recognised by order numbers, otherwise by words (``OSFP … transceiver``, ``splitter``). Rows that are not
recognised are listed, and do not count in the comparison.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from softib.errors import InputError
from softib.fabric.formats.cabling.encodings import decode
from softib.fabric.formats.cabling.sheet import is_workbook, sheets_of_workbook, split_line
from softib.iba.catalogue import ADAPTERS, CABLES, SWITCHES
from softib.input_files import content
from softib.plan.bill import Bill

__all__ = ["Line", "QuoteComparison", "Shortfall", "check_quote", "read_quote"]

COUNT = re.compile(
    r"^(qty|quantity|count|pieces|pcs|menge|anzahl|stück|quantité|cantidad|数量|units?)\b", re.IGNORECASE
)
NUMBER = re.compile(r"^\s*(\d[\d .,']*)\s*(x|pcs|ea|st)?\s*$", re.IGNORECASE)
METRES = re.compile(r"(?<![\w.])(\d+(?:[.,]\d+)?)\s?m(?:eters?|etres?)?\b", re.IGNORECASE)
PATTERNS: tuple[tuple[str, str], ...] = (
    (r"split|breakout|y-cable|1:2", "splitter"),
    (r"twin|2x\s?400|800\s?g|2x\s?800|1\.6\s?t", "cage"),
    (r"transceiver|optic(?!al cable)|sr4|dr4|fr4", "host"),
    (r"fib(re|er)|mpo|patch", "fibre"),
    (r"\baoc\b|\bdac\b|\bacc\b|copper|active optical|cable", "cable"),
)
"""Words in a row without a known order number → role of the row; the first match applies."""


WHOLE = {
    "switch": "switches",
    "adapter": "adapter ports",
    "management": "management switches",
    "patch": "management cables",
    "cage": "twin-port transceivers for switches",
    "host": "transceivers for adapters",
}
"""Roles for which length and medium do not matter → name of the item."""


@dataclass(frozen=True)
class Line:
    """A row of a quote. ``role``: switch, adapter, or a role of :class:`~softib.plan.plugs.Order`; empty if the row was
    not understood."""

    number: int
    text: str
    count: int
    role: str
    medium: str
    metres: float | None


@dataclass(frozen=True)
class Shortfall:
    """An item of which a quote has too few or too many pieces. ``text`` describes it; ``needed`` and ``offered`` are
    numbers of pieces."""

    text: str
    needed: int
    offered: int


def read_quote(path: str | os.PathLike[str]) -> list[Line]:
    """Return the rows of a quote, CSV or XLSX, that have a count. Raises :class:`InputError` if no
    row has one."""
    rows = _rows(path)
    column = next(
        (i for row in rows for i, cell in enumerate(row) if COUNT.match(cell.strip())),
        None,
    )
    lines = []
    for number, row in enumerate(rows, 1):
        cells = [c.strip() for c in row]
        at = column if column is not None and column < len(cells) else None
        count = (
            _number(cells[at]) if at is not None else next((n for c in cells if (n := _number(c)) is not None), None)
        )
        text = " ".join(c for i, c in enumerate(cells) if c and i != at)
        if count and text:
            lines.append(_line(number, text, count))
    if not lines:
        raise InputError(
            f"{os.fspath(path)}: no row has a quantity; add a column Quantity beside the parts or descriptions"
        )
    return lines


def _rows(path: str | os.PathLike[str]) -> list[list[str]]:
    data, name = content(path, kind="quote").data, os.fspath(path)
    if is_workbook(data):
        return [cells for sheet in sheets_of_workbook(data, name) for _, cells, _ in sheet.rows]
    if b"\0" in data[:4096]:
        raise InputError(f"{name}: this is neither CSV nor an Excel workbook")
    text = decode(data)
    delimiter = max(",;\t", key=text[:4096].count)
    return [split_line(line, delimiter) for line in text.splitlines()]


def _number(cell: str) -> int | None:
    match = NUMBER.match(cell)
    digits = re.sub(r"[ .,']", "", re.sub(r"[.,]0+$", "", match[1].strip())) if match else ""
    return int(digits) if digits and len(digits) <= 9 else None


def _line(number: int, text: str, count: int) -> Line:
    upper = text.upper()
    metres = METRES.search(text)
    length = float(metres[1].replace(",", ".")) if metres else None
    for system in (s for row in SWITCHES for s in row.systems):
        if re.search(rf"\b(M)?{re.escape(system.upper())}", upper):
            return Line(number, text, count, "switch", "", None)
    for kind in CABLES:
        for role, part in sorted(kind.orders.items(), key=lambda item: -len(item[1])):
            longer = any(p != part and p.startswith(part) and p.upper() in upper for p in kind.orders.values())
            if part.upper().rstrip("-") in upper and not longer:
                return Line(number, text, count, role, kind.medium, length or _length_of(upper, part))
    if any(row.name.upper() in upper for row in ADAPTERS) or re.search(r"\bMCX\d|\bHCA\b|\bADAPTER CARD", upper):
        return Line(number, text, count, "adapter", "", None)
    if re.search(
        r"1000BASE-T|\bRJ-?45\b|\bCAT(EGORY)?[ .]?[5-8]|\bMANAGEMENT (SWITCH|CABLE|NETWORK)|\b1\s?GB?E\b|\bSN2201\b",
        upper,
    ):
        return Line(number, text, count, "management" if re.search(r"SWITCH|SN2201", upper) else "patch", "", length)
    if re.search(r"\bSWITCH\b", upper) and not re.search(r"CABLE|TRANSCEIVER|FIB(RE|ER)|SWITCH-TO|TO SWITCH", upper):
        return Line(number, text, count, "switch", "", None)
    role = next((role for pattern, role in PATTERNS if re.search(pattern, text, re.IGNORECASE)), "")
    medium = next((m for m in ("DAC", "ACC", "AOC", "MMF", "SMF") if re.search(rf"\b{m}\b", upper)), "")
    if not medium and re.search(r"MULTI-?\s?MODE|SR4|SR8|OM[345]", upper):
        medium = "MMF"
    elif not medium and re.search(r"SINGLE-?\s?MODE|DR4|FR4|OS2", upper):
        medium = "SMF"
    return Line(number, text, count, role, medium, length)


def _length_of(upper: str, part: str) -> float | None:
    """Return the length in metres that ends an order number, as in N010 or N01A."""
    match = re.search(re.escape(part.upper()) + r"(\d\d)(\d|A)", upper)
    if match is None:
        return None
    return float(match[1]) + 0.5 if match[2] == "A" else float(match[1] + match[2])


class QuoteComparison(NamedTuple):
    """A quote compared with a bill."""

    differences: list[Shortfall]
    """Missing and superfluous items."""
    notes: list[str]
    """A line for each row that was not understood."""


def check_quote(bill: Bill, lines: Sequence[Line]) -> QuoteComparison:
    """Compare the lines of a quote with ``bill``.

    Cables, splitters and fibres are compared by role and medium, the longest first; a longer piece of the same medium
    is accepted. For switches, adapters and transceivers, only the number of each role is compared. Spares are not
    required.
    """
    notes = [f"row {line.number} was not understood and is omitted: {line.text}" for line in lines if not line.role]
    short: list[Shortfall] = []
    for role, text in WHOLE.items():
        needed = sum(i.count for i in bill.items if i.role == role)
        offered = sum(line.count for line in lines if line.role == role)
        if needed != offered:
            short.append(Shortfall(text, needed, offered))
    for role in ("cable", "splitter", "fibre"):
        short += _by_length(bill, lines, role)
    return QuoteComparison(short, notes)


def _by_length(bill: Bill, lines: Sequence[Line], role: str) -> list[Shortfall]:
    """Match needed and offered pieces of ``role``: the longest needed piece first, each with the shortest offered piece
    that is long enough."""
    offers: Counter[tuple[str, float]] = Counter()
    for line in lines:
        if line.role == role:
            offers[line.medium, line.metres if line.metres is not None else float("inf")] += line.count
    short = []
    for item in sorted((i for i in bill.items if i.role == role), key=lambda i: -i.metres):
        left = item.count
        for key in sorted(k for k in offers if k[0] in (item.medium, "") and k[1] >= item.metres):
            taken = min(left, offers[key])
            offers[key] -= taken
            left -= taken
        if left:
            short.append(Shortfall(item.text, item.count, item.count - left))
    for (medium, metres), n in offers.items():
        if n:
            size = "" if metres == float("inf") else f" of {metres:g} m"
            short.append(Shortfall(f"{role} {medium}{size}".replace("  ", " ").strip(), 0, n))
    return short
