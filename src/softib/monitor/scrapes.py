"""What a Prometheus server scraped from one exporter or several, as intervals of ports.

Two exporters of one fabric (a pair, in case one fails) tell of the same port at different times,
and each of its own last round; what the second told may be older than what the first did before. So
the counters of a port are those of one exporter (labels ``job`` and ``instance``), and increases
are between its own scrapes. Exporters that tell of different ports (one of switches, one of HCAs)
are put side by side: each scrape belongs to that of the first one that is nearest in time.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import pairwise
from typing import Any

import numpy as np

from softib.errors import PeerError
from softib.monitor.increase import Interval, between
from softib.monitor.reading import Reading

__all__ = ["Key", "Scrapes", "Target", "target_of"]

Key = tuple[int, int]
"""(GUID as labelled, portnum)."""
Target = tuple[str, str]
"""An exporter: labels ``job`` and ``instance``, which Prometheus gives each series that it scrapes.
"""


MOST_READINGS, MOST_TARGETS = 4_000_000, 1000
"""Times of an exporter times its ports, in all; exporters."""


def target_of(labels: Mapping[str, str]) -> Target:
    """Whose series it is."""
    return labels.get("job", ""), labels.get("instance", "")


class Scrapes:
    """Values by exporter, time, counter and port."""

    def __init__(self) -> None:
        self._found: dict[Target, dict[int, dict[str, dict[Key, int]]]] = {}
        self._samples: dict[Target, int] = {}
        self._keys: dict[Target, set[Key]] = {}

    def add(self, target: Target, field: str, key: Key, values: Iterable[tuple[float, float]], factor: int) -> None:
        """A series: (clock time in seconds, value) of a counter of a port, ``factor`` of which make
        one of PerfMgt's units."""
        times = self._found.setdefault(target, {})
        self._keys.setdefault(target, set()).add(key)
        for at_s, value in values:
            if not 0 <= value < 2**64:
                continue  # no counter reads that
            times.setdefault(round(at_s * 1e9), {}).setdefault(field, {})[key] = int(value) // factor
            self._samples[target] = self._samples.get(target, 0) + 1

    def refuse_too_many(self, url: str) -> None:
        """Raises :class:`PeerError` where the scrapes cannot be those of exporters: each reads its
        ports at few times."""
        readings = sum(len(times) * len(self._keys[target]) for target, times in self._found.items())
        if readings > MOST_READINGS or len(self._found) > MOST_TARGETS:
            raise PeerError(
                f"{url}: {len(self._found):,} exporters with {readings:,} readings of ports; ask for less time, or "
                f"fewer exporters"
            )

    @property
    def keys(self) -> list[Key]:
        """Every port, sorted."""
        return sorted({key for of in self._keys.values() for key in of})

    @property
    def most(self) -> int:
        """Scrapes of the exporter that has the most."""
        return max(map(len, self._found.values()), default=0)

    @property
    def last_s(self) -> float:
        """Clock time of the last one."""
        return max((t for times in self._found.values() for t in times), default=0) / 1e9

    def intervals(self) -> list[Interval]:
        """What rose between scrapes, oldest first."""
        owned = self._owned()
        if not owned:
            return []
        base = np.array(sorted(self._found[next(iter(owned))]), np.int64)
        middle = base[:-1] + np.diff(base) // 2
        parts: dict[int, list[Interval]] = {}
        for target, keys in owned.items():
            times = np.array(sorted(self._found[target]), np.int64)
            place = np.searchsorted(middle, times, side="left")
            last = np.flatnonzero(np.r_[place[1:] != place[:-1], True])
            readings = [(int(place[i]), self._reading(target, keys, int(times[i]))) for i in last.tolist()]
            for (_, before), (at, after) in pairwise(readings):
                parts.setdefault(at, []).append(between(before, after))
        return [_joined(parts[at]) for at in sorted(parts)]

    def _owned(self) -> dict[Target, list[Key]]:
        """The ports that each exporter tells of: a port is that of the first who has it; whoever
        told most comes first."""
        left = {key for of in self._keys.values() for key in of}
        owned: dict[Target, list[Key]] = {}
        for target in sorted(self._samples, key=lambda t: (-self._samples[t], t)):
            mine = sorted(left & self._keys[target])
            if mine:
                owned[target] = mine
                left.difference_update(mine)
        return owned

    def _reading(self, target: Target, keys: list[Key], time_ns: int) -> Reading:
        r = Reading.empty(np.array([g for g, _ in keys], np.uint64), np.array([p for _, p in keys], np.int32))
        row = {key: i for i, key in enumerate(keys)}
        for name, values in self._found[target][time_ns].items():
            mine = [(row[key], value) for key, value in values.items() if key in row]
            rows = np.array([i for i, _ in mine], np.int64)
            r.put(name, rows, np.array([v for _, v in mine], np.uint64), 2**64 - 1)
            r.answered[rows] = True
        r.time_ns[r.answered] = time_ns
        return r


def _joined(parts: list[Interval]) -> Interval:
    """Intervals of different ports as one."""
    if len(parts) == 1:
        return parts[0]

    def column(of: str, name: str, missing: Any) -> np.ndarray:
        return np.concatenate([getattr(p, of).get(name, np.full(len(p.guid), missing)) for p in parts])

    def names(of: str) -> list[str]:
        return list(dict.fromkeys(name for p in parts for name in getattr(p, of)))

    guid, portnum, begin_ns, end_ns = (
        np.concatenate([getattr(p, n) for p in parts]) for n in ("guid", "portnum", "begin_ns", "end_ns")
    )
    return Interval(
        guid,
        portnum,
        begin_ns,
        end_ns,
        {n: column("increase", n, np.uint64(0)) for n in names("increase")},
        {n: column("known", n, False) for n in names("known")},
        {n: column("level", n, np.nan) for n in names("level")},
    )
