"""The network in parts, one for each core: which ports belong together, and how long every cable between parts takes at least."""

from __future__ import annotations

from typing import Any

import numpy as np

from softib.sim.messages import Messages, Opcode
from softib.sim.packet import tables as t
from softib.sim.packet.ethernet_tables import PFC_REACTION_PS, STACK_RECEIVE_PS

__all__ = ["SHORTEST_PS", "lookahead", "parts_of_ports"]

SHORTEST_PS = 100
"""Below this lookahead windows hold too few events to be worth a meeting."""
LEAST_OCTETS = 64
"""Of a message, as work: an empty one has a packet, too."""
MOST_HOPS = 64
TINY = 1e-3
"""Work of a switch that nothing passes: such ones are spread evenly."""
MAD_OCTETS = 290
PAUSE_OCTETS = 84
"""A pause frame with preamble and gap (:mod:`~softib.sim.packet.kernels.pfc`)."""


def parts_of_ports(
    net: Any,
    ends: np.ndarray,
    m: Messages,
    parts: int,
    peer: np.ndarray | None = None,
    lids: np.ndarray | None = None,
) -> np.ndarray:
    """Part of each port (int64[ports]). Switches that carry hosts are cut, in the order of a breadth-first walk (so that what is close stays
    together), where what they and their hosts have to do is even; every other switch joins most of its neighbours, or of equals the part that has less to do.
    Adapters' ports belong to the switch before them; cables that end in no switch to part 0. ``peer``: the ports at the other ends of cables, where other links may come
    up than those of the begin; ``lids``: the destination of each message, by which its packets are followed (without: hosts alone count)."""
    port = net.port
    switch = port[:, t.SWITCH].astype(np.int64)
    peer = (port[:, t.PEER] if peer is None else peer).astype(np.int64)
    switches = int(switch.max(initial=-1)) + 1
    if switches < parts:
        return np.zeros(len(port), np.int64)
    linked = np.flatnonzero((peer >= 0) & (peer != np.arange(len(port))))
    at, peer_switch = switch[linked], switch[peer[linked]]
    octets = m.size + LEAST_OCTETS
    load = np.bincount(ends[m.src], octets, len(port)) + np.bincount(ends[m.dst], octets, len(port))
    weight = np.zeros(switches)
    on_host = (at < 0) & (peer_switch >= 0)
    np.add.at(weight, peer_switch[on_host], load[linked[on_host]] + 1.0)
    between = (at >= 0) & (peer_switch >= 0)
    passing = np.zeros(switches) if lids is None else _passing(net, peer[ends[m.src]], peer, lids, octets, switches)
    part = _cut(_neighbours(at[between], peer_switch[between], switches), weight, passing, parts)
    of_port = np.where(switch >= 0, part[np.maximum(switch, 0)], 0)
    before = np.where(peer >= 0, switch[np.maximum(peer, 0)], -1)
    return np.where((switch < 0) & (before >= 0), part[np.maximum(before, 0)], of_port)


def _passing(
    net: Any, at: np.ndarray, peer: np.ndarray, lids: np.ndarray, octets: np.ndarray, switches: int
) -> np.ndarray:
    """Octets that pass each switch by the forwarding tables; ``at``: the ports that the messages come in by."""
    port, lft, made = net.port, net.lft, np.zeros(switches)
    for _ in range(MOST_HOPS):
        on = (at >= 0) & (port[np.maximum(at, 0), t.SWITCH] >= 0) & (lids < lft.shape[1])
        at, lids, octets = at[on], lids[on], octets[on]
        if not len(at):
            break
        switch = port[at, t.SWITCH]
        made += np.bincount(switch, octets, switches)
        num = lft[switch, lids].astype(np.int64)
        goes_on = (num > 0) & (num < port[at, t.PORTS])
        at, lids, octets = port[at, t.BASE][goes_on] + num[goes_on], lids[goes_on], octets[goes_on]
        at = peer[at]
    return made


def _neighbours(at: np.ndarray, peer_switch: np.ndarray, switches: int) -> list[np.ndarray]:
    """Switches at the other ends of each switch's cables, once for each cable."""
    order = np.argsort(at, kind="stable")
    return np.split(peer_switch[order], np.searchsorted(at[order], np.arange(1, switches)))


def _cut(neighbours: list[np.ndarray], weight: np.ndarray, passing: np.ndarray, parts: int) -> np.ndarray:
    """Part of each switch. ``weight``: what its hosts have to do, 0 where it has none; ``passing``: what itself has."""
    walk = _walk(neighbours, weight)
    part = np.full(len(weight), -1, np.int64)
    leaves = walk[weight[walk] > 0]
    work = (weight + passing)[leaves]
    reached = np.cumsum(work) - work / 2
    part[leaves] = np.minimum((parts * reached / max(work.sum(), 1.0)).astype(np.int64), parts - 1)
    done = np.bincount(part[leaves], work, parts)
    ring = walk[part[walk] < 0]
    while len(ring):
        votes = np.array([np.bincount(part[neighbours[s]][part[neighbours[s]] >= 0], minlength=parts) for s in ring])
        # Who is next to nobody yet waits: all neighbours on the side of the hosts are to be known, or the first ones decide for all.
        now = votes.any(axis=1) if votes.any() else np.arange(len(ring)) == 0
        _join(ring[now], votes[now], passing + TINY, part, done)
        ring = ring[~now]
    return part


