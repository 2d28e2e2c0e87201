"""Shards of one subnet: together they export exactly what one exporter of the whole does, and each cause once."""

from __future__ import annotations

import random
import time

import numpy as np
import pytest

from softib.errors import InputError
from softib.monitor.exporter import standing_findings
from softib.monitor.ledger import Repair, faults_of, repaired
from softib.monitor.opening import Opened
from softib.monitor.perfmgr import Pace, Poller
from softib.monitor.prometheus import Scrapes, target_of
from softib.monitor.seen_ports import forget
from softib.monitor.sharding import shared_discovery
from softib.monitor.sharding.shard import Shard, shard_memory
from softib.sm.config import SmConfig
from tests.monitor.exporter.exporting import exporter, take_out
from tests.monitor.lab import Wire, fabric_up, port_of

pytest.importorskip("prometheus_client", reason="prometheus-client is not installed")
OF = 3
OF_PROCESS = ("process_", "softib_rounds", "softib_round_", "softib_up", "infiniband_exporter_collector_duration")
"""Metrics of one process; and sums, which are checked apart."""
SUMS = ("softib_ports{", "softib_devices_", "infiniband_exporter_collect_")
OF_TIME = ("softib_findings_judged", "softib_port_observed", "_ber", "_ratio", "answer_seconds", "still_seconds")


def shards(wire, memory, of: int = OF):
    from softib.monitor.exporter.service import ExporterService

    for i in range(1, of + 1):
        one = Shard("lab", i, of)
        opened = Opened(
            wire,
            "lab",
            None,
            lambda: None,
            shard_memory(memory, one),
            shard=one,
            shared=memory.with_suffix(".npz"),
        )
        yield ExporterService(opened, port=0, every_s=0.5, pace=Pace(timeout_ps=5 * 10**9))


def lines_of(service, leave_out=(*OF_PROCESS, *SUMS)) -> list[str]:
    """What it exports, except what differs from one second to the next."""
    lines = b"".join(service.metrics()).decode().splitlines()
    return [
        line
        for line in lines
        if not line.startswith(("#", *leave_out)) and not any(part in line.split("{")[0] for part in OF_TIME)
    ]


@pytest.fixture
def lab(tmp_path, monkeypatch):
    monkeypatch.setattr(standing_findings, "SHARE", 1e9)  # judge each round
    fabric = fabric_up()
    return fabric, Wire(fabric), tmp_path / "seen.json"


def run(services, rounds: int = 2) -> None:
    for _ in range(rounds):
        for one in services:
            one.step()


def test_the_parts_of_any_guids_are_disjoint_complete_and_even():
    r = random.Random(3)
    counted = [np.uint64(0x0002C903_00000000 + 4 * k) for k in range(20_000)]
    drawn = [np.uint64(r.getrandbits(64)) for _ in range(20_000)]
    for guids in (counted, drawn):
        for of in (1, 2, 4, 7):
            parts = np.array([Shard("pod", i, of).holds(np.array(guids)) for i in range(1, of + 1)])
            assert (parts.sum(axis=0) == 1).all()
            share = parts.sum(axis=1) * of / len(guids)  # a binomial share: five standard deviations
            assert (abs(share - 1) < 5 * np.sqrt(of / len(guids))).all()


@pytest.mark.parametrize("text", ["", "2", "0/4", "5/4", "4/0", "a/b", "1/2/3", "-1/4", "1/257", "2/4 ", "٢/٤"])
def test_a_part_that_is_none_is_one_line(text):
    with pytest.raises(InputError, match="2/4") as error:
        Shard.parse("pod", text)
    assert "\n" not in str(error.value)


def test_together_they_export_what_one_exporter_of_all_does(lab):
    fabric, wire, memory = lab
    every = list(shards(wire, memory))
    whole = exporter(wire, memory.with_name("whole.json"))
    run([*every, whole])
    for port in ("leaf-1", 3), ("leaf-3", 1), ("spine-1", 2):
        row = port_of(fabric, *port)
        for end in (row, int(fabric.port_peer[row])):
            fabric.counters["link_downed_counter"][end] += 4
    take_out(wire, fabric, "spine-2")
    whole.watch.poller.discover()
    for one in every:
        one.watch.poller.rediscover_soon()
    run([*every, whole], 3)
    parts = [lines_of(one) for one in every]
    names = {line.split("{")[0] for part in parts for line in part}
    assert {"softib_finding", "softib_device_up", "softib_link_up", "infiniband_switch_uplink_info"} <= names
    both = [line for part in parts for line in part]
    assert len(both) == len(set(both)) and all(parts)
    assert sorted(map(comparable, both)) == sorted(map(comparable, lines_of(whole)))
    for name in SUMS:
        total = [sums(one, name) for one in every]
        assert {k: sum(t[k] for t in total) for k in total[0]} == sums(whole, name)
    for one in (*every, whole):
        one.close()


