"""Credit loops: check whether buffers can wait for each other in a cycle.

A **channel** is a directed link between switches on one VL. A packet that holds a buffer at the end
of one channel waits for the next channel on its path. Tables are free of deadlock if these
dependencies have no cycle (Dally & Seitz 1987); links from and to CAs cannot be part of one. Only
paths of packets that some CA sends count, whether or not the packets arrive: a forwarding loop is a
credit loop too.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from softib.ragged import spread
from softib.routing.graph import SwitchGraph
from softib.routing.proof.cycle_kernels import any_cycle, shorten
from softib.routing.proof.reach import destinations, links_of, port_map, routes_of
from softib.routing.proof.verify_kernels import Routes, VlMaps, depend, depend_vl
from softib.routing.transition.order_kernels import Channels, VlState

__all__ = [
    "NO_PATH",
    "Channel",
    "Senders",
    "allowed_dependencies",
    "channels",
    "channels_of",
    "core",
    "credit_dependencies",
    "depend_on",
    "dependencies_of",
    "find_cycle",
    "has_credit_loop",
    "lists_of",
    "merged",
    "needs_of",
    "on_vls",
    "sl2vl_table",
    "vl_state",
    "waiting_channels",
]


def channels(graph: SwitchGraph, canon: np.ndarray | None = None) -> Any:
    """Return the graph's links as channels. Each link is a separate channel, unless ``canon``
    int32[links] names another link whose channel it shares."""
    degree = np.diff(graph.first).astype(np.int64)
    owner = np.repeat(np.arange(graph.n_switches, dtype=np.int32), degree)
    size = degree[graph.peer]
    dep_first = (np.cumsum(size) - size).astype(np.int64)
    canon = np.arange(len(graph.peer), dtype=np.int32) if canon is None else canon
    return Channels(graph.first, graph.peer, graph.reverse, owner, dep_first, canon)


def merged(graph: SwitchGraph) -> np.ndarray:
    """Return int32[links]: for each link, the first of the parallel cables between the same two switches."""
    owner = graph.link_switch
    _, first, which = np.unique(owner * graph.n_switches + graph.peer, return_index=True, return_inverse=True)
    return first[which].astype(np.int32)


def vl_state(graph: SwitchGraph, order: np.ndarray | None = None) -> Any:
    """Return a VL without dependencies; ``order`` int32[links] lists channels as a first guess of
    their topological order."""
    n = len(graph.peer)
    degree = np.diff(graph.first).astype(np.int64)
    node_at = np.arange(n, dtype=np.int32) if order is None else order.astype(np.int32)
    place = np.empty(n, np.int32)
    place[node_at] = np.arange(n, dtype=np.int32)
    present = np.zeros(int(degree[graph.peer].sum()), np.uint8)
    fwd, bwd, keys = (np.empty(n, np.int32) for _ in range(3))
    blocks = (int(degree.max(initial=1)) + 63) >> 6
    ahead, behind, seen = (np.zeros((rows, blocks), np.uint64) for rows in (n, n, graph.n_switches))
    return VlState(
        present=present,
        place=place,
        node_at=node_at,
        fwd=fwd,
        bwd=bwd,
        keys=keys,
        ahead=ahead,
        behind=behind,
        seen=seen,
        bits=np.zeros(n // 64 + 1, np.uint64),
    )


def on_vls(graph: SwitchGraph, vls: int) -> SwitchGraph:
    """Return ``graph`` with one link for each VL of a link: row ``link * vls + vl``."""
    if vls == 1:
        return graph
    each_vl = np.arange(vls, dtype=np.int32)
    return replace(
        graph,
        first=graph.first * vls,
        peer=np.repeat(graph.peer, vls),
        reverse=(graph.reverse[:, None] * vls + each_vl).ravel().astype(np.int32),
    )


Channel = tuple[int, int, int]
"""(switch row of the graph, egress portnum, VL)"""

NO_PATH = 255
"""SL of a pair without traffic."""
SHORT_BUDGET, SEARCH_BUDGET = 1 << 15, 30_000_000


class Needs(NamedTuple):
    """Dependencies between channels (link × ``vls`` + VL) on some paths."""

    used: np.ndarray
    """bool[channels]: a path uses the channel."""
    needs: np.ndarray
    """uint64[channels, words]: bit k = a path goes on to channel k of the next switch."""
    vls: int


class Senders(NamedTuple):
    """Packets that are considered in addition to those that CAs send with the SL of the path in
    their direction."""

    switches: bool = False
    """A switch answers with the SL of the request, and sends requests with the SL in its row of ``path_sl``."""
    answers: bool = False
    """A CA answers with the SL of the request, as in a connection made by the connection manager."""


CAS = Senders()


def has_credit_loop(graph: SwitchGraph, lft: np.ndarray) -> bool:
    """Return whether ``lft`` (uint8[n_switches, any width]) can deadlock if all traffic uses one
    VL. This is the fast part of a proof."""
    start, targets = lists_of(graph, credit_dependencies(graph, lft))
    return bool(core(start, targets).any())


def allowed_dependencies(graph: SwitchGraph, down: np.ndarray) -> np.ndarray:
    """Return the dependencies (as in :func:`credit_dependencies`) of all paths that never go up
    after they went down, and never return to the switch that they came from. ``down`` bool[links]:
    the link leads down."""
    owner = graph.link_switch
    local = np.arange(len(graph.peer)) - graph.first[owner]
    word, bit = local >> 6, np.uint64(1) << (local & 63).astype(np.uint64)
    any_link, down_link = (np.zeros((graph.n_switches, _bitset_size(graph, 1)), np.uint64) for _ in range(2))
    np.bitwise_or.at(any_link, (owner, word), bit)
    np.bitwise_or.at(down_link, (owner[down], word[down]), bit[down])
    needs: np.ndarray = np.where(down[:, None], down_link[graph.peer], any_link[graph.peer])
    by_cable = np.lexsort((owner, graph.peer))  # links into a switch, by the switch at their other end
    pair = graph.peer.astype(np.int64) * graph.n_switches + owner
    ahead = owner * graph.n_switches + graph.peer
    first = np.searchsorted(pair[by_cable], ahead, side="left")
    count = np.searchsorted(pair[by_cable], ahead, side="right") - first
    out, nth = spread(count)
    into = by_cable[first[out] + nth]  # into: x → s, out: s → x
    np.bitwise_and.at(needs, (into, word[out]), ~bit[out])
    return needs


def credit_dependencies(graph: SwitchGraph, lft: np.ndarray) -> np.ndarray:
    """Return the dependencies between links if all traffic uses one VL: uint64[links, words]; bit b
    of a row is the b-th link of the switch at its end."""
    return _depend(graph, routes_of(graph, np.ascontiguousarray(lft, np.uint8), *destinations(graph))).needs


def dependencies_of(
    graph: SwitchGraph, lft: np.ndarray, ends: np.ndarray | None = None, switches: bool = False
) -> np.ndarray:
    """Return :func:`credit_dependencies` of the paths to ``ends`` (bool[ends]). With ``switches``,
    include paths that begin on switches without CAs."""
    lids, at = destinations(graph)
    keep = np.ones(len(lids), np.bool_) if ends is None else ends[at]
    routes = routes_of(graph, np.ascontiguousarray(lft, np.uint8), lids[keep], at[keep])
    return depend_on(graph, _from_all(graph, routes) if switches else routes)


def depend_on(graph: SwitchGraph, routes: Any) -> np.ndarray:
    """Return :func:`credit_dependencies` of packets from the switches where ``routes.cas`` is not 0."""
    return _depend(graph, routes).needs


def _from_all(graph: SwitchGraph, routes: Any) -> Any:
    """Return ``routes`` with a source on every switch."""
    return Routes(routes.lft, routes.at, routes.dest_lid, routes.dest_end, np.ones(graph.n_switches, np.int64))


def _depend(graph: SwitchGraph, routes: Any) -> Needs:
    """Return the dependencies of ``routes`` on one VL."""
    used = np.zeros(len(graph.peer), np.bool_)
    needs = np.zeros((len(graph.peer), _bitset_size(graph, 1)), np.uint64)
    depend(links_of(graph), routes, used, needs)
    return Needs(used, needs, 1)


def waiting_channels(
    graph: SwitchGraph,
    lft: np.ndarray,
    path_sl: np.ndarray | None,
    sl2vl: np.ndarray | None,
    data_vls: int,
) -> tuple[np.ndarray, np.ndarray]:
    """Return the dependencies between channels (link × ``data_vls`` + VL) of all paths, as lists
    ``(start, targets)``. The arguments are those of :func:`verify` and :func:`needs_of`."""
    lft = np.ascontiguousarray(lft, np.uint8)
    dropped = np.zeros((2, graph.n_switches + 2), np.int64)
    paths = needs_of(
        graph,
        port_map(graph),
        lft,
        *destinations(graph),
        path_sl=path_sl,
        sl2vl=sl2vl,
        data_vls=data_vls,
        dropped=dropped,
        senders=Senders(False),
    )
    return lists_of(graph, paths.needs, paths.vls)


def needs_of(
    graph: SwitchGraph,
    at: np.ndarray,
    lft: np.ndarray,
    lids: np.ndarray,
    ends: np.ndarray,
    *,
    path_sl: np.ndarray | None,
    sl2vl: np.ndarray | None,
    data_vls: int,
    dropped: np.ndarray,
    senders: Senders = CAS,
) -> Needs:
    """Return the dependencies between channels on the paths to ``lids`` (of the end ports
    ``ends``). ``at`` is a :func:`port_map`; the other arguments are those of
    :func:`~softib.routing.proof.verify.verify`.

    ``senders``: whose packets count. ``dropped`` int64[2, switches + 2] out counts, by hops, the
    pairs (from CAs, to CAs and to switches) that are dropped by a VL not below ``data_vls``.
    """
    routes = routes_of(graph, lft, lids, ends, at)
    if path_sl is None and sl2vl is None:
        return _depend(graph, _from_all(graph, routes) if senders.switches else routes)
    table = sl2vl_table(graph, sl2vl, data_vls)
    used = np.zeros(len(graph.peer) * data_vls, np.bool_)
    needs = np.zeros((len(graph.peer) * data_vls, _bitset_size(graph, data_vls)), np.uint64)
    maps = _sources(graph, path_sl, table, senders)
    depend_vl(links_of(graph), routes, maps, data_vls, used, needs, dropped)
    return Needs(used, needs, data_vls)


def find_cycle(start: np.ndarray, targets: np.ndarray) -> np.ndarray | None:
    """Return a shortest cycle (int32 nodes) of the graph ``targets[start[c]:start[c + 1]]``, or None.

    On graphs that are too large for a complete search (about :data:`SEARCH_BUDGET` steps), return
    the shortest cycle found.
    """
    nodes = len(start) - 1
    alive = core(start, targets)
    if not alive.any():
        return None
    cycle = np.empty(nodes, np.int32)
    length = any_cycle(start, targets, alive, cycle)
    for budget in (SHORT_BUDGET, SEARCH_BUDGET):  # most searches end within the first, and need no compiled kernel
        if length > 2 and alive.any():
            length = shorten(start, targets, alive, cycle, length, budget)
    loop = cycle[:length]
    return np.roll(loop, -int(np.argmin(loop)))


def channels_of(graph: SwitchGraph, cycle: np.ndarray, vls: int) -> list[Channel]:
    """Return the (switch, egress port, VL) of each channel (link × ``vls`` + VL) in ``cycle``."""
    owner = graph.link_switch
    return [(int(owner[c // vls]), int(graph.out_port[c // vls]), int(c % vls)) for c in cycle]


def _sources(graph: SwitchGraph, path_sl: np.ndarray | None, sl2vl: np.ndarray, senders: Senders) -> Any:
    """Return the CA ports that send packets into the fabric; ports of one switch whose packets have
    the same SLs and VLs are one group. Also return the other ``senders``, which do not count as
    CAs."""
    n_ends = len(graph.end_lid)
    sls = np.zeros((1, 1), np.uint8) if path_sl is None else np.ascontiguousarray(path_sl, np.uint8)
    rows = len(sls)
    if path_sl is not None and (sls.ndim != 2 or sls.shape[1] != n_ends or rows not in (1, graph.n_switches, n_ends)):
        raise ValueError(f"path_sl has shape {sls.shape}; use ({graph.n_switches}, {n_ends})")
    of_end = graph.end_switch if rows == graph.n_switches else np.arange(n_ends) % rows
    cas = np.flatnonzero(~graph.end_is_switch)
    port = graph.end_port[cas].astype(np.int64) * (sl2vl.shape[1] > 1)
    key = np.stack([graph.end_switch[cas], port, of_end[cas]])
    groups, group, count = np.unique(key, axis=1, return_inverse=True, return_counts=True)
    group_of_end = np.full(n_ends, -1, np.int32)
    group_of_end[cas] = group.ravel()
    extra = [groups]
    port0 = np.flatnonzero(graph.end_is_switch & senders.switches)
    extra.append(np.stack([graph.end_switch[port0], np.zeros_like(port0), of_end[port0]]))
    if path_sl is not None:
        by_request = np.concatenate(
            [port0, cas if senders.answers and len(cas) and not _directions_alike(graph, sls) else cas[:0]]
        )
        alike, row = np.unique(sls.T[by_request], axis=0, return_inverse=True)
        in_port = graph.end_port[by_request].astype(np.int64) * (sl2vl.shape[1] > 1)
        extra.append(np.unique(np.stack([graph.end_switch[by_request], in_port, rows + row.ravel()]), axis=1))
        sls = np.concatenate([sls, alike[:, of_end]])
    groups = np.concatenate(extra, axis=1)
    count = np.concatenate([count, np.zeros(groups.shape[1] - len(count), count.dtype)])
    switch, port, row = groups.astype(np.int32)
    return VlMaps(switch, port, row, count.astype(np.int64), group_of_end, np.ascontiguousarray(sls), sl2vl)


def _directions_alike(graph: SwitchGraph, sls: np.ndarray) -> bool:
    """Return whether packets in both directions between two ends have the same SL. ``sls`` is the
    ``path_sl`` of :func:`needs_of`."""
    if len(sls) != graph.n_switches:
        return bool((sls == (sls[:, :1] if len(sls) == 1 else sls.T)).all())
    by_switch = np.argsort(graph.end_switch, kind="stable")
    switch, first = np.unique(graph.end_switch[by_switch], return_index=True)
    sent = sls[np.ix_(switch, by_switch)]
    least = np.minimum.reduceat(sent, first, axis=1)
    off = ~np.eye(len(switch), dtype=np.bool_)  # packets between ends on one switch use no link
    return bool((least == least.T).all() and (least == np.maximum.reduceat(sent, first, axis=1))[off].all())


def sl2vl_table(graph: SwitchGraph, sl2vl: np.ndarray | None, data_vls: int) -> np.ndarray:
    """Return the map as uint8[n or 1, ports or 1, ports or 1, 16]: a dimension of 1 applies to
    every index."""
    if sl2vl is None:
        sl2vl = np.arange(16) % data_vls
    table = np.asarray(sl2vl, np.uint8)
    if table.ndim in (1, 2):
        table = table.reshape(-1, 1, 1, table.shape[-1])
    ports = int(graph.switch_nports.max(initial=0)) + 1
    fits = table.ndim == 4 and table.shape[3] == 16 and table.shape[0] in (1, graph.n_switches)
    if not fits or any(d != 1 and d < ports for d in table.shape[1:3]):
        raise ValueError(
            f"sl2vl has shape {np.shape(sl2vl)}; use (16,), ({graph.n_switches}, 16) or "
            f"({graph.n_switches}, {ports}, {ports}, 16)"
        )
    return np.ascontiguousarray(table)


def _bitset_size(graph: SwitchGraph, vls: int) -> int:
    most = int(np.diff(graph.first).max(initial=0))
    return max(1, (most * vls + 63) // 64)


def lists_of(graph: SwitchGraph, needs: np.ndarray, vls: int = 1) -> tuple[np.ndarray, np.ndarray]:
    """Return the dependencies of :func:`needs_of` (with one VL: of :func:`credit_dependencies`) as
    lists: channel ``c`` (link × ``vls`` + VL) waits for ``targets[start[c]:start[c + 1]]``."""
    channel, word = np.nonzero(needs)
    octets = needs[channel, word].astype("<u8", copy=False).view(np.uint8).reshape(-1, 8)
    which, bit = np.nonzero(np.unpackbits(octets, axis=1, bitorder="little"))
    channel = channel[which]
    start = np.zeros(len(needs) + 1, np.int64)
    np.cumsum(np.bincount(channel, minlength=len(needs)), out=start[1:])
    base = graph.first[graph.peer].astype(np.int64)
    return start, ((base[channel // vls] * vls) + 64 * word[which] + bit).astype(np.int32)


def core(start: np.ndarray, targets: np.ndarray) -> np.ndarray:
    """Return bool[nodes]: the nodes of the graph ``targets[start[c]:start[c + 1]]`` that remain
    when nodes without a predecessor or successor are removed repeatedly. Some remain if and only if
    the graph has a cycle."""
    alive = _fed(start, targets)
    if not alive.any():
        return alive
    source = np.repeat(np.arange(len(start) - 1), np.diff(start))
    stays = np.flatnonzero(alive[source] & alive[targets])
    backward = stays[np.argsort(targets[stays], kind="stable")]
    first = np.searchsorted(targets[backward], np.arange(len(start)))
    return alive & _fed(first, source[backward])


def _fed(start: np.ndarray, targets: np.ndarray) -> np.ndarray:
    """Return bool[nodes]: the nodes that remain when nodes that are no target of another node are
    removed repeatedly."""
    waits = np.bincount(targets, minlength=len(start) - 1)
    alive = waits > 0
    removed = np.flatnonzero(~alive)
    while len(removed):
        out, nth = spread(start[removed + 1] - start[removed])
        reached, times = np.unique(targets[start[removed[out]] + nth], return_counts=True)
        waits[reached] -= times
        removed = reached[waits[reached] == 0]
        alive[removed] = False
    return alive
