"""softib accept and softib baseline from Python, on a running fabric with a planted slow cable.
Oracle: what was planted."""

from __future__ import annotations

import json
import time

import numpy as np
import pytest

import softib
from tests.scratch import scratch

pytest.importorskip("polars")


@pytest.fixture(scope="module")
def paced():
    """A slow generation, so that this machine is faster than its links."""
    patch = pytest.MonkeyPatch()
    folder = scratch("accept-", memory=True)
    folder.chmod(0o700)
    patch.setenv("XDG_RUNTIME_DIR", str(folder))
    made = softib.generate("fat-tree", radix=8, levels=2, hosts=16, generation="SDR")
    f = softib.up(made, name="paced", pace=True)
    yield f
    f.down()
    assert not softib.running_fabrics()
    patch.undo()


@pytest.mark.slow
@pytest.mark.stock
def test_unmodified_perftest_shows_a_planted_slow_cable(paced, stock, tmp_path):
    """4x SDR carries 8 Gb/s, 1x SDR 2: the cable's pairs measure a quarter, and the fabric's other
    parts are not accused."""
    stock("ib_write_bw")
    tests = ["bandwidth-both-loaded"]
    healthy = softib.accept(paced, tests=tests, seconds=0.2, rounds=3)
    assert not healthy.failures and not healthy.findings.of("slow-cable", "slow-host", "slow-switch")
    assert max(healthy.table()["value"]) < 1.02 * 2 * 7.95, "no pair is faster than its links"
    before = softib.baseline(healthy)
    before.save(tmp_path / "accepted.json")

    paced.fault("downgrade", "leaf-1[5]", width=1)
    time.sleep(2)
    found = softib.accept(paced, tests=tests, seconds=0.2, rounds=3, journal=tmp_path / "run.jsonl")
    slow = found.findings.of("slow-cable", "slow-host", "slow-switch", "slow-adapter")
    assert [f.code for f in slow] == ["slow-cable"], found.findings.table()
    assert "leaf-1[5]" in slow[0].message and "trained at 2 Gb/s" in slow[0].message
    assert slow[0].evidence["loss_percent"] == pytest.approx(75, abs=12)

    after = softib.baseline(paced, tmp_path / "run.jsonl")
    changes = softib.baseline(tmp_path / "accepted.json").compare(after)
    assert [f.evidence["kind"] for f in changes.of("topology-changed")] == ["cable-width"]
    assert [f.message.split(":")[0] for f in changes.of("slow-cable")] == [slow[0].message.split(":")[0]]
    paced.fault("clear")
    paced.sweep()


@pytest.mark.slow
@pytest.mark.stock
def test_unmodified_perftest_measures_latency_beside_bandwidth(paced, stock, tmp_path):
    """Eight hosts: a pair measures while three send; the journal says that all three sent to the
    end."""
    from softib.live.acceptance.journal import read_journal

    stock("ib_write_lat")
    hosts = [f"host-{i:04}" for i in (1, 2, 5, 6, 9, 10, 13, 14)]
    found = softib.accept(
        paced,
        hosts=hosts,
        tests=["latency-with-bandwidth"],
        seconds=0.2,
        rounds=1,
        base_port=27515,
        journal=tmp_path / "run.jsonl",
    )
    assert not found.failures and len(found.measurements) == 8, found.failures
    assert [e["loads"] for e in read_journal(tmp_path / "run.jsonl").entries] == [[3, 3]] * 8
    model, value = (np.array(found.table()[name].to_list()) for name in ("expected", "value"))
    # Senders that wait for a processor leave no queue, so no more than an idle fabric's microseconds are certain.
    assert (model > 0.7).all() and (value > np.minimum(model, model[model < 2].max())).all()


TCP = """
import socket, sys, time
end = time.monotonic() + 20
if sys.argv[1] == "server":
    s = socket.create_server(("127.0.0.1", int(sys.argv[2])))
    c = s.accept()[0]
    while time.monotonic() < end and c.recv(1 << 20):
        pass
else:
    while time.monotonic() < end:
        try:
            c = socket.create_connection(("127.0.0.1", int(sys.argv[2])))
            break
        except OSError:
            time.sleep(0.2)
    while time.monotonic() < end:
        try:
            c.sendall(bytes(1 << 16))
        except OSError:
            break
        time.sleep(0.01)
"""