def _join(switches: np.ndarray, votes: np.ndarray, passing: np.ndarray, part: np.ndarray, done: np.ndarray) -> None:
    """``switches`` join the part of most neighbours (``votes``); those of equals go last, the busiest first, each to the part with less to do."""
    best = votes == votes.max(axis=1, keepdims=True)
    equal = best.sum(axis=1) > 1
    for i in sorted(range(len(switches)), key=lambda i: (bool(equal[i]), -float(passing[switches[i]]), i)):
        choices = np.flatnonzero(best[i])
        chosen = choices[np.argmin(done[choices])]
        part[switches[i]] = chosen
        done[chosen] += passing[switches[i]]


def _walk(neighbours: list[np.ndarray], weight: np.ndarray) -> np.ndarray:
    """All switches breadth-first, each component from its first that carries hosts."""
    seen = np.zeros(len(weight), bool)
    found: list[np.ndarray] = []
    for root in [*np.flatnonzero(weight > 0).tolist(), *range(len(weight))]:
        ring = np.array([root])[~seen[[root]]]
        while len(ring):
            seen[ring] = True
            found.append(ring)
            reached = np.concatenate([neighbours[s] for s in ring])
            _, first = np.unique(reached, return_index=True)
            reached = reached[np.sort(first)]
            ring = reached[~seen[reached]]
    return np.concatenate(found) if found else np.zeros(0, np.int64)


def lookahead(
    net: Any,
    part: np.ndarray,
    ends: np.ndarray,
    m: Messages,
    network: str = "infiniband",
    cabled: np.ndarray | None = None,
) -> int:
    """ps after which something that happens in a part can matter in another, at the earliest: a credit (over Ethernet a pause frame) or packet over a cable, or the
    arrival of a message that others wait for. :data:`~softib.sim.packet.tables.NEVER` where nothing leads from one to another."""
    port = net.port.astype(np.int64)
    peer = port[:, t.PEER] if cabled is None else cabled.astype(np.int64)
    cut = np.flatnonzero((peer >= 0) & (part != part[np.maximum(peer, 0)]))
    bounds = [t.NEVER]
    if len(cut):
        bounds.append(int((port[cut, t.DELAY] + port[peer[cut], t.LATENCY]).min()))
    if len(cut) and network != "infiniband":
        pause = port[cut, t.DELAY] + PAUSE_OCTETS * port[cut, t.FS] // 1000 + int(net.ethernet[PFC_REACTION_PS])
        bounds.append(int(pause.min()))
    elif len(cut):
        smallest, fcp = int(net.opt[t.SMALLEST]), int(net.opt[t.FCP])
        of_switch = port[np.isin(port[:, t.KIND], (t.SWITCH_PORT, t.REMOTE_PORT))]
        fastest = int(of_switch[of_switch[:, t.FS] > 0, t.FS].min(initial=t.NEVER))
        leaves = min(smallest * fastest, smallest * int(net.opt[t.RX_FS])) // 1000
        credit = port[cut, t.DELAY] + (fcp * port[cut, t.FS]) // 1000 + leaves
        bounds.append(int(credit.min()))
    if len(m.needs):
        owner = np.repeat(np.arange(len(m)), np.diff(m.first))
        asks = np.isin(m.opcode[m.needs], (Opcode.READ, Opcode.ATOMIC, Opcode.COMPUTE))
        where = np.where(asks, ends[m.src[m.needs]], ends[m.dst[m.needs]])
        if (part[where] != part[ends[m.src[owner]]]).any():
            arrives = int(net.ethernet[STACK_RECEIVE_PS]) if network == "tcp" else int(port[where, t.LATENCY].min())
            bounds.append(0 if m.computes.any() else arrives)
    if _shares_processor(part[ends[m.src]], m):
        bounds.append(0)
    if net.management[t.MG_ON]:
        bounds.append(_of_mads(net, port, peer))
    return min(bounds)


def _shares_processor(part: np.ndarray, m: Messages) -> bool:
    """Does a processor have computations in two parts? Who has it next depends on both at once."""
    rows = np.flatnonzero(m.computes)
    order = rows[np.argsort(m.qp[rows], kind="stable")]
    same = m.qp[order][1:] == m.qp[order][:-1]
    return bool((same & (part[order][1:] != part[order][:-1])).any())


def _of_mads(net: Any, port: np.ndarray, peer: np.ndarray) -> int:
    """ps from the event that sends a MAD, or begins to process it, to the one that follows from it: those of a window are known at its begin."""
    on = np.flatnonzero((peer >= 0) & (peer != np.arange(len(peer))))
    wire = MAD_OCTETS * port[on, t.FS] // 1000
    crosses = port[on, t.DELAY] + np.where(port[peer[on], t.SWITCH] >= 0, port[peer[on], t.LATENCY], wire)
    return min(int(crosses.min(initial=t.NEVER)), int(net.management[t.MG_AGENT]), int(net.management[t.MG_FORWARD]))
