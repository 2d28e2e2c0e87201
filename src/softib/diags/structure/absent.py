"""Nodes that are not there: a gap in a row of names, and free ports at the gap's place.

A dead switch or host is in no dump, and neither are its cables. What it leaves is a number that
no one carries between two that are carried, and free ports between the ports that those two are
plugged into. Both together are reported; a gap in the numbers alone (sites leave numbers out) or a
free port alone (spare ports) is not.

Switches without numbered names leave a port number that is free on every one of their peers,
between used ones.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from softib.diags.labels import Labels, NodeClass, make_class
from softib.diags.view import FabricView, adapter_of

__all__ = ["Absent", "free_rows", "missing_names"]

MAX_GAP = 4
"""Missing numbers in a row: longer gaps are how a site numbers its racks."""
DENSE = 0.7
"""Share of a row's numbers that must be carried."""
MIN_ROW = 4
"""Members of a row of numbers."""
SHORT_ROW, MIN_PORTS_OF_SHORT_ROW = 3, 6
"""Members of a shorter one, and free ports at the place of its missing member that make up for it.
"""
ALL_FREE = 0.8
"""Share of a missing node's peer ports that must be free."""
MIN_SWITCH_PORTS = 2
"""Free ports at the place of a switch: one alone may be any cable."""
MIN_PEERS = 4
"""Switches of a kind, and …"""
MAX_MISSING, MIN_WITNESSES = 0.25, 6
"""Share of the port numbers in use up to which several missing peers are believed (more are how the
site is built); switches of a kind that are needed for two."""
MIN_USED = 6
"""… port numbers in use on all of them, from which a number that all leave free is a gap."""

_NUMBER = re.compile(r"\d+")


@dataclass
class Absent:
    """A node that is not there: ``name`` as its neighbours in the row ``before`` and ``after``
    suggest; ``ports`` are the free port rows at its place, ``port_count`` how many ports it should
    be plugged into. ``neighbours``: the adapters that told of it, of hosts whose adapters share one
    name."""

    name: str
    before: int
    after: int
    ports: list[int] = field(default_factory=list)
    port_count: int = 0
    neighbours: set[int] = field(default_factory=set)

    @property
    def host(self) -> str:
        """The host of an adapter (``host mlx5_0``), else the whole name."""
        both = adapter_of(self.name)
        return both[0] if both else self.name


def missing_names(view: FabricView, labels: Labels, rank: np.ndarray) -> list[Absent]:
    """Nodes that names and free ports imply, in the order of their classes. ``rank``: tier of
    each node."""
    names = set(view.names)
    found: dict[str, Absent] = {}
    for made in [*labels.classes, *_host_classes(view)]:
        if len(made.nodes) < SHORT_ROW or view.is_sharp[made.nodes[0]]:
            continue
        for before, after, step, gap in _gaps(made):
            name = _name_between(view.names[before], view.names[after], step, gap)
            if name is None or name in names:
                continue
            known = found.get(name)
            if known and (before in known.neighbours or view.names[before] not in view.host_descriptions):
                continue
            absent = Absent(name, before, after)
            _free_between(view, rank, absent, step, gap)
            least = MIN_SWITCH_PORTS if view.is_switch[before] else 1
            if len(made.nodes) < MIN_ROW:
                least = MIN_PORTS_OF_SHORT_ROW
            if len(absent.ports) < max(least, ALL_FREE * absent.port_count):
                continue
            if known:  # another adapter of a host whose adapters share its name
                known.ports += absent.ports
                known.port_count += absent.port_count
                known.neighbours.add(before)
            else:
                found[name] = absent
                absent.neighbours.add(before)
    return list(found.values())


def _host_classes(view: FabricView) -> Iterator[NodeClass]:
    """Hosts whose adapters all carry the host's name: a class for the first adapter of each, one
    for the second, and so on, by the leaf that it is plugged into: hosts side by side have theirs
    on the same leaves."""
    hosts: dict[str, list[int]] = {}
    for node in np.flatnonzero(view.is_host).tolist():
        shared = view.host_descriptions.get(view.names[node])
        if shared and shared.carriers == shared.usual:
            hosts.setdefault(view.names[node], []).append(node)
    forms: dict[str, list[list[int]]] = {}
    for name, nodes in hosts.items():
        forms.setdefault(view.host_descriptions[name].form, []).append(sorted(nodes, key=lambda n: _leaf_of(view, n)))
    for form, rows in forms.items():
        for column in zip(*rows, strict=True):
            made = make_class(form, np.array(column), [view.names[n] for n in column])
            if made is not None:
                yield made


def _leaf_of(view: FabricView, adapter: int) -> tuple[int, int]:
    """(node, port number) of what an adapter is plugged into first, (-1, 0) for none."""
    f = view.fabric
    peers = [int(f.port_peer[p]) for p in f.ports_of(adapter) if f.port_peer[p] >= 0]
    return (int(f.port_node[peers[0]]), int(f.port_num[peers[0]])) if peers else (-1, 0)


