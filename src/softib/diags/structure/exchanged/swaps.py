"""Finds cables that deviate from the pattern: swapped pairs, misplaced cables, missing cables. A swapped pair, or a
ring of three or more cables, is its own evidence, because exchanging plugs corrects all of its cables. A single cable
is reported only if its rule is certain and its expected port is vacant.

A port is checked by the *node* at its other end, not by the port there: exchanging parallel cables
between the same two nodes, or two ports of one node, has no effect on routes and is not reported. A
cable is wrong if the rule of at least one end expects another node and the rule of the other end
does not confirm it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from softib.diags.structure.bundles import Bundles
from softib.diags.structure.exchanged.plugs import Misplaced, group, node_pair, unexplained
from softib.diags.structure.exchanged.switches import Exchange, exchanged_switches, explained
from softib.diags.structure.pattern import Pattern
from softib.diags.view import FabricView

__all__ = ["Suspects", "Unjudged", "find_suspects"]

MAX_SHARE = 0.06
"""If more than this share of the cables of a kind (the classes of both ends) break the rule, the rule does not hold.
The kind is then not judged, unless swaps and rings explain most of these cables, or their number is small."""
HANDFUL = 6
FEW_SWITCHES = 2
MISSING_SHARE = 0.1
"""If the ratio of missing to existing cables between two tiers is larger than this, the tier is partly filled by
design."""


@dataclass(frozen=True)
class Unjudged:
    """Cables that cannot be judged. ``cables`` (rows of the view), out of ``of`` cables between two classes of nodes,
    break their rules. They are too many to be exceptions, or there are so many swaps that their positions are unclear.
    ``classes``: names of the two classes, empty for nodes without a class."""

    classes: tuple[str, str]
    cables: np.ndarray
    of: int


@dataclass
class Suspects:
    """``swapped`` pairs, the other ``misplaced`` cables, ``missing`` (port, port) pairs of free
    ports that the pattern connects, and ``unjudged`` kinds of cables that break their rules too
    often. ``exchanged``: exchanged switches, whose cables are not in the other lists. ``doubtful``:
    single cables with a known vacancy, whose rule has too few ports to be certain."""

    swapped: list[tuple[Misplaced, Misplaced]]
    misplaced: list[Misplaced]
    missing: list[tuple[int, int]]
    unjudged: list[Unjudged]
    exchanged: list[Exchange]
    doubtful: list[Misplaced]


def find_suspects(view: FabricView, pattern: Pattern, rank: np.ndarray) -> Suspects:
    """Compare every cable with ``pattern``; ``rank`` is the tier of each node."""
    want_a, want_b = pattern.expected[view.port_a], pattern.expected[view.port_b]
    contra = ((want_a >= 0) & (want_a != view.node_b)) | ((want_b >= 0) & (want_b != view.node_a))
    confirmed = (want_a == view.node_b) | (want_b == view.node_a)
    loops = view.node_a == view.node_b
    wrong = contra & ~confirmed & ~loops & ~view.is_sharp[view.node_a] & ~view.is_sharp[view.node_b]
    exchanged = exchanged_switches(view, pattern)
    wrong &= ~explained(view, pattern, exchanged)
    unjudged = _too_often(view, pattern, wrong)
    for kind in unjudged:
        wrong[kind.cables] = False
    swapped, rings, rest = group(view, _misplaced(view, pattern, np.flatnonzero(wrong)))
    placed, doubtful = _with_a_vacancy(view, pattern, rest)
    named = {m.a for m in (*placed, *doubtful)}
    left = [m for m in rest if m.a not in named]
    halves = np.flatnonzero(contra & confirmed & ~loops & ~explained(view, pattern, exchanged))
    unjudged += _left_by_swaps(view, pattern, left, halves, [*rings, *(m for pair in swapped for m in pair)])
    first_of = lambda pair: int(view.port_place[pair[0]])
    missing = (pair if first_of(pair) < first_of(pair[::-1]) else pair[::-1] for pair in _missing(view, pattern, rank))
    return Suspects(
        sorted(swapped, key=lambda pair: int(view.port_place[pair[0].a])),
        sorted([*rings, *placed], key=lambda m: int(view.port_place[m.a])),
        sorted(missing, key=first_of),
        unjudged,
        exchanged,
        doubtful,
    )


def _misplaced(view: FabricView, pattern: Pattern, cables: np.ndarray) -> list[Misplaced]:
    a, b = view.port_a[cables], view.port_b[cables]
    columns = (a, b, pattern.expected[a], pattern.expected[b])
    return [Misplaced(*row) for row in zip(*(column.tolist() for column in columns), strict=True)]


def _too_often(view: FabricView, pattern: Pattern, wrong: np.ndarray) -> list[Unjudged]:
    """Return the kinds of cable that are wrong too often to be judged."""
    kinds, kind = _kinds(view, pattern)
    out = []
    limit = _limit(kinds, kind)
    for k in np.flatnonzero(np.bincount(kind[wrong], minlength=len(limit)) > limit).tolist():
        cables = np.flatnonzero(wrong & (kind == k))
        if len(unexplained(view, _misplaced(view, pattern, cables))) > limit[k]:
            out.append(Unjudged(_names(pattern, kinds[:, k]), cables, int((kind == k).sum())))
    return out


def _left_by_swaps(
    view: FabricView, pattern: Pattern, left: list[Misplaced], halves: np.ndarray, certain: list[Misplaced]
) -> list[Unjudged]:
    """Return the cables ``left`` of kinds in which ``certain`` swaps and rings confirm the rule. If these are too many
    to be exceptions, also return the cables that match the rule of only one end (``halves``)."""
    if not certain:
        return []
    kinds, kind = _kinds(view, pattern)
    row = {port: i for i, port in enumerate(view.port_a.tolist())}
    swaps = np.bincount(kind[[row[m.a] for m in certain]], minlength=kinds.shape[1])
    many = swaps > _limit(kinds, kind)
    cables = np.concatenate([np.array([row[m.a] for m in left], np.int64), halves[many[kind[halves]]]])
    cables = np.unique(cables[swaps[kind[cables]] > 0])
    return [
        Unjudged(_names(pattern, kinds[:, k]), cables[kind[cables] == k], int((kind == k).sum()))
        for k in np.unique(kind[cables]).tolist()
    ]


def _kinds(view: FabricView, pattern: Pattern) -> tuple[np.ndarray, np.ndarray]:
    """Return the classes of both ends of each kind of cable, and the kind of each cable."""
    of = pattern.labels.class_of
    ends = np.sort(np.stack([of[view.node_a], of[view.node_b]]), axis=0)
    kinds, kind = np.unique(ends, axis=1, return_inverse=True)
    return kinds, kind.reshape(-1)


def _limit(kinds: np.ndarray, kind: np.ndarray) -> np.ndarray:
    """Return the number of cables of each kind that may be exceptions."""
    return np.asarray(np.maximum(HANDFUL, MAX_SHARE * np.bincount(kind, minlength=kinds.shape[1])))


def _names(pattern: Pattern, kind: np.ndarray) -> tuple[str, str]:
    low, high = (pattern.labels.classes[c].name if c >= 0 else "" for c in kind.tolist())
    return low, high


def _with_a_vacancy(
    view: FabricView, pattern: Pattern, pairs_of_tier: list[Misplaced]
) -> tuple[list[Misplaced], list[Misplaced]]:
    """Return the misplaced and the doubtful cables that have a known vacancy. A vacancy is a port of the expected node
    that is free or has another misplaced cable, and whose rule requires the node at the other end. A cable is doubtful
    if the rule of its port has too few ports to be certain."""
    fabric = view.fabric
    suspect = {p for m in pairs_of_tier for p in (m.a, m.b)}
    sure, doubtful = list[Misplaced](), list[Misplaced]()
    for m in pairs_of_tier:
        vacancies = []
        for port, want in ((m.a, m.want_a), (m.b, m.want_b)):
            if want < 0 or not pattern.plain[port]:
                continue
            node = int(fabric.port_node[port])
            candidates = (p for p in fabric.ports_of(want) if pattern.expected[p] == node)
            vacancy = next((p for p in candidates if fabric.port_cable[p] < 0 or p in suspect), None)
            if vacancy is not None:
                vacancies.append((not pattern.sure[port], port, vacancy))
        if vacancies:
            unsure, stays, vacancy = min(vacancies, key=lambda vacancy: vacancy[0])
            (doubtful if unsure else sure).append(replace(m, stays=stays, vacancy=vacancy))
    return sure, doubtful


def _missing(view: FabricView, pattern: Pattern, rank: np.ndarray) -> Iterator[tuple[int, int]]:
    """Yield pairs of free ports that the rules of both ends connect, between tiers with most of
    their other cables."""
    fabric = view.fabric
    free = np.flatnonzero((pattern.expected >= 0) & (fabric.port_cable < 0) & pattern.sure)
    wanting: dict[tuple[int, int], list[int]] = {}
    for port, want in zip(free.tolist(), pattern.expected[free].tolist(), strict=True):
        node = int(fabric.port_node[port])
        if node != want:
            wanting.setdefault((node, want), []).append(port)
    bundles = Bundles(view, pattern)
    pairs: dict[tuple[int, int], list[tuple[int, int]]] = {}
    for a, b in dict.fromkeys(node_pair(*nodes) for nodes in wanting):
        tiers = node_pair(int(rank[a]), int(rank[b]))
        pairs.setdefault(tiers, []).extend(bundles.pairs(a, b, wanting.get((a, b), []), wanting.get((b, a), [])))
    there = Counter(map(node_pair, rank[view.node_a].tolist(), rank[view.node_b].tolist())) if pairs else Counter()
    for tiers, at_tier in pairs.items():
        few = len(at_tier) <= max(HANDFUL, MISSING_SHARE * there[tiers]) or _of_few_switches(view, at_tier)
        if there[tiers] and few:
            yield from (
                pair
                for pair in at_tier
                if not any(_free_by_design(view, pattern, p, pair) for p in _ruled(view, pattern, pair))
            )


def _of_few_switches(view: FabricView, pairs: list[tuple[int, int]]) -> bool:
    """Return whether all ``pairs`` have an end at one of two nodes. Then these nodes have lost many cables, because a
    design would affect more nodes."""
    node = view.fabric.port_node
    left = pairs
    for _ in range(FEW_SWITCHES):
        most = Counter(int(node[p]) for pair in left for p in pair).most_common(1)
        left = [pair for pair in left if most[0][0] not in node[list(pair)]] if most else []
    return not left


def _ruled(view: FabricView, pattern: Pattern, pair: tuple[int, int]) -> list[int]:
    """Return the ports of ``pair`` whose rule requires the node of the other port."""
    return [p for p, q in (pair, pair[::-1]) if pattern.expected[p] == view.fabric.port_node[q]]


def _free_by_design(view: FabricView, pattern: Pattern, port: int, pair: tuple[int, int]) -> bool:
    """Return whether all nodes in line with this node (one number differs) leave the same port free: the edge of a
    mesh, or unused global ports of a small dragonfly. A line must have a node other than the two that ``pair`` would
    connect, because a lost cable frees the ports of both."""
    fabric = view.fabric
    node, portnum = int(fabric.port_node[port]), int(fabric.port_num[port])
    node_class = pattern.labels.classes[int(pattern.labels.class_of[node])]
    numbers = node_class.numbers[pattern.labels.row_of[node]]
    differs = node_class.numbers != numbers
    has = fabric.node_nports[node_class.nodes] >= portnum
    free = ~has | (fabric.port_cable[np.where(has, fabric.node_base[node_class.nodes] + portnum, 0)] < 0)
    another = ~np.isin(node_class.nodes, fabric.port_node[list(pair)])
    for s in range(len(numbers)):
        line = ~np.delete(differs, s, axis=1).any(axis=1)
        if (line & another).any() and free[line].all():
            return True
    return False
