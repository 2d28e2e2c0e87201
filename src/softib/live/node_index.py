"""Which port a program sits on: ``name``, GUID or ``name:port`` → row of an end port."""

from __future__ import annotations

import re

import numpy as np

from softib.errors import UnknownName
from softib.fabric.default_port import default_port, port_on
from softib.fabric.model import Fabric
from softib.live.ibsim.wire import NODE_ID_SIZE

__all__ = ["NodeFinder"]

GUID = re.compile(r"(?:[HSR]-|0x)?([0-9a-f]{1,16})", re.IGNORECASE)
"""A GUID as tools write it; ``H-…``/``S-…`` are the node IDs of ibnetdiscover."""
PORT_SUFFIX = re.compile(r"(.+):(\d{1,3})")


class NodeFinder:
    """The names of a fabric's nodes, indexed once.

    Exact names go before first words, those before GUIDs. Names are those at the start: a Set(NodeDescription) later
    does not move anybody.
    """

    def __init__(self, fabric: Fabric):
        self.fabric = fabric
        self._names: dict[str, int] | None = None

    def prepare(self) -> None:
        """Index the names now (40 ms for 4,000 nodes), not while the first program waits."""
        self._indexed()

    def _indexed(self) -> dict[str, int]:
        if self._names is None:
            names = self.fabric.node_names()
            index: dict[str, int] = {}
            for name, row in zip(names, range(len(names)), strict=True):
                index.setdefault(name, row)
            for name, row in zip(names, range(len(names)), strict=True):
                index.setdefault(name.split(" ")[0], row)
            self._names = index
        return self._names

    def node(self, name: str) -> int:
        """Row of the node ``name`` (exact description, its first word, its first 31 octets, or a GUID). Raises
        :class:`UnknownName` with the near ones."""
        names = self._indexed()
        if name in names:
            return names[name]
        hit = GUID.fullmatch(name)
        if hit:
            rows = np.flatnonzero(self.fabric.node_guid == np.uint64(int(hit[1], 16)))
            if len(rows):
                return int(rows[0])
        if len(name.encode("utf-8", "replace")) == NODE_ID_SIZE - 1:  # cut by the client
            longer = [i for known, i in names.items() if known.startswith(name)]
            if longer:
                return min(longer)
        raise UnknownName("node", name, names)

    def port(self, place: str) -> int:
        """Port row of ``place``: empty, ``name``, GUID, or either with ``:port``. Raises :class:`UnknownName`,
        :class:`InputError`."""
        if not place:
            return default_port(self.fabric)
        hit = PORT_SUFFIX.fullmatch(place)
        if hit is None or place in self._indexed():
            return self.port_on(self.node(place))
        return self.port_on(self.node(hit[1]), int(hit[2]))

    def port_on(self, node: int, portnum: int | None = None) -> int:
        """As :func:`softib.fabric.default_port.port_on`."""
        return port_on(self.fabric, node, portnum)
