"""Planned nodes that the fabric does not have, and whose place is free: dead, or never reached.

A name that no node has is misspelled where the planned peers hold cables, and where a node that no
row names has no cable either: that may be the one that is meant. Where every planned peer's port is
free, the node is absent, and all of its planned cables are missing with it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from softib.diags.cabling_plan.plan_on_fabric import PlanOnFabric
from softib.diags.finding import Severity
from softib.diags.registry import Each, code, each_or_one, few
from softib.fabric.formats.cabling.name_index import UNKNOWN_DEVICE
from softib.foreign_text import shown
from softib.plural import counted

__all__ = ["absent_nodes"]

PLAN_ABSENT = code(
    "plan-absent-node",
    Severity.ERROR,
    "a planned node is not in the fabric, and the ports that the plan cables it to are free",
    "look whether it has power, and whether the scan reached it; where it has another name, correct the plan",
)

MANY = 32
"""More absent nodes are one finding: not yet built, or another fabric's plan."""


@dataclass
class _Device:
    """A name that no node has: ``rows`` of the plan with it, ``partners`` without a node among their
    other ends, and how many of the known other ends are ``free`` and ``used``."""

    rows: list[int] = field(default_factory=list)
    partners: list[str] = field(default_factory=list)
    free: int = 0
    used: int = 0


def absent_nodes(on: PlanOnFabric, rows: list[int]) -> set[int]:
    """Report those of ``rows`` (not found by name) that lead to absent nodes; return them."""
    devices = _devices(on, rows)
    absent = {name: d for name, d in devices.items() if d.free and not d.used}
    if not absent or _misspelled(on):
        return set()
    # What is planned at absent nodes alone went with them, or has no other witness.
    with_it = {n for n, d in devices.items() if not (d.free or d.used) and set(d.partners) <= absent.keys()}
    done: set[int] = set()
    several: list[Each] = []
    for name, d in absent.items():
        mine = [row for row in d.rows if row not in done and set(_unknown(on, row)) <= absent.keys() | with_it]
        if not mine:
            continue
        done.update(mine)
        for row in mine:
            on.add("missing", row, f"{shown(name)} is absent")
        several.append(_absent(on, name, d, mine, sorted(with_it.intersection(d.partners))))
    on.findings += each_or_one(
        PLAN_ABSENT, several, f"{len(several)} planned nodes are absent", count="nodes", most=MANY
    )
    return done


def _unknown(on: PlanOnFabric, row: int) -> Iterable[str]:
    """The names of the row's ends that no node has; another reason than that counts as a name too."""
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
    """True where a node that no row names stands without a cable: the plan may mean that one."""
    f = on.view.fabric
    alone = np.bincount(f.port_node[f.port_cable >= 0], minlength=f.sizes.nodes) == 0
    alone[on.matched.node[on.matched.node >= 0]] = False
    return bool(alone.any())


def _absent(on: PlanOnFabric, name: str, device: _Device, rows: list[int], with_it: list[str]) -> Each:
    more = f", and with it {few(map(shown, with_it))}" if with_it else ""
    free = f"{counted(device.free, 'planned peer port')} {'is' if device.free == 1 else 'are'} free"
    return (
        on.locations(rows),
        f"{shown(name)} is planned with {counted(len(device.rows), 'cable')} and is absent{more}: {free}",
        {
            "name": name,
            "cables": len(device.rows),
            "free": device.free,
            "with_it": with_it,
            "lines": [int(on.plan.line[r]) for r in rows],
        },
    )
