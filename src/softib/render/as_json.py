"""The report as JSON: the keys are a contract with programs, and tests hold them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from softib.analysis.model import Report, RoutingPart
from softib.analysis.prediction import prediction_json
from softib.analysis.traffic import traffic_json
from softib.fabric.diff import Change
from softib.fabric.formats.base import Problem
from softib.render.documents import document

__all__ = ["check_json", "diff_json", "report_json", "route_json"]


def check_json(report: Report) -> dict[str, Any]:
    """What ``check --json`` prints (:class:`softib.render.documents.Check`)."""
    r = report.routing
    return document(
        "check",
        **_common(report),
        routing=None if r is None else {"engine": r.engine, "tables": r.tables or r.engine, "origin": r.origin},
    )


def _common(report: Report) -> dict[str, Any]:
    """What ``check`` and ``report`` both have."""
    return {
        "source": report.source,
        "format": report.format,
        "fabric": {"name": report.fabric.name, **report.counts.to_json()},
        "findings": [f.to_json() for f in report.findings],
        "problems": [p.to_json() for p in report.problems],
        "structure": report.structure,
        "notes": report.notes,
        "source_notes": report.source_notes,
        "plan": None if report.comparison is None else report.comparison.to_json(),
    }


def routing_json(r: RoutingPart) -> dict[str, Any]:
    """Proof and quality of tables: ``routing`` of ``report --json``, and most of ``route --json``."""
    return {
        "engine": r.engine,
        "deadlock_free": r.deadlock_free,
        "credit_loop": None if r.credit_loop is None else [list(step) for step in r.credit_loop],
        "unreachable": r.unreachable,
        "hops": {str(h): n for h, n in sorted(r.hops.items())},
        "tables": r.tables or r.engine,
        "loops": r.loops,
        "ports_without_lid": r.ports_without_lid,
        "switch_unreachable": r.switch_unreachable,
        "origin": r.origin,
        "notes": r.notes,
        **r.more,
    }


def route_json(r: RoutingPart, problems: Iterable[Problem]) -> dict[str, Any]:
    """What ``route --json`` prints (:class:`softib.render.documents.Route`)."""
    return document("route", **routing_json(r), problems=[p.to_json() for p in problems])


def diff_json(a: str, b: str, changes: Sequence[Change], problems: Iterable[Problem]) -> dict[str, Any]:
    """What ``diff --json`` prints (:class:`softib.render.documents.Diff`)."""
    rows = [c.to_json() for c in changes]
    return document("diff", a=a, b=b, equal=not changes, changes=rows, problems=[p.to_json() for p in problems])


def report_json(report: Report) -> dict[str, Any]:
    """What ``report --json`` prints (:class:`softib.render.documents.Report`)."""
    return document(
        "report",
        **_common(report),
        bring_up=None if report.bring_up is None else {**report.bring_up.numbers, "notes": report.bring_up.notes},
        routing=None if report.routing is None else routing_json(report.routing),
        prediction=prediction_json(report.prediction),
        traffic=traffic_json(report.traffic),
        engines=[row.to_json() for row in report.engines],
        seconds={k: round(v, 3) for k, v in report.seconds.items()},
    )
