"""The forwarding tables of a subnet, and the jobs whose traffic may use each cable. The tables are read again
periodically, for rules that follow the paths through waiting ports."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from softib.diags.observations import ForwardingTables, ObservedPorts, tables_of
from softib.errors import SoftibError
from softib.fabric.formats.base import ReadResult
from softib.live.subnet_reader import read_wire
from softib.live.umad_client.wire import MadWire
from softib.monitor.intervals import same_cables

if TYPE_CHECKING:
    from softib.analysis.jobs.links import JobLinks

__all__ = ["JobsCrossing", "LatestTables"]

LEAST_S = 60.0
SHARE = 0.05
"""Largest share of the time that is spent on reading tables."""


class LatestTables:
    """Reader of the forwarding tables. A call with the observed ports returns the tables that were read last; None if
    there are none. Only one thread may use it."""

    def __init__(self, wire: MadWire, name: str):
        self._wire, self._name = wire, name
        self._read: ReadResult | None = None
        self._due_s = float("-inf")
        self._of: ObservedPorts | None = None

    def __call__(self, ports: ObservedPorts) -> ForwardingTables | None:
        result = self.result(ports)
        return None if result is None or "lfts" not in result.fabric.source.records else tables_of(result.fabric, ports)

    def result(self, ports: ObservedPorts) -> ReadResult | None:
        """Return the subnet with the tables that were read last."""
        began = time.monotonic()
        moved = self._of is not None and bool((same_cables(self._of, ports) < 0).any())
        if began >= self._due_s or moved:
            self._of = ports
            with contextlib.suppress(SoftibError):  # on an error, keep the previous tables
                self._read = read_wire(self._wire, self._name)
            took = time.monotonic() - began
            self._due_s = time.monotonic() + max(LEAST_S, took / SHARE)
        return self._read


class JobsCrossing:
    """Jobs of ``file`` (as in :func:`softib.jobs_on`) on the fabric read by ``tables``. If the file cannot be read,
    ``notice`` is called with one line, and the previous jobs are kept."""

    def __init__(self, file: str, tables: LatestTables, notice: Callable[[str], None]):
        self._file, self._tables, self._notice = file, tables, notice
        self._links: JobLinks | None = None
        self._of: tuple[float, object] | None = None
        self._failed = ""

    def follow(self, ports: ObservedPorts) -> None:
        """Look up the cables of the jobs again if the file or the tables changed."""
        from softib.analysis.jobs.files import read_jobs
        from softib.analysis.jobs.links import place_jobs
        from softib.analysis.pipeline import quietly
        from softib.analysis.routed import routed

        result = self._tables.result(ports)
        try:
            stamp = os.stat(self._file).st_mtime
        except OSError:
            stamp = -1.0
        if result is None or (self._of is not None and self._of[0] == stamp and self._of[1] is result):
            return
        self._of = stamp, result
        try:
            stated = read_jobs(self._file)
            tables = routed(replace(result, fabric=result.fabric.copy()), None, None, quietly)
            self._links = place_jobs(tables.fabric, tables.graph, tables.lft, stated)
            self._failed = ""
        except SoftibError as error:
            if str(error) != self._failed:
                self._notice(f"{error}; findings name the previous jobs")
            self._failed = str(error)

    def __call__(self, node_guid: int, portnum: int) -> Sequence[str]:
        """Return the names of the jobs whose traffic crosses the cable at this port."""
        return () if self._links is None else self._links.crossing(node_guid, portnum)
