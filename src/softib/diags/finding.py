"""A finding: one thing about a fabric that somebody should know, with the evidence and what to do."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, Literal

from softib.result import HIDDEN, Result, key

__all__ = ["Finding", "Location", "Severity"]


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
