"""Coordinates of switches whose names have none, from the numbers of the ports that join them: in a regular
direct network, port k of every switch leads in the same direction.

*Axes*: two port numbers belong together if their peers are mostly joined (a line or a group all-to-all), or if
they are the two ends of the same cables (up and down). *Layers*: switches joined along all other axes share
their coordinate on an axis (a Cartesian product of graphs: Imrich and Klavžar, Product Graphs, 2000, chapter 4).
Cables between two layers make a path, a cycle or a complete graph of them. In a complete graph, a switch's
ports skip its own position; therefore position i is met at ports i - 1 and i, and the mean gives the order.
A single wrong cable closes no square with its neighbours and is not used.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from softib.components import components
from softib.diags.labels import Labels, class_of_places
from softib.diags.view import FabricView

__all__ = ["group_places", "grid_places"]

MOSTLY = 0.6
"""Share of the switches at which two port numbers must belong together, and of a layer's cables that
must lead to the same layer."""
LEAST = 2
"""Cables by which two port numbers belong together."""
PLACED = 0.9
"""Share of the linked switches that need a place of their own, and of the pairs of layers that are
joined in an axis all-to-all."""
HALF = 0.5
NO_PLACE = -1


class _Links:
    """Cables between ``linked`` switches in both directions, by rows of ``linked``: a cable from port
    ``number`` of ``here`` to port ``far`` of ``there``."""

    def __init__(self, view: FabricView, linked: np.ndarray):
        f, rows = view.fabric, view.between_switches
        ends = np.concatenate([view.port_a[rows], view.port_b[rows]])
        peers = f.port_peer[ends]
        row = np.full(len(view.names), -1)
        row[linked] = np.arange(len(linked))
        self.n = len(linked)
        self.here, self.there = row[f.port_node[ends]], row[f.port_node[peers]]
        self.number, self.far = f.port_num[ends].astype(np.int64), f.port_num[peers].astype(np.int64)
        self.numbers = np.unique(self.number)
        self.peer = np.full((256, self.n), -1)
        self.peer[self.number, self.here] = self.there
        self.codes = np.unique(self.here * self.n + self.there)

    def adjacent(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        """Return whether each of ``a`` is joined to each of ``b``, or is the same."""
        code = a * self.n + b
        at = np.minimum(np.searchsorted(self.codes, code), len(self.codes) - 1)
        return (self.codes[at] == code) | (a == b)

    def axes(self) -> np.ndarray:
        """Return int64[256]: the axis of each port number (its lowest port number), -1 for unused ones."""
        used = self.numbers.tolist()
        pairs = [(p, q) for i, p in enumerate(used) for q in used[i + 1 :] if self._together(p, q)]
        code, count = np.unique(self.number * 256 + self.far, return_counts=True)
        times = dict(zip(code.tolist(), count.tolist(), strict=True))
        of = np.bincount(self.number, minlength=256)
        pairs += [
            (p, q)
            for p in used
            for q in used
            if p < q and times.get(p * 256 + q, 0) >= max(LEAST, MOSTLY * min(of[p], of[q]))
        ]
        a, b = np.array(pairs or [(0, 0)]).T
        axis = components(256, a, b)
        axis[np.setdiff1d(np.arange(256), self.numbers)] = NO_PLACE
        return axis

    def _together(self, p: int, q: int) -> bool:
        """Return whether the peers at ports ``p`` and ``q`` are mostly joined to each other."""
        both = (self.peer[p] >= 0) & (self.peer[q] >= 0)
        joined = int(self.adjacent(self.peer[p][both], self.peer[q][both]).sum())
        return joined >= max(LEAST, MOSTLY * int(both.sum()))

    def closing_squares(self, axis: np.ndarray) -> np.ndarray:
        """Return bool[cables]: whether, one step along most other axes, the two ends are joined too.
        All True for a single axis, which has no squares."""
        good, bad = np.zeros((2, len(self.here)), np.int64)
        for q in self.numbers.tolist():
            w, x = self.peer[q][self.here], self.peer[q][self.there]
            known = (w >= 0) & (x >= 0) & (axis[self.number] != axis[q])
            closed = known & self.adjacent(np.maximum(w, 0), np.maximum(x, 0))
            good += closed
            bad += known & ~closed
        return (good >= bad) & ((good > 0) | (len(np.unique(axis[self.numbers])) == 1))


def grid_places(view: FabricView, labels: Labels, linked: np.ndarray) -> Labels | None:
    """Return ``labels`` with the coordinates of a grid as numbers of the ``linked`` switches, or None if the ports
    give none."""
    links = _Links(view, linked)
    axis = links.axes()
    along = np.where(axis[links.number] == axis[links.far], axis[links.number], NO_PLACE)
    sure = (along >= 0) & links.closing_squares(axis)
    columns = []
    for k in np.unique(axis[links.numbers]).tolist():
        other, this = sure & (along != k), sure & (along == k)
        column = _along(links, components(links.n, links.here[other], links.there[other]), this)
        if column is None:
            return None
        columns.append(column)
    places = np.stack(columns, axis=1)
    places = _fill(links, places[:, places.max(axis=0) > 0])
    return _placed(view, labels, linked, places) if places.shape[1] else None


def _fill(links: _Links, places: np.ndarray) -> np.ndarray:
    """Return ``places`` in which each switch without one has the free place with most of its neighbours in line."""
    size = places.max(axis=0, initial=0) + 1
    whole = (places >= 0).all(axis=1)
    lost = np.flatnonzero(~whole)
    cells = int(np.prod(size))
    if not len(lost) or len(lost) > links.n - PLACED * links.n + 1 or cells > links.n + len(lost):
        return places
    taken = np.zeros(cells, bool)
    taken[np.ravel_multi_index(tuple(places[whole].T), tuple(size))] = True
    free = np.stack(np.unravel_index(np.flatnonzero(~taken), tuple(size)), axis=1)
    places = places.copy()
    for row in lost.tolist():
        near = links.there[links.here == row]
        near = places[near[whole[near]]]
        in_line = ((free[:, None] != near[None]).sum(axis=2) == 1).sum(axis=1) if len(near) else np.zeros(len(free))
        best = np.flatnonzero(in_line == in_line.max(initial=0))
        if len(best) == 1 and in_line[best[0]]:
            places[row] = free[best[0]]
            free = np.delete(free, best[0], axis=0)
    return places


def _along(links: _Links, layer: np.ndarray, this: np.ndarray) -> np.ndarray | None:
    """Return the position of the layer of each switch along an axis (cables ``this``), -1 for layers outside of it;
    None if the layers have no order."""
    size = np.bincount(layer, minlength=links.n)
    whole = size >= HALF * np.median(size[layer])
    a, b = layer[links.here[this]], layer[links.there[this]]
    kept = whole[a] & whole[b] & (a != b)
    pair, at, count = np.unique(a[kept] * links.n + b[kept], return_inverse=True, return_counts=True)
    if not len(pair):
        return None
    often = count >= HALF * np.median(count)
    a, b = pair[often] // links.n, pair[often] % links.n
    layers, degree = np.unique(a, return_counts=True)
    if len(layers) > 3 and degree.sum() >= PLACED * len(layers) * (len(layers) - 1):
        order = _by_far_port(layer[links.there[this]], links.far[this], layers)
    else:
        order = _walked(a, b, layers)
    if order is None:
        return None
    position = np.full(links.n, NO_PLACE)
    position[order] = np.arange(len(order))
    return position[layer]


def _by_far_port(of: np.ndarray, far: np.ndarray, members: np.ndarray) -> np.ndarray:
    """Return ``members`` in the order of the mean port number at which cables reach them."""
    total, count = (np.bincount(of, w, minlength=int(members.max()) + 1) for w in (far, None))
    return np.asarray(members[np.argsort(total[members] / np.maximum(count[members], 1), kind="stable")])


def _walked(a: np.ndarray, b: np.ndarray, layers: np.ndarray) -> np.ndarray | None:
    """Return ``layers`` in the order of the path or cycle of pairs ``a``, ``b`` (in both directions); None if it is
    neither."""
    beside: dict[int, list[int]] = {x: [] for x in layers.tolist()}
    for x, y in zip(a.tolist(), b.tolist(), strict=True):
        beside[x].append(y)
    ends = [x for x, others in beside.items() if len(others) == 1]
    if any(len(others) > 2 for others in beside.values()) or len(ends) not in (0, 2):
        return None
    order = [min(ends or beside)]
    while following := [y for y in beside.get(order[-1], ()) if y not in order[-2:] and y != order[0]]:
        order.append(min(following))
    return np.array(order) if len(order) == len(layers) else None


def group_places(view: FabricView, labels: Labels, linked: np.ndarray) -> Labels | None:
    """Return ``labels`` with group and position in it as numbers of the ``linked`` switches of a dragonfly, or None
    if no port numbers join groups all-to-all."""
    links = _Links(view, linked)
    axis = links.axes()
    kinds, ports = np.unique(axis[links.numbers], return_counts=True)
    local = axis == kinds[ports.argmax()]
    inside = local[links.number] & local[links.far]
    if ports.max() < LEAST or inside.all():
        return None
    shared = np.zeros(len(links.here), np.int64)
    for q in np.flatnonzero(local).tolist():
        third = links.peer[q][links.here]
        shared += (third >= 0) & (third != links.there) & links.adjacent(np.maximum(third, 0), links.there)
    inside &= shared >= HALF * np.median(shared[inside])
    root = components(links.n, links.here[inside], links.there[inside])
    group = np.unique(root, return_inverse=True)[1].reshape(-1)
    position = np.zeros(links.n, np.int64)
    for g in range(int(group.max()) + 1):
        of_group = inside & (group[links.there] == g)
        members = np.flatnonzero(group == g)
        position[_by_far_port(links.there[of_group], links.far[of_group], members)] = np.arange(len(members))
    outside = ~local[links.number] & ~local[links.far] & (group[links.here] != group[links.there])
    if not outside.any():
        return None
    numbers = np.unique(links.number[outside])
    far = position[links.there] * len(numbers) + np.searchsorted(numbers, links.far)
    groups = _by_far_port(group[links.there[outside]], far[outside], np.arange(int(group.max()) + 1))
    places = np.stack([np.argsort(groups)[group], position], axis=1)
    return _placed(view, labels, linked, places)


def _placed(view: FabricView, labels: Labels, linked: np.ndarray, places: np.ndarray) -> Labels | None:
    """Return ``labels`` in which the switches with a place of their own are one class; None if too few have one."""
    known = np.flatnonzero((places >= 0).all(axis=1))
    _, at, count = np.unique(places[known], axis=0, return_inverse=True, return_counts=True)
    known = known[count[at.reshape(-1)] == 1]
    if len(known) < PLACED * len(linked) or len(known) < LEAST:
        return None
    made = class_of_places(view, linked[known], places[known])
    class_of, row_of = labels.class_of.copy(), labels.row_of.copy()
    class_of[linked], row_of[linked] = -1, -1
    class_of[made.nodes], row_of[made.nodes] = len(labels.classes), np.arange(len(known))
    return replace(labels, classes=[*labels.classes, made], class_of=class_of, row_of=row_of, by_ports=True)
