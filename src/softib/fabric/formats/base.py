"""What readers share: problems with file, line and reason, and the result that keeps every readable
record."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from softib.fabric.model import Fabric
from softib.foreign_text import shown
from softib.input_files import shown_name
from softib.result import HIDDEN, Result

__all__ = ["Problem", "Problems", "ReadResult", "alike"]

_PARTICULAR = re.compile(r"'[^']*'|\"[^\"]*\"|0x[0-9a-fA-F]+|\d+")
"""What differs between records that are wrong in the same way: quoted text and numbers."""


@dataclass(frozen=True)
class Problem(Result):
    """A record that could not be read."""

    file: str
    line: int
    """From 1; 0 for the file as a whole."""
    reason: str
    code: str = field(default="", metadata=HIDDEN)
    """The finding that a check makes of it; empty: none does."""
    peer: str = field(default="", metadata=HIDDEN)
    """The node that it names and the file lacks."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "reason", shown(self.reason))

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.reason}" if self.line else f"{self.file}: {self.reason}"


def alike(problems: Iterable[Problem]) -> list[list[Problem]]:
    """Problems of one file that are wrong in the same way, together; both levels in the order
    found."""
    groups: dict[tuple[str, str], list[Problem]] = {}
    for problem in problems:
        groups.setdefault((problem.file, _PARTICULAR.sub("…", problem.reason)), []).append(problem)
    return list(groups.values())


class Problems(list[Problem]):
    """The problems of one file, in the order found."""

    def __init__(self, file: str):
        super().__init__()
        self.file = shown_name(file)

    def add(self, line: int, reason: str, code: str = "", peer: str = "") -> None:
        """Record that ``line`` is bad because of ``reason``."""
        self.append(Problem(self.file, line, reason, code, peer))


@dataclass
class ReadResult:
    """A fabric, what was wrong in the file, and the reader that recognised it.

    ``counts`` are the numbers the *file* holds, as COUNTS.tsv defines them: ``switches``, ``cas``
    (SHARP aggregation nodes counted too), ``sharp_nodes``, ``links`` (a dangling record counts),
    ``listed_both_ends``, ``self_loops``, ``dangling``, ``system_links``.
    """

    fabric: Fabric
    problems: list[Problem]
    format: str
    counts: dict[str, int | None] = field(default_factory=dict)
    extra: dict[str, Any] = field(default_factory=dict)
    """What has no column: each reader says what it puts there."""
    notes: list[str] = field(default_factory=list)
    """Lines on what softib does not use of a file that is in order; no problems."""
