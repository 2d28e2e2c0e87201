"""Numbers of things in messages: ``1 switch``, ``12,345 switches``, ``2 entries``."""

from __future__ import annotations

from collections.abc import Iterable

__all__ = ["counted", "few", "plural"]


def plural(n: int, noun: str, several: str = "") -> str:
    """Return the form of ``noun`` for ``n``: ``several`` if the plural follows no rule."""
    if n == 1:
        return noun
    if several:
        return several
    if noun.endswith(("s", "x", "z", "ch", "sh")):
        return noun + "es"
    if noun.endswith("y") and noun[-2:-1] not in "aeiou":
        return noun[:-1] + "ies"
    return noun + "s"


def counted(n: int, noun: str, several: str = "") -> str:
    """Return the number with its noun: ``1 switch``, ``1,020 switches``."""
    return f"{n:,} {plural(n, noun, several)}"


def few(names: Iterable[str], most: int = 4) -> str:
    """Return the first ``most`` of ``names`` for a message, and the number of others."""
    every = list(names)
    return ", ".join(every[:most]) + (f" and {len(every) - most} more" if len(every) > most else "")
