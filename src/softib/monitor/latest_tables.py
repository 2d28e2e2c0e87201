"""The forwarding tables of a subnet, read again now and then, for rules that follow waiting ports
through them."""

from __future__ import annotations

import contextlib
import time

from softib.diags.observations import ForwardingTables, ObservedPorts, tables_of
from softib.errors import SoftibError
from softib.fabric.formats.base import ReadResult
from softib.live.subnet_reader import read_wire
from softib.live.umad_sm.wire import MadWire
from softib.monitor.intervals import same_cables

__all__ = ["LatestTables"]

LEAST_S = 60.0
SHARE = 0.05
"""Reading the tables takes at most this share of the time."""


class LatestTables:
    """Called with the ports that are watched: the tables as they were read last, None where there
    are none. One thread."""

    def __init__(self, wire: MadWire, name: str):
        self._wire, self._name = wire, name
        self._read: ReadResult | None = None
        self._due_s = float("-inf")
        self._of: ObservedPorts | None = None

    def __call__(self, ports: ObservedPorts) -> ForwardingTables | None:
        result = self.result(ports)
        return None if result is None or "lfts" not in result.fabric.source.records else tables_of(result.fabric, ports)

    def result(self, ports: ObservedPorts) -> ReadResult | None:
        """The subnet with its tables, as it was read last."""
        began = time.monotonic()
        moved = self._of is not None and bool((same_cables(self._of, ports) < 0).any())
        if began >= self._due_s or moved:
            self._of = ports
            with contextlib.suppress(SoftibError):  # then the tables of before
                self._read = read_wire(self._wire, self._name)
            took = time.monotonic() - began
            self._due_s = time.monotonic() + max(LEAST_S, took / SHARE)
        return self._read
