"""The report as JSON: the keys are a contract with programs, and tests hold them."""

from __future__ import annotations

from typing import Any

from softib.analysis.model import Report, RoutingPart
from softib.analysis.prediction import prediction_json
from softib.analysis.traffic import traffic_json

__all__ = ["findings_json", "routing_json", "to_json"]


def findings_json(report: Report) -> dict[str, Any]:
    """What ``check --json`` prints: ``source``, ``format``, ``fabric``, ``findings``, ``problems``, ``structure``,
    ``routing`` (which tables were judged), ``notes``, ``source_notes`` (what of the file is not used), ``plan`` (counts, and each cable that is not as planned)."""
    r = report.routing
    return {
        "source": report.source,
        "format": report.format,
        "fabric": {"name": report.fabric.name, **report.counts.to_json()},
        "findings": [f.to_json() for f in report.findings],
        "problems": [{"file": p.file, "line": p.line, "reason": p.reason} for p in report.problems],
        "structure": report.structure,
        "routing": None if r is None else {"engine": r.engine, "tables": r.tables or r.engine, "origin": r.origin},
        "notes": report.notes,
        "source_notes": report.source_notes,
        "plan": None if report.comparison is None else report.comparison.to_json(),
    }


def routing_json(r: RoutingPart) -> dict[str, Any]:
    """What ``route --json`` prints: ``engine``, ``deadlock_free``, ``credit_loop``, ``unreachable``, ``hops``, and more."""
    return {
        "engine": r.engine,
        "deadlock_free": r.deadlock_free,
        "credit_loop": None if r.credit_loop is None else [list(step) for step in r.credit_loop],
        "unreachable": r.unreachable,
        "hops": {str(h): n for h, n in sorted(r.hops.items())},
        "tables": r.tables or r.engine,
        "loops": r.loops,
        "switch_unreachable": r.switch_unreachable,
        "origin": r.origin,
        "notes": r.notes,
        **r.more,
    }


def to_json(report: Report) -> dict[str, Any]:
    """What ``report --json`` prints: all of ``check --json``, and ``bring_up``, ``routing``, ``prediction``, ``traffic``, ``engines``, ``seconds``."""
    return {
        **findings_json(report),
        "bring_up": None if report.bring_up is None else {**report.bring_up.numbers, "notes": report.bring_up.notes},
        "routing": None if report.routing is None else routing_json(report.routing),
        "prediction": prediction_json(report.prediction),
        "traffic": traffic_json(report.traffic),
        "engines": [row.to_json() for row in report.engines],
        "seconds": {k: round(v, 3) for k, v in report.seconds.items()},
    }
