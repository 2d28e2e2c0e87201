"""In which stages forwarding tables may change, so that no credit loop arises between old and new entries (on one VL).

Tables change destination outwards (:mod:`softib.sm.lft_order`): a packet that meets a switch with its new entry follows new ones to the end. So what it
can hold and want at a time is two links of the old tables, two of the new ones, or, at a switch that has changed, an old link to it and a new one from it.
No cycle among these, no deadlock whatever is changed already (Duato's condition on the union of both).

Where all destinations at once would close a cycle they go in stages: as many as the dependency graph has room for, then, when the packets of their old
entries have drained, more of them, since the old entries' dependencies are gone. Steps whose dependency graphs are compatible are those of Upstream
Progressive Reconfiguration (Crespo, Sanchez, Alfaro, Flich, Duato, "UPR: deadlock-free dynamic network reconfiguration by exploiting channel dependency
graph compatibility", J. Supercomputing 2021); it goes channel by channel, this goes destination by destination, as Sets of forwarding tables do. (The
Double Scheme of Pinkston, Pang and Duato, 2003, needs a second set of VLs.)

Some destinations may find no stage. They change together at the end, or their packets are discarded in between, as in a static reconfiguration:
without them the new tables' dependencies are all there is.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from softib.routing.cycle_kernels import core
from softib.routing.graph import SwitchGraph
from softib.routing.layers import channels, vl_state
from softib.routing.transition_kernels import one_stage, start_counts
from softib.routing.verify import credit_dependencies, destinations, find_cycle, lists_of, port_map

__all__ = ["MOST_STAGES", "Stages", "transition_loop", "transition_stages"]

MOST_STAGES = 16


@dataclass(frozen=True)
class Stages:
    """``stage`` int32[LIDs]: 1 … ``count`` for LIDs whose entries change, 0 for those that change nothing, -1 for those that find no stage."""

    stage: np.ndarray
    count: int

    @property
    def left(self) -> int:
        """LIDs that find no stage."""
        return int((self.stage < 0).sum())


def transition_stages(graph: SwitchGraph, old: np.ndarray, new: np.ndarray) -> Stages | None:
    """Stages on the way from ``old`` to ``new`` (uint8[n_switches, any width], as wide as each other); None where one of them has a credit loop by itself.

    Entries that lead nowhere drop their packets.
    """
    at, links = port_map(graph), channels(graph)
    sources = np.unique(graph.end_switch[~graph.end_is_switch]).astype(np.int32)
    lids, _ = destinations(graph)
    lids = lids[lids < new.shape[1]]
    old, new = np.ascontiguousarray(old), np.ascontiguousarray(new)
    for table in (new, old):  # it goes on from the second one
        order = vl_state(graph)
        count = np.zeros(len(order.present), np.int32)
        if not start_counts(links, order, count, table, lids, at, sources):
            return None
    changes = lids[(old[:, lids] != new[:, lids]).any(axis=0)]
    number_of = np.zeros(len(changes), np.int32)
    number = 0
    while number < MOST_STAGES and not number_of.all():
        if not one_stage(links, order, count, old, new, changes, at, sources, number + 1, number_of):
            break
        number += 1
    stage = np.zeros(new.shape[1], np.int32)
    stage[changes] = np.where(number_of == 0, -1, number_of)
    return Stages(stage, number)


def transition_loop(graph: SwitchGraph, old: np.ndarray, new: np.ndarray) -> list[tuple[int, int]] | None:
    """A cycle of links, (switch, port) each, that can arise on the way from ``old`` to ``new`` (uint8[n_switches, any width], as wide as each other) where all
    change at once though neither has one; None where there is none, or the tables have one by themselves."""
    needs = credit_dependencies(graph, new)
    if core(*lists_of(graph, needs), np.zeros(len(graph.peer), np.bool_)):
        return None
    before = credit_dependencies(graph, old)
    if core(*lists_of(graph, before), np.zeros(len(graph.peer), np.bool_)):
        return None
    needs |= before
    _mixed(graph, old, new, needs)
    cycle = find_cycle(*lists_of(graph, needs))
    if cycle is None:
        return None
    owner = np.repeat(np.arange(graph.n_switches), np.diff(graph.first))
    return [(int(owner[link]), int(graph.out_port[link])) for link in cycle.tolist()]


def _mixed(graph: SwitchGraph, old: np.ndarray, new: np.ndarray, needs: np.ndarray) -> None:
    """Add what waits at switches that have changed: an old link to one, and the new link from it."""
    at = port_map(graph)
    lids, _ = destinations(graph)
    lids = lids[(old[:, lids] != new[:, lids]).any(axis=0)]
    for lid in lids.tolist():
        into = at[np.arange(graph.n_switches), old[:, lid]]
        into = into[into >= 0]
        here = graph.peer[into]
        out = at[here, new[here, lid]]
        mixed = (out >= 0) & (old[here, lid] != new[here, lid])
        into, bit = into[mixed], out[mixed] - graph.first[here[mixed]]
        np.bitwise_or.at(needs, (into, bit // 64), np.uint64(1) << (bit % 64).astype(np.uint64))
