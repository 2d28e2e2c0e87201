"""Multicast groups of a run as the packet layer's tables, and when each member got its messages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from softib.errors import InputError
from softib.sim.messages import Messages
from softib.sim.outcome import NEVER
from softib.sim.packet import constants

if TYPE_CHECKING:
    from softib.fabric.model import Fabric
    from softib.sim.packet.options import PacketOptions

__all__ = ["deliveries_of", "group_tables", "mark_messages", "reached_ps"]


def group_tables(
    fabric: Fabric, ends: np.ndarray, m: Messages, options: PacketOptions, opt: Any
) -> dict[str, np.ndarray]:
    """``mft``, ``group_first`` and ``group_port`` of :data:`~softib.sim.packet.tables.Net`; sets
    ``opt[MULTICAST]``.

    Raises :class:`InputError` for a group without an MLID, or with FIFO inputs, which have no place
    for copies.
    """
    used = [m.groups[g - 1] for g in np.unique(m.group[m.group > 0]).tolist()]
    if not used:
        return {
            "mft": np.zeros((1, 1, 1), np.uint16),
            "group_first": np.zeros(1, np.int64),
            "group_port": np.zeros(1, np.int64),
        }
    if options.fifo:
        raise InputError("inputs with one FIFO a VL have no multicast; leave fifo out")
    if any(g.mlid < constants.MULTICAST_LID for g in used):
        raise InputError("a multicast group has no MLID: a subnet manager makes groups")
    opt["multicast"] = 1
    ports = [np.unique(ends[g.members]) for g in m.groups]
    first = np.concatenate([[0], np.cumsum([len(p) for p in ports])])
    return {
        "mft": fabric.mft,
        "group_first": first.astype(np.int64),
        "group_port": np.concatenate(ports).astype(np.int64),
    }


def mark_messages(message: np.ndarray, m: Messages) -> int:
    """Fill ``M_LID``, ``M_GROUP`` and ``M_DELIVERY`` of messages for groups; returns rows of
    ``State.delivery``.

    Raises :class:`InputError` for a message that waits for a datagram which its source does not
    get.
    """
    rows = np.flatnonzero(m.group > 0)
    if not len(rows):
        return 1
    owner = np.repeat(np.arange(len(m)), np.diff(m.first))
    for i, needed in zip(owner.tolist(), m.needs.tolist(), strict=True):
        g = int(m.group[needed])
        if g and m.src[i] != m.src[needed] and m.src[i] not in m.groups[g - 1].members:
            raise InputError(f"message {i} waits for a datagram to a multicast group that its source is no member of")
    group = m.group[rows] - 1
    members = np.array([len(np.unique(g.members)) for g in m.groups], np.int64)[group]
    message["group"][rows] = group + 1
    message["lid"][rows] = np.array([g.mlid for g in m.groups], np.int64)[group]
    message["delivery"][rows] = np.cumsum(members) - members
    return int(members.sum())


def deliveries_of(net: Any, s: Any, i: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Of message ``i`` for a group: its members' ports, when each has it (ps, -1: never), and how
    many times it came."""
    group = int(s.message["group"][i]) - 1
    first, end = int(net.group_first[group]), int(net.group_first[group + 1])
    rows = s.delivery[int(s.message["delivery"][i]) :][: end - first]
    return net.group_port[first:end], rows["arrived"], rows["times"]


def reached_ps(net: Any, s: Any, n: int) -> np.ndarray:
    """When each of ``n`` messages arrived: one for a group when the last member but its sender has
    it."""
    arrived = s.message["arrived"][:n].copy()
    for i in np.flatnonzero(s.message["group"][:n]).tolist():
        ports, when, _ = deliveries_of(net, s, i)
        when = when[ports != s.qp["src"][s.message["qp"][i]]]
        arrived[i] = when.max() if len(when) and (when >= 0).all() else NEVER
    return arrived
