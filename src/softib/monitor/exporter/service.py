"""Reads rounds in a separate thread, and serves the last one over HTTP."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import numpy as np

from softib.diags.observations import ObservedPorts
from softib.errors import InputError, MadTimeout, MissingLibrary, PeerError, SoftibError
from softib.extras import install_command
from softib.monitor.exporter.ratios import ErrorRatios
from softib.monitor.exporter.round_exporter import RoundSink
from softib.monitor.exporter.service_metrics import ServiceMetrics, standing_text
from softib.monitor.exporter.standing_findings import StandingFindings
from softib.monitor.exporter.text import PortText
from softib.monitor.history import History
from softib.monitor.intervals import Interval, same_cables
from softib.monitor.latest_tables import JobsCrossing, LatestTables
from softib.monitor.opening import Opened
from softib.monitor.perfmgr import Pace
from softib.monitor.reading import Reading
from softib.monitor.seen_ports import SeenPorts
from softib.monitor.watch import Watch

__all__ = ["ExporterService"]

STALE_ROUNDS = 3
"""Number of intervals without a round after which scrapes contain no ports."""
LEAST_STALE_S = 10.0
RAW_WINDOW_S, RAW_ROUNDS = 300.0, 24
"""Window in seconds for the bit error ratio before correction, and the minimum number of rounds in this window (on
large fabrics, only two rounds in ten read the counters of a port)."""
FALLS = "link_downed_counter"
TEXT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class ExporterService:
    """Reads a round from ``opened`` every ``every_s`` seconds, and serves ``/metrics`` at ``address``:``port`` (0: a
    free port, whose number is then in :attr:`port`).

    Raises :class:`MissingLibrary` without prometheus-client, :class:`InputError` for a port in use.
    """

    def __init__(
        self,
        opened: Opened,
        *,
        address: str = "127.0.0.1",
        port: int = 9315,
        every_s: float = 15.0,
        scheme: str = "treydock",
        window_s: float = 3600.0,
        history: History | None = None,
        pace: Pace | None = None,
        keep_s: float = 0.0,
        notice: Callable[[str], None] = lambda line: None,
    ):
        try:
            from prometheus_client import CollectorRegistry, ProcessCollector
        except ImportError:
            raise MissingLibrary(f"softib exporter needs prometheus-client: {install_command('monitor')}") from None
        self.every_s, self.scheme, self.window_s, self.notice = every_s, scheme, window_s, notice
        self.watch = Watch(opened, pace, keep=1)
        self.watch.poller.keeps_down = True
        if opened.shard is not None and opened.shard.number > 1:
            self.watch.poller.left_out |= {"manager"}
        self.seen = SeenPorts(opened.memory, keep_s, notice, opened.shard)
        self._standing = b""
        self._tables = LatestTables(opened.wire, opened.name)
        self.findings = StandingFindings(opened.memory, keep_s, notice, self._tables)
        self.sinks: list[RoundSink] = []
        """Further destinations of every round."""
        if history is not None:
            history.claim(self.watch.ports)
            self.sinks.append(self.history_sink(history))
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._text, self._text_of = b"", -1
        self._ratios: ErrorRatios | None = None
        self._ports: PortText | None = None
        self._last_s = float("-inf")
        self.failure: SoftibError | None = None
        registry = CollectorRegistry()
        registry.register(ServiceMetrics(self.watch, self.seen, self.findings, scheme, self.fresh))
        ProcessCollector(registry=registry)
        self._registry = registry
        try:
            self._server = _Server((address, port), _handler(self))
        except OSError as error:
            raise InputError(f"{address}:{port}: {error.strerror}; use --port for another one") from None
        self.port = int(self._server.server_address[1])
        self._threads: list[threading.Thread] = []

    # -- start and end --

    def start(self) -> None:
        """Read the first round; then read further rounds and serve scrapes in threads."""
        self.step()
        for target in (self._rounds, self._server.serve_forever):
            thread = threading.Thread(target=target, daemon=True)
            thread.start()
            self._threads.append(thread)

    def wait(self) -> None:
        """Wait until :meth:`close`, or until the fabric goes down (:class:`PeerError`)."""
        while not self._stop.wait(0.2):
            if self.failure is not None:
                raise self.failure

    def close(self) -> None:
        """Stop the threads."""
        self._stop.set()
        if self._threads:
            self._server.shutdown()
        self._server.server_close()
        for thread in self._threads:
            thread.join(30)
        self.watch.opened.close()
        for sink in self.sinks:
            try:
                sink.close()
            except SoftibError as error:
                self.notice(str(error))

    @property
    def started(self) -> bool:
        """Return whether the threads run."""
        return bool(self._threads)

    # -- rounds --

    def _rounds(self) -> None:
        slow = blind = False
        while not self._stop.wait(self.every_s):
            try:
                self.step()
            except SoftibError as error:
                if isinstance(error, PeerError) and not isinstance(error, MadTimeout):
                    self.failure = error
                    return
                if not blind:
                    self.notice(f"{error}; softib_up is 0 until rounds can be read again")
                blind = True  # temporary failure: the reader's link is down, or no device answers
                continue
            blind = False
            took = self.watch.round.duration_s if self.watch.round is not None else 0.0
            if took > self.every_s and not slow:
                slow = True
                self.notice(f"a round takes {took:.1f} s, longer than --every {self.every_s:g}; use a larger --every")

    def step(self) -> None:
        """Read one round, and write the text of its metrics."""
        one = self.watch.step()
        present = set(one.targets.device_guid.tolist())
        if len(present) - len(one.silent) <= 1 and len(present | {guid for guid, _ in self.seen.ports}) > 1:
            self.watch.poller.rediscover_soon()
            raise MadTimeout(
                f"{self.watch.opened.name}: only this host's device answers, because its link or all other devices are "
                f"down"
            )
        interval = self.watch.interval
        with self._lock:
            ports = one.targets.ports
            if self._ports is None or not _same(self._ports.ports, ports):
                self._ratios = (
                    self._ratios.carried(same_cables(self._ports.ports, ports))
                    if self._ports is not None and self._ratios is not None
                    else ErrorRatios(len(one.reading), self.window_s, max(RAW_WINDOW_S, RAW_ROUNDS * self.every_s))
                )
                self._ports = PortText(ports, self.scheme)
                if interval is not None and len(interval.guid) != len(one.reading):
                    interval = None
            assert self._ratios is not None
            if interval is not None:
                self._ratios.add(interval)
            if self.seen.step(ports, one.reading, one.silent, time.time(), _fell(interval)):
                self._standing = standing_text(self.seen)
                self.watch.poller.hurried = bool(self.seen.down())
            text = self._ports.text(self._exported(one.reading), interval, self._ratios, self.seen) + self._standing
        judges = "findings" not in self.watch.poller.left_out
        findings = self.findings.step(one.reading, ports, self.seen) if judges else b""
        with self._lock:
            self._text, self._last_s = text + findings, time.monotonic()
        for sink in self.sinks:
            self._hand_over(sink, one.targets.ports, one.reading)

    def _exported(self, reading: Reading) -> Reading:
        """Return ``reading`` without the far ends of a shard's cables; they are read only for the rules."""
        shard = self.watch.opened.shard
        if shard is None:
            return reading
        have = {name: rows.copy() for name, rows in reading.have.items()}
        exported = replace(reading, answered=reading.answered.copy(), have=have)
        exported.forget(np.flatnonzero(~shard.holds(reading.guid)))
        return exported

    def _hand_over(self, sink: RoundSink, ports: ObservedPorts, reading: Reading) -> None:
        """Pass the round to ``sink``. If it fails (for example because of a full disk or an error in its package),
        scrapes continue, and one line reports the failure; a later failure is reported only after a success."""
        try:
            sink.take(ports, reading, self.watch.interval)
        except SoftibError as error:
            if not sink.failing:
                self.notice(f"{error}; metrics are still served, {sink.loss}")
            sink.failing = True
        else:
            sink.failing = False

    def follow_jobs(self, file: str) -> None:
        """Read the jobs of ``file``, and label each finding with the jobs whose traffic crosses its location."""
        self.findings.jobs = JobsCrossing(file, self._tables, self.notice)

    def history_sink(self, history: History) -> RoundSink:
        """Return the sink that stores the intervals, and the manager's state in each round, in ``history``."""

        def take(ports: ObservedPorts, reading: Reading, interval: Interval | None) -> None:
            if interval is not None:
                history.append(ports, interval)
                if self.watch.manager.rounds:
                    history.append_manager(self.watch.manager.rounds[-1])

        return RoundSink(take, history.release, "these rounds are not stored")

    # -- scrapes --

    def fresh(self) -> bool:
        """Return whether the last round is recent enough to be shown. The limit allows for slower rounds on a busy
        machine."""
        took = self.watch.round.duration_s if self.watch.round is not None else 0.0
        return time.monotonic() - self._last_s <= max(LEAST_STALE_S, STALE_ROUNDS * (self.every_s + took))

    def metrics(self) -> list[bytes]:
        """Return the text of a scrape, in parts."""
        from prometheus_client import generate_latest

        with self._lock:
            ports = self._text if self.fresh() else b""
        return [ports, generate_latest(self._registry)]


