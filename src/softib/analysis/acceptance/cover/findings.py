"""Findings of a cover run."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from softib.analysis.acceptance.cover.coverage import DirectionLoss, Proof
from softib.analysis.acceptance.cover.measured import SlowDirection, SlowDirections
from softib.analysis.acceptance.cover.routes import CoverRoutes
from softib.analysis.acceptance.expected_pairs import Expectation
from softib.analysis.acceptance.plan import FabricEnds
from softib.analysis.acceptance.remainder import trained_low
from softib.diags.acceptance import codes
from softib.diags.acceptance.measurements import PairFailure
from softib.diags.finding import Finding, Severity, few, finding
from softib.diags.view import port_location
from softib.plural import counted, plural

__all__ = ["findings_of"]


def findings_of(
    routes: CoverRoutes, ends: FabricEnds, proof: Proof, slow: SlowDirections, failures: list[PairFailure], paced: bool
) -> list[Finding]:
    """Return the findings of the run, slow directions first. ``paced``: whether data crosses links at their rate, and
    not as fast as the machine copies it."""
    findings = []
    if paced:
        findings += [_slow(routes, d, one) for d, one in zip(slow.named, proof.slow, strict=True)]
    findings += [*trained_low(Expectation(routes.fabric, ends.row), findings)]
    findings += [*_failed(failures)]
    if not paced:
        findings.append(finding(codes.UNPACED, [], "links are not paced, so their rates are not proven", {}))
        return findings
    return [*findings, *_unexplained(proof), *_unproven(routes, proof)]


def _slow(routes: CoverRoutes, slow: SlowDirection, one: DirectionLoss) -> Finding:
    f = routes.fabric
    ends = [p for c in (slow.channel, *slow.same) for p in (routes.port[c], f.port_peer[routes.port[c]])]
    host = bool(f.is_host[f.port_node[ends]].any())
    text = f"{one.place} → {one.peer} carries {one.loss_percent:g} % less than similar directions, in each of "
    text += counted(one.rounds, "round")
    evidence: dict[str, Any] = {"loss_percent": one.loss_percent, "rounds": one.rounds}
    if one.undistinguished:
        text += f"; not distinguished from {few(one.undistinguished)}, which the same flows cross"
        evidence["not_told_apart"] = one.undistinguished
    elif host:
        text += "; its adapter, cable and host are not distinguished"
    where = [port_location(routes.fabric, int(p)) for p in ends]
    return finding(codes.SLOW["host" if host else "cable"], where, text, evidence)


def _failed(failures: list[PairFailure]) -> Iterator[Finding]:
    if not failures:
        return
    reasons = sorted({f.reason for f in failures})
    yield finding(
        codes.PAIR_UNMEASURED,
        [],
        f"{counted(len(failures), 'flow')} did not run: {few(reasons, 2)}",
        {"pairs": [[f.source, f.target, f.reason] for f in failures]},
    )


def _unexplained(proof: Proof) -> Iterator[Finding]:
    flows = proof.unexplained
    if flows:
        worst = max(flows, key=lambda f: f.loss_percent)
        yield finding(
            codes.PAIRS_UNEXPLAINED,
            [],
            f"{counted(len(flows), 'flow')} up to {worst.loss_percent:g} % slower than the others cross no slow "
            f"direction: {few(f'{f.source} – {f.target}' for f in flows)}",
            {"flows": [f.to_json() for f in flows]},
            severity=Severity.INFO,
        )


def _unproven(routes: CoverRoutes, proof: Proof) -> Iterator[Finding]:
    left = proof.unproven
    if left:
        n = len(left)
        failed = len([one for one in left if one.planned_gbps >= 0.8 * one.gbps])
        yield finding(
            codes.UNPROVEN,
            [],
            f"{n:,} of {counted(len(routes.directions), 'direction')} {plural(n, 'is', 'are')} not proven: "
            f"{few(f'{one.place} → {one.peer}' for one in left)}",
            {"directions": n, "planned_but_not_carried": failed},
            severity=Severity.WARNING if failed else Severity.INFO,
        )
