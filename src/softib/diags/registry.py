"""The registry of checks and what they share: each check is a function from a :class:`Context` to findings."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from softib.diags.finding import Finding, Severity
from softib.diags.pattern import Pattern, learn_pattern
from softib.diags.structure import Structure, recognise_view
from softib.diags.swaps import Suspects, find_suspects
from softib.diags.view import FabricView

__all__ = ["CHECKS", "CODES", "Code", "Context", "check_function", "finding"]


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
    """One stable finding code: severity, what it means, what to do. ``docs/findings.md`` documents each."""

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


def finding(
    name: str, where: Iterable[Any], message: str, evidence: dict[str, Any] | None = None, *,
    severity: Severity | None = None, advice: str | None = None,
) -> Finding:  # fmt: skip
    """A finding of a declared code."""
    declared = CODES[name]
    return Finding(
        name, declared.severity if severity is None else severity, tuple(where), message, evidence or {},
        declared.advice if advice is None else advice,
    )  # fmt: skip
