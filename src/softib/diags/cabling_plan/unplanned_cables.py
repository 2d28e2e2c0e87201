"""Cables of the fabric that no row of the plan has."""

from __future__ import annotations

from collections import Counter

import numpy as np

from softib.diags.cabling_plan.plan_on_fabric import PlanOnFabric
from softib.diags.cabling_plan.result import PlannedCable
from softib.diags.finding import Severity
from softib.diags.registry import code, finding
from softib.fabric.formats.cabling.match import is_unnamed
from softib.fabric.formats.cabling.name_index import UNNAMED_ADAPTER
from softib.fabric.formats.cabling.node_address import address_of
from softib.plural import counted

__all__ = ["unplanned_cables"]

PLAN_UNEXPECTED = code(
    "plan-unexpected-cable",
    Severity.WARNING,
    "a cable between planned nodes that the plan does not have",
    "remove the cable, or complete the plan",
)

MANY = 32
"""More unexpected cables than this are one finding."""
MOST = 0.5
"""A plan with more than this share of the cables of one kind plans all of them."""


def unplanned_cables(on: PlanOnFabric) -> None:
    """Cables of the fabric that no row has, where the plan should have them."""
    view = on.view
    rows = np.flatnonzero(_unplanned(on))
    kinds = Counter(view.names)
    unnamed = 0
    for row in rows.tolist():
        a, b = int(view.port_a[row]), int(view.port_b[row])
        host = next((n for n in (int(view.node_a[row]), int(view.node_b[row])) if view.is_host[n]), -1)
        nameless = host >= 0 and is_unnamed(view.names[host], kinds[view.names[host]])
        unnamed += nameless
        note = UNNAMED_ADAPTER if nameless else ""
        on.table.append(
            PlannedCable("unexpected", "", 0, ("", ""), (str(view.location(a)), str(view.location(b))), note)
        )
        if len(rows) <= MANY:
            on.findings.append(
                finding(
                    PLAN_UNEXPECTED,
                    [view.location(a), view.location(b)],
                    f"{view.link_name(a, b)} is in no row of the plan",
                )
            )
    if len(rows) > MANY:
        where = [view.location(int(end[row])) for row in rows.tolist() for end in (view.port_a, view.port_b)]
        more = f"; {unnamed} of them lead to adapters without a name" if unnamed else ""
        on.findings.append(
            finding(
                PLAN_UNEXPECTED,
                where,
                f"{counted(len(rows), 'cable')} between planned nodes are in no row of "
                f"the plan, {where[0]} ↔ {where[1]} the first{more}",
                {"cables": len(rows), "unnamed_adapters": unnamed},
            )
        )


def _unplanned(on: PlanOnFabric) -> np.ndarray:
    """bool[cables of the view]: no row uses their ports, and the plan should have them."""
    view, nodes = on.view, len(on.view.names)
    used = np.zeros(view.fabric.sizes.ports, bool)
    used[on.port[on.port >= 0]] = True
    named = np.zeros(nodes, bool)
    named[view.fabric.port_node[used]] = True
    a, b = view.node_a, view.node_b
    outside = ~view.is_sharp[a] & ~view.is_sharp[b] & ~_inside_a_chassis(on)
    free = outside & ~used[view.port_a] & ~used[view.port_b]
    # Each cable from both of its ends; of a switch, cables to hosts and cables to switches are two kinds.
    node, peer = np.concatenate([a, b]), np.concatenate([b, a])
    of_switch = np.tile(outside, 2) & view.is_switch[node]
    kind = node.astype(np.int64) * 2 + view.is_host[peer]
    planned = of_switch & used[np.concatenate([view.port_a, view.port_b])]
    everything, listed = (np.bincount(kind[x], minlength=2 * nodes) for x in (of_switch, planned))
    most = listed > MOST * everything
    for to_host in (0, 1):
        all_named = np.flatnonzero(named) * 2 + to_host
        if listed[all_named].sum() > MOST * everything[all_named].sum():
            most[all_named] = True
    covered = of_switch & most[kind]
    return np.asarray(free & ((named[a] & named[b]) | covered.reshape(2, -1).any(axis=0)))


def _inside_a_chassis(on: PlanOnFabric) -> np.ndarray:
    """bool[cables]: between two chips of one director, which nobody cables."""
    view = on.view
    at = [address_of(name) if view.is_switch[n] else None for n, name in enumerate(view.names)]
    system: dict[str, int] = {}
    chassis = np.array(
        [-1 if x is None or not x.card else system.setdefault(x.system, len(system)) for x in at], np.int64
    )
    a, b = view.node_a, view.node_b
    return np.asarray((chassis[a] >= 0) & (chassis[a] == chassis[b]))
