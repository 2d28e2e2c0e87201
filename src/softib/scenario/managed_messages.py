"""The subnet manager's decisions about messages before they are sent: service levels, multicast groups, trees of
aggregation nodes."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

import numpy as np

from softib.errors import InputError, SoftibError
from softib.scenario.sa_requests import NO_RECORD, path_record_sls
from softib.sim.messages import PATH_SL, without_reads

if TYPE_CHECKING:
    from collections.abc import Callable

    from softib.fabric.model import Fabric
    from softib.routing.graph import SwitchGraph
    from softib.scenario.bring_up import BringUp
    from softib.sim.messages import Messages
    from softib.sim.paths import Plane
    from softib.sm.config import SmConfig

__all__ = ["MAX_SL", "Managed", "managed_messages", "other_sls", "stated_sls", "with_stated_sls"]

MAX_SL = 15


class Managed(Protocol):
    """A fabric with tables and the manager that states SLs for its paths; members as in
    :class:`softib.analysis.routing.Routed`."""

    fabric: Fabric
    graph: SwitchGraph
    path_sl: np.ndarray | None
    subnet: BringUp | None
    config: SmConfig | None
    ask_sls: Callable[[np.ndarray, np.ndarray], np.ndarray] | None


def managed_messages(found: Managed, plane: Plane, made: Messages, layer: str, network: str) -> Messages:
    """Return ``made`` in the form in which ``layer`` sends it on ``found``: with the messages of its all-reduces,
    the SLs of its paths and the MLIDs of its groups; over TCP (``network``) without READs. Raises
    :class:`InputError` if the manager has no answer."""
    made = _with_reductions(found, plane, made, layer)
    if network == "tcp":
        made = without_reads(made)
    made = with_stated_sls(found, plane, made)
    return _with_groups(found, plane, made, layer)


def with_stated_sls(found: Managed, plane: Plane, made: Messages) -> Messages:
    """Return ``made`` with the SLs that the manager gives for paths; messages with an SL keep it.
    Raises :class:`InputError` for messages without a path."""
    asks = made.sl == PATH_SL
    if not asks.any():
        return made
    if found.path_sl is None or _by_records(
        found
    ):  # a group's SL is in the member record, and the manager of aggregation nodes has theirs
        asks &= (made.src != made.dst) & (made.group == 0) & (made.reduces == 0)
    stated = stated_sls(found, plane, made.src[asks], made.dst[asks])
    if stated is None:
        return made
    sl = made.sl.copy()
    sl[asks] = stated
    return replace(made, sl=sl if found.path_sl is not None else np.maximum(sl, 0).astype(np.int8))


def other_sls(found: Managed, plane: Plane, made: Messages) -> np.ndarray:
    """Return which messages have another SL than the engine's table gives for their path (bool[messages]); none if
    the engine assigns no SLs."""
    different = np.zeros(len(made), bool)
    if found.path_sl is None or not len(made):
        return different
    rows = np.flatnonzero((made.src != made.dst) & (made.group == 0) & (made.reduces == 0) & (made.sl != PATH_SL))
    stated = _of_table(found, plane, made.src[rows], made.dst[rows])
    different[rows] = (stated != PATH_SL) & (stated != made.sl[rows])
    return different


def stated_sls(found: Managed, plane: Plane, source: np.ndarray, target: np.ndarray) -> np.ndarray | None:
    """Return the SLs (int8) that the manager gives for paths between end ports ``source`` and ``target`` (rows as
    in messages): those of its path records, of the engine, or of a running fabric's subnet administration
    (:data:`PATH_SL` only if an engine's table lacks one). None
    without a manager. Raises :class:`InputError`, one line, for a pair without a path."""
    if not _by_records(found) and found.path_sl is not None:
        return _of_table(found, plane, source, target)
    if found.subnet is None and found.ask_sls is None:
        return None
    if not _by_records(found) and found.ask_sls is None:
        # Without partitions, policy or an engine's SLs the administration gives SL 0.
        return np.zeros(len(source), np.int8)
    pairs, row = np.unique(np.asarray(source, np.int64) << 32 | target, return_inverse=True)
    ends = plane.ends[pairs >> 32], plane.ends[pairs & 0xFFFFFFFF]
    stated = _recorded(found, *ends)
    if stated is None:
        return None
    absent = stated == NO_RECORD
    if absent.any():
        fabric, at = found.fabric, int(row[np.argmax(absent[row])])
        raise InputError(
            f"the subnet administration has no path from {fabric.port_name(int(ends[0][at]))} to "
            f"{fabric.port_name(int(ends[1][at]))}: they share no partition "
            f"with a full member, or no route leads there ({int(absent[row].sum()):,} of {len(row):,} paths)"
        )
    return np.asarray(stated, np.int8)[row]


def _by_records(found: Managed) -> bool:
    """Does softib's administration answer, path by path?"""
    config = found.config
    return found.subnet is not None and config is not None and bool(config.partitions is not None or config.qos_policy)


def _recorded(found: Managed, source: np.ndarray, target: np.ndarray) -> np.ndarray | None:
    """Return the SLs (int16) of path records between ports, :data:`NO_RECORD` without one; None if a running
    fabric's administration does not answer."""
    if found.ask_sls is None or _by_records(found):
        assert found.subnet is not None
        return path_record_sls(found.subnet, source, target)
    lid = found.fabric.lid
    try:
        return found.ask_sls(lid[source], lid[target])
    except SoftibError:
        return None


def _of_table(found: Managed, plane: Plane, source: np.ndarray, target: np.ndarray) -> np.ndarray:
    """Return the SLs that an engine assigns to paths."""
    table = found.path_sl
    assert table is not None
    graph, lid = found.graph, found.fabric.lid[plane.ends]
    row = np.minimum(np.searchsorted(graph.end_lid, lid), len(graph.end_lid) - 1)
    known = graph.end_lid[row] == lid
    if len(table) == 1:
        by = np.zeros(len(row), np.int64)
    else:
        by = row if len(table) == len(graph.end_lid) else graph.end_switch[row]
    stated = table[by[source], row[target]]
    usable = known[source] & known[target] & (stated <= MAX_SL)
    return np.where(usable, stated, PATH_SL).astype(np.int8)


def _with_groups(found: Managed, plane: Plane, made: Messages, layer: str) -> Messages:
    """Return ``made`` with the MLIDs of its multicast groups, which the manager creates when
    members join. Raises :class:`InputError` outside the packet layer, and for tables that softib's
    manager did not write."""
    if not made.groups:
        return made
    from softib.scenario.sa_requests import joined_groups

    if layer != "packet":
        raise InputError("only the packet layer supports multicast; add --layer packet")
    if found.subnet is None:
        raise InputError(
            "multicast groups are made by the subnet manager, and softib's did not make these tables; give an engine"
        )
    return replace(made, groups=joined_groups(found.subnet, plane.ends, made))


def _with_reductions(found: Managed, plane: Plane, made: Messages, layer: str) -> Messages:
    """Return ``made`` with the messages of its all-reduces over trees of aggregation nodes: pieces
    in the packet layer, streams in the others. Raises :class:`InputError` if no tree joins the hosts."""
    if not made.reductions:
        return made
    from softib.scenario.aggregation import all_reduces

    return all_reduces(found.fabric, plane.ends, made, streams=layer != "packet")
