"""The report as data: :mod:`softib.analysis.pipeline` fills it, and every output format shows it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from softib.diags.finding import Finding, Severity
from softib.fabric.formats.base import Problem
from softib.fabric.model import Fabric
from softib.plural import counted
from softib.result import HIDDEN, Result, key
from softib.routing.proof.verify import Pairs
from softib.sm.sweep.report import SweepCounts, SweepReport

if TYPE_CHECKING:
    import numpy as np

    from softib.analysis.engines import EngineRow
    from softib.analysis.prediction import Prediction
    from softib.analysis.traffic import Traffic
    from softib.diags.cabling_plan.plan_on_fabric import PlanComparison
    from softib.diags.structure.recognise import Structure, StructureSummary
    from softib.routing.graph import SwitchGraph

__all__ = [
    "AllPairs",
    "BringUpPart",
    "CheckResult",
    "Checked",
    "Counts",
    "JudgedTables",
    "LostPair",
    "Made",
    "OtherSubnet",
    "PathSpread",
    "Report",
    "Route",
    "RoutingPart",
    "SwitchRoutes",
    "TierLoad",
]


@dataclass(frozen=True)
class Counts(Result):
    """A fabric's name, and the number of its devices and links. A number is null if the source does not state it."""

    name: str
    switches: int | None
    cas: int | None
    """Number of channel adapters, including SHARP aggregation nodes."""
    sharp_nodes: int | None
    links: int | None
    """Number of cables, including those with one unknown end."""
    system_links: int | None
    """Cables between systems of a .topo file."""


@dataclass
class BringUpPart(Result):
    """Actions of the subnet manager."""

    node: str
    """The port on which it ran."""
    engine: str
    sets: int
    """Number of requests that change something."""
    unreached: int
    """Number of nodes that have no path to the manager."""
    sweep: SweepReport = field(metadata=key(flat=SweepCounts))
    notes: list[str]
    problems: list[str]
    master: str = field(default="", metadata=HIDDEN)
    """The node of the manager that the source lists."""
    in_its_place: bool = field(default=False, metadata=HIDDEN)
    """True if it ran on the master's node."""

    def facts(self) -> list[tuple[str, str]]:
        """Return pairs of label and text for display."""
        sweep = self.sweep
        nodes = (counted(sweep.switches, "switch"), counted(sweep.cas, "channel adapter"), counted(sweep.links, "link"))
        return [
            *([("Master in the source", self.master)] if self.master else []),
            ("Ours ran on", f"{self.node}, in the master's place" if self.in_its_place else self.node),
            ("Found", ", ".join(nodes)),
            ("Addresses given (LIDs)", f"{sweep.lids:,}"),
            ("MADs", f"{sweep.sent:,}, {sweep.sets:,} of them writes"),
            *([("MADs never answered", f"{sweep.timeouts:,}")] if sweep.timeouts else []),
        ]


Step = tuple[str, int, int]
"""Switch, egress port, virtual lane."""


@dataclass(frozen=True)
class AllPairs(Result):
    """Numbers of pairs by type of their ends: channel adapters, and port 0 of switches."""

    ca_ca: Pairs
    ca_switch: Pairs
    switch_switch: Pairs
    switch_ca: Pairs


@dataclass(frozen=True)
class TierLoad(Result):
    """Paths of all-to-all traffic on the links between two tiers."""

    low: int
    high: int
    links: int
    least: int
    mean: float
    most: int
    imbalance: float
    """Largest number of paths on a link, divided by the mean."""
    worst: list[tuple[str, int, int]]
    """The links with the most paths: (switch, port, paths)."""


@dataclass(frozen=True)
class PathSpread(Result):
    """Balance of paths of all-to-all traffic over links."""

    paths_most: int
    paths_mean: float
    unused_links: int
    tiers: list[TierLoad]
    directions: int = field(metadata=HIDDEN)
    """Number of directions of all links between switches."""


@dataclass(frozen=True)
class LostPair(Result):
    """A pair whose packets do not arrive, and what happens to them."""

    kind: str
    switch: str
    to: str
    lid: int
    what: str


@dataclass(frozen=True)
class SwitchRoutes(Result):
    """Routes from every switch to every LID of other end ports."""

    total: int
    arrived: int

    def __str__(self) -> str:
        return f"{self.arrived:,} of {self.total:,} arrive"


@dataclass(frozen=True)
class OtherSubnet(Result):
    """Tables of a further subnet of a fabric; the document itself describes the main one."""

    subnet: str
    """The subnet, identified by the port of its manager or by another port."""
    host_ports: int
    unreachable: int
    ports_without_lid: int
    deadlock_free: bool

    def __str__(self) -> str:
        lost = "every pair arrives" if not self.unreachable else counted(self.unreachable, "lost pair")
        loop = "no credit loop" if self.deadlock_free else "a credit loop"
        return f"{counted(self.host_ports, 'host port')}; {lost}, {loop}"


