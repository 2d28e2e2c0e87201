"""Ports among which a switch may choose for a destination: all that lie on shortest ways without an up after a down.

A switch does not know whether a packet came from above or from below. So it goes down where a way of downs alone leads to the
destination, and up only where none does: once a packet went down, every switch on its way has a way of downs, and it never goes up
again. On any mixture of such choices the order of the switches (rank, then NodeGUID) proves that no cycle of waiting channels
exists (Schroeder et al., Autonet, 1991), as it does for the tables of updn and ftree.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from softib.iba.constants import LFT_NO_ROUTE
from softib.routing.graph import SwitchGraph

__all__ = ["AdaptivePorts", "adaptive_ports", "goes_up_after_down"]

FAR = np.int16(16384)
LIDS_AT_ONCE = 4096


@dataclass(frozen=True)
class AdaptivePorts:
    """Of one switch: ``masks`` uint64[k, 4] (bit p % 64 of word p // 64 is port p), ascending, of two ports and more, and ``mask_of``
    int32[switches]: which of them leads to a destination switch, -1 where there is no choice."""

    masks: np.ndarray
    mask_of: np.ndarray


def adaptive_ports(graph: SwitchGraph, ranks: np.ndarray) -> list[AdaptivePorts]:
    """The choices of every switch. ``ranks`` int[switches]: 0 = top."""
    n = graph.n_switches
    targets = np.unique(graph.end_switch)
    place = _places(graph, ranks)
    down, whole = _distances(graph, place, targets)
    found = []
    for s in range(n):
        edges = slice(int(graph.first[s]), int(graph.first[s + 1]))
        peer, port = graph.peer[edges], graph.out_port[edges].astype(np.int64)
        below = place[peer] > place[s]
        falls = down[s] < FAR
        good = np.where(
            falls,
            below[:, None] & (down[peer] == down[s] - 1),
            ~below[:, None] & (whole[peer] == whole[s] - 1) & (whole[s] < FAR),
        )
        found.append(_of_switch(port, good, targets, n))
    return found


def _of_switch(port: np.ndarray, good: np.ndarray, targets: np.ndarray, n: int) -> AdaptivePorts:
    several = np.flatnonzero(good.sum(axis=0) > 1)
    mask_of = np.full(n, -1, np.int32)
    if not len(several):
        return AdaptivePorts(np.zeros((0, 4), np.uint64), mask_of)
    bits = np.zeros((len(several), 256), np.uint8)
    bits[:, port] = good[:, several].T
    words = np.packbits(bits, axis=1, bitorder="little").view("<u8").astype(np.uint64)
    masks, which = np.unique(words, axis=0, return_inverse=True)
    mask_of[targets[several]] = which.reshape(-1)
    return AdaptivePorts(masks, mask_of)


def _places(graph: SwitchGraph, ranks: np.ndarray) -> np.ndarray:
    """int32[switches]: place in the total order, 0 = top."""
    order = np.lexsort((graph.switch_guid, ranks))
    place = np.empty(graph.n_switches, np.int32)
    place[order] = np.arange(graph.n_switches, dtype=np.int32)
    return place


def _distances(graph: SwitchGraph, place: np.ndarray, targets: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """int16[switches, targets]: hops by downs alone, and by downs alone where they lead there, else by ups first. FAR: no way."""
    n = graph.n_switches
    down = np.full((n, len(targets)), FAR, np.int16)
    down[targets, np.arange(len(targets))] = 0
    order = np.argsort(place)
    for s in order[::-1].tolist():
        peer = graph.peer[graph.first[s] : graph.first[s + 1]]
        below = peer[place[peer] > place[s]]
        if len(below):
            np.minimum(down[s], down[below].min(axis=0) + 1, out=down[s])
    down[down > FAR] = FAR
    whole = down.copy()
    for s in order.tolist():
        peer = graph.peer[graph.first[s] : graph.first[s + 1]]
        above = peer[place[peer] < place[s]]
        if len(above):
            by_up = whole[above].min(axis=0) + 1
            whole[s] = np.where(down[s] < FAR, down[s], np.minimum(by_up, FAR))
    return down, whole


def goes_up_after_down(graph: SwitchGraph, ranks: np.ndarray, lft: np.ndarray) -> bool:
    """Does any route of ``lft`` go up after a down in the order of ``ranks``? (Then it and adaptive choices could wait in a cycle.)"""
    n, place = graph.n_switches, _places(graph, ranks)
    peer_of = np.full((n, 256), -1, np.int32)
    owner = np.repeat(np.arange(n), np.diff(graph.first))
    peer_of[owner, graph.out_port] = graph.peer
    rows = np.arange(n)[:, None]
    for first in range(0, min(lft.shape[1], graph.max_lid + 1), LIDS_AT_ONCE):
        egress = lft[:, first : min(first + LIDS_AT_ONCE, graph.max_lid + 1)]
        after = np.where(egress == LFT_NO_ROUTE, -1, peer_of[rows, egress])
        here = place[:, None]
        falls = (after >= 0) & (place[np.maximum(after, 0)] > here)
        rises = (after >= 0) & ~falls
        column = np.arange(egress.shape[1])[None, :]
        if (falls & rises[np.maximum(after, 0), column]).any():
            return True
    return False
