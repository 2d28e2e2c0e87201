"""Prices: items counted by hand, books that are refused in one line, and what a comparison says of them."""

from __future__ import annotations

from pathlib import Path

import pytest

import softib
from softib.errors import InputError
from softib.plan.price_book import price_of, read_book

BOOK = """
currency: EUR
date: 2026-10
adapters:
  NDR: {low: 1000, high: 2000, source: offer}
  EDR: {low: 100, high: 200, source: offer}
switch_ports:
  NDR: {low: 500, high: 500, source: offer}
  EDR: {low: 50, high: 50, source: offer}
cables:
  NDR:
    - {up_to_m: 3, low: 10, high: 20, source: offer}
    - {up_to_m: 100, low: 100, high: 100, source: offer}
  EDR:
    - {up_to_m: 100, low: 1, high: 1, source: offer}
"""


@pytest.fixture
def book(tmp_path: Path) -> Path:
    path = tmp_path / "prices.yaml"
    path.write_text(BOOK, encoding="utf-8")
    return path


def tree(**more):
    return softib.generate("fat-tree", radix=4, levels=2, generation="NDR", **more)


def test_items_are_counted_once(book: Path) -> None:
    """radix 4, two levels: 8 hosts, 8 cables to hosts, 8 between switches; 24 linked switch ports; aggregation nodes cost nothing of their own."""
    for more in ({}, {"aggregation_nodes": True}):
        fabric = tree(**more)._result.fabric
        fabric.cable_length_m[:5] = 20.0
        found = price_of(read_book(book), fabric, "NDR")
        assert found.missing == () and found.short == 11
        assert found.low == 8 * 1000 + 24 * 500 + 5 * 100 + 11 * 10
        assert found.high == 8 * 2000 + 24 * 500 + 5 * 100 + 11 * 20


def test_what_has_no_price_is_named_and_nothing_is_guessed(book: Path) -> None:
    found = price_of(read_book(book), tree()._result.fabric, "XDR")
    assert found.missing[:2] == ("XDR adapter", "XDR switch port") and found.low == found.high == 0


def test_half_the_price_and_performance_for_the_price(book: Path) -> None:
    found = softib.compare(tree(), "shift:256KiB,k=2", networks=["EDR", "XDR"], layer="fluid", prices=book)
    rows = {r["network"]: r for r in found.rows()}
    assert rows["NDR"]["per_price"] == 1 and rows["XDR"]["price"] is None
    middle = lambda name: (rows[name]["price"]["low"] + rows[name]["price"]["high"]) / 2
    assert rows["EDR"]["per_price"] == pytest.approx(middle("NDR") / middle("EDR") / rows["EDR"]["ratio"])
    (half,) = found.half_price
    assert (
        half["network"] == "EDR"
        and half["price"] < 0.5
        and half["performance"] == pytest.approx(1 / rows["EDR"]["ratio"])
    )
    assert any("XDR adapter" in note for note in found.notes) and any("EDR keeps" in note for note in found.notes)


def test_without_a_price_of_the_fabric_as_it_is_there_is_no_half() -> None:
    found = softib.compare(
        softib.generate("fat-tree", radix=4, levels=2, generation="HDR"), "shift:1KB", networks=["NDR"], layer="fluid"
    )
    assert found.half_price is None and found.to_json()["half_price"] is None


def test_softib_s_own_book_has_a_source_for_every_price() -> None:
    book = read_book()
    assert book.currency == "USD" and "NDR" in book.adapters
    assert all(p.source for table in (book.adapters, book.switch_ports) for p in table.values())


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("- 1", "prices must be a mapping"),
        ("currency: USD", "date"),
        ("currency: [", "not a file of prices"),
        ("currency: USD\ndate: 2026-10\nadapters: {NDR: {low: 3, high: 2, source: x}}", "low 3 is above high 2"),
        ("currency: USD\ndate: 2026-10\nadapters: {NDR: {low: 1, high: 2}}", "source"),
        ("currency: USD\ndate: 2026-10\nadaptors: {}", "adaptors"),
    ],
)
def test_a_wrong_book_is_one_line(tmp_path: Path, text: str, says: str) -> None:
    path = tmp_path / "wrong.yaml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match=says) as refused:
        read_book(path)
    assert "\n" not in str(refused.value) and str(path) in str(refused.value)
    with pytest.raises(InputError, match="missing"):
        read_book(tmp_path / "missing.yaml")
