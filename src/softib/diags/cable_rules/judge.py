"""All rules over observations: one finding a cable, one for what several cables have in common, and
what to do."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

# Importing a rule registers it; they run in this order, and of several findings about one cable the
# first of the worst leads.
from softib.diags.cable_rules import (  # noqa: F401
    bit_errors,
    congestion,
    fec_histogram,
    fec_margin,
    flow_control,
    job_traffic,
    link_falls,
    management_drops,
    module_alarms,
    packet_errors,
    partitions,
    stuck_counters,
    temperature,
)
from softib.diags.cable_rules.case import RULES, Case, Suspicion
from softib.diags.cable_rules.common_cause import common_causes
from softib.diags.cable_rules.isolation import with_isolation
from softib.diags.cable_rules.known_counters import with_known
from softib.diags.cable_rules.tables import ForwardingTables
from softib.diags.cable_rules.thresholds import load_thresholds
from softib.diags.finding import Finding
from softib.diags.observations import Observations

__all__ = ["JobsOn", "judge", "with_jobs"]

JobsOn = Callable[[int, int], Sequence[str]]
"""(NodeGUID, portnum) -> names of the jobs whose traffic crosses the cable there."""
SHOWN = 3
"""Jobs that a message names; the evidence has all."""
LEADS = (
    "module-tx-power",
    "module-rx-power",
    "link-flaps",
    "link-packet-errors",
    "link-bit-errors",
    "link-pre-fec-errors",
    "fec-margin",
    "flow-control-errors",
    "counter-overflow",
)
"""Of findings of one severity about one cable, the first of these leads: the rest follows from it.
"""


def judge(
    observations: Observations,
    tables: ForwardingTables | None = None,
    thresholds: str | os.PathLike[str] | Mapping[str, Any] | None = None,
    jobs_on: JobsOn | None = None,
) -> list[Finding]:
    """What the counters say, the most severe and the surest first.

    Raises :class:`UnknownName`, :class:`InputError` and :class:`UnreadableFile` for ``thresholds``
    that cannot be.
    """
    case = Case(observations, load_thresholds(thresholds), tables)
    found = [s for function in RULES.values() for s in function(case)] if case.n and observations.intervals else []
    found = [with_known(case, s) for s in _one_a_cable(case, found)]
    grouped: list[Suspicion] = []
    explained: dict[int, Finding] = {}
    for group, cables in common_causes(case, found):
        grouped.append(group)
        explained |= dict.fromkeys(cables, group.finding)
    found = [
        _jobs(s, case, jobs_on)
        for s in with_isolation(case, [*grouped, *(s for s in found if not _part(case, s, explained))])
    ]
    found = [replace(s, finding=_sure(s)) for s in found]
    return [s.finding for s in sorted(found, key=lambda s: (-s.finding.severity, -round(s.confidence, 6)))]


def _part(case: Case, s: Suspicion, explained: Mapping[int, Finding]) -> bool:
    """A cable's finding that the finding of its group lists."""
    return s.cable and s.port >= 0 and int(case.cable[s.port]) in explained


def _one_a_cable(case: Case, found: list[Suspicion]) -> list[Suspicion]:
    """Of several suspicions against one cable the leading one, with the others in its evidence."""
    by_cable: dict[int, list[Suspicion]] = {}
    out = []
    for s in found:
        if s.cable and s.port >= 0:
            by_cable.setdefault(int(case.cable[s.port]), []).append(s)
        else:
            out.append(s)
    for several in by_cable.values():
        first = min(several, key=lambda s: (-s.finding.severity, _rank(s.finding.code)))
        also = [
            {"code": s.finding.code, "message": s.finding.message, "evidence": s.finding.evidence}
            for s in several
            if s is not first
        ]
        if also:
            first = replace(first, finding=replace(first.finding, evidence={**first.finding.evidence, "also": also}))
        out.append(first)
    return out


def _rank(code: str) -> int:
    return LEADS.index(code) if code in LEADS else len(LEADS)


def _jobs(s: Suspicion, case: Case, jobs_on: JobsOn | None) -> Suspicion:
    if jobs_on is None or s.port < 0:
        return s
    return replace(s, finding=with_jobs(s.finding, jobs_on))


def with_jobs(found: Finding, jobs_on: JobsOn) -> Finding:
    """The same finding with the jobs that cross its cables (a node: any of its ports that is named)
    in message and evidence."""
    names = list(dict.fromkeys(n for w in found.where if w.portnum is not None for n in jobs_on(w.guid, w.portnum)))
    text = (
        f"{found.message}; crossed by {', '.join(names[:SHOWN])}{' …' if len(names) > SHOWN else ''}"
        if names
        else found.message
    )
    return replace(found, message=text, evidence={**found.evidence, "jobs": names})


def _sure(s: Suspicion) -> Finding:
    return replace(s.finding, evidence={**s.finding.evidence, "confidence": round(min(max(s.confidence, 0.0), 1.0), 6)})
