"""``chain``: separate engines route parts of a fabric, one after the other
(:mod:`softib.routing.chains.chain_policy`).

The first step routes the whole fabric, each later step its own topology. Entries of later steps
override those of earlier ones. The tables of a step never lead out of its topology, and each switch
in the topology that has an entry forwards towards the destination. So the entries along a path
belong to steps whose number never decreases, and the paths of a chain have no loop if those of each
step have none.

Two engines' tables can form a credit loop together even if neither has one. A step is omitted if
its tables would form a loop or lose a pair; ``notes`` report this.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from softib.iba.constants import LFT_NO_ROUTE
from softib.plural import counted
from softib.routing.chains.chain_policy import ChainPolicy, HostRule, PortGroup, Ports, Step, Topology
from softib.routing.engine import RouteOptions, Routing, engine
from softib.routing.engines.minhop import by_minhop
from softib.routing.graph import SwitchGraph
from softib.routing.proof.credit_loops import has_credit_loop
from softib.routing.proof.reach import lost_pairs

__all__ = ["Members", "members_of", "part_of", "route", "subgraph", "with_root_groups"]


def subgraph(graph: SwitchGraph, switches: np.ndarray, links: np.ndarray, ends: np.ndarray) -> SwitchGraph:
    """Return a part of ``graph``: the ``switches`` (bool[n_switches]), the ``links`` between them
    (bool[links], with both directions of a cable or neither), and the ``ends`` on them
    (bool[ends]). Rows keep their order, and tables have as many columns as those of ``graph``."""
    row_of = np.cumsum(switches) - 1
    owner = np.repeat(np.arange(graph.n_switches), np.diff(graph.first))
    links = links & links[graph.reverse] & switches[owner] & switches[graph.peer]
    ends = ends & switches[graph.end_switch]
    link_of = np.cumsum(links) - 1
    kept = row_of[owner[links]]
    return replace(
        graph,
        n_switches=int(np.count_nonzero(switches)),
        switch_node=graph.switch_node[switches],
        switch_guid=graph.switch_guid[switches],
        switch_nports=graph.switch_nports[switches],
        switch_system=graph.switch_system[switches],
        first=np.searchsorted(kept, np.arange(np.count_nonzero(switches) + 1)).astype(np.int32),
        out_port=graph.out_port[links],
        peer=row_of[graph.peer[links]].astype(np.int32),
        peer_port=graph.peer_port[links],
        reverse=link_of[graph.reverse[links]].astype(np.int32),
        end_lid=graph.end_lid[ends],
        end_lmc=graph.end_lmc[ends],
        end_switch=row_of[graph.end_switch[ends]].astype(np.int32),
        end_port=graph.end_port[ends],
        end_is_switch=graph.end_is_switch[ends],
        end_guid=graph.end_guid[ends],
        end_node=graph.end_node[ends],
        end_portnum=graph.end_portnum[ends],
        end_is_compute=graph.end_is_compute[ends],
    )


PORTS = 256
_HCA = re.compile(r"(?:HCA-|mlx\d+_)(\d+)$")


class Members(NamedTuple):
    """Members of a group: ``switch_ports`` bool[n_switches, 256] by portnum, and ``ends``
    bool[ends]."""

    switch_ports: np.ndarray
    ends: np.ndarray


class _Names:
    """NodeDescriptions of a graph's switches and ends, read once."""

    def __init__(self, graph: SwitchGraph):
        self.graph = graph
        self._text: list[str] | None = None

    def by_node(self) -> list[str]:
        """Return the rows of the graph by the caller's node; a node that the graph lacks has no row."""
        if self._text is None:
            desc = self.graph.node_desc
            rows: Any = [] if desc is None else np.ascontiguousarray(desc, np.uint8)
            self._text = [bytes(row).split(b"\0")[0].decode(errors="replace").strip() for row in rows]
        return self._text


def with_root_groups(graph: SwitchGraph, options: RouteOptions, notes: list[str]) -> RouteOptions:
    """Return ``options`` with the switches of its ``root_groups`` added to the roots. ``notes``
    report groups without switches."""
    members = members_of(graph, options.groups)
    chosen = np.zeros(graph.n_switches, bool)
    for name in options.root_groups:
        switches = members[name].switch_ports.any(axis=1)
        chosen |= switches
        if not switches.any():
            notes.append(f"root_guid_file names the port group {name}, which has no switch in this fabric")
    guids = {*options.root_guids, *graph.switch_guid[chosen].tolist()}
    return replace(options, root_guids=tuple(sorted(guids)), root_groups=(), groups=())


def members_of(graph: SwitchGraph, groups: tuple[PortGroup, ...]) -> dict[str, Members]:
    """Return the ports of each of ``groups``, and of the predefined ones."""
    shape = (graph.n_switches, PORTS)
    switch_end = graph.end_is_switch
    none, every = np.zeros(shape, bool), np.ones(shape, bool)
    members = {
        "ALL": Members(every, np.ones(len(graph.end_lid), bool)),
        "ALL_SWITCHES": Members(every, switch_end.copy()),
        "ALL_CAS": Members(none, ~switch_end),
    }
    names = _Names(graph)
    for group in groups:
        members[group.name] = _members(graph, group, members, names)
    return members


