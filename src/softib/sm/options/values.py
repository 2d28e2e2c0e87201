"""Readers of option values: functions from a text to a value, which raise ValueError for any other
text. The docstring of each describes the accepted values and is used in the message."""

from __future__ import annotations

from collections.abc import Callable, Collection

__all__ = ["number", "one_of", "plain_text", "truth"]

YES, NO = ("true", "yes", "1", "on"), ("false", "no", "0", "off")


def number(least: int, most: int, scale: int = 1) -> Callable[[str], int]:
    """Return a reader of numbers from ``least`` to ``most`` in C's notation; it multiplies them by ``scale``."""

    def read(value: str) -> int:
        n = int(value, 0)
        if not least <= n <= most:
            raise ValueError
        return n * scale

    read.__doc__ = f"a number from {least} to {most}" if most < 1 << 20 else f"a number up to {most:#x}"
    return read


def one_of(values: Collection[int], meaning: str) -> Callable[[str], int]:
    """Return a reader that accepts only these numbers; ``meaning`` describes them in messages."""

    def read(value: str) -> int:
        if (n := int(value, 0)) not in values:
            raise ValueError
        return n

    read.__doc__ = meaning
    return read


def truth(value: str) -> bool:
    """TRUE or FALSE"""
    if value.lower() not in (*YES, *NO):
        raise ValueError
    return value.lower() in YES


def plain_text(value: str) -> str:
    """text"""
    return value.strip()
