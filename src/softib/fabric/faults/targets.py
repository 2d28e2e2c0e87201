"""Resolve the nodes, ports and cables of a fault by name, and record the planted faults."""

from __future__ import annotations

from dataclasses import dataclass

from softib.errors import InputError
from softib.fabric.model import Fabric
from softib.fabric.node_finder import find_node, split_port
from softib.iba.constants import NodeType

__all__ = ["Planted", "Target", "cable_at", "cable_ends", "names_of", "node_at", "note", "port_at"]

Target = str | int
"""A port (``"leaf-3[40]"``) or a node (its name or GUID), or its row in the arrays."""


@dataclass(frozen=True)
class Planted:
    """A planted fault: its kind, the affected ports (``node[port]``) or nodes (names), and a
    sentence that describes it."""

    kind: str
    where: tuple[str, ...]
    message: str


def node_at(fabric: Fabric, name: Target) -> int:
    """Return the node with this name (:class:`softib.fabric.node_finder.NodeFinder`). Raises
    :class:`UnknownName` with similar names, or :class:`InputError` if several nodes match.
    """
    return find_node(fabric, name) if isinstance(name, str) else int(name)


def port_at(fabric: Fabric, place: Target) -> int:
    """Return the port named ``node[portnum]``, ``node:portnum`` or ``node/portnum``; port 0 is a
    switch's management port. Raises :class:`InputError`."""
    if not isinstance(place, str):
        return int(place)
    split = split_port(place)
    if split is None:
        raise InputError(f"{place!r} is not a port; use node[port], for example leaf-3[40]")
    node, portnum = node_at(fabric, split[0]), split[1]
    first = 0 if fabric.node_type[node] == NodeType.SWITCH else 1
    if not first <= portnum <= fabric.node_nports[node]:
        raise InputError(
            f"{fabric.node_name(node)} has no port {portnum}; its ports are 1 to {int(fabric.node_nports[node])}"
        )
    return int(fabric.port(node, portnum))


def cable_at(fabric: Fabric, place: Target) -> int:
    """Return the cable in port ``place``. Raises :class:`InputError` if the port has none."""
    cable = int(fabric.port_cable[port_at(fabric, place)])
    if cable < 0:
        raise InputError(f"{fabric.port_name(port_at(fabric, place))} has no cable; name a port with a cable")
    return cable


def cable_ends(fabric: Fabric, cable: int) -> list[int]:
    """Return the ports at the known ends of a cable (one for a loopback plug)."""
    return [int(p) for p in dict.fromkeys(fabric.cable_port[cable].tolist()) if p >= 0]


def note(fabric: Fabric, kind: str, where: list[str], message: str) -> Planted:
    """Record a planted fault in the ground truth of ``fabric``."""
    planted = Planted(kind, tuple(where), message)
    fabric.source.generator.setdefault("faults", []).append(planted)
    return planted


def names_of(fabric: Fabric, ports: list[int]) -> list[str]:
    """Return ``node[portnum]`` of each port."""
    return [fabric.port_name(p) for p in ports]
