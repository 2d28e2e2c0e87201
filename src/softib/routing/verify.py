"""Proves forwarding tables: does every packet arrive, how far is it, and can buffers wait for each other in a circle?

Pairs are (source port, destination LID): sources are CA and router ports; destinations all LIDs of all end ports but
the source's own. Routes that start on a switch are listed apart (only its own management traffic takes them):
up*/down* engines may leave some pairs of switches without a legal way.

A **channel** is a directed link between switches on one VL. A packet that holds a buffer at the end of one channel
waits for the next channel of its path. Tables are free of deadlock if these dependencies have no cycle (Dally & Seitz
1987); links from and to CAs cannot be part of one. Only paths that some CA's packets take count, whether they arrive
or not: a forwarding loop is a credit loop too.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from softib.routing.cycle_kernels import any_cycle, bits_to_lists, core, shorten
from softib.routing.graph import SwitchGraph
from softib.routing.parts import components
from softib.routing.verify_kernels import Links, Routes, VlMaps, arrivals, depend, depend_vl, walk_all

__all__ = [
    "NO_PATH",
    "Channel",
    "Failure",
    "Pairs",
    "Proof",
    "can_loop",
    "connected_pairs",
    "count_arrivals",
    "destinations",
    "find_cycle",
    "has_credit_loop",
    "lost_pairs",
    "port_map",
    "verify",
]

Channel = tuple[int, int, int]
"""(switch row of the graph, egress portnum, VL)"""

NO_PATH = 255
"""SL of a pair between which nobody sends."""
KINDS = ("CA→CA", "CA→switch", "switch→switch", "switch→CA")
STATES = ("", "arrives", "dead end", "loop", "delivered to the wrong port")
EXAMPLES = 8
SEARCH_BUDGET = 30_000_000


@dataclass(frozen=True)
class Pairs:
    """How many ordered pairs there are and what becomes of them; ``dropped`` by an SL2VL entry that names no VL."""

    total: int
    arrived: int
    dead_end: int
    loop: int
    misdelivered: int
    dropped: int = 0

    @property
    def lost(self) -> int:
        """Pairs that do not arrive, for whatever reason."""
        return self.total - self.arrived


@dataclass(frozen=True)
class Failure:
    """One pair that does not arrive: packets for ``lid`` of end row ``end`` that start on ``switch``."""

    kind: str
    switch: int
    end: int
    lid: int
    what: str


@dataclass
class Proof:
    """What :func:`verify` found.

    ``hops`` {hops: pairs} of all CA→CA and CA→switch pairs that arrive, ``hops_ca`` of the CA→CA ones alone. Hops are
    egress ports of switches on the path, as in OpenSM's dumps: 1 between CAs on one switch, 3 over one spine; 0 from a
    CA to its own switch. ``credit_loop`` is None or a cycle of channels, each waiting for the next and the last for
    the first. ``switch_loop`` is one that takes packets from CAs to switches' own LIDs (management), where those between CAs
    make none and have several SLs: engines that spread paths over VLs, such as nue, order only the latter.
    ``assumed``: why SLs are not known, so that all paths were taken on one ("" = they are). ``channels`` and ``dependencies`` are the size of the graph that was searched, ``vls`` the VLs in use.
    ``failures`` are the first few of each kind.
    """

    ca_ca: Pairs
    ca_switch: Pairs
    switch_switch: Pairs
    switch_ca: Pairs
    hops: dict[int, int]
    hops_ca: dict[int, int]
    credit_loop: list[Channel] | None
    channels: int
    dependencies: int
    vls: int
    failures: list[Failure] = field(default_factory=list)
    switch_loop: list[Channel] | None = None
    assumed: str = ""

    @property
    def unreachable(self) -> int:
        """CA→CA and CA→switch pairs that do not arrive."""
        return self.ca_ca.lost + self.ca_switch.lost

    @property
    def deadlock_free(self) -> bool:
        """No cycle of waiting channels, :attr:`switch_loop` aside."""
        return self.credit_loop is None

    @property
    def ok(self) -> bool:
        """Every CA's packets arrive and nothing can deadlock."""
        return self.unreachable == 0 and self.deadlock_free