def _fell(interval: Interval | None) -> np.ndarray | None:
    """Return whether each port counted LinkDowned in the interval (bool[n])."""
    if interval is None or FALLS not in interval.increase:
        return None
    return np.asarray(interval.known[FALLS] & (interval.increase[FALLS] > 0))


def _same(a: Any, b: Any) -> bool:
    """Return whether ``a`` and ``b`` have the same ports, names, LIDs and cables."""
    return a is b or (
        len(a) == len(b)
        and bool((a.node_guid == b.node_guid).all() and (a.portnum == b.portnum).all() and (a.peer == b.peer).all())
        and bool((a.lid == b.lid).all())
        and a.node == b.node
    )


class _Server(ThreadingHTTPServer):
    """An HTTP server that prints no traceback if a client closes its connection early or waits too long."""

    def handle_error(self, request: Any, client_address: Any) -> None:
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)


def _handler(service: ExporterService) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            path = self.path.split("?")[0]
            if path == "/metrics":
                self._send(200, TEXT_TYPE, service.metrics())
            elif path in ("/", "/-/healthy"):
                self._send(200, "text/plain; charset=utf-8", [b"softib exporter: /metrics\n"])
            else:
                self._send(404, "text/plain; charset=utf-8", [b"not here: /metrics\n"])

        def _send(self, code: int, kind: str, pieces: list[bytes]) -> None:
            self.send_response(code)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(sum(map(len, pieces))))
            self.end_headers()
            for piece in pieces:
                self.wfile.write(piece)

        def log_message(self, format: str, *args: Any) -> None:
            """Do nothing, because scrapes are not logged."""

    return Handler
