"""The history that ``softib exporter --history`` wrote: counters from before the server started, and maps of that time,
which include cables that are missing in the next topology.
"""

from __future__ import annotations

import itertools
import os
import threading
from collections import OrderedDict
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from softib.analysis.observed_fabric import fabric_of_ports
from softib.diags.observations import Observations, ObservedPorts
from softib.errors import UnreadableFile
from softib.fabric.model import Fabric
from softib.monitor.history import History
from softib.monitor.intervals import interval_at
from softib.monitor.judged_window import JUDGED_S, ROWS
from softib.web.map_layout import Map, map_of
from softib.web.rates import Sample, sample_of
from softib.web.remembered import Cable, Snapshot

__all__ = ["KeptTopologies", "Past", "PastMap", "PastMaps"]


KEPT_MAPS = 4
"""Number of maps kept in memory."""


class KeptTopologies(Protocol):
    """The source of topologies."""

    def topologies(self) -> list[float]:
        """Return the clock times from which each topology was valid, oldest first."""

    def ports_of(self, since_s: float) -> ObservedPorts:
        """Return the ports with a cable from that time on."""


@dataclass(frozen=True)
class PastMap:
    """``since_s``: the time from which the map was valid; ``seen``: the fabric including the items that were
    missing then, which ``map`` shows; ``fabric``: the fabric without them; ``drawn``: the number of the map (below
    0: not that of a present map)."""

    since_s: float
    seen: Snapshot
    map: Map
    fabric: Fabric

    @property
    def drawn(self) -> int:
        """The number of the map: milliseconds since 1970, negative."""
        return -int(self.since_s * 1e3)


class PastMaps:
    """Maps by time, drawn on request."""

    def __init__(self, kept: KeptTopologies):
        self.kept = kept
        self._lock = threading.Lock()
        self._maps: OrderedDict[float, PastMap] = OrderedDict()
        self._cables: dict[float, frozenset[Cable]] = {}

    def at(self, time_s: float) -> PastMap | None:
        """Return the map at that time, or of the first topology if the time is earlier; None if no topology is
        stored.
        """
        stamps = self.kept.topologies()
        if not stamps:
            return None
        k = max(0, int(np.searchsorted(stamps, time_s + 1e-3, "right")) - 1)
        with self._lock:
            drawn = self._maps.get(stamps[k])
            if drawn is None:
                drawn = self._maps[stamps[k]] = self._draw(stamps[: k + 1])
            self._maps.move_to_end(stamps[k])
            while len(self._maps) > KEPT_MAPS:
                self._maps.popitem(last=False)
        return drawn

    def _draw(self, stamps: list[float]) -> PastMap:
        ports = self.kept.ports_of(stamps[-1])
        now = self._cables.setdefault(stamps[-1], _cables(ports))
        used = {end for cable in now for end in cable}
        down: dict[Cable, float] = {}
        older: dict[tuple[int, int], tuple[ObservedPorts, int]] = {}
        for since, until in itertools.pairwise(stamps):
            before = self._cables.get(since)
            ports_since = None if before is not None else self.kept.ports_of(since)
            if before is None and ports_since is not None:
                before = self._cables[since] = _cables(ports_since)
            lost = [c for c in before or () if c not in now and c[0] not in used and c[1] not in used]
            if lost:
                ports_since = ports_since or self.kept.ports_of(since)
                row = _rows(ports_since)
                older |= {end: (ports_since, row[end]) for c in lost for end in c}
            down |= dict.fromkeys(lost, until)
        whole = _with(ports, older, list(down))
        fabric = fabric_of_ports(whole, "history")
        there = set(np.unique(ports.node_guid).tolist())
        removed: dict[int, float] = {}
        for cable, since in down.items():
            removed |= {g: max(since, removed.get(g, 0.0)) for g, _ in cable if g not in there}
        there_then = fabric if whole is ports else fabric_of_ports(ports, "history")
        return PastMap(stamps[-1], Snapshot(fabric, down, removed), map_of(fabric), there_then)


def _rows(ports: ObservedPorts) -> dict[tuple[int, int], int]:
    return {key: i for i, key in enumerate(zip(ports.node_guid.tolist(), ports.portnum.tolist(), strict=True))}


