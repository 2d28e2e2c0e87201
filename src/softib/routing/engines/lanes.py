"""Assign SLs, and with them VLs, such that paths close no credit loop, whichever end sends the
request.

A connection has one SL: the REQ of the connection manager has the SL of the path record, and the
passive side uses the same SL in its answers. A switch also answers with the SL of the request (IBA
12.7.11, 13.5.4). So all paths between two switches, in both directions, are assigned to one VL, as
in OpenSM's lash: the first VL on which they close no cycle (T. Skeie, O. Lysne, I. Theiss, "Layered
Shortest Path (LASH) Routing in Irregular System Area Networks", IPDPS 2002). If this needs more VLs
than there are, each direction gets a separate VL, as in OpenSM's dfsssp and nue. Programs that
request the SL of each direction then cannot deadlock; connections made by the connection manager
can.

Pairs of switches with CAs are assigned first. A switch's own LID uses the paths of its first CA.
Pairs that contain a switch without CAs are assigned last. They use the VLs of the others if this
closes no cycle there. Otherwise they use one more VL, with new entries that no packet between CAs
uses; if there is no further VL, any VL on which they close no cycle. If no VL is possible for both
directions of such a pair, each of its paths is assigned separately.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from softib.plural import counted
from softib.ragged import spread
from softib.routing.detours import filled_on_extra_vl
from softib.routing.engine import Routing
from softib.routing.engines.layer_kernels import Paths, SinglePaths, first_fit, place_pairs
from softib.routing.engines.nue_kernels import add_tree
from softib.routing.graph import SwitchGraph
from softib.routing.proof.credit_loops import NO_PATH, channels, needs_of, vl_state
from softib.routing.proof.reach import destinations, port_map
from softib.routing.tables import cas_per_switch, min_hops
from softib.routing.transition.order_kernels import put_all

__all__ = [
    "NO_LAYER",
    "Lanes",
    "by_direction",
    "by_path",
    "lanes_of",
    "lanes_with_switches",
    "layers_of_cas",
    "routing_on",
]

NO_LAYER = 255


@dataclass
class Lanes:
    """Paths assigned to VLs. ``path_sl`` is uint8[switches, ends], ``lft`` the tables. ``used`` is
    the number of VLs, and ``between`` the number of VLs for paths between CAs. ``symmetric``: an
    answer can use the SL of its request. ``left`` counts the pairs without a VL that contain a
    switch without CAs (if not ``symmetric``: all pairs without a VL). ``apart`` counts the pairs
    with a different SL for each direction."""

    lft: np.ndarray
    path_sl: np.ndarray
    used: int
    between: int
    symmetric: bool = True
    left: int = 0
    apart: int = 0


class Layers:
    """VLs and the pairs assigned to them so far."""

    def __init__(self, graph: SwitchGraph, lft: np.ndarray, canon: np.ndarray | None, tree: np.ndarray | None) -> None:
        self.graph, self.lft, self.canon, self.tree = graph, lft, canon, tree
        self.channels = channels(graph, canon)
        self.states: list[Any] = []
        self.layer = np.full((graph.n_switches, graph.n_switches), NO_LAYER, np.uint8)
        lids, first = _lids_by_switch(graph)
        if canon is not None:  # all LIDs on a switch use the same channels
            some = first[:-1] < first[1:]
            lids, first = lids[first[:-1][some]], np.append(0, np.cumsum(some)).astype(np.int32)
        self._paths = Paths(np.ascontiguousarray(lft, np.uint8), port_map(graph), first, lids)
        most = 2 * int(np.diff(first).max(initial=1)) * graph.n_switches
        self._waits = np.empty((2, most), np.int32)

    @property
    def used(self) -> int:
        """VLs in use, at least one."""
        return max(len(self.states), 1)

    def state(self, number: int) -> Any:
        """Return VL ``number``."""
        while number >= len(self.states):
            self.states.append(vl_state(self.graph))
            if self.tree is not None:
                add_tree(self.channels, self.states[-1], self.tree)
        return self.states[number]

    def place(self, pairs: np.ndarray, first: int, most: int) -> int:
        """Assign ``pairs`` to the VLs ``first`` to ``most`` - 1. Return the number of pairs for
        which no VL was possible."""
        left = len(pairs)
        for number in range(first, most):
            if not left:
                break
            left = place_pairs(self.channels, self.state(number), self._paths, pairs, number, self.layer, self._waits)
        return left

    def place_apart(self, pairs: np.ndarray, path_sl: np.ndarray, most: int) -> tuple[int, int]:
        """For each of the ``pairs`` that has no VL, assign each of its paths to the first of
        ``most`` VLs on which it closes no cycle, and write it to ``path_sl`` (uint8[switches,
        ends]). Return the number of such pairs, and how many of them remain without a VL.

        A path from a switch on a path between CAs to the same CA is always possible on the VL of
        that path.
        """
        graph, n = self.graph, self.graph.n_switches
        rest = pairs[self.layer[pairs[:, 0], pairs[:, 1]] == NO_LAYER]
        is_open = np.zeros((n, n), np.bool_)
        is_open[rest[:, 0], rest[:, 1]] = is_open[rest[:, 1], rest[:, 0]] = True
        port0, first = _port0_and_first(graph)
        source, ends = np.unique(rest), np.setdiff1d(np.arange(len(graph.end_lid)), port0)
        ends = ends[np.asarray(is_open.any(axis=0))[graph.end_switch[ends]]]
        target = graph.end_switch[ends]
        paths = SinglePaths(self._paths.lft, self._paths.at, source, graph.end_lid[ends].astype(np.int32), target)
        waiting = NO_LAYER - 1
        layer = np.where(is_open[np.ix_(source, target)], waiting, NO_LAYER).astype(np.uint8)
        path, fresh = np.empty(n, np.int32), np.empty(n, np.int64)
        for number in range(most):
            if not first_fit(self.channels, self.state(number), paths, number, waiting, layer, path, fresh):
                break
        at = np.ix_(source, ends)
        path_sl[at] = np.where(layer < waiting, layer, path_sl[at])
        path_sl[:, port0] = path_sl[:, first]
        left = np.zeros((n, n), np.bool_)
        row, column = np.nonzero(layer == waiting)
        left[source[row], target[column]] = left[target[column], source[row]] = True
        return len(rest), int(left[rest[:, 0], rest[:, 1]].sum())


def lanes_of(graph: SwitchGraph, lft: np.ndarray, most: int, tree: np.ndarray | None = None) -> Lanes | None:
    """Return the VLs of tables ``lft``, with both directions between two switches on one VL; None
    if paths between CAs need more than ``most``.

    ``canon`` int32[links] is as in :func:`~softib.routing.proof.credit_loops.channels`; all LIDs
    behind a switch then use the same channels. ``tree`` bool[links]: paths along it must fit on any
    VL.
    """
    layers = layers_of_cas(graph, lft, most, tree=tree)
    return None if layers is None else lanes_with_switches(layers, most)


def layers_of_cas(
    graph: SwitchGraph, lft: np.ndarray, most: int, canon: np.ndarray | None = None, tree: np.ndarray | None = None
) -> Layers | None:
    """Return the VLs of :func:`lanes_of` for paths between CAs only."""
    lft = share_port0_paths(graph, lft)
    pairs, _ = _pairs(graph)
    layers = Layers(graph, lft, canon, tree)
    left = layers.place(pairs, 0, most)
    if left or layers.used > 2:  # another order, longer paths first, sometimes needs fewer VLs, sometimes more
        reordered = Layers(graph, lft, canon, tree)
        if not reordered.place(_farthest_first(graph, pairs), 0, most if left else layers.used - 1):
            return reordered
    return None if left else layers


def lanes_with_switches(layers: Layers, most: int) -> Lanes:
    """Complete :func:`lanes_of`: add the other paths to those between CAs."""
    graph, lft, between = layers.graph, layers.lft, layers.used
    ca_pairs, others = _pairs(graph)
    left = layers.place(others, 0, between)
    if left:  # all pairs together may be possible although they are not one after the other
        mixed = Layers(graph, lft, layers.canon, layers.tree)
        if not mixed.place(_in_rows(ca_pairs, others), 0, between):
            layers, left = mixed, 0
    apart = 0
    if left:
        lft, left = _with_switches(layers, lft, others, between, most)
    path_sl = _by_end(graph, layers.layer)
    if left:
        apart, left = layers.place_apart(others, path_sl, most)
    return Lanes(lft, path_sl, int(path_sl.max(initial=0)) + 1, between, left=left, apart=apart - left)


def by_direction(
    graph: SwitchGraph, lft: np.ndarray, path_sl: np.ndarray, most: int, tree: np.ndarray | None = None
) -> Lanes:
    """Return the VLs of tables ``lft``, with each direction assigned separately. Paths between CAs
    keep the SLs of ``path_sl`` (uint8[switches or 1, ends]), so only the paths of switches are
    assigned here."""
    lft = share_port0_paths(graph, lft)
    cas = np.flatnonzero(~graph.end_is_switch)
    full = np.array(np.broadcast_to(path_sl, (graph.n_switches, len(graph.end_lid))), np.uint8)
    full[:, graph.end_is_switch] = 0
    between = int(full[:, cas].max(initial=0)) + 1
    layers = Layers(graph, lft, None, tree)
    layers.states = [_held(layers, lft, full, vl) for vl in range(between)]
    ca_pairs, others = _pairs(graph)
    most = min(max(between, 2), most)
    left = layers.place(ca_pairs, 0, most)
    lft, rest = _with_switches(layers, lft, others, between, most)
    both = _by_end(graph, layers.layer)
    has_cas = cas_per_switch(graph) > 0
    port0, first = _port0_and_first(graph)
    full[:, port0] = np.where(layers.layer[:, graph.end_switch[port0]] == NO_LAYER, full[:, first], both[:, port0])
    one_side = ~has_cas[:, None] | ~has_cas[graph.end_switch]
    full = np.where(one_side, both, full)
    return Lanes(lft, full, int(full.max(initial=0)) + 1, between, False, left + rest)


def by_path(graph: SwitchGraph, lft: np.ndarray, most: int) -> np.ndarray | None:
    """Return SLs uint8[switches, ends] of the paths to CAs, each on the first VL on which it closes
    no cycle; None if they need more than ``most``."""
    cas = np.flatnonzero(~graph.end_is_switch)
    source = np.flatnonzero(cas_per_switch(graph)).astype(np.int32)
    c = channels(graph)
    paths = SinglePaths(lft, port_map(graph), source, graph.end_lid[cas].astype(np.int32), graph.end_switch[cas])
    waiting = NO_LAYER - 1
    layer = np.full((len(source), len(cas)), waiting, np.uint8)
    path, fresh = np.empty(graph.n_switches, np.int32), np.empty(graph.n_switches, np.int64)
    used, left = 0, 1
    while left and used < most:
        left = first_fit(c, vl_state(graph), paths, used, waiting, layer, path, fresh)
        used += 1
    if left:
        return None
    path_sl = np.zeros((graph.n_switches, len(graph.end_lid)), np.uint8)
    path_sl[np.ix_(source, cas)] = np.where(layer == NO_LAYER, 0, layer)
    return path_sl


def routing_on(lanes: Lanes, engine: str, notes: list[str]) -> Routing:
    """Return the engine's result for ``lanes``, with a note on the VLs and on unassigned paths."""
    notes = [*notes, f"paths use {lanes.used} VLs" if lanes.used > 1 else "1 VL"]
    if not lanes.symmetric:
        notes.append(
            "answers with the SL of the request can make a credit loop: to put both directions of every path on one "
            "SL, more VLs are needed than the links have"
        )
    elif lanes.apart:
        notes.append(
            f"answers with the SL of the request between {counted(lanes.apart, 'pair')} of switches can make a credit "
            "loop: each direction has a separate SL there"
        )
    if lanes.symmetric and lanes.left:
        notes.append(f"requests and answers between {counted(lanes.left, 'pair')} of switches can make a credit loop")
    path_sl = lanes.path_sl if lanes.used > 1 else None
    return Routing(engine, lanes.lft, path_sl, vls=lanes.used, notes=notes, one_sl=lanes.symmetric)


