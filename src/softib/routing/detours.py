"""Detours: paths that go up after they went down, which the rule of up*/down* excludes, but that
close no credit loop.

A CA on a top switch (storage, or a SHARP aggregation node) has no legal path to a CA on another top
switch, because the path would go down and up again. Switches need such paths too: a core switch
that lost its cable to a pod sends its answers to the pod's hosts (counters, traps) through another
core, and a switch that runs a subnet manager polls switches of its own tier.

Existing entries of the tables stay unchanged. Each gap gets a link to a neighbour that has an
entry, if this closes no cycle of waiting channels. Turns at one leaf, and at the switches above it,
are tried first: in a tree they close no cycle, and they connect all its switches. Packets that
switches send count as those of CAs do, because they use the same buffers.
"""

from __future__ import annotations

import numpy as np

from softib.components import components
from softib.iba.constants import LFT_NO_ROUTE
from softib.plural import counted, plural
from softib.routing.detour_kernels import copy_paths, fill_gaps
from softib.routing.graph import SwitchGraph
from softib.routing.proof.credit_loops import (
    allowed_dependencies,
    channels,
    depend_on,
    dependencies_of,
    vl_state,
)
from softib.routing.proof.reach import destinations, links_of, routes_of
from softib.routing.proof.verify_kernels import Routes
from softib.routing.roots import pick_roots, rank_switches, tree_links
from softib.routing.tables import Distances, cas_per_switch
from softib.routing.transition.order_kernels import put_all

__all__ = ["connect", "fill", "filled_on_extra_vl", "refilled", "without_switch_loops"]

ROOTS = 8
"""Number of trees whose turns are tried first. Each further tree is tried only if gaps remain."""
MOST_TRIED = 1 << 21
"""Largest number of table entries for which more than one tree is tried."""


def connect(graph: SwitchGraph, d: Distances, lft: np.ndarray, notes: list[str], whole: bool = False) -> bool:
    """Fill the gaps of ``lft`` (uint8[n_switches, LIDs], changed in place), whose paths are those
    of the legal distances ``d``. Return whether all packets of CAs then arrive.

    ``notes`` gets a line if packets of CAs use detours, and one if gaps remain. ``whole``: stop and
    return False if any gap remains.
    """
    part = components(graph.n_switches, graph.link_switch, graph.peer)
    gaps = (d.hops == 255) & (part[:, None] == part)
    if not gaps.any():
        return True
    to = gaps.any(axis=0)[graph.end_switch]
    before = lft.copy() if lft.size <= MOST_TRIED else lft
    left, of_cas = fill(graph, lft, allowed_dependencies(graph, d.down), to, whole)
    exact = dependencies_of(graph, before, switches=True) if left and lft.size <= MOST_TRIED else None
    for nth in range(ROOTS):  # each tree excludes other detours; dependencies of actual paths exclude the fewest
        if exact is None or not left:
            break
        other = before.copy()
        detour = fill(graph, other, exact, to, whole, nth)
        if (detour[1], detour[0]) < (of_cas, left):
            left, of_cas = detour
            lft[:] = other
    count = np.count_nonzero(gaps[cas_per_switch(graph) > 0])
    if left and whole:
        notes.append("some pairs of switches have no path without a credit loop")
        return False
    if left:
        notes.append(
            f"{counted(left, 'pair')} of a switch and a LID {plural(left, 'has', 'have')} no path without a credit "
            f"loop, {of_cas} of them from switches with CAs"
        )
    if count and not of_cas:
        notes.append(
            f"{counted(int(count), '(CA switch, switch) pair')} without a legal path in the tree: routed down and up"
        )
    return not of_cas


def fill(
    graph: SwitchGraph,
    lft: np.ndarray,
    needs: np.ndarray,
    to: np.ndarray,
    whole: bool = False,
    nth: int = 0,
    whole_paths: bool = False,
) -> tuple[int, int]:
    """Fill the gaps for the ends ``to`` (bool[ends]) in place. New entries close no cycle with the
    dependencies ``needs`` (as in :func:`~softib.routing.proof.credit_loops.credit_dependencies`),
    which must have no cycle themselves.

    Return (pairs of a switch and a LID that remain without an entry, number of them whose switch
    has CAs). ``whole``: stop at the first such pair. ``whole_paths``: existing entries have
    dependencies that are not in ``needs``.
    """
    c, state = channels(graph), vl_state(graph)
    if put_all(c, state, needs) < len(needs):
        raise ValueError("the dependencies have a cycle")
    part = components(graph.n_switches, graph.link_switch, graph.peer)
    lids, ends = destinations(graph)
    rows = np.flatnonzero(to[ends])
    plane = np.full(graph.n_switches, graph.n_switches)  # the first neighbour without CAs
    inner = np.flatnonzero(cas_per_switch(graph)[graph.peer] == 0)
    np.minimum.at(plane, graph.link_switch[inner], graph.peer[inner])
    at = graph.end_switch[ends[rows]]
    rows = rows[
        np.lexsort((at, plane[at], graph.end_is_switch[ends[rows]]))
    ]  # CAs first; switches of one plane are adjacent
    routes = routes_of(graph, lft, lids[rows], ends[rows])
    left = np.zeros(2, np.int64)
    fill_gaps(c, state, links_of(graph), routes, graph.out_port, part, _tree(graph, nth), whole, whole_paths, left)
    return int(left[0]), int(left[1])


