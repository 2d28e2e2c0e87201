"""Finds uneven tiers without names, from the table of links between a tier and the next: each row of the table (a
switch) is compared with the most frequent row.

Switches of a tier that reach the same set of parents are one kind (a pod, or the whole tier). Within a kind all rows
should be equal. A different row shows which switch is uneven, and to which parents it has more or fewer links than
usual. A switch with a unique set of parents is compared with the kind that has most parents in common with it. If no
row has a majority, there are no findings.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from softib.diags.rules import mode
from softib.diags.view import FabricView

__all__ = [
    "Repairs",
    "Uneven",
    "UnevenTier",
    "tier_rows",
    "uneven",
    "uneven_as_a_whole",
    "without_majority",
]

MIN_KIND = 3
"""Minimum number of switches with equal rows for a kind."""
MAX_ODD = 0.15
"""Maximum share of a tier's switches that may differ. If more differ, the tier is designed so."""
MANY_FREE = 4
"""Maximum number of free ports that a finding names. If there are more candidates, it names none."""
HANDFUL = 2
"""Maximum number of a tier's switches that may differ even if their share exceeds :data:`MAX_ODD`."""
MOSTLY = 0.5
"""Minimum share of leaves with hosts for a leaf without hosts to be a spare."""
FEW_HOSTS = 0.5
"""If a leaf is cabled differently and has less than this share of the usual number of hosts, it serves another
purpose.
"""

SPUR = 0.25
"""If a switch with hosts has less than this share of the usual number of links of a tier, it is not part of the tier:
for example a management leaf on a free port.
"""


@dataclass(frozen=True)
class Lost:
    """A cable between a switch and ``parent`` that is missing according to the table of links, and the free ports to
    which it may belong.

    ``switch_ports`` (on the switch) and ``parent_ports`` (on the parent) are port rows. Each has one port if the
    numbers of other cables determine it, otherwise several candidates or none.
    """

    parent: int
    switch_ports: tuple[int, ...]
    parent_ports: tuple[int, ...]


@dataclass(frozen=True)
class Uneven:
    """An uneven ``switch``. It has ``links`` uplinks; other switches of its kind have ``usual``. ``fewer`` and
    ``more``: parents to which it has fewer or more links than usual.

    ``kind``: number of switches with the usual row. ``lost``: the missing cables to the parents in ``fewer``.
    """

    switch: int
    links: int
    usual: int
    kind: int
    fewer: tuple[int, ...]
    more: tuple[int, ...]
    lost: tuple[Lost, ...] = ()


@dataclass(frozen=True)
class Repairs:
    """Faults that other checks report: pairs of nodes whose link is ``removed`` from the table, and pairs whose link is
    added because it should ``belong`` there.

    The table is checked as if these faults were repaired, so that one fault at a switch does not hide another.
    """

    removed: tuple[tuple[int, int], ...] = ()
    belong: tuple[tuple[int, int], ...] = ()


Row = dict[int, int]
"""Number of links of a switch to each parent."""


def uneven(view: FabricView, rank: np.ndarray, repairs: Repairs = Repairs()) -> list[Uneven]:
    """Return the switches whose links to the tier above would differ from those of their kind even after
    ``repairs``.
    """
    return [u for _, rows in tier_rows(view, rank, repairs) for u in _uneven_tier(view, rows)]


