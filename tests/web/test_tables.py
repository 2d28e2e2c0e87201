"""Ports by errors, modules and cables, events, and nodes of one name: each against what was planted, a formula of the specification, or bytes of a register."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("fastapi", reason="fastapi is not installed (the extra serve)")

import softib
from softib.api.web import _served
from softib.errors import PeerError
from softib.fabric.columns import CableMedium
from softib.fabric.plugging import delete_cables
from softib.iba.vendor import mlnx
from softib.web.app import app_of
from tests.monitor.lab import port_of
from tests.web.client import Client
from tests.web.twins import TWINS
from tests.web.watched import Watched

FILE = "sequoia-ndr-ibdiagnet/data__ibdiagnet2__ibdiagnet2.db_csv"


def ask_file(path) -> tuple:
    from contextlib import nullcontext

    served = _served(str(path), 1.0, 0, lambda text: None, lambda phase: nullcontext())
    return served, Client(app_of(served)).get


def rows(client, path: str) -> list[dict]:
    code, document = client(f"/api/v1/{path}")
    assert code == 200, document
    return document["rows"]


# ---- names


def test_nodes_of_one_name_are_shown_apart_and_found_by_their_guid(tmp_path):
    (tmp_path / "twins.net").write_text(TWINS)
    _, get = ask_file(tmp_path / "twins.net")
    names = get("/api/v1/map")[1]["name"]
    assert len(set(names)) == 5 and "spine" in names and "node (0x0002c90000000011)" in names
    assert {"leaf-1 (0x0002c90000000001)", "LEAF 1 (0x0002c90000000002)"} < set(
        names
    )  # equal but for case and a separator
    assert {r["name"] for r in rows(get, "search?q=node")} == {f"node (0x0002c9000000001{i})" for i in (1, 2)}
    code, refused = get("/api/v1/ports?node=node")
    assert code == 404 and "0x0002c90000000011" in refused["detail"]
    for i in (1, 2):
        (port,) = rows(get, f"ports?node=0x0002c9000000001{i}")
        assert port["peer_guid"] == f"0x0002c9000000000{i}"
        assert {r["guid"] for r in rows(get, f"port-errors?q=0002c9000000001{i}")} >= {f"0x0002c9000000001{i}"}
    assert rows(get, "ports?node=leaf-1")[3]["peer_guid"] == "0x0002c90000000011"
    code, path = get("/api/v1/path?a=0x0002c90000000011&b=0x0002c90000000012")
    hops = [h["node"] for h in path["hops"]]
    assert hops[:2] == ["node (0x0002c90000000011)", "leaf-1 (0x0002c90000000001)"]
    assert set(hops) <= set(names) and path["hops"][-1]["to"] == "node (0x0002c90000000012)"


def test_a_file_has_no_time_and_a_running_fabric_has(tmp_path, monkeypatch):
    (tmp_path / "twins.net").write_text(TWINS)
    _, get = ask_file(tmp_path / "twins.net")
    assert get("/api/v1/fabric")[1]["timed"] is False and rows(get, "events") == []
    watched = Watched(monkeypatch)
    watched.round()
    assert watched.get("fabric")["timed"] is True


# ---- errors


def test_ports_by_errors_say_what_was_counted_and_the_ratio_that_the_specification_makes_of_it(monkeypatch):
    """IBA 16.1.3.5: symbols flow on an idle link, so bits are lanes × signalling rate × seconds; 4x NDR is 425 Gb/s."""
    watched = Watched(monkeypatch)
    bad, worse = port_of(watched.fabric, "leaf-1", 3), port_of(watched.fabric, "leaf-2", 4)
    watched.add(worse, "link_downed_counter", 7)  # long ago: it stands in the first reading
    for k in range(4):
        watched.round(20.0)
        if k < 3:
            watched.add(bad, "symbol_error_counter", 100)
    first, second = watched.get("port-errors?limit=2")["rows"]
    assert (first["node"], first["port"], first["peer"]) == (
        "leaf-1",
        3,
        watched.fabric.port_name(int(watched.fabric.port_peer[bad])),
    )
    assert first["errors"] == first["rose"] == 300 == first["rises"]["symbol_error_counter"]
    assert first["observed_s"] == 60.0 and first["per_hour"] is None, "a minute is too short for a rate"
    assert first["symbol_ber"] == pytest.approx(300 / (60 * 425e9), rel=0.01)
    assert (second["node"], second["port"], second["errors"], second["rose"]) == ("leaf-2", 4, 7, 0)
    assert watched.get("port-errors?sort=-errors&q=leaf-2")["rows"][0]["port"] == 4
    names = [r["node"] for r in watched.get("port-errors?sort=node&limit=1000")["rows"]]
    assert names == sorted(names) and len(names) == 32
    assert watched.ask("/api/v1/port-errors?sort=colour") == (
        422,
        {
            "detail": "no column to sort by named 'colour'; known: node, guid, port, peer, errors, rose, per_hour, observed_s, symbol_ber, raw_ber, effective_ber"
        },
    )
    assert watched.ask("/api/v1/port-errors?sort=counters")[0] == 422  # it has no order


def test_errors_of_an_earlier_day_are_those_of_the_history(tmp_path):
    pytest.importorskip("duckdb", reason="duckdb is not installed (the extra monitor)")
    from softib.fabric.formats.base import ReadResult
    from softib.monitor.history import History
    from softib.web.past import Past
    from softib.web.served import Served
    from tests.monitor.lab import fabric_up
    from tests.web.kept_days import keep

    whole, history = fabric_up(), History(tmp_path)
    times = [keep(history, whole, m, {("leaf-1", 3): 5000}, 60) for m in range(3)]
    served = Served("one", lambda: ReadResult(whole.copy(), [], "test"), past=Past(tmp_path))
    first = rows(Client(app_of(served)).get, f"port-errors?at={times[-1]}&limit=1")[0]
    assert (first["node"], first["port"]) == ("leaf-1", 3) and first["rises"] == {"symbol_error_counter": first["rose"]}
    assert first["rose"] % 5000 == 0 and first["errors"] is None  # totals are not kept


def test_counters_and_modules_of_a_file_are_those_of_its_lines(shared_data: Path, tmp_path: Path):
    """Lines of ibdiagnet's .db_csv, made up in the words of its own reader."""
    ratio = ",".join(["0"] * 12 + ["15", "9", "0", "255", "0", "255"])
    text = (shared_data / FILE).read_text()
    made = (
        "START_CABLE_INFO\nNodeGuid,PortGuid,PortNum,Vendor,PN,SN,LengthCopperOrActive,Temperature,SupplyVoltageReporting,RX1Power,TX1Bias,TX1Power\n"
        "0xb0cf0e0300d33fc0,0x0,2,Mella\x1b[31mnox,MMA4Z00-NS,MT2233VS01234,3 m,48C,3300.0 mV,-9.1 dBm,6.5 mA,-1.0 dBm\nEND_CABLE_INFO\n"
        "START_PHY_DB16\nNodeGuid,PortGuid,PortNum,"
        + ",".join(f"field{i}" for i in range(18))
        + f"\n0xb0cf0e0300d33fc0,0x0,2,{ratio}\nEND_PHY_DB16\n"
    )
    (tmp_path / "one.db_csv").write_text(text.replace("START_INDEX_TABLE", made + "START_INDEX_TABLE"))
    _, get = ask_file(tmp_path / "one.db_csv")
    (module,) = [r for r in rows(get, "modules?limit=1000") if r["serial"]]
    assert (module["guid"], module["port"], module["part"], module["serial"]) == (
        "0xb0cf0e0300d33fc0",
        2,
        "MMA4Z00-NS",
        "MT2233VS01234",
    )
    assert "\x1b" not in module["vendor"] and module["vendor"].startswith("Mella")
    measured = [
        module[name]
        for name in ("length_m", "temperature_c", "voltage_v", "rx_power_dbm", "tx_power_dbm", "tx_bias_ma")
    ]
    assert measured == pytest.approx([3, 48, 3.3, -9.1, -1.0, 6.5], abs=0.01)
    assert [r["serial"] for r in rows(get, "modules?q=mt2233")] == ["MT2233VS01234"]
    (port,) = [r for r in rows(get, "port-errors?limit=1000&sort=-raw_ber") if r["raw_ber"] == 1.5e-8]
    assert (port["guid"], port["port"]) == ("0xb0cf0e0300d33fc0", 2)
    assert port["rose"] is None is port["per_hour"] and port["errors"] is not None


