"""The map of earlier times: cables that came and went since a history began, and what was lost before the server was started."""

from __future__ import annotations

import base64

import numpy as np
import pytest

pytest.importorskip("fastapi", reason="fastapi is not installed (the extra serve)")
pytest.importorskip("duckdb", reason="duckdb is not installed (the extra monitor)")

from softib.fabric.formats.base import ReadResult
from softib.fabric.plugging import delete_cables
from softib.monitor.history import History
from softib.web.app import app_of
from softib.web.past import Past
from softib.web.served import Served
from tests.monitor.lab import fabric_up, port_of
from tests.web.client import Client
from tests.web.kept_days import keep, without
from tests.web.watched import Watched


class Seen:
    """Answers of a server over ``past``; ``edges(t)``: names of both ends → is it down, of the map at a time."""

    def __init__(self, served: Served):
        self.ask = Client(app_of(served)).get

    def get(self, path: str):
        code, document = self.ask(f"/api/v1/{path}")
        assert code == 200, document
        return document

    def edges(self, at: float | None) -> dict[frozenset[str], bool]:
        time = "" if at is None else f"at={at}"
        doc, values = self.get(f"map?{time}"), self.get(f"values?{time}")
        assert doc["drawn"] == values["drawn"]
        pairs = np.array(doc["edge"]).reshape(-1, 2).tolist()
        down = base64.b64decode(values["down"])
        assert len(down) == len(pairs)
        return {frozenset((doc["name"][a], doc["name"][b])): bool(down[i]) for i, (a, b) in enumerate(pairs)}


@pytest.fixture
def days(tmp_path):
    """A fabric, and a history of it: whole; one host's cable pulled and one cable to a spine; the first back, whole again but for the second."""
    whole, history = fabric_up(), History(tmp_path)
    times = [keep(history, whole, 0), keep(history, whole, 1)]
    spine = next(n for n in whole.node_names() if n.startswith("spine"))
    cut = without(whole, ("host-0003", 1), (spine, 1))
    times += [keep(history, cut, 10), keep(history, cut, 11)]
    times.append(keep(history, without(whole, (spine, 1)), 20))
    return whole, history, times, spine


def test_the_map_of_each_time_has_its_cables_and_what_was_lost_by_then(days, tmp_path):
    whole, history, times, spine = days
    assert len(history.topologies()) == 3  # kept when it changed, not each round
    seen = Seen(Served("one", lambda: ReadResult(whole.copy(), [], "test"), past=Past(tmp_path)))
    host = next(e for e in seen.edges(times[0]) if "host-0003" in e)
    assert len(seen.edges(times[0])) == 16 and not any(seen.edges(times[0]).values())
    at_11 = seen.edges(times[3])
    (uplink,) = [e for e, down in at_11.items() if down and spine in e]
    assert {e for e, down in at_11.items() if down} == {host, uplink} and len(at_11) == 16
    assert {e for e, down in seen.edges(times[4]).items() if down} == {uplink}
    now = seen.edges(None)
    assert not any(now.values()) and seen.get("map")["drawn"] >= 0 > seen.get(f"map?at={times[0]}")["drawn"]
    assert (
        seen.get(f"map?at={times[0]}")["drawn"]
        == seen.get(f"map?at={times[1]}")["drawn"]
        != seen.get(f"map?at={times[2]}")["drawn"]
    )
    # Before the history began its first state is shown.
    assert seen.edges(times[0] - 3600) == seen.edges(times[0])


def test_a_cable_that_was_moved_is_where_it_was(tmp_path):
    whole, history = fabric_up(), History(tmp_path)
    first = keep(history, whole, 0)
    moved = without(whole, ("host-0003", 1), ("host-0008", 1))
    a, b = port_of(moved, "host-0003", 1), int(whole.port_peer[port_of(whole, "host-0008", 1)])
    from softib.fabric.plugging import add_cable

    add_cable(moved, a, b)
    second = keep(history, moved, 5)
    seen = Seen(Served("one", lambda: ReadResult(whole.copy(), [], "test"), past=Past(tmp_path)))
    names = whole.node_names()
    old, new = (names[whole.port_node[whole.port_peer[port_of(whole, h, 1)]]] for h in ("host-0003", "host-0008"))
    assert frozenset(("host-0003", old)) in seen.edges(first) and frozenset(("host-0003", new)) not in seen.edges(first)
    then = seen.edges(second)
    assert then[frozenset(("host-0003", new))] is False and frozenset(("host-0003", old)) not in then


def test_what_was_lost_before_the_server_began_is_down_since_then(monkeypatch, tmp_path):
    watched = Watched(monkeypatch)
    history = History(tmp_path)
    keep(history, watched.fabric, 0)
    port = port_of(watched.fabric, "host-0003", 1)
    peer = watched.fabric.port_name(int(watched.fabric.port_peer[port]))
    lost = keep(history, without(watched.fabric, ("host-0003", 1)), 10)
    delete_cables(watched.fabric, [int(watched.fabric.port_cable[port])])
    watched.served.past = Past(tmp_path)
    watched.round()
    cable, node = sorted(watched.get("down")["rows"], key=lambda d: d["what"])
    assert {cable["a"], cable["b"]} == {"host-0003[1]", peer} and cable["since"] == lost
    assert node["what"] == "node" and node["a"] == "host-0003" and node["since"] == lost
    watched.round(60)
    assert [d["since"] for d in watched.get("down")["rows"]] == [lost, lost]
