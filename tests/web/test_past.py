"""The map of earlier times: cables that came and went since a history began, and what was lost before the server was started."""

from __future__ import annotations

import base64
import json

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


def test_findings_of_an_earlier_time_are_those_of_then(tmp_path):
    """A cable that made bit errors an hour ago, and then was well; a host whose cable was pulled later."""
    whole, history = fabric_up(), History(tmp_path)
    bad = [keep(history, whole, m, {("leaf-1", 3): 5000}, 60) for m in range(5)]
    well = [keep(history, whole, m, {}, 60) for m in range(60, 64)]
    gone = keep(history, without(whole, ("host-0003", 1)), 90, {}, 60)
    seen = Seen(Served("one", lambda: ReadResult(whole.copy(), [], "test"), past=Past(tmp_path)))

    def accused(at: float | None) -> dict[str, str]:
        time = "" if at is None else f"?at={at}"
        return {
            w["node"]: f["code"]
            for f in seen.get(f"findings{time}")["rows"]
            for w in f["where"]
            if f["severity"] != "info"
        }

    assert "leaf-1" in accused(bad[-1]) and accused(well[-1]) == {} == accused(None)
    assert accused(gone) == {"host-0003": "absent-host"} or "absent-host" in accused(gone).values()
    values = seen.get(f"values?by=findings&at={bad[-1]}")
    assert (
        max(base64.b64decode(values["value"])) >= 2
        and max(base64.b64decode(seen.get("values?by=findings")["value"])) == 0
    )
    assert [d["a"] for d in seen.get(f"down?at={gone}")["rows"] if d["what"] == "node"] == ["host-0003"]
    assert seen.get(f"down?at={bad[0]}")["rows"] == [] == seen.get("down")["rows"]
    assert seen.get(f"nodes?at={gone}")["total"] == 13 and seen.get("nodes")["total"] == 14
    assert seen.get(f"ports?node=host-0003&at={bad[0]}")["rows"][-1]["peer"].startswith("leaf-")
    code, document = seen.ask(f"/api/v1/ports?node=host-0003&at={gone}")
    assert code == 404 and "host-0003" in document["detail"]


def test_jobs_of_an_earlier_time_are_those_that_ran_then(tmp_path):
    whole, history = fabric_up(), History(tmp_path / "past")
    times = [keep(history, whole, 0), keep(history, without(whole, ("host-0003", 1)), 60)]
    file = tmp_path / "jobs.json"
    job = {
        "job_state": ["COMPLETED"],
        "job_id": 1,
        "name": "early",
        "nodes": "host-[0003-0006]",
        "start_time": times[0] - 60,
        "end_time": times[0] + 60,
    }
    late = job | {
        "job_state": ["RUNNING"],
        "job_id": 2,
        "name": "late",
        "nodes": "host-[0001-0006]",
        "start_time": times[1] - 60,
        "end_time": times[1] + 9e5,
    }
    file.write_text(json.dumps({"jobs": [job, late]}))
    seen = Seen(
        Served("one", lambda: ReadResult(whole.copy(), [], "test"), past=Past(tmp_path / "past"), jobs=str(file))
    )
    assert [[j["job"] for j in seen.get(f"jobs{t}")["rows"]] for t in (f"?at={times[0]}", f"?at={times[1]}", "")] == [
        ["early (1)"],
        ["late (2)"],
        ["late (2)"],
    ]
    doc, values = seen.get(f"map?at={times[0]}"), seen.get(f"values?by=jobs&at={times[0]}")
    node = base64.b64decode(values["node"])
    assert {doc["name"][i] for i, v in enumerate(node) if v == 1} == {f"host-000{i}" for i in range(3, 7)}
    assert len(base64.b64decode(values["value"])) == len(doc["edge"]) // 2
    assert seen.get(f"values?by=jobs&at={times[0]}&job=early%20(1)")["value"]
    file.write_text("{")
    assert seen.get(f"jobs?at={times[0]}")["rows"] == [] and "jobs.json" in seen.get(f"values?at={times[0]}")["problem"]


def test_what_the_server_saw_itself_is_kept_as_it_was(monkeypatch):
    """Cables that were down and are back, and findings that are gone, are there at their time."""
    watched = Watched(monkeypatch)
    for _ in range(3):
        watched.round(20.0)
    before = watched.now_s
    port = port_of(watched.fabric, "leaf-1", 3)
    for _ in range(4):
        watched.add(port, "symbol_error_counter", 9000)
        watched.round(20.0)
    cable = int(watched.fabric.port_cable[port])
    whole = watched.fabric.copy()
    delete_cables(watched.fabric, [cable])
    watched.round(40.0)
    during = watched.now_s
    assert watched.get("down")["total"] == 1 == watched.get(f"down?at={during}")["total"]
    from softib.fabric.plugging import add_cable

    add_cable(watched.fabric, port, int(whole.port_peer[port]))
    watched.fabric.port_info[:] = whole.port_info
    for _ in range(3):
        watched.round(40.0)
    assert watched.get("down")["total"] == 0 and watched.get(f"down?at={during}")["total"] == 1

    def accused(at: float) -> set[str]:
        rows = watched.get(f"findings?at={at}")["rows"]
        return {w["node"] for f in rows for w in f["where"] if f["severity"] != "info"}

    assert "leaf-1" in accused(during) and accused(before) == set()
    assert sum(base64.b64decode(watched.get(f"values?at={during}")["down"])) == 1
    assert sum(base64.b64decode(watched.get("values")["down"])) == 0
    assert watched.get(f"map?at={during}")["drawn"] == watched.get(f"values?at={during}")["drawn"]