def verify(
    graph: SwitchGraph,
    lft: np.ndarray,
    path_sl: np.ndarray | None = None,
    sl2vl: np.ndarray | None = None,
    data_vls: int = 8,
) -> Proof:
    """Prove ``lft`` uint8[n_switches, any width] on ``graph``. Entries may name ports that do not exist.

    ``path_sl`` uint8[n_switches, ends]: SL by (switch that the source hangs on, destination end), :data:`NO_PATH` = nobody
    sends there (the pair makes no dependency), None = SL 0 everywhere. One row holds for every source; [ends, ends] is by
    source end (what another manager's administration reports). ``sl2vl``: None = VL is SL mod ``data_vls``; else uint8[16] (one map everywhere), uint8[n_switches, 16], or uint8[n_switches, ports + 1,
    ports + 1, 16] by (switch, input portnum, output portnum). A VL not below ``data_vls`` drops the packet (15, IBA
    7.6.6). Raises ValueError for arrays of other shapes.
    """
    if lft.ndim != 2 or lft.shape[0] != graph.n_switches:
        raise ValueError(f"lft has shape {lft.shape}, it should be ({graph.n_switches}, LIDs)")
    lft = np.ascontiguousarray(lft, np.uint8)
    at = port_map(graph)
    lids, ends = destinations(graph)
    counts, hist, failures = _walk(graph, at, lft, lids, ends)
    dropped = np.zeros((2, graph.n_switches + 2), np.int64)

    def waits(of: np.ndarray, lost: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, int]:
        if path_sl is None and sl2vl is None:
            return _one_vl(graph, at, lft, lids[of], ends[of])
        return _many_vls(graph, at, lft, lids[of], ends[of], path_sl, sl2vl, data_vls, lost)

    start, targets, used, vls = waits(np.ones(len(lids), np.bool_), dropped)
    loop = switch_loop = None
    if (cycle := find_cycle(start, targets)) is not None:
        between: np.ndarray | None = cycle
        if _orders_by_sl(path_sl):
            between = find_cycle(*waits(~graph.end_is_switch[ends], np.zeros_like(dropped))[:2])
        if between is None:
            switch_loop = _channels(graph, cycle, vls)
        else:
            loop = _channels(graph, between, vls)
    hist[:2] -= dropped
    lost = dropped.sum(axis=1)
    return Proof(
        _pairs(counts[0], int(lost[0])), _pairs(counts[1], int(lost[1])), _pairs(counts[2], 0), _pairs(counts[3], 0),
        _histogram(hist[0] + hist[1]), _histogram(hist[0]), loop, int(used.sum()), len(targets),
        int(used.reshape(-1, vls).any(axis=0).sum()), failures, switch_loop,
    )  # fmt: skip


def _orders_by_sl(path_sl: np.ndarray | None) -> bool:
    """Do paths have several SLs? Engines that break cycles so are bound to packets between CAs; where all are alike, those
    to switches count as any other."""
    return path_sl is not None and len(np.unique(path_sl[path_sl != NO_PATH])) > 1


