"""Differences of a fabric from its baseline: topology, firmware, cables, error rates, and statistically significant
changes of measurements."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from softib.analysis.acceptance.baseline import MODULE_KEYS, BaselineRecord
from softib.analysis.acceptance.drift import ClassDrift, Drift, compare_pairs
from softib.analysis.acceptance.plan import ends_of_fabric
from softib.diags.acceptance import codes
from softib.diags.acceptance.measurements import TESTS
from softib.diags.acceptance.schedule import CLASSES, class_of
from softib.diags.finding import Finding, Location, Severity, finding
from softib.errors import InputError
from softib.fabric.diff import diff
from softib.fabric.end_ports import end_ports
from softib.fabric.model import Fabric
from softib.fabric.same_nodes import named_alike
from softib.plural import counted
from softib.scenario.bring_up import bring_up
from softib.scenario.graph_view import graph_of

__all__ = ["binomial_tail", "classes_of_pairs", "compare_baselines", "drift_of"]


def classes_of_pairs(fabric: Fabric | None) -> Callable[[tuple[str, str]], str] | None:
    """Return a function that maps the names of two measured ports to the class of the pair (same leaf, across a spine,
    across a core; "" if unknown); None without a fabric."""
    if fabric is None:
        return None
    if not len(end_ports(fabric)):  # a file without LIDs, which still shows the leaf of each host
        fabric = fabric.copy()
        bring_up(fabric)
    ends = ends_of_fabric(fabric, graph_of(fabric)).ends
    row = {ends.name(i): i for i in range(len(ends))}

    def kind(pair: tuple[str, str]) -> str:
        a, b = (row.get(name, -1) for name in pair)
        return "" if a < 0 or b < 0 else CLASSES[int(class_of(ends, np.array([a]), np.array([b]))[0])]

    return kind


LEVEL = 0.01
"""Probability of a false alarm in each kind of comparison, corrected for the number of comparisons."""
SAME_LEAST = 0.5
"""Two baselines belong to different fabrics if they have less than this share of their nodes (or hosts) in common."""
SHOWN = 5
EXACT = 100_000
LENGTH_M = 0.5
"""Minimum difference in metres at which two cable lengths count as different. Lengths are stated in steps of 0.5 m or
more (SFF-8636 counts metres)."""


def compare_baselines(before: BaselineRecord, after: BaselineRecord) -> list[Finding]:
    """Return findings, worst first. Raises :class:`InputError` if the two belong to different
    fabrics."""
    _same_fabric(before, after)
    findings = [*_measurements(before, after), *_errors(before, after)]
    if before.fabric is not None and after.fabric is not None:
        findings += _topology(before.fabric, after.fabric)
    findings += [*_firmware(before, after), *_modules(before, after)]
    return sorted(findings, key=lambda f: -f.severity)


def drift_of(before: BaselineRecord, after: BaselineRecord) -> dict[str, Drift]:
    """Return the drift of each test that both baselines have."""
    kind = classes_of_pairs(after.fabric or before.fabric)
    return {
        t: compare_pairs(before.pairs[t], after.pairs[t], LEVEL, kind)
        for t in TESTS
        if t in before.pairs and t in after.pairs
    }


def _same_fabric(a: BaselineRecord, b: BaselineRecord) -> None:
    if a.fabric is not None and b.fabric is not None:
        same, of, kind = (
            int((named_alike(a.fabric, b.fabric) >= 0).sum()),
            min(a.fabric.sizes.nodes, b.fabric.sizes.nodes),
            "nodes",
        )
    else:
        hosts = [{h for rows in r.pairs.values() for pair in rows for h in pair} for r in (a, b)]
        if not all(hosts):
            return
        same, of, kind = len(hosts[0] & hosts[1]), min(map(len, hosts)), "hosts"
    if same < SAME_LEAST * of:
        raise InputError(
            f"{a.name} and {b.name} are of different fabrics: only {same} of {of} {kind} are in both; compare "
            f"baselines of the same fabric"
        )


def _class_drift(test: str, c: ClassDrift, latency: bool) -> Finding:
    return finding(
        codes.CLASS_DRIFT,
        [],
        f"{test}: pairs {c.name} measure {_times(c.ratio)} of the baseline, the others {_times(c.rest)} "
        f"({counted(c.pairs, 'pair')}, p = {c.probability:.1g})",
        {
            "test": test,
            "pairs_class": c.name,
            "ratio": round(c.ratio, 4),
            "rest": round(c.rest, 4),
            "pairs": c.pairs,
            "probability": c.probability,
            "confidence": round(1 - c.probability, 6),
        },
        severity=Severity.WARNING if (c.ratio > c.rest) == latency else Severity.INFO,
    )


def _measurements(before: BaselineRecord, after: BaselineRecord) -> Iterator[Finding]:
    hosts: dict[str, dict[str, Any]] = {}
    kind = classes_of_pairs(after.fabric or before.fabric)
    for test, d in drift_of(before, after).items():
        latency = TESTS[test].latency
        for h in d.hosts:
            row = {
                "ratio": round(h.ratio, 4),
                "pairs": h.pairs,
                "probability": h.probability,
                "worse": (h.ratio > d.ratio) == latency,
            }
            hosts.setdefault(h.host, {})[test] = row
        yield from (_class_drift(test, c, latency) for c in d.classes)
        named, apart = {h.host for h in d.hosts}, {c.name for c in d.classes}
        rest = [
            {k: v for k, v in r.pairs[test].items() if not named & set(k) and (kind is None or kind(k) not in apart)}
            for r in (before, after)
        ]
        d = compare_pairs(rest[0], rest[1])  # a loss at one host is not a loss of the whole fabric
        if d.pairs and d.probability < LEVEL:
            worse = (d.ratio > 1) == latency
            yield finding(
                codes.FABRIC_DRIFT,
                [],
                f"{test}: the median pair measures {_times(d.ratio)} of the baseline ({counted(d.pairs, 'pair')}, p "
                f"= {d.probability:.1g})",
                {
                    "test": test,
                    "ratio": round(d.ratio, 4),
                    "pairs": d.pairs,
                    "probability": d.probability,
                    "confidence": round(1 - d.probability, 6),
                },
                severity=Severity.WARNING if worse else Severity.INFO,
            )
    for host, tests in hosts.items():
        test, most = min(tests.items(), key=lambda t: t[1]["probability"])
        worse = any(t["worse"] for t in tests.values())
        yield finding(
            codes.HOST_DRIFT,
            [_host(after, before, host)],
            f"{host}: its pairs measure {_times(most['ratio'])} of the baseline in {test}, unlike those of other "
            f"hosts ({counted(most['pairs'], 'pair')}, p = {most['probability']:.1g})",
            {"tests": tests, "confidence": round(1 - most["probability"], 6)},
            severity=Severity.WARNING if worse else Severity.INFO,
        )


def _times(ratio: float) -> str:
    return f"{100 * ratio:.3g} %"


def _host(after: BaselineRecord, before: BaselineRecord, host: str) -> Location:
    for f in (after.fabric, before.fabric):
        if f is not None:
            names = f.node_names()
            if host in names:
                return Location(host, int(f.node_guid[names.index(host)]))
    return Location(host, 0)


def _errors(before: BaselineRecord, after: BaselineRecord) -> Iterator[Finding]:
    """Report ports whose counters rise faster than before. Given the total number of events in both time spans, the
    number in the later one has a binomial distribution (Przyborowski and Wilenski 1940)."""
    both = [
        (key, counter, was, row[counter])
        for key, row in after.errors.items()
        for counter, was in before.errors.get(key, {}).items()
        if counter in row
    ]
    worse: dict[str, dict[str, Any]] = {}
    for key, counter, (n1, t1), (n2, t2) in both:
        if not n2 or t1 <= 0 or t2 <= 0:
            continue
        p = min(1.0, binomial_tail(n2, n1 + n2, t2 / (t1 + t2)) * len(both))
        if p < LEVEL:
            worse.setdefault(key, {})[counter] = {
                "before": n1,
                "before_s": t1,
                "after": n2,
                "after_s": t2,
                "probability": p,
            }
    for key, counters in worse.items():
        counter, most = min(counters.items(), key=lambda c: c[1]["probability"])
        where = _port(after, key)
        text = (
            f"{where}: {counter} rose by {most['after']:,} in {most['after_s']:g} s, in the baseline by "
            f"{most['before']:,} in {most['before_s']:g} s"
        )
        yield finding(
            codes.ERRORS_SINCE_BASELINE,
            [where],
            text,
            {"counters": counters, "confidence": round(1 - most["probability"], 6)},
        )


def binomial_tail(k: int, n: int, p: float) -> float:
    """Return the probability that at least ``k`` of ``n`` events happen if each has the probability ``p``. For more
    than :data:`EXACT` events, use the normal distribution."""
    if k <= 0 or p >= 1:
        return 1.0
    if p <= 0 or k > n:
        return 0.0
    if n > EXACT:
        return 0.5 * math.erfc((k - 0.5 - n * p) / math.sqrt(2 * n * p * (1 - p)))
    log = lambda i: (
        math.lgamma(n + 1) - math.lgamma(i + 1) - math.lgamma(n - i + 1) + i * math.log(p) + (n - i) * math.log1p(-p)
    )
    return min(1.0, math.fsum(math.exp(log(i)) for i in range(k, n + 1)))


def _topology(a: Fabric, b: Fabric) -> Iterator[Finding]:
    """Return one finding for each kind of change that ``softib diff`` distinguishes."""
    kinds: dict[str, list[Any]] = {}
    for change in diff(a, b):
        kinds.setdefault(change.kind, []).append(change)
    for kind, changes in kinds.items():
        rest = f" and {len(changes) - 1} more" if len(changes) > 1 else ""
        yield finding(
            codes.TOPOLOGY_CHANGED,
            [],
            f"{kind}: {changes[0]}{rest}",
            {"kind": kind, "count": len(changes), "changes": [c.to_json() for c in changes]},
        )


def _firmware(before: BaselineRecord, after: BaselineRecord) -> Iterator[Finding]:
    groups: dict[tuple[str, str], list[str]] = {}
    for guid, now in after.firmware.items():
        was = before.firmware.get(guid)
        if was is not None and was != now:
            groups.setdefault((was, now), []).append(guid)
    for (was, now), guids in sorted(groups.items()):
        where = [_node(after, g) for g in guids]
        shown = ", ".join(map(str, where[:SHOWN])) + (f" and {len(where) - SHOWN} more" if len(where) > SHOWN else "")
        yield finding(
            codes.FIRMWARE_CHANGED,
            where,
            f"{shown}: firmware {now}, before {was}",
            {"before": was, "after": now, "devices": len(where)},
        )


def _modules(before: BaselineRecord, after: BaselineRecord) -> Iterator[Finding]:
    for key, now in after.modules.items():
        was = before.modules.get(key)
        if was is None:
            continue
        changed = {k: [was[k], now[k]] for k in MODULE_KEYS if k in was and k in now and was[k] != now[k]}
        if "length_m" in was and "length_m" in now and abs(float(was["length_m"]) - float(now["length_m"])) >= LENGTH_M:
            changed["length_m"] = [was["length_m"], now["length_m"]]
        if changed:
            where = _port(after, key)
            text = ", ".join(f"{k.removeprefix('module_')} {b}, before {a}" for k, (a, b) in changed.items())
            yield finding(codes.CABLE_REPLACED, [where], f"{where}: another cable: {text}", {"changed": changed})


def _node(record: BaselineRecord, guid: str) -> Location:
    return _located(record.fabric, guid, None)


def _port(record: BaselineRecord, key: str) -> Location:
    guid, _, portnum = key.partition(":")
    return _located(record.fabric, guid, int(portnum or 0))


def _located(f: Fabric | None, guid: str, portnum: int | None) -> Location:
    number = int(guid, 16)
    if f is not None:
        hit = (f.node_guid == number).nonzero()[0]
        if len(hit):
            return Location(f.node_name(int(hit[0])), number, portnum)
    return Location(guid, number, portnum)


def reference_of(pairs: Mapping[str, Mapping[tuple[str, str], float]], test: str, pair: tuple[str, str]) -> float:
    """Return the baseline's value of a pair, in either direction; NaN if there is none."""
    of_test = pairs.get(test, {})
    return of_test.get(pair, of_test.get(pair[::-1], math.nan))
