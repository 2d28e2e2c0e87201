"""The cover schedule: as few rounds as possible in which flows between hosts fill every direction of every cable.

In a round, each port sends to one port and receives from one. With forwarding tables, the routes of a round have no
link in common. Every flow therefore runs at the full rate of its slowest link, and each direction is loaded by the
flows chosen for it. With adaptive routing, a flow uses several links. Each round is then a permutation of all ports: of
several shifts, the one that fills the most directions.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from softib.analysis.acceptance.cover.routes import CoverRoutes

__all__ = ["SHARE", "CoverRound", "CoverSchedule", "confirming_round", "cover_schedule", "predicted_gbps"]

SHARE = 0.8
"""Share of its rate that a direction must carry to count as proven."""
TRIES = 4
"""If a round fills none of the remaining directions, this number of other random orders is tried before these
directions count as unreachable.
"""
SHIFTS = 12
"""With adaptive routing, number of random shifts of leaves that are tried in addition to the shifts by pods."""
REPEATS = 2
"""Minimum number of rounds with adaptive routing, because a direction counts as slow only if it was slow in two
rounds."""


@dataclass(frozen=True)
class CoverRound:
    """A round of flows that run at the same time: ``source[i]`` sends to ``target[i]`` (rows of the measuring ports,
    int64). ``carries`` float64[channels]: Gb/s that each channel is expected to carry."""

    number: int
    source: np.ndarray
    target: np.ndarray
    carries: np.ndarray

    def __len__(self) -> int:
        return len(self.source)


@dataclass(frozen=True)
class CoverSchedule:
    """``rounds`` of a cover run. ``proven`` bool[channels]: whether some round is expected to load the channel
    enough."""

    rounds: tuple[CoverRound, ...]
    proven: np.ndarray


def cover_schedule(routes: CoverRoutes, limit: int, seed: int = 0) -> CoverSchedule:
    """Return at most ``limit`` rounds that load every channel that routes can load."""
    make = _adaptive if routes.groups is not None else _by_tables
    return make(routes, limit, np.random.default_rng(seed))


def _by_tables(routes: CoverRoutes, limit: int, rng: np.random.Generator) -> CoverSchedule:
    network = routes.network
    need = SHARE * network.rate
    rounds: list[CoverRound] = []
    failed = 0
    while len(rounds) < limit and need.any() and failed < TRIES:
        source, carried = _filled(routes, need, rng, 0)
        full = (need > 0) & (carried >= need)
        if not full.any():
            failed += 1
            continue
        failed = 0
        target = np.flatnonzero(source >= 0)
        rounds.append(CoverRound(len(rounds), source[target], target, carried))
        need[full] = 0
    return CoverSchedule(tuple(rounds), need == 0)


def _filled(
    routes: CoverRoutes, need: np.ndarray, rng: np.random.Generator, most: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return the sender to each port (-1: none) and the Gb/s on each channel, for one round that fills the remaining
    ``need``."""
    from softib.analysis.acceptance.cover.schedule_kernels import Cover, fill_round

    network = routes.network
    hosts, links, switches = network.n_hosts, network.n_links, network.graph.n_switches
    sends, receives = need[links : links + hosts] > 0, need[links + hosts :] > 0
    draw = rng.permutation(hosts)
    queue = draw[np.lexsort((~sends[draw], network.host_switch[draw]))].astype(np.int64)
    order = draw[np.argsort(~receives[draw], kind="stable")].astype(np.int64)
    first = np.searchsorted(network.host_switch[queue], np.arange(switches + 1)).astype(np.int64)
    table = Cover(
        rate=network.rate,
        need=need.copy(),
        room=network.rate.copy(),
        carried=np.zeros(network.n_channels),
        queue=queue,
        first=first,
        next=first.copy(),
        leaves=np.unique(network.host_switch).astype(np.int64),
        stamp=np.zeros(switches, np.int64),
        gain=np.zeros(switches, np.int64),
        low=np.zeros(switches),
        room_low=np.zeros(switches),
        stack=np.zeros(switches + 2, np.int64),
    )
    source = np.full(hosts, -1, np.int64)
    fill_round(network.table, table, order, most, source)
    return source, table.carried


def _adaptive(routes: CoverRoutes, limit: int, rng: np.random.Generator) -> CoverSchedule:
    need = SHARE * routes.network.rate
    rounds: list[CoverRound] = []
    for source, target in _permutations(routes, rng):
        if len(rounds) >= limit or (len(rounds) >= REPEATS and not need.any()):
            break
        loads = predicted_gbps(routes, source, target)
        if len(rounds) < REPEATS or ((need > 0) & (loads >= need)).any():
            rounds.append(CoverRound(len(rounds), source, target, loads))
            need[loads >= need] = 0
    return CoverSchedule(tuple(rounds), need == 0)


