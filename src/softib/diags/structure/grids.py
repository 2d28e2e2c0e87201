"""Recognises direct networks: grids (torus, mesh, HyperX, ring) and dragonflies.

Grids: Dally and Towles, Principles and Practices of Interconnection Networks, 2004, chapter 5; Ahn
et al., HyperX, SC
2009. Dragonfly: Kim et al., ISCA 2008. Dragonfly+: Shpiner et al., HiPINEB 2017.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from softib.diags.labels import Labels, NodeClass
from softib.diags.rules import mode
from softib.diags.view import FabricView, components

__all__ = ["Shape", "dragonfly", "dragonfly_plus", "grid"]

MOST = 0.9
FEW_LINKS = 4
"""Maximum number of wrong cables with which a small fabric is still recognised."""
FEW_GROUP_PAIRS = 6
"""Maximum number of pairs of groups without a cable with which a small dragonfly is still recognised. Three exchanges
of two cables leave this number of pairs without a cable.
"""


@dataclass
class Shape:
    """The shape of a direct network. A grid has coordinates (int64[nodes, dims], -1 if a node has none) and the form of
    the lines in each dimension (``pair``, ``path``, ``cycle``, ``full``). A dragonfly has groups (int32[nodes]).
    """

    kind: str
    dims: tuple[int, ...] = ()
    forms: tuple[str, ...] = ()
    groups: int = 0
    group: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int32))
    coordinates: np.ndarray = field(default_factory=lambda: np.zeros((0, 0), np.int64))
    notes: list[str] = field(default_factory=list)

    @classmethod
    def of(cls, kind: str, nodes: int) -> Shape:
        """Return a shape without coordinates."""
        return cls(kind, group=np.full(nodes, -1, np.int32), coordinates=np.zeros((nodes, 0), np.int64))


def _pairs(view: FabricView, links: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return distinct pairs of linked switches."""
    a, b = view.node_a[links], view.node_b[links]
    pair = np.unique(np.stack([np.minimum(a, b), np.maximum(a, b)]), axis=1)
    return pair[0], pair[1]


