"""Ctrl-C in the packet layer, and what packets did as rows of a file. Oracles: the same run to its end, the ports' own counters."""

from __future__ import annotations

import polars
import pytest

import softib
from softib.cli.predict import simulate as verb
from softib.sim.packet import engine, stepping
from tests.cli.documents import check
from tests.cli.run import one_line
from tests.cli.run import softib as command

TREE = "topology: {kind: fat-tree, levels: 2, radix: 4, hosts: 8}\n"
WORK = "all-to-all:64KB"


@pytest.fixture
def tree(tmp_path):
    (tmp_path / "tree.yaml").write_text(TREE)
    return tmp_path / "tree.yaml"


@pytest.fixture
def often(monkeypatch):
    """Looks at the caller's clock every 50 events, of which the first after 15 us of virtual time is an interrupt."""
    monkeypatch.setattr(engine, "EVENTS_A_CALL", 50)
    monkeypatch.setattr(stepping, "EVENTS_A_CALL", 50)

    def interrupt(done, of, now_ps):
        if now_ps > 15_000_000:
            raise KeyboardInterrupt

    return interrupt


@pytest.mark.parametrize("faults", ((), ("10us link-down leaf-1[3]",)))
def test_an_interrupted_run_is_the_begin_of_the_whole_run(tree, often, faults):
    whole = softib.simulate(tree, WORK, layer="packet", faults=faults)
    part = softib.simulate(
        tree,
        WORK,
        layer="packet",
        faults=faults,
        what_if="engine=minhop",
        record=softib.Record(progress=often, interruptible=True),
    )
    assert part.interrupted and not part.good and not whole.interrupted and part.variants == {}
    now, before, after = part.simulated_us, part.messages.to_polars(), whole.messages.to_polars()
    assert 0 < now < whole.simulated_us
    arrived = after["arrived_us"] < now
    assert 0 < arrived.sum() < len(after)
    assert before.filter(arrived)["arrived_us"].to_list() == after.filter(arrived)["arrived_us"].to_list()
    assert before.filter(~arrived)["arrived_us"].is_nan().all()
    assert any(note.startswith("interrupted; ") for note in part.notes)


def test_an_interrupt_is_raised_where_no_one_asked_to_keep_the_run(tree, often):
    with pytest.raises(KeyboardInterrupt):
        softib.simulate(tree, WORK, layer="packet", record=softib.Record(progress=often))


def test_the_verb_prints_what_there_is_and_exits_as_interrupted(tree, often, monkeypatch):
    monkeypatch.setattr(verb, "Progress", lambda layer: often)
    ran = command("simulate", tree, WORK, "--layer", "packet", "--alone", "--json")
    assert ran.code == 130
    assert check("simulate", ran.json())["interrupted"] is True


def test_packets_are_those_that_ports_count(tree, tmp_path):
    file = tmp_path / "packets.parquet"
    ports = ("host-0001[1]", "leaf-1[1]", "leaf-1[3]", "spine-1[2]")
    args = ("simulate", tree, WORK, "--layer", "packet", "--json", "--packets", file)
    counters = command(*args, *(word for p in ports for word in ("--counters", p))).json()["counters"]
    rows = polars.read_parquet(file)
    sent = rows.filter(polars.col("event") == "sent")
    for port in ports:
        here = sent.filter(polars.col("port") == port)
        assert len(here) == counters[port]["port_xmit_pkts"] > 0
        assert (here["bytes"].sum() - 2 * len(here)) // 4 == counters[port][
            "port_xmit_data"
        ]  # VCRC is not counted (IBA 16.1.3.5)
    data = rows.filter((polars.col("event") == "received") & (polars.col("packet") == "data"))
    assert data.group_by("source", "destination").len()["len"].to_list() == [64_000 // 4096 + 1] * 56
    assert (sent["start_ps"] >= sent["time_ps"]).all() and (sent["end_ps"] > sent["start_ps"]).all()


def test_packets_are_of_the_packet_layer_and_not_too_many(tree, tmp_path, monkeypatch):
    file = ("--packets", tmp_path / "p.parquet")
    assert "use layer packet" in one_line(command("simulate", tree, WORK, *file))
    assert "not for roce" in one_line(command("simulate", tree, WORK, "--layer", "packet", "--network", "roce", *file))
    monkeypatch.setattr("softib.analysis.simulation.run.MOST_LOGGED", 100)
    assert "packet hops are too many to log; the limit is 100" in one_line(
        command("simulate", tree, WORK, "--layer", "packet", *file)
    )
