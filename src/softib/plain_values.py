"""Numbers and JSON in untrusted texts: a text that cannot be a value of softib is refused when it is read.

``str.isdigit`` is true for ``²``, which ``int`` refuses; ``int`` refuses 5,000 digits with an unexpected error, but
accepts 4,000, which fit into no column and no ``float``.
"""

from __future__ import annotations

import json
from typing import Any

__all__ = ["MOST_DIGITS", "load_json", "whole_number"]

MOST_DIGITS = 20
"""Digits of the largest value of 64 bits."""


def whole_number(text: str) -> int | None:
    """Return the number in ``text``: ASCII digits, at most 18 (it fits into int64); None for any
    other text."""
    return int(text) if text.isascii() and text.isdigit() and len(text) < MOST_DIGITS - 1 else None


def load_json(text: str | bytes) -> Any:
    """Return the document in ``text``. Raises :class:`ValueError` for every text that is not JSON,
    and for numbers beyond 64 bits."""
    try:
        return json.loads(text, parse_int=_bounded)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def _bounded(digits: str) -> int:
    if len(digits) > MOST_DIGITS + 1:  # and a sign
        raise ValueError(f"a number of {len(digits):,} digits")
    return int(digits)
