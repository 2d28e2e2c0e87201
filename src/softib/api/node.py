"""A device of a fabric, for example ``fabric["leaf-1"]``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from softib.api.arguments import Suggests
from softib.api.table import Table
from softib.errors import InputError, UnknownName
from softib.plural import counted
from softib.result import html_table

if TYPE_CHECKING:
    from softib.api.fabric import Fabric

__all__ = ["Node", "item_of"]


class Node(Suggests):
    """A switch, adapter or router. ``row`` has the fields of its row in :attr:`Fabric.nodes`
    (``name``, ``type``, ``guid``, ``firmware`` …); its ports can be indexed.

    >>> import softib
    >>> leaf = softib.generate("fat-tree", radix=4, levels=2)["leaf-1"]
    >>> leaf, leaf[3]["peer"]
    (<Node 'leaf-1': switch, 4 ports>, 'spine-1[1]')
    >>> leaf.peers
    ['host-0001', 'host-0002', 'spine-1', 'spine-2']
    """

    def __init__(self, fabric: Fabric, row: int):
        from softib.api.fabric import result_of

        self.fabric = fabric
        self._number, self._arrays = row, result_of(fabric).fabric

    @property
    def row(self) -> dict[str, Any]:
        """Row of the node in the fabric's table of nodes."""
        row: dict[str, Any] = self.fabric.nodes[self._number : self._number + 1].rows(named=True)[0]
        return row

    @property
    def name(self) -> str:
        """Node description."""
        return str(self.row["name"])

    @property
    def type(self) -> str:
        """``switch``, ``ca`` or ``router``."""
        return str(self.row["type"])

    @property
    def guid(self) -> str:
        """Node GUID in hexadecimal."""
        return str(self.row["guid"])

    @property
    def ports(self) -> Table:
        """One row per port, as in the fabric's table of ports."""
        import numpy as np

        return self.fabric.ports._at(np.flatnonzero(self._arrays.port_node == self._number))

    @property
    def peers(self) -> list[str]:
        """Names of the devices at the other ends of its cables, in the order of its ports."""
        import numpy as np

        f = self._arrays
        ports = np.flatnonzero((f.port_node == self._number) & f.linked)
        return list(dict.fromkeys(f.node_name(int(n)) for n in f.port_node[f.port_peer[ports]]))

    def __getitem__(self, number: int) -> dict[str, Any]:
        """Return the row of port ``number``. Raises :class:`InputError` if it has no such port."""
        if isinstance(number, bool) or not isinstance(number, int):
            raise InputError(f"{number!r} is not a port number of {self.name}")
        match = next((row for row in self.ports.iter_rows(named=True) if row["port"] == number), None)
        if match is None:
            numbers = self.ports.column("port")
            range_ = f"its ports are {min(numbers)} to {max(numbers)}" if numbers else "it has none"
            raise InputError(f"{self.name} has no port {number}; {range_}")
        return dict(match)

    __iter__ = None

    def __repr__(self) -> str:
        n = self.row["ports"]
        return f"<Node {self.name!r}: {self.type}, {counted(n, 'port')}>"

    def _repr_html_(self) -> str:
        return html_table(("", ""), [(k, v) for k, v in self.row.items() if v is not None]) + self.ports._repr_html_()


def item_of(fabric: Fabric, key: Any) -> Node | dict[str, Any]:
    """Return the node, or the row of the port, named by ``key``."""
    from softib.fabric.node_finder import split_port

    if not isinstance(key, str):
        raise InputError(f"fabric[{key!r}]: use the name or GUID of a node ('leaf-1') or a port ('leaf-1[3]')")
    finder = fabric._finder
    split = split_port(key)
    try:
        return Node(fabric, finder.adapter(key))
    except UnknownName:
        if split is None:
            raise
    return Node(fabric, finder.adapter(split[0]))[split[1]]
