"""Spanning trees for multicast that close no credit loop with unicast packets.

A packet that is copied along a tree holds one buffer and waits for the next, as all packets do. So
the turns of a tree are dependencies between channels. Together with the dependencies of all unicast
paths, they must have no cycle (Dally and Seitz 1987).

* If an order of the switches excludes cycles, then every tree that goes up to a root and down from
  it is free of cycles, and different trees may have different roots. The order is that of the ranks of ftree and updn.
  It is used if no bend of the unicast paths closes a cycle (:func:`~softib.routing.adaptive.could_deadlock`), or if no
  cycle arises when the turns of all such trees are added to the unicast paths. A hash selects the root of each group,
  so removing a switch moves no other group's root.
* Otherwise all groups are branches of one spanning tree: the first candidate whose turns close no
  cycle with the unicast paths on the VLs of multicast packets.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from softib.ragged import spread
from softib.routing.adaptive import could_deadlock
from softib.routing.engine import USUAL_DATA_VLS, Routing
from softib.routing.graph import SwitchGraph
from softib.routing.multicast.multicast_kernels import breadth_first, descend, mark_ancestors, mark_bends
from softib.routing.proof.credit_loops import core, sl2vl_table, waiting_channels

__all__ = ["MulticastTrees"]

MOST_ROOTS = 12
"""Number of candidate spanning trees."""


@dataclass(frozen=True)
class _Links:
    """Links between switches that forward multicast packets, as CSR by the switch at their
    beginning; ``row``: row of the graph."""

    first: np.ndarray
    peer: np.ndarray
    row: np.ndarray


class _Waits(NamedTuple):
    """Dependencies between channels (link × VLs + VL): c waits for ``targets[start[c]:start[c + 1]]``."""

    start: np.ndarray
    targets: np.ndarray
    vls: int


class MulticastTrees:
    """Multicast trees on ``graph`` that are compatible with the unicast tables of ``routing``.
    ``able`` bool[switches]: the switches that forward multicast packets. ``sls``: SLs of the
    groups.

    If no tree is free of cycles, the one with the shortest paths is used, and ``note`` reports this
    after a tree was requested.
    """

    def __init__(self, graph: SwitchGraph, routing: Routing, able: np.ndarray, sls: tuple[int, ...] = (0,)):
        self.graph, self.routing, self.able, self.sls = graph, routing, able, sls
        self.note = ""
        self.source_of = graph.link_switch.astype(np.int32)

    def parents(self, members: np.ndarray, choice: int = 0) -> np.ndarray:
        """Return int32[switches]: the link (row of the graph) through which each switch is reached
        from the root of a tree that contains ``members`` (int32[k], switches); -1 at the root and
        at switches outside the tree. ``choice`` (an MLID) selects one of several equally good
        roots."""
        if self._ordered:
            tree = self._under_a_common_root(members, choice)
            if tree is not None:
                return tree
        return self._shared

    @cached_property
    def links(self) -> _Links:
        """Links that trees may use."""
        return self._links(np.ones(len(self.graph.peer), bool))

    def _links(self, of: np.ndarray) -> _Links:
        g = self.graph
        keep = of & self.able[self.source_of] & self.able[g.peer]
        first = np.zeros_like(g.first)
        np.cumsum(np.bincount(self.source_of[keep], minlength=g.n_switches), out=first[1:])
        return _Links(first, g.peer[keep], np.flatnonzero(keep).astype(np.int32))

    # -- if the switches have an order --

    @cached_property
    def _position(self) -> np.ndarray:
        """Return the position of each switch from the top down: by rank, then by GUID. It defines up and down."""
        assert self.routing.ranks is not None
        place = np.empty(self.graph.n_switches, np.int32)
        place[np.lexsort((self.graph.switch_guid, self.routing.ranks))] = np.arange(self.graph.n_switches)
        return place

    @cached_property
    def _ordered(self) -> bool:
        ranks = self.routing.ranks
        if ranks is None:
            return False
        return not could_deadlock(self.graph, ranks, self.routing.lft) or self._trees_close_no_cycle()

    def _trees_close_no_cycle(self) -> bool:
        """Unicast paths may go down and up again, if a leaf lost its cable to a top switch and
        packets to that switch need a detour. Return whether such paths close no cycle, on one VL,
        with the turns of all possible trees below any switch."""
        start, targets, vls = self._unicast
        if vls != 1:
            return False
        links, n = self.links, self.graph.n_switches
        local = np.full(len(self.graph.peer), -1, np.int32)
        local[links.row] = np.arange(len(links.row), dtype=np.int32)
        reverse = local[self.graph.reverse[links.row]]
        choices = np.diff(links.first)[links.peer].astype(np.int64)
        offset = np.cumsum(choices) - choices
        marked = np.zeros(int(choices.sum()), np.uint8)
        parent, queue = np.empty(n, np.int32), np.empty(n, np.int32)
        mark_bends(
            links.first,
            links.peer,
            links.row,
            self._position,
            reverse,
            np.arange(n, dtype=np.int32),
            offset,
            marked,
            parent,
            queue,
        )
        bend = np.flatnonzero(marked)
        into = np.searchsorted(offset, bend, side="right") - 1
        out = links.first[links.peer[into]] + (bend - offset[into])
        source = np.repeat(np.arange(len(start) - 1), np.diff(start)).astype(np.int32)
        both = np.concatenate([source, links.row[into]]), np.concatenate([targets, links.row[out]])
        return not _closes_a_cycle(*both, len(start) - 1)

    def _under_a_common_root(self, members: np.ndarray, choice: int) -> np.ndarray | None:
        """Return a tree below the lowest switches from which links down lead to all members."""
        links, n = self.links, self.graph.n_switches
        count, seen, queue = np.zeros(n, np.int32), np.full(n, -1, np.int32), np.empty(n, np.int32)
        mark_ancestors(links.first, links.peer, self._position, members, count, seen, queue)
        over_all = np.flatnonzero(count == len(members))
        if not len(over_all):
            return None
        assert self.routing.ranks is not None
        lowest = over_all[self.routing.ranks[over_all] == self.routing.ranks[over_all].max()]
        root = int(lowest[np.argmax(_weights(self.graph.switch_guid[lowest], choice))])
        parent = np.empty(n, np.int32)
        descend(links.first, links.peer, links.row, self._position, root, parent, queue)
        return parent

    # -- if the switches have no order --

    @cached_property
    def _shared(self) -> np.ndarray:
        """Return the spanning tree that all groups use."""
        shortest: np.ndarray | None = None
        start, targets, vls = self._unicast
        owner = np.repeat(np.arange(len(start) - 1), np.diff(start)).astype(np.int32)
        for parent in self._spanning_trees():
            shortest = parent if shortest is None else shortest
            a, b = self._dependencies(parent, vls)
            if not _closes_a_cycle(np.concatenate([owner, a]), np.concatenate([targets, b]), len(start) - 1):
                return parent
        self.note = (
            "multicast: each candidate tree closes a cycle of waiting packets with unicast paths; "
            "groups on an SL with a separate VL, or engine updn, ftree or nue, avoid this"
        )
        assert shortest is not None
        return shortest

    def _spanning_trees(self) -> Iterator[np.ndarray]:
        if (tree := self.routing.tree) is not None:
            yield self._spanning(
                int(np.argmax(np.bincount(self.source_of[tree], minlength=self.graph.n_switches))), tree
            )
        yield from (self._spanning(root) for root in self._roots())

    def _roots(self) -> list[int]:
        """Return candidate roots, the most central first. Of several switches spread over the
        graph, these have the smallest distance to the farthest switch."""
        able = np.flatnonzero(self.able)
        some = able[np.linspace(0, len(able) - 1, min(len(able), 4 * MOST_ROOTS)).astype(int)] if len(able) else able
        by_depth = [(int(self._search(s, self.links)[0].max()), s) for s in dict.fromkeys(some.tolist())]
        return [s for _, s in sorted(by_depth)][:MOST_ROOTS] or [0]

    def _search(self, root: int, links: _Links) -> tuple[np.ndarray, np.ndarray]:
        n = self.graph.n_switches
        hops, parent, queue = (np.empty(n, np.int32) for _ in range(3))
        breadth_first(links.first, links.peer, root, hops, parent, queue)
        return hops, parent

    def _spanning(self, root: int, of: np.ndarray | None = None) -> np.ndarray:
        """Return the breadth-first tree from ``root`` over the links ``of`` (bool[links])."""
        links = self.links if of is None else self._links(of)
        _, parent = self._search(root, links)
        rows = links.row
        out: np.ndarray = np.where(parent >= 0, rows[np.maximum(parent, 0)], -1) if len(rows) else parent
        return out.astype(np.int32)

    @cached_property
    def _unicast(self) -> _Waits:
        """Return the dependencies of all unicast paths."""
        r = self.routing
        vls = max(r.vls, USUAL_DATA_VLS) if r.path_sl is not None or r.sl2vl is not None else 1
        start, targets = waiting_channels(self.graph, r.lft, r.path_sl, r.sl2vl, vls)
        return _Waits(start, targets, vls)

    def _dependencies(self, parent: np.ndarray, vls: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the channels (link × VLs + VL) that copies in the tree hold, and the channels that
        they then request (int32[k] both)."""
        g = self.graph
        down = parent[parent >= 0].astype(np.int64)
        tree = np.concatenate([down, g.reverse[down].astype(np.int64)])
        into = tree[np.argsort(g.peer[tree], kind="stable")]
        at = g.peer[into]
        begin = np.searchsorted(at, np.arange(g.n_switches + 1))
        degree = np.diff(begin)
        row, steps = spread(degree[at])
        first = into[row]
        # The links that leave a switch are the reverse directions of those that lead to it.
        second = g.reverse[into[begin[at[row]] + steps]].astype(np.int64)
        bends = second != g.reverse[first]
        first, second = first[bends], second[bends]
        if vls == 1:
            return first.astype(np.int32), second.astype(np.int32)
        table = sl2vl_table(g, self.routing.sl2vl, vls)
        before: list[np.ndarray] = []
        after: list[np.ndarray] = []
        for sl in self.sls:
            out_vl = self._vl(table, second, g.peer_port[first], sl)
            for vl in range(vls):  # for any VL on which the packet arrived; its VL depends on the previous hop
                held = np.isin(first, second[out_vl == vl]) | self._enters_on(table, first, sl, vl)
                keep = held & (out_vl < vls)
                before.append(first[keep] * vls + vl)
                after.append(second[keep] * vls + out_vl[keep])
        return np.concatenate(before).astype(np.int32), np.concatenate(after).astype(np.int32)

    def _vl(self, table: np.ndarray, link: np.ndarray, in_port: np.ndarray, sl: int) -> np.ndarray:
        """Return the VL of packets of ``sl`` that entered through ``in_port`` and leave through ``link``."""
        s, out = self.source_of[link], self.graph.out_port[link]
        size = table.shape
        vl: np.ndarray = table[s % size[0], in_port % size[1], out % size[2], sl].astype(np.int64)
        return vl

    def _enters_on(self, table: np.ndarray, link: np.ndarray, sl: int, vl: int) -> np.ndarray:
        """Return bool[k]: whether a host's packet of ``sl`` may leave its switch over ``link`` on ``vl``."""
        s, out = self.source_of[link], self.graph.out_port[link]
        any_in = (table[:, :, :, sl] == vl).any(axis=1)
        enters: np.ndarray = any_in[s % len(any_in), out % any_in.shape[1]]
        return enters


def _closes_a_cycle(source: np.ndarray, target: np.ndarray, channels: int) -> bool:
    order = np.argsort(source, kind="stable")
    start = np.zeros(channels + 1, np.int64)
    np.cumsum(np.bincount(source, minlength=channels), out=start[1:])
    return bool(core(start, target[order]).any())


def _weights(guid: np.ndarray, choice: int) -> np.ndarray:
    """Return uint64[n]: the weight of each switch for ``choice`` (highest random weight, Thaler and
    Ravishankar 1998). When a switch is removed or returns, only groups for which it has the highest
    weight change their root. The bits are mixed as in splitmix64."""
    with np.errstate(over="ignore"):
        x = guid + np.uint64(choice + 1) * np.uint64(0x9E3779B97F4A7C15)
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        weights: np.ndarray = x ^ (x >> np.uint64(31))
    return weights
