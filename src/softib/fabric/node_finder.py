"""Find the node or port with a given name, for fabric files, faults, managers and programs. A name
is compared with these, and the first match is used: the whole description; its first word, which is
the name of a host or switch; the GUID (hexadecimal, with or without 0x, or in ibnetdiscover's form:
``H-…``, ``S-…``); and the first 31 bytes of the description, because clients truncate names to this
length. No shorter beginning of a name matches: a misspelt ``leaf-1`` must not select ``leaf-10``.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import Any, NamedTuple

import numpy as np

from softib.components import components
from softib.errors import InputError, UnknownName
from softib.fabric.model import Fabric
from softib.fabric.subnets import in_largest
from softib.plural import counted

__all__ = [
    "STATES",
    "NodeFinder",
    "PortPlace",
    "default_port",
    "device_name",
    "distinct_names",
    "find_node",
    "host_numbers",
    "host_of",
    "master_of",
    "port_named",
    "port_on",
    "split_port",
    "state_of",
]


STATES = ("not active", "discovering", "standby", "master")
"""Names of SMInfo:SMState by value (IBA 14.2.5.13)."""


def state_of(sm: dict[str, Any]) -> str:
    """Return the state of a listed subnet manager as text. Its entry has a number or a tool's
    output (``SMINFO_MASTER``). For other values, return "unknown"."""
    state = sm.get("state")
    if isinstance(state, int):
        return STATES[state] if 0 <= state < len(STATES) else "unknown"
    return str(state or "unknown").lower().removeprefix("sminfo_").replace("_", " ")


def master_of(fabric: Fabric) -> int | None:
    """Return the node of the master subnet manager. Return None if the source lists no master or
    several, or if the master's node is unknown."""
    nodes = {sm.get("node") for sm in fabric.source.sms if state_of(sm) == "master"}
    node = nodes.pop() if len(nodes) == 1 else None
    return node if isinstance(node, int) and 0 <= node < fabric.sizes.nodes else None


_SEPARATORS = re.compile(r"[\s\-_.:;,/]+")


def distinct_names(f: Fabric) -> list[str]:
    """Return the name of each node. If another name is equal, or differs only in case or
    separators, the GUID is appended."""
    names = f.node_names()
    alike = [_SEPARATORS.sub(" ", name.casefold()).strip() for name in names]
    times = Counter(alike)
    guids = f.node_guid.tolist()
    return [n if times[a] == 1 else f"{n} ({g:#018x})" for n, a, g in zip(names, alike, guids, strict=True)]


DEVICE = re.compile(r"(?:mlx\d+|mthca|qib|hfi1|ib[ps]\w*|ibdev)_?\d+[\w.-]*")


def device_name(fabric: Fabric, node: int) -> str:
    """Return the adapter's name on its host: the second part of its description (``node-001
    mlx5_3``), or empty if it has none."""
    parts = fabric.node_name(node).split(" ")
    return parts[1] if len(parts) == 2 and DEVICE.fullmatch(parts[1]) else ""


def host_of(fabric: Fabric, node: int) -> list[int]:
    """Return the CAs in the same host as ``node``: those with the same host name in their
    description, or with the same SystemImageGUID. For a switch, a router or a SHARP aggregation
    node, return only ``node``."""
    f = fabric
    hosts = f.is_host
    if not hosts[node]:
        return [node]
    same = np.flatnonzero((f.sys_guid == f.sys_guid[node]) & hosts).tolist() if f.sys_guid[node] else [node]
    if device_name(f, node):
        prefix = np.frombuffer(f"{f.node_name(node).split(' ')[0]} ".encode(), np.uint8)
        named = np.flatnonzero((f.node_desc[:, : len(prefix)] == prefix).all(axis=1) & hosts).tolist()
        same = sorted({*same, *(n for n in named if device_name(f, n))})
    return [int(n) for n in same]


def host_numbers(fabric: Fabric) -> np.ndarray:
    """Return, for every node, the first node of its host (:func:`host_of`): int64[nodes]."""
    first: dict[object, int] = {}
    pairs = []
    for node in np.flatnonzero(fabric.is_host).tolist():
        keys: list[object] = [guid] if (guid := int(fabric.sys_guid[node])) else []
        keys += [fabric.node_name(node).split(" ")[0]] if device_name(fabric, node) else []
        pairs += [(node, first.setdefault(key, node)) for key in keys]
    return components(fabric.sizes.nodes, *np.array(pairs, np.int64).reshape(-1, 2).T)


