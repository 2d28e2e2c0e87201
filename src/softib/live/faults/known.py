"""Which faults were planted in a running fabric and are there still."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from softib.fabric.model import Fabric
from softib.live.faults.options import KINDS

__all__ = ["PS", "Fault", "KnownFaults"]

PS = 10**12

Key = tuple[str, int]
OF_END = ("slow-port", "flow-control", "attenuation", "weak-laser", "hot-module")
"""Faults of one end of a link; the others are of the link, whichever end was named."""


@dataclass
class Fault:
    """One fault that is there: ``kind``, the port or node that was named (``row``), its options,
    since when (ps)."""

    kind: str
    where: str
    row: int
    options: dict[str, Any]
    since_ps: int
    flaps: int = 0
    over: bool = field(default=False, repr=False)

    def as_json(self, now_ps: int) -> dict[str, Any]:
        """The fault as replies and ``softib status`` have it."""
        more = {"flaps": self.flaps} if self.kind == "flap" else {}
        return {
            "kind": self.kind,
            "where": self.where,
            **self.options,
            **more,
            "age_s": round((now_ps - self.since_ps) / PS, 3),
        }


class KnownFaults:
    """The faults of ``fabric``, one of a kind at a port, link or node."""

    def __init__(self, fabric: Fabric):
        self.fabric = fabric
        self._faults: dict[Key, Fault] = {}

    @property
    def all(self) -> list[Fault]:
        """As they were planted."""
        return list(self._faults.values())

    def _key(self, kind: str, row: int) -> Key:
        """A link is one thing, whichever end was named; :data:`OF_END` are of an end."""
        if KINDS[kind].of_node or kind in OF_END:
            return kind, row
        return kind, min(row, int(self.fabric.port_peer[row]))

    def has(self, kind: str, row: int) -> bool:
        """Is there one of ``kind`` at the port or node ``row``?"""
        return self._key(kind, row) in self._faults

    def add(self, kind: str, row: int, options: dict[str, Any], now_ps: int) -> Fault:
        """One more, in the place of an earlier one of the kind."""
        where = self.fabric.node_name(row) if KINDS[kind].of_node else self.fabric.port_name(row)
        fault = Fault(kind, where, row, options, now_ps)
        self.forget(kind, row)
        self._faults[self._key(kind, row)] = fault
        return fault

    def forget(self, kind: str, row: int) -> None:
        """It is over, where there was one."""
        removed = self._faults.pop(self._key(kind, row), None)
        if removed is not None:
            removed.over = True

    def at(self, row: int) -> list[Fault]:
        """Those of a port's link (``row`` ≥ 0), or of node -1 - ``row`` and of all its links."""
        f = self.fabric
        ports = {row, int(f.port_peer[row])} if row >= 0 else set(f.ports_of(-1 - row, port0=True))
        ports |= {int(f.port_peer[p]) for p in ports}
        return [k for k in self.all if (k.row == -1 - row if KINDS[k.kind].of_node else k.row in ports)]
