"""Computes coordinates of switches whose names contain none, from the numbers of the ports that connect them: in a
regular direct network, port k of every switch leads in the same direction.

*Axes*: two port numbers belong to one axis if their peers are mostly connected to each other (lines or groups that are
connected all-to-all), or if they are the two ends of the same cables (up and down). *Layers*: switches that are
connected along the other axes have the same coordinate on an axis (a Cartesian product of graphs: Imrich and Klavžar,
Product Graphs, 2000, chapter 4). The cables between the layers form a path, a cycle or a complete graph of layers. In
a complete graph, the ports of a switch skip its own position. Therefore the switch at position i is connected to the
ports with the numbers i-1 and i of other switches, and the mean of these port numbers gives the order. A single wrong
cable forms no square with neighbouring cables and is not used.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from softib.components import components
from softib.diags.labels import Labels, class_of_coordinates
from softib.diags.view import FabricView

__all__ = ["grid_coordinates", "group_coordinates"]

MOSTLY = 0.6
"""Minimum share of the switches at which two port numbers must belong together, and minimum share of a layer's cables
that must lead to the same layer.
"""
LEAST = 2
"""Minimum number of cables that show that two port numbers belong together."""
PLACED = 0.9
"""Minimum share of the linked switches that must have a unique position, and minimum share of the pairs of layers that
must be connected on an all-to-all axis.
"""
HALF = 0.5
LOST = 0.34
"""Maximum share of switches without a position for which positions are derived from their neighbours."""
BEYOND = 1 << 32
"""Modulus for an axis that is not a cycle; it is larger than any position."""
FEW = 0.2
"""Minimum share of the switches that must use a port number for it to belong to an axis. (In a mesh, half of the
switches use a given port number of a dimension of size 2.)
"""
NO_PLACE = -1


class _Links:
    """Cables between ``linked`` switches; each cable appears twice, once from each end. Entry i runs
    from port ``number[i]`` of ``here[i]`` to port ``remote[i]`` of ``there[i]``; ``here`` and
    ``there`` are rows of ``linked``."""

    def __init__(self, view: FabricView, linked: np.ndarray):
        f, rows = view.fabric, view.between_switches
        ends = np.concatenate([view.port_a[rows], view.port_b[rows]])
        peers = f.port_peer[ends]
        row = np.full(len(view.names), -1)
        row[linked] = np.arange(len(linked))
        self.n = len(linked)
        self.here, self.there = row[f.port_node[ends]], row[f.port_node[peers]]
        self.number, self.remote = f.port_num[ends].astype(np.int64), f.port_num[peers].astype(np.int64)
        self.numbers = np.unique(self.number)
        self.peer = np.full((256, self.n), -1)
        self.peer[self.number, self.here] = self.there
        self.codes = np.unique(self.here * self.n + self.there)

    def adjacent(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        """Return whether a[i] and b[i] are connected or are the same switch, for each i."""
        return _holds(self.codes, a * self.n + b) | (a == b)

    def axes(self) -> np.ndarray:
        """Return the axis of each port number (int64[256]), as the lowest port number of the axis; -1 for numbers that
        few switches use.
        """
        used = self.numbers.tolist()
        pairs = [(p, q) for i, p in enumerate(used) for q in used[i + 1 :] if self._together(p, q)]
        code, count = np.unique(self.number * 256 + self.remote, return_counts=True)
        times = dict(zip(code.tolist(), count.tolist(), strict=True))
        of = np.bincount(self.number, minlength=256)
        pairs += [
            (p, q)
            for p in used
            for q in used
            if p < q and times.get(p * 256 + q, 0) >= max(LEAST, MOSTLY * min(of[p], of[q]))
        ]
        a, b = np.array(pairs or [(0, 0)]).T
        return np.where(of >= FEW * self.n, components(256, a, b), NO_PLACE)

    def _together(self, p: int, q: int) -> bool:
        """Return whether the peers at ports ``p`` and ``q`` are mostly connected to each other."""
        both = (self.peer[p] >= 0) & (self.peer[q] >= 0)
        joined = int(self.adjacent(self.peer[p][both], self.peer[q][both]).sum())
        return joined >= max(LEAST, MOSTLY * int(both.sum()))

    def sides(self, numbers: np.ndarray) -> np.ndarray | None:
        """For an axis of size two, return the side of each switch (int64[switches], 0 or 1). Such an axis has two port
        ``numbers``; each switch uses one of them, and each cable joins the two numbers. Return None for any other
        axis.
        """
        ports = np.flatnonzero(numbers)
        if len(ports) != 2:
            return None
        used = self.peer[ports] >= 0
        of = numbers[self.number] & numbers[self.remote]
        differ = self.number[of] != self.remote[of]
        if used.all(axis=0).any() or used.any(axis=0).sum() < PLACED * self.n or differ.sum() < HALF * len(differ):
            return None
        return np.where(used.any(axis=0), used.argmax(axis=0), NO_PLACE)

    def along(self, axis: np.ndarray) -> np.ndarray:
        """Return the axis of each cable; -1 if its ends are on different axes, or cables between the same two switches
        are.
        """
        along = np.where(axis[self.number] == axis[self.remote], axis[self.number], NO_PLACE)
        _, pair = np.unique(np.sort([self.here, self.there], axis=0), axis=1, return_inverse=True)
        low, high = np.full(len(along), 255), np.full(len(along), NO_PLACE)
        np.minimum.at(low, pair.reshape(-1), along)
        np.maximum.at(high, pair.reshape(-1), along)
        return np.where((low == high)[pair.reshape(-1)], along, NO_PLACE)

    def squares(self, axis: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return, for each cable, the number of squares that it closes, and the number of squares that it leaves open.
        Steps along another axis from both ends lead to two switches: if these are connected, the square is closed,
        otherwise open. With a single axis there are no squares.
        """
        closed, left_open = np.zeros((2, len(self.here)), np.int64)
        for q in np.flatnonzero(axis >= 0).tolist():
            w, x = self.peer[q][self.here], self.peer[q][self.there]
            placed = (w >= 0) & (x >= 0) & (axis[self.number] != axis[q])
            joined = placed & self.adjacent(np.maximum(w, 0), np.maximum(x, 0))
            closed += joined
            left_open += placed & ~joined
        return closed, left_open


