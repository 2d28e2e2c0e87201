"""What a subnet tells by MADs alone, round by round: the counters of its ports, now and then its
cables and tables anew."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable

import numpy as np

from softib.diags.observations import Observations
from softib.errors import SoftibError
from softib.fabric.formats.base import ReadResult
from softib.iba.constants import PhysState
from softib.live.subnet_reader.source import read_wire
from softib.monitor.increase import Interval, between
from softib.monitor.opening import Opened
from softib.monitor.poller import Pace
from softib.monitor.reading import Reading
from softib.monitor.series import observations_of
from softib.monitor.watch import Watch

__all__ = ["Collector"]

JUDGED_S = 1200.0
"""Rules judge what rose in the last twenty minutes, …"""
MOST_PARTS, LEAST_PARTS = 40, 4
ROWS = 500_000
"""… in at most so many intervals: all of a port's counters take some 300 octets each."""
LEAST_REREAD_S = 30.0
SHARE = 0.05
"""Reading cables and tables takes at most this share of the time, …"""
SOON = 4.0
"""… but after a port went up or down it is done when so many times the last reading's duration have
passed."""


class Collector:
    """One poller of what ``open_`` opens; for one thread. ``watch`` is None until it is open."""

    def __init__(self, name: str, open_: Callable[[], Opened], in_flight: int = 4):
        self.name, self._open, self._pace = name, open_, Pace(most=in_flight)
        self._opened: Opened | None = None
        self.watch: Watch | None = None
        self._read_at, self._read_took = float("-inf"), 0.0
        self._parts: deque[Interval] = deque()
        self._base: Reading | None = None
        self._changed = True

    def step(self) -> Interval | None:
        """One round; what rose in it, None for the first. Raises :class:`SoftibError` where nobody
        answers; the next call opens the source anew."""
        try:
            if self.watch is None:
                self._opened = self._open()
                self.watch = Watch(self._opened, self._pace, keep=1)
            before = self.watch.interval
            self.watch.step()
        except SoftibError:
            self.close()
            raise
        one = self.watch.interval
        self._remember()
        if one is not None and before is not None and not _same_states(before, one):
            self._changed = True
        return one

    def _remember(self) -> None:
        assert self.watch is not None and self.watch.round is not None
        now = self.watch.round.reading
        parts = int(np.clip(ROWS // max(1, len(now)), LEAST_PARTS, MOST_PARTS))
        if self._base is None:
            self._base = now
        elif _time_s(now) - _time_s(self._base) >= JUDGED_S / parts:
            self._parts.append(between(self._base, now))
            self._base = now
            while len(self._parts) > parts:
                self._parts.popleft()

    @property
    def observations(self) -> Observations | None:
        """What rose in the last :data:`JUDGED_S` seconds, in few intervals. None before the second
        round."""
        if self.watch is None or self.watch.interval is None or self._base is None or self.watch.round is None:
            return None
        last = self.watch.round.reading
        open_ = [between(self._base, last)] if last is not self._base else []
        return observations_of(self.watch.ports, [*self._parts, *open_])

    def due(self) -> bool:
        """Should the cables and tables be read again?"""
        since = time.monotonic() - self._read_at
        if self._changed and since > SOON * self._read_took:
            return True
        return since > max(LEAST_REREAD_S, self._read_took / SHARE)

    def read(self) -> ReadResult:
        """Nodes, cables and tables as they are now, by Gets. Raises :class:`SoftibError` where
        nobody answers."""
        assert self._opened is not None
        began = time.monotonic()
        self._changed = False
        try:
            return read_wire(self._opened.wire, self.name)
        finally:
            self._read_at = time.monotonic()
            self._read_took = self._read_at - began

    def close(self) -> None:
        """Let go of the source."""
        opened, self._opened, self.watch = self._opened, None, None
        self._parts.clear()
        self._base, self._changed = None, True
        if opened is not None:
            opened.close()


def _time_s(reading: Reading) -> float:
    return int(reading.time_ns.max(initial=0)) / 1e9


def _same_states(before: Interval, now: Interval) -> bool:
    """Are the same ports up in both?"""
    name = "physical_state"
    if len(before.guid) != len(now.guid) or name not in before.level or name not in now.level:
        return False
    up = [np.nan_to_num(one.level[name], nan=-1.0) == float(PhysState.LINK_UP) for one in (before, now)]
    return bool((up[0] == up[1]).all())