def comparable(line: str) -> str:
    """Without the value where rounds change it: the requests of a round are traffic too."""
    changes = (
        "_packets_total{",
        "_data_bytes_total{",
        "_discards_total{",
        "softib_finding_first_seen",
        "softib_sm_activity",
    )
    return line.rsplit(" ", 1)[0] if any(part in line for part in changes) else line


def sums(service, name: str) -> dict[str, float]:
    lines = [line.rsplit(" ", 1) for line in b"".join(service.metrics()).decode().splitlines()]
    return {k[0]: float(k[1]) for k in lines if k[0].startswith(name)}


def test_a_port_keeps_its_part_when_a_node_joins_or_leaves(lab):
    """The ports that a part exports with a spine less are those that it exported before, without that spine's."""
    fabric, wire, memory = lab
    every = list(shards(wire, memory))
    run(every)
    ports = [{line for line in lines_of(one) if line.startswith("softib_port_info")} for one in every]
    gone = f"{int(fabric.node_guid[fabric.node_names().index('spine-1')]):#018x}"
    less = fabric_up()
    other = Wire(less)
    take_out(other, less, "spine-1")
    again = list(shards(other, memory.with_name("less.json")))
    run(again)
    for before, one in zip(ports, again, strict=True):
        after = {line for line in lines_of(one) if line.startswith("softib_port_info")}
        assert after == {line for line in before if gone not in line}
    for one in (*every, *again):
        one.close()


def test_they_discover_the_subnet_once_and_again_when_one_must(lab):
    _, wire, memory = lab
    every = list(shards(wire, memory))
    directed = [cls for cls, _, _ in wire.asked].count(0x81)
    alone = Wire(fabric_up())
    Poller(alone, Pace(timeout_ps=5 * 10**9))
    assert directed == [cls for cls, _, _ in alone.asked].count(0x81) > 0  # as many as one poller of all
    wire.asked.clear()
    every[1].watch.poller.rediscover_soon()
    every[1].step()
    assert [cls for cls, _, _ in wire.asked].count(0x81) == directed
    file = memory.with_suffix(".npz")
    for content in (b"", b"PK\x03\x04 cut off", file.read_bytes()[:2000]):
        file.write_bytes(content)
        found = shared_discovery.latest_discovery(alone, SmConfig(), file, time.time() - 60)
        assert found.db.n_nodes == 14
    for one in every:
        one.close()


def test_what_is_down_is_forgotten_and_repaired_in_every_part(lab):
    fabric, wire, memory = lab
    every = list(shards(wire, memory))
    run(every)
    row = port_of(fabric, "leaf-1", 3)
    for end in (row, int(fabric.port_peer[row])):
        fabric.counters["link_downed_counter"][end] += 4
    take_out(wire, fabric, "spine-2")
    for one in every:
        one.watch.poller.rediscover_soon()
    run(every, 3)
    assert [f.names[0].partition("[")[0] for f in faults_of(memory)].count("leaf-1") == 1
    assert [r.by for f in repaired(memory, ["leaf-1[3]"], Repair(2e9, "ann")) for r in f.repairs] == ["ann"]
    assert {p.place.partition("[")[0] for p in forget(memory, ["spine-2"])} >= {"spine-2", "leaf-1"}
    run(every)
    assert not any("spine-2" in line for one in every for line in lines_of(one))
    for one in every:
        one.close()


def test_a_prometheus_server_that_scrapes_all_parts_gives_the_counts_of_each():
    """They have one instance, and are scraped at different times."""
    scrapes = Scrapes()
    for shard, (guid, offset) in {"1/2": (7, 0.0), "2/2": (8, 2.0)}.items():
        target = target_of({"job": "softib", "instance": "pod", "shard": shard})
        samples = [(1000.0 + offset + 5 * k, 100.0 * guid * k) for k in range(4)]
        scrapes.add(target, "symbol_error_counter", (guid, 1), samples, 1)
    rose = {7: 0, 8: 0}
    for one in scrapes.intervals():
        for row, guid in enumerate(one.guid.tolist()):
            assert one.known["symbol_error_counter"][row]
            rose[guid] += int(one.increase["symbol_error_counter"][row])
    assert rose == {7: 2100, 8: 2400}
