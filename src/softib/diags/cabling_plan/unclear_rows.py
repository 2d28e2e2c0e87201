"""Rows of the plan that say nothing of the fabric: they contradict another row, or name what is not
there."""

from __future__ import annotations

import numpy as np

from softib.diags.cabling_plan.plan_on_fabric import PlanOnFabric
from softib.diags.finding import Severity
from softib.diags.registry import code, finding
from softib.fabric.formats.cabling.name_index import REASONS, UNKNOWN_DEVICE, UNNAMED_ADAPTER
from softib.plural import counted

__all__ = ["conflicting_rows", "unmatched_rows"]

PLAN_CONFLICT = code(
    "plan-conflicting-rows",
    Severity.WARNING,
    "two rows of the plan cable one port to different places",
    "correct the plan; where the fabric agrees with one of the rows, it is named",
)
PLAN_UNMATCHED = code(
    "plan-unmatched-row",
    Severity.WARNING,
    "a row of the plan names a node or port that the fabric does not have",
    "correct the name in the plan, or give a node-name-map",
)

MANY = 32
"""More devices with rows that do not match are one finding."""


def conflicting_rows(on: PlanOnFabric, rows: list[int], right: np.ndarray) -> None:
    """Rows that give a port another far end than another row; ``right`` bool[rows]: the fabric has
    the row's cable."""
    for row in rows:
        a, b = on.names(row)
        others = on.rows.rivals(row)
        row_name = on.plan.row_name(row)
        sides = [o for o in others if right[o]]
        if not others:
            note = f"both ends are {a}: a cable has two ends"
        else:
            o = (sides or others)[0]
            c, d = on.names(o)
            name = on.plan.row_name(o)
            note = f"{name} has {c} ↔ {d}" + (", and so has the fabric" if sides else "")
        on.add("conflict", row, note)
        on.findings.append(
            finding(
                PLAN_CONFLICT,
                on.locations([row]),
                f"plan {row_name}: {a} ↔ {b}, but {note}",
                {**on.evidence(row), "rivals": [on.plan.row_name(o) for o in others]},
            )
        )


def unmatched_rows(on: PlanOnFabric, rows: list[int]) -> None:
    """One finding a device that rows name in vain; many are one finding a reason."""
    by_reason: dict[str, dict[str, list[tuple[int, int]]]] = {}
    for row in rows:
        worst, end = min((REASONS.index(on.matched.reason[row, e]), e) for e in (0, 1) if on.port[row, e] < 0)
        reason = REASONS[worst]
        on.add("unmatched", row, on.matched.why.get((row, end), ""), reason)
        device = str(on.plan.node[row, end]) if reason != UNNAMED_ADAPTER else ""
        by_reason.setdefault(reason, {}).setdefault(device, []).append((row, end))
    for reason in REASONS:
        _unmatched_for(on, reason, by_reason.get(reason, {}))


def _unmatched_for(on: PlanOnFabric, reason: str, devices: dict[str, list[tuple[int, int]]]) -> None:
    total = sum(map(len, devices.values()))
    if len(devices) > MANY:
        shown = ", ".join(list(devices)[:3])
        on.findings.append(
            finding(
                PLAN_UNMATCHED,
                [],
                f"{counted(total, 'cable')} of the plan: {reason}; {counted(len(devices), 'device')}: {shown}, …",
                {
                    "reason": reason,
                    "cables": total,
                    "devices": len(devices),
                    "names": list(devices),
                    "lines": [int(on.plan.line[r]) for ends in devices.values() for r, _ in ends],
                },
            )
        )
        return
    for device, ends in devices.items():
        row, end = ends[0]
        more = f" (and {counted(len(ends) - 1, 'more cable')})" if len(ends) > 1 else ""
        why = on.matched.why.get((row, end), reason)
        text = why if reason == UNKNOWN_DEVICE else f"{on.plan.end_name(row, end)}: {why}"
        name = on.plan.row_name(row)
        on.findings.append(
            finding(
                PLAN_UNMATCHED,
                on.locations(r for r, _ in ends),
                f"plan {name}: {text}{more}" if name else text + more,
                {
                    **on.evidence(row),
                    "reason": reason,
                    "cables": len(ends),
                    "names": [device],
                    "lines": [int(on.plan.line[r]) for r, _ in ends],
                },
            )
        )
