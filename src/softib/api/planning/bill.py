"""A bill of materials as documents hold it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from softib.result import Result

if TYPE_CHECKING:
    from softib.plan.bill import Bill

__all__ = ["BillItem", "BillOfMaterials", "bill_of_materials"]


@dataclass(frozen=True)
class BillItem(Result):
    """A line of a bill; prices are None if the cost book has none."""

    item: str
    part: str
    """The vendor's order number."""
    count: int
    spares: int | None
    """None if the cost book has no failure rate."""
    price_low: float | None
    price_high: float | None
    total_low: float | None
    total_high: float | None
    source: str
    """Of the price."""


@dataclass(frozen=True)
class BillOfMaterials(Result):
    """An order and its price."""

    currency: str
    prices_of: str
    low: float
    high: float
    without_price: list[str]
    """Items that the sums leave out."""
    items: list[BillItem]


def bill_of_materials(bill: Bill) -> BillOfMaterials:
    """Return a bill as documents hold it."""
    without = [item.text for item in bill.open]
    return BillOfMaterials(
        bill.currency, bill.date, bill.low, bill.high, without, [BillItem(*item.row()) for item in bill.items]
    )
