"""The plan of an acceptance run: rounds, tests and batches, with what each pair ought to take; and
the journal's entries as measurements."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from softib.analysis.acceptance.expected_pairs import Expectation
from softib.diags.acceptance.measurements import Failure, Measurements, PairTest
from softib.diags.acceptance.schedule import Ends, Round, measuring_parts, rounds_of, sub_rounds
from softib.live.acceptance.campaign import Batch, Exchange
from softib.live.acceptance.launchers import HostPort

__all__ = ["AcceptancePlan", "host_ports", "measurements_of", "plan_batches"]

UNKNOWN_GBPS = 100.0
"""Rate by which iterations are counted where no fabric says a better one."""
LATENCY_SIZE = 2
"""Octets of a message that latency is measured with (perftest's default)."""
LATENCIES_PER_SECOND = 1000
LEAST_ITERATIONS = 20


@dataclass(frozen=True)
class AcceptancePlan:
    """``rounds`` of ``tests`` as ``batches`` in the order in which they run; ``sizes``: octets of a
    message by test."""

    rounds: tuple[Round, ...]
    tests: tuple[PairTest, ...]
    batches: tuple[Batch, ...]
    sizes: Mapping[str, int]


def host_ports(ends: Ends) -> list[HostPort]:
    """The ends as launchers take them."""
    return [
        HostPort(n, h, d, int(p))
        for n, h, d, p in zip(ends.node, ends.host, ends.device, ends.portnum.tolist(), strict=True)
    ]


def plan_batches(
    ends: Ends,
    expectation: Expectation | None,
    tests: Sequence[PairTest],
    *,
    per_class: int | None,
    size: int,
    seconds: float,
    at_once: int | None,
    seed: int = 0,
) -> AcceptancePlan:
    """Draw the run up. ``seconds``: how long each program ought to send at the expected rate;
    ``at_once``: pairs at most at a time where each is to be alone."""
    rounds = rounds_of(ends, per_class, seed)
    sizes = {t.name: LATENCY_SIZE if t.latency else size for t in tests}
    batches: list[Batch] = []
    for one in rounds:
        crossed = None if expectation is None else _crossed(expectation, one)
        alone = sub_rounds(ends, one, crossed, at_once) if any(not t.loaded for t in tests) else []
        for test in tests:
            count = _iterations(expectation, test, one, sizes[test.name], seconds)
            pairs = [
                Exchange(int(one.source[i]), int(one.target[i]), sizes[test.name], int(count[i]), seconds)
                for i in range(len(one))
            ]
            if test.under_load:
                batches += _under_load(one, test, pairs)
                continue
            for part, rows in enumerate([np.arange(len(one))] if test.loaded else alone):
                chosen = tuple(pairs[i] for i in rows.tolist())
                batches.append(Batch(one.number, test.name, part, test.latency, test.both, chosen))
    return AcceptancePlan(tuple(rounds), tuple(tests), tuple(batches), sizes)


def _under_load(one: Round, test: PairTest, pairs: Sequence[Exchange]) -> list[Batch]:
    """A batch for each part of the round: its pairs measure, the others are the load. None where a
    round has one pair alone."""
    part = measuring_parts(len(one))
    out = []
    for number in range(int(part.max(initial=-1)) + 1):
        mine = tuple(pairs[i] for i in np.flatnonzero(part == number).tolist())
        load = tuple(pairs[i] for i in np.flatnonzero(part != number).tolist())
        out.append(Batch(one.number, test.name, number, test.latency, test.both, mine, load))
    return out


def _crossed(e: Expectation, one: Round) -> list[set[int]]:
    """Ports that data of each pair leaves by, both directions."""
    there, back = e.paths(one.source, one.target), e.paths(one.target, one.source)
    return [set(there.of(i).tolist()) | set(back.of(i).tolist()) for i in range(len(one))]


def _iterations(e: Expectation | None, test: PairTest, one: Round, size: int, seconds: float) -> np.ndarray:
    if test.latency:
        return np.full(len(one), max(int(LATENCIES_PER_SECOND * seconds), LEAST_ITERATIONS))
    gbps = np.full(len(one), UNKNOWN_GBPS)
    if e is not None:
        expected = e.of_round(test, one, size) / (2 if test.both else 1)
        gbps = np.where(expected > 0, expected, UNKNOWN_GBPS)
    return np.maximum(seconds * gbps * 1e9 / 8 / size, LEAST_ITERATIONS).astype(np.int64)


def measurements_of(ends: Ends, entries: Iterable[Mapping[str, Any]]) -> Measurements:
    """What the entries of a journal hold; a failure that a later run has made good is left out."""
    values: dict[tuple[int, str, int, int], tuple[float, int]] = {}
    failed: dict[tuple[int, str, int, int], tuple[int, str]] = {}
    for e in entries:
        for source, target, value in e["values"]:
            values[e["round"], e["test"], source, target] = (float(value), int(e["part"]))
        for source, target, end, reason in e["failures"]:
            failed[e["round"], e["test"], source, target] = (end, reason)
    rows = [
        {"round": r, "test": t, "source": a, "target": b, "value": v, "part": part}
        for (r, t, a, b), (v, part) in values.items()
    ]
    failures = [
        Failure(r, t, a, b, (a, b)[end] if end >= 0 else -1, reason)
        for (r, t, a, b), (end, reason) in failed.items()
        if (r, t, a, b) not in values
    ]
    return Measurements.of(ends, rows, failures)
