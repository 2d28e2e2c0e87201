"""Reads a subnet with MADs: the counters of its ports in each round, and its cables and tables from time to time."""

from __future__ import annotations

import time
import zlib
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from softib.diags.observations import Observations
from softib.errors import SoftibError
from softib.fabric.formats.base import ReadResult
from softib.fabric.model import Fabric
from softib.iba.constants import PhysState
from softib.live.subnet_reader import read_wire
from softib.monitor.intervals import Interval
from softib.monitor.judged_window import JudgedWindow
from softib.monitor.opening import Opened
from softib.monitor.perfmgr import Pace
from softib.monitor.reading import Reading
from softib.monitor.watch import Watch

__all__ = ["Collector", "cables_mark", "tables_mark"]


def cables_mark(f: Fabric) -> bytes:
    """Return a checksum of nodes, names and cables. If they change, it stays equal only with a probability of 2^-32."""
    return _mark(f.node_guid, f.port_peer, f.node_desc)


def tables_mark(f: Fabric) -> bytes:
    """Return a checksum of forwarding tables and port states, like :func:`cables_mark`."""
    return _mark(f.lft, f.port_info)


def _mark(*columns: np.ndarray) -> bytes:
    mark = 0
    for column in columns:
        mark = zlib.crc32(np.ascontiguousarray(column).view(np.uint8).reshape(-1).data, mark)
    return mark.to_bytes(4, "big")


LEAST_REREAD_S = 30.0
SHARE = 0.05
"""Maximum share of the time for reading cables and tables."""
SOON = 4.0
"""After a port went up or down, interval between readings of cables and tables, as a multiple of the duration of the
last reading.
"""


class Collector:
    """Reads the source that ``open_`` opens. Only one thread may use it. ``watch`` is None until the source is open."""

    def __init__(self, name: str, open_: Callable[[], Opened], in_flight: int = 4):
        self.name, self._open, self._pace = name, open_, Pace(most=in_flight)
        self._opened: Opened | None = None
        self.watch: Watch | None = None
        self._read_at, self._read_took = float("-inf"), 0.0
        self._window = JudgedWindow()
        self._last: Reading | None = None
        self._reports: tuple[object, ...] = ()
        self._cables = b""
        self._changed = True

    def step(self) -> Interval | None:
        """Read one round; return the increases in it, None for the first round. Raises :class:`SoftibError` if
        there is no answer; the next call opens the source again."""
        try:
            if self.watch is None:
                self._opened = self._open()
                self.watch = Watch(self._opened, self._pace, keep=1)
                self.watch.poller.keeps_down = True
            before, now = self._last, self.watch.step().reading
        except SoftibError:
            self.close()
            raise
        one = self.watch.interval
        assert self.watch.round is not None
        self._last = now
        self._window.add(now, self.watch.round.targets.ports)
        reports = _reports(self.watch.manager.reported)
        if reports != self._reports and self._reports:
            self._changed = True
        self._reports = reports
        if before is not None and not _same_states(before, now):
            self._changed = True
        return one

    @property
    def observations(self) -> Observations | None:
        """Return the increases of the last twenty minutes in a few intervals; None before the second round."""
        return self._window.observations

    def due(self) -> bool:
        """Return whether the cables and tables should be read again."""
        since = time.monotonic() - self._read_at
        if self._changed and since > SOON * self._read_took:
            return True
        return since > max(LEAST_REREAD_S, self._read_took / SHARE)

    def read(self) -> ReadResult:
        """Read nodes, cables and tables with Gets, and return their present state. Raises :class:`SoftibError` if
        there is no answer."""
        assert self._opened is not None and self.watch is not None
        began = time.monotonic()
        self._changed = False
        try:
            result = read_wire(self._opened.wire, self.name)
            before, self._cables = self._cables, cables_mark(result.fabric)
            if before not in (b"", self._cables):
                self.watch.poller.rediscover_soon()  # rounds read the ports that discovery finds
            return result
        finally:
            self._read_at = time.monotonic()
            self._read_took = self._read_at - began

    def close(self) -> None:
        """Close the source."""
        opened, self._opened, self.watch = self._opened, None, None
        self._window = JudgedWindow()
        self._last, self._reports, self._changed = None, (), True
        if opened is not None:
            opened.close()


def _reports(reported: Mapping[str, Any]) -> tuple[object, ...]:
    """Return the counts of traps and sweeps of a running fabric's manager, which increase when it detects a change."""
    traps = {name: n for name, n in reported.get("traps", {}).items() if name.startswith("trap_")}
    sweeps = reported.get("sm", {}).get("sweeps")
    return () if not reported else (sorted(traps.items()), sweeps)


def _same_states(before: Reading, now: Reading) -> bool:
    """Return whether the same ports are up in both readings."""
    name = "physical_state"
    if len(before.guid) != len(now.guid) or name not in before.level or name not in now.level:
        return False
    up = [np.nan_to_num(one.level[name], nan=-1.0) == float(PhysState.LINK_UP) for one in (before, now)]
    return bool((up[0] == up[1]).all())