def _holds(codes: np.ndarray, code: np.ndarray) -> np.ndarray:
    """Return whether each of ``code`` is one of the sorted ``codes``."""
    return np.asarray(codes[np.minimum(np.searchsorted(codes, code), len(codes) - 1)] == code)


def grid_coordinates(view: FabricView, labels: Labels, linked: np.ndarray) -> Iterator[Labels]:
    """Yield candidates: ``labels`` in which the ``linked`` switches have the coordinates of a grid as numbers. The
    first candidate uses the cables that close at least as many squares as they leave open. In case wrong cables distort
    these, later candidates use more cables, fewer cables, and finally all cables (next to an axis of size two, a cable
    closes only one square, which a single wrong cable can open).
    """
    links = _Links(view, linked)
    axis = links.axes()
    along = links.along(axis)
    closed, left_open = links.squares(axis)
    for sure in ((closed >= left_open) & (closed > 0), closed >= left_open, closed > left_open, along >= 0):
        coordinates = _coordinates(links, axis, np.where(sure, along, NO_PLACE))
        placed = None if coordinates is None else _placed(view, labels, linked, coordinates)
        if placed:
            yield placed


def _coordinates(links: _Links, axis: np.ndarray, along: np.ndarray) -> np.ndarray | None:
    """Return coordinates int64[switches, axes]; None if the layers of an axis have no order. ``axis``: the axis of each
    port number. ``along``: the axis of each cable (-1: the cable is not used).
    """
    columns, rings = [], []
    for k in np.unique(axis[axis >= 0]).tolist():
        other, this = (along >= 0) & (along != k), along == k
        if (side := links.sides(axis == k)) is not None:
            columns.append(side)
            rings.append(0)
            continue
        layer = components(links.n, links.here[other], links.there[other])
        order = _along(links, layer := _merged(links, layer, this), this)
        if order is None:
            return None
        position = np.full(links.n, NO_PLACE)
        position[order[0]] = np.arange(len(order[0]))
        columns.append(position[layer])
        rings.append(len(order[0]) if order[1] else 0)
    coordinates = np.stack(columns, axis=1) if columns else np.zeros((links.n, 0), np.int64)
    kept = np.flatnonzero(coordinates.max(axis=0) > 0)
    return _extended(links, coordinates[:, kept], np.array(rings, np.int64)[kept]) if len(kept) else None


