"""Findings of an acceptance run that do not blame a part: slow pairs that no blamed part explains, links that trained
at a lower rate, and cables that no pair crossed."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from softib.analysis.acceptance.expected_pairs import Expectation, FabricParts
from softib.diags.acceptance import codes
from softib.diags.acceptance.measurements import TESTS, Measurements
from softib.diags.acceptance.tomography import Blamed
from softib.diags.finding import Finding, Location, Severity, few, finding
from softib.diags.view import port_location
from softib.plural import counted

__all__ = ["Explained", "slow_pairs", "trained_low", "uncrossed"]

SLOW = 0.3
"""A pair is listed if it lost at least this share of its bandwidth without an explanation; the value is softib's
choice."""
HALF = 0.5
"""Minimum unexplained loss, as a share, at which a single measurement is a warning. Momentary disturbances of a host
rarely cause a larger loss."""
Explained = Mapping[str, tuple[np.ndarray, np.ndarray, FabricParts, Sequence[Blamed]]]
"""Test → (rows of its measurements, how much worse each is than usual, the parts that they cross, the parts that are
blamed)."""
Place = Callable[[int], list[Location]]


def slow_pairs(measured: Measurements, explained: Explained, place: Place) -> Iterator[Finding]:
    """Report all slow pairs without a known cause in one finding."""
    listed: dict[tuple[int, int], dict[str, Any]] = {}
    for test, (rows, d, shared, blamed) in explained.items():
        if TESTS[test].latency:
            continue
        explained_log = np.zeros(len(rows))
        for one in blamed:
            crossing = shared.parts.rows(one.part)
            explained_log[crossing] = np.maximum(explained_log[crossing], -math.log1p(-min(one.loss, 0.999)))
        lacks = -np.expm1(-(np.where(np.isfinite(d), d, 0.0) - explained_log))
        for i in np.flatnonzero(lacks >= SLOW).tolist():
            row = int(rows[i])
            pair = int(measured.source[row]), int(measured.target[row])
            stated = {
                "pair": [measured.ends.name(e) for e in pair],
                "test": test,
                "round": int(measured.round[row]),
                "measured": round(float(measured.value[row]), 3),
                "unit": TESTS[test].unit,
                "lacks_percent": round(100 * float(lacks[i]), 1),
            }
            if pair not in listed or listed[pair]["lacks_percent"] < stated["lacks_percent"]:
                listed[pair] = stated
    if not listed:
        return
    order = sorted(listed, key=lambda p: -listed[p]["lacks_percent"])
    worst = listed[order[0]]
    severe = worst["lacks_percent"] >= 100 * HALF
    shown = few((" – ".join(listed[p]["pair"]) for p in order), 3)
    yield finding(
        codes.PAIRS_UNEXPLAINED,
        [one for p in order[:1] for e in p for one in place(e)],
        f"{counted(len(order), 'pair')} up to {worst['lacks_percent']:.0f}% more than the reported slow parts "
        f"explain: {shown}",
        {"pairs": [listed[p] for p in order]},
        severity=Severity.WARNING if severe else Severity.INFO,
    )


def trained_low(e: Expectation, findings: Sequence[Finding]) -> Iterator[Finding]:
    """Report all links that trained at a lower rate than their kind and are in no other finding."""
    named = {(p.guid, p.portnum) for f in findings for p in f.where}
    f = e.fabric
    low = np.flatnonzero((e.plane.gbps > 0) & (e.plane.gbps < e.gbps) & (f.port_peer > np.arange(f.sizes.ports)))
    links = []
    for port in low.tolist():
        ends = [port_location(f, port), port_location(f, int(f.port_peer[port]))]
        if not any((p.guid, p.portnum) in named for p in ends):
            links.append((ends, float(e.plane.gbps[port]), float(e.gbps[port])))
    if links:
        texts = [f"{a} ↔ {b} at {gbps:g} of {usual:g} Gb/s" for (a, b), gbps, usual in links]
        yield finding(
            codes.TRAINED_LOW,
            [p for ends, _, _ in links for p in ends],
            f"{counted(len(links), 'link')} trained below the rate of other links of the kind: {few(texts)}",
            {
                "links": [
                    {"ends": list(map(str, ends)), "gbps": gbps, "usual_gbps": usual} for ends, gbps, usual in links
                ]
            },
        )


def uncrossed(measured: Measurements, e: Expectation) -> Iterator[Finding]:
    """Report all cables that no measured pair crossed in either direction."""
    f = e.fabric
    cables = np.flatnonzero((f.port_peer > np.arange(f.sizes.ports)) & (e.plane.gbps > 0))
    a, b = measured.source, measured.target
    crossed: set[int] = set()
    for x, y in ((a, b), (b, a)):
        pairs = np.unique(np.stack([x, y]), axis=1)
        ports = np.unique(e.paths(pairs[0], pairs[1]).port)
        crossed |= set(np.minimum(ports, f.port_peer[ports]).tolist())
    left = [p for p in cables.tolist() if p not in crossed]
    if left:
        names = [f"{port_location(f, p)} ↔ {port_location(f, int(f.port_peer[p]))}" for p in left]
        yield finding(
            codes.UNCROSSED,
            [],
            f"no pair crossed {len(left):,} of {counted(len(cables), 'cable')}: {few(names)} are not measured",
            {"cables": names, "of": len(cables)},
        )
