"""Ways between CAs that the rule "no up after down" leaves apart, where that makes no credit loop.

A CA on one top switch (storage, a SHARP aggregation node) has no legal way to one on another: it would go down and up
again. Such destinations get the missing entries from up*/down* tables with one leaf as root, where all tops are
connected; the entries of the tree stay. The two orders together could make a cycle, so the result is proved.
"""

from __future__ import annotations

import numpy as np

from softib.iba.constants import LFT_NO_ROUTE
from softib.routing.credit_loops import can_loop
from softib.routing.graph import SwitchGraph
from softib.routing.lft_kernels import least_loaded
from softib.routing.roots import pick_roots, rank_switches, top_down
from softib.routing.tables import (
    Distances,
    cas_per_switch,
    destination_groups,
    destinations_table,
    legal_hops_table,
    min_hops,
    ordered_hops,
)

__all__ = ["connect"]


def connect(graph: SwitchGraph, d: Distances, lft: np.ndarray, notes: list[str]) -> np.ndarray | None:
    """``lft`` with every CA connected to everything in its part, or None if that would make a credit loop.

    ``d`` are the legal distances that ``lft`` follows; ``notes`` gets a line when something was missing.
    """
    hops = min_hops(graph).hops
    leaves = np.flatnonzero(cas_per_switch(graph))
    missing = (d.hops[leaves] == 255) & (hops[leaves] != 255)
    if not missing.any():
        return lft
    roots = pick_roots(graph, hops, np.ones(graph.n_switches, np.bool_))
    other = ordered_hops(graph, top_down(graph, rank_switches(graph, roots)))
    switch, first, ends, counted = destination_groups(graph)
    wanted = missing.any(axis=0)[switch]
    size = np.diff(first)
    full = lft.copy()
    few = np.concatenate([[0], np.cumsum(size[wanted])]).astype(np.int32)
    dests = destinations_table(graph, switch[wanted], few, ends[np.repeat(wanted, size)], counted[wanted])
    least_loaded(legal_hops_table(graph, other), dests, True, full)
    for offset in range(1, 1 << int(graph.end_lmc.max())):
        more = np.flatnonzero(graph.end_lmc >= offset.bit_length())
        base = graph.end_lid[more].astype(np.int64)
        full[:, base + offset] = np.where(full[:, base + offset] == LFT_NO_ROUTE, full[:, base], full[:, base + offset])
    count = np.count_nonzero(missing)
    if can_loop(graph, full, d.down, dests.end):
        notes.append(f"{count} (CA switch, switch) pairs have no path without a credit loop")
        return None
    notes.append(f"{count} (CA switch, switch) pairs have no legal way in the tree; routed down and up again")
    return full
