"""The bad input that the task of watching names, each once: a port that lies, clocks that jump, a server that goes away under a slider. (Others have their tests: a dump of another fabric, a
Prometheus that is down and files of one time in ``test_files.py``, a token that is missing in ``tests/web/test_access.py``.)"""

from __future__ import annotations

import itertools
import time

import numpy as np
import pytest

from softib.diags.cable_rules.judge import judge
from softib.errors import PeerError
from softib.live.clock import SteadyClock
from softib.monitor.intervals import between, observations_of
from tests.monitor.lab import Lab, port_of, row_of


def test_a_port_that_lies_is_unknown_and_accuses_nobody():
    """Its counters go back and forth at random; nothing is negative, nothing rises by 2^64, and the rest of the fabric is judged as ever."""
    lab, rng = Lab(), np.random.default_rng(7)
    liar = port_of(lab.fabric, "leaf-1", 3)
    readings = [lab.round().reading]
    for _ in range(20):
        for name in lab.fabric.counters.dtype.names:
            lab.fabric.counters[name][liar] = np.uint64(rng.integers(0, 1000))
        readings.append(lab.round().reading)
    ports = lab.poller.targets.ports
    seen = observations_of(ports, [between(a, b) for a, b in itertools.pairwise(readings)])
    row = row_of(lab.poller.targets, lab.fabric, liar)
    for name, rose in seen.increase.items():
        assert int(rose[:, row].max()) < 1 << 63 and not rose[~seen.known[name]].any(), name
    assert seen.known["symbol_error_counter"][:, row].sum() < 5  # all of a port's counters are unknown where one fell
    assert seen.known["symbol_error_counter"][:, [r for r in range(len(ports)) if r != row]].all()
    accused = {str(w) for f in judge(seen) if f.severity.name in ("WARNING", "ERROR") for w in f.where}
    assert accused <= {lab.fabric.port_name(liar), lab.fabric.port_name(int(lab.fabric.port_peer[liar]))}


@pytest.mark.parametrize("jump_s", [-7200, 7200])
def test_a_machine_whose_clock_is_set_sees_intervals_as_long_as_they_were(monkeypatch, jump_s):
    clock = SteadyClock()
    first = clock()
    wall = time.time_ns
    monkeypatch.setattr(time, "time_ns", lambda: wall() + jump_s * 10**9)
    monkeypatch.setattr(time, "time", lambda: wall() / 1e9 + jump_s)
    second = clock()
    assert 0 <= second - first < 10**9
    assert abs(SteadyClock()() - clock() - jump_s * 10**9) < 10**9  # who begins now begins with the new time


def test_a_slider_goes_on_when_the_clock_is_set_back(monkeypatch):
    pytest.importorskip("fastapi", reason="fastapi is not installed (the extra serve)")
    from softib.monitor.opening import Opened
    from softib.web.collector import Collector
    from softib.web.served import Served
    from tests.monitor.lab import QUICK, Wire, fabric_up

    wire = Wire(fabric_up())
    collector = Collector("one", lambda: Opened(wire, "one", None, lambda: None))
    collector._pace = QUICK
    served = Served("one", collector=collector)
    wall = time.time_ns
    for i in range(4):
        if i == 2:
            monkeypatch.setattr(time, "time_ns", lambda: wall() - 86400 * 10**9)
            monkeypatch.setattr(time, "time", lambda: wall() / 1e9 - 86400)
        served.refresh()
    times = served.recent.times()
    assert len(times) == 3 and times == sorted(times) and not served.stale


def test_a_history_that_goes_away_is_one_line_in_the_answer(monkeypatch):
    pytest.importorskip("fastapi", reason="fastapi is not installed (the extra serve)")
    from softib.fabric.formats.base import ReadResult
    from softib.web.app import app_of
    from softib.web.served import Served
    from tests.monitor.lab import fabric_up
    from tests.web.client import Client

    class Gone:
        class maps:
            @staticmethod
            def at(time_s):
                raise PeerError("http://prometheus:9090: no Prometheus answers: Connection refused")

        @staticmethod
        def times():
            raise PeerError("http://prometheus:9090: no Prometheus answers: Connection refused")

    fabric = fabric_up()
    ask = Client(app_of(Served("one", lambda: ReadResult(fabric, [], "test"), past=Gone()))).get
    assert ask("/api/v1/times") == (200, {"total": 0, "time": [], "every_s": 2.0})  # the live page goes on
    for path in ("map?at=5", "values?at=5"):
        code, document = ask(f"/api/v1/{path}")
        assert (
            code == 404
            and document["detail"].startswith("http://prometheus:9090: no Prometheus answers")
            and "\n" not in document["detail"]
        )
    assert ask("/api/v1/map")[0] == 200 and ask("/api/v1/fabric")[0] == 200