# ---- modules


def test_modules_of_a_running_fabric_are_those_of_their_registers(monkeypatch):
    """Bytes where mstflint's pddr_module_info has them: length at 5, vendor at 20, part at 36, serial at 60."""
    watched = Watched(monkeypatch)
    watched.fabric.cable_medium[:], watched.fabric.cable_length_m[:] = CableMedium.MULTIMODE, 20.0
    from softib.agents.plane import AgentPlane

    watched.wire.plane = AgentPlane(watched.fabric)  # with modules in the ports of optical cables
    port = port_of(watched.fabric, "leaf-1", 3)
    image = watched.fabric.module_info[port]
    assert image.any() and len(image) == mlnx.ModuleInfo.size
    for at, text in ((20, b"MELLANOX"), (36, b"MMA4Z00\x07-NS"), (60, b"MT01")):
        image[at : at + 16] = np.frombuffer(text.ljust(16, b"\0"), np.uint8)
    image[5] = 17
    watched.round()
    told = {(r["node"], r["port"]): r for r in watched.get("modules?limit=1000")["rows"]}
    one = told["leaf-1", 3]
    assert (one["vendor"], one["part"], one["serial"], one["length_m"]) == (
        "MELLANOX",
        "MMA4Z00\N{REPLACEMENT CHARACTER}-NS",
        "MT01",
        17,
    )
    assert len(told) == 32 and all(
        40 < r["temperature_c"] < 50 and r["tx_power_dbm"] == pytest.approx(0, abs=0.01) for r in told.values()
    )
    warm = [r["temperature_c"] for r in watched.get("modules?sort=-temperature_c")["rows"]]
    assert warm == sorted(warm, reverse=True)


