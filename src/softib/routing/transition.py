"""Credit loops between two sets of forwarding tables while both are in use (on one VL).

Tables change destination outwards (:mod:`softib.sm.lft_order`): a packet that meets a switch with its new entry follows new ones to the end. So what it
can hold and want at a time is two links of the old tables, two of the new ones, or, at a switch that has changed, an old link to it and a new one from it.
(Duato's condition on the union: no cycle among these, no deadlock whatever is changed already.)
"""

from __future__ import annotations

import numpy as np

from softib.routing.cycle_kernels import core
from softib.routing.graph import SwitchGraph
from softib.routing.verify import credit_dependencies, destinations, find_cycle, lists_of, port_map

__all__ = ["transition_loop"]


def transition_loop(graph: SwitchGraph, old: np.ndarray, new: np.ndarray) -> list[tuple[int, int]] | None:
    """A cycle of links, (switch, port) each, that can arise on the way from ``old`` to ``new`` (uint8[n_switches, any width], as wide as each other) though
    neither has one; None where there is none, or the tables have one by themselves. Ports of ``old`` that lead nowhere any more drop their packets."""
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
