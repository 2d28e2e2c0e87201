"""Reports rows of the plan that cannot be compared with the fabric, because they contradict another row, or name nodes
or ports that do not exist.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from softib.components import components
from softib.diags.cabling_plan.plan_on_fabric import PlanOnFabric
from softib.diags.finding import Each, Severity, code, each_or_one, few, finding
from softib.fabric.formats.cabling.name_index import REASONS, UNKNOWN_DEVICE, UNNAMED_ADAPTER
from softib.foreign_text import shown
from softib.plural import counted

__all__ = ["absent_nodes", "conflicting_rows", "rows_of_another_fabric", "unmatched_rows"]


PLAN_ABSENT = code(
    "plan-absent-node",
    Severity.ERROR,
    "a planned node is not in the fabric, and the ports that the plan cables it to are free",
    "check whether it has power, and whether the scan reached it; if it has another name, correct the plan",
)

PLAN_OTHER = code(
    "plan-other-fabric",
    Severity.INFO,
    "the plan covers another fabric too: cables between devices of which none is in this fabric or joined to it",
    "check that fabric with the same plan; if the devices belong to this one, correct their names",
)

MANY_NODES = 32
"""Maximum number of separate findings about absent nodes. More are one finding: the fabric is not yet built, or the
plan belongs to another fabric.
"""


@dataclass
class _Device:
    """A name in the plan that no node has. ``rows``: rows of the plan with this name. At the other ends of these rows,
    ``partners`` are names that no node has; ``free`` and ``used`` are the numbers of known ports without and with a
    cable.
    """

    rows: list[int] = field(default_factory=list)
    partners: list[str] = field(default_factory=list)
    free: int = 0
    used: int = 0


def absent_nodes(on: PlanOnFabric, rows: list[int]) -> set[int]:
    """Report and return the rows that lead to absent nodes. ``rows``: rows with a name or port that was not found."""
    devices = _devices(on, rows)
    absent = {name: d for name, d in devices.items() if d.free and not d.used}
    if not absent or _misspelled(on):
        return set()
    # If all partners of a name are absent, the name is reported with them, because the fabric has no other evidence
    # about it.
    with_it = {n for n, d in devices.items() if not (d.free or d.used) and set(d.partners) <= absent.keys()}
    done: set[int] = set()
    several: list[Each] = []
    for name, d in absent.items():
        lost = [row for row in d.rows if row not in done and set(_unknown(on, row)) <= absent.keys() | with_it]
        if not lost:
            continue
        done.update(lost)
        for row in lost:
            on.add("missing", row, f"{shown(name)} is absent")
        several.append(_absent(on, name, d, lost, sorted(with_it.intersection(d.partners))))
    on.findings += each_or_one(
        PLAN_ABSENT, several, f"{len(several)} planned nodes are absent", count="nodes", most=MANY_NODES
    )
    return done


def rows_of_another_fabric(on: PlanOnFabric, rows: list[int]) -> set[int]:
    """Report and return the rows that belong to another fabric in the plan. ``rows``: rows with a name or port that was
    not found.

    A connected part of the plan is another fabric if it names no device of this fabric, another part names one, and it
    has more than one row (a single row is more likely misspelt).
    """
    names, at = np.unique(np.char.lower(on.plan.node), return_inverse=True)
    ends = at.reshape(-1, 2)
    part = components(len(names), ends[:, 0], ends[:, 1])[ends[:, 0]]
    known = ((on.matched.reason != UNKNOWN_DEVICE) | (on.port >= 0)).any(axis=1)
    here = np.isin(part, part[known])
    if not here.any():
        return set()
    other = {row for row in rows if not here[row] and np.count_nonzero(part == part[row]) > 1}
    for first in np.unique(part[sorted(other)]).tolist() if other else []:
        of_part = [row for row in sorted(other) if part[row] == first]
        devices = list(dict.fromkeys(str(on.plan.node[row, end]) for row in of_part for end in (0, 1)))
        for row in of_part:
            on.add("unmatched", row, "of another fabric", UNKNOWN_DEVICE)
        text = (
            f"{counted(len(of_part), 'cable')} of the plan {'join' if len(of_part) > 1 else 'joins'} "
            f"{counted(len(devices), 'device')} of another fabric: {few(map(shown, devices))}"
        )
        on.findings.append(
            finding(PLAN_OTHER, [], text, {"cables": len(of_part), "devices": len(devices), "names": devices})
        )
    return other


def _unknown(on: PlanOnFabric, row: int) -> Iterable[str]:
    """Return the names of the nodes at the row's ends whose port was not found in the fabric, even if the fabric has
    the node.
    """
    return (str(on.plan.node[row, end]) for end in (0, 1) if on.port[row, end] < 0)


def _devices(on: PlanOnFabric, rows: list[int]) -> dict[str, _Device]:
    devices: dict[str, _Device] = {}
    cabled = on.view.fabric.port_cable >= 0
    for row in rows:
        for end in (0, 1):
            if on.port[row, end] >= 0:
                continue
            device = devices.setdefault(str(on.plan.node[row, end]), _Device())
            device.rows.append(row)
            other = int(on.port[row, 1 - end])
            if on.matched.reason[row, end] != UNKNOWN_DEVICE or (other >= 0 and cabled[other]):
                device.used += 1
            elif other >= 0:
                device.free += 1
            else:
                device.partners.append(str(on.plan.node[row, 1 - end]))
    return devices


def _misspelled(on: PlanOnFabric) -> bool:
    """Return whether the fabric has a node without cables that the plan does not name. Such a node may be misspelt in
    the plan.
    """
    f = on.view.fabric
    alone = np.bincount(f.port_node[f.port_cable >= 0], minlength=f.sizes.nodes) == 0
    alone[on.matched.node[on.matched.node >= 0]] = False
    return bool(alone.any())


def _absent(on: PlanOnFabric, name: str, device: _Device, rows: list[int], with_it: list[str]) -> Each:
    others = f", and with it {few(map(shown, with_it))}" if with_it else ""
    free = f"{counted(device.free, 'planned peer port')} {'is' if device.free == 1 else 'are'} free"
    return (
        on.locations(rows),
        f"{shown(name)} is planned with {counted(len(device.rows), 'cable')} and is absent{others}: {free}",
        {
            "name": name,
            "cables": len(device.rows),
            "free": device.free,
            "with_it": with_it,
            "lines": [int(on.plan.line[r]) for r in rows],
        },
    )


PLAN_CONFLICT = code(
    "plan-conflicting-rows",
    Severity.WARNING,
    "two rows of the plan cable one port to different places",
    "correct the plan; the finding names the row that the fabric agrees with, if any",
)
PLAN_UNMATCHED = code(
    "plan-unmatched-row",
    Severity.WARNING,
    "a row of the plan names a node or port that the fabric does not have",
    "correct the name in the plan, or use a node-name-map",
)

MANY = 32
"""Maximum number of separate findings about unmatched devices. More are one finding."""


def conflicting_rows(on: PlanOnFabric, rows: list[int], right: np.ndarray) -> None:
    """Report rows that plan a different cable at a port than another row does. ``right`` bool[rows]: whether the fabric
    has the row's cable.
    """
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
    """Report each device of the rows that was not found in the fabric. Many devices with the same reason are one
    finding.
    """
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
        rest = f" (and {counted(len(ends) - 1, 'more cable')})" if len(ends) > 1 else ""
        why = on.matched.why.get((row, end), reason)
        text = why if reason == UNKNOWN_DEVICE else f"{on.plan.end_name(row, end)}: {why}"
        name = on.plan.row_name(row)
        on.findings.append(
            finding(
                PLAN_UNMATCHED,
                on.locations(r for r, _ in ends),
                f"plan {name}: {text}{rest}" if name else text + rest,
                {
                    **on.evidence(row),
                    "reason": reason,
                    "cables": len(ends),
                    "names": [device],
                    "lines": [int(on.plan.line[r]) for r, _ in ends],
                },
            )
        )
