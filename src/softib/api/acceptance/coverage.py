"""The result of a cover run: proof for each direction of each cable."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import Literal

from softib.analysis.acceptance.cover.coverage import (
    CoverRoundCounts,
    DirectionLoss,
    TierCoverage,
    UnexplainedFlow,
    UnprovenDirection,
)
from softib.api.acceptance.collectives import CollectiveRun
from softib.api.arguments import Suggests
from softib.api.findings import Findings
from softib.api.table import Table
from softib.diags.acceptance.measurements import PairFailure
from softib.diags.finding import Finding
from softib.plural import counted
from softib.result import HIDDEN, Result, columns, key

__all__ = ["CoverComparison", "Coverage", "InputHash"]


@dataclass(frozen=True)
class InputHash(Result):
    """An input of the run, with its hash."""

    name: str
    sha256: str


@dataclass(frozen=True)
class CoverComparison(Result):
    """An earlier run's document (``--compare``) compared with this run."""

    source: str
    proven: int
    """Number of directions that the earlier run proved."""
    directions: int
    no_longer_proven: list[str]
    newly_proven: list[str]
    newly_slow: list[str]
    no_longer_slow: list[str]


@dataclass(frozen=True)
class Coverage(Suggests, Result):
    """Result of a cover run."""

    document = "accept-cover"

    source: str
    launcher: Literal["local", "ssh", "srun", "virtual"]
    """``virtual``: the run was in virtual time, without hosts."""
    routing: Literal["tables", "adaptive"]
    share: float
    """Share of its rate at which a direction counts as proven."""
    hosts: int
    ports: int
    """Number of ports that send and receive."""
    directions: int
    """Number of directions of all live cables: two per cable."""
    planned: int
    """Number of directions that the schedule loads to at least ``share`` of their rate."""
    proven: int
    """Number of directions whose counters showed that rate."""
    tiers: list[TierCoverage]
    rounds: list[CoverRoundCounts]
    slow: list[DirectionLoss]
    unproven: list[UnprovenDirection]
    """Each unproven direction, with its reason."""
    unexplained: list[UnexplainedFlow]
    failures: list[PairFailure]
    judged: Findings = field(metadata=key("findings", json=lambda f: [one.to_json() for one in f], type=list[Finding]))
    seconds: float
    """Duration of each round in seconds, during which counters were watched (virtual time if there are no hosts)."""
    versions: dict[str, str]
    inputs: list[InputHash]
    made: str
    """Time of the run in UTC."""
    collectives: list[CollectiveRun] = field(default_factory=list)
    """Benchmarks of collectives that ran after the rounds."""
    compared: CoverComparison | None = field(default=None, metadata=key(optional=True))
    command: str = field(default="", metadata=HIDDEN)

    @property
    def findings(self) -> Findings:
        """Slow directions, links that trained at a low rate, failed hosts, and unproven directions."""
        return self.judged

    @property
    def good(self) -> bool:
        """Return whether there is no warning or error."""
        return self.judged.good

    @property
    def certificate(self) -> str:
        """The run as one self-contained HTML page: its certificate."""
        from softib.render.certificate import certificate_html

        return certificate_html(self)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the certificate. Raises :class:`InputError` if that fails."""
        from softib.whole_files import write_text

        write_text(path, self.certificate)

    def table(self) -> Table:
        """Return one row per tier: directions, planned, proven."""
        return Table(columns(self.tiers, TierCoverage))

    def lines(self) -> list[str]:
        """Return the summary as text lines."""
        confirming = sum(r.confirms for r in self.rounds)
        how = "in virtual time, no cable was measured" if self.launcher == "virtual" else "by the counters of the ports"
        more = f", {confirming} of them to distinguish slow directions" if confirming else ""
        out = [
            f"{counted(len(self.rounds), 'round')}{more}; {self.planned:,} of {counted(self.directions, 'direction')} "
            f"planned, {self.proven:,} proven ({_percent(self.proven, self.directions)}) {how}"
        ]
        out += [f"  {t.tier}: {t.proven:,} of {t.directions:,} proven" for t in self.tiers]
        reasons: dict[str, int] = {}
        for one in self.unproven:
            reasons[one.why] = reasons.get(one.why, 0) + 1
        out += [f"  not proven, {n:,}: {why}" for why, n in reasons.items()]
        out += map(str, self.collectives)
        if self.compared is not None:
            c = self.compared
            out.append(
                f"compared with {c.source}: {len(c.no_longer_proven):,} no longer proven, {len(c.newly_proven):,} "
                f"newly proven, {len(c.newly_slow):,} newly slow, {len(c.no_longer_slow):,} no longer slow"
            )
        return out

    def __repr__(self) -> str:
        return f"<Coverage of {self.source!r}: {self.proven:,} of {counted(self.directions, 'direction')} proven>"

    def _repr_html_(self) -> str:
        return self.table()._repr_html_() + self.judged._repr_html_()


def _percent(part: int, of: int) -> str:
    share = part / of if of else 0.0
    return "100 %" if part == of else f"{min(100 * share, 99.99):.2f} %"
