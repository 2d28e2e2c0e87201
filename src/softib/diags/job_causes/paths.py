"""The cables that packets between two ports cross: those on the path in the forwarding tables, and those on all
shortest paths."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from softib.diags.job_causes.site import Site
from softib.iba.constants import LFT_NO_ROUTE

__all__ = ["PathSet", "paths_between"]

MOST_HOPS = 64
FALLEN_MOST = 256
"""Maximum number of switch ports without a link that are matched with each other."""
ENDS_OF_CABLE = 2
PAIRS_MOST = 128
"""Maximum number of pairs of ports whose paths are followed. More pairs add no information."""
ALTERNATIVE = 0.08
"""Weight of a cable on a shortest path that is not the path in the tables: the tables may have been different when the
job failed.
"""


@dataclass
class PathSet:
    """The paths of a job. ``weight``: cable (its smaller port row) → share of the pairs whose packets cross it.
    ``by_tables``: ports of the first pair's path in the forwarding tables, in order. ``ended``: the reason if this path
    does not reach its end.
    """

    weight: dict[int, float] = field(default_factory=dict)
    by_tables: list[int] = field(default_factory=list)
    ended: str = ""
    apart: bool = False
    """Whether no cables connect the two ends of a pair."""
    lost: set[int] = field(default_factory=set)
    """Ports without a link on the pairs' paths: ends of pairs, and egress ports in the forwarding tables."""
    isolated: dict[int, float] = field(default_factory=dict)
    """Switch without any link whose table still has a route to an end of a pair → share of these ends."""
    other_ends: dict[int, list[int]] = field(default_factory=dict)
    """Port of :attr:`lost` → the ports of which one was the other end of its cable."""


def paths_between(site: Site, pairs: list[tuple[int, int]]) -> PathSet:
    """Return the paths of ``pairs`` of port rows in both directions. If an egress port in the tables and the end to
    which it leads have both lost their link, they are taken as the two ends of one cable.
    """
    paths = PathSet()
    cache: dict[int, np.ndarray] = {}
    pairs = pairs[:PAIRS_MOST]
    _find_lost(site, pairs, paths)
    for a, b in pairs:
        for cable, weight in _of_pair(site, a, b, paths, cache).items():
            paths.weight[cable] = paths.weight.get(cable, 0.0) + weight / len(pairs)
    return paths


def _of_pair(site: Site, a: int, b: int, paths: PathSet, cache: dict[int, np.ndarray]) -> dict[int, float]:
    """Return the weight of each cable for one pair, in both directions."""
    weight: dict[int, float] = {}
    for begin, end in ((a, b), (b, a)):
        shares = _shortest(site, begin, end, cache)
        if shares is None:
            paths.apart |= begin != end
            shares = {p: 1.0 for p in (begin,) if site.peer[p] >= 0}
        hops, ended, _ = _by_tables(site, begin, end) if site.has_tables else ([], "", -1)
        if hops and not paths.by_tables:
            paths.by_tables, paths.ended = hops, ended or paths.ended
        for port, share in [*shares.items(), *((p, 1.0) for p in hops)]:
            # the tables no longer use a cable that lost its link, even if they used it before
            rare = bool(hops) and port not in paths.lost
            here = 1.0 if port in hops else share * ALTERNATIVE if rare else share
            cable = int(site.cable[port])
            weight[cable] = max(weight.get(cable, 0.0), here)
    return weight


def _find_lost(site: Site, pairs: list[tuple[int, int]], paths: PathSet) -> None:
    """Find the ports and switches of the pairs' paths that lost their links."""
    f = site.fabric
    ends = sorted({p for pair in pairs for p in pair})
    stated = bool({"states", "unlinked"} & set(f.source.records))
    bare = [p for p in ends if site.peer[p] < 0 and not site.is_switch[p]]
    paths.lost.update(bare if stated else ())
    stops: list[tuple[int, int, str]] = []
    if site.has_tables:
        for begin, end in {direction: None for a, b in pairs for direction in ((a, b), (b, a))}:
            _, ended, stop = _by_tables(site, begin, end)
            if stop >= 0:
                stops.append((stop, end, ended))
    paths.isolated = _isolated_switches(site, ends, bool(paths.lost or stops))
    for stop, end, ended in stops:
        paths.lost.add(stop)
        if site.peer[end] < 0 and site.peer[stop] < 0 and not site.is_switch[end] and not paths.isolated:
            site.join(end, stop)
            paths.lost.add(end)
            paths.ended = paths.ended or ended
    if stated:
        _join_fallen(site, pairs, paths)


