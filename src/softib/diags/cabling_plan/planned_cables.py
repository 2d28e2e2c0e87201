"""Finds planned cables that are exchanged, lead to another port, are missing, or have another speed or length."""

from __future__ import annotations

import re
from collections import Counter

from softib.diags.cabling_plan.plan_on_fabric import PlanOnFabric
from softib.diags.finding import Each, Finding, Severity, code, each_or_one, finding
from softib.diags.view import speed_text
from softib.plural import counted

__all__ = ["right_cables", "swapped_cables", "wrong_cables"]


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
"""Allowed deviation from the planned length, as a share of it. A deviation of up to 1 m is always allowed."""
MANY, HALF = 8, 0.5
"""Minimum number of cables with the same difference from the plan, and their minimum share of their kind, for one
common finding.
"""
_DIGITS = re.compile(r"\d+")


def right_cables(on: PlanOnFabric, rows: list[int]) -> None:
    """Check speed and length of the cables of ``rows``, which join their planned ports. If half of the cables of a kind
    differ from the plan in the same way, they are one finding, because then the plan or the file is probably wrong.
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
        advice="many equal differences: check first whether plan and source mean the same",
    )


def _kind(on: PlanOnFabric, row: int) -> tuple[str, str]:
    """Return the kind of the cable: the names of both ends with digits replaced."""
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
    rate, wanted = speed_text(speed, width), speed_text(planned, lanes or 4)
    if speed == planned:  # only the number of lanes differs, so state it for both
        rate, wanted = f"{width}x {speed_text(speed)}", f"{lanes or 4}x {speed_text(planned)}"
    return f"runs at {rate}, planned {wanted}"


def _length_note(on: PlanOnFabric, row: int) -> str:
    planned = on.rows.length(row)
    metres = float(on.view.fabric.cable_length_m[on.view.fabric.port_cable[on.port[row, 0]]])
    if not (planned > 0 and metres > 0) or abs(metres - planned) <= max(1.0, LENGTH_TOLERANCE * planned):
        return ""
    return f"is {metres:g} m long, planned {planned:g} m"


PLAN_SWAPPED = code(
    "plan-swapped-cables",
    Severity.ERROR,
    "two planned cables are exchanged at one end",
    "exchange the two plugs at one end",
)
PLAN_MISPLACED = code(
    "plan-misplaced-cable",
    Severity.ERROR,
    "a planned port holds a cable that leads elsewhere",
    "move the plug to the planned port",
)
PLAN_MISSING = code(
    "plan-missing-cable",
    Severity.ERROR,
    "a planned cable is missing",
    "plug the cable in, or check why its link is down",
)

FEW_SWAPS = 3
"""Maximum number of separate findings about swapped host cables between two switches. More swaps are one finding: two
racks, or two switches, are exchanged.
"""
MANY_AT_NODE = 8
"""Maximum number of separate findings about missing (or misplaced) cables at one node. More are one finding. If all
cables of the node are missing, they are also one finding, because the node is off or not yet cabled.
"""


def swapped_cables(on: PlanOnFabric, wrong: list[int]) -> set[int]:
    """Report pairs of ``wrong`` rows that are exchanged at one end; return their rows."""
    pairs: dict[int, int] = {}
    waiting = {int(p): row for row in wrong for p in on.port[row]}
    done: set[int] = set()
    for row in wrong:
        if row in done:
            continue
        for end in (0, 1):
            peer_port = int(on.peer[row, end])
            other = waiting.get(peer_port, -1)
            if other >= 0 and other not in done and other != row and _exchanged(on, row, end, other, peer_port):
                pairs[row] = other
                done.update((row, other))
                break
    between: dict[tuple[int, ...], list[Each]] = {}
    for row, other in pairs.items():
        nodes = {int(n) for r in (row, other) for n in on.view.fabric.port_node[on.port[r]]}
        switches = tuple(sorted(n for n in nodes if on.view.is_switch[n]))
        key: tuple[int, ...] = (
            switches if len(switches) == 2 else (row,)
        )  # hosts of two switches, so two racks may be exchanged
        between.setdefault(key, []).append(_swap(on, row, other))
    for of_switches, several in between.items():
        one, two = (on.view.display_names[n] for n in of_switches) if len(of_switches) == 2 else ("", "")
        on.findings += each_or_one(
            PLAN_SWAPPED,
            several,
            f"{len(several)} planned cables of {one} are swapped with {len(several)} of {two}",
            {"lines": [line for _, _, evidence in several for line in evidence["lines"]]},
            most=FEW_SWAPS,
            count="swaps",
        )
    return done


def _exchanged(on: PlanOnFabric, row: int, end: int, other: int, peer_port: int) -> bool:
    """Return whether two rows are exchanged. The port ``end`` of ``row`` is cabled to a port of the row ``other``; the
    rows are exchanged if their other two ports are also cabled to each other.
    """
    rest = int(on.port[row, 1 - end])
    other_end = int(on.port[other, 0] if on.port[other, 1] == peer_port else on.port[other, 1])
    return int(on.view.fabric.port_peer[rest]) == other_end


def _swap(on: PlanOnFabric, row: int, other: int) -> Each:
    for r, o in ((row, other), (other, row)):
        name = on.plan.row_name(o)
        on.add("swapped", r, f"with plan {name}" if name else "")
    a, b = on.names(row)
    c, d = on.names(other)
    return (
        on.locations((row, other)),
        f"{a} ↔ {b} and {c} ↔ {d} of the plan are swapped: found {' and '.join(on.found(row))}",
        {"lines": [int(on.plan.line[r]) for r in (row, other)]},
    )


def wrong_cables(on: PlanOnFabric, rows: list[int]) -> None:
    """Report rows of which at least one planned port has another cable, or none."""
    missing = [row for row in rows if not on.found(row)]
    misplaced = [row for row in rows if on.found(row)]
    for row in misplaced:
        on.add("misplaced", row)
    for row in missing:
        on.add("missing", row)
    _misplaced(on, misplaced)
    _missing(on, missing)


def _misplaced(on: PlanOnFabric, rows: list[int]) -> None:
    """Report one finding per misplaced cable, or one finding for a node with many."""
    per_node = Counter(int(n) for row in rows for n in set(on.matched.node[row].tolist()))
    left = rows
    for n in [*(n for n, count in per_node.most_common() if count > MANY_AT_NODE), -1]:
        here = [row for row in left if n < 0 or n in on.matched.node[row]]
        if n >= 0 and len(here) <= MANY_AT_NODE:
            continue
        left = [row for row in left if row not in set(here)]
        several: list[Each] = []
        for row in here:
            a, b = on.names(row)
            text = f"{a} ↔ {b} is planned; found {' and '.join(on.found(row))}"
            several.append((on.locations([row]), text, on.evidence(row)))
        name = on.view.display_names[n] if n >= 0 else ""
        on.findings += each_or_one(
            PLAN_MISPLACED,
            several,
            f"{name}: {len(here)} planned cables lead elsewhere",
            count="cables",
            most=MANY_AT_NODE if n >= 0 else len(here),
        )


def _missing(on: PlanOnFabric, rows: list[int]) -> None:
    """Report one finding per missing cable, or one finding for a node with many."""
    node = on.matched.node
    planned = Counter(node[on.rows.first].ravel().tolist())
    per_node = Counter(int(n) for row in rows for n in set(node[row].tolist()))
    left = rows
    for n in [n for n, count in per_node.most_common() if count > (MANY_AT_NODE if count < planned[n] else 1)]:
        at_node = [row for row in left if n in node[row]]
        if len(at_node) <= (MANY_AT_NODE if len(at_node) < planned[n] else 1):
            continue
        left = [row for row in left if n not in node[row]]
        share = "none" if len(at_node) == planned[n] else f"{planned[n] - len(at_node)}"
        there = "is there" if share in ("none", "1") else "are there"
        on.findings.append(
            finding(
                PLAN_MISSING,
                [on.view.node_location(n), *on.locations(at_node)],
                f"{on.view.display_names[n]}: {share} of its {planned[n]} planned cables {there}",
                {"missing": len(at_node), "planned": planned[n], "lines": [int(on.plan.line[r]) for r in at_node]},
            )
        )
    for row in left:
        a, b = on.names(row)
        on.findings.append(
            finding(PLAN_MISSING, on.locations([row]), f"{a} ↔ {b} is planned, but there is no cable", on.evidence(row))
        )
