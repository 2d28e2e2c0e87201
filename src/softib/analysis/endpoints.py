"""The ports whose traffic is predicted, with their order and rails."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from softib.fabric.model import Fabric
from softib.natural_order import natural_key
from softib.routing.graph import SwitchGraph

__all__ = ["Endpoints", "endpoints_of"]

FIRST_WORD = re.compile(r"[^ /:]*")
MAX_RAILS = 16
"""If the names of more ports than this begin with the same word, the word is a kind of adapter (``MT4123 …``), not a
host."""


@dataclass(frozen=True)
class Endpoints:
    """CA ports that send and receive, in natural order of their names.

    ``row`` int32[H]: rows of ``graph.end_*``; ``name``: their node names; ``rail`` int32[H]: position among the ports
    of the same host; ``rails``: number of rails.
    """

    row: np.ndarray
    name: list[str]
    rail: np.ndarray

    @property
    def rails(self) -> int:
        """The number of ports of the host with the most ports."""
        return int(self.rail.max(initial=0)) + 1


def endpoints_of(fabric: Fabric, graph: SwitchGraph) -> Endpoints:
    """Return every port of a host with a LID."""
    rows = np.flatnonzero(graph.end_is_compute)
    every = fabric.node_names()
    names = [every[n] for n in graph.end_node[rows].tolist()]
    kept = [
        (natural_key(name), int(graph.end_portnum[row]), int(graph.end_lid[row]), int(row), name)
        for row, name in zip(rows, names, strict=True)
    ]
    kept.sort(key=lambda k: k[:3])
    ordered = [k[4] for k in kept]
    return Endpoints(np.array([k[3] for k in kept], np.int32), ordered, _rails(ordered))


def _rails(names: list[str]) -> np.ndarray:
    """Return the rail of each port. Ports of one host are those whose names share the first word (``node-7 mlx5_0``,
    ``node-7 mlx5_1``)."""
    rail = np.zeros(len(names), np.int32)
    seen: dict[str, int] = {}
    hosts = [FIRST_WORD.match(name)[0] for name in names]  # type: ignore[index]
    for i, host in enumerate(hosts):
        rail[i] = seen.get(host, 0)
        seen[host] = seen.get(host, 0) + 1
    generic = np.array([seen[host] > MAX_RAILS for host in hosts], bool)
    rail[generic] = 0
    return rail