def _join_fallen(site: Site, pairs: list[tuple[int, int]], paths: PathSet) -> None:
    """Join pairs of switch ports that lost their links, if a cable between them was on a path of ``pairs``. Such a path
    is not longer than the remaining paths, which the manager now uses. If a port can be paired with several others, it
    is recorded as a lost end whose other end is unknown.
    """
    f = site.fabric
    free = (site.peer < 0) & site.is_switch & (f.port_num > 0)
    stops = np.isin(np.arange(len(free)), list(paths.lost))
    fallen = np.flatnonzero(free & (stops | (np.asarray(f.counters["link_downed_counter"]) > 0)))
    if not 2 <= len(fallen) <= FALLEN_MOST:
        return
    node = f.port_node[fallen]
    fits = np.zeros((len(fallen), len(fallen)), bool)
    distance = {s: _distances(site, s) for s in {_switch(site, p) for pair in pairs for p in pair} if s >= 0}
    for a, b in {(_switch(site, a), _switch(site, b)) for a, b in pairs}:
        if a < 0 or b < 0 or a == b:
            continue
        to_a, to_b = distance[a][node].astype(np.int64), distance[b][node].astype(np.int64)
        hops = to_a[:, None] + 1 + to_b[None, :]
        joined = (to_a[:, None] >= 0) & (to_b[None, :] >= 0) & (node[:, None] != node[None, :])
        now = int(distance[b][a])
        best = now if now >= 0 else int(hops[joined].min()) if joined.any() else -1
        fits |= joined & (hops <= best)
    fits |= fits.T
    every = fits.copy()
    open_ends = np.asarray(fits.any(axis=1))
    while (alone := np.flatnonzero(fits.sum(axis=1) == 1)).size:
        p = int(alone[0])
        q = int(np.flatnonzero(fits[p])[0])
        mutual = fits[q].sum() == 1
        fits[[p, q]], fits[:, [p, q]] = False, False
        if mutual:
            site.join(int(fallen[p]), int(fallen[q]))
            open_ends[[p, q]] = False
            paths.lost.update((int(fallen[p]), int(fallen[q])))
    paths.lost.difference_update(fallen[open_ends].tolist())
    for end, others in _one_end_each(
        every & open_ends[:, None] & open_ends, f.port_node[fallen], stops[fallen]
    ).items():
        paths.lost.add(int(fallen[end]))
        if others:
            paths.other_ends[int(fallen[end])] = fallen[others].tolist()


def _one_end_each(fits: np.ndarray, node: np.ndarray, stops: np.ndarray) -> dict[int, list[int]]:
    """Return, for ports that can be paired with several others (``fits`` bool[n, n]), one end of each cable with its
    possible other ends. Two groups of n ports that can be paired only with each other are n cables. Of these two
    groups, the one with an egress port in the tables (``stops``) is returned, otherwise the one with fewer switches
    (``node``). Ports outside such groups are returned without other ends.
    """
    kept: dict[int, list[int]] = {}
    todo = set(np.flatnonzero(fits.any(axis=1)).tolist())
    while todo:
        sides: tuple[set[int], set[int]] = ({min(todo)}, set())
        grown = True
        while grown:
            grown = False
            for here, there in (sides, sides[::-1]):
                new = set(np.flatnonzero(fits[list(here)].any(axis=0)).tolist()) - there if here else set()
                there |= new
                grown |= bool(new)
        todo -= sides[0] | sides[1]
        if sides[0] & sides[1] or len(sides[0]) != len(sides[1]):
            kept |= {end: [] for end in sides[0] | sides[1]}
            continue
        rank = lambda side: (not stops[list(side)].any(), len(set(node[list(side)].tolist())), min(side))
        mine, others = sorted(sides, key=rank)
        kept |= {end: [o for o in sorted(others) if fits[end, o]] for end in sorted(mine)}
    return kept


def _isolated_switches(site: Site, ends: list[int], broken: bool) -> dict[int, float]:
    """Return the switches without any link that were on a path to ``ends``, with their shares. Either their tables
    still have a route to an end, or more ports lost their links than the two ends of one cable (a switch that lost its
    power also lost its tables). ``broken``: whether the present paths do not reach the ends.
    """
    f = site.fabric
    linked = np.zeros(f.sizes.nodes, bool)
    linked[f.port_node[site.peer >= 0]] = True
    bare = [int(n) for n in np.flatnonzero(f.is_switch & ~linked)]
    fell = (np.asarray(f.counters["link_downed_counter"]) > 0) & site.is_switch & linked[f.port_node]
    without = (site.peer < 0) & (f.port_num > 0) & (fell | ~site.is_switch)
    several = broken and site.is_live and int(without.sum()) > ENDS_OF_CABLE
    isolated = [n for n in bare if several or (site.has_tables and any(_leads(site, n, p) for p in ends))]
    return dict.fromkeys(isolated, (1.0 if broken else ALTERNATIVE) / max(1, len(isolated)))