def _extended(links: _Links, coordinates: np.ndarray, rings: np.ndarray) -> np.ndarray:
    """Return ``coordinates``, completed from neighbours. A switch without coordinates gets those that most of its
    neighbours indicate, because cables between the same two port numbers always make the same step. ``rings``: size of
    each axis that is a cycle, 0 for other axes.
    """
    ports = links.number * 256 + links.remote
    whole = np.asarray((coordinates >= 0).all(axis=1))
    lost = np.flatnonzero(~whole).tolist()
    if not lost or len(lost) > LOST * links.n:
        return coordinates
    sizes, coordinates = np.where(rings > 0, rings, BEYOND), coordinates.copy()
    placed = whole[links.here] & whole[links.there]
    steps: dict[int, np.ndarray] = {}
    for pair in np.unique(ports[placed]).tolist():
        of = placed & (ports == pair)
        step, count = np.unique(
            (coordinates[links.there[of]] - coordinates[links.here[of]]) % sizes, axis=0, return_counts=True
        )
        if count.max() >= max(LEAST, PLACED * of.sum()):
            steps[pair] = step[count.argmax()]
    while lost:
        best, at, place = 0, -1, coordinates[0]
        for row in lost:
            cables = np.flatnonzero((links.here == row) & whole[links.there])
            votes = Counter(
                tuple(((coordinates[links.there[c]] - steps[p]) % sizes).tolist())
                for c, p in zip(cables.tolist(), ports[cables].tolist(), strict=True)
                if p in steps
            )
            first, second = [*votes.most_common(2), ((), 0), ((), 0)][:2]
            if first[1] - second[1] > best:
                best, at, place = first[1] - second[1], row, np.array(first[0])
        if at < 0:
            break
        coordinates[at], whole[at] = np.where(place > BEYOND // 2, place - BEYOND, place), True
        lost.remove(at)
    coordinates[~whole] = NO_PLACE
    coordinates[whole] -= coordinates[whole].min(axis=0)
    return coordinates


def _merged(links: _Links, layer: np.ndarray, this: np.ndarray) -> np.ndarray:
    """Return ``layer`` after parts of one layer that a missing cable separates are merged. Two parts belong to one
    layer if cables of the axis (``this``) lead from both to the same layer, between the same port numbers.
    """
    here, there = links.here[this], links.there[this]
    ports = links.number[this] * 256 + links.remote[this]
    while True:
        start = ports * links.n + layer[here]
        _, at, count = np.unique(start * links.n + layer[there], return_inverse=True, return_counts=True)
        _, of, total = np.unique(start, return_inverse=True, return_counts=True)
        usual = 2 * count[at.reshape(-1)] > total[of.reshape(-1)]
        key = (ports * links.n + layer[there])[usual]
        order = np.argsort(key, kind="stable")
        alike = key[order][1:] == key[order][:-1]
        a, b = (layer[here[usual][order][ends][alike]] for ends in (slice(None, -1), slice(1, None)))
        if (a == b).all():
            return layer
        layer = components(links.n, a, b)[layer]


def _along(links: _Links, layer: np.ndarray, this: np.ndarray) -> tuple[np.ndarray, bool] | None:
    """Return (the layers along an axis in order, whether they form a cycle); None if they have no order. ``this``: the
    cables of the axis.
    """
    size = np.bincount(layer, minlength=links.n)
    whole = size >= HALF * np.median(size[layer])
    a, b = layer[links.here[this]], layer[links.there[this]]
    kept = whole[a] & whole[b] & (a != b)
    pair, count = np.unique(a[kept] * links.n + b[kept], return_counts=True)
    if not len(pair):
        return None
    often = count >= HALF * np.median(count)
    a, b = pair[often] // links.n, pair[often] % links.n
    layers, degree = np.unique(a, return_counts=True)
    if len(layers) > 3 and degree.sum() >= PLACED * len(layers) * (len(layers) - 1):
        return _by_remote_port(layer[links.here[this]], links.remote[this], layers), False
    return _walked(a, b, layers)


def _by_remote_port(of: np.ndarray, remote: np.ndarray, members: np.ndarray) -> np.ndarray:
    """Return ``members`` sorted by the mean port number at the other ends of their cables. ``of``: member of each
    cable; ``remote``: port number at its other end.
    """
    total, count = (np.bincount(of, w, minlength=int(members.max()) + 1) for w in (remote, None))
    return np.asarray(members[np.argsort(total[members] / np.maximum(count[members], 1), kind="stable")])


def _walked(a: np.ndarray, b: np.ndarray, layers: np.ndarray) -> tuple[np.ndarray, bool] | None:
    """Return ``layers`` in the order of the path or cycle that the pairs ``a``, ``b`` form (each pair in both
    directions), and whether it is a cycle; None if the pairs form neither.
    """
    neighbours: dict[int, list[int]] = {x: [] for x in layers.tolist()}
    for x, y in zip(a.tolist(), b.tolist(), strict=True):
        neighbours[x].append(y)
    ends = [x for x, others in neighbours.items() if len(others) == 1]
    if any(len(others) > 2 for others in neighbours.values()) or len(ends) not in (0, 2):
        return None
    order = [min(ends or neighbours)]
    while following := [y for y in neighbours.get(order[-1], ()) if y not in order[-2:] and y != order[0]]:
        order.append(min(following))
    return (np.array(order), not ends) if len(order) == len(layers) else None


def group_coordinates(view: FabricView, labels: Labels, linked: np.ndarray) -> Iterator[Labels]:
    """Yield ``labels`` in which the ``linked`` switches of a dragonfly have as numbers their group and their position
    in it, if port numbers show groups that are connected all-to-all.
    """
    links = _Links(view, linked)
    axis = links.axes()
    kinds, ports = np.unique(axis[axis >= 0], return_counts=True)
    if ports.max(initial=0) < LEAST:
        return
    local = axis == kinds[ports.argmax()]
    inside = local[links.number] & local[links.remote]
    if inside.all() or not inside.any():
        return
    # Only triangles of cables between local ports count: a global cable may close a triangle next to an exchanged local
    # cable.
    codes = np.unique(links.here[inside] * links.n + links.there[inside])
    shared = np.zeros(len(links.here), np.int64)
    for q in np.flatnonzero(local).tolist():
        third = links.peer[q][links.here]
        shared += (
            (third >= 0) & _holds(codes, links.here * links.n + third) & _holds(codes, third * links.n + links.there)
        )
    inside &= shared >= HALF * np.median(shared[inside])
    inside |= _of_broken_groups(links, local, inside)
    group = np.unique(components(links.n, links.here[inside], links.there[inside]), return_inverse=True)[1].reshape(-1)
    position = np.zeros(links.n, np.int64)
    ports = np.cumsum(local) - 1
    for g in range(int(group.max()) + 1):
        of = inside & (group[links.here] == g)
        members = np.flatnonzero(group == g)
        position[members] = _positions(links.here[of], ports[links.number[of]], ports[links.remote[of]], members)
    outside = ~local[links.number] & ~local[links.remote] & (group[links.here] != group[links.there])
    if not outside.any():
        return
    numbers = np.unique(links.number[outside])
    # With several cables between two groups, the list of other groups repeats along the ports.
    remote = (position[links.there] * len(numbers) + np.searchsorted(numbers, links.remote)) % max(1, int(group.max()))
    groups = _by_remote_port(group[links.here[outside]], remote[outside], np.arange(int(group.max()) + 1))
    coordinates = np.stack([np.where(position >= 0, np.argsort(groups)[group], NO_PLACE), position], axis=1)
    placed = _placed(view, labels, linked, coordinates)
    if placed:
        yield placed


def _of_broken_groups(links: _Links, local: np.ndarray, inside: np.ndarray) -> np.ndarray:
    """Return the cables between local ports of switches without a group. Such a group lost so many cables that it has
    no triangle (for example two of the six cables of four switches). Return None if these cables would form a group
    larger than most. ``inside``: the cables that determined the groups.
    """
    root = components(links.n, links.here[inside], links.there[inside])
    size = np.bincount(root, minlength=links.n)[root]
    usual = np.bincount(size).argmax()
    alone = size < HALF * usual
    between = local[links.number] & local[links.remote] & alone[links.here] & alone[links.there]
    joined = np.bincount(components(links.n, links.here[between], links.there[between]), minlength=links.n)
    return between if joined.max() <= usual else np.zeros(len(between), bool)


def _positions(here: np.ndarray, local: np.ndarray, remote: np.ndarray, members: np.ndarray) -> np.ndarray:
    """Return the position of each of ``members`` in its group. ``here``: the switch at one end of each cable;
    ``local``, ``remote``: indices of the cable's ports among the group's port numbers. Positions i < j are connected
    through port j - 1 of i and port i of j, so a cable determines both positions; if i and j are adjacent, it gives two
    candidates. Of two candidates with equal votes, the one that no other member has is used.
    """
    votes = np.zeros((len(members), int(max(local.max(initial=0), remote.max(initial=0))) + 2), np.int64)
    row = np.searchsorted(members, here)
    np.add.at(votes, (row, remote), np.sign(local - remote) + 1)
    np.add.at(votes, (row, remote + 1), np.sign(remote - local) + 1)
    best = votes == votes.max(axis=1, keepdims=True)
    out, taken = np.full(len(members), NO_PLACE), np.zeros(votes.shape[1], bool)
    for i in np.argsort(best.sum(axis=1), kind="stable").tolist():
        free = np.flatnonzero(best[i] & ~taken)
        if len(free):
            out[i] = free[0]
            taken[free[0]] = True
    return out


def _placed(view: FabricView, labels: Labels, linked: np.ndarray, coordinates: np.ndarray) -> Labels | None:
    """Return ``labels`` in which all switches with unique coordinates are one class; None if too few switches have
    unique coordinates.
    """
    placed = np.flatnonzero((coordinates >= 0).all(axis=1))
    _, at, count = np.unique(coordinates[placed], axis=0, return_inverse=True, return_counts=True)
    placed = placed[count[at.reshape(-1)] == 1]
    if len(placed) < PLACED * len(linked) or len(placed) < LEAST:
        return None
    made = class_of_coordinates(view, linked[placed], coordinates[placed])
    class_of, row_of = labels.class_of.copy(), labels.row_of.copy()
    class_of[linked], row_of[linked] = -1, -1
    class_of[made.nodes], row_of[made.nodes] = len(labels.classes), np.arange(len(placed))
    return replace(labels, classes=[*labels.classes, made], class_of=class_of, row_of=row_of)
