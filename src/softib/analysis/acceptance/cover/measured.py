"""Evaluates the counters of each round: whether each direction carried its share, and whether it is slower than similar
directions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from softib.analysis.acceptance.cover.routes import CoverRoutes
from softib.analysis.acceptance.cover.schedule import SHARE, CoverRound
from softib.diags.structure.recognise import recognise

__all__ = ["MeasuredRound", "SlowDirection", "SlowDirections", "carried_most", "possible_channels", "slow_directions"]

TOLERANCE = 0.003
"""Minimum loss of a slow direction, as a share of the usual rate of its kind. The loss must also exceed the spread of
the kind."""
SPREADS = 12.0
"""Minimum distance of a slow direction's rate from the usual rate of its kind, in median deviations of the better half
of the kind. For normally distributed noise, this is four standard deviations."""
TWICE = 2
"""Number of rounds in which a direction must be slow."""
CLEARLY = 1.1
"""A neighbour of a slow direction counts as its victim if the slow direction's loss is at least this many times the
neighbour's."""
ERRORS = 4.0
"""Minimum distance of a slow direction's rate from the usual rate of its kind, in standard errors of the direction's
rate."""
LOWER = 0.001
"""Minimum distance of a slow direction's rate from the median of its kind at the same switch, as a share of the median.
It corresponds to two packets, because a round may gain or lose one by chance."""
FEW = 8
"""Directions of a kind are compared within a round if there are at least this number of them; otherwise over all
rounds."""


@dataclass(frozen=True)
class MeasuredRound:
    """A measured round. ``plan``: the planned round. ``gbps`` float64[channels]: rate of each channel while all flows
    ran (NaN: its port was not read). ``failures``: (source, target, reason) of flows that did not run. ``error``:
    standard error of each rate over the parts of the round (None: unknown). The error distinguishes a program that
    waits for a processor, which sends unevenly, from a slow cable, which carries the same amount in each part."""

    plan: CoverRound
    gbps: np.ndarray
    failures: tuple[tuple[int, int, str], ...] = ()
    error: np.ndarray | None = None


@dataclass(frozen=True)
class SlowDirection:
    """``channel`` carried ``loss`` less than usual (0 to 1), in each of ``rounds`` rounds.
    ``same``: channels that the same flows crossed in all these rounds, so they cannot be
    distinguished from it."""

    channel: int
    loss: float
    rounds: int
    same: tuple[int, ...] = ()


@dataclass(frozen=True)
class SlowDirections:
    """``named``: channels that were slow in every round that loaded them, and in at least two. ``suspects`` int64:
    channels that were slow in the only round that loaded them. ``flows``: (round, source, target, loss) of slow flows
    that cross no channel of ``named``."""

    named: tuple[SlowDirection, ...]
    suspects: np.ndarray
    flows: tuple[tuple[int, int, int, float], ...]


def carried_most(rounds: Sequence[MeasuredRound], channels: int) -> np.ndarray:
    """Return the largest rate of each channel in any round (float64; NaN: never read)."""
    most = np.full(channels, np.nan)
    for one in rounds:
        most = np.fmax(most, one.gbps)
    return most


def slow_directions(routes: CoverRoutes, rounds: Sequence[MeasuredRound]) -> SlowDirections:
    """Return the slow channels. In each round, every loaded channel is compared with the other channels of its kind."""
    n = routes.network.n_channels
    kind = _kinds(routes)
    uses = [(r.plan.carries >= SHARE * routes.network.rate) & np.isfinite(r.gbps) for r in rounds]
    ratios = [
        np.where(use, r.gbps / np.maximum(r.plan.carries, 1e-12), np.nan) for r, use in zip(rounds, uses, strict=True)
    ]
    usual = _usual(ratios, kind)
    loaded, slow = np.zeros(n, np.int64), np.zeros(n, np.int64)
    loss, precision = np.full(n, np.inf), np.full(n, np.inf)
    lows: list[np.ndarray] = []
    for one, use, ratio in zip(rounds, uses, ratios, strict=True):
        lack = _lack(ratio, kind, usual, routes.network.link_owner)
        error = np.zeros(n)
        if one.error is not None:
            error = ERRORS * np.nan_to_num(one.error) / np.maximum(np.nan_to_num(one.gbps), 1e-12)
            lack = np.where(lack > error, lack, 0.0)
            if routes.groups is not None and use.any():
                error = np.full(n, error[use].max())  # while one flow pauses, the others fill its links
        loaded += use
        precision = np.where(use & (lack <= 0), np.minimum(precision, error), precision)
        slow += lack > 0
        loss = np.where(lack > 0, np.minimum(loss, lack), loss)
        lows.append(lack)
    # If the error of a rate exceeds the supposed loss in a round, this round does not contradict the loss.
    always = (slow > 0) & ((slow == loaded) | (precision > loss / 2))
    named = np.flatnonzero(always & (slow >= TWICE))
    named = named[np.argsort(-loss[named], kind="stable")]
    if routes.groups is not None:
        named = _without_victims(routes, named, loss)
    together = _crossed_together(routes, rounds, named)
    found = tuple(SlowDirection(c, float(loss[c]), int(slow[c]), tuple(same)) for c, *same in together)
    return SlowDirections(found, np.flatnonzero(always & (slow < TWICE)), _unexplained(routes, rounds, lows, named))


