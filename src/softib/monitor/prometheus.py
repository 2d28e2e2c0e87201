"""A Prometheus server as a source: data scraped from ``softib exporter`` or treydock's exporter, through its HTTP API.

Samples in Prometheus are floats, so counters of bytes above 2^53 are rounded. The label ``guid`` of an HCA is its
PortGUID; if a fabric is given, it is replaced by the NodeGUID.

Two exporters of one fabric (a redundant pair) report the same port at different times, each from its own last round;
the second exporter's value may be older than the first one's. The counters of a port are therefore taken from only one
exporter (labels ``job`` and ``instance``), and increases are computed between scrapes of this exporter. If exporters
read different ports (for example one switches, the other HCAs), their scrapes are combined: each scrape is combined
with the scrape of the first exporter that is nearest in time.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np

from softib.diags.observations import Observations, ObservedPorts
from softib.errors import InputError, PeerError
from softib.monitor.exporter.names import PORT_COUNTERS, SOFTIB_COUNTERS
from softib.monitor.intervals import Interval, between, observations_of
from softib.monitor.prometheus_answers import Series, answer_of
from softib.monitor.ranking import ERRORS
from softib.monitor.reading import Reading
from softib.plain_values import whole_number
from softib.source import load

__all__ = [
    "Key",
    "Scrapes",
    "Target",
    "ask",
    "ask_range",
    "error_metrics",
    "key_of",
    "observations_of_server",
    "ports_at",
    "target_of",
]


Key = tuple[int, int]
"""A port: (GUID in the label, portnum)."""
Target = tuple[str, str, str]
"""An exporter: the values of the labels ``job`` and ``instance``, which Prometheus adds to each scraped series, and of
``shard``, which distinguishes the exporters of one fabric (docs/monitoring.md)."""


MOST_READINGS, MOST_TARGETS = 4_000_000, 1000
"""Maximum number of readings (an exporter's scrapes times its ports, summed over all exporters), and of exporters."""


def target_of(labels: Mapping[str, str]) -> Target:
    """Return the exporter of a series."""
    return labels.get("job", ""), labels.get("instance", ""), labels.get("shard", "")


class Scrapes:
    """Values by exporter, time, counter and port."""

    def __init__(self) -> None:
        self._found: dict[Target, dict[int, dict[str, dict[Key, int]]]] = {}
        self._samples: dict[Target, int] = {}
        self._keys: dict[Target, set[Key]] = {}

    def add(self, target: Target, field: str, key: Key, values: Iterable[tuple[float, float]], factor: int) -> None:
        """Add a series with the values of one counter of a port, as (clock time in seconds, value). ``factor``: number
        of the series' units in one unit of PerfMgt."""
        times = self._found.setdefault(target, {})
        self._keys.setdefault(target, set()).add(key)
        for at_s, value in values:
            if not 0 <= value < 2**64:
                continue  # no counter has such a value
            times.setdefault(round(at_s * 1e9), {}).setdefault(field, {})[key] = int(value) // factor
            self._samples[target] = self._samples.get(target, 0) + 1

    def refuse_too_many(self, url: str) -> None:
        """Raise :class:`PeerError` if there are more readings or exporters than the limits allow."""
        readings = sum(len(times) * len(self._keys[target]) for target, times in self._found.items())
        if readings > MOST_READINGS or len(self._found) > MOST_TARGETS:
            raise PeerError(
                f"{url}: too much data: {len(self._found):,} exporters (at most {MOST_TARGETS:,}) and {readings:,} "
                f"readings (at most {MOST_READINGS:,}); use a shorter time range, or select fewer exporters"
            )

    @property
    def keys(self) -> list[Key]:
        """Return the keys of all ports, sorted."""
        return sorted({key for of in self._keys.values() for key in of})

    @property
    def most(self) -> int:
        """Return the largest number of scrapes of one exporter."""
        return max(map(len, self._found.values()), default=0)

    @property
    def last_s(self) -> float:
        """Return the clock time of the last scrape."""
        return max((t for times in self._found.values() for t in times), default=0) / 1e9

    def intervals(self) -> list[Interval]:
        """Return the increases between scrapes, oldest first."""
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
        """Return the ports of each exporter. A port belongs to the first exporter that reports it; the exporter with
        the most samples is the first."""
        left = {key for of in self._keys.values() for key in of}
        owned: dict[Target, list[Key]] = {}
        for target in sorted(self._samples, key=lambda t: (-self._samples[t], t)):
            keys = sorted(left & self._keys[target])
            if keys:
                owned[target] = keys
                left.difference_update(keys)
        return owned

    def _reading(self, target: Target, keys: list[Key], time_ns: int) -> Reading:
        r = Reading.empty(np.array([g for g, _ in keys], np.uint64), np.array([p for _, p in keys], np.int32))
        row = {key: i for i, key in enumerate(keys)}
        for name, values in self._found[target][time_ns].items():
            pairs = [(row[key], value) for key, value in values.items() if key in row]
            rows = np.array([i for i, _ in pairs], np.int64)
            r.put(name, rows, np.array([v for _, v in pairs], np.uint64), 2**64 - 1)
            r.answered[rows] = True
        r.time_ns[r.answered] = time_ns
        return r


def _joined(parts: list[Interval]) -> Interval:
    """Return one interval from intervals of different ports."""
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


MOST_LID = 0xBFFF
_GUID = re.compile(r"(?:0x)?([0-9a-fA-F]{1,16})")
SELECTOR = '{__name__=~"infiniband_(switch|hca)_port_.+_total|softib_port_.+_total"}'
UPLINKS = '{__name__=~"infiniband_(switch|hca)_uplink_info"}'
RATES = '{__name__=~"infiniband_(switch_port|hca)_rate_bytes_per_second"}'
_FIELDS = {
    f"infiniband_{kind}_port_{c.treydock}_total": (c.field, c.factor)
    for kind in ("switch", "hca")
    for c in PORT_COUNTERS
}
_FIELDS |= {metric: (name, 1) for name, metric, _ in SOFTIB_COUNTERS}


def observations_of_server(
    url: str,
    rounds: int,
    every_s: float,
    fabric: str | None = None,
    *,
    time_s: float | None = None,
    node_guids: Mapping[int, int] | None = None,
) -> Observations:
    """Return the data of the server at ``url`` for the ``rounds`` × ``every_s`` seconds before clock time ``time_s``
    (None: before now). ``fabric``: a source of the ports' NodeGUIDs; ``node_guids``: the NodeGUIDs by PortGUID. Raises
    :class:`PeerError` if the server does not answer, :class:`InputError` if it has no data of a fabric."""
    window_s = max(1, round(rounds * every_s))
    scrapes = Scrapes()
    for one in ask(url, f"{SELECTOR}[{window_s}s]", time_s):
        name, key = one.labels.get("__name__", ""), key_of(one.labels)
        if name in _FIELDS and key is not None:
            field, factor = _FIELDS[name]
            scrapes.add(target_of(one.labels), field, key, one.samples, factor)
    scrapes.refuse_too_many(url)
    if scrapes.most < 2:
        raise InputError(
            f"{url}: {scrapes.most} scrapes of InfiniBand ports in the last {window_s} s, but two are needed; use a "
            f"longer time range, or configure Prometheus to scrape 'softib exporter'"
        )
    # The cables are those at the time of the last scrape, because the server has no current data of an exporter that
    # has stopped.
    ports, intervals = ports_of_keys(url, scrapes.keys, scrapes.last_s), scrapes.intervals()
    if fabric is not None:
        node_guids = _node_guids(fabric)
    if node_guids is not None:
        ports = _with_node_guids(ports, node_guids)
        intervals = [replace(one, guid=_renamed(one.guid, node_guids)) for one in intervals]
    return observations_of(ports, intervals)


def _node_guids(fabric: str) -> dict[int, int]:
    f = load(fabric, notice=lambda line: None).fabric
    whose = dict(zip(f.port_guid.tolist(), f.node_guid[f.port_node].tolist(), strict=True))
    whose.pop(0, None)
    return whose


def _renamed(guid: np.ndarray, whose: Mapping[int, int]) -> np.ndarray:
    """Return the NodeGUIDs for PortGUIDs (uint64[n]); a PortGUID that is missing in ``whose`` is returned unchanged."""
    return np.array([whose.get(g, g) for g in guid.tolist()], np.uint64)


def _with_node_guids(ports: ObservedPorts, whose: Mapping[int, int]) -> ObservedPorts:
    """Return the ports with NodeGUIDs in place of PortGUIDs, sorted by NodeGUID."""
    guid = _renamed(ports.node_guid, whose)
    order = np.lexsort((ports.portnum, guid))
    row = np.empty(len(order), np.int64)
    row[order] = np.arange(len(order))
    peer = np.where(ports.peer >= 0, row[np.maximum(ports.peer, 0)], -1)[order].astype(np.int32)
    text = {"port_guid": np.array([f"{g:#018x}" for g in ports.node_guid[order].tolist()], object)}
    return ObservedPorts(
        guid[order],
        ports.portnum[order],
        ports.switch[order],
        tuple(ports.node[i] for i in order.tolist()),
        ports.lid[order],
        peer,
        ports.rate_gbps[order],
        text,
    )


def ask(url: str, query: str, time_s: float | None = None) -> list[Series]:
    """Return the result of an instant query, now or at a clock time. Raises :class:`PeerError` if
    no Prometheus answers."""
    return answer_of(url, "query", {"query": query} | ({} if time_s is None else {"time": f"{time_s:.3f}"}))


def ask_range(url: str, query: str, since_s: float, until_s: float, step_s: float) -> list[Series]:
    """Return the series of a query at times ``step_s`` apart. Raises :class:`PeerError`."""
    given = {"query": query, "start": f"{since_s:.3f}", "end": f"{until_s:.3f}", "step": f"{step_s:.3f}"}
    return answer_of(url, "query_range", given)


def error_metrics() -> str:
    """Return a selector for all error counters in :data:`softib.monitor.ranking.ERRORS`, with treydock's names."""
    names = "|".join(c.treydock for c in PORT_COUNTERS if c.field in ERRORS)
    return f"{{__name__=~'infiniband_(switch|hca)_port_({names})_total'}}"


def ports_at(url: str, time_s: float) -> ObservedPorts:
    """Return every port that had a cable at a clock time."""
    uplinks = {key: one for one in ask(url, UPLINKS, time_s) if (key := key_of(one.labels)) is not None}
    return ports_of_keys(url, sorted(uplinks), time_s)


def key_of(labels: Mapping[str, str]) -> Key | None:
    """Return (GUID, portnum) from the labels of a series; None if they are missing."""
    guid, portnum = _GUID.fullmatch(labels.get("guid", "")), whole_number(labels.get("port", ""))
    return None if guid is None or portnum is None or portnum > 255 else (int(guid[1], 16), portnum)


def ports_of_keys(url: str, keys: list[Key], time_s: float | None = None) -> ObservedPorts:
    """Return the ports ``keys`` with the data of the uplink metrics."""
    n = len(keys)
    row = {key: i for i, key in enumerate(keys)}
    rows_of: dict[int, list[int]] = {}
    for i, (g, _) in enumerate(keys):
        rows_of.setdefault(g, []).append(i)
    node, peer, lid, switch, rate = (
        [f"{g:#018x}" for g, _ in keys],
        np.full(n, -1, np.int32),
        np.zeros(n, np.int32),
        np.zeros(n, bool),
        np.zeros(n),
    )
    for one in ask(url, UPLINKS, time_s):
        labels, key = one.labels, key_of(one.labels)
        at = row.get(key) if key is not None else None
        if at is None:
            continue
        switch[at] = "switch" in labels
        node[at] = labels.get("switch") or labels.get("hca") or node[at]
        remote = key_of({"guid": labels.get("uplink_guid", ""), "port": labels.get("uplink_port", "")})
        if remote in row:
            peer[at] = row[remote]
            lid[row[remote]] = min(whole_number(labels.get("uplink_lid", "")) or 0, MOST_LID)
    for one in ask(url, RATES, time_s):
        labels, value = one.labels, one.last
        key = key_of({"guid": labels.get("guid", ""), "port": labels.get("port", "0")})
        if key is None or value is None or value < 0:
            continue
        rows = rows_of.get(key[0], []) if "port" not in labels else [row[key]] if key in row else []
        rate[rows] = (
            value * 8 / 1e9
        )  # the ports of an HCA have different GUIDs, and this metric has no portnum for them
    guid, number = np.array([g for g, _ in keys], np.uint64), np.array([p for _, p in keys], np.int32)
    return ObservedPorts(guid, number, switch, tuple(node), lid, peer, rate)
