"""Cables that join the ports that the plan says: do they run as fast, are they as long as planned?"""

from __future__ import annotations

import re
from collections import Counter

from softib.diags.cabling_plan.plan_on_fabric import PlanOnFabric
from softib.diags.finding import Finding, Severity
from softib.diags.registry import code, finding
from softib.diags.view import speed_text
from softib.plural import counted

__all__ = ["right_cables"]

PLAN_SPEED = code(
    "plan-wrong-speed",
    Severity.WARNING,
    "a planned cable runs slower than planned",
    "reseat or replace the cable; check the enabled speeds",
)
PLAN_LENGTH = code(
    "plan-wrong-length",
    Severity.WARNING,
    "a cable is not of the planned length",
    "check that this is the planned cable; latency and reach depend on it",
)

LENGTH_TOLERANCE = 0.25
"""Share of the planned length (at least 1 m) by which a cable may differ."""
MANY, HALF = 8, 0.5
"""Cables, and share of their kind, that differ alike from which they are one finding."""
_DIGITS = re.compile(r"\d+")


def right_cables(on: PlanOnFabric, rows: list[int]) -> None:
    """Judge speed and length of the cables of ``rows``, which join their planned ports.

    Where half of the cables of a kind differ from the plan alike, that is one finding: the plan, or
    what the file states.
    """
    kinds: Counter[tuple[str, str]] = Counter()
    alike: dict[tuple[str, tuple[str, str], str], list[int]] = {}
    for row in rows:
        note = _speed_note(on, row)
        status = "wrong-speed" if note else "matched"
        if not note:
            note = _length_note(on, row)
            status = "wrong-length" if note else "matched"
        on.add(status, row, note)
        kind = _kind(on, row)
        kinds[kind] += 1
        if note:
            alike.setdefault((status, kind, note), []).append(row)
    for (status, kind, note), differing in alike.items():
        code = PLAN_SPEED if status == "wrong-speed" else PLAN_LENGTH
        if len(differing) >= max(MANY, HALF * kinds[kind]):
            on.findings.append(_bulk(on, code, differing, kinds[kind], kind, note))
            continue
        for row in differing:
            a, b = on.port[row].tolist()
            on.findings.append(
                finding(code, on.locations([row]), f"{on.view.link_name(a, b)}: {note}", on.evidence(row))
            )


def _bulk(on: PlanOnFabric, code: str, rows: list[int], of: int, kind: tuple[str, str], note: str) -> Finding:
    a, b = on.port[rows[0]].tolist()
    return finding(
        code,
        on.locations(rows),
        f"{len(rows)} of {counted(of, 'cable')} {kind[0]} ↔ {kind[1]}, for example {on.view.link_name(a, b)}: each "
        f"{note}",
        {"cables": len(rows), "of": of, "lines": [int(on.plan.line[r]) for r in rows]},
        advice="so many alike: look first at whether plan and source state the same thing",
    )


def _kind(on: PlanOnFabric, row: int) -> tuple[str, str]:
    """What the names of both ends have in common with others: digits are numbers."""
    nodes = on.view.fabric.port_node[on.port[row]].tolist()
    a, b = sorted(_DIGITS.sub("#", on.view.names[n]) for n in nodes)
    return a, b


def _speed_note(on: PlanOnFabric, row: int) -> str:
    view = on.view
    a, b = int(on.port[row, 0]), int(on.port[row, 1])
    planned, lanes = on.rows.value(row, "speed"), on.rows.value(row, "lanes")
    if "speeds" not in view.records or not planned:
        return ""
    speed, width = min(int(view.speed[a]), int(view.speed[b])), min(int(view.lanes[a]), int(view.lanes[b]))
    if speed >= planned and (width >= lanes or not lanes):
        return ""
    found, wanted = speed_text(speed, width), speed_text(planned, lanes or 4)
    if speed == planned:  # the lanes make the difference: show them of both
        found, wanted = f"{width}x {speed_text(speed)}", f"{lanes or 4}x {speed_text(planned)}"
    return f"runs at {found}, planned {wanted}"


def _length_note(on: PlanOnFabric, row: int) -> str:
    planned = on.rows.length(row)
    found = float(on.view.fabric.cable_length_m[on.view.fabric.port_cable[on.port[row, 0]]])
    if not (planned > 0 and found > 0) or abs(found - planned) <= max(1.0, LENGTH_TOLERANCE * planned):
        return ""
    return f"is {found:g} m long, planned {planned:g} m"