def default_port(fabric: Fabric) -> int:
    """Return the row of the default port: the first cabled host port on the subnet with the most
    hosts. If no host has a cable, it is port 0 of the first cabled switch on the largest subnet. If
    no switch has one either, it is the first cabled port, or if there are no cables, a port of the
    first adapter or node. Raises :class:`InputError` for a fabric without nodes.
    """
    if not fabric.sizes.nodes:
        raise InputError("the fabric has no node on which a program or subnet manager could run")
    owner = fabric.port_node
    cabled = np.flatnonzero(fabric.linked)
    hosts = cabled[fabric.is_host[owner[cabled]]]
    if len(hosts):
        return int(in_largest(fabric, hosts)[0])
    if len(cabled):
        switches = cabled[fabric.is_switch[owner[cabled]]]
        return port_on(fabric, int(owner[in_largest(fabric, switches)[0] if len(switches) else cabled[0]]))
    return port_on(fabric, int(fabric.cas[0]) if len(fabric.cas) else 0)


def port_on(fabric: Fabric, node: int, portnum: int | None = None) -> int:
    """Return the row of the port of ``node`` that has a QP0: port 0 of a switch, or port
    ``portnum`` of a CA (None: its first cabled port).

    Raises :class:`InputError` if the node or port does not exist.
    """
    if not 0 <= node < fabric.sizes.nodes:
        raise InputError(f"node {node} does not exist; this fabric has nodes 0 to {fabric.sizes.nodes - 1}")
    name, last = fabric.node_name(node), int(fabric.node_nports[node])
    if fabric.is_switch[node]:
        if portnum:
            raise InputError(f"{name}[{portnum}]: programs on a switch use port 0, its management port")
        return int(fabric.node_base[node])
    if portnum is None:
        ports = np.array(fabric.ports_of(node))
        cabled = ports[fabric.linked[ports]]
        return int(cabled[0] if len(cabled) else ports[0])
    if not 1 <= portnum <= last:
        raise InputError(f"{name} has no port {portnum}; it has ports 1 to {last}")
    return int(fabric.node_base[node]) + portnum


GUID = re.compile(r"(?:[HSR]-|0x)?([0-9a-f]{1,16})", re.IGNORECASE)
_PORT = re.compile(r"(.+?)(?:\[(\d{1,3})\]|[:/](\d{1,3}))", re.ASCII | re.DOTALL)
CUT = 31
"""Maximum bytes of a name in ibsim's protocol (``struct sim_client_info``), not counting the
terminating zero."""
SHOWN = 3


class PortPlace(NamedTuple):
    """A port in the form in which users write it."""

    node: str
    """Name of the node."""
    portnum: int


def split_port(place: str) -> PortPlace | None:
    """Return (node, port number) for ``leaf-3[40]``, ``leaf-3:40`` or ``leaf-3/40``. Return None if
    ``place`` has no port number."""
    hit = _PORT.fullmatch(place.strip())
    return None if hit is None else PortPlace(hit[1], int(hit[2] or hit[3]))


