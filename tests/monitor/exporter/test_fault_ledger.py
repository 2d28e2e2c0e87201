"""The commands of ``softib exporter``: the ledger, a repair, and what is down. An exporter of a umad device keeps its
memory in ``$STATE_DIRECTORY``, where the commands find it."""

from __future__ import annotations

import pytest

from softib.monitor.exporter import standing_findings
from softib.monitor.opening import memory_of
from tests.cli.documents import check
from tests.cli.run import one_line, softib
from tests.monitor.exporter.exporting import exporter, fall, take_out
from tests.monitor.lab import Wire, fabric_up

pytest.importorskip("prometheus_client", reason="prometheus-client is not installed")


@pytest.fixture
def service(tmp_path, monkeypatch):
    monkeypatch.setattr(standing_findings, "SHARE", 1e9)  # judge each round
    monkeypatch.setenv("STATE_DIRECTORY", str(tmp_path))
    fabric = fabric_up()
    wire = Wire(fabric)
    running = exporter(wire, memory_of("umad:lab"))
    running.step()
    running.step()
    yield fabric, wire, running
    running.close()


def test_a_repair_ends_a_fault_in_the_ledger(service):
    fabric, _, running = service
    assert softib("exporter", "ledger", "umad:lab").out == "nothing was wrong\n"
    fall(fabric, "leaf-1", 3, 4)
    running.step()
    (fault,) = check("ledger", softib("exporter", "ledger", "umad:lab", "--json").json())["faults"]
    assert fault["standing"] and fault["codes"] == ["link-flaps"] and "leaf-1[3]" in fault["where"]
    repair = ("exporter", "repaired", "umad:lab", "leaf-1[3]")
    assert "--by is missing" in one_line(softib(*repair))
    assert "leaf-9" in one_line(softib("exporter", "repaired", "umad:lab", "leaf-9", "--by", "ann"))
    said = softib(*repair, "--by", "ann", "--note", "new cable")
    assert (said.code, said.err) == (0, "") and said.out.endswith("by ann: new cable\n")
    running.step()
    (after,) = softib("exporter", "ledger", "umad:lab", "--json").json()["faults"]
    assert not after["standing"] and after["where"] == fault["where"] and after["repairs"][0]["by"] == "ann"
    assert softib("exporter", "ledger", "umad:lab").out.startswith(" ↔ ".join(fault["where"]))


def test_what_is_down_is_forgotten_by_name(service):
    fabric, wire, running = service
    assert softib("exporter", "forget", "umad:lab").out == "nothing is down\n"
    take_out(wire, fabric, "spine-2")
    running.step()
    running.step()
    assert "host-0001" in one_line(softib("exporter", "forget", "umad:lab", "host-0001"))
    said = softib("exporter", "forget", "umad:lab", "spine-2", "--json")
    assert (said.code, said.err) == (0, "")
    removed = check("forget", said.json())["ports"]
    assert len(removed) == 8 and "spine-2[1]" in removed


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("exporter", "umad:lab", "--by", "ann"), "no option --by; run 'softib exporter --help'"),
        (("exporter", "ledger", "umad:lab", "--once"), "no option --once; did you mean --json?"),
        (("exporter", "ledger"), "SOURCE is missing; run 'softib exporter ledger --help'"),
        (("exporter",), "SOURCE is missing; run 'softib exporter --help'"),
        (("isolate", "release"), "SOURCE is missing; run 'softib isolate release --help'"),
        (("isolate", "ledger", "pod", "leaf-1"), "unexpected extra argument (leaf-1)"),
    ],
)
def test_options_are_of_the_verb_or_of_its_command(words, text):
    assert text in one_line(softib(*words))
