"""Finds absent switches from port numbers, without their names. Either a port number between used numbers is free on
all switches of a kind, or a port number is free on all switches of a plane although all other planes use it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import numpy as np

from softib.components import components
from softib.diags.structure.absent import name_between
from softib.diags.structure.absent_ports import ALL_FREE, Absent
from softib.diags.view import FabricView

__all__ = ["between_only_two", "free_rows", "named_by_peers", "other_side"]

MIN_PEERS = 4
"""Minimum number of switches of a kind."""
MAX_MISSING, MIN_WITNESSES = 0.25, 6
"""Maximum share of missing peers (a larger share is the design of the site), and minimum number of switches of a kind
for a report of two missing peers.
"""
FULL_ROW = 6
"""Minimum number of port numbers that all switches of a kind must use, for a report of several missing peers or of a
missing first peer. With fewer numbers, only a single missing peer between two others is reported.
"""
MIN_PLANES = 2
"""Minimum number of complete planes, with which an incomplete plane is compared."""


def free_rows(view: FabricView, rank: np.ndarray, explained: set[int]) -> list[list[int]]:
    """Return the ports of absent switches whose names are unknown: numbers between used numbers that are free on all
    switches of a kind.

    A kind consists of the switches of one tier that have the same peers and the same number of cables to each. Each
    entry has the rows of the free ports of one absent switch. Entries with a row in ``explained`` are omitted.
    """
    f = view.fabric
    links = view.between_switches
    a, b = view.port_a[links], view.port_b[links]
    ports, peers = np.concatenate([a, b]), np.concatenate([b, a])
    out: list[list[int]] = []
    growth: list[list[int]] = []
    for sign in (1, -1):
        rows = ports[
            sign * rank[f.port_node[peers]].astype(np.int64) > sign * rank[f.port_node[ports]].astype(np.int64)
        ]
        if len(rows):
            numbered = _free_numbers(view, rank, rows, explained)
            taken = explained.union(*numbered)
            in_planes = [row for row in _of_planes(view, rank, rows) if not taken & set(row)]
            out += numbered + in_planes
            if sign < 0:  # sites add leaves at the end, so upward ports need evidence from below
                last = np.zeros(len(view.names), np.int64)
                np.maximum.at(last, f.port_node[rows], f.port_num[rows])
                growth = [row for row in in_planes if all(f.port_num[row] > last[f.port_node[row]])]
    return [row for row in _both_sides(view, rank, out) if row not in growth]


def between_only_two(view: FabricView, rank: np.ndarray, row: list[int]) -> bool:
    """Return whether the switches of ``row`` have only two peers in this direction, on both sides of the free ports.
    Two peers that use every second port look the same.
    """
    f = view.fabric
    node = int(f.port_node[row[0]])
    numbers = [int(f.port_num[p]) for p in row if f.port_node[p] == node]
    if max(numbers) == f.node_nports[node]:
        return False
    neighbours = f.port_peer[[f.node_base[node] + n for n in (min(numbers) - 1, max(numbers) + 1)]]
    there = f.port_peer[list(f.ports_of(node))]
    peers = np.unique(f.port_node[there[there >= 0]])
    if (neighbours < 0).any():
        return False
    tier = rank[f.port_node[neighbours]]
    return len(peers[np.isin(rank[peers], tier) & view.is_switch[peers]]) == 2


def named_by_peers(view: FabricView, row: list[int]) -> Absent | None:
    """Return the absent switch to which the free ports of ``row`` belong. Its name is between the names of the peers at
    the ports before and after, on all switches of ``row``. Return None if these two names do not differ by two in one
    number.
    """
    f = view.fabric
    peers = set()
    for node in np.unique(f.port_node[row]).tolist():
        ports = [p for p in row if f.port_node[p] == node]
        next_to = [p for p in (min(ports) - 1, max(ports) + 1) if p in f.ports_of(node) and f.port_peer[p] >= 0]
        peers.add(tuple(int(f.port_node[f.port_peer[p]]) for p in next_to))
    if len(peers) != 1 or len(both := peers.pop()) != 2:
        return None
    before, after = both
    name = name_between(view.names[before], view.names[after], 1, 2)
    return Absent(name, before, after, ports=row, port_count=len(row)) if name and name not in view.names else None


def _of_planes(view: FabricView, rank: np.ndarray, rows: np.ndarray) -> Iterator[list[int]]:
    """Yield the free ports of each missing switch of a plane.

    A plane consists of switches of one tier and all their peers in the next tier, and has no cable to another plane.
    Examples are pods (leaves and their spines) and groups of cores with their aggregation switches. Most planes have
    the same size. If a plane has all members of the lower tier but fewer peers, a port number that all other planes use
    is free on all of these members.
    """
    f = view.fabric
    for tier in np.unique(rank[f.port_node[rows]]).tolist():
        ports = rows[rank[f.port_node[rows]] == tier]
        node, peer = f.port_node[ports], f.port_node[f.port_peer[ports]]
        plane = components(len(view.names), node, peer)
        sizes = {
            p: (len(np.unique(node[plane[node] == p])), len(np.unique(peer[plane[node] == p])))
            for p in np.unique(plane[node]).tolist()
        }
        (usual, whole), *_ = Counter(sizes.values()).most_common(1)
        if whole < MIN_PLANES or 2 * whole <= len(sizes):
            continue
        complete = ports[[sizes[p] == usual for p in plane[node].tolist()]]
        members = np.unique(f.port_node[complete])
        numbers = np.flatnonzero(np.bincount(f.port_num[complete]) == len(members)).tolist()
        a_pair = len(complete) // (whole * usual[0] * usual[1]) or 1
        for p, (switches, peers) in sizes.items():
            missing, of = usual[1] - peers, np.unique(node[plane[node] == p])
            if switches != usual[0] or not 1 <= missing <= max(1, MAX_MISSING * usual[1]):
                continue
            free = {n: [int(f.node_base[m]) + n for m in of.tolist() if f.node_nports[m] >= n] for n in numbers}
            free = {n: row for n, row in free.items() if len(row) == switches and (f.port_cable[row] < 0).all()}
            if len(free) == missing * a_pair:
                for group in _peers_of(list(free), _offsets(view, complete), a_pair):
                    yield [port for n in sorted(group) for port in free[n]]


def _both_sides(view: FabricView, rank: np.ndarray, rows: list[list[int]]) -> list[list[int]]:
    """Return ``rows``. If there are only two, one below and one above the position of a single absent switch, merge
    them into one.
    """
    tiers = [int(rank[view.fabric.port_node[row[0]]]) for row in rows]
    out = []
    for row, tier in zip(rows, tiers, strict=True):
        if tiers.count(tier) == tiers.count(tier + 2) == 1 and len(rows) == 2:
            return [row + rows[tiers.index(tier + 2)]]
        out.append(row)
    return out


def _free_numbers(view: FabricView, rank: np.ndarray, rows: np.ndarray, explained: set[int]) -> list[list[int]]:
    """Return the free ports of absent peers: port numbers that are free on every switch of a kind. ``rows``: the ports
    of one direction.
    """
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
        if not len(numbers) or (used[numbers] == len(members)).mean() < ALL_FREE:
            continue  # the switches do not all use the same contiguous ports
        # Free ports before the first peer count as a gap, because spare ports are at the end.
        full = len(numbers) >= FULL_ROW
        gaps = np.setdiff1d(np.arange(1 if full and numbers[0] == 1 + a_pair else numbers[0], numbers[-1] + 1), numbers)
        has = gaps < f.node_nports[members].min() + 1
        free = [[int(f.node_base[m]) + n for m in members.tolist()] for n in gaps[has].tolist()]
        free = [ports for ports in free if (f.port_cable[ports] < 0).all()]
        numbers_free = [int(f.port_num[ports[0]]) for ports in free]
        missing = len(free) / a_pair
        several = 2 if len(members) >= MIN_WITNESSES else 1
        reached = len(numbers) / a_pair
        most = max(several, MAX_MISSING * reached) if full else 1
        if missing >= max(2, reached - 1):  # a gap after every peer: peers use every second port
            continue
        if missing != int(missing) or not 1 <= missing <= most:
            continue
        groups = _peers_of(numbers_free, _offsets(view, of_kind), a_pair)
        rows_of = dict(zip(numbers_free, free, strict=True))
        if (len(groups) > 1 or not full) and tuple(numbers_free) in by_numbers:
            by_numbers[tuple(numbers_free)] = []  # several kinds leave the same numbers free, so this is a design
            continue
        by_numbers.setdefault(tuple(numbers_free), []).extend(
            [p for n in sorted(group) for p in rows_of[n]] for group in groups
        )
    return _joined(view, [flat for found in by_numbers.values() for flat in found if not explained & set(flat)])


def _joined(view: FabricView, rows: list[list[int]]) -> list[list[int]]:
    """Merge ``rows`` of several kinds if a switch is cabled to all these kinds, because the absent switch is then
    cabled in the same way. Rows with the same port number are merged first.
    """
    f = view.fabric
    holders = [set(f.port_node[row].tolist()) for row in rows]
    reach = [
        [set(f.port_node[f.port_peer[[p for p in f.ports_of(n) if f.port_peer[p] >= 0]]].tolist()) for n in of]
        for of in holders
    ]
    common = [set.intersection(*each) for each in reach]
    left, out = list(range(len(rows))), list[list[int]]()
    while left:
        first = left.pop(0)
        group, here, peers = list(rows[first]), set(holders[first]), set(common[first])
        for i in sorted(left, key=lambda i: f.port_num[rows[i][0]] != f.port_num[rows[first][0]]):
            if not here & holders[i] and peers & common[i]:
                group += rows[i]
                here |= holders[i]
                peers &= common[i]
                left.remove(i)
        out.append(group)
    return out


def _offsets(view: FabricView, rows: np.ndarray) -> tuple[int, ...]:
    """Return the most frequent offsets of the ports to one peer, relative to the first of them: for example (0, 1) or
    (0, 18).
    """
    f = view.fabric
    pairs: dict[tuple[int, int], list[int]] = {}
    for port in rows.tolist():
        pairs.setdefault((int(f.port_node[port]), int(f.port_node[f.port_peer[port]])), []).append(
            int(f.port_num[port])
        )
    seen = Counter(tuple(n - min(numbers) for n in sorted(numbers)) for numbers in pairs.values())
    return seen.most_common(1)[0][0]


def _peers_of(numbers: list[int], offsets: tuple[int, ...], a_pair: int) -> list[set[int]]:
    """Divide ``numbers`` into one group of ``a_pair`` numbers for each missing peer. If they do not match ``offsets``,
    return all in one group.
    """
    left, groups = sorted(numbers), []
    while left:
        group = {left[0] + o for o in offsets}
        if not group <= set(left) or len(group) != a_pair:
            return [set(numbers)]
        groups.append(group)
        left = [n for n in left if n not in group]
    return groups


def _kinds_by_peers(view: FabricView, rank: np.ndarray, node: np.ndarray, peer: np.ndarray) -> np.ndarray:
    """Return the kind of each node (int64[nodes]): switches of one tier with the same set of peers have the same
    number; -1 without peers.

    A set is identified by the sum of fixed random numbers of its members. Two different sets have the same sum with
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


