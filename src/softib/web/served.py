"""The fabric that the browser looks at: read again and again, with what changed, what is wrong, and what its ports did meanwhile."""

from __future__ import annotations

import contextlib
import threading
import time
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from softib.analysis import columns
from softib.analysis.pipeline import checked
from softib.diags.finding import Finding
from softib.errors import SoftibError
from softib.fabric.formats.base import ReadResult
from softib.fabric.model import Fabric
from softib.fabric.node_finder import NodeFinder
from softib.web.map_layout import Map, map_of
from softib.web.rates import History

__all__ = ["Now", "Served"]

KEEP = 300
"""Samples that are kept: ten minutes at the default of two seconds."""
RECHECK_S = 60.0
"""Findings are made again after this time even if no cable and no table changed."""


@dataclass(frozen=True)
class Now:
    """One reading. ``version`` grows when a node, cable or table changed; ``drawn`` when the map did. ``time_s``: clock."""

    fabric: Fabric
    map: Map
    version: int
    drawn: int
    time_s: float
    findings: tuple[Finding, ...] = ()
    problem: str = ""

    @cached_property
    def nodes(self) -> dict[str, Any]:
        """The table of nodes; this and the others are made once a reading, however many pages of them are asked for."""
        return columns.nodes(self.fabric)

    @cached_property
    def ports(self) -> dict[str, Any]:
        """The table of ports."""
        return columns.ports(self.fabric)

    @cached_property
    def links(self) -> dict[str, Any]:
        """The table of links."""
        return columns.links(self.fabric)

    @cached_property
    def counters(self) -> dict[str, Any]:
        """The table of counters."""
        return columns.counters(self.fabric)

    @cached_property
    def finder(self) -> NodeFinder:
        """Its nodes by name."""
        return NodeFinder(self.fabric)


@dataclass
class Served:
    """``read`` reads the source (a copy, ours to keep). :meth:`refresh` is for one thread; everything else for any.

    ``name`` is for people; ``changes`` is False for a source that is read once; ``explain`` answers why a path is as it is (None: the source is no running fabric), ``manager`` what its subnet manager says.
    """

    name: str
    read: Callable[[], ReadResult]
    explain: Callable[[str, str], dict[str, object]] | None = None
    manager: Callable[[], dict[str, object]] | None = None
    every_s: float = 2.0
    changes: bool = True
    keep: int = KEEP
    clock: Callable[[], float] = time.time
    history: History = field(init=False)
    _now: Now | None = field(default=None, init=False)
    _marks: tuple[bytes, bytes] = field(default=(b"", b""), init=False)
    _judged: tuple[int, float] = field(default=(-1, 0.0), init=False)
    _stop: threading.Event = field(default_factory=threading.Event, init=False)

    def __post_init__(self) -> None:
        self.history = History(self.keep)

    @property
    def now(self) -> Now:
        """The newest reading; the first one is made here where there is none."""
        if self._now is None:
            self.refresh()
        assert self._now is not None
        return self._now

    def refresh(self) -> Now:
        """Read the source again. Raises what the reader raises at the first time; later the last reading stays, with the reason."""
        try:
            result = self.read()
        except SoftibError as error:
            if self._now is None:
                raise
            self._now = replace(self._now, problem=str(error))
            return self._now
        at, fabric, last = self.clock(), result.fabric, self._now
        cables, tables = _cables_mark(fabric), _tables_mark(fabric)
        version, drawn = (0, 0) if last is None else (last.version, last.drawn)
        known = last.map if last is not None else None
        if last is None or cables != self._marks[0]:
            known, drawn, version = map_of(fabric), drawn + 1, version + 1
            if last is None or len(last.fabric.counters) != len(fabric.counters):
                self.history = History(self.keep)
        elif tables != self._marks[1]:
            version += 1
        self._marks = cables, tables
        self.history.add(at, fabric)
        findings = last.findings if last is not None else ()
        assert known is not None
        self._now = Now(fabric, known, version, drawn, at, findings)
        if self._judged[0] != version or at - self._judged[1] > RECHECK_S:
            self._judged = version, at
            report = checked(self.name, result)
            self._now = Now(
                fabric, known, version, drawn, at, tuple(sorted(report.findings, key=lambda f: -f.severity))
            )
        return self._now

    def run(self) -> None:
        """Refresh every ``every_s`` seconds until :meth:`stop`; a source that is gone is looked for again."""
        while self.changes and not self._stop.wait(self.every_s):
            with contextlib.suppress(SoftibError):
                self.refresh()

    def stop(self) -> None:
        """End :meth:`run`."""
        self._stop.set()


def _cables_mark(f: Fabric) -> bytes:
    return f.node_guid.tobytes() + f.port_peer.tobytes() + f.node_desc.tobytes()


def _tables_mark(f: Fabric) -> bytes:
    """Changes with the tables and port states, but for one time in 2^32."""
    mark = 0
    for column in (f.lft, f.port_info):
        mark = zlib.crc32(np.ascontiguousarray(column).view(np.uint8).reshape(-1).data, mark)
    return mark.to_bytes(4, "big")