def _cables(ports: ObservedPorts) -> frozenset[Cable]:
    """Return the cables of ``ports``, in the form of :mod:`softib.web.remembered`."""
    rows = np.flatnonzero(ports.peer > np.arange(len(ports)))
    peer = ports.peer[rows]
    a = zip(ports.node_guid[rows].tolist(), ports.portnum[rows].tolist(), strict=True)
    b = zip(ports.node_guid[peer].tolist(), ports.portnum[peer].tolist(), strict=True)
    return frozenset((x, y) if x <= y else (y, x) for x, y in zip(a, b, strict=True))


def _with(
    ports: ObservedPorts, older: dict[tuple[int, int], tuple[ObservedPorts, int]], lost: list[Cable]
) -> ObservedPorts:
    """Return ``ports`` with the ends of missing cables, connected again."""
    if not lost:
        return ports
    row = _rows(ports)
    new = [end for end in older if end not in row]
    row |= {end: len(ports) + i for i, end in enumerate(new)}
    of = [older[end] for end in new]
    peer = np.concatenate([np.asarray(ports.peer, np.int64), np.full(len(new), -1, np.int64)])
    for a, b in lost:
        peer[row[a]], peer[row[b]] = row[b], row[a]
    return ObservedPorts(
        np.concatenate([ports.node_guid, np.array([g for g, _ in new], np.uint64)]),
        np.concatenate([ports.portnum, np.array([p for _, p in new], np.int32)]),
        np.concatenate([ports.switch, np.array([o.switch[i] for o, i in of], bool)]),
        (*ports.node, *(o.node[i] for o, i in of)),
        np.concatenate([ports.lid, np.array([o.lid[i] for o, i in of], np.int32)]),
        peer.astype(np.int32),
        np.concatenate([ports.rate_gbps, np.array([o.rate_gbps[i] for o, i in of], np.float64)]),
    )


KEPT = 16
"""Number of rounds kept in memory after the first request."""


class Past:
    """The Parquet files in ``folder``. Raises :class:`UnreadableFile` if it is not a directory with a history,
    :class:`MissingLibrary` without the extra ``monitor``."""

    def __init__(self, folder: str | os.PathLike[str]):
        if not os.path.isdir(folder):
            raise UnreadableFile(
                f"{os.fspath(folder)}: not a directory; 'softib exporter SOURCE --history {os.fspath(folder)}' keeps "
                f"a history there"
            )
        self.history = History(folder)
        self._lock = threading.Lock()
        self._seen: OrderedDict[int, Sample] = OrderedDict()
        self.maps = PastMaps(self)
        self.times()

    def times(self) -> list[float]:
        """Return the clock times of the stored rounds, oldest first."""
        return [t / 1e9 for t in self.history.times().tolist()]

    def at(self, time_s: float) -> Sample | None:
        """Return the round nearest to ``time_s``."""
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
        """Return the increases in the :data:`JUDGED_S` seconds before the round nearest to the
        time; None without data."""
        times = self.history.times()
        if not len(times):
            return None
        last = int(np.argmin(np.abs(times - np.int64(time_s * 1e9))))
        ports = max(1, len(self.ports_of(time_s)))
        first = int(np.searchsorted(times, times[last] - int(JUDGED_S * 1e9), "right"))
        return self.history.observations(int(times[max(first, last + 1 - max(1, ROWS // ports))]), int(times[last]))

    def topologies(self) -> list[float]:
        """Return the clock times from which each stored topology was valid, oldest first."""
        return [t / 1e9 for t in self.history.topologies().tolist()]

    def ports_of(self, since_s: float) -> ObservedPorts:
        """Return the ports with a cable in the topology nearest to the time."""
        stamps = self.history.topologies()
        return self.history.ports_of(int(stamps[int(np.argmin(np.abs(stamps - np.int64(since_s * 1e9))))]))

    def of_port(self, guid: int, portnum: int, since_s: float, until_s: float) -> list[tuple[float, float, float, int]]:
        """Return (time, load, wait, errors) of one port at each round between two clock times."""
        one = self.history.of_port(guid, portnum, int(since_s * 1e9), min(2**63 - 1, int(until_s * 1e9)))
        s = sample_of(one)
        return [
            (t / 1e9, float(load), float(wait), int(errors))
            for t, load, wait, errors in zip(one.end_ns.tolist(), s.load, s.wait, s.errors, strict=True)
        ]
