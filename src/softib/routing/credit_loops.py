"""Credit loops: can buffers wait for each other in a circle?

A **channel** is a directed link between switches on one VL. A packet that holds a buffer at the end of one channel
waits for the next channel of its path. Tables are free of deadlock if these dependencies have no cycle (Dally & Seitz
1987); links from and to CAs cannot be part of one. Only paths that some CA's packets take count, whether they arrive
or not: a forwarding loop is a credit loop too.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from softib.routing.cycle_kernels import any_cycle, bits_to_lists, core, shorten
from softib.routing.graph import SwitchGraph
from softib.routing.reach import destinations, links_of, port_map, routes_of
from softib.routing.verify_kernels import VlMaps, depend, depend_vl

__all__ = [
    "NO_PATH",
    "Channel",
    "can_loop",
    "channels_of",
    "credit_dependencies",
    "find_cycle",
    "has_credit_loop",
    "lists_of",
    "sl2vl_table",
    "waiting_channels",
    "waits_of",
]

Channel = tuple[int, int, int]
"""(switch row of the graph, egress portnum, VL)"""

NO_PATH = 255
"""SL of a pair between which nobody sends."""
SEARCH_BUDGET = 30_000_000


class Waits(NamedTuple):
    """Which channel waits for which: channel ``c`` (link × ``vls`` + VL) for ``targets[start[c]:start[c + 1]]``; ``used`` bool[channels]."""

    start: np.ndarray
    targets: np.ndarray
    used: np.ndarray
    vls: int


def has_credit_loop(graph: SwitchGraph, lft: np.ndarray) -> bool:
    """Whether ``lft`` uint8[n_switches, any width] can deadlock with all traffic on one VL: the quick half of a proof."""
    found = _on_one_vl(graph, port_map(graph), lft, *destinations(graph))
    return core(found.start, found.targets, np.zeros(len(found.start) - 1, np.bool_)) > 0


def can_loop(graph: SwitchGraph, lft: np.ndarray, down: np.ndarray, ends: np.ndarray) -> bool:
    """:func:`has_credit_loop` of tables whose paths, but for those to ``ends`` (rows), never take a link up after one ``down`` (bool[links]).

    Looks at the paths to ``ends`` alone, beside all turns that the rule allows. Only where these close a cycle it looks at all paths.
    """
    lids, all_ends = destinations(graph)
    some = np.isin(all_ends, ends)
    needs, used = _allowed_dependencies(graph, down), np.zeros(len(graph.peer), np.bool_)
    lft = np.ascontiguousarray(lft, np.uint8)
    depend(links_of(graph), routes_of(graph, lft, lids[some], all_ends[some]), used, needs)
    start, targets = _lists(graph, needs, 1)
    return core(start, targets, np.zeros(len(start) - 1, np.bool_)) > 0 and has_credit_loop(graph, lft)


def _allowed_dependencies(graph: SwitchGraph, down: np.ndarray) -> np.ndarray:
    """Dependencies (as of :func:`credit_dependencies`) of all paths that never go up after down."""
    owner = graph.link_switch
    local = np.arange(len(graph.peer)) - graph.first[owner]
    word, bit = local >> 6, np.uint64(1) << (local & 63).astype(np.uint64)
    any_link, down_link = (np.zeros((graph.n_switches, _bitset_size(graph, 1)), np.uint64) for _ in range(2))
    np.bitwise_or.at(any_link, (owner, word), bit)
    np.bitwise_or.at(down_link, (owner[down], word[down]), bit[down])
    return np.where(down[:, None], down_link[graph.peer], any_link[graph.peer])


def credit_dependencies(graph: SwitchGraph, lft: np.ndarray) -> np.ndarray:
    """Which link waits for which with all traffic on one VL: uint64[links, words], bit b of a row is the b-th link of the switch it leads to."""
    return _depend(graph, routes_of(graph, np.ascontiguousarray(lft, np.uint8), *destinations(graph)))[1]


def _depend(graph: SwitchGraph, routes: Any) -> tuple[np.ndarray, np.ndarray]:
    """``(used, needs)`` of :func:`~softib.routing.verify_kernels.depend` for ``routes``."""
    used = np.zeros(len(graph.peer), np.bool_)
    needs = np.zeros((len(graph.peer), _bitset_size(graph, 1)), np.uint64)
    depend(links_of(graph), routes, used, needs)
    return used, needs


def waiting_channels(
    graph: SwitchGraph, lft: np.ndarray, path_sl: np.ndarray | None, sl2vl: np.ndarray | None, data_vls: int
) -> tuple[np.ndarray, np.ndarray]:
    """Which channel (link × ``data_vls`` + VL) waits for which, of all paths, as lists ``(start, targets)``; arguments as of :func:`verify`."""
    lft = np.ascontiguousarray(lft, np.uint8)
    dropped = np.zeros((2, graph.n_switches + 2), np.int64)
    found = waits_of(graph, port_map(graph), lft, *destinations(graph), path_sl, sl2vl, data_vls, dropped)
    return found.start, found.targets


def waits_of(
    graph: SwitchGraph, at: np.ndarray, lft: np.ndarray, lids: np.ndarray, ends: np.ndarray,
    path_sl: np.ndarray | None, sl2vl: np.ndarray | None, data_vls: int, dropped: np.ndarray,
) -> Waits:  # fmt: skip
    """What waits for what on the paths to ``lids`` (of the end ports ``ends``); ``at``: :func:`port_map`; the others as of
    :func:`~softib.routing.verify.verify`.

    ``dropped`` int64[2, switches + 2] out counts by hops the pairs (to CAs, to switches) that a VL not below ``data_vls`` drops.
    """
    if path_sl is None and sl2vl is None:
        return _on_one_vl(graph, at, lft, lids, ends)
    table = sl2vl_table(graph, sl2vl, data_vls)
    used = np.zeros(len(graph.peer) * data_vls, np.bool_)
    needs = np.zeros((len(graph.peer) * data_vls, _bitset_size(graph, data_vls)), np.uint64)
    maps = _sources(graph, path_sl, table)
    depend_vl(links_of(graph), routes_of(graph, lft, lids, ends, at), maps, data_vls, used, needs, dropped)
    return Waits(*_lists(graph, needs, data_vls), used, data_vls)


def _on_one_vl(graph: SwitchGraph, at: np.ndarray, lft: np.ndarray, lids: np.ndarray, ends: np.ndarray) -> Waits:
    used, needs = _depend(graph, routes_of(graph, lft, lids, ends, at))
    return Waits(*_lists(graph, needs, 1), used, 1)


def lists_of(graph: SwitchGraph, needs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The lists ``(start, targets)`` of :func:`credit_dependencies`, as :func:`find_cycle` takes them."""
    return _lists(graph, needs, 1)


