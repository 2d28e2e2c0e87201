"""Finds the ports of an absent node: the free ports between or next to the ports of its neighbours in a row of
names.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from softib.diags.view import FabricView, adapter_of

__all__ = ["ALL_FREE", "MIN_ROW", "Absent", "fill_ports", "in_use_elsewhere", "is_free", "left_by_a_switch"]

MIN_ROW = 4
"""Minimum number of members of a row."""
ALL_FREE = 0.8
"""Minimum share of the ports at a missing node's position that must be free."""
MOSTLY = 0.5
"""Minimum share of the leaves that must have a host at a port number for it to be a host's position."""


@dataclass
class Absent:
    """A missing node. ``name``: derived from its neighbours ``before`` and ``after`` in the row of names. ``ports``:
    rows of free ports at which it would be cabled. ``port_count``: the number of its cables. ``neighbours``: the
    adapters that are the evidence, if all adapters of a host have the same name.
    """

    name: str
    before: int
    after: int
    ports: list[int] = field(default_factory=list)
    port_count: int = 0
    neighbours: set[int] = field(default_factory=set)
    in_grid: bool = False
    """Whether the switches of its rows of names are cabled to each other."""
    across: bool = False
    """Whether hosts are numbered across the leaves, so that its neighbours in name are on other leaves."""
    at_edge: bool = False
    """Whether its neighbours in name are on different nodes, so that its ports are beside those of one of them."""
    sure: bool = True
    """False if the ports may be free because they are reserved for switches that are not yet installed."""

    @property
    def host(self) -> str:
        """The host of an adapter (``host mlx5_0``), otherwise the whole name."""
        both = adapter_of(self.name)
        return both[0] if both else self.name