def part_of(graph: SwitchGraph, topology: Topology, groups: dict[str, Members]) -> tuple[np.ndarray, SwitchGraph]:
    """Return the switches of ``topology`` (rows of ``graph``), and its graph. The graph has the
    cables whose two ends are in the switch group, the adapters of the adapter group on ports of the
    switch group, and the switches' own LIDs."""
    ports, adapters = groups[topology.switches].switch_ports, groups[topology.adapters].ends
    switches = np.asarray(ports.any(axis=1))
    owner = np.repeat(np.arange(graph.n_switches), np.diff(graph.first))
    links = ports[owner, graph.out_port]
    ends: np.ndarray = graph.end_is_switch | (adapters & ports[graph.end_switch, graph.end_port])
    return np.flatnonzero(switches), subgraph(graph, switches, links, ends)


def _members(graph: SwitchGraph, group: PortGroup, members: dict[str, Members], names: _Names) -> Members:
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
        for member in (members[first_name], members[second_name]):
            out.switch_ports[:] |= member.switch_ports
            out.ends[:] |= member.ends
    for first_name, second_name in group.subtractions:
        a, b = members[first_name], members[second_name]
        out.switch_ports[:] |= a.switch_ports & ~b.switch_ports
        out.ends[:] |= a.ends & ~b.ends
    return out


def _node_guids(graph: SwitchGraph) -> np.ndarray:
    """Return uint64[ends]: the NodeGUID of a switch's own port; 0 for the other ends, which have PortGUIDs."""
    return np.where(graph.end_is_switch, graph.switch_guid[graph.end_switch], np.uint64(0))


def _add(graph: SwitchGraph, out: Members, switches: np.ndarray, ends: np.ndarray, ports: Ports) -> None:
    chosen = np.zeros(PORTS, bool)
    chosen[list(ports) if ports else slice(None)] = True
    out.switch_ports[:] |= switches[:, None] & chosen
    out.ends[:] |= ends & (graph.end_is_switch | chosen[graph.end_portnum])


def _add_nodes(graph: SwitchGraph, out: Members, matching: np.ndarray, ports: Ports, n: int) -> None:
    """Add the nodes in ``matching`` (bool[nodes]) to ``out``. Ends whose node is not in the graph
    (-1) are left out."""
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


def route(graph: SwitchGraph, options: RouteOptions) -> Routing:
    """Return the tables of all steps of ``options.chain``, or minhop's tables if there is no
    chain."""
    policy = options.chain
    if policy is None:
        return by_minhop(graph, options, "chain", "no rch_policy_file is given")
    groups, notes = members_of(graph, policy.groups), _empty_groups(graph, policy)
    lft = np.full((graph.n_switches, graph.lft_size), LFT_NO_ROUTE, np.uint8)
    loops, lost = False, 0
    for nth, step in enumerate(s for s in policy.steps if not s.fallback_to):
        part = _made(graph, options, policy, groups, step, notes, is_first=nth == 0)
        if part is None:
            continue
        new = lft.copy()
        new[part.switches] = np.where(part.lft != LFT_NO_ROUTE, part.lft, lft[part.switches])
        new_loops, new_lost = has_credit_loop(graph, new), lost_pairs(graph, new)
        if nth and (new_loops > loops or new_lost > lost):
            why = (
                f"would lose {counted(new_lost - lost, 'pair')}"
                if new_lost > lost
                else "would close a credit loop with the steps before"
            )
            notes.append(f"{_called(part.step)} {why}; left out")
            continue
        lft, loops, lost = new, new_loops, new_lost
        notes.append(
            f"{_called(part.step)}: {counted(len(part.switches), 'switch')}, "
            f"{counted(int((part.lft != LFT_NO_ROUTE).any(axis=0).sum()), 'LID')}"
        )
    return Routing("chain", lft, notes=notes)


class _Part(NamedTuple):
    """Tables of a part of the fabric."""

    step: Step
    switches: np.ndarray
    """Rows of the switches, int64."""
    lft: np.ndarray
    """uint8[switches, LIDs]"""


def _made(
    graph: SwitchGraph,
    options: RouteOptions,
    policy: ChainPolicy,
    groups: dict[str, Members],
    step: Step,
    notes: list[str],
    is_first: bool,
) -> _Part | None:
    """Try ``step``, then its fallbacks. Return the first that succeeds."""
    topologies = {t.id: t for t in policy.topologies}
    last: _Part | None = None
    for tried in (step, *(s for s in policy.steps if s.fallback_to == step.id)):
        whole = not tried.topology
        rows, part = (
            (np.arange(graph.n_switches), graph) if whole else part_of(graph, topologies[tried.topology], groups)
        )
        if not part.n_switches:
            notes.append(f"{_called(tried)}: no switch of its topology exists")
            continue
        step_options = replace(
            tried.options or options, data_vls=options.data_vls, past_roots=(), proven=None, chain=None
        )
        routing = engine(tried.engine)(part, step_options)
        last = _Part(tried, rows, routing.lft)
        why = "; ".join(routing.notes) if routing.engine != tried.engine else ""
        if not why and (lost := lost_pairs(part, routing.lft)):
            why = f"leaves {counted(lost, 'pair')} without a route"
        if not why:
            return last
        notes.append(f"{_called(tried)} failed: {why}")
    return last if is_first else None


def _called(step: Step) -> str:
    return f"step {step.id} ({step.engine}, topology {step.topology})"


def _empty_groups(graph: SwitchGraph, policy: ChainPolicy) -> list[str]:
    named = any(group.hosts or group.patterns for group in policy.groups)
    return (
        ["port-name and port-regexp match no port: names of nodes are unknown here"]
        if named and graph.node_desc is None
        else []
    )
