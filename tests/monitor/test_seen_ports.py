"""What an exporter saw once stays in its metrics: over a discovery, a restart of the exporter, a moved cable, and until somebody forgets it."""

from __future__ import annotations

import json

import numpy as np
import pytest

from softib.diags.observations import ObservedPorts
from softib.errors import InputError, UnknownName
from softib.monitor.fabric_ports import ports_of, rows_of
from softib.monitor.reading import Reading
from softib.monitor.seen_ports import SeenPorts, forget
from tests.monitor.exporter.exporting import exporter, take_out
from tests.monitor.lab import Clock, Lab, Wire, fabric_up, port_of

pytest.importorskip("prometheus_client", reason="prometheus-client is not installed")


def values(service):
    """(metric, node or guid, port) of a scrape → value, by prometheus-client's own parser."""
    from prometheus_client import parser

    found = {}
    for family in parser.text_string_to_metric_families(b"".join(service.metrics()).decode()):
        for s in family.samples:
            if s.name in ("softib_device_up", "softib_link_up", "softib_port_state", "softib_devices_down"):
                key = (s.name, s.labels.get("node", s.labels.get("guid")), s.labels.get("port"))
                assert key not in found
                found[key] = s.value
    return found


def test_a_dead_switch_stays_over_discoveries_and_restarts_until_it_is_forgotten(tmp_path):
    fabric = fabric_up()
    wire, memory = Wire(fabric), tmp_path / "seen.json"
    first = exporter(wire, memory)
    first.step()
    before = values(first)
    assert set(before.values()) == {0.0, 1.0, 4.0} and before["softib_devices_down", None, None] == 0
    assert sum(k[0] == "softib_link_up" for k in before) == 16 and sum(k[0] == "softib_device_up" for k in before) == 14
    take_out(wire, fabric, "spine-2")
    first.watch.poller.discover()  # it does not find the spine any more
    first.step()
    down = values(first)
    first.close()
    lost = (
        before.keys() - down.keys()
    )  # nothing vanished but the states of hosts whose links are up and that are silent
    assert {k[0] for k in lost} <= {"softib_port_state"} and not any("00500" in k[1] for k in lost)
    # Nobody routes anew here, so hosts behind the spine are silent too; their links are up.
    silent = [k[1] for k, v in down.items() if k[0] == "softib_device_up" and v == 0]
    assert [n for n in silent if not n.startswith("host")] == ["spine-2"]
    assert sum(v == 0 for k, v in down.items() if k[0] == "softib_link_up") == 4
    assert sum(v == 1 for k, v in down.items() if k[0] == "softib_port_state") == 8
    again = exporter(wire, memory)
    again.step()
    assert values(again) == down
    with pytest.raises(UnknownName, match="spine-1"):
        forget(memory, ["spine-1"])  # it is up
    assert len(forget(memory, ["spine-2"])) == 8
    again.step()
    left = values(again)
    again.close()
    assert down.keys() - left.keys() == {
        k
        for k, v in down.items()
        if v < 2
        and k[0] != "softib_devices_down"
        and (k[1] == "spine-2" or (k[0] == "softib_link_up" and v == 0) or k[0] == "softib_port_state")
    }


def test_what_comes_back_is_seen_within_a_minute():
    fabric = fabric_up()
    wire, clock = Wire(fabric), Clock()
    service = exporter(wire, None)
    service.watch.poller.now_ns = clock
    host = port_of(fabric, "host-0007", 1)
    wire.plane.set_link(host, False, 0)
    service.step()
    service.watch.poller.discover()
    service.step()
    assert [v for k, v in values(service).items() if k[0] == "softib_link_up"].count(0) == 1
    wire.plane.set_link(host, True, 0)
    clock.ns += 61 * 10**9
    service.step()
    assert [v for k, v in values(service).items() if k[0] == "softib_link_up"].count(0) == 0
    service.close()


def test_a_silent_device_is_down_in_the_second_round_and_up_when_it_answers():
    fabric = fabric_up()
    wire = Wire(fabric)
    service = exporter(wire, None)
    service.step()
    row = service.watch.poller.targets.ports.node.index("leaf-1")
    wire.mute.add(int(service.watch.poller.targets.ports.lid[row]))
    service.step()
    service.step()  # one round alone may have met the exporter itself cut off
    assert values(service)["softib_device_up", "leaf-1", None] == 0
    wire.mute.clear()
    for _ in range(4):
        service.step()
    assert values(service)["softib_device_up", "leaf-1", None] == 1
    service.close()


