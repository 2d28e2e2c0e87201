"""Findings that the source contains, because the program that wrote it reported them: the sections ``WARNINGS_*`` and
``ERRORS_*`` of ibdiagnet.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from softib.diags.context import Context
from softib.diags.finding import Finding, Location, Severity, code, finding

SOURCE_REPORTED = code(
    "source-reported",
    Severity.INFO,
    "the program that wrote the source reported problems here (a warning if it reported an error)",
    "the finding quotes its message; softib did not check it",
)


def source_reports(c: Context) -> Iterator[Finding]:
    """Return one finding for each kind of report, in file order."""
    groups: dict[tuple[str, str, str], list[Any]] = {}
    for r in c.view.fabric.source.reported:
        groups.setdefault((r.severity, r.check, r.event), []).append(r)
    for (severity, check, event), rows in groups.items():
        where = list(dict.fromkeys(place for r in rows if (place := _place(c, r))))
        times = f" ({len(rows)} times; this is the first)" if len(rows) > 1 else ""
        yield finding(
            SOURCE_REPORTED,
            where,
            f"ibdiagnet's {severity}s, {check}: {event}{times}: {rows[0].summary}",
            {
                "check": check,
                "event": event,
                "times": len(rows),
                "lines": [r.line for r in rows],
                "summaries": [r.summary for r in rows],
            },
            severity=Severity.WARNING if severity == "error" else Severity.INFO,
        )


def _place(c: Context, r: Any) -> Location | None:
    if r.node is None or not 0 <= r.node < len(c.view.names):
        return None
    return c.view.location_on(r.node, r.portnum)
