"""``updn`` and ``dnup``: no path goes up after it went down, so channels cannot wait for each other
in a cycle.

``updn`` ranks switches by their distance from the roots; ``dnup`` ranks them by their distance from
the CAs, with the farthest at the top. Equal ranks, including roots, are ordered by NodeGUID (in
OpenSM the smaller is up). So the order is total, and the tables are free of credit loops on any
graph.

Roots may be given as GUIDs (of a switch, or of a CA port for its switch); they are used even if
some pairs then have no path. Otherwise roots are found as in OpenSM: switches from which more than
90 % of all CAs are at one distance, while no other distance has more than 5 %. In a tree, the other
top switches of their tier are roots too; OpenSM omits a top switch that lacks one cable. These
roots (for dnup: its own ranks) are used if every CA then has a legal path to all destinations.
Otherwise, one of the following is used: the one whose worst link carries the fewest paths. (OpenSM
falls back to minhop if it finds no root, and omits routes if the roots are not sufficient.)

* the roots found, with missing paths supplied by :mod:`softib.routing.detours`;
* the ranks of dnup, with missing paths supplied in the same way;
* **one leaf** as root: the switch with the most CAs. One root reaches every destination. If it is a
  leaf, all paths of a two-tier tree stay legal: the spines are still above every other leaf, and
  two spines are connected by the root. (The switch nearest to all CAs, the obvious choice, would
  attract all traffic.)

``notes`` describe the choice. In a list of engines, :func:`with_lanes` checks whether virtual lanes
are worthwhile: dfsssp or lash, listed after updn, may put fewer paths on the worst link.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from softib.plural import counted, plural
from softib.routing.detours import connect
from softib.routing.engine import RouteOptions, Routing, engine
from softib.routing.graph import SwitchGraph
from softib.routing.proof.reach import lost_pairs
from softib.routing.quality import balance
from softib.routing.roots import (
    find_spines,
    given_roots,
    heights,
    illegal_pairs,
    names,
    pick_roots,
    rank_switches,
    top_down,
    with_cut_tops,
)
from softib.routing.tables import beyond_max_hops, cas_per_switch, min_hops, ordered_hops, tables

__all__ = ["LANED", "WORTH_LANES", "route", "route_dnup", "with_lanes"]


MOST_LOST = 1 / 4
"""Maximum share of (switch with CAs, switch) pairs without a legal path. Ranks that leave more
pairs are not completed with detours."""
UNREACHED = 255
LANED = ("dfsssp", "lash")
"""Engines that assign shortest paths to VLs and need no file."""
WORTH_LANES = 3 / 4
"""Tables with several VLs are used if their worst link carries at most this share of updn's paths
(docs/decisions/0007)."""


def route(graph: SwitchGraph, options: RouteOptions) -> Routing:
    """Return tables by up*/down* from the roots."""
    hops = min_hops(graph).hops
    notes = beyond_max_hops(graph, hops)
    roots = given_roots(graph, options.root_guids, notes)
    if len(roots):
        ranks = _complete(graph, roots, notes)
        d = ordered_hops(graph, top_down(graph, ranks))
        lost = illegal_pairs(graph, d, hops)
        if lost:
            notes.append(f"with the given roots, {lost} (CA switch, switch) pairs have no legal path")
        lft = tables(graph, d)
        connect(graph, d, lft, notes)
        return _routing(graph, "updn", ranks, lft, notes)
    spines = find_spines(graph, hops)
    if not len(spines):
        notes.append("no switch can be recognised as a root (OpenSM would use minhop here)")
        return _best(graph, "updn", hops, _from_cas(graph), notes)
    notes.append(f"{counted(len(spines), 'root')} found by the distances to the CAs: {names(graph, spines)}")
    tops = with_cut_tops(graph, spines)
    cut = np.setdiff1d(tops, spines)
    if len(cut):
        notes.append(f"{counted(len(cut), 'root')} of the same tier, farther from some CAs: {names(graph, cut)}")
    ranks = _complete(graph, tops, notes)
    return _best(graph, "updn", hops, [("the roots found", ranks), *_from_cas(graph)], notes)


def route_dnup(graph: SwitchGraph, options: RouteOptions) -> Routing:
    """Return up*/down* tables in which up leads away from the CAs. They are meant for fabrics whose
    CAs are nearer to the roots than some switches."""
    hops = min_hops(graph).hops
    return _best(graph, "dnup", hops, _from_cas(graph), beyond_max_hops(graph, hops))


def _from_cas(graph: SwitchGraph) -> list[tuple[str, np.ndarray]]:
    """Return dnup's ranks if some switch has no CA. If every switch has CAs, all ranks would be
    equal."""
    height = heights(graph)
    top = height.max(initial=0)
    return [("the distance from the CAs", (top - height).astype(np.int32))] if top > 0 else []


class _Candidate(NamedTuple):
    """Ranks and the tables that follow from them."""

    most: int
    """Paths on the worst link."""
    source: str
    ranks: np.ndarray
    lft: np.ndarray


def _best(
    graph: SwitchGraph, engine: str, hops: np.ndarray, guesses: list[tuple[str, np.ndarray]], notes: list[str]
) -> Routing:
    """Return tables with the first candidate ranks that give every CA a legal path to every
    destination. If no candidate does, return the tables with the fewest paths on the worst link;
    these are the candidates completed by detours, and one leaf as root."""
    leaf: list[str] = []
    one_leaf: _Candidate | None = None
    options: list[_Candidate] = []
    for source, ranks in guesses:
        d = ordered_hops(graph, top_down(graph, ranks))
        lines: list[str] = []
        lost = illegal_pairs(graph, d, hops)
        if lost > MOST_LOST * np.count_nonzero(hops[cas_per_switch(graph) > 0] != UNREACHED):
            notes.append(
                f"ranks from {source}: {lost:,} (CA switch, switch) pairs have no legal path in the tree; too many for "
                f"detours"
            )
            continue
        lft = tables(graph, d)
        if lost:
            one_leaf = one_leaf or _one_leaf(graph, leaf)
            if (most := balance(graph, lft).most) > one_leaf.most:  # detours add paths
                notes.append(
                    f"ranks from {source}: {counted(most, 'path')} on the worst link, {one_leaf.most:,} with one leaf "
                    "as root"
                )
                continue
        if connect(graph, d, lft, lines, whole=True):
            if not lost:
                return _routing(graph, engine, ranks, lft, notes)
            options.append(_Candidate(balance(graph, lft).most, source, ranks, lft))
        notes += [f"ranks from {source}: {line}" for line in lines]
    options.append(one_leaf or _one_leaf(graph, leaf))
    _, source, ranks, lft = min(options, key=lambda o: o.most)
    if len(options) > 1:
        notes.append(
            f"took ranks from {source}; paths on the worst link: "
            + ", ".join(f"{o.most:,} by {o.source}" for o in options)
        )
    if source == "one leaf":
        notes += leaf
    return _routing(graph, engine, ranks, lft, notes)


def _one_leaf(graph: SwitchGraph, notes: list[str]) -> _Candidate:
    """Return tables with the switch with the most CAs as the only root."""
    ranks = _complete(graph, np.empty(0, np.int32), notes)
    lft = tables(graph, ordered_hops(graph, top_down(graph, ranks)))
    return _Candidate(balance(graph, lft).most, "one leaf", ranks, lft)


def _complete(graph: SwitchGraph, roots: np.ndarray, notes: list[str]) -> np.ndarray:
    """Return ranks from ``roots``. Each part of the fabric that has no root gets one."""
    ranks = rank_switches(graph, roots)
    bare = ranks < 0
    if bare.any():
        extra = pick_roots(graph, bare)
        parts = (
            f"{counted(len(extra), 'part')} of the fabric {plural(len(extra), 'holds', 'hold')} no root: "
            if len(roots)
            else ""
        )
        notes.append(f"{parts}root {names(graph, extra)}, the switch with the most CAs")
        ranks = rank_switches(graph, np.union1d(roots, extra).astype(np.int32))
    return ranks


def _routing(graph: SwitchGraph, engine: str, ranks: np.ndarray, lft: np.ndarray, notes: list[str]) -> Routing:
    guids = tuple(int(g) for g in graph.switch_guid[ranks == 0])
    return Routing(engine, lft, ranks=ranks, roots=guids, notes=notes)


def with_lanes(graph: SwitchGraph, routing: Routing, listed: list[str], options: RouteOptions) -> Routing:
    """Return ``routing`` (updn's), or the tables of the engine among ``listed`` that puts the
    fewest paths on its worst link, if the improvement is worth the VLs.

    A fabric with top switches keeps updn, because its paths are already short. updn is also kept if
    the engine needs more VLs than there are, or assigns the two directions of a path to different
    VLs.
    """
    names = [n for n in listed if n in LANED]
    if not names or options.data_vls < 2 or len(find_spines(graph, min_hops(graph).hops)):
        return routing
    before = balance(graph, routing.lft).most
    best, least = routing, WORTH_LANES * before
    for name in names:
        other = engine(name)(graph, options)
        if other.engine != name or not other.one_sl or lost_pairs(graph, other.lft):
            continue
        most = balance(graph, other.lft).most
        if most <= least and (best is routing or most < least):
            best, least = other, most
    if best is not routing:
        best.notes[:0] = [
            f"{routing.engine} puts {counted(before, 'path')} on its worst link, {best.engine} {int(least):,}: took "
            f"{best.engine}",
            "programs must send with the SL of the path record, or links can wait for each other in a cycle; engine "
            "updn needs no SLs",
        ][: 2 if best.path_sl is not None else 1]
    return best
