"""Places of faults by pattern: ``leaf-*[1-4,9]``, ``leaf-3[*]``, ``spine-?``."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase

import numpy as np

from softib.errors import InputError
from softib.fabric.model import Fabric

__all__ = ["locations_of"]

_PORTS = re.compile(r"\*|\d+(-\d+)?(,\d+(-\d+)?)*")


def locations_of(fabric: Fabric, where: str, of_node: bool) -> list[str]:
    """The places that ``where`` names: itself, or where it has ``*``, ``?`` or several ports all
    that fit: nodes by the first word of their names (with ``of_node`` or without ports: switches
    and adapters; ``*`` as ports: those with a cable). Raises :class:`InputError` where nothing
    fits."""
    name, bracket, rest = where.strip().rpartition("[")
    ports = rest.removesuffix("]") if bracket and rest.endswith("]") else None
    if ports is None:
        name = where.strip()
    listed = ports is not None and not ports.isdigit() and _PORTS.fullmatch(ports) is not None
    if not ("*" in name or "?" in name or listed):
        return [where]
    nodes = [n for n in range(fabric.sizes.nodes) if _fits(fabric.node_name(n), name)]
    if of_node or ports is None:
        found = [fabric.node_name(n) for n in nodes]
    else:
        found = [fabric.port_name(p) for n in nodes for p in _cabled(fabric, n, ports)]
    if not found:
        raise InputError(
            f"nothing fits {where!r}; nodes are named as in {fabric.node_name(0)!r}, ports as in [1-4,9] or [*]"
        )
    return found


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