@pytest.mark.slow
@pytest.mark.stock
def test_a_job_over_tcp_is_told_from_one_over_the_hcas(paced, stock):
    """Two hosts run perftest for a while, two others send each other as much as they can by TCP:
    counters alone tell them apart."""
    stock("ib_write_bw")
    verbs = ["ib_write_bw", "-F", "-s", "65536", "-D", "20", "-p", "18499"]
    running = [paced.start("host-0001", verbs), paced.start("host-0003", ["python3", "-c", TCP, "server", "18498"])]
    time.sleep(1.5)
    running += [
        paced.start("host-0006", [*verbs, "127.0.0.1"]),
        paced.start("host-0008", ["python3", "-c", TCP, "client", "18498"]),
    ]
    try:
        time.sleep(1)
        seen = softib.observe(paced, rounds=6, every=2.5)
    finally:
        for program in running:
            program.terminate()
            program.communicate(timeout=60)
    jobs = {"verbs": ["host-0001", "host-0006"], "tcp": ["host-0003", "host-0008"]}
    found = softib.diagnose(seen, paced, jobs=jobs, thresholds={"job_observed": 2}).of("job-off-hcas")
    assert [f.evidence["job"] for f in found] == ["tcp"]
    assert found[0].evidence["other_jobs_octets_per_second"] > 1000 * max(
        found[0].evidence["octets_per_second"].values()
    )


def made(name: str, slow: str = "", factor: float = 1.0, **more: object) -> softib.Baseline:
    """A baseline whose pairs measure alike, but for those of a host."""
    import numpy as np

    from softib.analysis.acceptance.baseline import BaselineRecord

    rng = np.random.default_rng(sum(name.encode()))
    hosts = [f"node{i}" for i in range(16)]
    pairs = {
        (a, b): 100 * rng.uniform(0.98, 1) * (factor if slow in (a, b) else 1) for a in hosts for b in hosts if a < b
    }
    return softib.Baseline(BaselineRecord(name, pairs={"bandwidth": pairs}, **more))


def test_a_host_that_drifted_is_named_with_significance():
    found = made("friday").compare(made("monday", "node5", 0.9))
    assert [f.code for f in found] == ["host-drift"]
    assert found[0].message.startswith("node5:") and found[0].evidence["confidence"] > 0.99


def test_the_same_measurements_are_no_drift():
    assert len(made("friday").compare(made("monday"))) == 0


def test_a_fabric_that_became_slower_as_a_whole_is_a_finding():
    import dataclasses

    before = made("friday")
    less = {k: 0.97 * v for k, v in before._record.pairs["bandwidth"].items()}
    found = before.compare(softib.Baseline(dataclasses.replace(before._record, pairs={"bandwidth": less})))
    assert [(f.code, f.severity.name) for f in found] == [("fabric-drift", "WARNING")]
    assert found[0].evidence["ratio"] == 0.97


def test_a_class_of_pairs_that_drifted_is_named_with_significance():
    """A fat tree of three tiers; pairs across the core lose 3 %: one finding, and neither hosts nor
    the fabric are accused."""

    from softib.analysis.acceptance.baseline import BaselineRecord
    from softib.analysis.acceptance.baseline_compare import classes_of_pairs
    from softib.api.fabric import result_of

    fabric = result_of(softib.generate("fat-tree", radix=4, levels=3)).fabric
    kind = classes_of_pairs(fabric)
    hosts = [n for n, switch in zip(fabric.node_names(), fabric.is_switch, strict=True) if not switch]
    rng = np.random.default_rng(16)
    names = [(a, b) for a in hosts for b in hosts if a < b]
    assert {kind(p) for p in names} == {"same leaf", "across spine", "across core"}
    runs = [{p: 390 * rng.normal(1, 0.01) for p in names} for _ in range(2)]
    slow = {p: v * (0.97 if kind(p) == "across core" else 1) for p, v in runs[1].items()}
    record = lambda pairs: softib.Baseline(BaselineRecord("lab", fabric=fabric, pairs={"bandwidth": pairs}))
    found = record(runs[0]).compare(record(slow))
    assert [(f.code, f.evidence["pairs_class"]) for f in found] == [("class-drift", "across core")]
    assert found[0].evidence["ratio"] == pytest.approx(0.97, abs=0.01) and found[0].evidence["probability"] < 0.01
    assert len(record(runs[0]).compare(record(runs[1]))) == 0


def test_latency_beside_bandwidth_that_drifted_is_told_apart_from_latency_alone():
    """Queues that became longer on the paths of one host, and of all: latency of an idle fabric
    says nothing of it."""
    from softib.analysis.acceptance.baseline import BaselineRecord

    rng = np.random.default_rng(6)
    hosts = [f"node{i}" for i in range(16)]
    names = [(a, b) for a in hosts for b in hosts if a < b]

    def record(loaded: float, host: str = "") -> softib.Baseline:
        alone = {p: 1.5 * rng.normal(1, 0.01) for p in names}
        beside = {p: 6.0 * rng.normal(1, 0.05) * (loaded if not host or host in p else 1) for p in names}
        return softib.Baseline(BaselineRecord("lab", pairs={"latency": alone, "latency-with-bandwidth": beside}))

    before = record(1.0)
    assert len(before.compare(record(1.0))) == 0
    (found,) = before.compare(record(1.4, "node7"))
    assert found.code == "host-drift" and set(found.evidence["tests"]) == {"latency-with-bandwidth"}
    assert found.severity.name == "WARNING" and found.evidence["tests"]["latency-with-bandwidth"]["worse"]
    (found,) = before.compare(record(1.2))
    assert found.code == "fabric-drift" and found.evidence["test"] == "latency-with-bandwidth"
    assert found.evidence["ratio"] == pytest.approx(1.2, abs=0.03) and found.severity.name == "WARNING"
    (found,) = before.compare(record(0.8))
    assert found.severity.name == "INFO"  # it became better


