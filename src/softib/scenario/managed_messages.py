"""The parts of messages that the subnet manager decides before they are sent: SLs, multicast
groups, and trees of aggregation nodes."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

import numpy as np

from softib.errors import InputError, SoftibError
from softib.fabric.node_finder import distinct_names
from softib.scenario.cut_off import Parts
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
    """A fabric with forwarding tables, and the manager that assigns SLs to its paths. It has
    members of :class:`softib.analysis.routing.Routed`."""

    fabric: Fabric
    graph: SwitchGraph
    path_sl: np.ndarray | None
    subnet: BringUp | None
    config: SmConfig | None
    ask_sls: Callable[[np.ndarray, np.ndarray], np.ndarray] | None


def managed_messages(managed: Managed, plane: Plane, messages: Messages, layer: str, network: str) -> Messages:
    """Return ``messages`` as ``layer`` sends them on ``managed``: with the messages of their
    all-reduces, the SLs of their paths, and the MLIDs of their groups. Over TCP (``network``),
    READs are replaced. Raises :class:`InputError` if the manager has no answer, and for features
    that Ethernet does not have."""
    if network in ("roce", "tcp") and (messages.groups or messages.reductions):
        pattern = "multicast" if messages.groups else "aggregation in switches"
        raise InputError(f"{pattern} needs InfiniBand; the simulated Ethernet does not support it")
    messages = _with_reductions(managed, plane, messages, layer)
    if network == "tcp":
        messages = without_reads(messages)
    messages = with_stated_sls(managed, plane, messages)
    return _with_groups(managed, plane, messages, layer)


def with_stated_sls(managed: Managed, plane: Plane, messages: Messages) -> Messages:
    """Return ``messages`` with the SLs that the manager assigns to their paths. Messages that
    already have an SL keep it. Raises :class:`InputError` for messages without a path."""
    asks = messages.sl == PATH_SL
    if not asks.any():
        return messages
    if managed.path_sl is None or _by_records(
        managed
    ):  # the member record contains the SL of a group, and the aggregation manager the SL of its trees
        asks &= (messages.src != messages.dst) & (messages.group == 0) & (messages.reduces == 0)
    stated = stated_sls(managed, plane, messages.src[asks], messages.dst[asks])
    if stated is None:
        return messages
    sl = messages.sl.copy()
    sl[asks] = stated
    return replace(messages, sl=sl if managed.path_sl is not None else np.maximum(sl, 0).astype(np.int8))


def other_sls(managed: Managed, plane: Plane, messages: Messages) -> np.ndarray:
    """Return a mask (bool[messages]) of the messages whose SL differs from that of the engine for
    their path. It is False everywhere if the engine assigns no SLs."""
    different = np.zeros(len(messages), bool)
    if managed.path_sl is None or not len(messages):
        return different
    rows = np.flatnonzero(
        (messages.src != messages.dst) & (messages.group == 0) & (messages.reduces == 0) & (messages.sl != PATH_SL)
    )
    stated = _of_table(managed, plane, messages.src[rows], messages.dst[rows])
    different[rows] = (stated != PATH_SL) & (stated != messages.sl[rows])
    return different


def stated_sls(managed: Managed, plane: Plane, source: np.ndarray, target: np.ndarray) -> np.ndarray | None:
    """Return the SLs (int8) that the manager assigns to paths between end ports ``source`` and
    ``target`` (rows as in messages). They come from its path records, from the engine, or from the
    SA of a running fabric (:data:`PATH_SL` only if the engine has no SL for a path). Return None if
    there is no manager. Raises :class:`InputError` with a one-line message for a pair without a
    path."""
    if not _by_records(managed) and managed.path_sl is not None:
        return _of_table(managed, plane, source, target)
    if managed.subnet is None and managed.ask_sls is None:
        return None
    if not _by_records(managed) and managed.ask_sls is None:
        # If there are no partitions, no QoS policy and no SLs of an engine, the SA assigns SL 0 to
        # all paths.
        return np.zeros(len(source), np.int8)
    pairs, row = np.unique(np.asarray(source, np.int64) << 32 | target, return_inverse=True)
    ends = plane.ends[pairs >> 32], plane.ends[pairs & 0xFFFFFFFF]
    stated = _recorded(managed, *ends)
    if stated is None:
        return None
    absent = stated == NO_RECORD
    if absent.any():
        fabric, at = managed.fabric, int(row[np.argmax(absent[row])])
        source_port, target_port = int(ends[0][at]), int(ends[1][at])
        apart = Parts(fabric, managed.graph, distinct_names(fabric)).apart(source_port, target_port)
        why = apart or "they share no partition with a full member, or no route leads there"
        raise InputError(
            f"the subnet administration has no path from {fabric.port_name(source_port)} to "
            f"{fabric.port_name(target_port)}: {why} ({int(absent[row].sum()):,} of {len(row):,} paths)"
        )
    return np.asarray(stated, np.int8)[row]


def _by_records(of: Managed) -> bool:
    """Return whether softib's SA must be queried for each path separately."""
    config = of.config
    return of.subnet is not None and config is not None and bool(config.partitions is not None or config.qos_policy)


def _recorded(managed: Managed, source: np.ndarray, target: np.ndarray) -> np.ndarray | None:
    """Return the SLs (int16) of path records between ports; :data:`NO_RECORD` = there is no record.
    Return None if the SA of a running fabric does not answer."""
    if managed.ask_sls is None or _by_records(managed):
        assert managed.subnet is not None
        return path_record_sls(managed.subnet, source, target)
    lid = managed.fabric.lid
    try:
        return managed.ask_sls(lid[source], lid[target])
    except SoftibError:
        return None


def _of_table(managed: Managed, plane: Plane, source: np.ndarray, target: np.ndarray) -> np.ndarray:
    """Return the SLs that an engine assigns to paths."""
    table = managed.path_sl
    assert table is not None
    graph, lid = managed.graph, managed.fabric.lid[plane.ends]
    row = np.minimum(np.searchsorted(graph.end_lid, lid), len(graph.end_lid) - 1)
    addressed = graph.end_lid[row] == lid
    if len(table) == 1:
        by = np.zeros(len(row), np.int64)
    else:
        by = row if len(table) == len(graph.end_lid) else graph.end_switch[row]
    stated = table[by[source], row[target]]
    usable = addressed[source] & addressed[target] & (stated <= MAX_SL)
    return np.where(usable, stated.astype(np.int8), PATH_SL)


def _with_groups(managed: Managed, plane: Plane, messages: Messages, layer: str) -> Messages:
    """Return ``messages`` with the MLIDs of its multicast groups, which the manager creates when
    members join. Raises :class:`InputError` in layers other than the packet layer, and if softib's
    manager did not write the tables."""
    if not messages.groups:
        return messages
    from softib.scenario.sa_requests import joined_groups

    if layer != "packet":
        raise InputError("only the packet layer supports multicast; add --layer packet")
    if managed.subnet is None:
        raise InputError(
            "multicast needs groups of softib's subnet manager, which did not compute these tables; use an engine "
            "instead"
        )
    return replace(messages, groups=joined_groups(managed.subnet, plane.ends, messages))


def _with_reductions(managed: Managed, plane: Plane, messages: Messages, layer: str) -> Messages:
    """Return ``messages`` with the messages of its all-reduces over trees of aggregation nodes:
    pieces in the packet layer, streams in other layers. Raises :class:`InputError` if no tree
    connects the hosts."""
    if not messages.reductions:
        return messages
    from softib.scenario.aggregation import all_reduces

    return all_reduces(managed.fabric, plane.ends, messages, streams=layer != "packet")