def _gaps(made: NodeClass) -> Iterator[tuple[int, int, int, int]]:
    """(node before, node after, position in the gap, length of the step) of every number that is
    left out of a row.

    A row are the members that differ in one number only; or, where one number alone distinguishes
    all members, all.
    """
    for s in range(made.numbers.shape[1]):
        x = made.numbers[:, s]
        alone = len(np.unique(x)) == len(x)
        others = np.zeros(len(x), np.int64) if alone else made.numbers @ made.stride - x * made.stride[s]
        order = np.lexsort((x, others))
        line = np.unique(others, return_inverse=True)[1].reshape(-1)
        size = np.bincount(line)
        low, high = np.full(len(size), np.iinfo(np.int64).max), np.zeros(len(size), np.int64)
        np.minimum.at(low, line, x)
        np.maximum.at(high, line, x)
        good = (size >= SHORT_ROW) & (size >= DENSE * (high - low + 1))
        before, after = order[:-1], order[1:]
        step = x[after] - x[before]
        gap = (line[before] == line[after]) & (step > 1) & (step <= MAX_GAP + 1) & good[line[before]]
        for i in np.flatnonzero(gap).tolist():
            for k in range(1, int(step[i])):
                yield int(made.nodes[before[i]]), int(made.nodes[after[i]]), k, int(step[i])


def _name_between(before: str, after: str, k: int, gap: int) -> str | None:
    """The name ``k`` of ``gap`` steps from ``before`` to ``after``, None where the numbers do not
    step alike.

    Numbers that differ otherwise (racks) stay as they are in ``before``.
    """
    low, high = _NUMBER.findall(before), _NUMBER.findall(after)
    stepped = False
    numbers = []
    for a, b in zip(low, high, strict=True):
        if int(b) - int(a) == gap:
            numbers.append(str(int(a) + k).zfill(len(a) if a.startswith("0") or len(a) == len(b) else 0))
            stepped = True
        else:
            numbers.append(a)
    if not stepped:
        return None
    parts = iter(numbers)
    return _NUMBER.sub(lambda _: next(parts), before)


def _free_between(view: FabricView, rank: np.ndarray, absent: Absent, k: int, gap: int) -> None:
    """Fill the places of ``absent``: where both neighbours have their cables in one node, the port
    between theirs; where they are on two nodes (the edge of a leaf or a pod), the port after the
    one or before the other. At an edge the tier below a switch tells, where it has one: pods reach
    different switches above."""
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
                # Where the row of names does not go from one end of a leaf to the next, only a port
                # that leaves use for hosts is a place.
                if row_continues or (0 <= place < f.sizes.ports and view.host_numbers[f.port_num[place]] >= 0.5):
                    edge.append(place)
    if between or (view.is_host[before] and _host(view, before) == _host(view, after)):
        _note(view, absent, between)
        return
    whole = [e for e in edges if _all_free(view, e, before if e is edges[0] else after)]
    if len(whole) == 1:
        _note(view, absent, whole[0])


def _at_the_end(view: FabricView, host: int, first: bool) -> bool:
    """True for a host in the first (else the last) port of hosts of its leaf."""
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
    """True for the cables that a neighbour of the missing node is compared by: a switch's hosts
    vanish with it."""
    return bool(view.is_switch[view.fabric.port_node[peer]]) or bool(view.is_host[node])


def _host(view: FabricView, node: int) -> str:
    both = adapter_of(view.names[node])
    return both[0] if both else view.names[node]


def _cables(view: FabricView, node: int, peer: int) -> int:
    """Cables between two nodes."""
    f = view.fabric
    peer_ports = f.port_peer[list(f.ports_of(node))]
    return int((f.port_node[peer_ports[peer_ports >= 0]] == peer).sum())


def _all_free(view: FabricView, ports: list[int], neighbour: int) -> bool:
    """True where nearly all ``ports`` are free ports of the nodes that ``neighbour`` is plugged
    into."""
    f = view.fabric
    peer_ports = f.port_peer[list(f.ports_of(neighbour))]
    nodes = set(f.port_node[peer_ports[peer_ports >= 0]].tolist())
    free = sum(_is_free(view, p) and int(f.port_node[p]) in nodes for p in ports)
    return bool(ports) and free >= ALL_FREE * len(ports)


def _is_free(view: FabricView, port: int) -> bool:
    f = view.fabric
    return 0 <= port < f.sizes.ports and f.port_num[port] > 0 and bool(f.port_cable[port] < 0)


def _note(view: FabricView, absent: Absent, ports: list[int]) -> None:
    absent.port_count = len(ports)
    absent.ports = [p for p in ports if _is_free(view, p)]