def _tree(graph: SwitchGraph, nth: int) -> tuple[np.ndarray, np.ndarray]:
    """Return breadth-first trees as (switches by distance from the root, int32[n]; tree links in both directions,
    bool[links]). With ``nth`` = 0, each connected part has a tree, whose root is its switch with the most CAs. Values
    up to :data:`ROOTS` - 1 choose another switch with CAs as the root of a single tree."""
    leaves = np.flatnonzero(cas_per_switch(graph))
    roots = (
        pick_roots(graph) if not nth or not len(leaves) else leaves[nth * len(leaves) // ROOTS :][:1].astype(np.int32)
    )
    depth = rank_switches(graph, roots)
    return np.lexsort((graph.switch_guid, depth)).astype(np.int32), tree_links(graph, depth)


def without_switch_loops(graph: SwitchGraph, lft: np.ndarray) -> np.ndarray | None:
    """Return tables in which no packets, including those of switches, make a credit loop on one VL.
    These are ``lft`` itself if it has no loop. Otherwise only its entries on paths between CAs are
    kept (and those on paths to switches, if they make no loop), and all others are new. Return None
    if a gap remains."""
    if not _loops(graph, dependencies_of(graph, lft, switches=True)):
        return lft
    everywhere = np.ones(len(graph.end_lid), np.bool_)
    for kept in (everywhere, ~graph.end_is_switch):
        full = refilled(graph, lft, everywhere, kept)
        if full is not None:
            return full
    return None


def refilled(graph: SwitchGraph, lft: np.ndarray, to: np.ndarray, kept: np.ndarray) -> np.ndarray | None:
    """Return ``lft`` with new entries for the ends ``to`` (bool[ends]). Entries that packets of CAs
    use to reach the ends ``kept``, a subset of ``to``, stay. Return None if the kept paths have a
    cycle, or if no new entry for some switch avoids a cycle on one VL."""
    needs = dependencies_of(graph, lft, kept)
    if _loops(graph, needs):
        return None
    lids, at = destinations(graph)
    full = lft.copy()
    full[:, lids[to[at]]] = LFT_NO_ROUTE
    copy_paths(links_of(graph), routes_of(graph, lft, lids[kept[at]], at[kept[at]]), full)
    refill = to[at]
    full[graph.end_switch[at[refill]], lids[refill]] = graph.end_port[at[refill]]
    return None if fill(graph, full, needs, to, whole=True)[0] else full


def filled_on_extra_vl(graph: SwitchGraph, lft: np.ndarray) -> np.ndarray | None:
    """Return ``lft`` with new values in the entries that no packet between CAs uses, such that
    packets from and to switches without CAs form no cycle on a separate VL. Return None if a gap
    remains, or if the unchanged entries have a cycle."""
    cas = cas_per_switch(graph)
    lids, at = destinations(graph)
    inner = graph.end_is_switch[at] & (cas[graph.end_switch[at]] == 0)
    routes = routes_of(graph, lft, lids[~inner], at[~inner])
    full = np.full_like(lft, LFT_NO_ROUTE)
    copy_paths(links_of(graph), routes, full)
    full[graph.end_switch[at], lids] = graph.end_port[at]
    from_switches = Routes(full, routes.at, lids[~inner], at[~inner], (cas == 0).astype(np.int64))
    needs = depend_on(graph, from_switches)
    everywhere = np.ones(len(graph.end_lid), np.bool_)
    if _loops(graph, needs) or fill(graph, full, needs, everywhere, whole=True, whole_paths=True)[0]:
        return None
    return full


def _loops(graph: SwitchGraph, needs: np.ndarray) -> bool:
    return put_all(channels(graph), vl_state(graph), needs) < len(needs)