def other_side(
    view: FabricView, rank: np.ndarray, row: list[int], rows: list[list[int]], absent: list[Absent]
) -> Absent | None:
    """Return the switch in ``absent`` to which the free ports of ``row`` (one of ``rows``) also belong, on its other
    side.

    It is in the tier above if there is only one absent switch there and ``row`` is the only row of its tier. Otherwise
    it is in the tier below, if the switches at its free ports are also reached from the switches to which the row's
    port number leads on other switches of the row's tier."""
    f = view.fabric
    number, tier = int(f.port_num[row[0]]), int(rank[f.port_node[row[0]]])
    upper = [a for a in absent if rank[a.before] == tier + 1]
    if len(upper) == 1 and sum(rank[f.port_node[other[0]]] == tier for other in rows) == 1:
        return upper[0]
    others = np.setdiff1d(np.flatnonzero(view.is_switch & (rank == tier) & (f.node_nports >= number)), f.port_node[row])
    side = _peers(view, f.node_base[others] + number, rank, tier - 1)
    below = _peers(view, np.array([p for n in side for p in f.ports_of(n)], np.int64), rank, tier - 2)
    matching = [a for a in absent if rank[a.before] == tier - 1 and {int(f.port_node[p]) for p in a.ports} <= below]
    return matching[0] if len(matching) == 1 else None


def _peers(view: FabricView, ports: np.ndarray, rank: np.ndarray, tier: int) -> set[int]:
    peer = view.fabric.port_peer[ports.astype(np.int64)]
    nodes = view.fabric.port_node[peer[peer >= 0]]
    return set(nodes[rank[nodes] == tier].tolist())