def tier_rows(view: FabricView, rank: np.ndarray, repairs: Repairs = Repairs()) -> Iterator[tuple[int, dict[int, Row]]]:
    """Yield, for each tier, (tier, row of links to the next tier of each of its switches), as they would be after
    ``repairs``.
    """
    links = view.between_switches
    a, b = view.node_a[links], view.node_b[links]
    weight = np.ones(len(links), np.int64)
    for pairs, sign in ((repairs.removed, -1), (repairs.belong, 1)):
        if pairs:
            changes = np.array(pairs)
            a, b = np.concatenate([a, changes[:, 0]]), np.concatenate([b, changes[:, 1]])
            weight = np.concatenate([weight, np.full(len(changes), sign)])
    up = rank[a] < rank[b]
    low, high = np.where(up, a, b), np.where(up, b, a)
    with_hosts = np.bincount(view.fabric.port_node[view.to_hosts[2]], minlength=len(view.names)) > 0
    for r in range(1, int(rank.max(initial=0))):
        tier = (rank[low] == r) & (rank[high] == r + 1)
        tier &= ~np.isin(high, _spurs(view, high[tier]))
        if r == 1 and tier.any() and with_hosts[np.unique(low[tier])].mean() > MOSTLY:
            tier &= with_hosts[low]  # a leaf in reserve may be partly cabled
        if tier.any():
            yield r, _rows(len(view.names), low[tier], high[tier], weight[tier])


