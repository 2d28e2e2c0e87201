"""A fabric that is served is known by MADs alone: counters of the last round, findings of rules over rounds, cables that went down since when, data that is old with its age."""

from __future__ import annotations

import base64

import numpy as np
import pytest

pytest.importorskip("fastapi", reason="fastapi is not installed (the extra serve)")

from softib.errors import PeerError
from softib.fabric.plugging import delete_cables
from tests.monitor.lab import port_of
from tests.web.watched import Watched


@pytest.fixture
def watched(monkeypatch):
    return Watched(monkeypatch)


def test_what_was_read_is_what_devices_answered(watched):
    watched.round()
    port = port_of(watched.fabric, "leaf-1", 1)
    watched.add(port, "symbol_error_counter", 5)
    assert [r["symbol_error_counter"] for r in watched.get("counters?node=leaf-1")["rows"] if r["port"] == 1] == [0]
    watched.round()
    row = next(r for r in watched.get("counters?node=leaf-1")["rows"] if r["port"] == 1)
    assert row["symbol_error_counter"] == 5 and row["time"] == pytest.approx(watched.now_s, abs=2)
    # Port 0 is not polled: nothing is told of it, and that is no zero.
    assert (
        next(r for r in watched.get("counters?node=leaf-1")["rows"] if r["port"] == 0)["symbol_error_counter"] is None
    )
    assert watched.wire.methods == {1}  # Get


def test_a_device_that_does_not_answer_has_no_counters(watched):
    watched.round()
    watched.round()
    node = watched.fabric.node_names().index("leaf-2")
    watched.wire.mute.add(int(watched.fabric.lid[watched.fabric.node_base[node]]))
    watched.round()
    rows = watched.get("counters?node=leaf-2")["rows"]
    assert len(rows) == 5 and {r["port_xmit_data"] for r in rows} == {None}


def test_load_of_an_edge_and_of_a_port_over_time(watched):
    watched.round()
    watched.round()
    port = port_of(watched.fabric, "leaf-1", 3)
    peer = watched.fabric.node_name(int(watched.fabric.port_node[watched.fabric.port_peer[port]]))
    watched.add(port, "port_xmit_data", int(50e9 / 4))
    watched.round()
    value = base64.b64decode(watched.get("values?by=load")["value"])
    assert value[watched.edge("leaf-1", peer)] == 255 and sorted(value)[-2] < 10
    told = watched.get("history?node=leaf-1&portnum=3")
    assert told["load"][-1] == pytest.approx(1.0, rel=0.02) and len(told["time"]) == 2
    times = watched.get("times")
    assert times["total"] == 2 and times["time"] == told["time"]
    before = watched.get(f"values?by=load&at={times['time'][0]}")
    assert max(base64.b64decode(before["value"])) < 10 and before["time"] == times["time"][0]
    assert watched.get("times?limit=1")["time"] == times["time"][:1]


def test_rules_over_counters_find_the_bad_cable(watched):
    watched.round()
    watched.round()
    version = watched.get("fabric")["version"]
    port = port_of(watched.fabric, "leaf-1", 3)
    for _ in range(8):
        watched.add(port, "symbol_error_counter", 2000)
        watched.add(port, "port_rcv_errors", 2000)
        watched.round(5.0)
    found = watched.get("findings")["rows"]
    named = [f for f in found if any(w["node"] == "leaf-1" and w["portnum"] == 3 for w in f["where"])]
    assert named and named[0]["severity"] in ("warning", "error"), found
    assert watched.get("fabric")["version"] > version
    peer = watched.fabric.node_name(int(watched.fabric.port_node[watched.fabric.port_peer[port]]))
    assert base64.b64decode(watched.get("values?by=findings")["value"])[watched.edge("leaf-1", peer)] >= 2


def test_a_cable_that_goes_down_stays_on_the_map_with_since_when(watched):
    watched.round()
    watched.round()
    before = watched.get("fabric")
    port = port_of(watched.fabric, "leaf-1", 3)
    peer = watched.fabric.node_name(int(watched.fabric.port_node[watched.fabric.port_peer[port]]))
    edge = watched.edge("leaf-1", peer)
    delete_cables(watched.fabric, np.array([watched.fabric.port_cable[port]]))
    watched.round(40.0)
    (lost,) = watched.get("down")["rows"]
    assert {lost["a"].partition("[")[0], lost["b"].partition("[")[0]} == {"leaf-1", peer} and lost[
        "since"
    ] == watched.now_s
    after = watched.get("fabric")
    assert after["drawn"] == before["drawn"] and after["cables"] == before["cables"] - 1 and after["down"] == 1
    down = base64.b64decode(watched.get("values")["down"])
    assert [e for e, d in enumerate(down) if d] == [edge]
    since = lost["since"]
    watched.round(40.0)
    assert watched.get("down")["rows"][0]["since"] == since


def test_a_node_that_was_removed_stays_on_the_map(watched):
    watched.round()
    watched.round()
    f = watched.fabric
    node = f.node_names().index("host-0008")
    guid = int(f.node_guid[node])
    delete_cables(f, np.unique(f.port_cable[[p for p in f.ports_of(node) if f.port_cable[p] >= 0]]))
    watched.round(40.0)
    removed = [d for d in watched.get("down")["rows"] if d["what"] == "node"]
    assert [d["a"] for d in removed] == ["host-0008"]
    m = watched.get("map")
    assert base64.b64decode(watched.get("values")["node"])[m["name"].index("host-0008")] == 4
    assert watched.get("search?q=host-0008")["total"] == 1
    code, document = watched.ask(f"/api/v1/ports?node={guid:#018x}")
    assert code == 404 and "last seen before" in document["detail"]


def test_a_fabric_that_went_down_is_shown_with_its_age_and_looked_for_again(watched, monkeypatch):
    watched.round()
    watched.round()
    assert watched.get("fabric")["stale"] is False
    watched.broken = "one: the daemon has ended"

    def ended(outbox=None):
        raise PeerError(watched.broken)

    working = watched.wire.exchange
    watched.wire.exchange = ended
    watched.round()
    watched.round(30.0)
    told = watched.get("fabric")
    assert told["problem"] == watched.broken and told["stale"] and told["age_s"] == pytest.approx(31.0)
    assert watched.get("values")["age_s"] == pytest.approx(31.0) and told["switches"] == 6
    watched.broken, watched.wire.exchange = "", working
    watched.round()
    told = watched.get("fabric")
    assert told["problem"] == "" and not told["stale"] and told["age_s"] == 0.0 and watched.opened == 2