def test_what_a_plan_expects_is_down_until_it_is_seen(tmp_path):
    """The plan has one host more than the fabric that runs, under GUIDs of its own; names tell which device is which."""
    plan = fabric_up()
    wanted = ports_of(plan, rows_of(plan))
    fabric = fabric_up()
    wire = Wire(fabric)
    take_out(wire, fabric, "host-0008")
    fabric.node_guid[:] += 1 << 40
    fabric.port_guid[:] += 1 << 40
    service = exporter(wire, tmp_path / "seen.json")
    service.seen.expect(wanted)
    service.step()
    found = values(service)
    service.close()
    assert [k[1] for k, v in found.items() if k[0] == "softib_device_up" and v == 0] == ["host-0008"]
    assert [v for k, v in found.items() if k[0] == "softib_link_up"].count(0.0) == 1
    assert sum(k[0] == "softib_device_up" for k in found) == 14


def test_a_cable_that_was_moved_is_not_down():
    """The host of leaf-2[1] is at leaf-3[1] now, whose host is gone: that host alone is down."""
    lab = Lab()
    seen = SeenPorts()
    one = lab.round()
    ports = one.targets.ports
    seen.step(ports, one.reading, one.silent, 1.0)
    places = [f"{n}[{p}]" for n, p in zip(ports.node, ports.portnum.tolist(), strict=True)]
    left, new = places.index("leaf-2[1]"), places.index("leaf-3[1]")
    moved, gone = int(ports.peer[left]), int(ports.peer[new])
    peer = ports.peer.copy()
    peer[moved], peer[new] = new, moved
    keep = np.array([i for i in range(len(ports)) if i not in (left, gone)])
    place = np.full(len(ports), -1)
    place[keep] = np.arange(len(keep))
    after = ObservedPorts(
        ports.node_guid[keep],
        ports.portnum[keep],
        ports.switch[keep],
        tuple(ports.node[i] for i in keep),
        ports.lid[keep],
        place[peer[keep]].astype(np.int32),
        ports.rate_gbps[keep],
        {k: v[keep] for k, v in ports.text.items()},
    )
    reading = Reading.empty(after.node_guid, after.portnum)
    reading.answered[:], reading.level["state"] = True, np.full(len(after), 4.0)
    seen.step(after, reading, one.silent, 2.0)
    assert [p.place for p in seen.down()] == [places[gone]] and seen.ports.keys() == {
        (int(ports.node_guid[i]), int(ports.portnum[i])) for i in range(len(ports)) if i != left
    }


def test_retention_and_a_memory_that_cannot_be_used(tmp_path):
    lab = Lab()
    one = lab.round()
    path = tmp_path / "seen.json"
    lines: list[str] = []
    path.write_text('[{"key": 1}]')
    seen = SeenPorts(path, keep_s=100.0, notice=lines.append)
    seen.step(one.targets.ports, one.reading, one.silent, 0.5)
    assert len(lines) == 1 and "cannot be read" in lines[0] and json.loads(path.read_text())
    lab.wire.plane.set_link(port_of(lab.fabric, "host-0007", 1), False, 0)
    lab.poller.discover()
    one = lab.round()
    seen.step(one.targets.ports, one.reading, one.silent, 10.0)
    assert len(seen.down()) == 2 and not seen.step(one.targets.ports, one.reading, one.silent, 109.0)
    seen.step(one.targets.ports, one.reading, one.silent, 111.0)
    assert not seen.down()
    other = [7, 1, *json.loads(path.read_text())[0][2:5], None, None]
    path.write_text(json.dumps([other]))
    new = SeenPorts(path, notice=lines.append)
    new.step(one.targets.ports, one.reading, one.silent, 1.0)
    assert len(lines) == 2 and "another fabric" in lines[1] and (7, 1) not in new.ports
    with pytest.raises(InputError, match="start 'softib exporter' first"):
        forget(tmp_path / "nothing.json", [])
