"""A cover run: the rounds of its schedule, then further rounds that show which of several possible directions is
slow."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from softib.analysis.acceptance.cover.measured import MeasuredRound, SlowDirections, slow_directions
from softib.analysis.acceptance.cover.routes import CoverRoutes
from softib.analysis.acceptance.cover.schedule import CoverRound, CoverSchedule, confirming_round

__all__ = ["MORE", "CoverRun", "run_cover"]

MORE = 5
"""Maximum number of rounds after those of the schedule."""

Measure = Callable[[CoverRound], MeasuredRound]
Progress = Callable[[int, int], None]


class CoverRun(NamedTuple):
    """The measured rounds of a cover run, and the slow directions that they show."""

    rounds: list[MeasuredRound]
    slow: SlowDirections


def run_cover(
    routes: CoverRoutes, schedule: CoverSchedule, measure: Measure, progress: Progress, seed: int = 0
) -> CoverRun:
    """Measure every round of the schedule. Then, while slow directions cannot be distinguished from others, measure up
    to :data:`MORE` further rounds. ``progress`` is called with the number of rounds done and the number of all
    rounds."""
    rounds: list[MeasuredRound] = []
    for one in schedule.rounds:
        rounds.append(measure(one))
        progress(len(rounds), len(schedule.rounds))
    slow = slow_directions(routes, rounds)
    rng = np.random.default_rng(seed)
    for _ in range(MORE if rounds else 0):
        unclear = _unclear(routes, slow)
        if not len(unclear):
            break
        one = confirming_round(routes, unclear, len(rounds), rng)
        if not len(one):
            break
        rounds.append(measure(one))
        progress(len(rounds), len(rounds))
        slow = slow_directions(routes, rounds)
    return CoverRun(rounds, slow)


def _unclear(routes: CoverRoutes, slow: SlowDirections) -> np.ndarray:
    """Return the channels that need another round. They are needed because, with adaptive routing, a slow link also
    affects later links of its paths if every round pairs the same leaves."""
    several = routes.groups is not None and len(slow.named) > 1
    named = [d.channel for d in slow.named] if several else []
    return np.concatenate([slow.suspects, np.array(named, np.int64)])
