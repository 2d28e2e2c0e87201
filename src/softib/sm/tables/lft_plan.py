"""The plan for a change of forwarding tables: its stages, and a note on it.
:mod:`softib.routing.transition.transition` explains why stages are needed."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from softib.iba.smp import SwitchInfo
from softib.plural import counted, plural
from softib.routing.engine import Routing
from softib.routing.graph import SwitchGraph
from softib.routing.transition.transition import ONE_VL, SlUse, transition_loop, transition_stages
from softib.sm.config import SmConfig
from softib.sm.database import Database
from softib.sm.managers.link_mgr import fewest_data_vls
from softib.sm.managers.sl2vl import sls_in_use
from softib.sm.managers.ucast_mgr import LftStore
from softib.sm.options.qos import DROP, QosConfig
from softib.sm.options.softib_options import ChangeConfig

__all__ = ["AT_ONCE", "LftPlan", "plan_change"]

CHECKED = 1 << 22
"""Maximum number of forwarding table entries that are checked for credit loops between old and new
entries. In a larger subnet, the check would delay the new paths."""


@dataclass(frozen=True)
class LftPlan:
    """``stage`` int32[LIDs] is as in :class:`~softib.routing.transition.transition.Stages`; None:
    all LIDs change at once. LIDs for which no stage is possible come last. ``discard``: their
    entries are removed first. ``state``: ``acyclic`` (no credit loop can form), ``loop`` (one can
    form), ``loops-by-itself`` (the old or the new tables alone have one), ``unchanged``, or the
    reason why this is unknown: ``unknown-tables``, ``unknown-sls``, ``sl2vl-changes``,
    ``too-large``."""

    stage: np.ndarray | None = None
    discard: bool = False
    state: str = "unchanged"
    note: str = ""

    @property
    def forgets(self) -> bool:
        """Return whether packets may already wait in a cycle. Later changes are then compared only
        with the present tables."""
        return self.state not in ("acyclic", "unchanged")


AT_ONCE = LftPlan()


def plan_change(db: Database, graph: SwitchGraph, routing: Routing, store: LftStore, config: SmConfig) -> LftPlan:
    """Plan the change. Stages are computed only for tables of at most :data:`CHECKED` entries, and
    only if the tables of every switch are known. ``store`` records the SLs that paths have after
    the change."""
    use = store.sls.use(
        graph, routing, _sl_mask(config), _sl2vl(routing, config, fewest_data_vls(db, config.max_op_vls))
    )
    plan = _plan(db, graph, routing, store, config.changes, use)
    store.sls.given(graph, use, plan.forgets)
    return plan


def _plan(
    db: Database, graph: SwitchGraph, routing: Routing, store: LftStore, config: ChangeConfig, use: SlUse
) -> LftPlan:
    new: np.ndarray = routing.lft
    held, stored = store.held(db, graph, new.shape[1])
    top = SwitchInfo.linear_fdb_top.get(db.switch_info[graph.switch_node])
    by_sl, sls = routing.path_sl is not None or store.sls.by_pair or use.sl2vl.ndim > 1, store.sls
    same_map = not by_sl or (sls.sl2vl is not None and np.array_equal(sls.sl2vl, use.sl2vl))
    same_sls = not by_sl or (sls.known and same_map and not (use.fresh & ~use.before).any())
    if not stored.any() or (np.array_equal(held, new) and same_sls):
        return AT_ONCE
    if (~stored & (top > 0)).any():
        return LftPlan(state="unknown-tables")
    if by_sl and not sls.known:
        return LftPlan(
            state="unknown-sls", note="took over the switches' tables; the SLs of existing paths are unknown"
        )
    if not same_map:
        return LftPlan(
            state="sl2vl-changes",
            note="SLtoVL tables change with the forwarding tables: credit loops in the meantime cannot be excluded",
        )
    if new.size > CHECKED:
        return LftPlan(state="too-large")
    if not by_sl:
        use = ONE_VL
    stages = transition_stages(graph, held, new, use)
    if stages is None:
        return LftPlan(state="loops-by-itself")
    if not stages.left:
        return LftPlan(stages.stage, state="acyclic", note=_in_stages(stages.count))
    if config.discard and not _outlive(graph, new, use):
        note = (
            f"{counted(stages.left, 'LID')} {plural(stages.left, 'has', 'have')} no order of changes without a "
            f"credit loop: their packets are discarded while they change"
        )
        return LftPlan(stages.stage, discard=True, state="acyclic", note=note)
    return LftPlan(stages.stage, state="loop", note=_loop_note(db, graph, held, new, stages.left, use))


def _sl_mask(config: SmConfig) -> int:
    """Return the SLs of packets if the engine assigns none."""
    return sum(1 << sl for sl in {0, *sls_in_use(config, None)})


def _sl2vl(routing: Routing, config: SmConfig, most: int) -> np.ndarray:
    """Return the engine's map, otherwise that of the QoS options for switches' external ports,
    limited to the data VLs of links (``most``)."""
    if routing.sl2vl is not None:
        return np.asarray(routing.sl2vl)
    vls = np.array((config.qos or QosConfig()).tables("swe").sl2vl, np.uint8)
    return np.where(vls == DROP, DROP, vls % most).astype(np.uint8)


def _outlive(graph: SwitchGraph, new: np.ndarray, use: SlUse) -> bool:
    """Return whether packets of old path records, with their SLs, can form a loop together with
    those of new records on the new tables."""
    return (
        use is not ONE_VL
        and transition_stages(graph, new, new, replace(use, before=use.after, fresh=use.after)) is None
    )


def _in_stages(count: int) -> str:
    return "" if count < 2 else f"forwarding tables change in {count} stages: all at once could make a credit loop"


def _loop_note(db: Database, graph: SwitchGraph, old: np.ndarray, new: np.ndarray, left: int, use: SlUse) -> str:
    loop = transition_loop(graph, old, new, use)
    example = ""
    if loop is not None:
        switch, port, vl = loop[0]
        on = f" on VL {vl}" if max(c[2] for c in loop) else ""
        name = f"{db.name(int(graph.switch_node[switch]))}[{port}]"
        example = f": a credit loop of {counted(len(loop), 'link')}, for example {name}{on}"
    if _outlive(graph, new, use):
        return (
            f"packets of old path records keep their SLs; those to {counted(left, 'LID')} and packets of "
            f"new path records can wait for each other, as long as senders keep them{example}"
        )
    return (
        f"while the tables of {counted(left, 'LID')} change, packets on old and new paths can wait for each "
        f"other{example}"
    )
