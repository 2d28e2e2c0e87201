"""Reads consecutive rounds of one subnet, and keeps their results."""

from __future__ import annotations

import time
from collections import deque

from softib.diags.observations import Observations, ObservedPorts
from softib.errors import InputError
from softib.monitor.intervals import Interval, between, carried, merged_ports, observations_of
from softib.monitor.manager import ManagerWatch
from softib.monitor.opening import Opened
from softib.monitor.perfmgr import Pace, Poller, Round
from softib.monitor.reading import Reading

__all__ = ["Watch"]

KEPT = 120
"""Number of intervals that are kept in memory. Older ones are only in the history, if there is one."""


class Watch:
    """Reads ``opened`` round by round. ``round``: the last round; ``interval``: the increases since the round before it
    (None after the first round); ``manager``: the state of the subnet manager."""

    def __init__(self, opened: Opened, pace: Pace | None = None, keep: int = KEPT):
        self.opened = opened
        self.poller = Poller(opened.wire, pace, shard=opened.shard, shared=opened.shared)
        self.manager = ManagerWatch(opened, self.poller)
        self.round: Round | None = None
        self.interval: Interval | None = None
        self._before: Reading | None = None
        self._ports: ObservedPorts = self.poller.targets.ports
        self._intervals: deque[Interval] = deque(maxlen=keep)

    def step(self) -> Round:
        """Read one round. Raises :class:`PeerError` if the fabric went down."""
        self.round = one = self.poller.round()
        if not len(one.reading):
            raise InputError(
                f"{self.opened.name}: no port has both a link and a LID; check that a subnet manager is running"
            )
        if self._before is not None:
            self.interval = between(self._before, one.reading)
            self._intervals.append(self.interval)
        self._before = carried(self._before, one.reading)
        self._ports = merged_ports(self._ports, one.targets.ports)
        if "manager" not in self.poller.left_out:
            self.manager.step()
        return one

    def run(self, rounds: int, every_s: float) -> None:
        """Run ``rounds`` rounds, each of which begins ``every_s`` seconds after the previous one
        (immediately if that one took longer)."""
        for i in range(rounds):
            began = time.monotonic()
            self.step()
            if i + 1 < rounds:
                time.sleep(max(0.0, began + every_s - time.monotonic()))

    @property
    def ports(self) -> ObservedPorts:
        """The ports that were read in any round."""
        return self._ports

    @property
    def observations(self) -> Observations:
        """The observations of the last :data:`KEPT` intervals."""
        return observations_of(self._ports, list(self._intervals))
