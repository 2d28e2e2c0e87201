"""Splits node names into a class and numbers.

``leaf-12`` has the number (12,) in class ``leaf-#``. ``node-003 mlx5_2`` has the numbers (3, 2) in class ``node-#
mlx#_#``: numbers that all members share (the 5 of mlx5) are left out. Sites number their switches and hosts in the
order of cabling, so two exchanged cables are visible without a plan.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

import numpy as np

from softib.diags.view import FabricView

__all__ = ["Labels", "NodeClass", "class_of_coordinates", "make_class", "read_labels"]

_NUMBER = re.compile(r"\d+")
MAX_NUMBER = 10**6
"""Largest range of numbers within a class. Numbers with a larger range are serial numbers, not positions."""
LONGEST = 2**62
MIN_MEMBERS = 2
SPARSE = 64
"""If the largest number of a class is more than this multiple of its members, the numbers are replaced by their ranks.
This limits memory and time.
"""


@dataclass
class NodeClass:
    """Nodes of one type whose names differ only in numbers.

    ``numbers`` int64[members, k]: each column starts at 0. ``span``: one more than the largest number of each column.
    ``numbers @ stride`` is the code of each member; ``order`` and ``codes`` are used to find the member with a code.
    ``by_ports``: the numbers are positions derived from the ports, not numbers in the names.
    """

    name: str
    nodes: np.ndarray
    numbers: np.ndarray
    span: np.ndarray
    stride: np.ndarray
    codes: np.ndarray
    order: np.ndarray
    by_ports: bool = False

    def find(self, numbers: np.ndarray) -> np.ndarray:
        """Return the member with each row of ``numbers`` (int64[n, k]), -1 if there is none."""
        inside = ((numbers >= 0) & (numbers < self.span)).all(axis=1)
        return np.where(inside, self._find_code(numbers @ self.stride), -1)

    def renumbered(self, numbers: np.ndarray, nodes: np.ndarray) -> NodeClass:
        """Return a class of ``nodes`` with other ``numbers`` (0 or more). If several nodes have the same numbers,
        :meth:`find` returns the first.
        """
        return _ordered(self.name, nodes, numbers, numbers.max(axis=0) + 1)

    def _find_code(self, code: np.ndarray) -> np.ndarray:
        at = np.minimum(np.searchsorted(self.codes, code), len(self.codes) - 1)
        return np.where(self.codes[at] == code, self.order[at], -1)


@dataclass
class Labels:
    """``classes`` of nodes. For each node: its class and its row in this class (-1: the node has no class)."""

    classes: list[NodeClass]
    class_of: np.ndarray
    row_of: np.ndarray

    @property
    def by_ports(self) -> bool:
        """Return whether the numbers of the switches are positions derived from their ports."""
        return any(made.by_ports for made in self.classes)


def read_labels(view: FabricView) -> Labels:
    """Return the classes of all nodes whose names are unique within their class."""
    members: dict[tuple[int, str], list[int]] = {}
    for node, name in enumerate(view.names):
        if name.startswith("0x") or view.is_sharp[node]:
            continue
        members.setdefault((int(view.fabric.node_type[node]), _NUMBER.sub("#", name)), []).append(node)
    class_of = np.full(len(view.names), -1, np.int32)
    row_of = np.full(len(view.names), -1, np.int32)
    classes: list[NodeClass] = []
    for (_, template), nodes in members.items():
        if "#" not in template or len(nodes) < MIN_MEMBERS:
            continue
        made = make_class(template, np.array(nodes), [view.names[n] for n in nodes])
        if made is not None:
            class_of[made.nodes] = len(classes)
            row_of[made.nodes] = np.arange(len(made.nodes))
            classes.append(made)
    return Labels(classes, class_of, row_of)


def make_class(template: str, nodes: np.ndarray, names: list[str]) -> NodeClass | None:
    """Return the class of ``nodes``, whose ``names`` are ``template`` with different numbers; None if the numbers give
    no order.
    """
    numbers = np.array([[min(int(x), LONGEST) for x in _NUMBER.findall(n)] for n in names], np.int64)
    numbers -= numbers.min(axis=0)
    numbers = numbers[:, (numbers.max(axis=0) > 0) & (numbers.max(axis=0) <= MAX_NUMBER)]
    numbers = _without_copies(numbers)
    for column in numbers.T:
        if column.max(initial=0) > SPARSE * len(nodes):  # serial numbers: only their order is meaningful
            column[:] = np.unique(column, return_inverse=True)[1]
    if numbers.shape[1] == 0:
        return None
    span = numbers.max(axis=0) + 1
    if float(np.prod(span.astype(float))) > 2.0**60:
        return None
    code = numbers @ _strides(span)
    _, inverse, count = np.unique(code, return_inverse=True, return_counts=True)
    single = count[inverse] == 1
    if single.sum() < MIN_MEMBERS:
        return None
    return _ordered(template, nodes[single], numbers[single], span)


def class_of_coordinates(view: FabricView, nodes: np.ndarray, coordinates: np.ndarray) -> NodeClass:
    """Return the class of ``nodes`` that has ``coordinates`` (int64[nodes, k], distinct) as numbers. The class is named
    after the common form of the nodes' names.
    """
    forms = {_NUMBER.sub("#", view.names[n]) for n in nodes.tolist()}
    name = forms.pop() if len(forms) == 1 and not view.names[nodes[0]].startswith("0x") else "switch"
    return replace(_ordered(name, nodes, coordinates, coordinates.max(axis=0) + 1), by_ports=True)


def _strides(span: np.ndarray) -> np.ndarray:
    return np.concatenate([np.cumprod(span[:0:-1])[::-1], [1]]).astype(np.int64)


def _ordered(name: str, nodes: np.ndarray, numbers: np.ndarray, span: np.ndarray) -> NodeClass:
    stride = _strides(span)
    code, order = np.unique(numbers @ stride, return_index=True)
    return NodeClass(name, nodes, numbers, span, stride, code, order)


def _without_copies(numbers: np.ndarray) -> np.ndarray:
    """Return ``numbers`` without columns that duplicate an earlier one."""
    keep: list[int] = []
    for s in range(numbers.shape[1]):
        if not any((numbers[:, s] == numbers[:, t]).all() for t in keep):
            keep.append(s)
    return numbers[:, keep]
