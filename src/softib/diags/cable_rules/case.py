"""Input of every rule: the observations, derived values, the thresholds and the forwarding tables."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from softib.diags.cable_rules.chances import poisson_tail
from softib.diags.cable_rules.thresholds import Thresholds
from softib.diags.finding import Finding, Location
from softib.diags.observations import ForwardingTables, Observations
from softib.iba.rates import SPEEDS

__all__ = ["Case", "Suspicion", "blame", "span_text"]

NS = 1e9


@dataclass(frozen=True)
class Suspicion:
    """Result of a rule: ``finding``, the row of the port that is most likely at fault (-1: none), and the confidence (0
    to 1). ``cable``: the cable or one of its ends is at fault, so this suspicion counts in the search for common
    causes.
    """

    finding: Finding
    port: int = -1
    confidence: float = 1.0
    cable: bool = True


class Case:
    """Observations of a fabric, and the queries that rules make. Rows are rows of ``observations.ports``."""

    def __init__(self, observations: Observations, limits: Thresholds, tables: ForwardingTables | None = None):
        self.obs = observations
        self.ports = observations.ports
        self.limits = limits
        self.tables = tables
        self.n = len(observations.ports)

    # -- locations and texts --

    @cached_property
    def _names(self) -> list[str]:
        owners: dict[str, set[int]] = {}
        guids = self.ports.node_guid.tolist()
        for name, guid in zip(self.ports.node, guids, strict=True):
            owners.setdefault(name, set()).add(guid)
        return [
            n if n and len(owners[n]) == 1 else f"{n} ({g:#018x})".strip()
            for n, g in zip(self.ports.node, guids, strict=True)
        ]

    @cached_property
    def _rows(self) -> dict[tuple[int, int], int]:
        pairs = zip(self.ports.node_guid.tolist(), self.ports.portnum.tolist(), strict=True)
        return {pair: row for row, pair in enumerate(pairs)}

    def row_of(self, guid: int, portnum: int) -> int:
        """Return the row of a port; -1 if it was not observed."""
        return self._rows.get((guid, portnum), -1)

    def location(self, row: int) -> Location:
        """Return the location of a port."""
        return Location(
            self.ports.node[row], int(self.ports.node_guid[row]), int(self.ports.portnum[row]), self._names[row]
        )

    def node_location(self, row: int) -> Location:
        """Return the location of the port's node."""
        return Location(self.ports.node[row], int(self.ports.node_guid[row]), None, self._names[row])

    def ends(self, row: int) -> list[Location]:
        """Return the port and, if known, the port at the other end of its cable."""
        peer = int(self.ports.peer[row])
        return [self.location(row)] + ([self.location(peer)] if peer >= 0 else [])

    def link(self, row: int) -> str:
        """Return the link as text: ``leaf-3[40] ↔ spine-2[3]``."""
        return " ↔ ".join(map(str, self.ends(row)))

    def text(self, name: str, row: int) -> str:
        """Return the port's text with this name (:attr:`ObservedPorts.text`); "" if it is unknown."""
        column = self.ports.text.get(name)
        return "" if column is None else str(column[row])

    # -- cables --

    @cached_property
    def cable(self) -> np.ndarray:
        """Return the row that identifies the cable of each port: the smaller row of the cable's two ends (int64[n])."""
        rows = np.arange(self.n)
        peer = np.asarray(self.ports.peer, np.int64)
        return np.where(peer >= 0, np.minimum(rows, peer), rows)

    @cached_property
    def cables(self) -> np.ndarray:
        """Return the rows that identify cables (int64[m]): rows of ports with a peer or a rate."""
        cabled = (self.ports.peer >= 0) | (self.ports.rate_gbps > 0)
        return np.unique(self.cable[cabled])

    @cached_property
    def node(self) -> np.ndarray:
        """Return a number for the node of each port (int64[n])."""
        return np.unique(self.ports.node_guid, return_inverse=True)[1].reshape(-1)

    @cached_property
    def to_host(self) -> np.ndarray:
        """Return whether the cable of each port has a channel adapter at one end (bool[n])."""
        peer = self.ports.peer
        other = np.where(peer >= 0, self.ports.switch[np.maximum(peer, 0)], True)
        return np.asarray(~self.ports.switch | ~other)

    # -- counters --

    def column(self, counter: str) -> np.ndarray:
        """Return the increase of the counter in each interval (float64[k, n]; 0 if the counter was not observed)."""
        increase = self.obs.increase.get(counter)
        shape = (self.obs.intervals, self.n)
        return np.zeros(shape) if increase is None else np.asarray(increase, np.float64)

    def known(self, counter: str) -> np.ndarray:
        """Return whether the increase of the counter is known (bool[k, n])."""
        column = self.obs.known.get(counter)
        return np.zeros((self.obs.intervals, self.n), bool) if column is None else np.asarray(column, bool)

    @cached_property
    def span_s(self) -> np.ndarray:
        """Return the seconds of each interval of each port (float64[k, n])."""
        return np.asarray(np.maximum(self.obs.end_ns - self.obs.begin_ns, 0) / NS)

    def observed_s(self, counter: str) -> np.ndarray:
        """Return the seconds for which the counter of each port is known (float64[n])."""
        return self.obs.seconds(counter)

    @cached_property
    def rates(self) -> np.ndarray:
        """Return the data rate of each port in each interval in Gb/s (float64[k, n]): the observed rate, or if there is
        none, the rate of the port's last PortInfo.
        """
        now = np.broadcast_to(np.asarray(self.ports.rate_gbps, np.float64), (self.obs.intervals, self.n))
        stated = self.obs.level.get("rate_gbps")
        return now if stated is None else np.where(np.isnan(stated), now, stated)

    @cached_property
    def best_rate(self) -> np.ndarray:
        """Return the largest observed rate of each port (float64[n])."""
        return np.maximum(np.asarray(self.ports.rate_gbps, float), self.rates.max(axis=0, initial=0.0))

    @cached_property
    def trained(self) -> np.ndarray:
        """Return the short intervals in which an end of the cable counted LinkDowned, so that errors may come from link
        training (bool[k, n]).
        """
        here = self.column("link_downed_counter") > 0
        peer = self.ports.peer
        there = np.where(peer >= 0, here[:, np.maximum(peer, 0)], False)
        return np.asarray((here | there) & (self.span_s < self.limits["training_interval"]))

    def level(self, name: str) -> np.ndarray:
        """Return the observed value ``name``, which is not a counter (float64[k, n]; NaN if unknown)."""
        column = self.obs.level.get(name)
        return np.full((self.obs.intervals, self.n), np.nan) if column is None else np.asarray(column, float)

    def stands(self, counter: str) -> np.ndarray:
        """Return whether the counter was saturated in each interval, so that its increase is unknown (bool[k, n])."""
        return np.asarray(self.level(f"stuck_{counter}") >= 1)

    def arrived(self, counter: str) -> np.ndarray:
        """Return whether the counter became saturated in each interval, so that it counted an unknown number of events
        (bool[k, n]).
        """
        return np.asarray(self.level(f"stuck_{counter}") == 2)

    # -- probabilities --

    @cached_property
    def probability(self) -> float:
        """Return the allowed probability that one test of one port gives a false alarm."""
        return self.limits["false_alarms"] / max(1, self.n * (self.obs.intervals + 1))

    def too_many(self, n: float, mean: float) -> tuple[bool, float]:
        """Return whether ``n`` events are significantly more than a Poisson distribution with this mean explains, and
        the confidence."""
        p = poisson_tail(int(n), mean)
        return p < self.probability, 1.0 - min(1.0, p / max(self.probability, 1e-300) * self.limits["false_alarms"])

    def when(self, rows: np.ndarray, counter: str) -> dict[str, Any]:
        """Return the clock times in ns of the first and last interval in which the counter rose on any of the rows."""
        rose = (self.column(counter)[:, rows] > 0).any(axis=1)
        at = np.flatnonzero(rose)
        if not len(at):
            return {}
        return {
            "first_ns": int(self.obs.begin_ns[at[0], rows].min()),
            "last_ns": int(self.obs.end_ns[at[-1], rows].max()),
        }


