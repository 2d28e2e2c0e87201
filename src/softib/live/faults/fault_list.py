"""The faults of a running fabric, and the locations that a pattern matches: ``leaf-*[1-4,9]``,
``leaf-3[*]``, ``spine-?``."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any

import numpy as np

from softib.errors import InputError
from softib.fabric.model import Fabric
from softib.live.faults.options import KINDS, PS
from softib.live.faults.replies import ActiveFault

__all__ = ["PS", "Fault", "FaultList", "locations_of"]


_PORTS = re.compile(r"\*|\d+(-\d+)?(,\d+(-\d+)?)*")


def locations_of(fabric: Fabric, where: str, of_node: bool) -> list[str]:
    """Return the locations that ``where`` matches. Without ``*``, ``?`` or several ports, ``where`` names one location.
    Otherwise it is a pattern, which is compared with the first word of a node's name (with ``of_node`` or without
    ports: of switches and adapters). ``*`` as the ports means all ports that have a cable. Raises :class:`InputError`
    if nothing matches."""
    name, bracket, rest = where.strip().rpartition("[")
    ports = rest.removesuffix("]") if bracket and rest.endswith("]") else None
    if ports is None:
        name = where.strip()
    listed = ports is not None and not ports.isdigit() and _PORTS.fullmatch(ports) is not None
    if not ("*" in name or "?" in name or listed):
        return [where]
    nodes = [n for n in range(fabric.sizes.nodes) if _fits(fabric.node_name(n), name)]
    if of_node or ports is None:
        matches = [fabric.node_name(n) for n in nodes]
    else:
        matches = [fabric.port_name(p) for n in nodes for p in _cabled(fabric, n, ports)]
    if not matches:
        raise InputError(
            f"no node or port matches {where!r}; write nodes like {fabric.node_name(0)!r}, and ports like [1-4,9] or "
            f"[*]"
        )
    return matches


def _fits(name: str, pattern: str) -> bool:
    return fnmatchcase(name, pattern) or fnmatchcase(name.split()[0] if name.split() else name, pattern)


def _cabled(fabric: Fabric, node: int, ports: str) -> list[int]:
    rows = np.array(list(fabric.ports_of(node)), np.int64)
    rows = rows[(fabric.port_num[rows] > 0) & (fabric.port_peer[rows] >= 0)]
    if ports == "*":
        return list(rows.tolist())
    wanted: set[int] = set()
    for part in ports.split(","):
        first, _, last = part.partition("-")
        wanted |= set(range(int(first), min(int(last or first), 255) + 1))
    return [int(p) for p in rows.tolist() if int(fabric.port_num[p]) in wanted]


Key = tuple[str, int]
OF_END = ("slow-port", "flow-control", "attenuation", "weak-laser", "hot-module")
"""Kinds of fault that affect only one end of a link. All other kinds affect the link, whichever end was named."""


@dataclass
class Fault:
    """A fault: its ``kind``, the port or node where it was injected (``row``), its options, and its start time (ps)."""

    kind: str
    where: str
    row: int
    options: dict[str, Any]
    since_ps: int
    flaps: int = 0
    over: bool = field(default=False, repr=False)

    def described(self, now_ps: int) -> ActiveFault:
        """Return the description of the fault for replies."""
        flaps = self.flaps if self.kind == "flap" else None
        age_s = round((now_ps - self.since_ps) / PS, 3)
        return ActiveFault(self.kind, self.where, **self.options, flaps=flaps, age_s=age_s)


class FaultList:
    """The faults of ``fabric``: at most one of each kind at a port, link or node."""

    def __init__(self, fabric: Fabric):
        self.fabric = fabric
        self._faults: dict[Key, Fault] = {}

    @property
    def all(self) -> list[Fault]:
        """Return all faults in the order of their injection."""
        return list(self._faults.values())

    def _key(self, kind: str, row: int) -> Key:
        """Return the key of a fault. The key is the same for both ends of a link, except for the kinds in
        :data:`OF_END`."""
        if KINDS[kind].of_node or kind in OF_END:
            return kind, row
        return kind, min(row, int(self.fabric.port_peer[row]))

    def has(self, kind: str, row: int) -> bool:
        """Return whether there is a fault of ``kind`` at the port or node ``row``."""
        return self._key(kind, row) in self._faults

    def add(self, kind: str, row: int, options: dict[str, Any], now_ps: int) -> Fault:
        """Add a fault; it replaces an earlier fault of the same kind at the same place."""
        where = self.fabric.node_name(row) if KINDS[kind].of_node else self.fabric.port_name(row)
        fault = Fault(kind, where, row, options, now_ps)
        self.forget(kind, row)
        self._faults[self._key(kind, row)] = fault
        return fault

    def forget(self, kind: str, row: int) -> None:
        """Remove the fault if it exists."""
        removed = self._faults.pop(self._key(kind, row), None)
        if removed is not None:
            removed.over = True

    def at(self, row: int) -> list[Fault]:
        """Return the faults of a port's link (``row`` ≥ 0), or of node -1 - ``row`` and all its
        links."""
        f = self.fabric
        ports = {row, int(f.port_peer[row])} if row >= 0 else set(f.ports_of(-1 - row, port0=True))
        ports |= {int(f.port_peer[p]) for p in ports}
        return [k for k in self.all if (k.row == -1 - row if KINDS[k.kind].of_node else k.row in ports)]
