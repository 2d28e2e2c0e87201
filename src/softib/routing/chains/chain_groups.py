"""Which ports of a graph the groups of a routing chain name."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from softib.routing.chains.chain_policy import HostRule, PortGroup, Ports, Topology
from softib.routing.chains.subgraph import subgraph
from softib.routing.engine import RouteOptions
from softib.routing.graph import SwitchGraph

__all__ = ["Members", "members_of", "part_of", "with_root_groups"]

PORTS = 256
_HCA = re.compile(r"(?:HCA-|mlx\d+_)(\d+)$")


class Members(NamedTuple):
    """``switch_ports`` bool[n_switches, 256] by portnum; ``ends`` bool[ends]."""

    switch_ports: np.ndarray
    ends: np.ndarray


class _Names:
    """NodeDescriptions of a graph's switches and ends, read once."""

    def __init__(self, graph: SwitchGraph):
        self.graph = graph
        self._text: list[str] | None = None

    def by_node(self) -> list[str]:
        """By the caller's node; empty where the graph has none."""
        if self._text is None:
            desc = self.graph.node_desc
            rows: Any = [] if desc is None else np.ascontiguousarray(desc, np.uint8)
            self._text = [bytes(row).split(b"\0")[0].decode(errors="replace").strip() for row in rows]
        return self._text


def with_root_groups(graph: SwitchGraph, options: RouteOptions, notes: list[str]) -> RouteOptions:
    """``options`` with the switches of its ``root_groups`` among the roots; ``notes`` name a group
    that has none."""
    members = members_of(graph, options.groups)
    chosen = np.zeros(graph.n_switches, bool)
    for name in options.root_groups:
        switches = members[name].switch_ports.any(axis=1)
        chosen |= switches
        if not switches.any():
            notes.append(f"root_guid_file names the port group {name}, which has no switch here")
    guids = {*options.root_guids, *graph.switch_guid[chosen].tolist()}
    return replace(options, root_guids=tuple(sorted(guids)), root_groups=(), groups=())


def members_of(graph: SwitchGraph, groups: tuple[PortGroup, ...]) -> dict[str, Members]:
    """The ports of each of ``groups``, and of those that are always there."""
    shape = (graph.n_switches, PORTS)
    switch_end = graph.end_is_switch
    none, every = np.zeros(shape, bool), np.ones(shape, bool)
    found = {
        "ALL": Members(every, np.ones(len(graph.end_lid), bool)),
        "ALL_SWITCHES": Members(every, switch_end.copy()),
        "ALL_CAS": Members(none, ~switch_end),
    }
    names = _Names(graph)
    for group in groups:
        found[group.name] = _members(graph, group, found, names)
    return found


def part_of(graph: SwitchGraph, topology: Topology, groups: dict[str, Members]) -> tuple[np.ndarray, SwitchGraph]:
    """The switches of ``topology`` (rows of ``graph``), and it as a graph: cables whose two ends
    are in its group, adapters of its other group on such ports, and its switches' own LIDs."""
    ports, adapters = groups[topology.switches].switch_ports, groups[topology.adapters].ends
    switches = np.asarray(ports.any(axis=1))
    owner = np.repeat(np.arange(graph.n_switches), np.diff(graph.first))
    links = ports[owner, graph.out_port]
    ends: np.ndarray = graph.end_is_switch | (adapters & ports[graph.end_switch, graph.end_port])
    return np.flatnonzero(switches), subgraph(graph, switches, links, ends)


def _members(graph: SwitchGraph, group: PortGroup, found: dict[str, Members], names: _Names) -> Members:
    out = Members(np.zeros((graph.n_switches, PORTS), bool), np.zeros(len(graph.end_lid), bool))
    node_guid = _node_guids(graph)
    for guid, ports in group.guids:
        _add(graph, out, graph.switch_guid == guid, (graph.end_guid == guid) | (node_guid == guid), ports)
    for first, last in group.ranges:
        inside = lambda guids, a=first, b=last: (guids >= np.uint64(a)) & (guids <= np.uint64(b))
        _add(graph, out, inside(graph.switch_guid), inside(graph.end_guid), frozenset())
    for pattern in group.patterns:
        matching = np.array([pattern.pattern.search(name) is not None for name in names.by_node()] or [False])
        _add_nodes(graph, out, matching, pattern.ports, len(names.by_node()))
    for host in group.hosts:
        matching = np.array([_is_host(name, host) for name in names.by_node()] or [False])
        switches_not = Members(np.zeros_like(out.switch_ports), out.ends)
        _add_nodes(graph, switches_not, matching, host.ports, len(names.by_node()))
    for first_name, second_name in group.unions:
        for member in (found[first_name], found[second_name]):
            out.switch_ports[:] |= member.switch_ports
            out.ends[:] |= member.ends
    for first_name, second_name in group.subtractions:
        a, b = found[first_name], found[second_name]
        out.switch_ports[:] |= a.switch_ports & ~b.switch_ports
        out.ends[:] |= a.ends & ~b.ends
    return out


def _node_guids(graph: SwitchGraph) -> np.ndarray:
    """uint64[ends]: NodeGUID of a switch's own port, 0 of the others: an adapter is named by its
    PortGUIDs."""
    return np.where(graph.end_is_switch, graph.switch_guid[graph.end_switch], np.uint64(0))


def _add(graph: SwitchGraph, out: Members, switches: np.ndarray, ends: np.ndarray, ports: Ports) -> None:
    chosen = np.zeros(PORTS, bool)
    chosen[list(ports) if ports else slice(None)] = True
    out.switch_ports[:] |= switches[:, None] & chosen
    out.ends[:] |= ends & (graph.end_is_switch | chosen[graph.end_portnum])


def _add_nodes(graph: SwitchGraph, out: Members, matching: np.ndarray, ports: Ports, n: int) -> None:
    """``matching`` bool[nodes]. An end that is away (node -1) is not in it."""
    if n:
        _add(graph, out, matching[graph.switch_node], (graph.end_node >= 0) & matching[graph.end_node], ports)


def _is_host(name: str, rule: HostRule) -> bool:
    fields = name.split()
    if not fields or fields[0] != rule.host:
        return False
    if rule.hca is None:
        return True
    number = _HCA.search(fields[-1]) if len(fields) > 1 else None
    return number is not None and int(number[1]) == rule.hca
