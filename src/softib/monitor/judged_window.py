"""The increases of the last twenty minutes, combined into a few intervals. They are the input of the rules about
counters in continuous monitoring."""

from __future__ import annotations

from collections import deque

import numpy as np

from softib.diags.observations import Observations, ObservedPorts
from softib.monitor.intervals import Interval, between, carried, merged_ports, observations_of
from softib.monitor.reading import Reading

__all__ = ["JUDGED_S", "ROWS", "JudgedWindow"]

JUDGED_S = 1200.0
"""Time in seconds over which the rules examine increases."""
MOST_PARTS, LEAST_PARTS = 40, 4
ROWS = 500_000
"""Maximum number of rows (ports times intervals) in the window; a row with all counters of a port takes about 300
bytes."""


class JudgedWindow:
    """Consecutive rounds (:meth:`add`), of which the last :data:`JUDGED_S` seconds are :attr:`observations`."""

    def __init__(self) -> None:
        self._parts: deque[Interval] = deque()
        self._base: Reading | None = None
        self._last: Reading | None = None
        self._ports: ObservedPorts | None = None

    def add(self, now: Reading, ports: ObservedPorts) -> None:
        """Add one round of ``ports``."""
        self._ports = ports if self._ports is None else merged_ports(self._ports, ports)
        parts = int(np.clip(ROWS // max(1, len(now)), LEAST_PARTS, MOST_PARTS))
        self._last = carried(self._last, now)
        if self._base is None:
            self._base = self._last
            return
        if _time_s(self._last) - _time_s(self._base) >= JUDGED_S / parts:
            self._parts.append(between(self._base, self._last))
            self._base = self._last
        oldest_ns = (_time_s(self._last) - JUDGED_S) * 1e9
        while len(self._parts) > parts or (self._parts and self._parts[0].end_ns.max() < oldest_ns):
            self._parts.popleft()

    @property
    def observations(self) -> Observations | None:
        """The increases of counters in the window; None before the second round."""
        if self._base is None or self._last is None or self._ports is None:
            return None
        open_ = [between(self._base, self._last)] if self._last is not self._base else []
        if not self._parts and not open_:
            return None
        return observations_of(self._ports, [*self._parts, *open_])


def _time_s(reading: Reading) -> float:
    return int(reading.time_ns.max(initial=0)) / 1e9