def share_port0_paths(graph: SwitchGraph, lft: np.ndarray) -> np.ndarray:
    """Return ``lft`` in which packets to the own LID of a switch with CAs use the paths to its
    first CA."""
    port0, first = _port0_and_first(graph)
    shared = lft.copy()
    copies = 1 << graph.end_lmc[port0].astype(np.int64)
    row, nth = spread(copies)
    lids = graph.end_lid[port0][row].astype(np.int64) + nth
    shared[:, lids] = lft[:, graph.end_lid[first][row].astype(np.int64)]
    shared[graph.end_switch[port0][row], lids] = 0
    return shared


def _port0_and_first(graph: SwitchGraph) -> tuple[np.ndarray, np.ndarray]:
    """Return ends (rows) of switches with CAs, and the first CA on each."""
    cas = np.flatnonzero(~graph.end_is_switch)
    switch, at = np.unique(graph.end_switch[cas], return_index=True)
    first = np.full(graph.n_switches, -1, np.int64)
    first[switch] = cas[at]
    port0 = np.flatnonzero(graph.end_is_switch & (first[graph.end_switch] >= 0))
    return port0, first[graph.end_switch[port0]]


def _pairs(graph: SwitchGraph) -> tuple[np.ndarray, np.ndarray]:
    """Return the pairs of switches with end ports, int32[m, 2]: those with CAs on both switches, and the others."""
    has_cas = cas_per_switch(graph) > 0
    ends = np.zeros(graph.n_switches, np.bool_)
    ends[graph.end_switch] = True
    a, b = np.triu_indices(graph.n_switches, 1)
    pairs = np.stack([a, b], axis=1).astype(np.int32)[ends[a] & ends[b]]
    both = has_cas[pairs].all(axis=1)
    return pairs[both], pairs[~both]


