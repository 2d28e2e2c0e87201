"""The report as data: what :mod:`softib.analysis.pipeline` gathers and every form of output shows."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from softib.diags.finding import Finding, Severity
from softib.fabric.formats.base import Problem
from softib.fabric.model import Fabric

if TYPE_CHECKING:
    import numpy as np

    from softib.analysis.engines import EngineRow
    from softib.analysis.prediction import Prediction
    from softib.analysis.traffic import Traffic
    from softib.diags.cabling_plan.plan_on_fabric import PlanComparison
    from softib.diags.structure.recognise import Structure
    from softib.routing.graph import SwitchGraph

__all__ = ["BringUpPart", "Counts", "Made", "Report", "RoutingPart"]


@dataclass(frozen=True)
class Counts:
    """The numbers of COUNTS.tsv: ``cas`` counts SHARP aggregation nodes too, ``links`` a record
    without a peer too.

    ``system_links`` are the links between systems of a ``.topo`` file, None elsewhere; what a
    format does not tell is None too.
    """

    switches: int | None
    cas: int | None
    sharp_nodes: int | None
    links: int | None
    system_links: int | None

    def to_json(self) -> dict[str, int | None]:
        """As ``--json`` prints it."""
        return vars(self).copy()


@dataclass
class BringUpPart:
    """What the subnet manager did: ``facts`` are (name, value) pairs for people, ``numbers`` the
    same for programs."""

    facts: list[tuple[str, str]]
    numbers: dict[str, Any]
    notes: list[str] = field(default_factory=list)


@dataclass
class RoutingPart:
    """Proof and quality of forwarding tables.

    ``tables`` is the engine that made the tables in the end, where ``engine`` fell back to it.
    ``credit_loop`` is None or the cycle as (node, portnum, vl). ``unreachable`` counts CA→CA and
    CA→switch pairs that do not arrive, ``loops`` those of them that run in circles,
    ``ports_without_lid`` cabled ports of channel adapters that have no LID (they are in no pair),
    ``switch_unreachable`` pairs of a switch and an end port that do not arrive (None = not judged).
    ``hops`` is {hops: CA→CA pairs}. ``more`` are further figures for ``--json``, ``facts`` the same
    for people.
    """

    engine: str
    origin: str
    deadlock_free: bool
    credit_loop: list[tuple[str, int, int]] | None
    unreachable: int
    loops: int
    hops: dict[int, int]
    switch_unreachable: int | None = None
    tables: str = ""
    ports_without_lid: int = 0
    notes: list[str] = field(default_factory=list)
    facts: list[tuple[str, str]] = field(default_factory=list)
    more: dict[str, Any] = field(default_factory=dict)

    @property
    def engine_text(self) -> str:
        """Engine, and where it fell back to."""
        other = self.tables and self.tables != self.engine
        return f"{self.engine}, which fell back to {self.tables}" if other else self.engine

    @property
    def good(self) -> bool:
        """Every host port has a LID, every pair arrives and no credit loop can form."""
        return self.deadlock_free and self.unreachable == 0 and self.ports_without_lid == 0


@dataclass(frozen=True)
class Made:
    """When (a text, for people), by which version and by which command a report was made."""

    when: str
    version: str
    command: str


@dataclass
class Report:
    """Everything about one source. ``recognised`` is its topology, ``structure`` the same as plain
    values; ``comparison`` is what became of each cable of the ``plan``.

    ``seconds`` is the wall time by step; ``notes`` say which step could not run, and why,
    ``source_notes`` what softib does not use of a file that is in order."""

    source: str
    format: str
    fabric: Fabric
    counts: Counts
    problems: list[Problem]
    findings: list[Finding]
    structure: dict[str, Any] | None = None
    recognised: Structure | None = None
    plan: str | None = None
    comparison: PlanComparison | None = None
    bring_up: BringUpPart | None = None
    routing: RoutingPart | None = None
    graph: SwitchGraph | None = None
    lft: np.ndarray | None = None
    prediction: Prediction | None = None
    traffic: Traffic | None = None
    engines: list[EngineRow] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    source_notes: list[str] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=dict)
    made: Made | None = None

    @property
    def name(self) -> str:
        """Name of the fabric, or its source."""
        return self.fabric.name or self.source

    def by_severity(self) -> dict[Severity, int]:
        """Findings by severity, worst first."""
        return {s: sum(f.severity == s for f in self.findings) for s in sorted(Severity, reverse=True)}

    @property
    def worst(self) -> Severity | None:
        """The worst severity of any finding."""
        return max((f.severity for f in self.findings), default=None)
