"""Whether virtual lanes are worth having: a list of engines that came to tables on one VL goes on
to those behind it that take several."""

from __future__ import annotations

from softib.routing.engine import RouteOptions, Routing, engine
from softib.routing.graph import SwitchGraph
from softib.routing.proof.reach import lost_pairs
from softib.routing.quality import balance
from softib.routing.roots import find_spines
from softib.routing.tables import min_hops

__all__ = ["LANED", "WORTH_LANES", "with_lanes"]

LANED = ("dfsssp", "lash")
"""Engines that lay shortest paths on VLs and need no file."""
WORTH_LANES = 3 / 4
"""Share of the paths on the worst link at which other tables are taken (docs/decisions/0007)."""


def with_lanes(graph: SwitchGraph, routing: Routing, names: list[str], options: RouteOptions) -> Routing:
    """``routing`` (updn's), or the tables of the engine among ``names`` that puts the fewest paths
    on its worst link, where that is worth the VLs.

    A fabric with top switches keeps updn: its paths are short already. So does one where an engine
    needs more VLs than there are, or lays the two directions of a path on different ones.
    """
    names = [n for n in names if n in LANED]
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
            f"{routing.engine} puts {before:,} paths on its worst link, {best.engine} {int(least):,}: took "
            f"{best.engine}",
            "programs must send on the SL of the path record, or links can wait for each other in a circle; engine "
            "updn needs no SLs",
        ][: 2 if best.path_sl is not None else 1]
    return best