class NodeFinder:
    """Index of the names of a fabric's nodes. A later Set(NodeDescription) does not change it."""

    def __init__(self, fabric: Fabric):
        self.fabric = fabric
        self._index: dict[str, list[int]] | None = None
        self._hosts: dict[str, list[int]] = {}

    def prepare(self) -> None:
        """Index the names now, so that the first program does not wait (40 ms for 4,000 nodes)."""
        self._names()

    def _names(self) -> dict[str, list[int]]:
        if self._index is None:
            self._index = {}
            for row, name in enumerate(self.fabric.node_names()):
                self._index.setdefault(name, []).append(row)
                self._hosts.setdefault(name.split(" ")[0], []).append(row)
        return self._index

    def rows(self, name: str) -> list[int]:
        """Return every node that ``name`` refers to. Raises :class:`UnknownName` with similar names
        if no node matches."""
        names = self._names()
        rows_of_name = names.get(name) or self._hosts.get(name) or self._by_guid(name)
        if not rows_of_name and len(name.encode("utf-8", "replace")) == CUT:
            rows_of_name = [row for full, rows in names.items() if full.startswith(name) for row in rows]
        if not rows_of_name:
            raise UnknownName("node", name, [*names, *self._hosts])
        return rows_of_name

    def _by_guid(self, name: str) -> list[int]:
        hit = GUID.fullmatch(name)
        if hit is None:
            return []
        rows: list[int] = np.flatnonzero(self.fabric.node_guid == np.uint64(int(hit[1], 16))).tolist()
        return rows

    def _port_guid(self, place: str) -> int | None:
        """Return the port whose PortGUID is ``place``, unless a node has this name or NodeGUID."""
        hit = GUID.fullmatch(place)
        if hit is None or place in self._names() or place in self._hosts or self._by_guid(place):
            return None
        f = self.fabric
        ports = np.flatnonzero((f.port_guid == np.uint64(int(hit[1], 16))) & (f.port_guid != 0))
        return int(ports[0]) if len(ports) == 1 else None

    def node(self, name: str) -> int:
        """Return the only node that ``name`` refers to. Raises :class:`UnknownName` if no node
        matches, and :class:`InputError` with the candidates if several match."""
        rows = self.rows(name)
        if len(rows) > 1:
            raise self._ambiguous(name, rows)
        return rows[0]

    def adapter(self, name: str) -> int:
        """Return the node called ``name``, as :meth:`node` does; the name of a host returns its
        first adapter."""
        rows = self.rows(name)
        if len(rows) > 1 and not set(rows) <= set(host_of(self.fabric, rows[0])):
            raise self._ambiguous(name, rows)
        return rows[0]

    def _ambiguous(self, name: str, rows: list[int]) -> InputError:
        f = self.fabric
        some = ", ".join(f"{f.node_name(row)!r} {int(f.node_guid[row]):#018x}" for row in rows[:SHOWN])
        rest = ", …" if len(rows) > SHOWN else ""
        return InputError(
            f"{name!r} matches {counted(len(rows), 'node')} ({some}{rest}); use a complete name, or a GUID"
        )

    def port(self, place: str) -> int:
        """Return the row of the port ``place``. ``place`` is empty (the default host), a PortGUID,
        a name or NodeGUID, or a name or NodeGUID with a port number (:func:`split_port`). Raises
        the errors of :meth:`adapter`, and :class:`InputError` if the port does not exist."""
        if not place:
            return default_port(self.fabric)
        if (port := self._port_guid(place)) is not None:
            return port
        split = split_port(place)
        if split is None or place in self._names() or place in self._hosts:
            return self.port_on(self.adapter(place))
        return self.port_on(self.adapter(split[0]), split[1])

    def end(self, place: str) -> int:
        """Return the row of the end port that ``place`` belongs to: the port as :meth:`port`
        returns it, but port 0 for any port of a switch. Raises the errors of :meth:`port`."""
        if (port := self._port_guid(place)) is not None:
            return port
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
        """Return every end port that ``place`` may mean. For a host without a port number, these
        are the cabled ports of all its adapters, beginning with the first adapter."""
        first = self.end(place)
        node = int(self.fabric.port_node[first])
        split = split_port(place)
        named = split is not None and place not in self._names() and place not in self._hosts
        if self._port_guid(place) is not None:
            return [first]
        if named or not place or self.fabric.is_switch[node]:
            return [first]
        ports = [p for row in self.rows(place) for p in self.fabric.ports_of(row) if self.fabric.linked[p]]
        return list(dict.fromkeys([first, *ports]))

    def port_on(self, node: int, portnum: int | None = None) -> int:
        """Call :func:`softib.fabric.node_finder.port_on`."""
        return port_on(self.fabric, node, portnum)


def port_named(fabric: Fabric, node: str | None) -> int:
    """Return the port row of the node called ``node``. None means the default host. Raises the
    errors of :meth:`NodeFinder.adapter`."""
    return default_port(fabric) if node is None else port_on(fabric, NodeFinder(fabric).adapter(node))


def find_node(fabric: Fabric, name: str) -> int:
    """Return the node that ``name`` refers to. Raises the errors of :meth:`NodeFinder.node`. For
    many names, a :class:`NodeFinder` is faster."""
    return NodeFinder(fabric).node(name)
