"""Ports among which a switch may choose for a destination: those on shortest paths that never go up after going down.

A switch cannot distinguish packets that arrive from above from those that arrive from below. So it
forwards a packet down if a path that only goes down leads to the destination, and up only
otherwise. After a packet has gone down once, every further switch on its path has a path that only
goes down, so the packet never goes up again. So whatever the switches choose, the order of the
switches (rank, then NodeGUID) proves that no channels wait for each other in a cycle (Schroeder et
al., Autonet, 1991). The proof for the tables of updn and ftree is the same.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from softib.iba.constants import LFT_NO_ROUTE
from softib.routing.graph import SwitchGraph
from softib.routing.proof.credit_loops import allowed_dependencies, core, lists_of
from softib.routing.proof.reach import destinations

__all__ = ["AdaptivePorts", "adaptive_ports", "could_deadlock"]

UNREACHED = np.int16(16384)
LIDS_AT_ONCE = 4096


@dataclass(frozen=True)
class AdaptivePorts:
    """The choices of one switch. ``masks`` uint64[k, 4] are ascending sets of at least two ports
    (port p is bit p % 64 of word p // 64). ``mask_of`` int32[switches] is the mask for each
    destination switch; -1 = the switch has no choice."""

    masks: np.ndarray
    mask_of: np.ndarray


def adaptive_ports(graph: SwitchGraph, ranks: np.ndarray, among: np.ndarray | None = None) -> list[AdaptivePorts]:
    """Return the choices of every switch, or only of the switches in ``among`` (rows). ``ranks``
    int[switches]: 0 = top."""
    n = graph.n_switches
    targets = np.unique(graph.end_switch)
    position = _positions(graph, ranks)
    down, whole = _distances(graph, position, targets)
    routes = []
    for s in range(n) if among is None else among.tolist():
        edges = slice(int(graph.first[s]), int(graph.first[s + 1]))
        peer, port = graph.peer[edges], graph.out_port[edges].astype(np.int64)
        below = position[peer] > position[s]
        falls = down[s] < UNREACHED
        good = np.where(
            falls,
            below[:, None] & (down[peer] == down[s] - 1),
            ~below[:, None] & (whole[peer] == whole[s] - 1) & (whole[s] < UNREACHED),
        )
        routes.append(_of_switch(port, good, targets, n))
    return routes


def _of_switch(port: np.ndarray, good: np.ndarray, targets: np.ndarray, n: int) -> AdaptivePorts:
    several = np.flatnonzero(good.sum(axis=0) > 1)
    mask_of = np.full(n, -1, np.int32)
    if not len(several):
        return AdaptivePorts(np.zeros((0, 4), np.uint64), mask_of)
    bits = np.zeros((len(several), 256), np.uint8)
    bits[:, port] = good[:, several].T
    masks64 = np.packbits(bits, axis=1, bitorder="little").view("<u8").astype(np.uint64)
    masks, which = np.unique(masks64, axis=0, return_inverse=True)
    mask_of[targets[several]] = which.reshape(-1)
    return AdaptivePorts(masks, mask_of)


def _positions(graph: SwitchGraph, ranks: np.ndarray) -> np.ndarray:
    """Return int32[switches]: position in the total order, 0 = top."""
    order = np.lexsort((graph.switch_guid, ranks))
    position = np.empty(graph.n_switches, np.int32)
    position[order] = np.arange(graph.n_switches, dtype=np.int32)
    return position


def _distances(graph: SwitchGraph, position: np.ndarray, targets: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the hops to each target, int16[switches, targets]: those of a path that only goes down
    if there is one, otherwise those of a path that goes up first. UNREACHED: there is no path."""
    n = graph.n_switches
    down = np.full((n, len(targets)), UNREACHED, np.int16)
    down[targets, np.arange(len(targets))] = 0
    order = np.argsort(position)
    for s in order[::-1].tolist():
        peer = graph.peer[graph.first[s] : graph.first[s + 1]]
        below = peer[position[peer] > position[s]]
        if len(below):
            np.minimum(down[s], down[below].min(axis=0) + 1, out=down[s])
    down[down > UNREACHED] = UNREACHED
    whole = down.copy()
    for s in order.tolist():
        peer = graph.peer[graph.first[s] : graph.first[s + 1]]
        above = peer[position[peer] < position[s]]
        if len(above):
            by_up = whole[above].min(axis=0) + 1
            whole[s] = np.where(down[s] < UNREACHED, down[s], np.minimum(by_up, UNREACHED))
    return down, whole


def could_deadlock(graph: SwitchGraph, ranks: np.ndarray, lft: np.ndarray) -> bool:
    """Return whether routes of ``lft`` and adaptive choices can wait for each other in a cycle.

    The order of ``ranks`` excludes cycles of paths that go up and then only down. So each cycle
    contains turns of ``lft`` from down to up. Such turns are detours of packets that switches send,
    or of ftree if a leaf lost its cable to a top switch. Each of them is combined with all ports
    that the switch at the turn may choose. Every other turn that the order allows is assumed to be
    used, except back to the switch that the packet came from. So the result may be True for a cycle
    that cannot occur, but is never False for one that can.
    """
    position = _positions(graph, ranks)
    bends = _bends(graph, position, lft)
    if not len(bends):
        return False
    owner = graph.link_switch
    needs = allowed_dependencies(graph, position[graph.peer] > position[owner])
    switch_of = np.zeros(graph.max_lid + 1, np.int64)
    lids, ends = destinations(graph)
    switch_of[lids] = graph.end_switch[ends]
    turning = np.unique(bends[:, 1])
    for b, choice in zip(turning.tolist(), adaptive_ports(graph, ranks, turning), strict=True):
        here = bends[bends[:, 1] == b]
        static = lft[b, here[:, 2]].astype(np.int64)
        group = choice.mask_of[switch_of[here[:, 2]]]
        local = graph.out_port[graph.first[b] : graph.first[b + 1]].astype(np.int64)
        into = np.flatnonzero(graph.peer == b)
        for a, which, port in np.unique(
            np.stack([here[:, 0], group, np.where(group < 0, static, 0)], axis=1), axis=0
        ).tolist():
            taken = local == port
            if which >= 0:
                mask = choice.masks[which]
                taken = (mask[local >> 6] >> (local & 63).astype(np.uint64) & np.uint64(1)).astype(bool)
            bits = np.zeros(needs.shape[1] * 64, np.uint8)
            bits[np.flatnonzero(taken)] = 1
            needs[into[owner[into] == a]] |= np.packbits(bits, bitorder="little").view("<u8").astype(np.uint64)
    return bool(core(*lists_of(graph, needs)).any())


def _bends(graph: SwitchGraph, position: np.ndarray, lft: np.ndarray) -> np.ndarray:
    """Return (a, b, LID) int64[n, 3] for each route of ``lft`` that goes down from switch a to
    switch b, and then up."""
    n = graph.n_switches
    peer_of = np.full((n, 256), -1, np.int32)
    owner = graph.link_switch
    peer_of[owner, graph.out_port] = graph.peer
    rows, choices = np.arange(n)[:, None], [np.zeros((0, 3), np.int64)]
    for first in range(0, min(lft.shape[1], graph.max_lid + 1), LIDS_AT_ONCE):
        egress = lft[:, first : min(first + LIDS_AT_ONCE, graph.max_lid + 1)]
        after = np.where(egress == LFT_NO_ROUTE, -1, peer_of[rows, egress])
        falls = (after >= 0) & (position[np.maximum(after, 0)] > position[:, None])
        rises = (after >= 0) & ~falls
        a, lid = np.nonzero(falls & rises[np.maximum(after, 0), np.arange(egress.shape[1])[None, :]])
        choices.append(np.stack([a, after[a, lid], first + lid], axis=1))
    return np.concatenate(choices)