# ---- events


def test_events_say_what_was_done_to_the_fabric(monkeypatch):
    watched = Watched(monkeypatch)
    port = port_of(watched.fabric, "leaf-2", 1)
    before = watched.fabric.port_info.copy(), int(watched.fabric.port_peer[port])
    for _ in range(3):
        watched.round(20.0)
    assert [e for e in watched.get("events")["rows"] if e["kind"] in ("port", "node", "trap", "sweep")] == []
    delete_cables(watched.fabric, [int(watched.fabric.port_cable[port])])
    watched.round(40.0)
    cut = watched.now_s
    (down,) = [e for e in watched.get("events?kind=port")["rows"] if e["node"] == "leaf-2"]
    assert (down["portnum"], down["severity"], down["time"]) == (1, "warning", cut) and "went down" in down["text"]
    assert [e["text"] for e in watched.get("events?kind=node")["rows"]] == [
        f"{watched.fabric.node_name(int(watched.fabric.port_node[before[1]]))} is gone"
    ]
    assert any("absent" in e["text"] for e in watched.get("events?kind=finding")["rows"])
    from softib.fabric.plugging import add_cable

    add_cable(watched.fabric, port, before[1])
    watched.fabric.port_info[:] = before[0]
    for _ in range(3):
        watched.round(40.0)
    newest = watched.get("events?kind=port&limit=1")["rows"][0]
    assert newest["severity"] == "info" and "up again" in newest["text"] and newest["time"] > cut
    assert any(e["text"].startswith("no longer: ") for e in watched.get("events?kind=finding")["rows"])
    assert any(e["text"].endswith("is there again") for e in watched.get("events?kind=node")["rows"])
    times = [e["time"] for e in watched.get("events?limit=1000")["rows"]]
    assert times == sorted(times, reverse=True)
    assert [e["time"] for e in watched.get("events?limit=1000&sort=time")["rows"]] == sorted(times)
    assert {e["kind"] for e in watched.get(f"events?until={cut - 1}&limit=1000")["rows"]} <= {"finding", "manager"}
    assert watched.get("events?q=WENT+DOWN&severity=warning")["total"] >= 1


