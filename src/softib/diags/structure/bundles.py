"""Pairs the free ports of two nodes that the pattern connects, in the same arrangement as the parallel cables between
other nodes of their classes.

If a port number is free on all nodes of a class (a leaf lost nearly all of its uplinks), it has no rule. In that case,
the rules of the ports at the other ends, and the arrangement of other bundles of parallel cables, determine the pair.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import numpy as np

from softib.diags.structure.pattern import NO_OPINION, Pattern
from softib.diags.view import FabricView

__all__ = ["Bundles"]

Arrangement = tuple[tuple[int, int], ...]
"""Port numbers of each parallel cable, relative to the lowest number at each end."""

Used = tuple[range, range]


class Bundles:
    """Arrangements of the parallel cables between nodes of two classes, learned when first used."""

    def __init__(self, view: FabricView, pattern: Pattern):
        self.view, self.pattern = view, pattern
        self.known: dict[tuple[int, int], tuple[Arrangement, Used]] = {}

    def pairs(self, a: int, b: int, at_a: list[int], at_b: list[int]) -> list[tuple[int, int]]:
        """Pair the free ports ``at_a`` of node ``a`` with ports ``at_b`` of node ``b``. According to the rules,
        ``at_a`` lead to ``b``; ``at_b`` lead to ``a`` or have no rule.
        """
        if len(at_a) == len(at_b) == 1:
            return [(at_a[0], at_b[0])]
        fits = sorted(self._fits(a, b, at_a, at_b))
        if not fits or (len(fits) > 1 and fits[0][0] == fits[1][0]):
            return list(zip(at_a, at_b, strict=False))
        return fits[0][1]

    def _fits(
        self, a: int, b: int, at_a: list[int], at_b: list[int]
    ) -> Iterator[tuple[tuple[int, int], list[tuple[int, int]]]]:
        """Yield each placement of the usual cable bundle that uses all given ports and only free ports otherwise. Each
        is ``(rank, pairs)``: the rank is (ports outside the usual range, ports not given), the pairs are the ports to
        connect.
        """
        f = self.view.fabric
        usual, used = self._usual(a, b)
        linked = [(int(p), int(f.port_peer[p])) for p in f.ports_of(a) if self._leads(int(p), b)]
        ends_a, ends_b = [*at_a, *(p for p, _ in linked)], [*at_b, *(q for _, q in linked)]
        if not usual or (not ends_a and not ends_b):
            return
        bases_a = sorted({p - i for p in ends_a or self._without_cable(a, b) for i, _ in usual})
        bases_b = sorted({q - j for q in ends_b or self._without_cable(b, a) for _, j in usual})
        for base_a in bases_a:
            for base_b in bases_b:
                ends_of_each = [(base_a + i, base_b + j) for i, j in usual]
                empty = [each for each in ends_of_each if each not in linked]
                ends = {p for each in empty for p in each}
                if not {*at_a, *at_b} <= ends or len(ends_of_each) - len(empty) != len(linked):
                    continue
                others = ends - {*at_a, *at_b}
                if all(
                    self._is_open(p, node)
                    for each in empty
                    for p, node in zip(each, (a, b), strict=True)
                    if p in others
                ):
                    outside = sum(
                        int(f.port_num[p]) not in some for each in empty for p, some in zip(each, used, strict=True)
                    )
                    yield (outside, len(others)), empty

    def _without_cable(self, node: int, other: int) -> list[int]:
        """Return the free ports of ``node`` if the ``other`` node has a cable to a node of the same class. Otherwise,
        return none, because the two nodes may have no cable by design.
        """
        f, of = self.view.fabric, self.pattern.labels.class_of
        peers = f.port_peer[list(f.ports_of(other))]
        if not (of[f.port_node[peers[peers >= 0]]] == of[node]).any():
            return []
        return [int(p) for p in f.ports_of(node) if self._is_open(int(p), node)]

    def _leads(self, port: int, node: int) -> bool:
        f = self.view.fabric
        return bool(f.port_peer[port] >= 0 and f.port_node[f.port_peer[port]] == node)

    def _is_open(self, port: int, node: int) -> bool:
        """Return whether ``port`` of ``node`` is free and either has no rule, or has a rule that leads to a node
        without a free port for it.
        """
        f, expected = self.view.fabric, self.pattern.expected
        if port not in f.ports_of(node) or f.port_cable[port] >= 0:
            return False
        want = int(expected[port])
        return want == NO_OPINION or not any(f.port_cable[p] < 0 and expected[p] == node for p in f.ports_of(want))

    def _usual(self, a: int, b: int) -> tuple[Arrangement, Used]:
        """Return the most frequent arrangement between nodes like ``a`` and nodes like ``b``, and
        the range of its port numbers (lowest to highest) on each side."""
        of = self.pattern.labels.class_of
        key = int(of[a]), int(of[b])
        if key not in self.known:
            self.known[key] = self._learn(*key)
        return self.known[key]

    def _learn(self, class_a: int, class_b: int) -> tuple[Arrangement, Used]:
        view, f, of = self.view, self.view.fabric, self.pattern.labels.class_of
        ends, peers = np.concatenate([view.port_a, view.port_b]), np.concatenate([view.port_b, view.port_a])
        of_both = (of[f.port_node[ends]] == class_a) & (of[f.port_node[peers]] == class_b)
        ends, peers = ends[of_both], peers[of_both]
        bundles: dict[tuple[int, int], list[tuple[int, int]]] = {}
        for p, q in zip(ends.tolist(), peers.tolist(), strict=True):
            numbers = int(f.port_num[p]), int(f.port_num[q])
            bundles.setdefault((int(f.port_node[p]), int(f.port_node[q])), []).append(numbers)
        seen: Counter[Arrangement] = Counter()
        for cables in bundles.values():
            low_x, low_y = (min(numbers) for numbers in zip(*cables, strict=True))
            seen[tuple(sorted((x - low_x, y - low_y) for x, y in cables))] += 1
        if not len(ends):
            return (), (range(0), range(0))
        used = [f.port_num[rows] for rows in (ends, peers)]
        first, second = (range(int(n.min()), int(n.max()) + 1) for n in used)
        return seen.most_common(1)[0][0], (first, second)
