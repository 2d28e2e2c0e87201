"""What the history that ``softib exporter --history`` keeps tells of the time before the server
began."""

from __future__ import annotations

import os
import threading
from collections import OrderedDict

import numpy as np

from softib.diags.observations import Observations, ObservedPorts
from softib.errors import UnreadableFile
from softib.monitor.history import History
from softib.monitor.intervals import interval_at
from softib.web.collector import JUDGED_S, ROWS
from softib.web.past_maps import PastMaps
from softib.web.rates import Sample, sample_of

__all__ = ["Past"]

KEPT = 16
"""Rounds that are kept in memory once they were asked for."""


class Past:
    """The Parquet files in ``folder``. Raises :class:`UnreadableFile` where it is no directory with
    a history, :class:`MissingLibrary` without the extra ``monitor``."""

    def __init__(self, folder: str | os.PathLike[str]):
        if not os.path.isdir(folder):
            raise UnreadableFile(
                f"{os.fspath(folder)}: no directory; 'softib exporter SOURCE --history {os.fspath(folder)}' keeps a "
                f"history there"
            )
        self.history = History(folder)
        self._lock = threading.Lock()
        self._seen: OrderedDict[int, Sample] = OrderedDict()
        self.maps = PastMaps(self)
        self.times()

    def times(self) -> list[float]:
        """Clock times of its rounds, oldest first."""
        return [t / 1e9 for t in self.history.times().tolist()]

    def at(self, time_s: float) -> Sample | None:
        """The round nearest to ``time_s``."""
        times = self.history.times()
        if not len(times):
            return None
        when = int(times[int(np.argmin(np.abs(times - np.int64(time_s * 1e9))))])
        with self._lock:
            if when in self._seen:
                self._seen.move_to_end(when)
                return self._seen[when]
        seen = self.history.observations(when, when)
        sample = sample_of(interval_at(seen, 0))
        with self._lock:
            self._seen[when] = sample
            while len(self._seen) > KEPT:
                self._seen.popitem(last=False)
        return sample

    def observations(self, time_s: float) -> Observations | None:
        """What rose in the :data:`JUDGED_S` seconds before the round nearest to the time; None
        where nothing is kept."""
        times = self.history.times()
        if not len(times):
            return None
        last = int(np.argmin(np.abs(times - np.int64(time_s * 1e9))))
        ports = max(1, len(self.ports_of(time_s)))
        first = int(np.searchsorted(times, times[last] - int(JUDGED_S * 1e9), "right"))
        return self.history.observations(int(times[max(first, last + 1 - max(1, ROWS // ports))]), int(times[last]))

    def topologies(self) -> list[float]:
        """Clock times from which each kept topology held, oldest first."""
        return [t / 1e9 for t in self.history.topologies().tolist()]

    def ports_of(self, since_s: float) -> ObservedPorts:
        """The ports with a cable of the topology whose time is nearest."""
        stamps = self.history.topologies()
        return self.history.ports_of(int(stamps[int(np.argmin(np.abs(stamps - np.int64(since_s * 1e9))))]))

    def of_port(self, guid: int, portnum: int, since_s: float, until_s: float) -> list[tuple[float, float, float, int]]:
        """(time, load, wait, errors) of one port at each round between two clock times."""
        one = self.history.of_port(guid, portnum, int(since_s * 1e9), min(2**63 - 1, int(until_s * 1e9)))
        s = sample_of(one)
        return [
            (t / 1e9, float(load), float(wait), int(errors))
            for t, load, wait, errors in zip(one.end_ns.tolist(), s.load, s.wait, s.errors, strict=True)
        ]