def find_cycle(start: np.ndarray, targets: np.ndarray) -> np.ndarray | None:
    """A shortest cycle (int32 nodes) of the graph ``targets[start[c]:start[c + 1]]``, or None.

    On graphs too large to search in full (some :data:`SEARCH_BUDGET` steps) the shortest that was found.
    """
    nodes = len(start) - 1
    alive = np.zeros(nodes, np.bool_)
    if not core(start, targets, alive):
        return None
    cycle = np.empty(nodes, np.int32)
    length = any_cycle(start, targets, alive, cycle)
    length = shorten(start, targets, alive, cycle, length, SEARCH_BUDGET)
    found = cycle[:length]
    return np.roll(found, -int(np.argmin(found)))


def channels_of(graph: SwitchGraph, cycle: np.ndarray, vls: int) -> list[Channel]:
    """The channels (link × ``vls`` + VL) of ``cycle`` by switch, egress port and VL."""
    owner = graph.link_switch
    return [(int(owner[c // vls]), int(graph.out_port[c // vls]), int(c % vls)) for c in cycle]


def _sources(graph: SwitchGraph, path_sl: np.ndarray | None, sl2vl: np.ndarray) -> Any:
    """CA ports that send into the fabric, those of one switch together where their packets meet the same SLs and VLs."""
    n_ends = len(graph.end_lid)
    sls = np.zeros((1, 1), np.uint8) if path_sl is None else np.ascontiguousarray(path_sl, np.uint8)
    rows = len(sls)
    if path_sl is not None and (sls.ndim != 2 or sls.shape[1] != n_ends or rows not in (1, graph.n_switches, n_ends)):
        raise ValueError(f"path_sl has shape {sls.shape}, it should be ({graph.n_switches}, {n_ends})")
    of_end = graph.end_switch if rows == graph.n_switches else np.arange(n_ends) % rows
    cas = np.flatnonzero(~graph.end_is_switch)
    port = graph.end_port[cas].astype(np.int64) * (sl2vl.shape[1] > 1)
    key = np.stack([graph.end_switch[cas], port, of_end[cas]])
    groups, group, count = np.unique(key, axis=1, return_inverse=True, return_counts=True)
    group_of_end = np.full(n_ends, -1, np.int32)
    group_of_end[cas] = group.ravel()
    switch, port, row = groups.astype(np.int32)
    return VlMaps(switch, port, row, count.astype(np.int64), group_of_end, sls, sl2vl)


def sl2vl_table(graph: SwitchGraph, sl2vl: np.ndarray | None, data_vls: int) -> np.ndarray:
    """The map as uint8[n or 1, ports or 1, ports or 1, 16]: a dimension of 1 holds for every index."""
    if sl2vl is None:
        sl2vl = np.arange(16) % data_vls
    table = np.asarray(sl2vl, np.uint8)
    if table.ndim in (1, 2):
        table = table.reshape(-1, 1, 1, table.shape[-1])
    ports = int(graph.switch_nports.max(initial=0)) + 1
    fits = table.ndim == 4 and table.shape[3] == 16 and table.shape[0] in (1, graph.n_switches)
    if not fits or any(d != 1 and d < ports for d in table.shape[1:3]):
        raise ValueError(f"sl2vl has shape {np.shape(sl2vl)}, it should be (16,), ({graph.n_switches}, 16) or "
                         f"({graph.n_switches}, {ports}, {ports}, 16)")  # fmt: skip
    return np.ascontiguousarray(table)


def _bitset_size(graph: SwitchGraph, vls: int) -> int:
    most = int(np.diff(graph.first).max(initial=0))
    return max(1, (most * vls + 63) // 64)


def _lists(graph: SwitchGraph, needs: np.ndarray, vls: int) -> tuple[np.ndarray, np.ndarray]:
    start = np.zeros(len(needs) + 1, np.int64)
    base = graph.first[graph.peer]
    total = bits_to_lists(needs, base, vls, start, np.empty(0, np.int32))
    targets = np.empty(total, np.int32)
    if total:
        bits_to_lists(needs, base, vls, start, targets)
    return start, targets