def _in_rows(*pairs: np.ndarray) -> np.ndarray:
    every = np.concatenate(pairs)
    return every[np.lexsort((every[:, 1], every[:, 0]))]


def _farthest_first(graph: SwitchGraph, pairs: np.ndarray) -> np.ndarray:
    hops = min_hops(graph).hops[pairs[:, 0], pairs[:, 1]].astype(np.int64)
    return pairs[np.argsort(-hops, kind="stable")]


def _lids_by_switch(graph: SwitchGraph) -> tuple[np.ndarray, np.ndarray]:
    """Return the LIDs on each switch as ``lid[first[s]:first[s + 1]]``: those of its CAs, or if it
    has none, its own."""
    has_cas = cas_per_switch(graph) > 0
    ends = np.flatnonzero(~graph.end_is_switch | ~has_cas[graph.end_switch])
    ends = ends[np.argsort(graph.end_switch[ends], kind="stable")]
    row, nth = spread(1 << graph.end_lmc[ends].astype(np.int64))
    lids = (graph.end_lid[ends][row].astype(np.int64) + nth).astype(np.int32)
    first = np.searchsorted(graph.end_switch[ends][row], np.arange(graph.n_switches + 1)).astype(np.int32)
    return lids, first


def _held(layers: Layers, lft: np.ndarray, path_sl: np.ndarray, vl: int) -> Any:
    """Return VL ``vl`` with the paths between CAs that ``path_sl`` assigns to it."""
    graph = layers.graph
    lids, ends = destinations(graph)
    to_cas = ~graph.end_is_switch[ends]
    here = np.where(path_sl == vl, 0, NO_PATH).astype(np.uint8)
    lost = np.zeros((2, graph.n_switches + 2), np.int64)
    needs = needs_of(
        graph=graph,
        at=port_map(graph),
        lft=lft,
        lids=lids[to_cas],
        ends=ends[to_cas],
        path_sl=here,
        sl2vl=None,
        data_vls=1,
        dropped=lost,
    ).needs
    state = vl_state(graph)
    if put_all(layers.channels, state, needs) < len(needs):
        raise ValueError(f"the paths on VL {vl} have a cycle")
    if layers.tree is not None:
        add_tree(layers.channels, state, layers.tree)
    return state


def _with_switches(
    layers: Layers, lft: np.ndarray, pairs: np.ndarray, between: int, most: int
) -> tuple[np.ndarray, int]:
    """Assign the ``pairs`` that contain a switch without CAs. Return the tables, which may have new
    entries for these pairs, and the number of pairs without a VL."""
    left = layers.place(pairs, 0, between)
    if not left or between == most:
        return lft, left
    filled = filled_on_extra_vl(layers.graph, lft)
    if filled is not None:
        layers.layer[pairs[:, 0], pairs[:, 1]] = layers.layer[pairs[:, 1], pairs[:, 0]] = between
        return filled, 0
    return lft, layers.place(pairs, between, most)


def _by_end(graph: SwitchGraph, layer: np.ndarray) -> np.ndarray:
    """Return SLs uint8[switches, ends] from VLs uint8[switches, switches]."""
    by_end: np.ndarray = np.where(layer == NO_LAYER, 0, layer)[:, graph.end_switch]
    return by_end
