"""The stages in which forwarding tables may change, so that no credit loop arises between old and new entries.

The tables of a destination change from the destination outwards
(:mod:`softib.sm.tables.lft_order`), so a packet that reaches a switch with its new entry follows
new entries to its destination. So the two links that a packet holds and requests at one time are
two links of the old tables, two links of the new ones, or, at a switch that has changed, an old
link to it and a new link from it. If these dependencies form no cycle, no intermediate state can
deadlock (Duato's condition on the union of both).

If paths have SLs (lash, dfsssp, nue, torus-2QoS), packets hold and request links on a VL, and a
packet keeps its SL on its whole path. SLs change with path records, which senders may keep for any
time. So packets with earlier SLs may use the old and the new tables (:class:`SlUse`), while packets
with the new SLs use only the new tables.

If changing all destinations at once would close a cycle, they change in stages. Each stage changes
as many destinations as possible without a cycle in the dependency graph. When packets routed with the
old entries have drained, the dependencies of these entries end, so the next stage can change more.
Steps whose dependency graphs are compatible are those of Upstream Progressive Reconfiguration
(Crespo, Sanchez, Alfaro, Flich, Duato, "UPR: deadlock-free dynamic network reconfiguration
by exploiting channel dependency graph compatibility", J. Supercomputing 2021).
UPR works channel by channel; this module works destination by destination, as
Sets of forwarding tables do. (The Double Scheme of Pinkston, Pang and Duato, 2003, needs a second
set of VLs.)

For some destinations, no stage may be possible. They change together at the end, or their packets
are discarded during the change, as in a static reconfiguration, so that only the dependencies of
the new tables remain.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from softib.routing.graph import SwitchGraph
from softib.routing.proof.credit_loops import channels, find_cycle, on_vls, vl_state
from softib.routing.proof.reach import destinations, port_map
from softib.routing.transition.transition_kernels import (
    Marks,
    Net,
    SlMasks,
    Tables,
    all_at_once,
    lists,
    one_stage,
    start_counts,
)

__all__ = ["MOST_STAGES", "ONE_VL", "SlUse", "Stages", "sl_masks", "transition_loop", "transition_stages"]

MOST_STAGES = 16
DROPPED, NO_VL = 15, 255


@dataclass(frozen=True)
class Stages:
    """``stage`` int32[LIDs]: 1 … ``count`` for LIDs whose entries or SLs change, 0 for unchanged
    LIDs, -1 for LIDs for which no stage is possible."""

    stage: np.ndarray
    count: int

    @property
    def left(self) -> int:
        """LIDs without a stage."""
        return int((self.stage < 0).sum())


@dataclass(frozen=True)
class SlUse:
    """SLs of packets from CAs on a switch to an end port, as bit masks uint16[n_switches, ends], or
    [1, 1] if all are equal. ``before``: the SLs in all path records that senders may still use.
    ``fresh``: the SLs of the new tables. ``sl2vl``: the map of
    :attr:`~softib.routing.engine.Routing.sl2vl` (not None)."""

    before: np.ndarray
    fresh: np.ndarray
    sl2vl: np.ndarray

    @property
    def after(self) -> np.ndarray:
        """Dependencies of packets that may follow the new tables."""
        mask: np.ndarray = self.before | self.fresh
        return mask


ONE_VL = SlUse(np.ones((1, 1), np.uint16), np.ones((1, 1), np.uint16), np.zeros(16, np.uint8))


def sl_masks(graph: SwitchGraph, path_sl: np.ndarray) -> np.ndarray:
    """Return the ``path_sl`` of a :class:`~softib.routing.engine.Routing` (255: no path) as masks
    of :class:`SlUse`."""
    masks = np.where(path_sl == NO_VL, 0, np.uint16(1) << np.minimum(path_sl, 15).astype(np.uint16)).astype(np.uint16)
    return np.ascontiguousarray(np.broadcast_to(masks, (graph.n_switches, masks.shape[1])))


class _Change:
    """The input of the kernels: channels (link and VL), sources, masks of SLs."""

    def __init__(self, graph: SwitchGraph, old: np.ndarray, new: np.ndarray, use: SlUse):
        self.graph, self.use = graph, use
        self.old, self.new = np.ascontiguousarray(old), np.ascontiguousarray(new)
        sls = int(np.bitwise_or.reduce(use.after, axis=None))
        table, self.vls = _vls(use.sl2vl, sls)
        self.channels, self.state = channels(wide := on_vls(graph, self.vls)), vl_state(wide)
        lids, ends = destinations(graph)
        # Engines that avoid cycles with SLs only have to consider packets between CAs, as in
        # softib.routing.proof.verify.
        keep = (lids < new.shape[1]) & (~graph.end_is_switch[ends] | (sls.bit_count() < 2))
        self.lids, self.ends = lids[keep], ends[keep]
        self.others = lids[(lids < new.shape[1]) & ~keep]
        cas = ~graph.end_is_switch
        at_port = graph.end_port[cas].astype(np.int32) * (table.shape[1] > 1)
        sources = np.unique(np.stack([graph.end_switch[cas], at_port]), axis=1).astype(np.int32)
        self.net = Net(
            port_map(graph),
            graph.peer,
            graph.out_port,
            graph.peer_port,
            table,
            np.array([self.vls]),
            *np.ascontiguousarray(sources),
        )
        count = len(graph.peer) * self.vls
        room = 4 * graph.n_switches * self.vls * max(1, sls.bit_count()) + 4
        marks = (np.zeros(count, np.uint16), np.zeros(count, np.uint16), np.zeros(2 * count + 1, np.int32))
        self.marks = Marks(*marks, np.empty((3, room), np.int32))

    def masks(self, before: np.ndarray, after: np.ndarray, ends: np.ndarray) -> Any:
        """Return the masks for destinations at ``ends``."""
        shape = np.broadcast_shapes(before.shape, after.shape)
        wide = [np.ascontiguousarray(np.broadcast_to(m, shape), np.uint16) for m in (before, after)]
        return SlMasks(*wide, ends.astype(np.int32))

    def counts(self, table: np.ndarray, sls: np.ndarray) -> np.ndarray | None:
        """Return the number of packets that have each dependency, int32[dependencies], with
        ``table`` and the SLs of ``sls``. Return None if the dependencies have a cycle."""
        for column in (self.state.present, self.state.ahead, self.state.behind):
            column[:] = 0
        count = np.zeros(len(self.state.present), np.int32)
        masks = self.masks(sls, sls, self.ends)
        free = start_counts(self.channels, self.state, count, table, self.lids, self.net, masks, self.marks)
        return count if free else None

    def by_itself(self) -> np.ndarray | None:
        """Return the dependencies of the old tables. Return None if either the old or the new
        tables alone have a cycle."""
        if self.counts(self.new, self.use.fresh) is None:
            return None
        return self.counts(self.old, self.use.before)

    def changing(self) -> np.ndarray:
        """Return for which LIDs entries or SLs change (bool[lids])."""
        entries: np.ndarray = (self.old[:, self.lids] != self.new[:, self.lids]).any(axis=0)
        fresh_sls = (self.use.fresh & ~self.use.before).any(axis=0)
        return entries | (fresh_sls[self.ends] if len(fresh_sls) > 1 else fresh_sls)


def transition_stages(graph: SwitchGraph, old: np.ndarray, new: np.ndarray, use: SlUse = ONE_VL) -> Stages | None:
    """Return the stages of the change from ``old`` to ``new`` (uint8[n_switches, any width], of
    equal width). Return None if either of them alone has a credit loop.

    Entries that lead nowhere drop their packets. If paths have several SLs, only packets between
    CAs are considered, and switches' own LIDs change in the first stage.
    """
    change = _Change(graph, old, new, use)
    count = change.by_itself()
    if count is None:
        return None
    which = change.changing()
    lids = change.lids[which]
    number_of = np.zeros(len(lids), np.int32)
    masks = change.masks(use.before, use.after, change.ends[which])
    number = 0
    while number < MOST_STAGES and not number_of.all():
        if not one_stage(
            change.channels,
            change.state,
            count,
            Tables(change.old, change.new),
            lids,
            change.net,
            masks,
            change.marks,
            number + 1,
            number_of,
        ):
            break
        number += 1
    stage = np.zeros(new.shape[1], np.int32)
    stage[lids] = np.where(number_of == 0, -1, number_of)
    stage[change.others] = (old[:, change.others] != new[:, change.others]).any(axis=0)
    return Stages(stage, max(number, int(stage.max(initial=0))))


def transition_loop(
    graph: SwitchGraph, old: np.ndarray, new: np.ndarray, use: SlUse = ONE_VL
) -> list[tuple[int, int, int]] | None:
    """Return a cycle of links, each a (switch, port, VL), that can occur if all entries change at
    once from ``old`` to ``new`` (uint8[n_switches, any width], of equal width). Return None if no
    cycle can occur, or if either the old or the new tables alone have a cycle."""
    change = _Change(graph, old, new, use)
    if change.by_itself() is None:
        return None
    masks = change.masks(use.before, use.after, change.ends)
    present = change.state.present
    all_at_once(change.channels, present, change.old, change.new, change.lids, change.net, masks, change.marks)
    start = np.zeros(len(change.channels.peer) + 1, np.int64)
    targets = np.empty(lists(change.channels, present, start, np.empty(0, np.int32)), np.int32)
    if not len(targets):
        return None
    lists(change.channels, present, start, targets)
    cycle = find_cycle(start, targets)
    if cycle is None:
        return None
    owner, vls = graph.link_switch, change.vls
    return [(int(owner[c // vls]), int(graph.out_port[c // vls]), int(c % vls)) for c in cycle.tolist()]


def _vls(sl2vl: np.ndarray, sls: int) -> tuple[np.ndarray, int]:
    """Return the map in the form of :data:`~softib.routing.transition.transition_kernels.Net`, and
    the number of VLs: 0 to the highest that the SLs in use have."""
    table = np.asarray(sl2vl, np.uint8)
    if table.ndim < 4:
        table = table.reshape(-1, 1, 1, 16)
    used = table[..., [k for k in range(16) if sls >> k & 1]]
    used = used[used != DROPPED]
    return np.ascontiguousarray(np.where(table == DROPPED, NO_VL, table)).astype(np.uint8), int(used.max(initial=0)) + 1