def _leads(site: Site, switch: int, end: int) -> bool:
    """Return whether the table of ``switch`` has a route to ``end``."""
    f, dlid = site.fabric, int(site.lid[end])
    row = int(f.switch_of_node[switch])
    return 0 < dlid < f.lft.shape[1] and 0 < int(f.lft[row, dlid]) <= int(f.node_nports[switch])


def _by_tables(site: Site, a: int, b: int) -> tuple[list[int], str, int]:
    """Return the egress ports from ``a`` to ``b``, the reason if the path ends before ``b``, and the egress port
    without a cable at which it ends (or -1).
    """
    f, hops, port = site.fabric, [], a
    dlid = int(site.lid[b])
    node = int(f.port_node[a])
    if not f.is_switch[node]:
        if site.peer[a] < 0:
            return [], "", -1
        hops.append(a)
        port = int(site.peer[a])
        node = int(f.port_node[port])
    for _ in range(MOST_HOPS):
        if node == int(f.port_node[b]) or not f.is_switch[node]:
            return hops, "" if node == int(f.port_node[b]) else f"it reaches {f.node_name(node)}", -1
        out = int(f.lft[f.switch_of_node[node], dlid]) if 0 < dlid < f.lft.shape[1] else LFT_NO_ROUTE
        if out == LFT_NO_ROUTE or not 0 < out <= int(f.node_nports[node]):
            return hops, f"{f.node_name(node)} has no route to LID {dlid}", -1
        here = int(f.node_base[node]) + out
        if site.peer[here] < 0:
            return hops, f"{site.name(here)}, to which the table points, has no cable", here
        hops.append(here)
        node = int(f.port_node[site.peer[here]])
    return hops, "it loops", -1


def _shortest(site: Site, a: int, b: int, cache: dict[int, np.ndarray]) -> dict[int, float] | None:
    """Return the share of the packets from ``a`` to ``b`` that each egress port sends, if each switch distributes
    packets evenly over its shortest paths. None if ``a`` and ``b`` are not connected by cables.
    """
    start, goal = _switch(site, a), _switch(site, b)
    if start < 0 or goal < 0:
        return None
    if goal not in cache:
        cache[goal] = _distances(site, goal)
    distance = cache[goal]
    if distance[start] < 0:
        return None
    f = site.fabric
    shares: dict[int, float] = {} if f.is_switch[f.port_node[a]] else {a: 1.0}
    front = {start: 1.0}
    while front and goal not in front:
        after: dict[int, float] = {}
        for node, share in front.items():
            ports = np.arange(f.node_base[node] + 1, f.node_base[node] + f.node_nports[node] + 1)
            peers = site.peer[ports]
            there = np.where(peers >= 0, f.port_node[np.maximum(peers, 0)], -1)
            closer = ports[
                (there >= 0)
                & (distance[np.maximum(there, 0)] == distance[node] - 1)
                & f.is_switch[np.maximum(there, 0)]
            ]
            for port in closer.tolist():
                shares[port] = shares.get(port, 0.0) + share / len(closer)
                to = int(f.port_node[site.peer[port]])
                after[to] = after.get(to, 0.0) + share / len(closer)
        front = after
    if not f.is_switch[f.port_node[b]]:
        shares[int(site.peer[b])] = 1.0
    return shares


def _switch(site: Site, port: int) -> int:
    """Return the switch of a port: its node, or for an adapter's port the switch at the other end of the cable; -1 if
    there is none.
    """
    f, node = site.fabric, int(site.fabric.port_node[port])
    if f.is_switch[node]:
        return node
    peer = int(site.peer[port])
    return int(f.port_node[peer]) if peer >= 0 and f.is_switch[f.port_node[peer]] else -1


def _distances(site: Site, goal: int) -> np.ndarray:
    """Return the number of hops from each switch to ``goal`` (int32[nodes]; -1 if there is no path)."""
    f = site.fabric
    rows = np.flatnonzero((site.peer >= 0) & site.is_switch & site.is_switch[np.maximum(site.peer, 0)])
    head, tail = f.port_node[rows], f.port_node[site.peer[rows]]
    distance = np.full(f.sizes.nodes, -1, np.int32)
    distance[goal] = 0
    for hops in range(1, MOST_HOPS):
        new = head[(distance[tail] == hops - 1) & (distance[head] < 0)]
        if not len(new):
            break
        distance[new] = hops
    return distance
