"""Recognises rails: hosts have several adapters on different leaves, and adapter r of every host is on a leaf of rail
r.

NVIDIA's DGX SuperPOD reference architecture calls this rail-optimized: a leaf serves one rail of a
scalable unit.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from softib.diags.rules import mode
from softib.diags.view import FabricView
from softib.natural_order import natural_key

__all__ = ["OddAdapter", "Rails", "find_rails", "odd_adapters", "system_of"]

MOST = 0.9
"""Minimum share of hosts, and of the adapters on a leaf, that must follow the rails."""
_UNIT = re.compile(r"(?<![A-Za-z])(?:SU|SCU|scalable[-_ ]?unit)[-_ ]?(?P<unit>\d+)", re.IGNORECASE)
"""Pattern of leaf names that contain the scalable unit."""
MIN_UNIT = 3
"""Minimum number of hosts on the same leaves for these to form a unit."""
MAX_LONE = 0.1
"""Maximum share of hosts that have no leaves in common with other hosts. With a larger share there are no units."""
HALF = 0.5
"""Minimum share of all host links that must belong to hosts that follow the rails."""


@dataclass
class Rails:
    """The rails of a fabric. ``count``: number of rails (0: none). ``units``: number of scalable units. ``of_node``
    int16[nodes]: rail of each adapter and leaf (-1: none).

    ``host_port`` and ``leaf_port`` int64[hosts, count]: both ends of the cable of each host on each rail, for hosts
    that follow the rails."""

    count: int
    units: int
    of_node: np.ndarray
    host_port: np.ndarray
    leaf_port: np.ndarray

    @classmethod
    def none(cls, nodes: int) -> Rails:
        """Return the rails of a fabric without rails."""
        empty = np.zeros((0, 0), np.int64)
        return cls(0, 0, np.full(nodes, -1, np.int16), empty, empty)


def system_of(view: FabricView) -> np.ndarray:
    """Return a number for the host of each adapter (-1 for other nodes). Adapters belong to one host if their names say
    so (``host mlx5_0``), if they all have the host's description, or otherwise if they have the same
    SystemImageGUID.
    """
    keys: dict[object, int] = {}
    out = np.full(len(view.names), -1, np.int64)
    for node in np.flatnonzero(view.is_host).tolist():
        adapter = view.adapters.get(node)
        key: object = int(view.fabric.sys_guid[node])
        described = view.host_descriptions.get(view.names[node])
        if described and described.is_one_host:
            key = view.names[node]
        elif adapter:
            key = adapter[0]
        out[node] = keys.setdefault(key, len(keys))
    return out


def _adapter_order(view: FabricView, nodes: list[int]) -> np.ndarray:
    """Return the rank of each of ``nodes`` by the adapter's name (``mlx5_2``, ``ibp220s0``). If a node's name has no
    adapter's name, its last number is used.
    """
    labels = []
    for node in nodes:
        both = view.adapters.get(node)
        numbers = re.findall(r"\d+", view.names[node])
        labels.append(both[1] if both else numbers[-1] if numbers else "")
    kinds = sorted(set(labels), key=natural_key)
    place = {word: i for i, word in enumerate(kinds)}
    return np.array([place[word] for word in labels], np.int64)


def find_rails(view: FabricView) -> Rails:
    """Return the rails of ``view``; none if hosts have one link or share leaves, or if leaves mix adapters."""
    f = view.fabric
    none = Rails.none(len(view.names))
    _, host_port, switch_port = view.to_hosts
    if not len(host_port):
        return none
    system = system_of(view)[f.port_node[host_port]]
    hca = _adapter_order(view, f.port_node[host_port].tolist()) * 256 + f.port_num[host_port]
    order = np.lexsort((f.node_guid[f.port_node[host_port]], hca, system))
    system, hca, node, leaf = system[order], hca[order], f.port_node[host_port][order], f.port_node[switch_port][order]
    first = np.flatnonzero(np.concatenate([[True], system[1:] != system[:-1]]))
    size = np.diff(np.concatenate([first, [len(system)]]))
    count, hosts = mode(size[size >= 2])
    if count < 2 or hosts * count < HALF * len(system):
        return none
    rows = first[size == count][:, None] + np.arange(count)
    _, at, hosts_of = np.unique(hca[rows], axis=0, return_inverse=True, return_counts=True)
    rows = rows[at.reshape(-1) == hosts_of.argmax()].ravel()  # hosts with the most frequent numbering of adapters
    hosts = int(hosts_of.max())
    if hosts * count < HALF * len(system):
        return none
    rail = np.tile(np.arange(count), hosts)
    spread = np.sort(leaf[rows].reshape(hosts, count), axis=1)
    if (np.diff(spread, axis=1) > 0).all(axis=1).mean() < MOST:
        return none
    leaves, at = np.unique(leaf[rows], return_inverse=True)
    votes = np.zeros((len(leaves), count), np.int64)
    np.add.at(votes, (at, rail), 1)
    if votes.max(axis=1).sum() < MOST * len(rows) or len(leaves) < 2:
        return none
    of_node = none.of_node
    of_node[leaves] = votes.argmax(axis=1)
    of_node[node[rows]] = rail
    cable = order[rows].reshape(hosts, count)
    return Rails(count, _units(view, leaves, count), of_node, host_port[cable], switch_port[cable])


def _units(view: FabricView, leaves: np.ndarray, rails: int) -> int:
    """Return the number of scalable units, from numbers in the names of leaves (``su2-leaf-5``). Without such numbers,
    a unit has one leaf per rail.
    """
    named = [_UNIT.search(view.names[n]) for n in leaves.tolist()]
    if all(named):
        return len({m["unit"].lstrip("0") for m in named if m})
    return -(-len(leaves) // rails)


@dataclass(frozen=True)
class OddAdapter:
    """An adapter on a wrong leaf: its cable (``host_port``, ``leaf_port``), its ``rail`` and its ``host`` (row). On
    similar hosts this rail leads to the node ``wanted``.
    """

    host: int
    rail: int
    host_port: int
    leaf_port: int
    wanted: int


def odd_adapters(view: FabricView, rails: Rails) -> list[OddAdapter]:
    """Return adapters that are on another leaf than the adapters of the same rail of similar hosts, regardless of
    names.

    Hosts are similar if they use the same leaf on each rail (a scalable unit). A host with a unique combination of
    leaves is compared with the unit that has most leaves in common with it.
    """
    if rails.count < 2:
        return []
    leaf = view.fabric.port_node[rails.leaf_port]
    rows, at, members = np.unique(leaf, axis=0, return_inverse=True, return_counts=True)
    at = at.reshape(-1)
    units = np.flatnonzero(members >= MIN_UNIT)
    lone = np.flatnonzero(members[at] < MIN_UNIT)
    if not len(units) or len(lone) > max(2, MAX_LONE * len(leaf)):
        return []
    unit_of: dict[int, list[int]] = {}
    for u in units.tolist():
        for switch in rows[u].tolist():
            unit_of.setdefault(switch, []).append(u)
    found = []
    for host in lone.tolist():
        votes = np.array([u for switch in leaf[host].tolist() for u in unit_of.get(switch, ())])
        unit, agree = mode(votes)
        if agree <= rails.count // 2:
            continue
        for r in np.flatnonzero(leaf[host] != rows[unit]).tolist():
            ports = int(rails.host_port[host, r]), int(rails.leaf_port[host, r])
            found.append(OddAdapter(host, r, *ports, int(rows[unit, r])))
    return found
