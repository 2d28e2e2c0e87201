"""``minhop``: shortest paths; of the ports on them, the least loaded (OpenSM's default engine).

The rules are OpenSM's (``doc/current-routing.txt``). Hops are counted between switches.
Destinations are ordered by the number of ends on their switch. On each switch, every destination
LID gets, of the ports on shortest paths, the one with the fewest LIDs so far; if several have the
same number, the lowest port. With LMC > 0, the LIDs of one port are first distributed over systems
and switches. Fabrics whose switches form cycles can deadlock: see
:mod:`softib.routing.proof.verify`.
"""

from __future__ import annotations

from softib.routing.engine import BY_MINHOP, RouteOptions, Routing
from softib.routing.engines import minhop
from softib.routing.graph import SwitchGraph
from softib.routing.tables import beyond_max_hops, min_hops, tables

__all__ = ["DoesNotFit", "by_minhop", "route"]


class DoesNotFit(Exception):
    """Raised if an engine cannot route a graph. Its message is the reason, in one line."""


def by_minhop(graph: SwitchGraph, options: RouteOptions, engine: str, why: object) -> Routing:
    """Return minhop's tables, with the reason in ``notes``. This is the fallback of all engines, as
    in OpenSM."""
    routing = minhop.route(graph, options)
    routing.notes.append(f"{engine}: {why}{BY_MINHOP}")
    return routing


def route(graph: SwitchGraph, options: RouteOptions) -> Routing:
    """Return tables of ``graph`` by shortest paths."""
    d = min_hops(graph)
    return Routing("minhop", tables(graph, d), notes=beyond_max_hops(graph, d.hops))