_SPEED_OF = {round(s.lane_data_gbps * lanes, 3): s for lanes in (12, 8, 2, 1, 4) for s in SPEEDS}


def line_rate(gbps: float) -> float:
    """Return the bits per second on the line of a link with ``gbps`` of data: 8b/10b or 64b/66b coding adds bits."""
    speed = _SPEED_OF.get(round(gbps, 3))
    return gbps * 1e9 * (speed.lane_gbps / speed.lane_data_gbps if speed else 66 / 64)


def speed_name(gbps: float) -> str:
    """Return the generation of a link with ``gbps`` of data ("" if no generation has this rate). If several widths
    match, four lanes are assumed.
    """
    speed = _SPEED_OF.get(round(gbps, 3))
    return speed.name if speed else ""


def signalling_rate(gbps: float) -> float:
    """Return the signalling rate of one lane, in bit/s, of a link with data rate ``gbps``. If several widths match,
    four lanes are assumed.
    """
    speed = _SPEED_OF.get(round(gbps, 3))
    return speed.lane_gbps * 1e9 if speed else gbps * 1e9 * 66 / 64 / 4


def span_text(seconds: float) -> str:
    """Return the duration as text: ``12 min``, ``3.5 h``, ``2 days``."""
    for size, name in ((86400.0, "days"), (3600.0, "h"), (60.0, "min")):
        if seconds >= 2 * size:
            return f"{seconds / size:.3g} {name}"
    return f"{seconds:.3g} s"


ONE_SIDED = 10.0
"""Only one direction counts as bad if it has at least this many times the errors of the other (chosen by softib)."""
WARM = 10.0
"""Minimum temperature difference in degrees at which the warmer module is more likely to be at fault (10 in
pdr_deterministic_plugin)."""


def blame(case: Case, row: int, errors: np.ndarray, stated: np.ndarray) -> tuple[int, str]:
    """Return, for the cable at ``row``, the row of the end to inspect first, and the reason. ``errors`` float64[n]:
    errors that each port received. ``stated`` bool[k, n]: whether they are known.
    """
    peer = int(case.ports.peer[row])
    if peer < 0:
        return row, "the other end was not observed: cable, or either module"
    here, there = float(errors[row]), float(errors[peer])
    row, peer, here, there = (row, peer, here, there) if here >= there else (peer, row, there, here)
    if not stated[:, peer].any():
        return row, f"{case.location(peer)} was not observed: cable, or either module"
    if here <= ONE_SIDED * max(there, 1.0):
        return row, "both directions: the cable, or another shared part"
    warm = case.level("module_temperature_c")
    last = np.array([_last(warm[:, r]) for r in (row, peer)])
    if np.isfinite(last).all() and abs(last[0] - last[1]) >= WARM:
        hot = row if last[0] > last[1] else peer
        return (
            hot,
            f"only what {case.location(row)} receives is damaged, and the module of {case.location(hot)} is the "
            f"warmer one",
        )
    return (
        row,
        f"only what {case.location(row)} receives is damaged: module of {case.location(peer)} (it sends), of "
        f"{case.location(row)}, or the fibre between",
    )


def _last(values: np.ndarray) -> float:
    values_known = values[~np.isnan(values)]
    return float(values_known[-1]) if len(values_known) else np.nan
