"""What results share: sums of names, and an answer to names that do not exist."""

from __future__ import annotations

from typing import Any

from softib.api.arguments import checked_methods
from softib.plural import counted

__all__ = ["Suggests", "totals"]


class Suggests:
    """A name that an object does not have raises an :class:`AttributeError` with the names that
    look like it; arguments of its methods are of the types that these say."""

    def __init_subclass__(cls, **named: Any) -> None:
        super().__init_subclass__(**named)
        checked_methods(cls)

    def __getattr__(self, name: str) -> Any:
        from softib.errors import nearest

        kind = type(self).__name__
        known = [n for n in dir(type(self)) if not n.startswith("_")]
        similar = [] if name.startswith("_") else nearest(name, known)
        hint = f"did you mean {', '.join(similar)}?" if similar else f"it has {', '.join(known)}"
        raise AttributeError(f"{kind} has no {name!r}; {hint}", name=name, obj=self)


def totals(names: list[str]) -> str:
    """``2 errors, 1 info`` of severities, ``2 cable-moved`` of kinds."""
    several = {"error": "errors", "warning": "warnings"}
    found = [(n, names.count(n)) for n in dict.fromkeys(names)]
    return ", ".join(counted(count, n, several.get(n, n)) for n, count in found)