def _channels(graph: SwitchGraph, cycle: np.ndarray, vls: int) -> list[Channel]:
    owner = np.repeat(np.arange(graph.n_switches), np.diff(graph.first))
    return [(int(owner[c // vls]), int(graph.out_port[c // vls]), int(c % vls)) for c in cycle]


def has_credit_loop(graph: SwitchGraph, lft: np.ndarray) -> bool:
    """Whether ``lft`` uint8[n_switches, any width] can deadlock with all traffic on one VL: the quick half of a proof."""
    start, targets, _, _ = _one_vl(graph, port_map(graph), lft, *destinations(graph))
    return core(start, targets, np.zeros(len(start) - 1, np.bool_)) > 0


def can_loop(graph: SwitchGraph, lft: np.ndarray, down: np.ndarray, ends: np.ndarray) -> bool:
    """:func:`has_credit_loop` of tables whose paths, but for those to ``ends`` (rows), never take a link up after one ``down`` (bool[links]).

    Looks at the paths to ``ends`` alone, beside all turns that the rule allows. Only where these close a cycle it looks at all paths.
    """
    lids, all_ends = destinations(graph)
    some = np.isin(all_ends, ends)
    needs, used = _allowed_dependencies(graph, down), np.zeros(len(graph.peer), np.bool_)
    lft = np.ascontiguousarray(lft, np.uint8)
    depend(_links(graph), Routes(lft, port_map(graph), lids[some], all_ends[some], _cas(graph)), used, needs)
    start, targets = _lists(graph, needs, 1)
    return core(start, targets, np.zeros(len(start) - 1, np.bool_)) > 0 and has_credit_loop(graph, lft)


def _allowed_dependencies(graph: SwitchGraph, down: np.ndarray) -> np.ndarray:
    """Dependencies (as of :func:`credit_dependencies`) of all paths that never go up after down."""
    owner = np.repeat(np.arange(graph.n_switches), np.diff(graph.first))
    local = np.arange(len(graph.peer)) - graph.first[owner]
    word, bit = local >> 6, np.uint64(1) << (local & 63).astype(np.uint64)
    any_link, down_link = (np.zeros((graph.n_switches, _bitset_size(graph, 1)), np.uint64) for _ in range(2))
    np.bitwise_or.at(any_link, (owner, word), bit)
    np.bitwise_or.at(down_link, (owner[down], word[down]), bit[down])
    return np.where(down[:, None], down_link[graph.peer], any_link[graph.peer])


def credit_dependencies(graph: SwitchGraph, lft: np.ndarray) -> np.ndarray:
    """Which link waits for which with all traffic on one VL: uint64[links, words], bit b of a row is the b-th link of the switch it leads to."""
    lids, ends = destinations(graph)
    used = np.zeros(len(graph.peer), np.bool_)
    needs = np.zeros((len(graph.peer), _bitset_size(graph, 1)), np.uint64)
    lft = np.ascontiguousarray(lft, np.uint8)
    depend(_links(graph), Routes(lft, port_map(graph), lids, ends, _cas(graph)), used, needs)
    return needs


def waiting_channels(
    graph: SwitchGraph, lft: np.ndarray, path_sl: np.ndarray | None, sl2vl: np.ndarray | None, data_vls: int
) -> tuple[np.ndarray, np.ndarray]:
    """Which channel (link × ``data_vls`` + VL) waits for which, of all paths, as lists ``(start, targets)``; arguments as of :func:`verify`."""
    lft = np.ascontiguousarray(lft, np.uint8)
    lids, ends = destinations(graph)
    if path_sl is None and sl2vl is None:
        return _one_vl(graph, port_map(graph), lft, lids, ends)[:2]
    dropped = np.zeros((2, graph.n_switches + 2), np.int64)
    return _many_vls(graph, port_map(graph), lft, lids, ends, path_sl, sl2vl, data_vls, dropped)[:2]


def lists_of(graph: SwitchGraph, needs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The lists ``(start, targets)`` of :func:`credit_dependencies`, as :func:`find_cycle` takes them."""
    return _lists(graph, needs, 1)


def lost_pairs(graph: SwitchGraph, lft: np.ndarray) -> int:
    """Pairs of a CA and an end port that ``lft`` uint8[n_switches, any width] does not bring together though cables do."""
    return connected_pairs(graph) - int(count_arrivals(graph, lft, *destinations(graph)).sum())


def connected_pairs(graph: SwitchGraph) -> int:
    """Pairs of a CA and another end port's LID in the same part of the fabric."""
    owner = np.repeat(np.arange(graph.n_switches), np.diff(graph.first))
    part = components(graph.n_switches, owner, graph.peer)
    cas = np.bincount(part, _cas(graph), minlength=graph.n_switches)
    there = np.bincount(part[graph.end_switch], 1 << graph.end_lmc.astype(np.int64), minlength=graph.n_switches)
    to_itself = int((1 << graph.end_lmc[~graph.end_is_switch].astype(np.int64)).sum())
    return int((cas * there).sum()) - to_itself


def count_arrivals(graph: SwitchGraph, lft: np.ndarray, lids: np.ndarray, ends: np.ndarray) -> np.ndarray:
    """int64[lids]: CAs whose packets arrive, for destinations as of :func:`destinations`; nobody sends to itself."""
    arrived = np.zeros(len(lids), np.int64)
    lft = np.ascontiguousarray(lft, np.uint8)
    arrivals(_links(graph), Routes(lft, port_map(graph), lids, ends, _cas(graph)), arrived)
    return arrived


def port_map(graph: SwitchGraph) -> np.ndarray:
    """What each switch's port leads to, int32[n, 256]: link row, ``-2 - end`` of an end port, or -1 for nothing."""
    at = np.full((graph.n_switches, 256), -1, np.int32)
    owner = np.repeat(np.arange(graph.n_switches), np.diff(graph.first))
    at[owner, graph.out_port] = np.arange(len(owner))
    at[graph.end_switch, graph.end_port] = -2 - np.arange(len(graph.end_lid))
    at[:, 255] = -1
    return at


def destinations(graph: SwitchGraph) -> tuple[np.ndarray, np.ndarray]:
    """Every LID of every end port, ascending: ``(lid int32, end int32)``."""
    copies = 1 << graph.end_lmc.astype(np.int64)
    end = np.repeat(np.arange(len(copies)), copies)
    offset = np.arange(len(end)) - np.repeat(np.cumsum(copies) - copies, copies)
    return (graph.end_lid[end] + offset).astype(np.int32), end.astype(np.int32)


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


def _walk(
    graph: SwitchGraph, at: np.ndarray, lft: np.ndarray, lids: np.ndarray, ends: np.ndarray
) -> tuple[np.ndarray, np.ndarray, list[Failure]]:
    n = graph.n_switches
    counts, hist = np.zeros((4, 5), np.int64), np.zeros((4, n + 2), np.int64)
    rows = np.zeros((4 * EXAMPLES, 5), np.int32)
    used = walk_all(_links(graph), Routes(lft, at, lids, ends, _cas(graph)), counts, hist, rows)
    return counts, hist, [Failure(KINDS[k], int(s), int(e), int(d), STATES[w]) for k, s, e, d, w in rows[:used]]


def _links(graph: SwitchGraph) -> Any:
    return Links(graph.first, graph.peer, graph.peer_port, graph.end_switch, graph.end_port, graph.end_is_switch)


def _cas(graph: SwitchGraph) -> np.ndarray:
    return np.bincount(graph.end_switch[~graph.end_is_switch], minlength=graph.n_switches).astype(np.int64)


def _one_vl(
    graph: SwitchGraph, at: np.ndarray, lft: np.ndarray, lids: np.ndarray, ends: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray, int]:
    used = np.zeros(len(graph.peer), np.bool_)
    needs = np.zeros((len(graph.peer), _bitset_size(graph, 1)), np.uint64)
    depend(_links(graph), Routes(lft, at, lids, ends, _cas(graph)), used, needs)
    return *_lists(graph, needs, 1), used, 1


def _many_vls(
    graph: SwitchGraph, at: np.ndarray, lft: np.ndarray, lids: np.ndarray, ends: np.ndarray,
    path_sl: np.ndarray | None, sl2vl: np.ndarray | None, data_vls: int, dropped: np.ndarray,
) -> tuple[np.ndarray, np.ndarray, np.ndarray, int]:  # fmt: skip
    table = sl2vl_table(graph, sl2vl, data_vls)
    used = np.zeros(len(graph.peer) * data_vls, np.bool_)
    needs = np.zeros((len(graph.peer) * data_vls, _bitset_size(graph, data_vls)), np.uint64)
    maps = _sources(graph, path_sl, table)
    depend_vl(_links(graph), Routes(lft, at, lids, ends, _cas(graph)), maps, data_vls, used, needs, dropped)
    return *_lists(graph, needs, data_vls), used, data_vls


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


def _pairs(counts: np.ndarray, dropped: int) -> Pairs:
    _, arrived, dead, loop, wrong = (int(c) for c in counts)
    return Pairs(int(counts.sum()), arrived - dropped, dead, loop, wrong, dropped)


def _histogram(bars: np.ndarray) -> dict[int, int]:
    return {int(h): int(bars[h]) for h in np.flatnonzero(bars)}