def test_a_fabric_that_dies_and_comes_back_is_in_the_events_and_on_the_page(monkeypatch):
    watched = Watched(monkeypatch)
    for _ in range(2):
        watched.round(2.0)
    whole = watched.wire.exchange

    def gone(outbox=None):
        raise PeerError("the daemon of one is gone")

    watched.wire.exchange, watched.broken = gone, "the daemon of one is gone"
    watched.round(2.0)
    watched.round(60.0)
    told = watched.get("fabric")
    assert told["stale"] and told["age_s"] > 60 and "gone" in told["problem"]
    assert [e["text"] for e in watched.get("events?kind=source")["rows"]] == ["the daemon of one is gone"]
    watched.wire.exchange, watched.broken = whole, ""
    watched.round(2.0)
    assert [e["text"] for e in watched.get("events?kind=source")["rows"]] == [
        "the source answers again",
        "the daemon of one is gone",
    ]
    assert watched.get("fabric")["problem"] == "" and not watched.get("fabric")["stale"]


def test_traps_sweeps_and_managers_of_the_daemon_are_events():
    """Numbers as the daemon's status has them, between two rounds."""
    from softib.monitor.manager import Manager
    from softib.web.events import Events

    class Told:
        reported: dict = {}
        managers: dict = {}

    told, events = Told(), Events()
    told.reported = {"traps": {"trap_128": 4, "pending": 1}, "sm": {"sweeps": 2, "report": {}}}
    told.managers = {1: Manager(1, 1, "MASTER", 5, 9)}
    events.manager(told, 1.0)
    assert events.all() == []
    told.reported = {
        "traps": {"trap_128": 7, "trap_256": 1, "pending": 9},
        "sm": {"sweeps": 3, "report": {"phase_s": {"a": 0.25, "b": 0.25}, "sent": 1200, "sets": 6}},
    }
    told.managers = {1: Manager(1, 1, "MASTER", 5, 9, answers=False), 2: Manager(2, 3, "MASTER", 6, 1)}
    events.manager(told, 2.0)
    assert sorted((e.kind, e.text) for e in events.all()) == [
        ("manager", "subnet manager at port 0x0000000000000001: MASTER before, MASTER, does not answer now"),
        ("manager", "subnet manager at port 0x0000000000000002: not there before, MASTER now"),
        ("sweep", "sweep 3 of the subnet manager: 0.50 s, 1,200 MADs, 6 Sets"),
        ("trap", "trap 128 (a port changed its state), 3 times"),
        ("trap", "trap 256 (wrong M_Key)"),
    ]


def test_a_fabric_that_goes_down_as_a_whole_makes_few_events():
    from softib.iba.constants import PhysState
    from softib.monitor.intervals import Interval
    from softib.web.events import AT_ONCE, KEPT, Events

    n = 10_000
    guid, number = (
        np.repeat(np.arange(1, 1 + n // 50, dtype=np.uint64), 50),
        np.tile(np.arange(50, dtype=np.int32), n // 50),
    )

    def interval(state: PhysState) -> Interval:
        return Interval(
            guid,
            number,
            np.zeros(n, np.int64),
            np.ones(n, np.int64),
            {},
            {},
            {"physical_state": np.full(n, float(state))},
        )

    events = Events()
    for k in range(12):
        events.ports(interval(PhysState.LINK_UP if k % 2 == 0 else PhysState.POLLING), lambda g: f"sw-{g}", float(k))
    told = events.all()
    assert events.number == 11 * n and len(told) == KEPT
    assert sum("9,800 more like the 200 before" in e.text for e in told) == -(-KEPT // (AT_ONCE + 1))


def test_the_tables_of_python_tell_twins_apart_in_a_graph(tmp_path):
    pytest.importorskip("networkx")
    (tmp_path / "twins.net").write_text(TWINS)
    graph = softib.load(tmp_path / "twins.net").to_networkx()
    assert len(graph) == 5 and graph.number_of_edges() == 4 and "node (0x0002c90000000012)" in graph
