"""Result of a cover run: proven directions of cables by tier, unproven directions with the reasons, slow directions,
and slow flows that no slow direction explains."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from softib.analysis.acceptance.cover.measured import MeasuredRound, SlowDirections, carried_most
from softib.analysis.acceptance.cover.routes import CoverRoutes
from softib.analysis.acceptance.cover.schedule import SHARE, CoverSchedule
from softib.diags.acceptance.schedule import Ends
from softib.diags.structure.recognise import recognise
from softib.result import Result
from softib.sim.static import all_to_all

__all__ = [
    "CoverRoundCounts",
    "DirectionLoss",
    "Proof",
    "TierCoverage",
    "UnexplainedFlow",
    "UnprovenDirection",
    "proof_of",
]


@dataclass(frozen=True)
class TierCoverage(Result):
    """Directions between two tiers."""

    tier: str
    """The sender's and the receiver's tier: ``hosts to leaves``, ``tier 1 to tier 2`` …"""
    directions: int
    planned: int
    """Number of directions that some round is expected to load to 80 % of their rate."""
    proven: int
    """Number of directions whose counters moved at 80 % of their rate or more in a round."""


@dataclass(frozen=True)
class CoverRoundCounts(Result):
    """Counts of a cover round."""

    number: int
    flows: int
    failed: int
    """Number of flows that did not run."""
    planned: int
    """Number of directions that the round is expected to load to 80 % of their rate."""
    proven: int
    """Number of directions that carried 80 % of their rate or more."""
    confirms: bool
    """Whether the round was added to distinguish slow directions."""


@dataclass(frozen=True)
class UnprovenDirection(Result):
    """A direction of a cable that no round proved."""

    place: str
    """The sending port, for example ``leaf-3[40]``."""
    peer: str
    """The receiving port."""
    gbps: float
    """Data rate of the link."""
    planned_gbps: float
    """Largest expected load in a round."""
    measured_gbps: float | None
    """Largest measured load in a round; null if its counters were not read."""
    why: str


@dataclass(frozen=True)
class DirectionLoss(Result):
    """A direction that is slower than similar directions."""

    place: str
    peer: str
    loss_percent: float
    rounds: int
    """Number of rounds that loaded the direction; it was slow in all of them."""
    undistinguished: list[str] = field(default_factory=list)
    """Other directions that cannot be distinguished from this one, because the same flows crossed them in each of these
    rounds."""


@dataclass(frozen=True)
class UnexplainedFlow(Result):
    """A slow flow that crosses none of the slow directions."""

    round: int
    source: str
    target: str
    loss_percent: float


@dataclass(frozen=True)
class Proof:
    """Source data of :class:`~softib.api.acceptance.coverage.Coverage`."""

    tiers: list[TierCoverage]
    rounds: list[CoverRoundCounts]
    unproven: list[UnprovenDirection]
    slow: list[DirectionLoss]
    unexplained: list[UnexplainedFlow]
    planned: int
    proven: int


def proof_of(
    routes: CoverRoutes,
    ends: Ends,
    schedule: CoverSchedule,
    rounds: Sequence[MeasuredRound],
    slow: SlowDirections,
    limit: int,
) -> Proof:
    """Return the proof of a cover run, from its counters. ``limit``: maximum number of rounds of its schedule."""
    network = routes.network
    channel = routes.channel[routes.directions]
    channel_or_0 = np.maximum(channel, 0)
    most = carried_most(rounds, network.n_channels)
    with np.errstate(invalid="ignore"):
        carried = most >= SHARE * network.rate
    planned = (channel >= 0) & schedule.proven[channel_or_0]
    proven = (channel >= 0) & carried[channel_or_0]
    bill = _bill(routes, schedule, most, np.flatnonzero(~proven), limit)
    counts = [_counts(routes, one, i >= len(schedule.rounds)) for i, one in enumerate(rounds)]
    losses = [
        DirectionLoss(
            *_names(routes, int(routes.port[d.channel])),
            round(100 * d.loss, 2),
            d.rounds,
            [" → ".join(_names(routes, int(routes.port[c]))) for c in d.same],
        )
        for d in slow.named
    ]
    flows = [UnexplainedFlow(r, ends.name(s), ends.name(t), round(100 * loss, 2)) for r, s, t, loss in slow.flows]
    return Proof(_tiers(routes, planned, proven), counts, bill, losses, flows, int(planned.sum()), int(proven.sum()))


def _counts(routes: CoverRoutes, one: MeasuredRound, confirms: bool) -> CoverRoundCounts:
    need = SHARE * routes.network.rate
    with np.errstate(invalid="ignore"):
        carried = one.gbps >= need
    return CoverRoundCounts(
        one.plan.number,
        len(one.plan),
        len(one.failures),
        int((one.plan.carries >= need).sum()),
        int(carried.sum()),
        confirms,
    )


def _tiers(routes: CoverRoutes, planned: np.ndarray, proven: np.ndarray) -> list[TierCoverage]:
    f = routes.fabric
    rank = np.maximum(np.asarray(recognise(f).rank), 0)
    here = rank[f.port_node[routes.directions]]
    there = rank[f.port_node[f.port_peer[routes.directions]]]
    out = []
    for a, b in sorted(set(zip(here.tolist(), there.tolist(), strict=True))):
        mine = (here == a) & (there == b)
        counts = int(mine.sum()), int(planned[mine].sum()), int(proven[mine].sum())
        out.append(TierCoverage(f"{_tier(a)} to {_tier(b)}", *counts))
    return out


def _tier(rank: int) -> str:
    return "hosts" if not rank else "leaves" if rank == 1 else f"tier {rank}"


def _names(routes: CoverRoutes, port: int) -> tuple[str, str]:
    f = routes.fabric
    return f.port_name(port), f.port_name(int(f.port_peer[port]))


def _bill(
    routes: CoverRoutes, schedule: CoverSchedule, most: np.ndarray, missing: np.ndarray, limit: int
) -> list[UnprovenDirection]:
    """Return each unproven direction with its reason."""
    if not len(missing):
        return []
    network = routes.network
    used = all_to_all(network).load if routes.groups is None else None
    planned = np.zeros(network.n_channels)
    for one in schedule.rounds:
        planned = np.maximum(planned, one.carries)
    out = []
    for row in missing.tolist():
        port = int(routes.directions[row])
        c = int(routes.channel[port])
        expected = float(planned[c]) if c >= 0 else 0.0
        measured = float(most[c]) if c >= 0 and np.isfinite(most[c]) else None
        why = _why(routes, c, used, schedule, limit, expected, measured)
        place, peer = _names(routes, port)
        out.append(
            UnprovenDirection(
                place,
                peer,
                float(routes.gbps[port]),
                round(expected, 3),
                None if measured is None else round(measured, 3),
                why,
            )
        )
    return out


def _why(
    routes: CoverRoutes,
    c: int,
    used: Any,
    schedule: CoverSchedule,
    limit: int,
    expected: float,
    measured: float | None,
) -> str:
    if c < 0:
        return "no measuring port is at its end, and no route between measuring ports can use it"
    if schedule.proven[c]:
        if measured is None:
            return "its counters were not read in the round that loads it"
        return "it carried less than 80 % of its rate in every round meant to load it"
    if used is not None and used[c] == 0:
        return "no route between measuring ports uses it"
    if len(schedule.rounds) >= limit:
        return f"the schedule has no more than {limit} rounds (--rounds)"
    if routes.groups is not None:
        return "adaptive routing puts too little of every tried permutation on it"
    if expected:
        return "the ports whose routes use it are too few, or too slow, to fill it"
    return "no set of flows with disjoint routes fills it"
