"""A tree that OpenSM's ``ftree`` does not take as it stands, and the GUID files with which it does.

Without files OpenSM wants a pure tree: one management switch, one missing cable, and the whole
fabric is routed by another engine. With the roots named (``root_guid_file``) it may be imperfect,
and adapters on switches that are no leaves are named as I/O nodes (``io_guid_file``), for all
compute nodes must be equally far from the roots. Our ftree finds the same by itself
(:func:`softib.routing.engines.ftree.imperfect`).
"""

from __future__ import annotations

from dataclasses import dataclass

from softib.routing.engine import RouteOptions, Routing
from softib.routing.engines import ftree
from softib.routing.engines.fat_tree import NotATree, recognise
from softib.routing.graph import SwitchGraph

__all__ = ["Remedy", "remedy"]


@dataclass(frozen=True)
class Remedy:
    """``reason`` is why ftree does not fit; ``options`` name the roots and I/O nodes with which it
    does; ``routing`` its tables then."""

    reason: str
    options: RouteOptions
    routing: Routing


def remedy(graph: SwitchGraph, options: RouteOptions | None = None) -> Remedy | None:
    """The files that make ``graph`` a fat tree for ftree, None where it is one, where roots are
    given, or where no choice of roots leaves a tree that reaches every pair without a credit loop.

    Of several choices the one whose worst link carries the fewest paths.
    """
    options = options or RouteOptions()
    if options.root_guids:
        return None
    try:
        recognise(graph, options, [])
        return None
    except NotATree as why:
        reason = str(why)
    found = ftree.imperfect(graph, options)
    return None if found is None else Remedy(reason, *found)
