"""Runs all rules over observations. Returns one finding per bad cable, or one for several cables with a common cause,
and advises which cables to isolate.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from softib.components import components
from softib.diags.cable_rules.bit_errors import stated_ratios, symbol_errors
from softib.diags.cable_rules.case import Case, Suspicion
from softib.diags.cable_rules.common_cause import common_causes
from softib.diags.cable_rules.congestion import congestion_roots
from softib.diags.cable_rules.fec_margin import fec_histogram, fec_margin
from softib.diags.cable_rules.fec_trend import fec_trend
from softib.diags.cable_rules.link_falls import LINK_FLAPS, link_falls
from softib.diags.cable_rules.link_rates import slow_links
from softib.diags.cable_rules.module_alarms import module_alarms, module_temperatures
from softib.diags.cable_rules.packet_errors import constraint_errors, flow_control, overruns, packet_errors, vl15_drops
from softib.diags.cable_rules.stuck_counters import full_counters, stuck_counters, unknown_counters, with_known
from softib.diags.cable_rules.thresholds import load_thresholds
from softib.diags.cable_rules.warm_racks import warm_racks
from softib.diags.finding import Finding, Severity
from softib.diags.observations import ForwardingTables, Observations
from softib.plural import counted

__all__ = ["JobsOn", "judge", "with_isolation", "with_jobs"]


RULES = (
    module_temperatures,
    module_alarms,
    warm_racks,
    symbol_errors,
    stated_ratios,
    congestion_roots,
    fec_histogram,
    fec_margin,
    fec_trend,
    slow_links,
    flow_control,
    link_falls,
    vl15_drops,
    packet_errors,
    overruns,
    constraint_errors,
    full_counters,
    stuck_counters,
    unknown_counters,
)
"""The rules in the order in which they run. Each takes a :class:`~softib.diags.cable_rules.case.Case` and returns
suspicions. If several suspicions of the same severity are about one cable, the first of them is the finding and the
others become its evidence.
"""

ISOLATED_CODES = frozenset(
    {"link-bit-errors", "link-pre-fec-errors", "link-packet-errors", "link-flaps", "flow-control-errors"}
)
"""Codes of findings that permit the isolation of the cable. The cable of a slow host is not isolated."""


@dataclass
class _Cost:
    """Cost of isolating a cable in the observed fabric, from which the already isolated cables are removed."""

    case: Case

    def __post_init__(self) -> None:
        peer = np.asarray(self.case.ports.peer, np.int64)
        self.rows = self.case.cables[peer[self.case.cables] >= 0]
        self.a, self.b = self.case.node[self.rows], self.case.node[peer[self.rows]]
        self.kept = np.ones(len(self.rows), bool)
        self.nodes = int(self.case.node.max(initial=-1)) + 1
        self.between = ~self.case.to_host[self.rows]
        self.before = self._cut_off()

    def _cut_off(self) -> int:
        """Return the number of nodes outside the largest connected part."""
        part = components(self.nodes, self.a[self.kept], self.b[self.kept])
        return self.nodes - int(np.bincount(part, minlength=1).max())

    def without(self, cable: int) -> dict[str, Any] | None:
        """Remove ``cable`` and return the cost of that. Return None if the two nodes of the cable are not known."""
        at = np.flatnonzero(self.rows == cable)
        if not len(at):
            return None
        i = int(at[0])
        self.kept[i] = False
        now = self._cut_off()
        cost: dict[str, Any] = {"disconnected_nodes": now - self.before}
        self.before = now
        if self.between[i]:
            left = {}
            for node, port in ((self.a[i], self.rows[i]), (self.b[i], self.case.ports.peer[self.rows[i]])):
                of_node = self.between & ((self.a == node) | (self.b == node))
                rate = self.case.best_rate[self.rows]
                whole = float(rate[of_node].sum())
                left[str(self.case.node_location(int(port)))] = (
                    round(float(rate[of_node & self.kept].sum()) / whole, 4) if whole else 0.0
                )
            cost["capacity_between_switches_left"] = left
        return cost


def with_isolation(case: Case, suspicions: list[Suspicion]) -> list[Suspicion]:
    """Add ``isolate`` to the evidence of suspicions against cables: whether to isolate the cable now, and the cost. At
    most 10 cables, or 0.5 % of all cables if that is more, are isolated at once: errors before warnings, the most
    certain first. The cost of a cable assumes that the cables before it are isolated.
    """
    most = int(max(case.limits["isolations_at_least"], math.ceil(case.limits["isolations_share"] * len(case.cables))))
    order = sorted(
        range(len(suspicions)), key=lambda i: (-suspicions[i].finding.severity, -suspicions[i].confidence, i)
    )
    cost, out, used = _Cost(case), list(suspicions), 0
    for i in order:
        s = suspicions[i]
        if s.port < 0 or s.finding.code not in ISOLATED_CODES or s.finding.severity < Severity.WARNING:
            continue
        if (
            s.finding.code == LINK_FLAPS
            and sum(s.finding.evidence["falls"].values()) <= 2
            and not s.finding.evidence["down"]
        ):
            continue  # one link failure, counted by both ends
        if used >= most:
            isolate: dict[str, Any] = {"now": False, "why": f"at most {counted(most, 'cable')} at once"}
        else:
            price = cost.without(int(case.cable[s.port]))
            isolate = {"now": price is not None, **(price or {"why": "the other end is not known"})}
            used += price is not None
        out[i] = replace(s, finding=replace(s.finding, evidence={**s.finding.evidence, "isolate": isolate}))
    return out


JobsOn = Callable[[int, int], Sequence[str]]
"""(NodeGUID, portnum) -> names of the jobs whose traffic crosses the cable there."""
SHOWN = 3
"""Maximum number of jobs in a message. The evidence names all jobs."""
LEADS = (
    "module-tx-power",
    "module-rx-power",
    "link-narrow",
    "link-slow",
    "link-flaps",
    "link-packet-errors",
    "link-bit-errors",
    "link-pre-fec-errors",
    "fec-margin",
    "flow-control-errors",
    "counter-overflow",
)
"""Order of codes for findings of one severity about one cable: the first is reported, because the others are its
consequences.
"""


def judge(
    observations: Observations,
    tables: ForwardingTables | None = None,
    thresholds: str | os.PathLike[str] | Mapping[str, Any] | None = None,
    jobs_on: JobsOn | None = None,
) -> list[Finding]:
    """Return the findings from ``observations``, the most severe first, and among these the most certain first. Raises
    :class:`UnknownName`, :class:`InputError` and :class:`UnreadableFile` for invalid ``thresholds``.
    """
    case = Case(observations, load_thresholds(thresholds), tables)
    suspicions = [s for function in RULES for s in function(case)] if case.n and observations.intervals else []
    suspicions = [with_known(case, s) for s in _one_a_cable(case, suspicions)]
    grouped: list[Suspicion] = []
    explained: dict[int, Finding] = {}
    for group, cables in common_causes(case, suspicions):
        grouped.append(group)
        explained |= dict.fromkeys(cables, group.finding)
    suspicions = [
        _jobs(s, case, jobs_on)
        for s in with_isolation(case, [*grouped, *(s for s in suspicions if not _part(case, s, explained))])
    ]
    suspicions = [replace(s, finding=_sure(s)) for s in suspicions]
    return [s.finding for s in sorted(suspicions, key=lambda s: (-s.finding.severity, -round(s.confidence, 6)))]


def _part(case: Case, s: Suspicion, explained: Mapping[int, Finding]) -> bool:
    """Return whether a finding about a common cause lists the cable of this suspicion."""
    return s.cable and s.port >= 0 and int(case.cable[s.port]) in explained


def _one_a_cable(case: Case, suspicions: list[Suspicion]) -> list[Suspicion]:
    """Return one suspicion per cable: the leading one, with the others in its evidence."""
    by_cable: dict[int, list[Suspicion]] = {}
    out = []
    for s in suspicions:
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
            codes = ", ".join(dict.fromkeys(str(a["code"]) for a in also))
            first = replace(
                first,
                finding=replace(
                    first.finding,
                    message=f"{first.finding.message}; also {codes}",
                    evidence={**first.finding.evidence, "also": also},
                ),
            )
        out.append(first)
    return out


def _rank(code: str) -> int:
    return LEADS.index(code) if code in LEADS else len(LEADS)


def _jobs(s: Suspicion, case: Case, jobs_on: JobsOn | None) -> Suspicion:
    if jobs_on is None or s.port < 0:
        return s
    return replace(s, finding=with_jobs(s.finding, jobs_on))


def with_jobs(finding: Finding, jobs_on: JobsOn) -> Finding:
    """Return the finding with jobs added to message and evidence: those whose traffic crosses the finding's cables, or
    a port that it names.
    """
    names = list(dict.fromkeys(n for w in finding.where if w.portnum is not None for n in jobs_on(w.guid, w.portnum)))
    text = (
        f"{finding.message}; crossed by {', '.join(names[:SHOWN])}{' …' if len(names) > SHOWN else ''}"
        if names
        else finding.message
    )
    return replace(finding, message=text, evidence={**finding.evidence, "jobs": names})


def _sure(s: Suspicion) -> Finding:
    return replace(s.finding, evidence={**s.finding.evidence, "confidence": round(min(max(s.confidence, 0.0), 1.0), 6)})
