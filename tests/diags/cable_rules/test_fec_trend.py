"""Prediction from errors before correction, on synthetic histories: no public data of failing links exists.

Oracle: the physics of the receiver, not the rule's line. A PAM4 lane with a signal-to-noise ratio of s has a bit error ratio of 3/8 erfc(sqrt(s / 10)) (Gray
code, Gaussian noise); a connector that soils or a laser that ages loses a constant number of decibels a day.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from softib.diags.cable_rules.judge import judge
from softib.diags.cable_rules.thresholds import shipped
from softib.diags.observations import Observations, ObservedPorts

HOURS, GBPS = 14 * 24, 400.0
CORRECTED = "port_fec_corrected_symbol_ctr"
LIMIT = shipped()["pre_fec_ber"]


def ratio_of(db: np.ndarray) -> np.ndarray:
    return np.vectorize(lambda v: 0.375 * math.erfc(math.sqrt(10 ** (v / 10) / 10)))(db)


def decibels_of(ratio: float) -> float:
    low, high = 0.0, 40.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if ratio_of(np.array([middle]))[0] > ratio else (low, middle)
    return low


def history(
    seed: int, links: int, loss_db_a_day: dict[int, float], hours: int = HOURS
) -> tuple[Observations, np.ndarray]:
    """``links`` cables, each with a ratio of its own at the beginning (1e-10 to 1e-6), a day's rhythm in common and alone, slow noise, and a step in one of
    ten; and the ratio of each hour. Errors are drawn by Poisson."""
    rng = np.random.default_rng(seed)
    t = np.arange(hours) / 24
    db = (
        np.array([decibels_of(10**v) for v in rng.uniform(-10, -6, links)])[None, :]
        + 0.05 * np.sin(2 * np.pi * t)[:, None]
    )
    db = db + 0.04 * np.sin(2 * np.pi * (t[:, None] + rng.uniform(0, 1, links))) * rng.uniform(0, 1, links)
    noise = np.zeros((hours, links))
    for hour in range(1, hours):
        noise[hour] = 0.9 * noise[hour - 1] + rng.normal(0, 0.01, links)
    db += noise
    for link in np.flatnonzero(rng.random(links) < 0.1).tolist():  # somebody touched it
        db[int(rng.integers(hours // 4, hours)) :, link] -= rng.uniform(-0.5, 0.5)
    for link, loss in loss_db_a_day.items():
        db[:, link] -= loss * t
    ratio = ratio_of(db)
    counts = rng.poisson(ratio * GBPS * 1e9 * 3600)
    n = 2 * links
    peer = np.arange(n) ^ 1
    ports = ObservedPorts(
        np.arange(1, n + 1, dtype=np.uint64),
        np.ones(n, np.int32),
        np.ones(n, bool),
        tuple(f"s{i}" for i in range(n)),
        np.arange(1, n + 1, dtype=np.int32),
        peer.astype(np.int32),
        np.full(n, GBPS),
        {},
    )
    begin = (np.arange(hours, dtype=np.int64) * 3_600_000_000_000 + 10**18)[:, None] + np.zeros(n, np.int64)
    increase = np.zeros((hours, n), np.uint64)
    increase[:, ::2] = counts
    known = np.ones((hours, n), bool)
    return Observations(ports, begin, begin + 3_600_000_000_000, {CORRECTED: increase}, {CORRECTED: known}, {}), ratio


def until(seen: Observations, hours: int) -> Observations:
    cut = lambda columns: {k: v[:hours] for k, v in columns.items()}
    return replace(
        seen,
        begin_ns=seen.begin_ns[:hours],
        end_ns=seen.end_ns[:hours],
        increase=cut(seen.increase),
        known=cut(seen.known),
    )


def trends(seen: Observations) -> dict[int, float]:
    """Link and the days that are left."""
    return {int(f.where[0].guid - 1) // 2: f.evidence["days_left"] for f in judge(seen) if f.code == "fec-trend"}


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.slow), pytest.param(2, marks=pytest.mark.slow)])
def test_healthy_links_have_no_trend(seed):
    seen, _ = history(seed, 400, {})
    assert trends(seen) == {} and trends(until(seen, 49)) == {} and trends(until(seen, 24)) == {}


def test_links_that_lose_light_are_named_days_before_their_packets_are_lost():
    losses = {link: 0.1 + 0.01 * link for link in range(30)}
    seen, ratio = history(9, 200, losses)
    reached = {k: int(np.argmax(ratio[:, k] > LIMIT)) for k in losses if (ratio[:, k] > LIMIT).any()}
    named: dict[int, int] = {}
    for hours in range(48, HOURS + 1, 24):
        found = trends(until(seen, hours))
        assert set(found) <= set(losses)
        for link in found:
            named.setdefault(link, hours)
    before = [reached[k] - named[k] for k in reached if named.get(k, HOURS) < reached[k]]
    assert len(reached) >= 10 and len(before) >= 0.8 * len(reached) and np.median(before) >= 48, (reached, named)


def test_the_day_that_is_named_is_about_the_day_on_which_it_comes():
    seen, ratio = history(9, 200, {link: 0.1 + 0.01 * link for link in range(30)})
    come = [(link, int(np.argmax(ratio[:, link] > LIMIT))) for link in range(30) if ratio[-1, link] > LIMIT]
    early = [(link, hour) for link, hour in come if hour > 264]
    assert early
    for link, hour in early:
        left = trends(until(seen, hour - 144)).get(link)
        assert left is not None and 3 <= left <= 14  # six days are left


def test_few_errors_and_short_times_say_nothing():
    seen, _ = history(1, 50, {0: 0.5})
    few = replace(seen, increase={CORRECTED: np.minimum(seen.increase[CORRECTED], np.uint64(3))})
    assert trends(few) == {} and trends(until(seen, 40)) == {}
