"""Finds two uplinks exchanged between two switches, without using names: each of the four nodes lacks a link that
another has in excess.

After an exchange, switch A has one link too many to P and one too few to Q, and switch B the
reverse; P has one link too many from A and one too few from B, and Q the reverse. Each of the four
is compared with similar switches: the switches of a pod reach the same parents, and the chips of a
director in one column have the same children. One end of each of the two cables is sufficient, so
that a switch that is unlike all others (another fault, a single storage leaf) does not hide the
exchange.

If several cables connect the same two nodes, the port numbers determine the cable: on switches like
A that port leads to Q, on chips like P it leads to B.

After an exchange between two pods of a three-level tree, A is as similar to its pod's kind as to the kind of B, so
exchanging the other two cables would make the table equally even. Only one of these interpretations is true, and the
port numbers show which: the same port of the other cores leads to the pod of B.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

import numpy as np

from softib.diags.view import FabricView

__all__ = ["exchanged_uplinks"]

LIKE = 2
"""Minimum number of switches with equal links for a comparison."""
MAX_ODD = 0.15
"""If more than this share of a tier is unlike the rest, this is the design and not a fault, unless …"""
MAX_EXPLAINED = 0.5
"""… exchanges explain all differences, up to this share."""
MAX_DIFFERENCE = 4
"""Maximum number of links (too many and too few together) by which a node may differ from similar nodes. A node with
more differences is cabled differently by design."""
MARGIN = 0.5
"""Margin by which the named cable must fit better than the next best, because unordered ports give weak votes to many
cables."""
NEAREST = 3
"""Number of kinds that are compared with an odd switch: those that share most nodes with it. Of
these, only the kinds that differ least from it are similar to it."""


@dataclass(frozen=True)
class OddCable:
    """A cable (port rows ``port`` below, ``peer`` above) that should lead to node ``wanted``, as on
    similar switches."""

    port: int
    peer: int
    wanted: int


@dataclass(frozen=True, order=True)
class _Exchange:
    """Cables a–p and b–q that should be a–q and b–p."""

    a: int
    p: int
    b: int
    q: int

    def turned(self) -> _Exchange:
        return _Exchange(self.b, self.q, self.a, self.p)


Row = dict[int, int]
"""Links of a switch by the node at their other end."""


class _Side:
    """Comparison of the switches of one tier by their links to another: for each odd switch, its
    surplus and missing links.

    ``claims``: switch → (surplus, missing) → the kinds from which it differs in this way, among the most similar rows.
    ``like``: switch → the switches of these kinds. ``many``: whether such a large share is unlike the rest that
    exchanges must explain all of their ``surplus`` links.
    """

    def __init__(self, view: FabricView, ports: np.ndarray, peers: np.ndarray):
        node = view.fabric.port_node
        self.claims: dict[int, dict[tuple[int, int], set[int]]] = {}
        self.like: dict[int, list[int]] = {}
        self.many, self.surplus = False, 0
        rows: dict[int, Row] = {}
        if not len(ports):
            return
        pair, count = np.unique(np.stack([node[ports], node[peers]]), axis=1, return_counts=True)
        for switch, other, n in zip(*pair.tolist(), count.tolist(), strict=True):
            rows.setdefault(switch, {})[other] = n
        kinds: dict[frozenset[tuple[int, int]], list[int]] = {}
        for switch, row in rows.items():
            kinds.setdefault(frozenset(row.items()), []).append(switch)
        self._compare(rows, list(kinds.values()))

    def _compare(self, rows: dict[int, Row], kinds: list[list[int]]) -> None:
        usual = [members for members in kinds if len(members) >= LIKE]
        odd = sorted(s for members in kinds if len(members) <= LIKE for s in members)
        self.many = len(odd) > max(4, MAX_ODD * len(rows))
        if self.many and len(odd) > MAX_EXPLAINED * len(rows):
            return
        reaching: dict[int, list[int]] = {}
        for k, members in enumerate(usual):
            for other in rows[members[0]]:
                reaching.setdefault(other, []).append(k)
        for switch in odd:
            shared = Counter(k for other in rows[switch] for k in reaching.get(other, ()) if switch not in usual[k])
            nearest = [k for k, _ in shared.most_common(NEAREST)]
            apart = [_differences(rows[switch], rows[usual[k][0]]) for k in nearest]
            self.surplus += min((sum(n for n in d.values() if n > 0) for d in apart), default=0)
            least = min((sum(map(abs, d.values())) for d in apart), default=MAX_DIFFERENCE + 1)
            for k, difference in zip(nearest, apart, strict=True):
                if least <= MAX_DIFFERENCE and sum(map(abs, difference.values())) == least:
                    self._claim(switch, difference, k, usual[k])

    def _claim(self, switch: int, difference: Row, kind: int, members: list[int]) -> None:
        surplus, missing = (sorted(n for n, d in difference.items() if d * sign > 0) for sign in (1, -1))
        claims = self.claims.setdefault(switch, {})
        for claim in ((s, m) for s in surplus for m in missing):
            claims.setdefault(claim, set()).add(kind)
        self.like.setdefault(switch, []).extend(members)


def _differences(row: Row, expected: Row) -> Row:
    """Return the number of links that ``row`` has in excess of ``expected`` (negative: lacks), by the node at their
    other end."""
    return {n: row.get(n, 0) - expected.get(n, 0) for n in {*row, *expected}}


def exchanged_uplinks(view: FabricView, rank: np.ndarray) -> list[tuple[OddCable, OddCable]]:
    """Return pairs of cables between a tier and the next, each of which would be right in the place of the other. The
    running time is nearly linear."""
    links = view.between_switches
    a, b = view.port_a[links], view.port_b[links]
    node = view.fabric.port_node
    up = rank[node[a]] < rank[node[b]]
    low, high = np.where(up, a, b), np.where(up, b, a)
    out: list[tuple[OddCable, OddCable]] = []
    pods = _Pods(view, rank)
    for r in range(1, int(rank.max(initial=0))):
        tier = (rank[node[low]] == r) & (rank[node[high]] == r + 1)
        below, above = _Side(view, low[tier], high[tier]), _Side(view, high[tier], low[tier])
        exchanges = list(_of_tier(view, pods, below, above))
        open_sides = [
            side for side in (below, above) if side.many and side.claims and 2 * len(exchanges) != side.surplus
        ]
        for side in open_sides:
            side.claims.clear()
        out += list(_of_tier(view, pods, below, above)) if open_sides else exchanges
    return out


def _of_tier(view: FabricView, pods: _Pods, below: _Side, above: _Side) -> Iterator[tuple[OddCable, OddCable]]:
    claimed = {x: _claimed(below, above, x) for x in _candidates(below, above)}
    ranked = []
    for x, kinds in claimed.items():
        a, b, p, q = (x.a in kinds, x.b in kinds, x.p in kinds, x.q in kinds)
        if (a or p) and (b or q):  # other switches count each of the two as surplus
            ranked.append((-len(kinds), -pods.share(x) - pods.share(x.turned()), x))
    used: set[tuple[int, int]] = set()  # surplus and missing links, each of which is evidence of only one exchange
    like: dict[int, set[int]] = {}  # kinds of each switch that all of its exchanges agree with
    for _, _, x in sorted(ranked):
        links = {(x.a, x.p), (x.b, x.q), (x.a, x.q), (x.b, x.p)}
        if used & links or len({x.a, x.b, x.p, x.q}) < 4:
            continue
        left = {switch: like.get(switch, kinds) & kinds for switch, kinds in claimed[x].items()}
        first, second = _cable(view, below, above, x), _cable(view, below, above, x.turned())
        if all(left.values()) and first is not None and second is not None:
            used |= links
            like |= left
            yield first, second


def _claimed(below: _Side, above: _Side, x: _Exchange) -> dict[int, set[int]]:
    """Return the kinds by which each of the four switches claims its part of ``x``, without
    switches that do not claim it."""
    of = {
        x.a: below.claims.get(x.a, {}).get((x.p, x.q)),
        x.b: below.claims.get(x.b, {}).get((x.q, x.p)),
        x.p: above.claims.get(x.p, {}).get((x.a, x.b)),
        x.q: above.claims.get(x.q, {}).get((x.b, x.a)),
    }
    return {switch: kinds for switch, kinds in of.items() if kinds}


class _Pods:
    """The port numbers of an upper tier as a rule: each number leads to the switches of one pod, which have most lower
    switches in common."""

    def __init__(self, view: FabricView, rank: np.ndarray):
        self.view, self.rank = view, rank
        self.children = cache(self._children)

    def share(self, x: _Exchange) -> float:
        """Return, for ports like that from ``x.p`` to ``x.a``, how much more often they lead to the pod of ``x.b`` than
        to the pod of ``x.a``, from -1 to 1."""
        f, a, b = self.view.fabric, self.children(x.a), self.children(x.b)
        if not a or not b or self._alike(a, b):
            return 0.0
        ports = [p for p in f.ports_of(x.p) if f.port_peer[p] >= 0 and f.port_node[f.port_peer[p]] == x.a]
        votes: list[int] = []
        for number in (int(f.port_num[p]) for p in ports):
            tier = np.flatnonzero((self.rank == self.rank[x.p]) & self.view.is_switch & (f.node_nports >= number))
            peers = f.port_peer[f.node_base[tier[~np.isin(tier, (x.p, x.q))]] + number]
            pods = [self.children(n) for n in f.port_node[peers[peers >= 0]].tolist()]
            votes += [self._alike(pod, b) - self._alike(pod, a) for pod in pods]
        return sum(votes) / len(votes) if votes else 0.0

    def _children(self, node: int) -> frozenset[int]:
        f = self.view.fabric
        peers = f.port_peer[list(f.ports_of(node))]
        nodes = f.port_node[peers[peers >= 0]]
        return frozenset(nodes[self.view.is_switch[nodes] & (self.rank[nodes] < self.rank[node])].tolist())

    @staticmethod
    def _alike(one: frozenset[int], other: frozenset[int]) -> bool:
        return 2 * len(one & other) > min(len(one), len(other))


def _candidates(below: _Side, above: _Side) -> set[_Exchange]:
    """Return each possible exchange once, with ``a`` < ``b``. An exchange is possible if two switches' differences
    (``claims``: surplus link, missing link) match."""
    candidates: set[_Exchange] = set()
    low, high = _by_pair(below), _by_pair(above)
    for (p, q), nodes in low.items():
        candidates.update(_Exchange(a, p, b, q) for a in nodes for b in low.get((q, p), ()))
    for (a, b), nodes in high.items():
        candidates.update(_Exchange(a, p, b, q) for p in nodes for q in high.get((b, a), ()))
    for (
        a,
        claims,
    ) in below.claims.items():  # one claim from below and one from above, at the same cable or at opposite corners
        for p, q in claims:
            candidates.update(_Exchange(a, p, b, q) for m, b in above.claims.get(p, ()) if m == a)
            candidates.update(_Exchange(a, p, b, q) for b, m in above.claims.get(q, ()) if m == a)
    return {min(x, x.turned()) for x in candidates}


def _by_pair(side: _Side) -> dict[tuple[int, int], list[int]]:
    out: dict[tuple[int, int], list[int]] = {}
    for switch, claims in side.claims.items():
        for claim in claims:
            out.setdefault(claim, []).append(switch)
    return out


def _cable(view: FabricView, below: _Side, above: _Side, x: _Exchange) -> OddCable | None:
    """Return the cable from ``x.a`` to ``x.p`` that should lead to ``x.q``; None if there is none,
    or several fit equally well."""
    f = view.fabric
    joined = [p for p in f.ports_of(x.a) if f.port_peer[p] >= 0 and f.port_node[f.port_peer[p]] == x.p]
    scored = []
    for port in joined:
        votes_below = _votes(view, port, below.like.get(x.a, []))
        votes_above = _votes(view, int(f.port_peer[port]), above.like.get(x.p, []))
        scored.append((_share(votes_below, x.q, x.p) + _share(votes_above, x.b, x.a), -port))
    scored.sort(reverse=True)
    if not scored or (len(scored) > 1 and scored[0][0] - scored[1][0] < MARGIN):
        return None
    port = -scored[0][1]
    return OddCable(port, int(f.port_peer[port]), x.q)


def _votes(view: FabricView, port: int, like: list[int]) -> Counter[int]:
    """Return the peers of the port with this number on the nodes ``like``."""
    f, number = view.fabric, int(view.fabric.port_num[port])
    rows = np.array([f.node_base[m] + number for m in like if f.node_nports[m] >= number], np.int64)
    peers = f.port_peer[rows]
    return Counter(f.port_node[peers[peers >= 0]].tolist())


def _share(votes: Counter[int], wanted: int, there: int) -> float:
    """Return how much more often similar ports lead to ``wanted`` than to the peer of this port, from -1 to 1."""
    total = sum(votes.values())
    return (votes[wanted] - votes[there]) / total if total else 0.0
