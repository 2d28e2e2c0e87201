"""A vendor's quote compared with the items that a fabric needs: missing and superfluous pieces.

:mod:`softib.plan.quote_parts` recognises the part of each row. Rows without a part of the fabric are listed with the
reason, and do not count in the comparison.
"""

from __future__ import annotations

import os
import re
from codecs import BOM_UTF16_BE, BOM_UTF16_LE
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from softib.errors import InputError
from softib.fabric.formats.cabling.encodings import decode
from softib.fabric.formats.cabling.sheet import Sheet, is_workbook, sheets_of_workbook, split_line
from softib.iba.catalogue import ADAPTER_OF, SWITCH_OF, Adapter, Switch, cable
from softib.input_files import content
from softib.plan.bill import ROLES, Bill, Item
from softib.plan.quote_parts import Offer, catalogue_part, recognise

__all__ = ["Line", "QuoteComparison", "Shortfall", "check_quote", "read_quote"]

COUNT = re.compile(
    r"^(qty|quantity|count|pieces|pcs|menge|anzahl|stück|quantité|cantidad|数量|units?)\b", re.IGNORECASE
)
PART = re.compile(
    r"^(mfr\.? |vendor |oem )?(part|sku|mpn|p/n|pn\b|article|artikel|model$|"
    r"(item|product|order|model|catalog) ?(no\b|num|#|code)|bestell|teile|référence)",
    re.IGNORECASE,
)
NUMBER = re.compile(r"([-\u2212(]?)\s*(\d[\d .,']*?)\s*\)?\s*(x|pcs?\.?|ea\.?|st\.?|units?|pieces)?", re.IGNORECASE)
WHOLE_NUMBER = re.compile(r"\d+([.,]0+)?|\d{1,3}([ ,']\d{3})+([.,]0+)?|\d{1,3}(\.\d{3}){2,}")
OPTIONS = re.compile(r"option|alternativ", re.IGNORECASE)
ETHERNET = {"management": "management switches", "patch": "management cables"}
"""Roles of the management network → name of the item."""
NO_QUANTITY = "has no quantity"
CABLES_BY_LENGTH = ("cable", "splitter", "fibre")


@dataclass(frozen=True)
class Line:
    """A row of a quote: ``count`` pieces of ``offer``, fewer than 0 in a credit. ``note``: what the row leaves open, or
    why it is not counted."""

    number: int
    text: str
    count: int
    offer: Offer
    note: str = ""


@dataclass(frozen=True)
class Shortfall:
    """An item of which a quote has too few or too many pieces. ``text`` describes it; ``needed`` and ``offered`` are
    numbers of pieces."""

    text: str
    needed: int
    offered: int


def read_quote(path: str | os.PathLike[str]) -> list[Line]:
    """Return the rows of a quote, CSV or XLSX, that have a count or an order number. Raises :class:`InputError` if no
    row has a count."""
    sheets = _sheets(path)
    lines = [line for sheet in sheets for line in _lines(sheet, sheet.name if len(sheets) > 1 else "")]
    if all(NO_QUANTITY in line.note for line in lines):
        raise InputError(
            f"{os.fspath(path)}: no row has a quantity; add a column Quantity beside the parts or descriptions"
        )
    return lines


def _sheets(path: str | os.PathLike[str]) -> list[Sheet]:
    data, name = content(path, kind="quote").data, os.fspath(path)
    if is_workbook(data):
        return sheets_of_workbook(data, name)
    if b"\0" in data[:4096] and not data.startswith((BOM_UTF16_LE, BOM_UTF16_BE)):
        raise InputError(f"{name}: this is neither CSV nor an Excel workbook")
    text = decode(data)
    delimiter = max(",;\t", key=text[:4096].count)
    return [Sheet("", [(i, split_line(line, delimiter), line) for i, line in enumerate(text.splitlines(), 1)])]


