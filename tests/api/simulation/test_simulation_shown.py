"""What ``softib simulate`` shows people: causes by flow, variants side by side, jobs alone,
timelines, captures, counters, the page."""

from __future__ import annotations

import json

import numpy as np
import pytest

import softib
from softib.analysis.simulation.over_time import link_tiers
from softib.errors import InputError, UnknownName

TWO_JOBS = """\
jobs:
- {pattern: incast, size: 256KB, senders: 5, target: host-0001, name: storage}
- {pattern: shift, size: 256KB, k: 5, hosts: 8-31, name: training}
"""


@pytest.fixture(scope="module")
def tree():
    return softib.generate("fat-tree", radix=8, levels=2, hosts=32)


@pytest.fixture(scope="module")
def jobs(tree, tmp_path_factory):
    file = tmp_path_factory.mktemp("workload") / "two.yaml"
    file.write_text(TWO_JOBS)
    record = softib.Record(samples=True, ports=["leaf-1:1", "host-0001[1]"], trace=0)
    return softib.simulate(tree, file, layer="packet", record=record, what_if=["engine=minhop,vl=jobs", "cc=on"])


def test_flows_of_a_port_are_its_octets(jobs):
    """Shares of all flows are 1, and the receiver's port carries the incast's five sources and
    those of the other job that meet there."""
    port = next(p for p in jobs.busy_ports if p["peer"].startswith("host-0001"))
    m = jobs.messages
    sources = m.filter(m["destination"] == "host-0001")["source"].n_unique()
    assert port["flows"] == sources == len(port["top_flows"])
    assert sum(f["share"] for f in port["top_flows"]) == pytest.approx(1)
    assert {f["job"] for f in port["top_flows"]} == {"storage"} and port["changes"] == ["vl", "cc"]
    assert all(f["hop"] == f["hops"] for f in port["top_flows"]), "the last hop of each"


def test_victims_are_of_those_that_do_not_go_there(jobs):
    found = [p["victims"] for p in jobs.busy_ports if p["victims"]]
    assert found and {j for v in found for j in v["jobs"]} == {"training"}
    for v in found:
        assert jobs.messages["destination"][v["worst"]] != "host-0001" and v["slowdown"] > 1.2


def test_each_change_alone_and_all_together(jobs):
    assert list(jobs.variants) == ["engine=minhop,vl=jobs", "engine=minhop", "vl=jobs", "cc=on"]
    assert jobs.what_if is jobs.variants["engine=minhop,vl=jobs"] and jobs.what_if.engine == "minhop"
    assert jobs.variants["vl=jobs"].engine == jobs.engine == "ftree"
    shown = jobs.to_json()["variants"]
    assert [v["change"] for v in shown] == ["as it is", *jobs.variants] and shown[0]["ratio"] == 1
    assert all(v["wall_s"] > 0 and v["simulated_us"] > 0 for v in shown)


def test_a_vl_for_each_job_frees_the_victims(jobs):
    """Storage and training no longer share queues (IBA 7.6.6)."""
    times = {v["change"]: {j["job"]: j for j in v["jobs"]} for v in jobs.to_json()["variants"]}
    assert times["vl=jobs"]["training"]["p99_us"] < 0.8 * times["as it is"]["training"]["p99_us"]


def test_remedies_are_run_or_say_why_not(tree, jobs):
    tried = {r["change"]: r for r in jobs.remedies}
    assert not {"vl=jobs", "cc=on"} & set(tried), "those are variants already"
    fluid = softib.simulate(tree, "hot-spot:1MB,senders=8")
    found = {r["change"]: r for r in fluid.remedies}
    assert not found["cc=on"]["verified"] and "--layer packet --what-if cc=on" in found["cc=on"]["why"]
    assert found["vl=jobs"]["verified"]
    again = softib.simulate(tree, "hot-spot:1MB,senders=8", what_if="vl=jobs").what_if
    assert found["vl=jobs"]["ratio"] == again.simulated_us / fluid.simulated_us


def test_a_job_alone_is_the_job_without_the_other(tree, jobs, tmp_path):
    alone = jobs.run_jobs_alone()
    (tmp_path / "one.yaml").write_text("jobs:\n" + TWO_JOBS.splitlines()[2] + "\n")
    one = softib.simulate(tree, tmp_path / "one.yaml", layer="packet")
    assert alone["training"]["took_us"] == pytest.approx(float(one.jobs["ended_us"][0]))
    assert alone["training"]["slowdown"] > 1.1 and alone["training"]["p99_slowdown"] > 1.1
    rows = {j["job"]: j for j in jobs.to_json()["jobs"]}
    assert rows["training"]["alone"] == alone["training"] and set(rows["training"]["latency_us"]) == {
        "p50",
        "p99",
        "p99.9",
    }


def test_the_timeline_adds_up_to_the_latency(jobs):
    found = jobs.trace
    assert sum(found["parts_us"].values()) == pytest.approx(found["latency_us"], abs=1e-6)
    assert found["latency_us"] == jobs.messages["latency_us"][0] and found["destination"] == "host-0001"


def test_the_timeline_of_a_message_by_its_ends(tree):
    """On adaptive routes, whose ports nobody knows before the run, too."""
    record = softib.Record(trace="host-0003->host-0029#2")
    run = softib.simulate(tree, "shift:100KB,k=26,count=3", layer="packet", record=record)
    m = run.messages
    row = run.trace["message"]
    assert (m["source"][row], m["destination"][row]) == ("host-0003", "host-0029")
    assert [i for i in range(len(m)) if m["source"][i] == "host-0003"].index(row) == 1
    assert sum(run.trace["parts_us"].values()) == pytest.approx(run.trace["latency_us"], abs=1e-6)


