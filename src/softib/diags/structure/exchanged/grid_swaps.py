"""Finds swapped cables of a grid whose switches have coordinates in their names. In a grid with few switches, too few
ports have the same rule, so different swaps can explain the same cables; the coordinates show which swap is the real
one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from softib.diags.structure.exchanged.plugs import Misplaced, node_pair
from softib.diags.structure.exchanged.swaps import Suspects
from softib.diags.structure.joins import Joins, joins
from softib.diags.structure.recognise import Structure
from softib.diags.view import FabricView

__all__ = ["judged_by_grid"]

FEWEST = 2
"""Minimum number of cables that exchanged switches leave without a place in the grid."""
MANY = 12
"""Maximum number of cables without a place in the grid. With more, the grid itself is in doubt, and no cables are
paired."""


def judged_by_grid(view: FabricView, structure: Structure, suspects: Suspects) -> Suspects:
    """Return ``suspects`` with corrected swaps. If some cables have no place in the grid, swaps of two cables that both
    have a place are removed, as are other suspicions against cables with a place. Swaps that move two cables to their
    places are added. If the fabric is not a grid, or names do not contain the coordinates, ``suspects`` is unchanged.
    """
    shape = structure.shape
    if not shape.forms or structure.labels.by_ports:
        return suspects
    compared = joins(view, shape)
    astray = compared.extra_cables(view, shape)
    exchanged = suspects.exchanged if len(astray) >= FEWEST else []
    of_exchanged = {n for x in exchanged for n in x.switches}
    astray = [r for r in astray if not of_exchanged & {int(view.node_a[r]), int(view.node_b[r])}]
    if not astray or len(astray) > MANY:
        return suspects
    pairs = _pairs(view, compared, astray)
    decided = {p for pair in pairs for m in pair for p in (m.a, m.b)}
    placed = set(map(int, view.port_a[_placed(view, compared)])) | decided
    swapped = [*pairs, *(pair for pair in suspects.swapped if not placed.issuperset(m.a for m in pair))]
    return replace(
        suspects,
        swapped=sorted(swapped, key=lambda pair: int(view.port_place[pair[0].a])),
        misplaced=[m for m in suspects.misplaced if m.a not in placed],
        doubtful=[m for m in suspects.doubtful if m.a not in placed],
        exchanged=exchanged,
    )


def _placed(view: FabricView, compared: Joins) -> np.ndarray:
    """Return the cables (rows of the view) that connect neighbours of the grid."""
    rows = view.between_switches
    nodes = zip(view.node_a[rows].tolist(), view.node_b[rows].tolist(), strict=True)
    return np.asarray(rows[[node_pair(*pair) in compared.kept for pair in nodes]])


def _pairs(view: FabricView, compared: Joins, astray: list[int]) -> list[tuple[Misplaced, Misplaced]]:
    """Return pairs of cables for which an exchange of two plugs moves both cables to joins that lack a cable. Pairs are
    left out if one of their cables is in another such pair, too.
    """
    lacking = Counter(node_pair(u.nodes_a[0], u.nodes_b[0]) for u in compared.missing)
    repairs = list(_repairs(view, lacking, astray))
    times = Counter(row for *rows, _ in repairs for row in rows)
    return [pair for i, j, pair in repairs if times[i] == times[j] == 1]


def _repairs(
    view: FabricView, lacking: Counter[tuple[int, int]], astray: list[int]
) -> Iterator[tuple[int, int, tuple[Misplaced, Misplaced]]]:
    """Yield, for each exchange of plugs that moves two cables to ``lacking`` joins, both cables, and the two as a
    swapped pair."""
    node = view.fabric.port_node
    for n, i in enumerate(astray):
        for j in astray[n + 1 :]:
            a, b = int(view.port_a[i]), int(view.port_b[i])
            for c, d in ((int(view.port_a[j]), int(view.port_b[j])), (int(view.port_b[j]), int(view.port_a[j]))):
                to_a, to_c = int(node[d]), int(node[b])
                if not Counter([node_pair(int(node[a]), to_a), node_pair(int(node[c]), to_c)]) - lacking:
                    yield i, j, (Misplaced(a, b, to_a, int(node[c])), Misplaced(c, d, to_c, int(node[a])))