@dataclass
class RoutingPart(Result):
    """Forwarding tables, their proof and quality."""

    engine: str
    deadlock_free: bool
    """True if no credit loop can form."""
    credit_loop: list[Step] | None
    """A shortest credit loop."""
    unreachable: int
    """Number of pairs (a CA, another CA or switch) without a path."""
    hops: dict[int, int] = field(metadata=key(json=lambda hops: dict(sorted(hops.items())), type=dict[str, int]))
    """Number of switches that a packet passes → number of pairs."""
    tables: str
    """The engine that computed the tables, if ``engine`` fell back to it."""
    loops: int
    """Number of pairs in ``unreachable`` whose packets loop."""
    ports_without_lid: int
    """Cabled ports of channel adapters that have no LID; they are in no pair."""
    switch_unreachable: int | None
    """Number of pairs (the switch itself, a CA or another switch) without a path."""
    origin: str
    """Where the tables come from."""
    notes: list[str]
    pairs: AllPairs
    hops_ca: dict[int, int] = field(metadata=key(json=lambda hops: dict(sorted(hops.items())), type=dict[str, int]))
    """Number of switches that a packet passes → number of pairs of CAs."""
    channels: int
    dependencies: int
    vls: int
    """Number of virtual lanes in use."""
    sls_assumed: str
    """Reason why the paths' SLs are unknown; empty if they are known."""
    answer_loop: list[Step] | None
    """A credit loop that arises if answers use the SL of their request, as in connections of the connection manager."""
    switch_loop: list[Step] | None
    failures: list[LostPair]
    balance: PathSpread
    switch_routes: SwitchRoutes | None = field(default=None, metadata=key(optional=True))
    """Only for tables that were read from a file."""
    other_subnets: list[OtherSubnet] | None = field(default=None, metadata=key(optional=True))
    """Only for a fabric with several subnets that have separate tables."""

    @property
    def engine_text(self) -> str:
        """Return the engine, and the engine that it fell back to."""
        return self.engine if self.tables == self.engine else f"{self.engine}, which fell back to {self.tables}"

    @property
    def good(self) -> bool:
        """Return whether every host port has a LID, packets of every pair arrive, and no credit loop can form."""
        return all(
            judged.deadlock_free and judged.unreachable == 0 and judged.ports_without_lid == 0
            for judged in (self, *(self.other_subnets or ()))
        )

    def facts(self) -> list[tuple[str, str]]:
        """Return pairs of label and text for display, including the proof."""
        spread = self.balance
        worst = max((t for t in spread.tiers if t.mean), key=lambda t: t.imbalance, default=None)
        uneven = "" if worst is None else f"busiest {worst.imbalance:.2f} × the mean of links that do the same work"
        unused = f"{spread.unused_links:,} of {spread.directions:,} directions" if spread.unused_links else ""
        lines = {
            "Virtual lanes in use": str(self.vls),
            "Channels and their dependencies": f"{self.channels:,} and {self.dependencies:,}",
            "All-to-all paths on links": uneven,
            "Switch links that no path uses": unused,
            "Routes from a switch to an address": str(self.switch_routes or ""),
            **{f"Subnet {other.subnet}": str(other) for other in self.other_subnets or ()},
        }
        return [(label, line) for label, line in lines.items() if line]


@dataclass
class Route(Result):
    """Forwarding tables and their proof, printed by ``softib route``."""

    document = "route"

    part: RoutingPart = field(metadata=key(flat=RoutingPart))
    problems: Sequence[Problem]


@dataclass(frozen=True)
class Made:
    """The origin of a report: time (as text), version of softib, and command."""

    when: str
    version: str
    command: str


@dataclass(frozen=True)
class JudgedTables(Result):
    """The forwarding tables to which findings about routes refer."""

    engine: str
    tables: str
    """The engine that computed them, if ``engine`` fell back to it."""
    origin: str


@dataclass
class Checked(Result):
    """Common part of a check and a report for one source."""

    source: str
    format: str
    counts: Counts = field(metadata=key("fabric"))
    findings: list[Finding]
    problems: list[Problem]
    structure: StructureSummary | None = None
    notes: list[str] = field(default_factory=list)
    """Skipped steps, with reasons."""
    source_notes: list[str] = field(default_factory=list)
    """Notes on valid data in the source that softib does not use."""
    comparison: PlanComparison | None = field(default=None, metadata=key("plan"))
    """Result for each cable of the plan."""


@dataclass
class Report(Checked):
    """All results for one source, printed by ``softib report``."""

    document = "report"

    bring_up: BringUpPart | None = None
    """Null if the tables existed before."""
    routing: RoutingPart | None = None
    prediction: Prediction | None = None
    traffic: Traffic | None = None
    engines: list[EngineRow] = field(default_factory=list)
    seconds: dict[str, float] = field(
        default_factory=dict, metadata=key(json=lambda seconds: {step: round(s, 3) for step, s in seconds.items()})
    )
    """Wall time of each step."""
    fabric: Fabric = field(kw_only=True, metadata=HIDDEN)
    """The checked fabric."""
    recognised: Structure | None = field(default=None, metadata=HIDDEN)
    """The topology of the fabric; ``structure`` summarises it."""
    graph: SwitchGraph | None = field(default=None, metadata=HIDDEN)
    lft: np.ndarray | None = field(default=None, metadata=HIDDEN)
    made: Made | None = field(default=None, metadata=HIDDEN)

    @property
    def name(self) -> str:
        """The name of the fabric, or its source if it has no name."""
        return self.fabric.name or self.source

    def by_severity(self) -> dict[Severity, int]:
        """Return the number of findings by severity, worst first."""
        return {s: sum(f.severity == s for f in self.findings) for s in sorted(Severity, reverse=True)}


@dataclass
class CheckResult(Result):
    """Result of a check, printed by ``softib check``."""

    document = "check"

    checked: Checked = field(metadata=key(flat=Checked))
    routing: JudgedTables | None

    @classmethod
    def of(cls, report: Report) -> CheckResult:
        """Return the check part of ``report``."""
        r = report.routing
        return cls(report, None if r is None else JudgedTables(r.engine, r.tables, r.origin))
