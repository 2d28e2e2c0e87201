"""Cables that join the ports that the plan says: do they run as fast, are they as long as planned?"""

from __future__ import annotations

from softib.diags.cabling_plan.plan_on_fabric import PlanOnFabric
from softib.diags.finding import Severity
from softib.diags.registry import code, finding
from softib.diags.view import speed_text

__all__ = ["right_cable"]

PLAN_SPEED = code(
    "plan-wrong-speed", Severity.WARNING, "a planned cable runs slower than planned",
    "reseat or replace the cable; check the enabled speeds")  # fmt: skip
PLAN_LENGTH = code(
    "plan-wrong-length", Severity.WARNING, "a cable is not of the planned length",
    "check that this is the planned cable; latency and reach depend on it")  # fmt: skip

LENGTH_TOLERANCE = 0.25
"""Share of the planned length (at least 1 m) by which a cable may differ."""


def right_cable(on: PlanOnFabric, row: int) -> None:
    """Judge speed and length of the cable of ``row``, which joins the two planned ports."""
    note = _speed_note(on, row)
    status = "wrong-speed" if note else "matched"
    if not note:
        note = _length_note(on, row)
        status = "wrong-length" if note else "matched"
    on.add(status, row, note)
    if note:
        a, b = on.port[row].tolist()
        on.findings.append(finding(PLAN_SPEED if status == "wrong-speed" else PLAN_LENGTH, on.locations([row]),
                             f"{on.view.link_name(a, b)}: {note}", on.evidence(row)))  # fmt: skip


def _speed_note(on: PlanOnFabric, row: int) -> str:
    view = on.view
    a, b = int(on.port[row, 0]), int(on.port[row, 1])
    planned, lanes = on.rows.value(row, "speed"), on.rows.value(row, "lanes")
    if "speeds" not in view.records or not planned:
        return ""
    speed, width = min(int(view.speed[a]), int(view.speed[b])), min(int(view.lanes[a]), int(view.lanes[b]))
    if speed >= planned and (width >= lanes or not lanes):
        return ""
    return f"runs at {speed_text(speed, width)}, planned {speed_text(planned, lanes or 4)}"


def _length_note(on: PlanOnFabric, row: int) -> str:
    planned = on.rows.length(row)
    found = float(on.view.fabric.cable_length_m[on.view.fabric.port_cable[on.port[row, 0]]])
    if not (planned > 0 and found > 0) or abs(found - planned) <= max(1.0, LENGTH_TOLERANCE * planned):
        return ""
    return f"is {found:g} m long, planned {planned:g} m"
