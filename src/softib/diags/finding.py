"""A finding: one thing about a fabric that somebody should know, with the evidence and what to do."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any

__all__ = ["Finding", "Location", "Severity"]


class Severity(IntEnum):
    """How bad: an ``error`` breaks traffic or management, a ``warning`` costs performance or
    safety."""

    INFO = 0
    WARNING = 1
    ERROR = 2


@dataclass(frozen=True)
class Location:
    """Where: node name, NodeGUID, and port number (None = the node as a whole).

    ``shown`` is how messages call the node where its name alone would not tell it from others.
    """

    node: str
    guid: int
    portnum: int | None = None
    shown: str = field(default="", compare=False)

    def __str__(self) -> str:
        name = self.shown or self.node
        return name if self.portnum is None else f"{name}[{self.portnum}]"

    def to_json(self) -> dict[str, Any]:
        """As ``--json`` prints it."""
        return {"node": self.node, "guid": f"{self.guid:#018x}", "portnum": self.portnum}


@dataclass(frozen=True)
class Finding:
    """``code`` is stable and documented (docs/findings.md), ``message`` one line for people."""

    code: str
    severity: Severity
    where: tuple[Location, ...]
    message: str
    evidence: dict[str, Any] = field(default_factory=dict)
    advice: str = ""

    def __repr__(self) -> str:
        where = ", ".join(map(str, self.where[:2])) + (", …" if len(self.where) > 2 else "")
        return f"<Finding {self.severity.name.lower()} {self.code}{' at ' if where else ''}{where}>"

    def to_json(self) -> dict[str, Any]:
        """As ``--json`` prints it."""
        return {
            "code": self.code,
            "severity": self.severity.name.lower(),
            "where": [p.to_json() for p in self.where],
            "message": self.message,
            "evidence": self.evidence,
            "advice": self.advice,
        }
