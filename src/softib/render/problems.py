"""Text about records that could not be read. Many records with the same error share one line."""

from __future__ import annotations

from collections.abc import Iterable

from softib.fabric.formats.base import Problem, alike
from softib.plural import counted

__all__ = ["SHOWN_ALIKE", "problem_lines"]

SHOWN_ALIKE = 3
"""Maximum number of records with the same error that have a line each."""


def problem_lines(problems: Iterable[Problem], limit: int) -> list[str]:
    """Return at most ``limit`` lines, and one with the number of further records."""
    lines = [line for group in alike(problems) for line in _of_a_kind(group)]
    hidden = sum(n for _, n in lines[limit:])
    rest = [f"… and {counted(hidden, 'more record')} with problems (--json lists all)"] if hidden else []
    return [text for text, _ in lines[:limit]] + rest


def _of_a_kind(group: list[Problem]) -> list[tuple[str, int]]:
    """Return lines, each with the number of records that it covers."""
    if len(group) <= SHOWN_ALIKE:
        return [(str(problem), 1) for problem in group]
    return [(f"{group[0]} (and {len(group) - 1} like it, to line {group[-1].line})", len(group))]