def test_a_capture_has_its_ports(jobs, tmp_path):
    n = jobs.to_pcap(tmp_path / "run.pcapng")
    counters = [jobs.counters(p) for p in ("leaf-1:1", "host-0001[1]")]
    assert n == sum(c["port_xmit_pkts"] + c["port_rcv_pkts"] for c in counters)
    assert (tmp_path / "run.pcapng").read_bytes()[:4] == b"\x0a\x0d\x0d\x0a"


def test_counters_stop_at_their_largest_value(jobs):
    """16 bits of PortXmitDiscards, 32 of PortXmitData (IBA 16.1.3.5)."""
    saved = jobs._run.outcome.counters.copy()
    try:
        jobs._run.outcome.counters["port_xmit_discards"] = 70_000
        jobs._run.outcome.counters["port_xmit_data"] = 1 << 40
        found = jobs.counters("leaf-1:1")
        assert found["port_xmit_discards"] == 0xFFFF and found["port_xmit_data"] == 0xFFFFFFFF
        assert "PortXmitDiscards:................65535" in jobs.perfquery("leaf-1[1]").splitlines()
    finally:
        jobs._run.outcome.counters[:] = saved


def test_loads_over_time_are_the_ports_loads(jobs):
    """The mean over time of a heat map's row is the share of the run in which the link was busy."""
    over = jobs.over_time
    samples = jobs._run.outcome.samples
    assert 100 <= over["intervals"] <= 200 and {r["name"] for r in over["tiers"]} >= {
        "hosts to switches",
        "tier 1 to tier 2",
    }
    weights = samples.lengths_ps / samples.lengths_ps.sum()
    load = {f"{n}[{p}]": v for n, p, v in jobs.ports.select("node", "port", "load").iter_rows()}
    for row in over["ports"][:8]:
        assert np.dot(row["values"], weights) == pytest.approx(load[row["name"].split(" to ")[0]], abs=0.08)
    assert over["queues"] and max(max(r["values"]) for r in over["queues"]) == 1


def test_tiers_of_three_levels():
    fabric = softib.generate("fat-tree", radix=4, levels=3)._result.fabric
    _, names = link_tiers(fabric)
    assert list(names) == [
        "hosts to switches",
        "tier 1 to tier 2",
        "tier 2 to tier 1",
        "tier 2 to tier 3",
        "tier 3 to tier 2",
        "switches to hosts",
    ]


def test_the_page_is_self_contained_and_has_it_all(jobs, tmp_path):
    page = jobs.to_html(tmp_path / "page.html")
    body = page.split("<body>")[1]
    assert "http" not in body and "<script" not in page and "--bg:" in page
    for heading in ("What if", "Over time", "Congested ports and their causes", "Message 0", "Jobs"):
        assert f"<h2>{heading}" in body
    assert body.count('class="heat over-time"') == 3 and 'class="timeline"' in body and len(page) < 400_000


def test_barriers_have_variants_too(tree):
    run = softib.simulate(tree, "all-to-all:1MB,barrier=yes", what_if="engine=minhop")
    assert run.what_if.engine == "minhop" and run.what_if.simulated_us > 0 and run.wall_s > 0
    assert run.to_json()["variants"][1]["change"] == "engine=minhop" and "What if" in run.to_html()


def test_the_json_is_json(jobs):
    assert json.loads(json.dumps(jobs.to_json()))["trace"]["message"] == 0


def test_progress_reaches_the_end(tree):
    for layer in ("static", "fluid", "packet"):
        seen = []
        record = softib.Record(progress=lambda done, of, ps, to=seen: to.append((done, of, ps)))
        softib.simulate(tree, "all-to-all:64KB", layer=layer, record=record)
        done, of, ps = seen[-1]
        assert done == of and ps > 0
        assert [s[0] for s in seen] == sorted(s[0] for s in seen)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"record": softib.Record(trace=0)}, "no packets to record; use layer packet"),
        ({"record": softib.Record(samples=True), "layer": "static"}, "no virtual time"),
        ({"record": softib.Record(samples="1 parsec")}, "use for example 100ns"),
        ({"record": softib.Record(ports=["leaf-1:99"]), "layer": "packet"}, "leaf-1"),
        ({"record": softib.Record(ports=["leaf-9:1"]), "layer": "packet"}, "leaf-9"),
        ({"record": softib.Record(trace=99), "layer": "packet"}, "numbered from 0"),
        ({"record": softib.Record(trace="host-0001"), "layer": "packet"}, "SOURCE->DESTINATION"),
        ({"record": softib.Record(trace="host-0001->host-9999"), "layer": "packet"}, "host-9999"),
        ({"record": softib.Record(trace="host-0001->host-0002#2"), "layer": "packet"}, "number 2 does not exist"),
        ({"what_if": "vl=each"}, "no value of vl"),
    ],
)
def test_a_wrong_wish_is_one_line(tree, options, said):
    with pytest.raises((InputError, UnknownName), match=said) as error:
        softib.simulate(tree, "shift:1MB", **options)
    assert "\n" not in str(error.value)


def test_without_a_record_there_is_none(tree):
    run = softib.simulate(tree, "shift:64KB", layer="packet")
    with pytest.raises(InputError, match="no message was traced"):
        _ = run.trace
    with pytest.raises(InputError, match="no port was captured"):
        run.to_pcap("nowhere.pcapng")
    assert run.over_time == {}