def fill_ports(view: FabricView, rank: np.ndarray, absent: Absent, k: int, gap: int) -> None:
    """Set the ports of ``absent``. If cables of both neighbours lead to one node, the free port is between them. If
    they lead to two nodes (at the edge of a leaf or a pod), it is after the port of one neighbour or before the port of
    the other. At such an edge, only a switch's cables to the tier below are used, if it has any, because pods have
    different switches above.
    """
    f = view.fabric
    before, after = absent.before, absent.after
    below = any(
        rank[f.port_node[p]] < rank[before] and view.is_switch[f.port_node[p]]
        for p in f.port_peer[list(f.ports_of(before))].tolist()
        if p >= 0
    )
    last = min(int(f.node_nports[before]), int(f.node_nports[after]))
    between: list[int] = []
    edges: tuple[list[int], list[int]] = ([], [])
    for number in range(1, last + 1):
        p, q = int(f.port_peer[f.node_base[before] + number]), int(f.port_peer[f.node_base[after] + number])
        if p >= 0 and q >= 0 and f.port_node[p] == f.port_node[q] and _counts(view, before, p):
            span = int(f.port_num[q]) - int(f.port_num[p])
            if span % gap == 0 and span != 0:
                between.append(p + span // gap * k)
    for edge, node, steps in ((edges[0], before, k), (edges[1], after, k - gap)):
        opposite = (after, True) if node == before else (before, False)
        row_continues = not view.is_host[node] or _at_the_end(view, *opposite)
        for p in f.port_peer[list(f.ports_of(node))].tolist():
            if p >= 0 and _counts(view, node, p) and (not below or rank[f.port_node[p]] < rank[node]):
                place = p + steps * _cables(view, node, int(f.port_node[p]))
                # A host's position is a port number that most leaves use for hosts. If the row of names continues on
                # the next leaf, it is enough that some leaves use it.
                used = view.host_numbers[f.port_num[place]] if 0 <= place < f.sizes.ports else 0
                if not view.is_host[node] or (used > 0 and (row_continues or used >= MOSTLY)):
                    edge.append(place)
    if between or not 0 < k < gap or (view.is_host[before] and _host(view, before) == _host(view, after)):
        _note(view, absent, between)
        return
    whole = [e for e in edges if _all_free(view, e, before if e is edges[0] else after)]
    if len(whole) == 2 and view.is_switch[before]:  # ports after the last peer are spare unless other switches use them
        whole = [e for e in whole if in_use_elsewhere(view, rank, e)]
    if len(whole) == 1:
        absent.at_edge = True
        _note(view, absent, whole[0])


def _at_the_end(view: FabricView, host: int, first: bool) -> bool:
    """Return whether the host is at the first (or, if not ``first``, the last) port with a host on its leaf."""
    f = view.fabric
    for p in f.port_peer[list(f.ports_of(host))].tolist():
        if p < 0:
            continue
        leaf_ports = np.array(f.ports_of(int(f.port_node[p])))
        peers = f.port_peer[leaf_ports]
        hosts = leaf_ports[(peers >= 0) & view.is_host[f.port_node[np.maximum(peers, 0)]]]
        if len(hosts) and p == int(hosts[0] if first else hosts[-1]):
            return True
    return False


def _counts(view: FabricView, node: int, peer: int) -> bool:
    """Return whether a neighbour's cable to ``peer`` is compared. A switch's cables to hosts are not compared, because
    an absent switch also hides its hosts.
    """
    return bool(view.is_switch[view.fabric.port_node[peer]]) or bool(view.is_host[node])


def _host(view: FabricView, node: int) -> str:
    both = adapter_of(view.names[node])
    return both[0] if both else view.names[node]


def _cables(view: FabricView, node: int, peer: int) -> int:
    """Return the number of cables between two nodes."""
    f = view.fabric
    peer_ports = f.port_peer[list(f.ports_of(node))]
    return int((f.port_node[peer_ports[peer_ports >= 0]] == peer).sum())


def _all_free(view: FabricView, ports: list[int], neighbour: int) -> bool:
    """Return whether nearly all ``ports`` are free on the nodes to which ``neighbour`` is connected."""
    f = view.fabric
    peer_ports = f.port_peer[list(f.ports_of(neighbour))]
    nodes = set(f.port_node[peer_ports[peer_ports >= 0]].tolist())
    free = sum(is_free(view, p) and int(f.port_node[p]) in nodes for p in ports)
    return bool(ports) and free >= ALL_FREE * len(ports)


def in_use_elsewhere(view: FabricView, rank: np.ndarray, ports: list[int], nearly_all: bool = False) -> bool:
    """Return whether some (or ``nearly_all``) other switches of the tier have cables at all port numbers of
    ``ports``.
    """
    f = view.fabric
    others = np.flatnonzero(view.is_switch & (rank == rank[f.port_node[ports[0]]]))
    others = np.setdiff1d(others, f.port_node[ports])
    for number in np.unique(f.port_num[ports]).tolist():
        having = others[f.node_nports[others] >= number]
        cabled = np.count_nonzero(f.port_cable[f.node_base[having] + number] >= 0)
        if not cabled or (nearly_all and cabled < ALL_FREE * len(others)):
            return False
    return True


def left_by_a_switch(view: FabricView, rank: np.ndarray, absent: Absent) -> bool:
    """Return whether the ports of ``absent`` are the only free ports of several leaves, and would, if they were used,
    give each leaf equal numbers of hosts and uplinks.
    """
    f, ports_there = view.fabric, set(absent.ports)
    leaves = np.unique(f.port_node[absent.ports])
    if len(ports_there) < absent.port_count or (rank[leaves] != 1).any():
        return False
    full = 0
    for leaf in leaves.tolist():
        ports = np.array([p for p in f.ports_of(leaf) if f.port_num[p]])
        free = ports[f.port_cable[ports] < 0]
        peer = f.port_node[f.port_peer[np.setdiff1d(ports, free)]]
        hosts, uplinks = int(view.is_host[peer].sum()), int(view.is_switch[peer].sum()) + len(free)
        full += ports_there >= {*free.tolist()} and hosts == uplinks
    return full >= MIN_ROW


def is_free(view: FabricView, port: int) -> bool:
    f = view.fabric
    return 0 <= port < f.sizes.ports and f.port_num[port] > 0 and bool(f.port_cable[port] < 0)


def _note(view: FabricView, absent: Absent, ports: list[int]) -> None:
    absent.port_count = len(ports)
    absent.ports = [p for p in ports if is_free(view, p)]
