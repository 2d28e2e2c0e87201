"""Uses a Prometheus server as the history behind the page's time slider: queries its scrapes of ``softib exporter`` or
treydock's exporter for the selected time.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

from softib.diags.observations import Observations, ObservedPorts
from softib.errors import InputError, PeerError
from softib.fabric.model import Fabric
from softib.monitor.judged_window import JUDGED_S, ROWS
from softib.monitor.prometheus import (
    Key,
    Target,
    ask,
    ask_range,
    error_metrics,
    key_of,
    observations_of_server,
    ports_at,
    target_of,
)
from softib.web.past import PastMap, PastMaps
from softib.web.rates import Sample

__all__ = ["PastServer"]

DAYS = 30.0
"""Number of days back to which the first scrape is searched."""
POINTS, SCRAPES = 500, 80
"""Maximum number of times on the slider, and number of scrapes in the evaluated twenty minutes at one per 15 s."""
LEAST_STEP_S = 15.0
LEAST_WINDOW_S = 150.0
"""Minimum window in seconds, which contains two scrapes at one per minute."""
RATE_S = 300
"""Time in seconds before the selected time over which rates are computed (it contains at least two
scrapes at one per minute).
"""
KNOWN_S = 30.0
"""Interval of queries for the server's time range."""
ALIVE = "count({__name__=~'infiniband_(switch|hca)_port_transmit_data_bytes_total'})"
SENT = "rate(infiniband_KIND_port_transmit_data_bytes_total[300s])"
DATA = {"switch": "infiniband_switch_port_rate_bytes_per_second", "hca": "infiniband_hca_rate_bytes_per_second"}
MOST_LOAD = 16.0
WAIT = "softib_port_transmit_wait_ratio"


