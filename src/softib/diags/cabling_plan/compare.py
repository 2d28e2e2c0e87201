"""Compares a cabling plan with a fabric, cable by cable.

Every cable of the plan gets one status; rows that tell it again (from its other end, or in another
file) count once:

* ``matched`` – the cable joins the two planned ports;
* ``wrong-speed``, ``wrong-length`` – it does, but runs slower than planned, or is of another
  length;
* ``swapped`` – two planned cables are exchanged at one end: both are found, each in the other's
  place;
* ``misplaced`` – the planned port holds a cable that leads elsewhere;
* ``missing`` – both planned ports are free, or one is and the node of the other is absent;
* ``conflict`` – another row gives one of its ports another far end, and the fabric does not side
  with this row;
* ``unmatched`` – a name or port of the plan is not in the fabric, for one of
  :data:`~softib.fabric.formats.cabling.name_index.REASONS`.

Cables of the fabric that no row plans are ``unexpected``: between nodes that the plan names, and at
a switch where the plan has most of the cables of that kind (to hosts, to switches), or has most of
them at all switches that it names. A plan of the spine layer says nothing about hosts, and no plan
lists the backplane of a director.
"""

from __future__ import annotations

from collections import Counter

import numpy as np

from softib.diags.cabling_plan.absent_nodes import absent_nodes
from softib.diags.cabling_plan.plan_on_fabric import PlanOnFabric
from softib.diags.cabling_plan.result import STATUSES, PlanComparison
from softib.diags.cabling_plan.right_cables import right_cables
from softib.diags.cabling_plan.unclear_rows import conflicting_rows, unmatched_rows
from softib.diags.cabling_plan.unplanned_cables import unplanned_cables
from softib.diags.cabling_plan.wrong_cables import swapped_cables, wrong_cables
from softib.diags.view import FabricView
from softib.fabric.formats.cabling.name_index import REASONS
from softib.fabric.formats.cabling.plan import CablingPlan
from softib.fabric.model import Fabric

__all__ = ["compare"]


def compare(fabric: Fabric, plan: CablingPlan) -> PlanComparison:
    """Compare ``fabric`` with ``plan``: findings, one table line a cable, and counts by
    :data:`STATUSES`."""
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
    """Each row by one of the judges, then the cables that no row has."""
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
    absent = absent_nodes(on, unknown)
    unmatched_rows(on, [row for row in unknown if row not in absent])
    unplanned_cables(on)
