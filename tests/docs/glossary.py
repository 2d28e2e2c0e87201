"""docs/glossary.md, read: its rows, and what its symbols name."""

from __future__ import annotations

import importlib
import re
from functools import cache
from typing import Any, NamedTuple

from tests.docs.source.names import SOURCES, c_names

PAGE = (SOURCES.parents[1] / "docs" / "glossary.md").read_text("utf-8")


class Row(NamedTuple):
    term: str
    sentence: str
    python: list[str]
    c: list[str]


def rows(own_words: bool = True) -> list[Row]:
    """The rows of the page; without ``own_words`` those of the field alone."""
    found = []
    for line in (PAGE if own_words else PAGE.partition("## softib's own words")[0]).splitlines():
        if line.startswith("| ") and not line.startswith("| term "):
            term, sentence, python, c = (x.strip() for x in line.strip("|").split("|"))
            found.append(Row(term, sentence, re.findall(r"`([\w.]+)`", python), re.findall(r"`(\w+)`", c)))
    return found


def resolve(symbol: str) -> Any:
    """What ``package.module.Class.attribute`` names; a field of a dataclass counts. Raises AttributeError."""
    parts = symbol.split(".")
    for n in range(len(parts), 0, -1):
        try:
            found = importlib.import_module(".".join(parts[:n]))
        except ModuleNotFoundError:
            continue
        for name in parts[n:]:
            fields = {k for c in getattr(found, "__mro__", ()) for k in getattr(c, "__annotations__", {})}
            found = getattr(found, name) if name not in fields else getattr(found, name, fields)
        return found
    raise AttributeError(symbol)


@cache
def c_identifiers() -> frozenset[str]:
    files = [p for p in sorted((SOURCES / "preload").rglob("*")) if p.suffix in (".c", ".h")]
    return frozenset(name for path in files for _, name in c_names(path.read_text("utf-8")))
