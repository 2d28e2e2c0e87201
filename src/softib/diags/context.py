"""Input of checks. A check is a function from a :class:`Context` to findings; see
:data:`softib.diags.check.CHECKS`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from softib.diags.structure.pattern import Pattern, learn_pattern
from softib.diags.structure.recognise import Structure, recognise_view
from softib.diags.structure.swaps import Suspects, find_suspects
from softib.diags.view import FabricView

__all__ = ["Context", "SubnetTables"]


@dataclass(frozen=True)
class SubnetTables:
    """Analysed forwarding tables of a subnet: their ``proof`` (``routing.verify.Proof``) and
    ``quality`` (``routing.quality.Balance``), and the ``graph`` that the rows of both belong to
    (None: rows are the fabric's switches)."""

    proof: Any = None
    quality: Any = None
    graph: Any = None


@dataclass
class Context:
    """Input of a check; expensive parts are computed on first use."""

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
        return learn_pattern(self.view, self.structure.labels)

    @cached_property
    def suspects(self) -> Suspects:
        """Cables that break the pattern."""
        return find_suspects(self.view, self.pattern, self.structure.rank)
