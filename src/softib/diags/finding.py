"""Findings and their codes. A finding is a problem or fact of a fabric, with evidence and advice."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import Any, Literal

from softib.errors import InputError
from softib.plural import few
from softib.result import HIDDEN, Result, key

__all__ = ["CODES", "MANY", "Code", "Each", "Finding", "Location", "Severity", "code", "each_or_one", "few", "finding"]


class Severity(IntEnum):
    """Severity: an ``error`` stops traffic or management, a ``warning`` reduces performance or safety."""

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
    """Port number; None for the whole node."""
    shown: str = field(default="", compare=False, metadata=HIDDEN)
    """Name of the node in messages if several nodes have its name."""

    def __str__(self) -> str:
        name = self.shown or self.node
        return name if self.portnum is None else f"{name}[{self.portnum}]"


@dataclass(frozen=True)
class Finding(Result):
    """A problem or fact of a fabric."""

    table_columns = ("severity", "code", "where", "message", "advice")

    code: str
    """Code, as listed in docs/findings.md."""
    severity: Severity = field(
        metadata=key(json=lambda severity: severity.name.lower(), type=Literal["info", "warning", "error"])
    )
    where: tuple[Location, ...]
    message: str
    """Message, one line."""
    evidence: dict[str, Any] = field(default_factory=dict)
    """Measured values; keys depend on the code."""
    advice: str = ""

    def __repr__(self) -> str:
        where = ", ".join(map(str, self.where[:2])) + (", …" if len(self.where) > 2 else "")
        return f"<Finding {self.severity.name.lower()} {self.code}{' at ' if where else ''}{where}>"


@dataclass(frozen=True)
class Code:
    """A stable finding code: severity, meaning and advice. ``docs/findings.md`` documents
    each."""

    name: str
    severity: Severity
    meaning: str
    advice: str


CODES: dict[str, Code] = {}


def code(name: str, severity: Severity, meaning: str, advice: str) -> str:
    """Declare a finding code, and return its name. Raises :class:`InputError` if the code is already declared."""
    if name in CODES:
        raise InputError(f"finding code {name} already exists; use another name")
    CODES[name] = Code(name, severity, meaning, advice)
    return name


MANY = 8
"""Maximum number of findings with the same code that are reported separately. A larger number is merged into one
finding: its message states the number, and its locations and evidence contain those of all.
"""

Each = tuple[Sequence[Any], str, dict[str, Any]]
"""Locations, message and evidence of one of several findings."""


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
    """Return a finding for each of ``several``. If there are more than ``most``, return a single finding with the text
    ``together``, which states their number and names the first of them. This finding has all locations;
    ``evidence["each"]`` has all messages and evidence.
    """
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


def with_also(lead: Finding, also: Finding) -> Finding:
    """Return ``lead`` with ``also``, another effect of the same fault, in its evidence."""
    record = {"code": also.code, "message": also.message, "evidence": also.evidence}
    return replace(lead, evidence={**lead.evidence, "also": [*lead.evidence.get("also", ()), record]})


def finding(
    name: str,
    where: Iterable[Any],
    message: str,
    evidence: dict[str, Any] | None = None,
    *,
    severity: Severity | None = None,
    advice: str | None = None,
) -> Finding:
    """Return a finding of a declared code."""
    declared = CODES[name]
    return Finding(
        name,
        declared.severity if severity is None else severity,
        tuple(where),
        message,
        evidence or {},
        declared.advice if advice is None else advice,
    )
