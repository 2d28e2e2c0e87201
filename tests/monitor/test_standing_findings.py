"""Findings as metrics of an exporter: what stands, over a restart, a repair and a device that is down; Debian's promtool reads the text."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import replace

import pytest

from softib.diags.cable_rules.judge import judge
from softib.errors import InputError, UnknownName
from softib.monitor.exporter import standing_findings
from softib.monitor.intervals import between, carried
from softib.monitor.ledger import Ledger, Repair, ledger_of, repaired
from softib.monitor.reading import Reading
from tests.diags.cable_rules.observed import observed
from tests.monitor.exporter.exporting import FALLS, exporter, fall, take_out
from tests.monitor.lab import Wire, fabric_up, port_of

pytest.importorskip("prometheus_client", reason="prometheus-client is not installed")


def findings(service) -> dict[tuple[str, str, str, str, str], str]:
    """(code, node, port, peer, peer_port) → severity, by prometheus-client's own parser."""
    from prometheus_client import parser

    found = {}
    for family in parser.text_string_to_metric_families(b"".join(service.metrics()).decode()):
        for s in family.samples:
            if s.name == "softib_finding" and s.labels["severity"] != "info":
                label = s.labels
                key = (label["code"], label["node"], label["port"], label["peer"], label["peer_port"])
                assert key not in found
                found[key] = label["severity"]
    return found


@pytest.fixture
def lab(tmp_path, monkeypatch):
    monkeypatch.setattr(standing_findings, "SHARE", 1e9)  # judge each round
    fabric = fabric_up()
    return fabric, Wire(fabric), tmp_path / "seen.json"


def test_a_finding_stands_over_a_restart_until_it_is_repaired(lab, monkeypatch):
    fabric, wire, memory = lab
    first = exporter(wire, memory)
    first.step()
    first.step()
    assert findings(first) == {}
    fall(fabric, "leaf-1", 3, 4)
    first.step()
    peer = int(fabric.port_peer[port_of(fabric, "leaf-1", 3)])
    spine = fabric.node_names()[int(fabric.port_node[peer])]
    expected = {("link-flaps", "leaf-1", "3", spine, str(int(fabric.port_num[peer]))): "error"}
    assert findings(first) == expected
    first.close()
    again = exporter(wire, memory)  # what it counts begins at its first round: nothing has fallen since
    again.step()
    again.step()
    assert findings(again) == expected
    with pytest.raises(UnknownName):
        repaired(memory, ["leaf-9"], Repair(1.0, "ann"))
    done = repaired(memory, ["leaf-1[3]"], Repair(2e9, "ann", "new cable"))
    assert [r.by for f in done for r in f.repairs] == ["ann"] and len(done) == 1
    again.step()
    assert findings(again) == {}
    again.close()
    fault = next(iter(Ledger(ledger_of(memory)).faults.values()))
    assert fault.standing is None and len(fault.episodes) == 1 and fault.times(fault.episodes[0].last_s) == 1


def test_a_finding_names_the_jobs_that_cross_it(lab, tmp_path):
    """As ``softib.jobs_on`` places them, an independent call on the same fabric."""
    fabric, wire, memory = lab
    hosts = [n for n in fabric.node_names() if n.startswith("host")]
    jobs = tmp_path / "jobs.yaml"
    jobs.write_text(f"here: [{hosts[0]}, {hosts[1]}]\nfar: [{hosts[0]}, {hosts[-1]}]\n")
    service = exporter(wire, memory)
    service.follow_jobs(str(jobs))
    service.step()
    service.step()
    fall(fabric, hosts[1], 1, 4)
    service.step()
    lines = [
        line
        for line in b"".join(service.metrics()).decode().splitlines()
        if line.startswith("softib_finding{") and "flaps" in line
    ]
    assert len(lines) == 1 and 'jobs="here"' in lines[0]
    jobs.write_text("here: [nobody-knows\n")
    service.step()  # one line, and the jobs of before
    assert any('jobs="here"' in line for line in b"".join(service.metrics()).decode().splitlines())
    service.close()


def test_a_cable_keeps_the_end_by_which_it_was_named_first(lab, monkeypatch):
    """Errors of both directions: which end counts more changes from one judgement to the next, and an alert of other labels would begin to wait again."""
    fabric, wire, memory = lab
    turned = []

    def either_end_first(*given):
        turned.append(len(turned) % 2)
        return [replace(f, where=f.where[::-1]) if turned[-1] else f for f in judge(*given)]

    monkeypatch.setattr(standing_findings, "judge", either_end_first)
    service = exporter(wire, memory)
    service.step()
    service.step()
    fall(fabric, "leaf-1", 3, 4)
    named = set()
    for _ in range(4):
        service.step()
        named |= set(findings(service))
    assert len(named) == 1 and set(turned) == {0, 1}
    service.close()


def test_a_cable_that_is_down_is_no_finding_too(lab, monkeypatch):
    fabric, wire, memory = lab
    monkeypatch.setattr(standing_findings, "DOWN_S", 0.0)
    service = exporter(wire, memory)
    service.step()
    service.step()
    fall(fabric, "leaf-2", 4, 3)
    service.step()
    assert [key[:3] for key in findings(service)] == [("link-flaps", "leaf-2", "4")]
    wire.plane.set_link(port_of(fabric, "leaf-2", 4), False, 0)
    service.watch.poller.discover()  # which no longer sees what the cable leads to
    service.step()  # fell in this round
    service.step()
    assert findings(service) == {}
    text = b"".join(service.metrics()).decode()
    down = [line for line in text.splitlines() if line.startswith("softib_link_up{") and line.endswith(" 0")]
    assert len(down) == 1 and 'node="leaf-2"' in down[0] and 'peer="spine' in down[0]
    service.close()


