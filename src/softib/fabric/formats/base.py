"""What readers share: problems with file, line and reason, and the result that keeps every readable record."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from softib.fabric.model import Fabric
from softib.foreign_text import shown
from softib.input_files import shown_name

__all__ = ["Problem", "Problems", "ReadResult"]


@dataclass(frozen=True)
class Problem:
    """One record that could not be used as it stands: where, and why. ``line`` counts from 1; 0 = the whole file."""

    file: str
    line: int
    reason: str

    def __post_init__(self) -> None:
        object.__setattr__(self, "reason", shown(self.reason))

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.reason}" if self.line else f"{self.file}: {self.reason}"

    def to_json(self) -> dict[str, Any]:
        """As ``--json`` prints it."""
        return {"file": self.file, "line": self.line, "reason": self.reason}


class Problems(list[Problem]):
    """The problems of one file, in the order found."""

    def __init__(self, file: str):
        super().__init__()
        self.file = shown_name(file)

    def add(self, line: int, reason: str) -> None:
        """Record that ``line`` is bad because of ``reason``."""
        self.append(Problem(self.file, line, reason))


@dataclass
class ReadResult:
    """A fabric, what was wrong in the file, and the reader that recognised it.

    ``counts`` are the numbers the *file* holds, as COUNTS.tsv defines them: ``switches``, ``cas`` (SHARP aggregation
    nodes counted too), ``sharp_nodes``, ``links`` (a dangling record counts), ``listed_both_ends``, ``self_loops``,
    ``dangling``, ``system_links``.
    """

    fabric: Fabric
    problems: list[Problem]
    format: str
    counts: dict[str, int | None] = field(default_factory=dict)
    extra: dict[str, Any] = field(default_factory=dict)
    """What has no column: each reader says what it puts there."""
    notes: list[str] = field(default_factory=list)
    """Lines on what softib does not use of a file that is in order; no problems."""