def _slack(wanted: float) -> float:
    """Return the number of ``wanted`` links that may be wrong: a small share, or a few links, but at most a quarter of
    all links.
    """
    return min(max(FEW_LINKS, (1 - MOST) * wanted), wanted // 4)


def _about(count: int, wanted: float, astray: int = 0) -> bool:
    """Return whether ``count`` is nearly the number of ``wanted`` links. One swap removes two links from a dimension if
    two links are ``astray`` (lead to switches that are not neighbours).
    """
    few = max(1, min(2, astray))
    return abs(count - wanted) <= _slack(wanted) or 0 <= wanted - count <= min(few, wanted - 1)


def _main_class(labels: Labels, linked: np.ndarray) -> NodeClass | None:
    """Return the class to which nearly all linked switches belong; None if there is none."""
    usual, count = mode(labels.class_of[linked])
    return labels.classes[usual] if usual >= 0 and count >= MOST * len(linked) else None


def grid(view: FabricView, labels: Labels, linked: np.ndarray) -> Shape | None:
    """Return a grid whose coordinates are the numbers in the switches' names."""
    node_class = _main_class(labels, linked)
    if node_class is None or len(linked) < 3:
        return None
    a, b = _pairs(view, view.between_switches)
    inside = (labels.class_of[a] == labels.class_of[node_class.nodes[0]]) & (
        labels.class_of[b] == labels.class_of[node_class.nodes[0]]
    )
    x, y = node_class.numbers[labels.row_of[a[inside]]], node_class.numbers[labels.row_of[b[inside]]]
    apart = x != y
    along = apart.sum(axis=1) == 1
    if len(a) - int(along.sum()) > _slack(len(a)) or not along.any():
        return None
    n, forms = len(node_class.nodes), []
    for k, size in enumerate(node_class.span.tolist()):
        along_k = along & apart[:, k]
        step = np.abs(x[along_k, k] - y[along_k, k])
        forms.append(_form(n, size, step, len(a) - int(along.sum())))
    if "none" in forms or int(np.prod(node_class.span)) > n + max(FEW_LINKS, (1 - MOST) * n):
        return None
    shape = Shape.of(_grid_kind(forms), len(view.names))
    shape.dims, shape.forms = tuple(int(s) for s in node_class.span), tuple(forms)
    shape.coordinates = np.full((len(view.names), len(shape.dims)), -1, np.int64)
    shape.coordinates[node_class.nodes] = node_class.numbers
    return shape


def _form(n: int, size: int, step: np.ndarray, astray: int) -> str:
    """Return the form of the lines of ``size`` switches (all-to-all, cycles or paths), from the distances between the
    linked switches of each line. ``astray``: number of links between switches that share no line.
    """
    pairs, lines = len(step), n / size
    all_to_all = n * (size - 1) / 2
    around = int((step == size - 1).sum()) >= lines / 2
    if size == 2:
        return "pair" if _about(pairs, lines, astray) else "none"
    if size > 3 and _about(pairs, all_to_all) and pairs > 1.5 * n:
        return "full"
    if not _about(int(((step == 1) | (step == size - 1)).sum()), pairs):
        return "full" if size == 4 and _about(pairs, all_to_all) else "none"
    wanted = lines * (size if around else size - 1)
    return ("cycle" if around else "path") if _about(pairs, wanted, astray) else "none"


def _grid_kind(forms: list[str]) -> str:
    if "full" in forms:
        return "hyperx"
    if "cycle" in forms:
        return "ring" if len(forms) == 1 else "torus"
    return "mesh"


def dragonfly(view: FabricView, labels: Labels, linked: np.ndarray) -> Shape | None:
    """Return a dragonfly whose groups are given by the first number in the switches' names: the switches of a group are
    connected all-to-all, and so are the groups. None if they are not.
    """
    node_class = _main_class(labels, linked)
    if node_class is None or node_class.numbers.shape[1] != 2:
        return None
    shape = Shape.of("dragonfly", len(view.names))
    shape.group[node_class.nodes] = node_class.numbers[:, 0]
    return shape if _all_joined(view, shape, view.between_switches, inside=True) else None


def dragonfly_plus(view: FabricView, rank: np.ndarray, sideways: np.ndarray) -> Shape | None:
    """Return a dragonfly+: groups of two tiers, which only links between their spines connect. None if the fabric is
    not one.
    """
    links = view.between_switches
    switches = view.is_switch & (rank > 0)
    low = rank[view.node_a[sideways]] != 2
    if rank[switches].max(initial=0) != 2 or low.sum() > min(FEW_LINKS, (1 - MOST) * len(sideways)):
        return None
    local, sideways = np.setdiff1d(links, sideways), sideways[~low]
    root = components(len(view.names), view.node_a[local], view.node_b[local])
    roots, group = np.unique(root[switches], return_inverse=True)
    if len(roots) < 2 or len(roots) > switches.sum() / 2:
        return None
    shape = Shape.of("dragonfly+", len(view.names))
    shape.group[switches] = group
    return shape if _all_joined(view, shape, sideways, inside=False) else None


def _all_joined(view: FabricView, shape: Shape, links: np.ndarray, inside: bool) -> bool:
    """Return whether nearly all pairs of groups are connected and, if ``inside``, nearly all pairs of switches within
    each group.
    """
    a, b = _pairs(view, links)
    g, h = shape.group[a], shape.group[b]
    numbered = (g >= 0) & (h >= 0)
    g, h = g[numbered], h[numbered]
    size = np.bincount(shape.group[shape.group >= 0])
    shape.groups = len(size)
    low, high = np.minimum(g, h)[g != h], np.maximum(g, h)[g != h]
    wanted = len(size) * (len(size) - 1) // 2
    joined = len(np.unique(low.astype(np.int64) * len(size) + high))
    complete = int((size * (size - 1) // 2).sum())
    local = int((g == h).sum())
    return (
        len(size) >= 2
        and joined >= wanted - max((1 - MOST) * wanted + 1, min(FEW_GROUP_PAIRS, wanted // 6))
        and (not inside or (complete > 0 and _about(local, complete)))
    )
