"""The state of the fabric at one moment, and the tables that requests read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from softib.analysis import columns
from softib.diags.finding import Finding
from softib.fabric.model import Fabric
from softib.fabric.node_finder import NodeFinder, distinct_names
from softib.monitor.reading import Reading
from softib.web.events import one_a_cable
from softib.web.jobs_on_map import JobsOnMap
from softib.web.map_layout import Map
from softib.web.ports_seen import PortsSeen, error_columns, module_columns
from softib.web.remembered import Snapshot

__all__ = ["Now"]


@dataclass(frozen=True)
class Now:
    """The present state. ``fabric``: cables and tables as last read; ``seen``: everything that was ever read, which
    ``map`` shows. ``version`` increases when a node, cable, table or finding changes; ``drawn`` when the map
    changes. ``time_s``: clock time of the last round, or of the reading of a file. ``reading``: that round's
    counters (None: those of the file). ``stated`` returns the known data of ports other than their cables (None: no
    data). ``standing``: earlier findings about cables that may still be down."""

    fabric: Fabric
    seen: Snapshot
    map: Map
    version: int
    drawn: int
    time_s: float
    checks: tuple[Finding, ...] = ()
    rules: tuple[Finding, ...] = ()
    standing: tuple[Finding, ...] = ()
    problem: str = ""
    reading: Reading | None = None
    jobs: JobsOnMap | None = None
    stated: Callable[[], PortsSeen | None] = lambda: None

    @cached_property
    def findings(self) -> tuple[Finding, ...]:
        """Findings from cables and tables, and from counters over time; one finding for each cable
        that is down; worst first."""
        return one_a_cable((*self.rules, *self.checks), self.standing, self.seen)

    @cached_property
    def nodes(self) -> dict[str, Any]:
        """The table of nodes; each table is made once per reading, whatever the number of requested pages."""
        return columns.nodes(self.fabric)

    @cached_property
    def ports(self) -> dict[str, Any]:
        """The table of ports, with the NodeGUID of each peer: several nodes may have the same name."""
        f = self.fabric
        guid = f.node_guid[f.port_node[np.where(f.linked, f.port_peer, 0)]].tolist() if f.sizes.ports else []
        peers = [f"{g:#018x}" if linked else None for g, linked in zip(guid, f.linked.tolist(), strict=True)]
        return columns.ports(f) | {"peer_guid": peers}

    @cached_property
    def links(self) -> dict[str, Any]:
        """The table of links."""
        return columns.links(self.fabric)

    @cached_property
    def names(self) -> list[str]:
        """Names of the map's nodes, all different."""
        return distinct_names(self.seen.fabric)

    @cached_property
    def errors(self) -> dict[str, list[Any]]:
        """The table of ports and their error counters."""
        seen = self.stated()
        return {} if seen is None else error_columns(seen, self.fabric)

    @cached_property
    def modules(self) -> dict[str, list[Any]]:
        """The table of modules and cables."""
        seen = self.stated()
        return {} if seen is None else module_columns(seen, self.fabric)

    @cached_property
    def finder(self) -> NodeFinder:
        """Finds the fabric's nodes by their names."""
        return NodeFinder(self.fabric)