def _crossed_together(routes: CoverRoutes, rounds: Sequence[MeasuredRound], named: np.ndarray) -> list[list[int]]:
    """Return groups of the channels ``named``, in their order. Exactly the same flows crossed all channels of a group.
    A channel is left out if another one explains its loss: all its flows crossed the other channel, which also slowed
    further flows."""
    if routes.groups is not None or len(named) < 2:
        return [[c] for c in named.tolist()]
    flows: dict[int, set[tuple[int, int]]] = {c: set() for c in named.tolist()}
    for number, one in enumerate(rounds):
        for s, t in zip(one.plan.source.tolist(), one.plan.target.tolist(), strict=True):
            for c in routes.network.path(s, t).tolist():
                if c in flows:
                    flows[c].add((number, t))
    together: dict[frozenset[tuple[int, int]], list[int]] = {}
    for c, crossed in flows.items():
        together.setdefault(frozenset(crossed), []).append(c)
    return [channels for crossed, channels in together.items() if not any(crossed < other for other in together)]


def _kinds(routes: CoverRoutes) -> np.ndarray:
    """Return the kind of each channel as a number (int64). Channels are of one kind if they have the same rate and all
    lead from hosts to switches, from switches to hosts, or from one tier of switches to the same other tier."""
    network = routes.network
    rank = np.asarray(recognise(routes.fabric).rank)[network.graph.switch_node].astype(np.int64)
    links, hosts = network.n_links, network.n_hosts
    tiers = np.zeros(network.n_channels, np.int64)
    tiers[:links] = 2 + (rank[network.link_owner] + 1) * (int(rank.max(initial=0)) + 2) + rank[network.graph.peer] + 1
    tiers[links + hosts :] = 1
    rate = np.unique(network.rate, return_inverse=True)[1]
    return np.unique(tiers * (int(rate.max(initial=0)) + 1) + rate, return_inverse=True)[1].astype(np.int64)


