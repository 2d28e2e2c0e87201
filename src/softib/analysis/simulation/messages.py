"""What a workload's messages get from the fabric's manager before they run: service levels, multicast groups, trees of aggregation nodes."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from softib.errors import InputError
from softib.sim.messages import PATH_SL

if TYPE_CHECKING:
    from softib.analysis.routed import Routed
    from softib.sim.messages import Messages
    from softib.sim.paths import Plane

__all__ = ["MAX_SL", "with_groups", "with_reductions", "with_stated_sls"]

MAX_SL = 15


def with_stated_sls(found: Routed, plane: Plane, made: Messages) -> Messages:
    """``made`` with the SLs that the manager of ``found`` states for their paths, where they name none themselves."""
    table = found.path_sl
    if table is None or not (made.sl == PATH_SL).any():
        return made
    graph, lid = found.graph, found.fabric.lid[plane.ends]
    row = np.minimum(np.searchsorted(graph.end_lid, lid), len(graph.end_lid) - 1)
    known = graph.end_lid[row] == lid
    if len(table) == 1:
        source = np.zeros(len(row), np.int64)
    else:
        source = row if len(table) == len(graph.end_lid) else graph.end_switch[row]
    stated = table[source[made.src], row[made.dst]]
    usable = known[made.src] & known[made.dst] & (stated <= MAX_SL) & (made.sl == PATH_SL)
    return replace(made, sl=np.where(usable, stated, made.sl).astype(np.int8))


def with_groups(found: Routed, plane: Plane, made: Messages, layer: str) -> Messages:
    """``made`` with the MLIDs of its multicast groups, which the manager of ``found`` makes when their members join.

    Raises :class:`InputError` for another layer than the packet layer, and for a fabric whose tables our manager did not write.
    """
    if not made.groups:
        return made
    from softib.scenario.multicast_groups import joined_groups

    if layer != "packet":
        raise InputError("only packets know multicast; add --layer packet")
    if found.subnet is None:
        raise InputError(
            "multicast groups are made by the subnet manager, and these tables are not its own; give an engine"
        )
    return replace(made, groups=joined_groups(found.subnet, plane.ends, made))


def with_reductions(found: Routed, plane: Plane, made: Messages, layer: str) -> Messages:
    """``made`` with the messages of its all-reduces over the trees that aggregation nodes hold: pieces in the packet layer, streams in the others. Raises
    :class:`InputError` where no tree joins the hosts."""
    if not made.reductions:
        return made
    from softib.scenario.aggregation import aggregation_messages
    from softib.sim.messages import joined

    for reduction in made.reductions:
        made = joined(made, aggregation_messages(found.fabric, plane.ends, reduction, streams=layer != "packet"))
    return made