def free_rows(view: FabricView, rank: np.ndarray, explained: set[int]) -> list[list[int]]:
    """Port numbers that are free on all switches of a kind, between used ones: the place of a
    switch that has no name.

    A kind are switches of one tier that reach the same switches, each by the same number of cables.
    Each entry are the free port rows of one missing peer; those with a row in ``explained`` are
    left out.
    """
    f = view.fabric
    links = view.between_switches
    a, b = view.port_a[links], view.port_b[links]
    ports, peers = np.concatenate([a, b]), np.concatenate([b, a])
    out: list[list[int]] = []
    for sign in (1, -1):
        rows = ports[
            sign * rank[f.port_node[peers]].astype(np.int64) > sign * rank[f.port_node[ports]].astype(np.int64)
        ]
        if len(rows):
            out += _free_numbers(view, rank, rows, explained)
    return out


def _free_numbers(view: FabricView, rank: np.ndarray, rows: np.ndarray, explained: set[int]) -> list[list[int]]:
    """Of the ports ``rows`` (towards one direction): numbers that all switches of a kind leave out."""
    f = view.fabric
    node = f.port_node[rows]
    width = int(f.node_nports.max()) + 1
    kinds = _kinds_by_peers(view, rank, node, f.port_node[f.port_peer[rows]])
    by_numbers: dict[tuple[int, ...], list[list[int]]] = {}
    for kind in np.unique(kinds[node]).tolist():
        members = np.flatnonzero(kinds == kind)
        if len(members) < MIN_PEERS:
            continue
        of_kind = rows[kinds[node] == kind]
        pairs = np.unique(f.port_node[of_kind].astype(np.int64) * len(view.names) + f.port_node[f.port_peer[of_kind]])
        a_pair = round(len(of_kind) / len(pairs))
        used = np.bincount(f.port_num[of_kind], minlength=width)
        numbers = np.flatnonzero(used)
        if len(numbers) < MIN_USED or (used[numbers] == len(members)).mean() < ALL_FREE:
            continue  # not one row of ports that all of them fill
        # The first port counts as a gap, spare ports are at the end.
        gaps = np.setdiff1d(np.arange(1 if numbers[0] == 2 else numbers[0], numbers[-1] + 1), numbers)
        has = gaps < f.node_nports[members].min() + 1
        free = [[int(f.node_base[m]) + n for m in members.tolist()] for n in gaps[has].tolist()]
        free = [ports for ports in free if (f.port_cable[ports] < 0).all()]
        numbers_free = [int(f.port_num[ports[0]]) for ports in free]
        missing = len(free) / a_pair
        several = 2 if len(members) >= MIN_WITNESSES else 1
        if missing != int(missing) or not 1 <= missing <= max(several, MAX_MISSING * len(numbers) / a_pair):
            continue
        groups = _peers_of(numbers_free, _offsets(view, of_kind), a_pair)
        rows_of = dict(zip(numbers_free, free, strict=True))
        if len(groups) > 1 and tuple(numbers_free) in by_numbers:
            by_numbers[tuple(numbers_free)] = []  # several kinds leave out the same ones: that is how the site is built
            continue
        by_numbers.setdefault(tuple(numbers_free), []).extend(
            [p for n in sorted(group) for p in rows_of[n]] for group in groups
        )
    return [flat for found in by_numbers.values() for flat in found if not explained & set(flat)]


def _offsets(view: FabricView, rows: np.ndarray) -> tuple[int, ...]:
    """How the ports to one peer are numbered, from the first of them on: (0, 1), (0, 18) …, as on
    most pairs of nodes."""
    f = view.fabric
    pairs: dict[tuple[int, int], list[int]] = {}
    for port in rows.tolist():
        pairs.setdefault((int(f.port_node[port]), int(f.port_node[f.port_peer[port]])), []).append(
            int(f.port_num[port])
        )
    seen = Counter(tuple(n - min(numbers) for n in sorted(numbers)) for numbers in pairs.values())
    return seen.most_common(1)[0][0]


def _peers_of(numbers: list[int], offsets: tuple[int, ...], a_pair: int) -> list[set[int]]:
    """``numbers`` in groups of ``a_pair``: one for each missing peer; all in one group where they
    do not fit ``offsets``."""
    left, groups = sorted(numbers), []
    while left:
        group = {left[0] + o for o in offsets}
        if not group <= set(left) or len(group) != a_pair:
            return [set(numbers)]
        groups.append(group)
        left = [n for n in left if n not in group]
    return groups


def _kinds_by_peers(view: FabricView, rank: np.ndarray, node: np.ndarray, peer: np.ndarray) -> np.ndarray:
    """int64[nodes]: a number for switches of one tier with the same set of peers (-1 without any).

    A set is identified by the sum of a fixed random number for each member: two sets share it with
    probability 2**-64.
    """
    word = np.random.default_rng(0x1B).integers(1 << 62, size=len(view.names), dtype=np.uint64)
    pair = np.unique(node.astype(np.int64) * len(view.names) + peer)
    total = np.zeros(len(view.names), np.uint64)
    np.add.at(total, pair // len(view.names), word[pair % len(view.names)])
    member = np.unique(node)
    out = np.full(len(view.names), -1, np.int64)
    key = np.stack([rank[member].astype(np.uint64), total[member]])
    out[member] = np.unique(key, axis=1, return_inverse=True)[1].reshape(-1)
    return out
