"""What a workload's messages get from the fabric's manager before they run: service levels, multicast groups, trees of aggregation nodes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from softib.errors import InputError, SoftibError
from softib.sim.messages import PATH_SL

if TYPE_CHECKING:
    from softib.analysis.routed import Routed
    from softib.sim.messages import Messages
    from softib.sim.paths import Plane

__all__ = ["MAX_SL", "with_groups", "with_reductions", "with_stated_sls"]

MAX_SL = 15
MOST_ENDS = 600
"""End ports of a running fabric whose administration is asked for all paths between them (some seconds)."""


def with_stated_sls(found: Routed, plane: Plane, made: Messages) -> Messages:
    """``made`` with the SLs that the manager of ``found`` states for their paths, where they name none themselves. Raises :class:`InputError` for messages that it has no path
    for."""
    if not (made.sl == PATH_SL).any():
        return made
    config = found.config
    if found.subnet is not None and config is not None and (config.partitions is not None or config.qos_policy):
        return _with_path_records(found, plane, made)
    if found.path_sl is None and found.ask_sls is not None:
        found = replace(found, path_sl=_queried(found, found.ask_sls))
    if found.path_sl is None:
        # Without partitions, policy or an engine's SLs the administration states SL 0; nobody does where nobody manages.
        return made if found.subnet is None else replace(made, sl=np.maximum(made.sl, 0).astype(np.int8))
    return _with_table(found, plane, made)


def _queried(found: Routed, ask: Callable[[], np.ndarray]) -> np.ndarray | None:
    """What the administration of a running fabric says of all pairs, where these are few enough; None where it does not say."""
    if len(found.graph.end_lid) > MOST_ENDS:
        return None
    try:
        return ask()
    except SoftibError:
        return None


def _with_path_records(found: Routed, plane: Plane, made: Messages) -> Messages:
    """``made`` with the SLs of path records, one asked for each pair of ends. Of a multicast group the member record has it, between aggregation nodes the manager of these."""
    from softib.scenario.path_records import NO_RECORD, path_record_sls

    assert found.subnet is not None
    asks = (made.sl == PATH_SL) & (made.src != made.dst) & (made.group == 0)
    pairs, row = np.unique(np.stack([made.src[asks], made.dst[asks]]), axis=1, return_inverse=True)
    stated = path_record_sls(found.subnet, plane.ends[pairs[0]], plane.ends[pairs[1]])
    refused = (stated == NO_RECORD)[row.ravel()] & (made.reduces[asks] == 0)
    if refused.any():
        fabric, (a, b) = found.fabric, plane.ends[pairs[:, row.ravel()[np.argmax(refused)]]]
        raise InputError(
            f"the subnet administration has no path from {fabric.port_name(int(a))} to {fabric.port_name(int(b))}: they share no partition of which one is a full "
            f"member, or no route leads there ({int(refused.sum()):,} of {len(made):,} messages)"
        )
    sl = np.maximum(made.sl, 0)
    sl[asks] = np.maximum(stated, 0)[row.ravel()]
    return replace(made, sl=sl.astype(np.int8))


def _with_table(found: Routed, plane: Plane, made: Messages) -> Messages:
    """``made`` with the SLs that an engine gives paths."""
    table = found.path_sl
    assert table is not None
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
    from softib.scenario.aggregation import aggregation_messages, placements
    from softib.sim.messages import joined

    placed = placements(found.fabric, plane.ends, made.reductions)
    for reduction, at in zip(made.reductions, placed, strict=True):
        added = aggregation_messages(found.fabric, plane.ends, reduction, streams=layer != "packet", placed=at)
        made = joined(made, added)
    return made
