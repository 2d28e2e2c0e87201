"""A fabric in this process that is served, with a clock that tests move."""

from __future__ import annotations

import time

import numpy as np

from softib.errors import PeerError
from softib.monitor import perfmgr
from softib.monitor.opening import Opened
from softib.web import collector as collecting
from softib.web.app import app_of
from softib.web.collector import Collector
from softib.web.served import Served
from tests.monitor.lab import QUICK, Wire, fabric_up
from tests.web.client import Client


class Watched:
    """A fabric in this process, served; ``now`` is the clock of both, moved by :meth:`round`."""

    def __init__(self, monkeypatch):
        self.fabric = fabric_up()
        self.wire = Wire(self.fabric)
        self.now_s, self.opened, self.broken = time.time() + 1.0, 0, ""
        monkeypatch.setattr(collecting.time, "monotonic", lambda: self.now_s)
        monkeypatch.setattr(perfmgr, "SteadyClock", lambda: lambda: int(self.now_s * 1e9))
        self.collector = Collector("one", self.open)
        self.collector._pace = QUICK
        self.served = Served("one", collector=self.collector, clock=lambda: self.now_s)
        self.ask = Client(app_of(self.served)).get

    def open(self) -> Opened:
        if self.broken:
            raise PeerError(self.broken)
        self.opened += 1
        return Opened(self.wire, "one", None, lambda: None)

    def get(self, path: str):
        code, document = self.ask(f"/api/v1/{path}")
        assert code == 200, document
        return document

    def round(self, seconds: float = 1.0):
        self.now_s += seconds
        return self.served.refresh()

    def add(self, port: int, counter: str, n: int) -> None:
        column = self.fabric.counters if counter in self.fabric.counters.dtype.names else self.fabric.detail_counters
        column[counter][port] += np.uint64(n)

    def edge(self, a: str, b: str) -> int:
        m = self.get("map")
        pair = sorted((m["name"].index(a), m["name"].index(b)))
        return next(e for e in range(len(m["edge"]) // 2) if sorted(m["edge"][2 * e : 2 * e + 2]) == pair)
