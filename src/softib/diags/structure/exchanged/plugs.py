"""Finds misplaced cables that can correct each other: pairs with exchanged plugs, and longer rings.

The rule of a misplaced end names the node to which it should lead. If an end at that node should
lead to the node of the first end, the two are *mates*: they should be one cable. A set of cables
whose ends are all mates of each other is its own evidence, because moving plugs within the set
corrects every cable. Two such cables are a swapped pair. Three or more are a ring: each plug is in
the port of the next.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

from softib.diags.structure.pattern import NO_OPINION
from softib.diags.view import FabricView

__all__ = ["Misplaced", "group", "node_pair", "unexplained"]


@dataclass(frozen=True)
class Misplaced:
    """A cable between port rows ``a`` and ``b``; ``want_a`` and ``want_b`` are the nodes that their
    ports should lead to.

    A cable outside of a swapped pair has a ``vacancy``, the port where it should end, and an end
    that ``stays``; both are -1 in a pair.
    """

    a: int
    b: int
    want_a: int
    want_b: int
    stays: int = -1
    vacancy: int = -1

    def other(self, port: int) -> int:
        """Return the end that is not ``port``."""
        return self.b if port == self.a else self.a


Pair = tuple[Misplaced, Misplaced]
Verdicts = list[tuple[int, bool]]
"""For each of the two new cables: number of ends whose rule requires it, and whether a rule forbids it."""
Rule = Callable[[Verdicts], bool]


class Exchanged(NamedTuple):
    """Misplaced cables, grouped by the way in which they can be corrected."""

    swapped: list[Pair]
    rings: list[Misplaced]
    """Cables of rings, with their correct positions."""
    left: list[Misplaced]
    """Cables that no other cable can correct."""


def group(view: FabricView, misplaced: list[Misplaced]) -> Exchanged:
    """Return the exchanges that explain ``misplaced``."""
    first = _confirmed(view, misplaced, _all_support_none_oppose)
    paired, left = _pairs(view, _without_equivalent(view, first.left), (_one_supports_none_oppose, _all_support))
    return Exchanged([*first.swapped, *paired], first.rings, left)


def unexplained(view: FabricView, misplaced: list[Misplaced]) -> list[Misplaced]:
    """Return the cables that are not in pairs or rings in which all ends are mates."""
    return _confirmed(view, misplaced, _all_require).left


def _confirmed(view: FabricView, misplaced: list[Misplaced], rule: Rule) -> Exchanged:
    """Return the pairs that satisfy ``rule``, the cables of rings, and the other cables, all without harmless
    groups."""
    swapped, left = _pairs(view, _without_harmless(view, misplaced), (rule,))
    return Exchanged(swapped, *_rings(view, left))


def _without_harmless(view: FabricView, misplaced: list[Misplaced]) -> list[Misplaced]:
    """Drop groups of cables that together connect all pairs of nodes that they should: only ports
    are exchanged. A group in which one cable connects no expected pair is kept whole: of two swaps
    at the same two nodes, one may connect a pair that the other has separated."""
    node = view.fabric.port_node
    equivalent = {id(m) for m in misplaced} - {id(m) for m in _without_equivalent(view, misplaced)}
    group_of = list(range(len(misplaced)))

    def root(i: int) -> int:
        while group_of[i] != i:
            group_of[i] = i = group_of[group_of[i]]
        return i

    first: dict[tuple[int, int], int] = {}
    for i, m in enumerate(misplaced):
        for pair in (node_pair(int(node[m.a]), int(node[m.b])), *_missed(view, m)):
            group_of[root(i)] = root(first.setdefault(pair, i))
    changed = {root(i) for i, m in enumerate(misplaced) if id(m) not in equivalent}
    return [m for i, m in enumerate(misplaced) if root(i) in changed]


def _missed(view: FabricView, m: Misplaced) -> set[tuple[int, int]]:
    """Return the pairs of nodes that the rules of both ends require instead."""
    node = view.fabric.port_node
    ends = ((m.a, m.want_a), (m.b, m.want_b))
    return {node_pair(int(node[port]), want) for port, want in ends if want != NO_OPINION}


def _rings(view: FabricView, misplaced: list[Misplaced]) -> tuple[list[Misplaced], list[Misplaced]]:
    """Return the cables of rings (each of three or more cables), and all other cables. To find a ring, walk from a
    cable's end to its mate, on to the other end of the mate's cable, and so on; a ring returns to the first cable."""
    mate, cable_at = _mates(view, misplaced), {port: m for m in misplaced for port in (m.a, m.b)}
    placed, used = list[Misplaced](), set[int]()
    for start in misplaced:
        ring, m, stays = list[Misplaced](), start, start.b
        while stays in mate and m.a not in used:
            used.add(m.a)
            vacancy = mate[stays]
            ring.append(replace(m, stays=stays, vacancy=vacancy))
            m = cable_at[vacancy]
            stays = m.other(vacancy)
        if len(ring) > 2 and m is start and ring[-1].vacancy == start.a:
            placed += ring
        else:
            used.difference_update(x.a for x in ring)
    placed_ports = {m.a for m in placed}
    return placed, [m for m in misplaced if m.a not in placed_ports]


def _mates(view: FabricView, misplaced: list[Misplaced]) -> dict[int, int]:
    """Return the mate of each end that has one: the end that should be on the same cable."""
    node = view.fabric.port_node
    wanting: dict[tuple[int, int], list[int]] = {}
    for m in misplaced:
        for port, want in ((m.a, m.want_a), (m.b, m.want_b)):
            wanting.setdefault((int(node[port]), want), []).append(port)
    mate: dict[int, int] = {}
    for (here, there), ports in wanting.items():
        if here < there:
            for p, q in zip(ports, wanting.get((there, here), []), strict=False):
                mate[p], mate[q] = q, p
    return mate


def _without_equivalent(view: FabricView, misplaced: list[Misplaced]) -> list[Misplaced]:
    """Drop cables that connect a pair of nodes that another cable should connect: together they
    only exchange ports."""
    node = view.fabric.port_node
    missed: Counter[tuple[int, int]] = Counter()
    for m in misplaced:
        for pair in _missed(view, m):
            missed[pair] += 1
    kept = []
    for m in misplaced:
        pair = node_pair(int(node[m.a]), int(node[m.b]))
        if missed[pair] > 0:
            missed[pair] -= 1
        else:
            kept.append(m)
    return kept


def node_pair(a: int, b: int) -> tuple[int, int]:
    """Return two numbers as an unordered pair."""
    return (a, b) if a <= b else (b, a)


def _pairs(view: FabricView, misplaced: list[Misplaced], rules: tuple[Rule, ...]) -> tuple[list[Pair], list[Misplaced]]:
    """Return pairs of cables that would both be right if one end of each were exchanged, and the unpaired cables."""
    by_node: dict[int, list[int]] = {}
    for i, m in enumerate(misplaced):
        for port in (m.a, m.b):
            by_node.setdefault(int(view.fabric.port_node[port]), []).append(i)
    taken = [False] * len(misplaced)
    pairs: list[Pair] = []
    for rule in rules:
        for i, m in enumerate(misplaced):
            if taken[i]:
                continue
            partner = next(
                (
                    j
                    for j in _candidates(m, by_node)
                    if not taken[j] and j != i and _exchange_mends(view, m, misplaced[j], rule)
                ),
                None,
            )
            if partner is not None:
                taken[i] = taken[partner] = True
                first, second = sorted((m, misplaced[partner]), key=lambda x: int(view.port_place[x.a]))
                pairs.append((first, second))
    return pairs, [m for m, used in zip(misplaced, taken, strict=True) if not used]


def _candidates(m: Misplaced, by_node: dict[int, list[int]]) -> Iterator[int]:
    for want in (m.want_a, m.want_b):
        if want >= 0:
            yield from by_node.get(want, ())


def _all_require(verdicts: Verdicts) -> bool:
    return all(supported == 2 for supported, _ in verdicts)


def _all_support_none_oppose(verdicts: Verdicts) -> bool:
    return all(supported > 0 and not opposed for supported, opposed in verdicts)


def _one_supports_none_oppose(verdicts: Verdicts) -> bool:
    return any(supported > 0 for supported, _ in verdicts) and not any(opposed for _, opposed in verdicts)


def _all_support(verdicts: Verdicts) -> bool:
    return all(supported > 0 for supported, _ in verdicts)


def _exchange_mends(view: FabricView, m: Misplaced, n: Misplaced, rule: Rule) -> bool:
    """Return whether connecting an end of ``m`` with an end of ``n``, and the two others, satisfies ``rule``."""
    node = view.fabric.port_node
    for n_a, n_b, w_a, w_b in ((n.a, n.b, n.want_a, n.want_b), (n.b, n.a, n.want_b, n.want_a)):
        verdicts = []
        for p, want_p, q, want_q in ((m.a, m.want_a, n_b, w_b), (n_a, w_a, m.b, m.want_b)):
            supported = int(want_p == node[q]) + int(want_q == node[p])
            opposed = want_p not in (NO_OPINION, node[q]) or want_q not in (NO_OPINION, node[p])
            verdicts.append((supported, bool(opposed)))
        if rule(verdicts):
            return True
    return False
