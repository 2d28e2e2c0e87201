"""Tests of an acceptance, and the table of their results."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from softib.diags.acceptance.schedule import Ends
from softib.errors import UnknownName
from softib.result import Result

__all__ = ["QUICK", "TESTS", "Failure", "Measurements", "PairTest", "tests_named"]


@dataclass(frozen=True)
class PairTest:
    """A test of pairs. ``latency``: the value is a latency in microseconds, otherwise a bandwidth in Gb/s of payload.
    ``both``: both ends send at the same time. ``loaded``: all pairs of a round measure at the same time, otherwise each
    pair is alone on its links. ``beside``: some pairs of the round measure while the others send in both directions at
    full rate.
    """

    name: str
    latency: bool
    both: bool
    loaded: bool
    meaning: str
    under_load: bool = False

    @property
    def unit(self) -> str:
        """The unit of the test's values."""
        return "us" if self.latency else "Gb/s"


TESTS = {
    t.name: t
    for t in (
        PairTest("bandwidth", False, False, False, "one way, each pair alone on its links"),
        PairTest("bandwidth-both", False, True, False, "both ways at once, each pair alone on its links"),
        PairTest("bandwidth-both-loaded", False, True, True, "both ways at once, all pairs of the round together"),
        PairTest("latency", True, False, False, "half the round-trip time, each pair alone on its links"),
        PairTest("latency-loaded", True, False, True, "half the round-trip time, all pairs of the round together"),
        PairTest(
            "latency-with-bandwidth",
            True,
            False,
            True,
            "half the round-trip time of a quarter of the round's pairs while the others run bandwidth-both",
            True,
        ),
    )
}
"""Tests in the order in which each round runs them."""
QUICK = ("bandwidth-both-loaded", "latency-loaded")


def tests_named(names: Iterable[str]) -> tuple[PairTest, ...]:
    """Return the tests with these names in the order of :data:`TESTS`. Raises
    :class:`UnknownName`."""
    wanted = list(names)
    for name in wanted:
        if name not in TESTS:
            raise UnknownName("test", name, TESTS)
    return tuple(t for t in TESTS.values() if t.name in wanted)


@dataclass(frozen=True)
class Failure:
    """A measurement that failed. ``end``: row of :class:`Ends` that failed, -1 if no single end is at fault.
    ``reason``: one line.
    """

    round: int
    test: str
    source: int
    target: int
    end: int
    reason: str

    def named(self, ends: Ends) -> PairFailure:
        """Return the failure with names of hosts instead of rows."""
        host = ends.host[self.end] if self.end >= 0 else None
        return PairFailure(self.round, self.test, ends.name(self.source), ends.name(self.target), host, self.reason)


@dataclass(frozen=True)
class PairFailure(Result):
    """A pair that could not measure."""

    round: int
    test: str
    source: str
    target: str
    host: str | None
    """The host at fault; null if neither host alone is at fault."""
    reason: str


@dataclass(frozen=True)
class Measurements:
    """``m`` measured values. ``test`` object (a name of :data:`TESTS`), ``round`` int64, ``source`` and ``target``
    int64 (rows of ``ends``), ``value`` float64 in the test's unit. ``part`` int64: in a latency test beside bandwidth,
    the part of the round to which the pair belongs; pairs of one part measure at the same time (None: unknown).
    """

    ends: Ends
    test: np.ndarray
    round: np.ndarray
    source: np.ndarray
    target: np.ndarray
    value: np.ndarray
    failures: tuple[Failure, ...] = ()
    part: np.ndarray | None = None

    def __len__(self) -> int:
        return len(self.value)

    @classmethod
    def of(cls, ends: Ends, rows: Iterable[Mapping[str, Any]], failures: Iterable[Failure] = ()) -> Measurements:
        """Return the measurements from ``rows``, which are mappings with the keys ``test``, ``round``, ``source``,
        ``target``, ``value`` and, if known, ``part``.
        """
        kept = list(rows)
        column = lambda key, kind: np.array([r[key] for r in kept], kind)
        return cls(
            ends,
            column("test", object),
            column("round", np.int64),
            column("source", np.int64),
            column("target", np.int64),
            column("value", np.float64),
            tuple(failures),
            np.array([r.get("part", 0) for r in kept], np.int64),
        )

    def pairs(self, test: str) -> dict[tuple[str, str], float]:
        """Return (source name, target name) → median of the pair's values in this test."""
        values: dict[tuple[str, str], list[float]] = {}
        for i in np.flatnonzero(self.test == test).tolist():
            key = self.ends.name(int(self.source[i])), self.ends.name(int(self.target[i]))
            values.setdefault(key, []).append(float(self.value[i]))
        return {k: float(np.median(v)) for k, v in values.items()}

    @property
    def tests(self) -> tuple[str, ...]:
        """Return the names of the tests that have values."""
        there = set(self.test.tolist())
        return tuple(name for name in TESTS if name in there)
