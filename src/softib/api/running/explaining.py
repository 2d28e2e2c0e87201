"""Why packets of a running fabric take the path they take: its tables, its manager's engine, the SL
that its SA reports."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from softib.analysis.path_explanation import Explanation
    from softib.live.instances import Instance

__all__ = ["explain_path"]


def explain_path(instance: Instance, a: str, b: str) -> Explanation:
    """The path between the nodes or ports that ``a`` and ``b`` name. Raises :class:`UnknownName`
    for one that is not there."""
    from softib.analysis.path_explanation import explain
    from softib.errors import PeerError
    from softib.fabric.node_finder import NodeFinder
    from softib.live.control import ask
    from softib.live.sa_client import path_sl
    from softib.live.snapshot import read

    fabric = read(instance).fabric
    finder = NodeFinder(fabric)
    ports = finder.end(a), finder.end(b)
    manager = ask(instance, "status")["sm"]
    engine = manager.get("engine_used") or manager.get("engine") or f"unknown ({manager['kind']} manager)"
    sl, source = 0, "the subnet administration says it"
    try:
        sl = path_sl(instance, *(int(fabric.lid[p]) for p in ports))
    except PeerError as error:
        source = f"assumed: {error}"
    return explain(fabric, *ports, engine, sl, source)
