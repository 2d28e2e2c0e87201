"""What is not known, said as loudly as what is bad: ports whose error counters nobody told, and
which counters of which end a finding stands on."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from softib.diags.cable_rules.case import Case, Suspicion, rule
from softib.diags.cables.counters import SHORT
from softib.diags.finding import Severity
from softib.diags.registry import code, few, finding

__all__ = ["with_known"]

COUNTERS_UNKNOWN = code(
    "counters-unknown",
    Severity.WARNING,
    "nothing is known of the error counters of linked ports",
    "read them: these ports did not answer, were cleared or started again between the readings, or the tool left "
    "them out; a bad cable there is not seen",
)
FALLS = "link_downed_counter"
ERRORS = tuple(name for name in SHORT if name not in ("port_xmit_wait", "port_xmit_discards", "vl15_dropped"))
"""Counters of which one at least must be known of a linked port."""


@rule
def unknown(case: Case) -> Iterator[Suspicion]:
    """One finding for all linked ports of which no error counter is known in any interval."""
    linked = case.best_rate > 0
    known = _known(case)
    rows = np.flatnonzero(linked & ~known & ~_away(case))
    if not len(rows) or not known.any():  # of nothing at all: there is no one to compare with, and no counter to judge
        return
    ports = [case.location(r) for r in rows.tolist()]
    yield Suspicion(
        finding(
            COUNTERS_UNKNOWN,
            ports,
            f"{len(rows):,} of {int(linked.sum()):,} linked ports: no error counter is known, a bad cable there is "
            f"not seen: {few(map(str, ports))}",
            {"ports": len(rows), "of": int(linked.sum())},
        ),
        -1,
        1.0,
        cable=False,
    )


def _away(case: Case) -> np.ndarray:
    """Ports of nodes that started again or are gone, as the other ends of their cables say, and
    what is behind such a node (bool[n])."""
    peer = np.asarray(case.ports.peer)
    there = np.maximum(peer, 0)
    fell = np.where(peer >= 0, case.obs.total(FALLS)[there] > 0, False)
    away = np.bincount(case.node, fell, minlength=int(case.node.max(initial=0)) + 1) > 0
    return np.asarray(away[case.node] | np.where(peer >= 0, away[case.node[there]], False))


def _known(case: Case) -> np.ndarray:
    known = np.zeros(case.n, bool)
    for name in ERRORS:
        known |= (case.known(name) | case.stands(name)).any(axis=0)
    return known


def with_known(case: Case, s: Suspicion) -> Suspicion:
    """The same with the error counters that are known of each end in its evidence, and in its
    message the end of which none is."""
    if not s.cable or s.port < 0:
        return s
    peer = int(case.ports.peer[s.port])
    known, message = {}, s.finding.message
    for row in (s.port, *([peer] if peer >= 0 else ())):
        names = [SHORT[n] for n in ERRORS if case.known(n)[:, row].any()]
        known[str(case.location(row))] = names
        if not names:
            message += f"; no error counter of {case.location(row)} is known"
    return replace(s, finding=replace(s.finding, message=message, evidence={**s.finding.evidence, "known": known}))
