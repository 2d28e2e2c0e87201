"""The bill of materials of a fabric: items to order, number of spares, and cost.

An item without a price in the book stays open, and every sum states the number of items that it omits.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from softib.errors import MissingLibrary
from softib.extras import install_command
from softib.iba.catalogue import ADAPTER_OF, SWITCH_OF
from softib.plan.plugs import Order
from softib.plan.price_book import CostBook, Range, Running
from softib.plural import counted

__all__ = ["COLUMNS", "Bill", "Item", "Part", "bill_of", "spares", "workbook"]

CONFIDENCE = 0.99
"""Probability with which the spares must be sufficient until they are restocked."""
ROLES = {
    "cable": "{medium} cable, {metres:g} m",
    "splitter": "{medium} splitter cable, one cage to two hosts, {metres:g} m",
    "cage": "twin-port transceiver for a switch, {medium}",
    "host": "transceiver for an adapter, {medium}",
    "fibre": "fibre, {medium}, {metres:g} m",
}
COLUMNS = ("item", "part", "count", "spares", "price_low", "price_high", "total_low", "total_high", "source")


@dataclass(frozen=True)
class Item:
    """A line of a bill. ``count``: number of pieces needed; ``spares``: number in addition (None: the book has no
    failure rate); ``price``: that of one piece (None: not in the book). ``role``: switch, adapter, management, patch,
    or a role of :class:`~softib.plan.plugs.Order`."""

    role: str
    medium: str
    metres: float
    text: str
    part: str
    count: int
    spares: int | None
    price: Range | None
    generation: str = ""
    """Generation of the links; empty for Ethernet."""

    @property
    def pieces(self) -> int:
        """Number of pieces to order."""
        return self.count + (self.spares or 0)

    def row(self) -> tuple[Any, ...]:
        """Return the values of :data:`COLUMNS`; prices None if unknown."""
        p = self.price
        if p is None:
            return (self.text, self.part, self.count, self.spares, None, None, None, None, "no price in the book")
        return (
            self.text,
            self.part,
            self.count,
            self.spares,
            p.low,
            p.high,
            self.pieces * p.low,
            self.pieces * p.high,
            p.source,
        )


@dataclass(frozen=True)
class Bill:
    """All items, in ``currency`` at prices of ``date``."""

    items: tuple[Item, ...]
    currency: str
    date: str

    @property
    def low(self) -> float:
        """Sum of the lowest prices, over items with a price."""
        return sum(i.pieces * i.price.low for i in self.items if i.price is not None)

    @property
    def high(self) -> float:
        """Sum of the highest prices, over items with a price."""
        return sum(i.pieces * i.price.high for i in self.items if i.price is not None)

    @property
    def open(self) -> tuple[Item, ...]:
        """Items without a price."""
        return tuple(i for i in self.items if i.price is None and i.pieces)

    def csv(self) -> str:
        """Return the items as CSV with :data:`COLUMNS`. Cells of unknown prices are empty; the column ``source`` then
        says that the book has none."""
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(COLUMNS)
        for item in self.items:
            writer.writerow(["" if value is None else value for value in item.row()])
        return out.getvalue()

    @property
    def text(self) -> str:
        """The sum in one line."""
        left = f", without {counted(len(self.open), 'item')} that have no price in the book" if self.open else ""
        return f"{self.currency} {self.low:,.0f} to {self.high:,.0f} (prices of {self.date}){left}"


def spares(count: int, fail_a_month: float, months: float) -> int:
    """Return the smallest number of spares that is sufficient for ``months`` with a probability of :data:`CONFIDENCE`.
    The failures of ``count`` devices are a Poisson process; each device fails at the rate ``fail_a_month``."""
    mean = count * fail_a_month * months
    term = below = math.exp(-mean)
    n = 0
    while below < CONFIDENCE:
        n += 1
        term *= mean / n
        below += term
    return n


@dataclass(frozen=True)
class Part:
    """The devices and cables for links of one ``generation``: ``switches``, adapters for ``host_ports``, ``orders``
    of plugs and cables."""

    generation: str
    switches: int
    host_ports: int
    orders: tuple[Order, ...]


def bill_of(
    parts: Sequence[Part], book: CostBook, management_switches: int = 0, patches: Sequence[tuple[float, int]] = ()
) -> Bill:
    """Return the bill of ``parts``, of ``management_switches``, and of the cables to these: ``patches`` are (metres,
    number)."""
    items = [item for part in parts for item in _items(part, book, len(parts) > 1)]
    running = book.running
    items.append(
        Item(
            "management",
            "",
            0.0,
            "management switch, 48 ports of 1 Gb/s Ethernet",
            "",
            management_switches,
            _spares(management_switches, running.switches_fail, running),
            book.management_switch,
        )
    )
    items += [
        Item("patch", "", m, f"management cable, RJ45, {m:g} m", "", n, None, book.management_cable) for m, n in patches
    ]
    return Bill(tuple(i for i in items if i.count), book.currency, book.date)


def _spares(count: int, rate: Range | None, running: Running) -> int | None:
    return None if rate is None else spares(count, rate.high, running.restock_months)


def _items(part: Part, book: CostBook, several: bool) -> list[Item]:
    """Return the lines of ``part``; plugs and cables name their generation if the bill has ``several``."""
    generation, running = part.generation, book.running
    switch, adapter = SWITCH_OF.get(generation), ADAPTER_OF.get(generation)
    whole = book.switches.get(generation)
    port = book.switch_ports.get(generation)
    if whole is None and port is not None and switch is not None:
        whole = Range(
            low=port.low * switch.radix, high=port.high * switch.radix, source=f"{switch.radix} ports: {port.source}"
        )
    named = f"switch, {switch.name}" if switch is not None else f"switch of {generation}"
    items = [
        Item(
            "switch",
            "",
            0.0,
            named,
            switch.systems[0] if switch is not None and switch.systems else "",
            part.switches,
            _spares(part.switches, running.switches_fail, running),
            whole,
            generation=generation,
        ),
        Item(
            "adapter",
            "",
            0.0,
            f"adapter port, {adapter.name if adapter is not None else generation}",
            "",
            part.host_ports,
            _spares(part.host_ports, running.links_fail, running),
            book.adapters.get(generation),
            generation=generation,
        ),
    ]
    for order in part.orders:
        text = ROLES[order.role].format(medium=order.medium, metres=order.metres)
        text += f", {generation}" if several else ""
        price = book.order(generation, order.role, order.medium, order.metres)
        failing = _spares(order.count, running.links_fail, running)
        items.append(
            Item(
                order.role,
                order.medium,
                order.metres,
                text,
                order.part,
                order.count,
                failing,
                price,
                generation=generation,
            )
        )
    return items


def workbook(bill: Bill) -> bytes:
    """Return the bill as an Excel workbook (XLSX). Raises :class:`MissingLibrary` without
    openpyxl."""
    try:
        import openpyxl
    except ImportError:
        raise MissingLibrary(f"an Excel workbook needs openpyxl; run {install_command('xlsx')}") from None
    book = openpyxl.Workbook()
    sheet = book.active
    sheet.title = "bill of materials"
    sheet.append(COLUMNS)
    for item in bill.items:
        sheet.append(item.row())
    sheet.append(())
    sheet.append((bill.text,))
    sheet.freeze_panes = "A2"
    sheet.column_dimensions["A"].width = 48
    sheet.column_dimensions["I"].width = 60
    out = io.BytesIO()
    book.save(out)
    return out.getvalue()