def _permutations(routes: CoverRoutes, rng: np.random.Generator) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield permutations in which all ports of a leaf send to one leaf: first in distant pods, then in the same pod,
    then the same leaf, then with random shifts. A leaf that sends to a single leaf fills its links evenly, whereas
    flows from many leaves to one leaf would wait for each other."""
    leaves = _Leaves(routes)
    pods, size = len(leaves.pods), max(map(len, leaves.pods))
    if pods > 1:
        yield leaves.shifted(pods // 2, 0, 0)
        yield leaves.shifted(pods // 2 + (pods > 3), 1, 1)
    if size > 1:
        yield leaves.shifted(0, size // 2, 0)
        yield leaves.shifted(0, size // 2 + (size > 3), 1)
    yield leaves.shifted(0, 0, 1)
    for _ in range(SHIFTS):
        yield leaves.drawn(rng)


class _Leaves:
    """The leaves by pod. ``pods``: for each pod and each of its leaves, the rows of the leaf's measuring ports."""

    def __init__(self, routes: CoverRoutes):
        switch = routes.network.host_switch
        self.pods = [
            [np.flatnonzero(switch == s) for s in np.unique(switch[routes.pod == p]).tolist()]
            for p in np.unique(routes.pod).tolist()
        ]

    def shifted(self, pods: int, leaves: int, offset: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the flows in which each port sends to the port that is shifted by ``pods`` pods, ``leaves`` leaves
        within the pod, and ``offset`` positions within the leaf. If the other pod or leaf is smaller, some ports have
        no partner."""
        source, target = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
        for p, mine in enumerate(self.pods):
            there = self.pods[(p + pods) % len(self.pods)]
            for i in range(min(len(mine), len(there))):
                a, b = mine[i], there[(i + leaves) % len(there)]
                n = min(len(a), len(b))
                source.append(a[:n])
                target.append(np.roll(b[:n], -offset))
        a, b = np.concatenate(source), np.concatenate(target)
        return a[a != b], b[a != b]

    def drawn(self, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """Return a random shift, to another pod or leaf if there is one."""
        pods, leaves = len(self.pods), max(map(len, self.pods))
        step = int(rng.integers(1, pods)) if pods > 1 else 0
        leaf_step = int(rng.integers(0 if step or leaves < 2 else 1, max(leaves, 1)))
        return self.shifted(step, leaf_step, int(rng.integers(0 if step or leaf_step else 1, 8)))


def confirming_round(routes: CoverRoutes, suspects: np.ndarray, number: int, rng: np.random.Generator) -> CoverRound:
    """Return a round that distinguishes the channels ``suspects`` from each other. With forwarding tables, each flow
    crosses at most one suspect, unless all routes over a suspect cross further suspects. With adaptive routing, each
    leaf is paired with another leaf than before."""
    if routes.groups is not None:
        source, target = _Leaves(routes).drawn(rng)
        return CoverRound(number, source, target, predicted_gbps(routes, source, target))
    need = np.zeros(routes.network.n_channels)
    need[suspects] = SHARE * routes.network.rate[suspects]
    source, carried = _filled(routes, need, rng, 1)
    if not (carried[suspects] >= need[suspects]).any():
        source, carried = _filled(routes, need, rng, 0)
    target = np.flatnonzero(source >= 0)
    return CoverRound(number, source[target], target, carried)


def predicted_gbps(routes: CoverRoutes, source: np.ndarray, target: np.ndarray) -> np.ndarray:
    """Return the Gb/s that flows at full rate put on each channel with adaptive routing (float64[channels]). A switch
    spreads flows over a group's links in proportion to the links' rates; an overloaded link passes on the same share of
    each flow."""
    from softib.analysis.acceptance.cover.schedule_kernels import Spread, spread

    network, groups = routes.network, routes.groups
    assert groups is not None
    switches = network.graph.n_switches
    factor = np.ones(network.n_channels)
    load = np.zeros(network.n_channels)
    tables = Spread(
        group_of=groups.group_of,
        first=groups.first,
        channel=groups.channel,
        flow=np.zeros(switches),
        here=np.zeros(4 * switches, np.int64),
        there=np.zeros(4 * switches, np.int64),
    )
    for _ in range(2):
        load = np.zeros(network.n_channels)
        spread(network.table, tables, source, target, factor, network.rate, load)
        factor = np.minimum(1.0, network.rate / np.maximum(load, 1e-9))
    return np.minimum(load, network.rate)
