"""The node, or the port, that a name means: one rule for fabric files, faults, managers and
programs.

The first of these that a node answers to: its whole description; the first word of it, which is a
host's or a switch's name; its GUID (hexadecimal, with or without 0x, or as ibnetdiscover writes it:
``H-…``, ``S-…``); a description that a client cut at 31 bytes. No other prefix counts: ``leaf-1``
must not mean ``leaf-10`` where it is misspelt.
"""

from __future__ import annotations

import re

import numpy as np

from softib.errors import InputError, UnknownName
from softib.fabric.default_port import default_port, port_on
from softib.fabric.hosts import host_of
from softib.fabric.model import Fabric
from softib.plural import counted

__all__ = ["NodeFinder", "port_named", "split_port"]

GUID = re.compile(r"(?:[HSR]-|0x)?([0-9a-f]{1,16})", re.IGNORECASE)
_PORT = re.compile(r"(.+?)(?:\[(\d{1,3})\]|[:/](\d{1,3}))", re.ASCII | re.DOTALL)
CUT = 31
"""Bytes of a name in ibsim's protocol (``struct sim_client_info``, less the end)."""
SHOWN = 3


def split_port(place: str) -> tuple[str, int] | None:
    """Return the node and the port number of ``leaf-3[40]``, ``leaf-3:40`` or ``leaf-3/40``; None
    where ``place`` names no port."""
    hit = _PORT.fullmatch(place.strip())
    return None if hit is None else (hit[1], int(hit[2] or hit[3]))


class NodeFinder:
    """The names of a fabric's nodes, indexed once. Names are those at that time: a
    Set(NodeDescription) later moves nobody."""

    def __init__(self, fabric: Fabric):
        self.fabric = fabric
        self._index: dict[str, list[int]] | None = None
        self._hosts: dict[str, list[int]] = {}

    def prepare(self) -> None:
        """Index the names now (40 ms for 4,000 nodes), not while the first program waits."""
        self._names()

    def _names(self) -> dict[str, list[int]]:
        if self._index is None:
            self._index = {}
            for row, name in enumerate(self.fabric.node_names()):
                self._index.setdefault(name, []).append(row)
                self._hosts.setdefault(name.split(" ")[0], []).append(row)
        return self._index

    def rows(self, name: str) -> list[int]:
        """Every node that ``name`` means. Raises :class:`UnknownName` with the nearest names where
        there is none."""
        names = self._names()
        found = names.get(name) or self._hosts.get(name) or self._by_guid(name)
        if not found and len(name.encode("utf-8", "replace")) == CUT:
            found = [row for known, rows in names.items() if known.startswith(name) for row in rows]
        if not found:
            raise UnknownName("node", name, [*names, *self._hosts])
        return found

    def _by_guid(self, name: str) -> list[int]:
        hit = GUID.fullmatch(name)
        if hit is None:
            return []
        rows: list[int] = np.flatnonzero(self.fabric.node_guid == np.uint64(int(hit[1], 16))).tolist()
        return rows

    def node(self, name: str) -> int:
        """The one node that ``name`` means. Raises :class:`UnknownName`, and :class:`InputError`
        with the candidates where it means several."""
        rows = self.rows(name)
        if len(rows) > 1:
            raise self._ambiguous(name, rows)
        return rows[0]

    def adapter(self, name: str) -> int:
        """As :meth:`node`; a host's name means the first of its adapters."""
        rows = self.rows(name)
        if len(rows) > 1 and not set(rows) <= set(host_of(self.fabric, rows[0])):
            raise self._ambiguous(name, rows)
        return rows[0]

    def _ambiguous(self, name: str, rows: list[int]) -> InputError:
        f = self.fabric
        some = ", ".join(f"{f.node_name(row)!r} {int(f.node_guid[row]):#018x}" for row in rows[:SHOWN])
        more = ", …" if len(rows) > SHOWN else ""
        return InputError(
            f"{name!r} means {counted(len(rows), 'node')} ({some}{more}); write one of them in full, or its GUID"
        )

    def port(self, place: str) -> int:
        """Port row of ``place``: empty (the default host), a name or GUID, or either with a port
        (:func:`split_port`). Raises as :meth:`adapter`, and :class:`InputError` if the port does
        not exist."""
        if not place:
            return default_port(self.fabric)
        split = split_port(place)
        if split is None or place in self._names() or place in self._hosts:
            return self.port_on(self.adapter(place))
        return self.port_on(self.adapter(split[0]), split[1])

    def end(self, place: str) -> int:
        """Port row at which packets to ``place`` end: as :meth:`port`, and port 0 of a switch
        whichever of its ports is named. Raises as that."""
        split = split_port(place)
        if split is None or place in self._names() or place in self._hosts:
            return self.port(place)
        node = self.adapter(split[0])
        if not self.fabric.is_switch[node]:
            return self.port(place)
        last = int(self.fabric.node_nports[node])
        if split[1] > last:
            raise InputError(f"{self.fabric.node_name(node)} has no port {split[1]}; it has ports 0 to {last}")
        return self.port_on(node)

    def ends(self, place: str) -> list[int]:
        """Every port row that :meth:`end` may mean: the cabled ports of all adapters of a host that
        is named without a port, the first one first."""
        first = self.end(place)
        node = int(self.fabric.port_node[first])
        split = split_port(place)
        named = split is not None and place not in self._names() and place not in self._hosts
        if named or not place or self.fabric.is_switch[node]:
            return [first]
        ports = [p for row in self.rows(place) for p in self.fabric.ports_of(row) if self.fabric.linked[p]]
        return list(dict.fromkeys([first, *ports]))

    def port_on(self, node: int, portnum: int | None = None) -> int:
        """As :func:`softib.fabric.default_port.port_on`."""
        return port_on(self.fabric, node, portnum)


def port_named(fabric: Fabric, node: str | None) -> int:
    """Row of the port of the node called ``node``; of the default host where nobody names one
    (None). Raises as :meth:`NodeFinder.adapter`."""
    return default_port(fabric) if node is None else port_on(fabric, NodeFinder(fabric).adapter(node))