def _rows(nodes: int, low: np.ndarray, high: np.ndarray, weight: np.ndarray) -> dict[int, Row]:
    rows: dict[int, Row] = {}
    cell, at = np.unique(low.astype(np.int64) * nodes + high, return_inverse=True)
    count = np.bincount(at.reshape(-1), weight).astype(np.int64)
    for switch, parent, n in zip((cell // nodes).tolist(), (cell % nodes).tolist(), count.tolist(), strict=True):
        if n > 0:
            rows.setdefault(switch, {})[parent] = n
    return rows


Kinds = list[tuple[Row, list[int]]]
"""(row of links, switches with this row) for each row that several switches have."""


def kinds_of(rows: dict[int, Row]) -> tuple[Kinds, list[int]]:
    """Return (the kinds of the switches of a tier, the switches without a kind)."""
    kinds: dict[frozenset[tuple[int, int]], list[int]] = {}
    for switch, row in rows.items():
        kinds.setdefault(frozenset(row.items()), []).append(switch)
    usual = [(dict(key), members) for key, members in kinds.items() if len(members) >= MIN_KIND]
    return usual, [s for members in kinds.values() if len(members) < MIN_KIND for s in members]


def without_majority(rows: dict[int, Row]) -> bool:
    """Return whether so many switches have no kind that none of them can be called an exception."""
    usual, odd = kinds_of(rows)
    return not usual or len(odd) > max(HANDFUL, MAX_ODD * len(rows))


def _spurs(view: FabricView, parents: np.ndarray) -> np.ndarray:
    """Return whether each of ``parents`` (one entry per link) is not a parent, but an attached switch below: a switch
    with hosts and few links.
    """
    switch, links = np.unique(parents, return_counts=True)
    hosts = np.isin(switch, view.fabric.port_node[view.to_hosts[2]])
    return switch[hosts & (links < SPUR * np.median(links))] if len(switch) else switch


def _uneven_tier(view: FabricView, rows: dict[int, Row]) -> list[Uneven]:
    usual, odd = kinds_of(rows)
    if without_majority(rows):
        return []
    by_parent: dict[int, list[int]] = {}
    for k, (row, _) in enumerate(usual):
        for parent in row:
            by_parent.setdefault(parent, []).append(k)
    findings = []
    for switch in sorted(odd):
        similar = [k for parent in rows[switch] for k in by_parent.get(parent, ())]
        if similar:
            expected, members = usual[mode(np.array(similar))[0]]
            if not _other_design(view, switch, rows[switch], expected, members):
                findings.append(_compare(view, switch, rows[switch], expected, members))
    if len(odd) > max(1, MAX_ODD * len(rows)):
        # In a small tier, only missing links are certain, and pairs of switches that have each other's missing links.
        mirrored = {(u.more, u.fewer) for u in findings}
        findings = [u for u in findings if not u.more or (u.fewer, u.more) in mirrored]
    # Entirely different cabling of a switch is a design, not a fault.
    return [u for u in findings if len(u.fewer) + len(u.more) <= max(4, u.usual // 4) and (u.fewer or u.more)]


def _other_design(view: FabricView, switch: int, row: Row, expected: Row, members: list[int]) -> bool:
    """Return whether a leaf has another purpose (management, storage): it has fewer hosts than others of its kind, and
    more than one of its cables differs.
    """
    differ = sum(abs(row.get(p, 0) - expected.get(p, 0)) for p in {*row, *expected})
    if differ <= 1:
        return False
    hosts = _hosts_of(view, [switch, *members])
    return bool(hosts[0] < FEW_HOSTS * np.median(hosts[1:])) if len(hosts) > 1 else False


def _hosts_of(view: FabricView, switches: list[int]) -> np.ndarray:
    f = view.fabric
    return np.array(
        [
            int(view.is_host[f.port_node[p]].sum())
            for p in (f.port_peer[list(f.ports_of(s))] for s in switches)
            for p in [p[p >= 0]]
        ]
    )


def _compare(view: FabricView, switch: int, row: Row, expected: Row, members: list[int]) -> Uneven:
    parents = sorted({*row, *expected})
    fewer = tuple(p for p in parents if row.get(p, 0) < expected.get(p, 0))
    more = tuple(p for p in parents if row.get(p, 0) > expected.get(p, 0))
    lost: list[Lost] = []
    if not more:
        finder = _FreePorts(view, switch, expected, members)
        for parent in fewer:
            lost += finder.lost(parent, expected[parent] - row.get(parent, 0))
    return Uneven(switch, sum(row.values()), sum(expected.values()), len(members), fewer, more, tuple(lost))


class _FreePorts:
    """Finds the free ports to which missing cables between a switch and its parents belong, from the port numbers that
    other switches of its kind use.
    """

    def __init__(self, view: FabricView, switch: int, expected: Row, members: list[int]):
        self.view, self.switch, self.expected, self.members = view, switch, expected, members
        self.taken: set[int] = set()

    def lost(self, parent: int, how_many: int) -> list[Lost]:
        """Return ``how_many`` missing cables to ``parent``, each with the free ports to which it may belong."""
        switch_ports = self._likely_free(self.switch, [(m, parent) for m in self.members], self._up_numbers)
        parent_ports = self._likely_free(
            parent, [(p, self.switch) for p in self.expected if p != parent], lambda: self._down(parent)
        )
        if len(switch_ports) > how_many or len(parent_ports) > how_many:  # several candidates for each cable
            return [Lost(parent, tuple(switch_ports), tuple(parent_ports))] * how_many
        pairs = []
        for i in range(how_many):
            pairs.append(Lost(parent, tuple(switch_ports[i : i + 1]), tuple(parent_ports[i : i + 1])))
        self.taken.update(switch_ports, parent_ports)
        return pairs

    def _likely_free(self, node: int, alike: list[tuple[int, int]], numbers: Callable[[], Counter[int]]) -> list[int]:
        """Return the free ports of ``node`` to which the cable probably belongs. These are the ports whose number leads
        from the first to the second node in most of the pairs ``alike``; if there are none, ports whose number is used
        in the same direction elsewhere (``numbers``); if there are none, ports between ports of that direction.
        """
        f = self.view.fabric
        free = [p for p in f.ports_of(node) if self._is_open(p) and p not in self.taken]
        votes: Counter[int] = Counter()
        voters = 0
        for x, y in alike:
            portnums = [
                int(f.port_num[p]) for p in f.ports_of(x) if f.port_peer[p] >= 0 and f.port_node[f.port_peer[p]] == y
            ]
            votes.update(portnums)
            voters += bool(portnums)
        ranked = sorted((p for p in free if votes[int(f.port_num[p])] > 0), key=lambda p: -votes[int(f.port_num[p])])
        if ranked and 2 * votes[int(f.port_num[ranked[0]])] >= voters:
            best = votes[int(f.port_num[ranked[0]])]
            return [p for p in ranked if 2 * votes[int(f.port_num[p])] >= best]
        carries = numbers()
        same = [p for p in free if carries[int(f.port_num[p])] > 0]
        between = [p for p in same if self._between(node, p, carries)]
        return between or same or ([] if len(free) > MANY_FREE else free)

    def _is_open(self, port: int) -> bool:
        """Return whether ``port`` is free, or has a cable that leads back to the same node."""
        f, peer = self.view.fabric, int(self.view.fabric.port_peer[port])
        return bool(f.port_cable[port] < 0 or (peer >= 0 and f.port_node[peer] == f.port_node[port]))

    def _up_numbers(self) -> Counter[int]:
        """Return the number of switches of this kind on which each port number leads to a parent."""
        f, parents = self.view.fabric, set(self.expected)
        return Counter(
            int(f.port_num[p])
            for m in [*self.members, self.switch]
            for p in f.ports_of(m)
            if f.port_peer[p] >= 0 and int(f.port_node[f.port_peer[p]]) in parents
        )

    def _down(self, parent: int) -> Counter[int]:
        """Return the number of other parents on which each port number leads to a switch of this kind."""
        f, kind = self.view.fabric, {self.switch, *self.members}
        return Counter(
            int(f.port_num[p])
            for x in self.expected
            for p in f.ports_of(x)
            if f.port_peer[p] >= 0 and int(f.port_node[f.port_peer[p]]) in kind
        )

    def _between(self, node: int, port: int, carries: Counter[int]) -> bool:
        """Return whether the ports before and after ``port`` have a cable in the same direction, or ``port`` is the
        last port and the one before it has such a cable.
        """
        f = self.view.fabric
        neighbours = [p for p in (port - 1, port + 1) if p in f.ports_of(node)]
        return all(f.port_cable[p] >= 0 and carries[int(f.port_num[p])] > 0 for p in neighbours)


MIN_SHARE = 0.25
"""Minimum share of a tier's switches that must have the most frequent form of row."""
MIN_SWITCHES = 8
FEWEST = 0.5
"""If a switch has less than this share of the usual number of links, it serves another purpose."""
FEW_UNEVEN = 2
"""Maximum number of separate findings about uneven switches. More are one finding."""


@dataclass(frozen=True)
class UnevenTier:
    """A tier without a majority. Of the ``of`` switches of ``tier``, ``right`` each have ``usual`` links to ``parents``
    switches. ``fewer``: (switch, links) of the switches with fewer links. ``astray``: switches with the usual number of
    links that are distributed differently.
    """

    tier: int
    of: int
    right: int
    usual: int
    parents: int
    fewer: tuple[tuple[int, int], ...]
    astray: tuple[int, ...]


def uneven_as_a_whole(view: FabricView, rank: np.ndarray, repairs: Repairs) -> list[UnevenTier]:
    """Return the tiers in which no form of row has a majority, each with the switches that differ from the most
    frequent form.
    """
    out = []
    ends, peers = np.concatenate([view.node_a, view.node_b]), np.concatenate([view.node_b, view.node_a])
    down = np.bincount(ends, (rank[peers] < rank[ends]) & ~view.is_sharp[peers], minlength=len(view.names))
    for tier, rows in tier_rows(view, rank, repairs):
        if len(rows) < MIN_SWITCHES or not without_majority(rows):
            continue
        forms = {switch: tuple(sorted(row.values())) for switch, row in rows.items()}
        form, right = max(Counter(forms.values()).items(), key=lambda x: (x[1], sum(x[0])))
        usual = sum(form)
        if right < MIN_SHARE * len(rows) or form[-1] != form[0]:
            continue
        links = {switch: sum(f) for switch, f in forms.items()}
        below = float(np.median([down[s] for s in rows if forms[s] == form]))
        # A switch with fewer links and, in the same ratio, fewer hosts is smaller; it lacks no link.
        fewer = tuple(
            (s, n) for s, n in sorted(links.items()) if FEWEST * usual <= n < usual and down[s] * usual > n * below
        )
        astray = tuple(s for s, n in sorted(links.items()) if n == usual and forms[s] != form)
        if len(fewer) + len(astray) > FEW_UNEVEN:
            out.append(UnevenTier(tier, len(rows), right, usual, len(form), fewer, astray))
    return out
