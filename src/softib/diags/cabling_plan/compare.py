"""Compares a cabling plan with a fabric, cable by cable. Every cable of the plan gets one status. Rows that repeat a
cable (from its other end, or in another file) are counted once:

* ``matched`` – the cable joins the two planned ports;
* ``wrong-speed``, ``wrong-length`` – the cable joins the two planned ports, but is slower than planned, or has another
  length;
* ``swapped`` – two planned cables are exchanged at one end;
* ``misplaced`` – the cable at the planned port leads to another port;
* ``missing`` – both planned ports are free, or one is free and the node of the other is absent;
* ``conflict`` – another row plans a different cable at one of its ports, and the fabric agrees with that row;
* ``unmatched`` – a name or port of the plan is not in the fabric, for one of
  :data:`~softib.fabric.formats.cabling.name_index.REASONS`.

A cable of the fabric without a row in the plan is ``unexpected`` in two cases: if the plan names both of its nodes, or
if it is at a switch and the plan has most of the cables of its kind (to hosts, to switches) at this switch or at all
planned switches. A plan of the spine layer may therefore omit hosts, and a plan need not list the backplane of a
director.
"""

from __future__ import annotations

from collections import Counter

import numpy as np

from softib.diags.cabling_plan.plan_on_fabric import STATUSES, PlanComparison, PlannedCable, PlanOnFabric
from softib.diags.cabling_plan.planned_cables import right_cables, swapped_cables, wrong_cables
from softib.diags.cabling_plan.unclear_rows import (
    absent_nodes,
    conflicting_rows,
    rows_of_another_fabric,
    unmatched_rows,
)
from softib.diags.finding import Severity, code, few, finding
from softib.diags.view import FabricView
from softib.fabric.formats.cabling.match import is_unnamed
from softib.fabric.formats.cabling.name_index import REASONS, UNNAMED_ADAPTER
from softib.fabric.formats.cabling.plan import CablingPlan
from softib.fabric.model import Fabric
from softib.iba.node_description import address_of
from softib.plural import counted, plural

__all__ = ["compare", "unplanned_cables"]


PLAN_UNEXPECTED = code(
    "plan-unexpected-cable",
    Severity.WARNING,
    "a cable between planned nodes is not in the plan",
    "remove the cable, or complete the plan",
)
PLAN_PARTS = code(
    "plan-hidden-parts",
    Severity.INFO,
    "parts of the plan are hidden or marked as cancelled: the finding says what was read and what was left out",
    "unhide what belongs to the plan, and delete what does not",
)

MANY = 32
"""If there are more unexpected cables than this, they are reported in one finding."""
MOST = 0.5
"""If the plan has more than this share of the cables of a kind, it is assumed to contain all of them."""


def unplanned_cables(on: PlanOnFabric) -> None:
    """Report cables of the fabric that the plan should contain but does not."""
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
        hint = f"; {unnamed} of them lead to adapters without a name" if unnamed else ""
        on.findings.append(
            finding(
                PLAN_UNEXPECTED,
                where,
                f"{counted(len(rows), 'cable')} between planned nodes are in no row of "
                f"the plan, {where[0]} ↔ {where[1]} the first{hint}",
                {"cables": len(rows), "unnamed_adapters": unnamed},
            )
        )


def _unplanned(on: PlanOnFabric) -> np.ndarray:
    """Return whether each cable should be in the plan although its ports are in no row (bool[cables of the view])."""
    view, nodes = on.view, len(on.view.names)
    used = np.zeros(view.fabric.sizes.ports, bool)
    used[on.port[on.port >= 0]] = True
    named = np.zeros(nodes, bool)
    named[view.fabric.port_node[used]] = True
    a, b = view.node_a, view.node_b
    outside = ~view.is_sharp[a] & ~view.is_sharp[b] & ~_inside_a_chassis(on)
    outside[list(on.left_out)] = False
    free = outside & ~used[view.port_a] & ~used[view.port_b]
    # Each cable is counted at both of its ends. At a switch, cables to hosts and cables to switches are two kinds.
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
    """Return whether each cable is between two chips of one director and therefore part of its backplane
    (bool[cables])."""
    view = on.view
    at = [address_of(name) if view.is_switch[n] else None for n, name in enumerate(view.names)]
    system: dict[str, int] = {}
    chassis = np.array(
        [-1 if x is None or not x.card else system.setdefault(x.system, len(system)) for x in at], np.int64
    )
    a, b = view.node_a, view.node_b
    return np.asarray((chassis[a] >= 0) & (chassis[a] == chassis[b]))


def compare(fabric: Fabric, plan: CablingPlan) -> PlanComparison:
    """Compare ``fabric`` with ``plan``. The result has findings, a table with one line per cable, and the number of
    cables with each status of :data:`STATUSES`.
    """
    work = PlanOnFabric(FabricView(fabric), plan)
    _judge(work)
    counts = Counter(t.status for t in work.table)
    reasons = Counter(t.reason for t in work.table)
    return PlanComparison(
        plan.files,
        {"all": len(plan), "repeated": work.rows.repeated, "mirrored": work.rows.mirrored},
        {s: counts[s] for s in STATUSES},
        {r: reasons[r] for r in REASONS if reasons[r]},
        work.table,
        work.findings,
        work.rows.other_problems(),
        _as_planned(work),
    )


def _as_planned(on: PlanOnFabric) -> frozenset[tuple[int, int]]:
    f = on.view.fabric
    whole = (on.port >= 0).all(axis=1) & (on.peer[:, 0] == on.port[:, 1])
    ports = on.port[whole].ravel()
    return frozenset(zip(f.node_guid[f.port_node[ports]].tolist(), f.port_num[ports].tolist(), strict=True))


def _judge(on: PlanOnFabric) -> None:
    """Check each row, then the cables without a row."""
    port, rows = on.port, on.rows
    whole = (port >= 0).all(axis=1)
    right = whole & (on.peer[:, 0] == port[:, 1]) & (port[:, 0] != port[:, 1])
    right_cables(on, np.flatnonzero(right & rows.first).tolist())
    against = rows.conflicting & ~right
    wrong = np.flatnonzero(whole & ~right & rows.first & ~against).tolist()
    swapped = swapped_cables(on, wrong)
    wrong_cables(on, [row for row in wrong if row not in swapped])
    conflicting_rows(on, np.flatnonzero(against & rows.first).tolist(), right)
    unknown = np.flatnonzero(~whole & rows.first & ~against).tolist()
    elsewhere = rows_of_another_fabric(on, unknown)
    unknown = [row for row in unknown if row not in elsewhere]
    absent = absent_nodes(on, unknown)
    unmatched_rows(on, [row for row in unknown if row not in absent])
    unplanned_cables(on)
    _parts(on)


def _parts(on: PlanOnFabric) -> None:
    """Report hidden and omitted parts of the plan, and cancelled cables that exist in the fabric."""
    view = on.view
    there = [(cable, row) for cable, row in on.left_out.items() if row["status"]]
    ends = [(int(view.port_a[cable]), int(view.port_b[cable])) for cable, _ in there]
    notes = list(on.plan.notes)
    if there:
        links = [f"{view.link_name(*ports)} (line {row['line']})" for ports, (_, row) in zip(ends, there, strict=True)]
        be = plural(len(links), "is", "are")
        notes.append(f"{counted(len(links), 'cable')} of these rows {be} in the fabric: {few(links)}")
    if notes:
        where = [view.location(p) for ports in ends for p in ports]
        on.findings.append(finding(PLAN_PARTS, where, "; ".join(notes), {"notes": notes}))
