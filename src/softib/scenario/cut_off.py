"""Parts of a fabric that have no working link to each other: their switches, and the cables between
them that are down."""

from __future__ import annotations

import numpy as np

from softib.components import components
from softib.fabric.model import Fabric
from softib.fabric.node_finder import distinct_names
from softib.plural import counted, few, plural
from softib.routing.graph import SwitchGraph

__all__ = ["Parts", "notes_of_parts"]

MOST_PARTS = 3
"""Maximum number of parts that notes name; further ones are only counted."""


class Parts:
    """The parts of a fabric: sets of switches that are connected by links."""

    def __init__(self, f: Fabric, graph: SwitchGraph, names: list[str]):
        self._f, self._names = f, names
        self._part = np.full(f.sizes.nodes, -1, np.int64)
        self._part[graph.switch_node] = components(graph.n_switches, graph.link_switch, graph.peer)

    def of_port(self, port: int) -> int:
        """Return the part of a switch port, or of the switch to which an adapter port is connected;
        -1 if there is none."""
        f = self._f
        at = port if f.is_switch[f.port_node[port]] else int(f.port_peer[port])
        return int(self._part[f.port_node[at]]) if at >= 0 else -1

    def switches(self, part: int) -> np.ndarray:
        """Return the nodes of the switches of a part."""
        return np.flatnonzero(self._part == part)

    def largest_first(self) -> list[tuple[int, int]]:
        """Return (part, number of host ports on its switches), ordered by the number of host ports
        and then by the number of switches, largest first."""
        f, switches = self._f, self._part >= 0
        parts, sizes = np.unique(self._part[switches], return_counts=True)
        at = self._part[f.port_node[f.port_peer[np.flatnonzero(f.linked & f.is_host[f.port_node])]]]
        hosts = np.bincount(at[at >= 0], minlength=f.sizes.nodes)[parts]
        order = np.lexsort((parts, -sizes, -hosts))
        return list(zip(parts[order].tolist(), hosts[order].tolist(), strict=True))

    def apart(self, a: int, b: int) -> str:
        """Return the reason why no packet can pass from port ``a`` to port ``b``: the smaller of
        their two parts, with those of its cables or ports that have no link. Return "" if both are
        in the same part, or one is in none."""
        a, b = self.of_port(a), self.of_port(b)
        if a == b or a < 0 or b < 0:
            return ""
        small, large = sorted((a, b), key=lambda part: len(self.switches(part)))
        if len(self.switches(small)) == 1 < len(self.switches(large)):
            return self.alone(small)
        return f"they are on two subnets, of {self._named(large, 0)} and of {self._named(small)}{self._missing(small)}"

    def alone(self, part: int, what: str = "") -> str:
        """Return a sentence which states that a part, with ``what``, has no link to other switches."""
        n = len(self.switches(part))
        others = plural(n, "has no link to another switch", "have no link to other switches")
        return f"{self._named(part)}{what} {others}{self._missing(part)}"

    def _named(self, part: int, most: int = 4) -> str:
        nodes = self.switches(part).tolist()
        if len(nodes) == 1:
            return self._names[nodes[0]]
        return counted(len(nodes), "switch") + (
            f" ({few((self._names[node] for node in nodes), most)})" if most else ""
        )

    def _missing(self, part: int) -> str:
        """Return the cables from a part to other parts that are down. For a single switch without
        such cables, return its ports without a link."""
        f = self._f
        ends = f.source.down_cables
        parts = self._part[f.port_node[ends]]
        leave = ends[((parts == part).sum(axis=1) == 1) & (parts >= 0).all(axis=1)]
        if len(leave):
            cables = [" ↔ ".join(f"{self._names[int(f.port_node[p])]}[{int(f.port_num[p])}]" for p in c) for c in leave]
            return f"; down: {few(cables)}"
        nodes = self.switches(part)
        if len(nodes) > 1:
            return ""
        ports = np.asarray(f.ports_of(int(nodes[0])))
        free = f.port_num[ports[(f.port_peer[ports] < 0) & (f.port_num[ports] > 0)]].tolist()
        if not free:
            return ""
        return f"; its {plural(len(free), 'port')} {_ranges(free)} {plural(len(free), 'has', 'have')} no link"


def _ranges(numbers: list[int]) -> str:
    """Return ``1-3, 7`` for ascending numbers."""
    runs = np.split(np.array(numbers), np.flatnonzero(np.diff(numbers) > 1) + 1)
    return ", ".join(f"{run[0]}-{run[-1]}" if len(run) > 1 else f"{run[0]}" for run in runs)


def notes_of_parts(f: Fabric, graph: SwitchGraph) -> list[str]:
    """Return a sentence for each part with host ports except the largest."""
    parts = Parts(f, graph, distinct_names(f))
    smaller = [(part, hosts) for part, hosts in parts.largest_first()[1:] if hosts]
    notes = [parts.alone(part, f" with {counted(hosts, 'host port')}") for part, hosts in smaller[:MOST_PARTS]]
    if more := len(smaller[MOST_PARTS:]):
        notes.append(f"{counted(more, 'more part')} of the fabric {plural(more, 'has', 'have')} no link to the largest")
    return notes