def test_a_link_that_falls_again_and_again_is_not_down_when_a_round_meets_it_down(lab):
    fabric, wire, memory = lab
    service = exporter(wire, memory)
    port = port_of(fabric, "leaf-2", 4)
    service.step()
    for _ in range(4):  # every round finds it down, and counts a fall since the one before
        wire.plane.set_link(port, False, 0)
        service.step()
        assert not [p for p in service.seen.down() if "leaf-2" in p.node]
        wire.plane.set_link(port, True, 0)
        fabric.port_info[:] = fabric_up().port_info  # trained and configured, as the manager does
    service.close()


def test_an_exporter_that_is_cut_off_calls_nothing_down(lab):
    """The link of its own port fails, in the middle of a round and then for good: it is blind, and what it said last is that all is up."""
    from softib.errors import MadTimeout

    fabric, wire, memory = lab
    service = exporter(wire, memory)
    service.step()
    own = int(fabric.port_node[wire.port])
    lids = {
        int(fabric.lid[fabric.node_base[n]]) or int(fabric.lid[fabric.node_base[n] + 1])
        for n in range(fabric.sizes.nodes)
        if n != own
    }
    wire.mute |= set(sorted(lids)[: len(lids) // 2])  # in the middle of a round half of them are past
    service.step()
    assert {
        line[-1] for line in b"".join(service.metrics()).decode().splitlines() if line.startswith("softib_device_up{")
    } == {"1"}
    wire.mute |= lids
    for _ in range(3):
        with pytest.raises(MadTimeout, match="only this host's device answers"):
            service.step()
    wire.mute.clear()
    wire.plane.set_link(wire.port, False, 0)
    service.watch.poller.discover()  # it finds the own device, and nothing else
    assert len(service.watch.poller.targets.device_guid) == 1
    with pytest.raises(MadTimeout, match="only this host's device answers"):
        service.step()
    text = b"".join(service.metrics()).decode()
    assert {line[-1] for line in text.splitlines() if line.startswith("softib_device_up{")} == {"1"}
    service.close()


def test_the_text_is_read_by_promtool(lab):
    if shutil.which("promtool") is None:
        pytest.skip("promtool (Debian's prometheus) is absent")
    fabric, wire, memory = lab
    service = exporter(wire, memory)
    service.step()
    take_out(wire, fabric, "spine-2")
    fall(fabric, "leaf-1", 3, 4)
    service.step()
    text = b"".join(service.metrics())
    done = subprocess.run(["promtool", "check", "metrics"], input=text, capture_output=True, timeout=60)
    wrong = [line for line in done.stderr.decode().splitlines() if "softib_finding" in line]
    assert b"softib_finding{" in text and wrong == [] and "error while linting" not in done.stderr.decode()
    service.close()


def test_a_ledger_that_nobody_can_read_is_one_line(tmp_path):
    path = ledger_of(tmp_path / "seen.json")
    lines: list[str] = []
    for text in ("", "{", "[[1]]", '[["k", ["n"], [], [["a", 1, [], true]], []]]', "null"):
        path.write_text(text)
        assert Ledger(path, notice=lines.append).faults == {}
    assert len(lines) == 5 and all("ledger" in line for line in lines)
    path.write_text("[]")
    with pytest.raises((UnknownName, InputError)):
        repaired(tmp_path / "seen.json", ["leaf-1"], Repair(0.0, "ann"))


def _reading(time_ns: int, falls: dict[int, int], silent: tuple[int, ...] = ()) -> Reading:
    """Ports 1 to 4 of one leaf; ``silent`` did not answer."""
    import numpy as np

    r = Reading.empty(np.full(4, 7, np.uint64), np.arange(1, 5, dtype=np.int32))
    r.put(FALLS, np.arange(4), np.array([falls.get(p, 0) for p in range(1, 5)], np.uint64), 255)
    r.time_ns[:], r.answered[:] = time_ns, True
    r.forget(np.array([p - 1 for p in silent], int))
    return r


def test_silence_is_one_long_interval():
    """Falls of three cables while their leaf was silent for two rounds are counted when it answers again, over that whole time."""
    silent = (1, 2, 3)
    rounds = [
        _reading(10, {1: 5}),
        _reading(20, {}, silent),
        _reading(30, {}, silent),
        _reading(40, {1: 8, 2: 3, 3: 3}),
    ]
    kept = None
    rose = {1: 0, 2: 0, 3: 0, 4: 0}
    spans = {}
    for one in rounds:
        if kept is not None:
            interval = between(kept, one)
            for row in range(4):
                if interval.known[FALLS][row]:
                    rose[row + 1] += int(interval.increase[FALLS][row])
                    spans[row + 1] = (int(interval.begin_ns[row]), int(interval.end_ns[row]))
        kept = carried(kept, one)
    assert rose == {1: 3, 2: 3, 3: 3, 4: 0}
    assert spans[1] == spans[2] == spans[3] == (10, 40) and spans[4] == (30, 40)


def test_one_end_tells_of_falls_where_the_other_does_not_answer():
    """leaf-0 counts a fall of its uplink in two intervals and the spine is silent from the first of them on."""
    falls = {FALLS: {"leaf-0[3]": 1}}
    silent = tuple((k, place) for k in (1, 2, 3) for place in ("spine[1]", "spine[2]"))
    found = [f for f in judge(observed(60, {}, falls, falls, {}, unknown=silent)) if f.code == "link-flaps"]
    assert len(found) == 1 and found[0].evidence["confidence"] == pytest.approx(0.6)
    assert "has not answered since" in found[0].message
    # It answered, and counted none: it has started again, or the count is of another link.
    assert not [f for f in judge(observed(60, {}, falls, falls, {})) if f.code == "link-flaps"]
