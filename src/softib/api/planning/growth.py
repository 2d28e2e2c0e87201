"""Add hosts to an existing fabric."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from softib.api.arguments import Suggests
from softib.api.fabric import Fabric, as_fabric, result_of
from softib.api.table import Table
from softib.plan.design_records import AddedHosts, MovedCable, NewCable
from softib.plural import counted
from softib.result import columns

if TYPE_CHECKING:
    from softib.analysis.added_hosts import Addition

__all__ = ["AddedHosts", "Growth", "plan_growth"]


class Growth(Suggests):
    """What is needed for more hosts: new switches, new cables, and cables that move."""

    def __init__(self, source: str, addition: Addition):
        self._source, self._addition = source, addition

    def table(self) -> Table:
        """Return one row per new cable: ``node_a``, ``port_a``, ``node_z``, ``port_z``."""
        return Table(columns([NewCable(*cable) for cable in self._addition.cables], NewCable))

    def to_json(self) -> dict[str, Any]:
        """Return the document of ``softib plan grow --json``."""
        return self._added().to_json()

    def _added(self) -> AddedHosts:
        a = self._addition
        cables, moves = [NewCable(*cable) for cable in a.cables], [MovedCable(*move) for move in a.moves]
        return AddedHosts(
            source=self._source,
            hosts=a.hosts,
            adapters=a.adapters,
            new_leaves=a.leaves,
            new_upper_switches=a.tops,
            moved_cables=len(moves),
            oversubscription=a.oversubscription,
            cables=cables,
            moves=moves,
            notes=a.notes,
        )

    def print(self) -> None:
        """Print the text of ``softib plan grow``."""
        from softib.render.planning import print_growth
        from softib.render.terminal import console

        print_growth(self._added(), console())

    def __repr__(self) -> str:
        return f"<Growth of {self._source!r} by {counted(self._addition.hosts, 'host')}>"


def plan_growth(source: Fabric | str | os.PathLike[str], hosts: int, *, adapters: int | None = None) -> Growth:
    """Plan ports for ``hosts`` more hosts on ``source`` (a dump, a fabric.yaml, a running fabric)
    with ``adapters`` ports each (default: like existing hosts), and the parts to buy and to move.
    Raises :class:`InputError` if the fabric is not a tree of one to three tiers.

    >>> import softib
    >>> softib.plan_growth(softib.generate("fat-tree", radix=8, levels=2, hosts=30), 2).table().rows()
    [('leaf-8', 3, 'new-001', 1), ('leaf-8', 4, 'new-002', 1)]
    """
    from softib.analysis.added_hosts import add_hosts

    fabric = as_fabric(source)
    return Growth(fabric.source, add_hosts(result_of(fabric).fabric, hosts, adapters))
