"""The registry of checks and what they share: each check is a function from a :class:`Context` to
findings."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from softib.diags.finding import Finding, Severity
from softib.diags.structure.pattern import Pattern, learn_pattern
from softib.diags.structure.recognise import Structure, recognise_view
from softib.diags.structure.swaps import Suspects, find_suspects
from softib.diags.view import FabricView

__all__ = ["CHECKS", "CODES", "MANY", "Code", "Context", "Each", "check_function", "each_or_one", "few", "finding"]


@dataclass
class Context:
    """What a check may look at; the expensive parts are computed when first used."""

    view: FabricView
    problems: Sequence[Any] = ()
    proof: Any = None
    quality: Any = None
    graph: Any = None
    sms: Sequence[dict[str, Any]] | None = None
    remedy: Any = None
    seen: dict[str, Any] = field(default_factory=dict)

    @cached_property
    def structure(self) -> Structure:
        """The topology recognised."""
        return recognise_view(self.view)

    @cached_property
    def pattern(self) -> Pattern:
        """The cabling pattern learned."""
        return learn_pattern(self.view)

    @cached_property
    def suspects(self) -> Suspects:
        """Cables that break the pattern."""
        return find_suspects(self.view, self.pattern, self.structure.rank)


@dataclass(frozen=True)
class Code:
    """One stable finding code: severity, what it means, what to do. ``docs/findings.md`` documents
    each."""

    name: str
    severity: Severity
    meaning: str
    advice: str


CODES: dict[str, Code] = {}
CHECKS: dict[str, Callable[[Context], Iterable[Finding]]] = {}


def code(name: str, severity: Severity, meaning: str, advice: str) -> str:
    """Declare a finding code; returns its name."""
    CODES[name] = Code(name, severity, meaning, advice)
    return name


def check_function(function: Callable[[Context], Iterable[Finding]]) -> Callable[[Context], Iterable[Finding]]:
    """Decorator: register a check under its name; checks run in order of registration."""
    CHECKS[function.__name__] = function
    return function


MANY = 8
"""From so many equal findings on, one finding: its message has the count, its places and evidence
have all of them."""

Each = tuple[Sequence[Any], str, dict[str, Any]]
"""Places, message and evidence of one finding of several."""


def each_or_one(
    name: str,
    several: Sequence[Each],
    what: str,
    evidence: dict[str, Any] | None = None,
    *,
    most: int = MANY,
    severity: Severity | None = None,
    count: str = "count",
) -> Iterator[Finding]:
    """A finding for each of ``several``; of more than ``most`` one that is ``what`` (a text with
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
        f"{what}; first: {several[0][1]}",
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
