"""A cable that is cut is one finding until it is up again, and its ports have events of both: against what was planted, and the clock."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("fastapi", reason="fastapi is not installed (the extra serve)")

from softib.fabric.plugging import add_cable, delete_cables
from tests.monitor.lab import port_of
from tests.web.watched import Watched


class Cut:
    """One cable of ``watched`` that is cut, and plugged in again."""

    def __init__(self, watched: Watched, node: str, portnum: int):
        f = self.fabric = watched.fabric
        self.port = port_of(f, node, portnum)
        self.peer = int(f.port_peer[self.port])
        self.names = {f.port_name(self.port), f.port_name(self.peer)}
        self.info = f.port_info[[self.port, self.peer]].copy()
        watched.add(self.port, "link_downed_counter", 1)
        watched.add(self.peer, "link_downed_counter", 1)
        delete_cables(f, np.array([f.port_cable[self.port]]))

    def plug(self) -> None:
        add_cable(self.fabric, self.port, self.peer)
        self.fabric.port_info[[self.port, self.peer]] = self.info


@pytest.fixture
def watched(monkeypatch):
    return Watched(monkeypatch)


def about(watched: Watched, cut: Cut) -> list[dict]:
    """Findings that name both ends."""
    rows = watched.get("findings")["rows"]
    return [f for f in rows if {f"{w['node']}[{w['portnum']}]" for w in f["where"]} >= cut.names]


def events(watched: Watched, kind: str, words: str) -> list[dict]:
    return [e for e in watched.get(f"events?kind={kind}&limit=1000")["rows"] if words in e["text"]]


def test_a_cut_cable_is_one_finding_until_it_is_up(watched, every_s=9.0):
    for _ in range(3):
        watched.round(every_s)
    cut = Cut(watched, "leaf-1", 3)
    since = watched.now_s
    watched.round(every_s)
    watched.round(every_s)
    for _ in range(12):
        watched.round(every_s)
        (one,) = about(watched, cut)
        assert one["code"] in ("missing-cable", "link-flaps")
    assert [f for f in events(watched, "finding", "no longer") if "leaf-1[3]" in f["text"]] == []
    assert [d["named"] for d in watched.get("down")["rows"]] == [True]
    went = events(watched, "port", "went down")
    assert {e["text"].partition(":")[0] for e in went} == cut.names and len(went) == 2
    assert all(e["time"] <= since + 2 * every_s for e in went)
    cut.plug()
    plugged = watched.now_s
    for _ in range(3):
        watched.round(every_s)
    came = events(watched, "port", "up again")
    assert {e["text"].partition(":")[0] for e in came} == cut.names and len(came) == 2
    assert all(plugged < e["time"] <= plugged + 2 * every_s for e in came)
    for _ in range(6):
        watched.round(every_s)
    assert not any(f["code"] == "missing-cable" or "is down" in f["message"] for f in about(watched, cut))
    assert watched.get("down")["total"] == 0
    gone = [f for f in events(watched, "finding", "no longer") if "leaf-1[3]" in f["text"]]
    assert len(gone) == 1 and gone[0]["time"] > plugged


def test_a_cable_that_was_down_before_the_first_round_is_up_in_the_events(watched):
    cut = Cut(watched, "leaf-1", 3)
    for _ in range(4):
        watched.round(2.0)
    before = {f["code"] for f in about(watched, cut)}
    another = Cut(watched, "leaf-2", 4)
    for _ in range(8):
        watched.round(9.0)
        assert {f["code"] for f in about(watched, cut)} == before, "its neighbour's fault hides nothing"
        lost = [d for d in watched.get("down")["rows"] if not d["named"] and d["a"] in another.names]
        assert len(about(watched, another)) + len(lost) == 1
    cut.plug()
    for _ in range(4):
        watched.round(9.0)
    assert {e["text"].partition(":")[0] for e in events(watched, "port", "link is up")} == cut.names


def test_a_switch_without_power_takes_the_links_of_its_neighbours(watched):
    """All cables of leaf-2: its spine's ports go down within two rounds, and it is gone then."""
    watched.round(2.0)
    f = watched.fabric
    node = f.node_names().index("leaf-2")
    ports = [p for p in f.ports_of(node) if f.port_peer[p] >= 0]
    spines = {f.port_name(int(f.port_peer[p])) for p in ports if f.is_switch[f.port_node[f.port_peer[p]]]}
    delete_cables(f, np.array([f.port_cable[p] for p in ports]))
    for _ in range(3):
        watched.round(2.0)
    went = {e["text"].partition(":")[0] for e in events(watched, "port", "went down")}
    assert len(spines) == 2 and spines <= went
    assert len(events(watched, "node", "leaf-2 is gone")) == 1
    gone = {d["a"] for d in watched.get("down")["rows"] if d["what"] == "node"}
    cables = [d for d in watched.get("down")["rows"] if d["what"] == "cable"]
    assert "leaf-2" in gone and cables and all(d["named"] for d in cables)


def test_a_moment_makes_no_rate_and_a_bit_error_ratio_beyond_its_limit_comes_first(watched):
    """3e-4 before FEC is beyond 2.4e-4 (PAM4); one LinkDowned in seconds is one, not 1,200 an hour."""
    bad, once = port_of(watched.fabric, "leaf-1", 3), port_of(watched.fabric, "leaf-2", 4)
    watched.wire.plane.faults.noise(bad, 3e-4)
    for _ in range(4):
        watched.round(6.0)
        watched.wire.now_ps += 6 * 10**12
        watched.add(once, "link_downed_counter", 1)
    ends = {watched.fabric.port_name(p) for p in (bad, int(watched.fabric.port_peer[bad]))}
    rows = watched.get("port-errors?limit=3")["rows"]
    noisy = [r for r in rows if r["raw_ber"] > 2.4e-4]
    assert noisy and noisy == rows[: len(noisy)] and {f"{r['node']}[{r['port']}]" for r in noisy} <= ends
    assert noisy[0]["raw_ber"] == pytest.approx(3e-4, rel=0.2)
    second = rows[len(noisy)]
    assert (second["node"], second["port"], second["per_hour"]) == ("leaf-2", 4, None)
    assert 0 < second["rose"] < 5 and 0 < second["observed_s"] <= 18.0
    watched.round(400.0)
    later = next(r for r in watched.get("port-errors?limit=100")["rows"] if (r["node"], r["port"]) == ("leaf-2", 4))
    assert later["per_hour"] == pytest.approx(later["rose"] * 3600 / 418, rel=0.02)
