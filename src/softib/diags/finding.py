"""A finding: one thing about a fabric that somebody should know, with the evidence and what to do;
and the codes of findings."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, Literal

from softib.errors import InputError
from softib.result import HIDDEN, Result, key

__all__ = ["CODES", "MANY", "Code", "Each", "Finding", "Location", "Severity", "code", "each_or_one", "few", "finding"]


class Severity(IntEnum):
    """How bad: an ``error`` breaks traffic or management, a ``warning`` costs performance or
    safety."""

    INFO = 0
    WARNING = 1
    ERROR = 2


@dataclass(frozen=True)
class Location(Result):
    """A node, or one of its ports."""

    node: str
    guid: int = field(metadata=key(json="{:#018x}".format, type=str))
    """NodeGUID in hex."""
    portnum: int | None = None
    """None: the node as a whole."""
    shown: str = field(default="", compare=False, metadata=HIDDEN)
    """How messages call the node where its name alone would not tell it from others."""

    def __str__(self) -> str:
        name = self.shown or self.node
        return name if self.portnum is None else f"{name}[{self.portnum}]"


@dataclass(frozen=True)
class Finding(Result):
    """One thing about a fabric that somebody should know."""

    table_columns = ("severity", "code", "where", "message", "advice")

    code: str
    """As docs/findings.md lists them."""
    severity: Severity = field(
        metadata=key(json=lambda severity: severity.name.lower(), type=Literal["info", "warning", "error"])
    )
    where: tuple[Location, ...]
    message: str
    """A line for people."""
    evidence: dict[str, Any] = field(default_factory=dict)
    """What the check measured; keys depend on the code."""
    advice: str = ""

    def __repr__(self) -> str:
        where = ", ".join(map(str, self.where[:2])) + (", …" if len(self.where) > 2 else "")
        return f"<Finding {self.severity.name.lower()} {self.code}{' at ' if where else ''}{where}>"


@dataclass(frozen=True)
class Code:
    """One stable finding code: severity, what it means, what to do. ``docs/findings.md`` documents
    each."""

    name: str
    severity: Severity
    meaning: str
    advice: str


CODES: dict[str, Code] = {}


def code(name: str, severity: Severity, meaning: str, advice: str) -> str:
    """Declare a finding code; returns its name. Raises :class:`InputError` for one that is declared
    already."""
    if name in CODES:
        raise InputError(f"there is a finding code {name} already; name it otherwise")
    CODES[name] = Code(name, severity, meaning, advice)
    return name


MANY = 8
"""From so many equal findings on, one finding: its message has the count, its places and evidence
have all of them."""

Each = tuple[Sequence[Any], str, dict[str, Any]]
"""Places, message and evidence of one finding of several."""


def each_or_one(
    name: str,
    several: Sequence[Each],
    together: str,
    evidence: dict[str, Any] | None = None,
    *,
    most: int = MANY,
    severity: Severity | None = None,
    count: str = "count",
) -> Iterator[Finding]:
    """A finding for each of ``several``; of more than ``most`` one that is ``together`` (a text with
    their number) and names the first. It holds every place, and the message and evidence of each in
    ``evidence["each"]``."""
    if len(several) <= most:
        for where, message, detail in several:
            yield finding(name, where, message, detail, severity=severity)
        return
    where = list(dict.fromkeys(place for locations, _, _ in several for place in locations))
    each = [
        {"where": [str(p) for p in locations], "message": message, **detail} for locations, message, detail in several
    ]
    yield finding(
        name,
        where,
        f"{together}; first: {several[0][1]}",
        {**(evidence or {}), count: len(several), "each": each},
        severity=severity,
    )


def few(names: Iterable[str], most: int = 4) -> str:
    """The first ``most`` of ``names`` for a message, and how many more there are."""
    every = list(names)
    return ", ".join(every[:most]) + (f" and {len(every) - most} more" if len(every) > most else "")


def finding(
    name: str,
    where: Iterable[Any],
    message: str,
    evidence: dict[str, Any] | None = None,
    *,
    severity: Severity | None = None,
    advice: str | None = None,
) -> Finding:
    """A finding of a declared code."""
    declared = CODES[name]
    return Finding(
        name,
        declared.severity if severity is None else severity,
        tuple(where),
        message,
        evidence or {},
        declared.advice if advice is None else advice,
    )