def _usual(ratios: Sequence[np.ndarray], kind: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return, for each kind, the share of the planned load that its channels typically carried in all rounds, and the
    spread of this share."""
    many = int(kind.max(initial=0)) + 1
    usual, spread = np.full(many, np.nan), np.zeros(many)
    every = np.concatenate(ratios) if ratios else np.zeros(0)
    kinds = np.tile(kind, len(ratios))
    for k in range(many):
        mine = every[(kinds == k) & np.isfinite(every)]
        if len(mine):
            usual[k], spread[k] = _typical(mine)
    return usual, spread


def _typical(values: np.ndarray) -> tuple[float, float]:
    """Return the median of the better half and the median deviation from it. The worse half is left out, because one
    slow link slows many flows, including those whose acknowledgements cross it."""
    better = values[values >= np.median(values)]
    usual = float(np.median(better))
    return usual, float(np.median(np.abs(better - usual)))


def _lack(ratio: np.ndarray, kind: np.ndarray, usual: tuple[np.ndarray, np.ndarray], owner: np.ndarray) -> np.ndarray:
    """Return the loss of each used channel relative to its kind (0 to 1; 0: insignificant); between
    switches, also relative to the switch's other channels of the same kind."""
    lack = np.zeros(len(ratio))
    rows = np.flatnonzero(np.isfinite(ratio))
    if not len(rows):
        return lack
    mine, kinds = ratio[rows], kind[rows]
    below = _below(mine, kinds, FEW)
    alone = np.isnan(below)
    below[alone] = _lacking(mine[alone], usual[0][kinds[alone]], usual[1][kinds[alone]])
    links = np.flatnonzero(rows < len(owner))
    sibling = _below(mine[links], owner[rows[links]] * (int(kind.max()) + 1) + kinds[links], 3, False)
    below[links] = np.where(sibling <= 0, 0.0, below[links])  # NaN if there are too few other channels to compare with
    lack[rows] = below
    return lack


def _below(ratio: np.ndarray, group: np.ndarray, least: int, spreads: bool = True) -> np.ndarray:
    """Return how far each ratio is below the typical ratio of its group; 0 within the group's spread. Without
    ``spreads``, compare with the median, and return 0 within :data:`LOWER`. NaN for groups with fewer than ``least``
    members."""
    out = np.full(len(ratio), np.nan)
    order = np.argsort(group, kind="stable")
    starts = np.flatnonzero(np.diff(group[order], prepend=-1))
    for rows in np.split(order, starts[1:]):
        if len(rows) >= least:
            usual, spread = _typical(ratio[rows]) if spreads else (float(np.median(ratio[rows])), 0.0)
            out[rows] = _lacking(ratio[rows], usual, spread, TOLERANCE if spreads else LOWER)
    return out


def _lacking(ratio: np.ndarray, usual: Any, spread: Any, least: float = TOLERANCE) -> np.ndarray:
    """Return how far each ratio is below ``usual``, as a share of ``usual``; 0 within the ``spread`` and below
    ``least``."""
    lack = 1 - ratio / np.maximum(usual, 1e-12)
    return np.where(lack > np.maximum(least, SPREADS * spread / np.maximum(usual, 1e-12)), lack, 0.0)


def _without_victims(routes: CoverRoutes, named: np.ndarray, loss: np.ndarray) -> np.ndarray:
    """Return ``named`` without victims, which are channels near one with a clearly larger loss. Traffic that a slow
    link does not carry to or from a switch is also missing on other links of that switch or of the next one. A slow
    link into a switch also reduces the traffic to most of the switch's hosts; its own loss may be larger or smaller
    than theirs."""
    network = routes.network
    owner = np.full(network.n_channels, -1)
    owner[: network.n_links] = network.link_owner
    owner[network.n_links + network.n_hosts :] = network.host_switch
    to = network.chan_to
    to_hosts = named >= network.n_links + network.n_hosts
    brought = set(to[named[named < network.n_links]].tolist())
    hosts = np.bincount(network.host_switch)
    most = {
        s for s, n in zip(*np.unique(owner[named[to_hosts]], return_counts=True), strict=True) if 2 * n > hosts[s] > 1
    }
    named = named[
        [not (h and owner[c] in brought & most) for c, h in zip(named.tolist(), to_hosts.tolist(), strict=True)]
    ]

    links = np.stack([network.link_owner, network.graph.peer])

    def switches_around(c: int) -> np.ndarray:
        ends = np.array([s for s in (owner[c], to[c]) if s >= 0])
        return np.union1d(ends, links[1, np.isin(links[0], ends)])

    around = {c: switches_around(c) for c in named.tolist()}

    def victim(c: int) -> bool:
        return any(
            loss[b] >= CLEARLY * loss[c] and bool(np.isin([owner[c], to[c]], switches).any())
            for b, switches in around.items()
        )

    return np.array([c for c in named.tolist() if not victim(c)], np.int64)


def _unexplained(
    routes: CoverRoutes, rounds: Sequence[MeasuredRound], lows: Sequence[np.ndarray], named: np.ndarray
) -> tuple[tuple[int, int, int, float], ...]:
    """Return the flows that are slow according to the counters of their ports and cannot cross
    any channel of ``named``."""
    network, blamed = routes.network, set(named.tolist())
    lossy = []
    for one, low in zip(rounds, lows, strict=True):
        source, target = one.plan.source, one.plan.target
        less = np.maximum(low[network.n_links + source], low[network.n_links + network.n_hosts + target])
        for i in np.flatnonzero(less > 0).tolist():
            s, t = int(source[i]), int(target[i])
            if not blamed & possible_channels(routes, s, t):
                lossy.append((one.plan.number, s, t, float(less[i])))
    return tuple(lossy)


def possible_channels(routes: CoverRoutes, source: int, target: int) -> set[int]:
    """Return the channels that a flow crosses, or may cross if switches route adaptively."""
    network, groups = routes.network, routes.groups
    if groups is None:
        return set(network.path(source, target).tolist())
    lid, last = int(network.host_lid[target]), network.n_links + network.n_hosts + target
    found, todo, seen = {network.n_links + source, last}, [int(network.host_switch[source])], set()
    while todo:
        s = todo.pop()
        if s in seen:
            continue
        seen.add(s)
        g = int(groups.group_of[s, lid])
        out = (
            groups.channel[groups.first[g] : groups.first[g + 1]] if g >= 0 else network.chan_at[s, network.lft[s, lid]]
        )
        for c in np.atleast_1d(out).tolist():
            if c < 0:
                continue
            found.add(c)
            if network.chan_to[c] >= 0:
                todo.append(int(network.chan_to[c]))
    return found
