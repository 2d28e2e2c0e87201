"""What isolating a cable would cost, and how many may be isolated at once."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from softib.diags.cable_rules.case import Case, Suspicion
from softib.diags.finding import Severity
from softib.plural import counted
from softib.routing.graph import components

__all__ = ["with_isolation"]

ISOLATED_CODES = frozenset(
    {"link-bit-errors", "link-pre-fec-errors", "link-packet-errors", "link-flaps", "flow-control-errors"}
)
"""Findings that are of a cable, which can be switched off. A slow host's cable is not the matter.
"""


@dataclass
class _Cost:
    """The observed fabric without the cables that are isolated already."""

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
        """Nodes that are not in the largest part."""
        part = components(self.nodes, self.a[self.kept], self.b[self.kept])
        return self.nodes - int(np.bincount(part, minlength=1).max())

    def without(self, cable: int) -> dict[str, Any] | None:
        """What it costs to take ``cable`` away (it stays away); None where it is not known to join
        two nodes."""
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
                mine = self.between & ((self.a == node) | (self.b == node))
                rate = self.case.best_rate[self.rows]
                whole = float(rate[mine].sum())
                left[str(self.case.node_location(int(port)))] = (
                    round(float(rate[mine & self.kept].sum()) / whole, 4) if whole else 0.0
                )
            cost["capacity_between_switches_left"] = left
        return cost


def with_isolation(case: Case, suspicions: list[Suspicion]) -> list[Suspicion]:
    """The same suspicions, those against cables with ``isolate`` in the evidence: whether now, and
    what it costs.

    At most max(10, 0.5 % of the cables) at once, errors before warnings, the surest first. The cost
    of each is counted with those before it away already.
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
        if used >= most:
            isolate: dict[str, Any] = {"now": False, "why": f"{counted(most, 'cable')} at once are the most"}
        else:
            price = cost.without(int(case.cable[s.port]))
            isolate = {"now": price is not None, **(price or {"why": "the other end is not known"})}
            used += price is not None
        out[i] = replace(s, finding=replace(s.finding, evidence={**s.finding.evidence, "isolate": isolate}))
    return out
