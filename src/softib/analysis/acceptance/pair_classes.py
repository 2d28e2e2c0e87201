"""Which class a measured pair is of: same leaf, across spine, across core."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from softib.analysis.acceptance.ends import ends_of_fabric
from softib.diags.acceptance.schedule import CLASSES, class_of
from softib.fabric.end_ports import end_ports
from softib.fabric.model import Fabric
from softib.scenario.bring_up import bring_up
from softib.scenario.graph_view import graph_of

__all__ = ["classes_of_pairs"]


def classes_of_pairs(fabric: Fabric | None) -> Callable[[tuple[str, str]], str] | None:
    """What says the class of a pair (same leaf, across spine, across core; "": not known) by the
    names of its ends; None without a fabric."""
    if fabric is None:
        return None
    if not len(end_ports(fabric)):  # a file without LIDs: who hangs on which leaf is known all the same
        fabric = fabric.copy()
        bring_up(fabric)
    ends = ends_of_fabric(fabric, graph_of(fabric)).ends
    row = {ends.name(i): i for i in range(len(ends))}

    def kind(pair: tuple[str, str]) -> str:
        a, b = (row.get(name, -1) for name in pair)
        return "" if a < 0 or b < 0 else CLASSES[int(class_of(ends, np.array([a]), np.array([b]))[0])]

    return kind
