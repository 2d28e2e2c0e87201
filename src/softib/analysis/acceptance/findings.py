"""Findings from measurements: slow parts found by tomography, link rates, and hosts that could not
measure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import numpy as np

from softib.analysis.acceptance.expected_pairs import Expectation, FabricParts, Part, parts_of
from softib.analysis.acceptance.remainder import slow_pairs, trained_low, uncrossed
from softib.diags.acceptance import codes
from softib.diags.acceptance.measurements import TESTS, Failure, Measurements
from softib.diags.acceptance.schedule import CLASSES, class_of
from softib.diags.acceptance.tomography import Blamed, blame, deviation
from softib.diags.finding import Finding, Location, finding
from softib.diags.view import port_location
from softib.iba.constants import NodeType
from softib.plural import counted
from softib.result import Result, key

__all__ = ["ClassSummary", "Judged", "Unit", "judge", "summary"]

Unit = Literal["Gb/s", "us"]

BELOW = 0.9
"""If the median pair of a test reaches less than this share of its expected value, a finding of severity information is
reported."""
SHOWN = 5
"""Number of examples in evidence."""


@dataclass(frozen=True)
class Judged:
    """``findings``, worst first; ``expected`` float64[m]: expected value of each measurement (NaN: unknown)."""

    findings: list[Finding]
    expected: np.ndarray


@dataclass
class _Case:
    """A slow part, combined from all tests that found it."""

    part: Part
    tests: dict[str, Blamed] = field(default_factory=dict)
    examples: list[dict[str, Any]] = field(default_factory=list)


def judge(
    measured: Measurements,
    expectation: Expectation | None,
    sizes: Mapping[str, int],
    reference: np.ndarray | None = None,
    paced: bool = True,
) -> Judged:
    """Return the findings of measurements. ``sizes``: bytes of a message by test. ``reference``
    float64[m]: where it is not NaN, compare with this value (a baseline) instead of the model.
    ``paced``: whether links are paced; if not, the model does not apply."""
    model = np.full(len(measured), np.nan) if expectation is None else expectation.of(measured, dict(sizes))
    usual = model if reference is None else np.where(np.isfinite(reference), reference, model)
    cases: dict[tuple[str, int], _Case] = {}
    explained: dict[str, tuple[np.ndarray, np.ndarray, FabricParts, list[Blamed]]] = {}
    for test in measured.tests:
        rows = np.flatnonzero(measured.test == test)
        standard = usual[rows] if np.isfinite(usual[rows]).any() else np.ones(len(rows))
        d = deviation(measured.value[rows], standard, TESTS[test].latency)
        shared = parts_of(measured, rows, test, expectation)
        blamed = blame(d, shared.parts, TESTS[test].latency, len(measured.tests))
        explained[test] = rows, d, shared, blamed
        for one in blamed:
            _add(cases, _canonical(measured, expectation, shared.what[one.part]), test, one, measured, rows, shared, d)
    findings = [_slow(measured, expectation, c) for c in _folded(measured, cases)]
    findings.sort(key=lambda f: (-f.evidence["loss_percent"], f.message))
    if paced:
        findings += slow_pairs(measured, explained, _place_of(measured, expectation))
    if expectation is not None:
        findings += [*trained_low(expectation, findings)]
    findings += [*_unmeasured(measured, expectation)]
    if not paced:
        findings.append(_unpaced(measured, model))
    elif reference is None and expectation is not None:
        findings += _below(measured, model)
    if expectation is not None and len(measured):
        findings += [*uncrossed(measured, expectation)]
    return Judged(findings, model)


def _add(
    cases: dict[tuple[str, int], _Case],
    part: Part,
    test: str,
    one: Blamed,
    measured: Measurements,
    rows: np.ndarray,
    shared: FabricParts,
    d: np.ndarray,
) -> None:
    case = cases.setdefault((part.kind, part.row), _Case(part))
    if test in case.tests and case.tests[test].loss >= one.loss:
        return
    case.tests[test] = one
    crossing = shared.parts.rows(one.part)
    for i in rows[crossing[np.argsort(-d[crossing], kind="stable")[:SHOWN]]].tolist():
        case.examples.append(
            {
                "test": test,
                "pair": [measured.ends.name(int(measured.source[i])), measured.ends.name(int(measured.target[i]))],
                "measured": round(float(measured.value[i]), 3),
                "unit": TESTS[test].unit,
            }
        )


def _canonical(measured: Measurements, e: Expectation | None, part: Part) -> Part:
    """Return the part that a finding names. For a cable to a host, or one direction of it, this is the adapter; for the
    only adapter of a host, it is the host; for a direction of a cable between switches, it is the cable.
    """
    kind, row, ends = part.kind, part.row, measured.ends
    if e is not None and kind in ("cable", "direction"):
        f = e.fabric
        at = [p for p in (row, int(f.port_peer[row])) if f.node_type[f.port_node[p]] != NodeType.SWITCH]
        if at:
            hit = np.flatnonzero(e.plane.ends[e.row] == at[0])
            kind, row = ("adapter", int(hit[0])) if len(hit) else (kind, row)
        elif kind == "direction":
            kind, row = "cable", min(row, int(f.port_peer[row]))
    if kind == "adapter":
        adapters = [i for i, h in enumerate(ends.host) if h == ends.host[row]]
        if len(adapters) == 1:
            kind, row = "host", adapters[0]
    return Part(kind, row, part.same)


def _folded(measured: Measurements, cases: dict[tuple[str, int], _Case]) -> list[_Case]:
    """Return ``cases`` without adapters whose host is blamed by another test. If the effect in a test is small, the
    test may find only one adapter of a slow host."""
    host = measured.ends.host
    hosts = {host[row] for kind, row in cases if kind == "host"}
    return [c for (kind, row), c in cases.items() if kind != "adapter" or host[row] not in hosts]


def _slow(measured: Measurements, e: Expectation | None, case: _Case) -> Finding:
    """Return the finding of one part."""
    name, where, trained = _place(measured, e, case.part)
    kinds = case.tests
    bandwidth = [b for t, b in kinds.items() if not TESTS[t].latency]
    latency = [b for t, b in kinds.items() if TESTS[t].latency]
    texts = []
    if bandwidth:
        worst = max(bandwidth, key=lambda b: b.loss)
        texts.append(
            f"{worst.loss:.0%} less bandwidth than similar pairs in {worst.slow} of "
            f"{counted(worst.measurements, 'measurement')}"
        )
    if latency:
        worst = max(latency, key=lambda b: b.loss)
        texts.append(f"{worst.loss:.0%} more latency in {worst.slow} of {worst.measurements}")
    probability = min(b.probability for b in kinds.values())
    evidence: dict[str, Any] = {
        "loss_percent": round(100 * max(b.loss for b in kinds.values()), 1),
        "tests": {
            t: {
                "loss_percent": round(100 * b.loss, 1),
                "measurements": b.measurements,
                "slow": b.slow,
                "probability": b.probability,
            }
            for t, b in kinds.items()
        },
        "slowest": case.examples,
        "confidence": round(1.0 - probability, 6),
    }
    if e is not None and case.part.same:
        evidence["not_told_apart"] = sorted({_label(measured, e, k, r) for k, r in case.part.same})
    if trained:
        evidence["trained"] = trained
        texts.append(f"its link trained at {trained['gbps']:g} Gb/s, its kind at {trained['usual_gbps']:g}")
    return finding(codes.SLOW[case.part.kind], where, f"{name}: {'; '.join(texts)}", evidence)


class _PartPlace(NamedTuple):
    """A part in a finding."""

    name: str
    where: list[Location]
    trained: dict[str, float]
    """Rates of its link if that is lower than usual."""


def _place(measured: Measurements, e: Expectation | None, part: Part) -> _PartPlace:
    """Return the name and the locations of a part."""
    ends = measured.ends
    if e is None:
        name = ends.host[part.row] if part.kind == "host" else ends.name(part.row)
        return _PartPlace(name, [Location(name, 0)], {})
    f = e.fabric
    if part.kind == "switch":
        name = f.node_name(part.row)
        return _PartPlace(name, [Location(name, int(f.node_guid[part.row]))], {})
    rows = [i for i, h in enumerate(ends.host) if h == ends.host[part.row]] if part.kind == "host" else [part.row]
    ports = [part.row] if part.kind == "cable" else [int(e.plane.ends[e.row[i]]) for i in rows]
    trained: dict[str, float] = {}
    for port in ports:
        if e.plane.gbps[port] < e.gbps[port]:
            trained = {"gbps": float(e.plane.gbps[port]), "usual_gbps": float(e.gbps[port])}
    where = [port_location(f, p) for port in ports for p in (port, int(f.port_peer[port])) if p >= 0]
    name = (
        " ↔ ".join(map(str, where))
        if part.kind == "cable"
        else ends.host[part.row]
        if part.kind == "host"
        else ends.name(part.row)
    )
    return _PartPlace(name, where, trained)


def _label(measured: Measurements, e: Expectation, kind: str, row: int) -> str:
    if kind in ("host", "adapter"):
        return f"{kind} {measured.ends.host[row] if kind == 'host' else measured.ends.name(row)}"
    if kind == "switch":
        return f"switch {e.fabric.node_name(row)}"
    here, there = (port_location(e.fabric, port) for port in (row, int(e.fabric.port_peer[row])))
    return f"cable {here} ↔ {there}" if kind == "cable" else f"direction {here} → {there}"


def _place_of(measured: Measurements, e: Expectation | None) -> Callable[[int], list[Location]]:
    """Return a function that maps a measured port to its locations."""
    host = measured.ends.host
    return lambda row: (
        [Location(host[row], 0)] if e is None else [port_location(e.fabric, int(e.plane.ends[e.row[row]]))]
    )


def _unmeasured(measured: Measurements, e: Expectation | None) -> list[Finding]:
    """Return one finding for each reason for which hosts failed, and one for failed pairs."""
    ends = measured.ends
    hosts: dict[str, dict[str, int]] = {}
    pairs: dict[tuple[str, str], Failure] = {}
    place = _place_of(measured, e)
    for f in measured.failures:
        if f.end >= 0:
            hosts.setdefault(f.reason, {}).setdefault(ends.host[f.end], f.end)
        else:
            pairs.setdefault((ends.name(f.source), ends.name(f.target)), f)
    out = []
    for reason, at in hosts.items():
        names = list(at)
        shown = ", ".join(names[:SHOWN]) + (f" and {len(names) - SHOWN} more" if len(names) > SHOWN else "")
        where = [p for row in at.values() for p in place(row)]
        out.append(finding(codes.HOST_UNMEASURED, where, f"{shown}: {reason}", {"hosts": names, "reason": reason}))
    if pairs:
        (a, b), first = next(iter(pairs.items()))
        listed = [{"pair": list(k), "test": f.test, "round": f.round, "reason": f.reason} for k, f in pairs.items()]
        rest = f" and {len(pairs) - 1} more pairs" if len(pairs) > 1 else ""
        out.append(
            finding(
                codes.PAIR_UNMEASURED,
                place(first.source) + place(first.target),
                f"{a} – {b}: {first.reason}{rest}",
                {"pairs": listed},
            )
        )
    return out


def _below(measured: Measurements, model: np.ndarray) -> list[Finding]:
    """Report tests whose median pair is far from its expected value. The cause affects all pairs, so no single part of
    the fabric is slower than others."""
    out = []
    for test in measured.tests:
        rows = np.flatnonzero((measured.test == test) & np.isfinite(model) & (model > 0))
        if not len(rows) or TESTS[test].latency:
            continue
        share = float(np.median(measured.value[rows] / model[rows]))
        if share < BELOW:
            out.append(
                finding(
                    codes.BELOW_MODEL,
                    [],
                    f"{test}: the median pair reaches {share:.0%} of the expected value of its path",
                    {"test": test, "median_share": round(share, 4), "pairs": len(rows)},
                )
            )
    return out


def _unpaced(measured: Measurements, model: np.ndarray) -> Finding:
    """Report that measurements on an unpaced fabric do not show link rates."""
    shares = {}
    for test in measured.tests:
        rows = np.flatnonzero((measured.test == test) & np.isfinite(model) & (model > 0))
        if len(rows):
            shares[test] = round(float(np.median(measured.value[rows] / model[rows])), 4)
    return finding(
        codes.UNPACED,
        [],
        "rates, latencies and queues of links are not in these measurements: without --pace data moves as fast as "
        "this machine copies memory",
        {"median_share": shares},
    )


@dataclass(frozen=True)
class ClassSummary(Result):
    """A test and a class of pairs."""

    table_columns = ("test", "pairs", "measurements", "least", "median", "largest", "expected", "unit")

    test: str
    pairs: str
    """``same leaf``, ``across spine`` or ``across core``; ``all`` if paths are not known."""
    measurements: int
    unit: str = field(metadata=key(type=Unit))
    least: float
    median: float
    largest: float
    expected: float | None
    """Median of the expected values."""

    def __str__(self) -> str:
        model = "" if self.expected is None else f", model {self.expected:.4g}"
        return (
            f"{self.test}, {self.pairs}: {counted(self.measurements, 'measurement')}, median {self.median:.4g} "
            f"{self.unit} ({self.least:.4g} to {self.largest:.4g}{model})"
        )


def summary(measured: Measurements, expected: np.ndarray) -> list[ClassSummary]:
    """Return one summary for each measured test and class of pairs; ``expected`` float64[m]."""
    out = []
    kind = class_of(measured.ends, measured.source, measured.target)
    several = len(np.unique(measured.ends.leaf)) > 1
    for test in measured.tests:
        for number, name in enumerate(CLASSES):
            rows = np.flatnonzero((measured.test == test) & (kind == number))
            if not len(rows):
                continue
            values, model = measured.value[rows], expected[rows]
            out.append(
                ClassSummary(
                    test,
                    name if several else "all",
                    len(rows),
                    TESTS[test].unit,
                    float(values.min()),
                    float(np.median(values)),
                    float(values.max()),
                    float(np.median(model)) if np.isfinite(model).all() else None,
                )
            )
    return out
