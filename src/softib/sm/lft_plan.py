"""How forwarding tables shall change: in which stages, and what to say of it (:mod:`softib.routing.transition` has the reasons)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from softib.iba.constants import LFT_NO_ROUTE
from softib.iba.smp import SwitchInfo
from softib.routing.engine import Routing
from softib.routing.graph import SwitchGraph
from softib.routing.transition import transition_loop, transition_stages
from softib.sm.change_options import ChangeConfig
from softib.sm.database import Database
from softib.sm.ucast_mgr import LftStore

__all__ = ["AT_ONCE", "LftPlan", "plan_change"]

CHECKED = 1 << 22
"""Entries of forwarding tables that are checked for credit loops between old and new ones: a larger subnet's paths would wait for it."""


@dataclass(frozen=True)
class LftPlan:
    """``stage`` int32[LIDs] as of :class:`~softib.routing.transition.Stages`, None: all at once; LIDs without a stage come last. ``discard``: their entries are
    taken away first. ``state``: ``acyclic`` (no credit loop can arise), ``loop`` (one can), ``loops-by-itself`` (the old or new tables have one), or why nothing
    is known: ``unknown-tables``, ``several-vls``, ``too-large``; ``unchanged``."""

    stage: np.ndarray | None = None
    discard: bool = False
    state: str = "unchanged"
    note: str = ""


AT_ONCE = LftPlan()


def plan_change(db: Database, graph: SwitchGraph, routing: Routing, store: LftStore, config: ChangeConfig) -> LftPlan:
    """Asked for tables on one VL, of which the manager knows what every switch holds, of :data:`CHECKED` entries at most."""
    new: np.ndarray = routing.lft
    held = np.full(new.shape, LFT_NO_ROUTE, np.uint8)
    top = SwitchInfo.linear_fdb_top.get(db.switch_info[graph.switch_node])
    tables = store.known(db, graph.switch_node)
    for s, table in enumerate(tables):
        if table is not None:
            width = min(len(table), new.shape[1])
            held[s, :width] = table[:width]
    if np.array_equal(held, new) or all(table is None for table in tables):
        return AT_ONCE
    if any(table is None and top[s] > 0 for s, table in enumerate(tables)):
        return LftPlan(state="unknown-tables")
    if routing.path_sl is not None:
        return LftPlan(state="several-vls")
    if new.size > CHECKED:
        return LftPlan(state="too-large")
    stages = transition_stages(graph, held, new)
    if stages is None:
        return LftPlan(state="loops-by-itself")
    if not stages.left:
        return LftPlan(stages.stage, state="acyclic", note=_in_stages(stages.count))
    if config.discard:
        note = f"{stages.left} LIDs find no order of changes without a credit loop: their packets are discarded while they change"
        return LftPlan(stages.stage, discard=True, state="acyclic", note=note)
    return LftPlan(stages.stage, state="loop", note=_loop_note(db, graph, held, new, stages.left))


def _in_stages(count: int) -> str:
    return "" if count < 2 else f"forwarding tables change in {count} stages: all at once could make a credit loop"


def _loop_note(db: Database, graph: SwitchGraph, old: np.ndarray, new: np.ndarray, left: int) -> str:
    loop = transition_loop(graph, old, new)
    example = ""
    if loop is not None:
        switch, port = loop[0]
        name = f"{db.name(int(graph.switch_node[switch]))}[{port}]"
        example = f": a credit loop of {len(loop)} links, such as {name}"
    return f"while the tables of {left} LIDs change, packets on old and new paths can wait for each other{example}"
