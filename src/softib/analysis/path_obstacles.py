"""Reasons why there is no path between two ports: no cables, no LID, no common partition."""

from __future__ import annotations

import numpy as np

from softib.fabric.model import Fabric
from softib.routing.graph import SwitchGraph
from softib.scenario.cut_off import Parts

__all__ = ["cables_apart", "distances", "partitions_apart", "pkeys_of", "place_of", "why_no_lid"]

BASE, FULL = 0x7FFF, 0x8000
"""Bits of a P_Key: the partition, and full membership."""


def place_of(f: Fabric, names: list[str], port: int) -> str:
    """Return the name of a port, for example ``leaf-1[40]``."""
    return f"{names[int(f.port_node[port])]}[{int(f.port_num[port])}]"


def cables_apart(f: Fabric, names: list[str], graph: SwitchGraph, distance: np.ndarray, a: int, b: int) -> str:
    """Return the reason why no cables connect ``a`` and ``b``, and the other ports of their nodes that are connected;
    "" if ``a`` and ``b`` are connected. ``distance``: distance of each switch from ``b``."""
    if a == b or f.port_peer[a] == b or _on(f, distance, a):
        return ""
    for port in (a, b):
        if _switch_at(f, port) < 0:
            return f"{place_of(f, names, port)} has no link"
    pairs = [(p, b) for p in _other_ports(f, a) if _on(f, distance, p)]
    if others := _other_ports(f, b):
        from_a = distances(f, graph, a)
        pairs += [(a, p) for p in others if _on(f, from_a, p)]
    hint = f"; {' and '.join(place_of(f, names, p) for p in pairs[0])} are on one subnet" if pairs else ""
    why = Parts(f, graph, names).apart(a, b)
    return f"no cables join {place_of(f, names, a)} and {place_of(f, names, b)}: {why}{hint}"


def why_no_lid(f: Fabric, names: list[str], graph: SwitchGraph, distance: np.ndarray, port: int) -> str:
    """Return the reason why ``port`` has no LID. Switches whose ``distance`` is not -1 are connected to it."""
    ends = f.end_ports()
    ends = ends[f.lid[ends] > 0]
    node = np.where(f.is_switch[f.port_node[ends]], f.port_node[ends], f.port_node[np.maximum(f.port_peer[ends], 0)])
    if (distance[node] >= 0).any():
        return "the subnet manager did not assign one"
    if not len(ends):
        return "no subnet manager has run yet"
    apart = Parts(f, graph, names).apart(port, int(ends[0]))
    return f"the subnet manager is on another subnet{f'; {apart}' if apart else ''}"


def _switch_at(f: Fabric, port: int) -> int:
    """Return the switch of ``port`` if it is a switch's port with a cable, or the switch at the other end of an
    adapter's cable; -1 for none."""
    node = int(f.port_node[port])
    if f.is_switch[node]:
        return node if (f.port_peer[list(f.ports_of(node))] >= 0).any() else -1
    peer = int(f.port_peer[port])
    return int(f.port_node[peer]) if peer >= 0 else -1


def _on(f: Fabric, distance: np.ndarray, port: int) -> bool:
    node = _switch_at(f, port)
    return node >= 0 and bool(distance[node] >= 0)


def _other_ports(f: Fabric, port: int) -> list[int]:
    """Return the other ports of the adapter of ``port``; none for a switch."""
    node = int(f.port_node[port])
    return [] if f.is_switch[node] else [p for p in f.ports_of(node) if p != port]


def partitions_apart(f: Fabric, names: list[str], a: int, b: int) -> str:
    """Return the reason why two adapters drop each other's packets: they have no common partition of which at least one
    is a full member (IBA 10.9.3). Return "" if they have such a partition, or if one end is a switch, with which only
    management packets are exchanged."""
    if f.is_switch[f.port_node[[a, b]]].any():
        return ""
    held = [pkeys_of(f, port) for port in (a, b)]
    shared = {k & BASE for k in held[0]} & {k & BASE for k in held[1]}
    if any(k in held[0] or k in held[1] for k in (FULL | base for base in shared)):
        return ""
    lists = [
        f"{place_of(f, names, port)} holds {', '.join(f'{k:#06x}' for k in keys) or 'none'}"
        for port, keys in zip((a, b), held, strict=True)
    ]
    why = "both are limited members of the shared partitions" if shared else "no P_Key is shared"
    return f"{why}, so each drops the packets of the other: {'; '.join(lists)}"


def pkeys_of(f: Fabric, port: int) -> list[int]:
    """Return the P_Keys in the P_Key table of a port."""
    first = int(f.pkey_base[port])
    return [int(k) for k in f.pkeys[first : first + int(f.pkey_cap[port])] if int(k) & BASE]


def distances(f: Fabric, graph: SwitchGraph, b: int) -> np.ndarray:
    """Return int32[nodes]: number of switches on a shortest path from each switch to ``b``,
    including itself; -1 if there is none."""
    distance = np.full(f.sizes.nodes, -1, np.int32)
    node = int(f.port_node[b])
    start = node if f.is_switch[node] else int(f.port_node[f.port_peer[b]]) if f.port_peer[b] >= 0 else -1
    if start < 0 or not f.is_switch[start]:
        return distance
    row = np.full(f.sizes.nodes, -1, np.int64)
    row[graph.switch_node] = np.arange(graph.n_switches)
    front, steps = [int(row[start])], 1
    seen = {front[0]}
    while front:
        distance[graph.switch_node[front]] = steps
        reached = [int(t) for s in front for t in graph.peer[graph.first[s] : graph.first[s + 1]].tolist()]
        front = sorted({t for t in reached if t not in seen})
        seen.update(front)
        steps += 1
    return distance
