"""What an engine gives back where it cannot route a fabric."""

from __future__ import annotations

from softib.routing.engine import BY_MINHOP, RouteOptions, Routing
from softib.routing.engines import minhop
from softib.routing.graph import SwitchGraph

__all__ = ["DoesNotFit", "by_minhop"]


class DoesNotFit(Exception):
    """Why an engine cannot route a graph, in one line."""


def by_minhop(graph: SwitchGraph, options: RouteOptions, engine: str, why: object) -> Routing:
    """minhop's tables, with the reason in ``notes``: OpenSM's last resort too."""
    routing = minhop.route(graph, options)
    routing.notes.append(f"{engine}: {why}{BY_MINHOP}")
    return routing