class PastServer:
    """The server at ``url``. ``fabric`` returns the present fabric, from which the ports of HCAs
    get their NodeGUIDs (None: not known yet). Raises :class:`PeerError` if the server does not
    answer, :class:`InputError` if it has no data of a fabric."""

    def __init__(
        self, url: str, fabric: Callable[[], Fabric | None] = lambda: None, clock: Callable[[], float] = time.time
    ):
        self.url, self.fabric, self.clock = url, fabric, clock
        self._times: tuple[float, list[float]] = (float("-inf"), [])
        self.maps = _Maps(self)
        if not self.times():
            raise InputError(
                f"{url}: no scrape of InfiniBand ports in the last {DAYS:.0f} days; let it scrape 'softib exporter'"
            )

    def times(self) -> list[float]:
        """Return the clock times of the server's data, at most :data:`POINTS` of them, oldest first."""
        now = self.clock()
        if now - self._times[0] > KNOWN_S:
            times = self._times[1]
            self._times = (now, times)  # a server that does not answer is not queried again at once
            try:
                self._times = (now, self._look(now))
            except PeerError:
                if not times:
                    raise
        return self._times[1]

    def _look(self, now: float) -> list[float]:
        coarse = self._alive(now - DAYS * 86400, now)
        first = max(now - DAYS * 86400, coarse[0] - DAYS * 86400 / POINTS) if coarse else now - 3600
        return self._alive(first, now) or coarse

    def _alive(self, since_s: float, until_s: float) -> list[float]:
        step = max(LEAST_STEP_S, (until_s - since_s) / POINTS)
        return sorted({t for one in ask_range(self.url, ALIVE, since_s, until_s, step) for t, _ in one.samples})

    def at(self, time_s: float) -> Sample | None:
        """Return the rates of ports in the five minutes before the nearest time."""
        times = self.times()
        if not times:
            return None
        when = min(times, key=lambda t: abs(t - time_s))
        load, wait = {}, self._values(WAIT, when)
        for kind, rate in DATA.items():
            of_port = self._values(rate, when)
            sent = self._values(SENT.replace("KIND", kind), when)
            for key, value in sent.items():
                full = of_port.get(key) or of_port.get((key[0], 0))
                if full:
                    load[key] = min(max(value / full, 0.0), MOST_LOAD)
        errors = self._errors(when)
        keys = sorted({*load, *wait, *errors})
        whose = self._whose()
        return Sample(
            when,
            np.array([whose.get(g, g) for g, _ in keys], np.uint64),
            np.array([p for _, p in keys], np.int32),
            np.array([load.get(k, np.nan) for k in keys], np.float16),
            np.array([wait.get(k, np.nan) for k in keys], np.float16),
            np.array([min(errors.get(k, 0), 65535) for k in keys], np.uint16),
        )

    def _values(self, query: str, when: float) -> dict[Key, float]:
        values = {}
        for one in ask(self.url, query, when):
            key = key_of({"guid": one.labels.get("guid", ""), "port": one.labels.get("port", "0")})
            if key is not None and one.last is not None:
                values[key] = one.last
        return values

    def _errors(self, when: float) -> dict[Key, int]:
        """Return the increases of error counters, from the first to the last time at which they are
        above 0. A counter that decreased was cleared: its increase is unknown."""
        rose: dict[Target, dict[Key, int]] = {}
        for one in ask(self.url, f"({error_metrics()} > 0)[{RATE_S}s:15s]", when):
            values, key = [v for _, v in one.samples], key_of(one.labels)
            if key is not None and values and values[-1] > values[0]:
                of = rose.setdefault(target_of(one.labels), {})
                of[key] = of.get(key, 0) + int(values[-1] - values[0])
        most: dict[Key, int] = {}
        for of in rose.values():  # if two exporters read a port, both report the same increase
            most |= {key: max(n, most.get(key, 0)) for key, n in of.items()}
        return most

    def of_port(self, guid: int, portnum: int, since_s: float, until_s: float) -> list[tuple[float, float, float, int]]:
        """Return (time, load, wait, errors: unknown) of one port between two clock times."""
        times = [t for t in self.times() if since_s <= t <= until_s]
        if len(times) < 2:
            return []
        step = max(LEAST_STEP_S, (times[-1] - times[0]) / POINTS)
        names = {f"{g:#018x}" for g, n in self._whose().items() if n == guid} | {f"{guid:#018x}"}
        which = f"guid=~'{'|'.join(sorted(names))}'"
        points: dict[float, list[float]] = {}
        for kind, rate in DATA.items():
            of_link = "" if kind == "hca" else f",port='{portnum}'"
            full = {
                t: v
                for one in ask_range(self.url, f"{rate}{{{which}{of_link}}}", times[0], times[-1], step)
                for t, v in one.samples
            }
            sent = f"rate(infiniband_{kind}_port_transmit_data_bytes_total{{{which},port='{portnum}'}}[{RATE_S}s])"
            for one in ask_range(self.url, sent, times[0], times[-1], step):
                for t, v in one.samples:
                    if full.get(t):
                        points[t] = [min(max(v / full[t], 0.0), MOST_LOAD), np.nan]
        for one in ask_range(self.url, f"{WAIT}{{{which},port='{portnum}'}}", times[0], times[-1], step):
            for t, v in one.samples:
                points.setdefault(t, [np.nan, np.nan])[1] = v
        return [(t, load, wait, 0) for t, (load, wait) in sorted(points.items())]

    def observations(self, time_s: float) -> Observations | None:
        """Return the increases in the :data:`JUDGED_S` seconds before the time (fewer for large
        fabrics); None without two scrapes."""
        ports = max(1, len(ports_at(self.url, time_s)))
        window_s = max(LEAST_WINDOW_S, JUDGED_S * min(1.0, ROWS / (ports * SCRAPES)))
        try:
            return observations_of_server(self.url, 1, window_s, time_s=time_s, node_guids=self._whose())
        except InputError:
            return None

    def topology_at(self, time_s: float) -> ObservedPorts:
        """Return the cabled ports at a time, by their NodeGUIDs if the present fabric has them."""
        ports = ports_at(self.url, time_s)
        whose = self._whose()
        guid = np.array([whose.get(g, g) for g in ports.node_guid.tolist()], np.uint64)
        return ObservedPorts(guid, ports.portnum, ports.switch, ports.node, ports.lid, ports.peer, ports.rate_gbps)

    def _whose(self) -> dict[int, int]:
        """Return the NodeGUID of each PortGUID of HCAs."""
        f = self.fabric()
        if f is None:
            return {}
        return {p: n for p, n in zip(f.port_guid.tolist(), f.node_guid[f.port_node].tolist(), strict=True) if p}


class _Maps:
    """Maps by time; one map is drawn for each set of cables, even if it existed at several times."""

    def __init__(self, server: PastServer):
        self.server = server
        self._since: dict[int, float] = {}
        self._drawn: PastMap | None = None

    def at(self, time_s: float) -> PastMap | None:
        """Return the map of that time; None if its cables are unknown."""
        times = self.server.times()
        if not times:
            return None
        ports = self.server.topology_at(min(times, key=lambda t: abs(t - time_s)))
        if not len(ports):
            return None
        mark = hash((ports.node_guid.tobytes(), ports.portnum.tobytes(), ports.peer.tobytes(), ports.node))
        since = self._since.setdefault(mark, time_s)
        if self._drawn is None or self._drawn.since_s != since:
            self._drawn = PastMaps(_One(since, ports)).at(since)
        return self._drawn


class _One:
    """A source with a single topology."""

    def __init__(self, since_s: float, ports: ObservedPorts):
        self._since, self._ports = since_s, ports

    def topologies(self) -> list[float]:
        return [self._since]

    def ports_of(self, since_s: float) -> ObservedPorts:
        return self._ports
