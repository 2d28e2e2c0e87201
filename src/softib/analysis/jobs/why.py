"""Explanation of a failed job: ranked causes and their evidence."""

from __future__ import annotations

from dataclasses import dataclass, field

from softib.diags.job_causes.ranking import Hypothesis
from softib.job_logs.events import SYMPTOMS, Event
from softib.plural import counted
from softib.result import HIDDEN, Result

__all__ = ["SHOWN_LOCATIONS", "CauseLocation", "HopReading", "RankedCause", "Why"]

SHOWN_CAUSES = 5
SHOWN_LOCATIONS = 4
LEAST = 0.005
"""Locations with a lower probability than this are not printed."""


@dataclass(frozen=True)
class CauseLocation(Result):
    """A possible location of a cause."""

    where: str
    """A cable, for example ``leaf-3[40] ↔ spine-2[3]``, or a node."""
    probability: float


@dataclass
class RankedCause(Result):
    """A cause with its probability."""

    code: str
    probability: float
    meaning: str
    where: list[CauseLocation]
    """The most probable locations; empty if the cause affects the whole job."""
    evidence: list[str]
    command: str
    """Next command or action."""
    reason: str
    """Reason for the prior probability, from the table of causes."""


@dataclass(frozen=True)
class HopReading(Result):
    """A cable of the path, with its readings in the window."""

    link: str
    link_state: str
    """``ok``, ``down``, ``fell and came back`` or ``not known``."""
    falls: int | None
    errors: int | None
    waits: bool | None


@dataclass
class Why(Result):
    """Ranked causes of a job's failure, and their evidence."""

    document = "why"

    files: list[str]
    lines: int
    symptom: str
    """The symptom that is nearest to the cause (docs/why.md lists all), or ``none``."""
    symptoms: list[Event]
    ends: list[str]
    """The ports in the log, as NODE[PORT]."""
    window: str
    """The time span that was analysed, and where it comes from."""
    path: list[HopReading]
    """Path of the first failed pair: from the forwarding tables if they were read, otherwise the
    cables common to all shortest paths."""
    cables: int
    """Number of cables that packets between the ends may cross."""
    causes: list[RankedCause]
    notes: list[str]
    """Input that is missing or inconsistent."""
    jobs: list[str]
    """Slurm job IDs in the logs."""
    hypotheses: list[Hypothesis] = field(default_factory=list, metadata=HIDDEN)

    def __repr__(self) -> str:
        first = self.causes[0] if self.causes else None
        return f"<Why: {first.code} {first.probability:.0%}>" if first else "<Why: nothing read>"

    def text_lines(self) -> list[str]:
        """Return the ranking as text."""
        out = [f"{', '.join(self.files)}: {counted(self.lines, 'line')}"]
        for event in self.symptoms[:SHOWN_CAUSES]:
            ends = f" ({event.local} → {event.remote})" if event.local or event.remote else ""
            read = f"{event.file}:{event.line}, {counted(event.count, 'time')}" if event.line else event.text
            out.append(f"  {SYMPTOMS[event.symptom]}{ends}, {event.reader}, {read}")
        if len(self.symptoms) > SHOWN_CAUSES:
            out.append(f"  and {len(self.symptoms) - SHOWN_CAUSES} more kinds of line or pairs (--json has all)")
        if self.ends:
            rest = f" and {len(self.ends) - 8} more" if len(self.ends) > 8 else ""
            out.append(f"ends: {', '.join(self.ends[:8])}{rest}")
        if self.window:
            out.append(f"time: {self.window}")
        for hop in self.path:
            counts = [
                counted(hop.falls, "fall") if hop.falls else "",
                counted(hop.errors, "error") if hop.errors else "",
                "waits" if hop.waits else "",
            ]
            out.append(f"  {hop.link}: {', '.join([hop.link_state, *(c for c in counts if c)])}")
        for number, cause in enumerate((c for c in self.causes[:SHOWN_CAUSES]), 1):
            where = "; ".join(f"{p.where} ({p.probability:.0%})" for p in cause.where if p.probability >= LEAST)
            out.append(
                f"{number}. {cause.probability:.0%} {cause.code}: {cause.meaning}{': ' + where if where else ''}"
            )
            out += [f"     {line}" for line in cause.evidence]
            out.append(f"     next: {cause.command}")
        return out + [f"note: {note}" for note in self.notes]