def test_errors_firmware_and_cables_that_changed_are_listed():
    key, guid = "0x0000000000000005:1", "0x0000000000000005"
    before = made(
        "friday",
        errors={key: {"symbol_error_counter": (2, 3600.0)}},
        firmware={guid: "28.39.1002"},
        modules={key: {"module_serial": "MT1", "length_m": 3.0}},
    )
    after = made(
        "monday",
        errors={key: {"symbol_error_counter": (40, 3600.0)}},
        firmware={guid: "28.43.1014"},
        modules={key: {"module_serial": "MT2", "length_m": 5.0}},
    )
    assert sorted(f.code for f in before.compare(after)) == [
        "cable-replaced",
        "errors-since-baseline",
        "firmware-changed",
    ]
    calm = made("monday", errors={key: {"symbol_error_counter": (4, 3600.0)}})
    assert len(before.compare(calm).of("errors-since-baseline")) == 0, (
        "2 and 4 are the same rate as far as anybody can tell"
    )


def test_binomial_tails_are_exact():
    from math import comb

    from softib.analysis.acceptance.baseline_compare import binomial_tail

    for k in range(8):
        assert binomial_tail(k, 7, 0.3) == pytest.approx(sum(comb(7, i) * 0.3**i * 0.7 ** (7 - i) for i in range(k, 8)))


def test_a_baseline_is_read_as_it_was_written(tmp_path):
    tree = softib.generate("fat-tree", radix=4, levels=2)
    softib.baseline(tree).save(tmp_path / "b.json")
    back = softib.baseline(tmp_path / "b.json")
    assert len(back.compare(softib.baseline(tree))) == 0
    other = softib.generate("fat-tree", radix=4, levels=2)
    other._result.fabric.cable_length_m[:] = 5
    assert {f.code for f in softib.baseline(other).compare(back)} == set(), "the file states no length: nothing changed"


def test_a_cable_that_moved_is_stated(tmp_path):
    from softib.fabric.faults.inject import swap_cables

    tree = softib.generate("fat-tree", radix=4, levels=2)
    moved = softib.generate("fat-tree", radix=4, levels=2)
    swap_cables(moved._result.fabric, "leaf-1[1]", "leaf-2[1]")
    found = softib.baseline(tree).compare(softib.baseline(moved))
    assert found.of("topology-changed")


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "{}", '{"softib_acceptance_baseline": 9}', '{"softib_acceptance_baseline": 1}']
)
def test_what_is_no_baseline_is_refused_in_one_line(tmp_path, text):
    path = tmp_path / "b.json"
    path.write_text(text)
    with pytest.raises(softib.InputError) as raised:
        softib.baseline(path)
    assert "\n" not in str(raised.value)


def test_baselines_of_different_fabrics_are_one_line():
    with pytest.raises(softib.InputError, match="are of different fabrics"):
        softib.baseline(softib.generate("fat-tree", radix=4, levels=2)).compare(
            softib.baseline(softib.generate("rail-optimized", nodes=8, rails=2, radix=8))
        )


def test_what_cannot_be_measured_is_one_line(tmp_path):
    tree = softib.generate("fat-tree", radix=4, levels=2)
    for arguments, message in (
        ({"launcher": "local"}, "not a running fabric"),
        ({"launcher": "rsh"}, "no launcher named"),
        ({"program": "atomic"}, ("is not in perftest")),
        ({"tests": ["bandwidths"]}, "did you mean bandwidth"),
        ({"hosts": "nobody"}, "no host named"),
        ({"hosts": ["host-0001"]}, ("a pair needs two")),
    ):
        with pytest.raises(softib.InputError, match=message):
            softib.accept(tree, **{"launcher": "ssh", **arguments})


def test_a_plan_of_a_large_fabric_is_linear_in_hosts():
    """Nothing of the plan is quadratic: 432 hosts, 3 tiers, in a second or two."""
    from softib.analysis.acceptance.plan import plan_batches
    from softib.api.acceptance.accepting import where_to_measure
    from softib.diags.acceptance.measurements import TESTS

    place = where_to_measure(softib.generate("fat-tree", radix=8, levels=3))
    plan = plan_batches(
        place.ends, place.expectation, tuple(TESTS.values()), per_class=2, size=1 << 20, seconds=1.0, at_once=None
    )
    assert {r.pairs for r in plan.rounds} == {"same leaf", "across spine", "across core"}
    assert all(len(b.pairs) + len(b.load) == 64 for b in plan.batches if TESTS[b.test].loaded)
    json.dumps([b.key for b in plan.batches])