def _lines(sheet: Sheet, name: str) -> list[Line]:
    rows = [(number, [c.strip() for c in cells]) for number, cells, _ in sheet.rows]
    heading = next((cells for _, cells in rows if any(map(COUNT.match, cells))), [])
    counts = next((i for i, cell in enumerate(heading) if COUNT.match(cell)), None)
    parts = next((i for i, cell in enumerate(heading) if i != counts and PART.match(cell)), None)
    lines = []
    for number, cells in rows:
        if not any(cells) or cells == heading:
            continue
        at = _count_column(cells, counts)
        part = cells[parts] if parts is not None and parts < len(cells) else _order_number(cells, at)
        description = " ".join(c for i, c in enumerate(cells) if c and i != at and c != part)
        text = " ".join(c for i, c in enumerate(cells) if c and i != at)
        count = _quantity(cells[at]) if at is not None and at < len(cells) else None
        where = f"{name} row {number}".strip()
        if count == 0 or not text or (count is None and catalogue_part(part.upper()) is None):
            continue
        if not isinstance(count, int):
            why = f"has the quantity {count}, which is not a whole number" if count else NO_QUANTITY
            if number in sheet.formulas and not count:
                cell = ", ".join(sheet.formulas[number][:2])
                why = f"has a formula without a value in {cell}; open the workbook in a spreadsheet program and save it"
            lines.append(Line(number, text, 0, Offer(""), f"{where} is not counted: it {why}: {text}"))
            continue
        offer = recognise(part, description)
        if OPTIONS.match(sheet.name):
            offer = Offer("", why="is not counted (optional)")
        lines.append(Line(number, text, count * offer.each, offer, f"{where} {offer.why}: {text}" if offer.why else ""))
    return lines


def _count_column(cells: Sequence[str], counts: int | None) -> int | None:
    """Return the column of the quantity: ``counts``, or the first number of a row without that heading."""
    if counts is not None:
        return counts
    return next((i for i, cell in enumerate(cells) if isinstance(_quantity(cell), int)), None)


def _order_number(cells: Sequence[str], at: int | None) -> str:
    """Return the first cell that is a single word with letters and digits, in a quote without a heading for it."""
    pattern = re.compile(r"(?=.*[A-Za-z])(?=.*\d)[\w./-]{6,}")
    return next((c for i, c in enumerate(cells) if i != at and pattern.fullmatch(c)), "")


def _quantity(cell: str) -> int | str | None:
    """Return the whole number in ``cell``, another number as its text, None for a cell without a number. ``1.024`` is
    one with decimals or 1,024, so it is returned as text."""
    match = NUMBER.fullmatch(cell.strip())
    if match is None:
        return None
    digits = match[2].strip()
    if not WHOLE_NUMBER.fullmatch(digits) or len(digits) > 12:
        return cell
    number = int(re.sub(r"[ .,']", "", re.sub(r"[.,]0{1,2}$", "", digits)))
    return -number if match[1] else number


class QuoteComparison(NamedTuple):
    """A quote compared with a bill."""

    differences: list[Shortfall]
    """Missing and superfluous items."""
    notes: list[str]
    """A line for each row that is not counted, or counted with a doubt."""


def check_quote(bill: Bill, lines: Sequence[Line]) -> QuoteComparison:
    """Compare the lines of a quote with ``bill``.

    Switches and adapters count if they are of the model that the bill names. Cables, splitters and fibres are compared
    by role, medium and generation, the longest first; a longer piece of the same medium is accepted. Transceivers are
    compared by medium and generation; single mode throughout is accepted for multimode. Spares are not required.
    """
    notes = [line.note for line in lines if line.note]
    items = list(bill.items)
    if (medium := _one_medium(items, lines)) is not None:
        items = [_in_medium(item, medium) for item in items]
        notes.append(f"all transceivers and fibres are {medium}; the design accepts this medium too")
    short: list[Shortfall] = []
    for role in ("switch", "adapter", *ETHERNET, "cage", "host"):
        short += _by_model([i for i in items if i.role == role], [line for line in lines if line.offer.role == role])
    short += _by_model([], [line for line in lines if line.offer.role == "ethernet"])
    for role in CABLES_BY_LENGTH:
        short += _by_length([i for i in items if i.role == role], [line for line in lines if line.offer.role == role])
    return QuoteComparison(short, notes)


def _one_medium(items: Sequence[Item], lines: Sequence[Line]) -> str | None:
    """Return the medium of all transceivers and fibres of a quote, if the bill has another one that this medium
    replaces: it needs its reach."""
    roles = ("cage", "host", "fibre")
    needed = [i for i in items if i.role in roles]
    offered = {(line.offer.role, line.offer.medium) for line in lines if line.offer.role in roles}
    media = {medium for _, medium in offered}
    if len(media) != 1 or {role for role, _ in offered} != {i.role for i in needed}:
        return None
    (medium,) = media
    rows = [cable(medium, i.generation) for i in needed]
    reaches = all(row is not None and row.reach_m >= i.metres for row, i in zip(rows, needed, strict=True))
    return medium if reaches and any(i.medium != medium for i in needed) else None


def _in_medium(item: Item, medium: str) -> Item:
    if item.role not in ("cage", "host", "fibre"):
        return item
    return replace(item, medium=medium, text=ROLES[item.role].format(medium=medium, metres=item.metres))


def _model(item: Item) -> str:
    """Return the catalogue's name of the switch or adapter of ``item``."""
    row: Adapter | Switch | None = None
    if item.role in ("switch", "adapter"):
        row = (SWITCH_OF if item.role == "switch" else ADAPTER_OF).get(item.generation)
    return row.name if row is not None else ""


def _accepts(item: Item, offer: Offer) -> bool:
    return (
        offer.name in (_model(item), "")
        and offer.medium in (item.medium, "")
        and (not item.generation or offer.generation in (item.generation, ""))
    )


def _by_model(items: Sequence[Item], lines: Sequence[Line]) -> list[Shortfall]:
    """Match needed and offered pieces of one role that have no length: by model, medium and generation."""
    short, left = [], list(lines)
    groups: dict[tuple[str, str], list[Item]] = {}
    for item in items:
        groups.setdefault((item.medium, item.generation), []).append(item)
    for group in groups.values():
        needed = sum(i.count for i in group)
        offered = sum(line.count for line in left if _accepts(group[0], line.offer))
        left = [line for line in left if not _accepts(group[0], line.offer)]
        if needed != offered:
            short.append(Shortfall(ETHERNET.get(group[0].role, group[0].text), needed, offered))
    others: Counter[str] = Counter()
    for line in left:
        others[_label(line.offer)] += line.count
    return [*short, *(Shortfall(text, 0, n) for text, n in others.items() if n)]


def _label(offer: Offer) -> str:
    if offer.role in ETHERNET:
        return ETHERNET[offer.role]
    if offer.role == "ethernet":
        return offer.name
    if offer.role in ("cage", "host"):
        text = ROLES[offer.role].format(medium=offer.medium)
        return f"{text}, {offer.generation}" if offer.generation else text
    kind = "adapter port" if offer.role == "adapter" else offer.role
    return ", ".join(p for p in (kind, offer.name, offer.generation) if p)


def _by_length(items: Sequence[Item], lines: Sequence[Line]) -> list[Shortfall]:
    """Match needed and offered pieces of one role: the longest needed piece first, each with the shortest offered piece
    that is long enough. A fibre serves every generation."""
    offers: Counter[Offer] = Counter()
    for line in lines:
        offers[line.offer if line.offer.role != "fibre" else replace(line.offer, generation="")] += line.count
    short = []
    for item in sorted(items, key=lambda i: -i.metres):
        left = item.count
        for offer in sorted((o for o in offers if _accepts(item, o)), key=lambda o: o.metres or 0.0):
            if (offer.metres or 0.0) >= item.metres and offers[offer] > 0:
                taken = min(left, offers[offer])
                offers[offer] -= taken
                left -= taken
        if left:
            short.append(Shortfall(item.text, item.count, item.count - left))
    for offer, n in offers.items():
        if n:
            text = ROLES[offer.role].format(medium=offer.medium, metres=offer.metres)
            short.append(Shortfall(f"{text}, {offer.generation}" if offer.generation else text, 0, n))
    return short
