"""Workloads and traffic that a Python program holds. Oracles: the same as a file; what one host
sends another over a link of known rate."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest

import softib
from softib.workloads.traces.protobuf_wire import delimited
from tests.workloads.traces.chakra_files import et, node, written

A, B = "host-0001", "host-0008"


@pytest.fixture(scope="module")
def tree() -> softib.Fabric:
    return softib.generate("fat-tree", radix=4, levels=2)


def square(size: float) -> np.ndarray:
    made = np.zeros((8, 8))
    made[0, 7] = size
    return made


def polars_frame(size):
    polars = pytest.importorskip("polars")
    return polars.DataFrame({"source": [A], "destination": [B], "bytes": [size]})


def pandas_frame(size):
    pandas = pytest.importorskip("pandas")
    return pandas.DataFrame({B: [size, float("nan")]}, index=[A, "host-0002"])


def polars_square(size):
    polars = pytest.importorskip("polars")
    return polars.DataFrame({"from": [A, B], A: [None, 0], B: [size, None]})


FORMS = {
    "pairs": lambda n: {(A, B): n},
    "nested": lambda n: {A: {B: n}},
    "text": lambda n: {A: {B: f"{n / 1e6:g} MB"}},
    "tuples": lambda n: [(A, B, n)],
    "lists": lambda n: [[A, B, n]],
    "rows of hosts": lambda n: {(0, 7): np.int64(n)},
    "columns": lambda n: {"source": [A], "destination": [B], "bytes": np.array([n])},
    "dicts": lambda n: [{"src": A, "dst": B, "size": n}],
    "array": square,
    "nested lists": lambda n: square(n).tolist(),
    "polars": polars_frame,
    "pandas": pandas_frame,
    "polars, names along both sides": polars_square,
}


@pytest.mark.parametrize("form", FORMS)
def test_traffic_in_every_form_is_the_file_of_it(tree, form, tmp_path):
    """2 MB over NDR: 400 Gb/s of data, 40 µs and some latency."""
    (tmp_path / "m.csv").write_text(f"{A},{B},2000000\n")
    wanted = softib.simulate(tree, f"matrix:{tmp_path / 'm.csv'}")
    found = softib.simulate(tree, FORMS[form](2_000_000))
    assert [row[1:] for row in found.messages.rows()] == [row[1:] for row in wanted.messages.rows()]
    assert 40 < found.simulated_us < 48 and len(found.messages) == 1


def test_prediction_of_data_is_that_of_its_file(tree, tmp_path):
    rng = np.random.default_rng(1)
    values = rng.integers(0, 10**7, (8, 8)) * (1 - np.eye(8, dtype=int))
    names = [f"host-{i:04d}" for i in range(1, 9)]
    lines = [f"{names[s]},{names[d]},{values[s, d]}" for s in range(8) for d in range(8) if values[s, d]]
    (tmp_path / "m.csv").write_text("\n".join(lines))
    by_file, by_data = (softib.predict(tree, traffic=t).traffic for t in (tmp_path / "m.csv", values))
    assert {k: v for k, v in by_file.items() if k != "path"} == {k: v for k, v in by_data.items() if k != "path"}
    assert by_data["bytes"] == values.sum()
    hosts_us = max(values.sum(axis=0).max(), values.sum(axis=1).max()) * 8 / 400e3
    assert by_data["hosts_us"] == pytest.approx(hosts_us), "the busiest host's bytes at 400 Gb/s"
    assert softib.predict(tree).traffic is None


def test_the_messages_of_a_run_are_traffic_again(tree):
    first = softib.simulate(tree, "permutation:1MB")
    again = softib.simulate(tree, first.messages)
    pairs = lambda run: sorted(zip(run.messages.column("source"), run.messages.column("destination"), strict=True))
    assert pairs(again) == pairs(first) and again.messages.column("size") == first.messages.column("size")


def test_jobs_as_data_are_jobs_of_a_file(tree, tmp_path):
    jobs = [{"pattern": "shift", "size": "1MB"}, {"pattern": "incast", "size": "64KB", "senders": 3, "seed": 1}]
    (tmp_path / "w.yaml").write_text(json.dumps({"jobs": jobs}))
    wanted = softib.simulate(tree, tmp_path / "w.yaml").messages.rows()
    assert softib.simulate(tree, {"jobs": jobs}).messages.rows() == wanted
    assert softib.simulate(tree, jobs).messages.rows() == wanted
    assert softib.simulate(tree, ["shift:1MB", jobs[1]]).messages.rows() == wanted
    assert softib.simulate(tree, jobs[0]).messages.rows() == softib.simulate(tree, "shift:1MB").messages.rows()
    made = softib.Workload.of(jobs, name="both")
    assert repr(made) == "<Workload 'both': 2 jobs>" and softib.simulate(tree, made).workload == "both"


def test_nodes_of_chakra_are_their_file(tree, tmp_path):
    """A send and its receive; messages as protobuf's classes serialise them."""

    class Node:
        def __init__(self, data):
            self.data = data

        def SerializeToString(self):
            return self.data

    ranks = [
        et(node(1, 5, comm_dst=1, comm_src=0, comm_size=1 << 20, comm_tag=3)),
        et(node(1, 6, comm_src=0, comm_dst=1, comm_size=1 << 20, comm_tag=3)),
    ]
    wanted = softib.simulate(tree, f"trace:{written(tmp_path, *ranks)}")
    found = softib.simulate(tree, [[Node(bytes(m)) for m in list(delimited(data))[1:]] for data in ranks])
    for column in ("source", "destination", "size", "arrived_us"):
        assert found.messages.column(column) == wanted.messages.column(column)
    assert 1 << 20 in found.messages.column("size")
    with pytest.raises(softib.InputError, match="not a Node of a Chakra trace"):
        softib.simulate(tree, [[Node("text")]])


def test_any_workload_is_traffic_of_a_report(tree, tmp_path):
    """Oracles: the same bytes as an array; the bytes of a send; a READ's bytes flow from the host that is read."""
    of_array = softib.predict(tree, traffic=np.full((8, 8), 1_000_000)).traffic
    job = {"pattern": "all-to-all", "size": "1MB"}
    (tmp_path / "w.yaml").write_text(json.dumps({"jobs": [job]}))
    for same in ("all-to-all:1MB", job, [job], {"jobs": [job]}, softib.Workload.of(job), tmp_path / "w.yaml"):
        found = softib.report(tree, traffic=same).to_json()["traffic"]
        assert {**found, "path": "", "entries": 0} == {**of_array, "path": "", "entries": 0}

    class Node:
        def __init__(self, data):
            self.data = data

        def SerializeToString(self):
            return self.data

    ranks = [
        et(node(1, 5, comm_dst=1, comm_src=0, comm_size=1 << 20, comm_tag=3)),
        et(node(1, 6, comm_src=0, comm_dst=1, comm_size=1 << 20, comm_tag=3)),
    ]
    sent = softib.predict(tree, traffic=[[Node(bytes(m)) for m in list(delimited(data))[1:]] for data in ranks]).traffic
    assert (sent["flows"], sent["bytes"]) == (1, 1 << 20)
    ends = f"bandwidth:1MB,hosts={A}+{B}"
    loads = [
        {(row["place"], row["bytes"]) for row in softib.predict(tree, traffic=text).traffic["busiest"]}
        for text in (ends, f"{ends},opcode=read", f"bandwidth:1MB,hosts={B}+{A}")
    ]
    assert loads[0] != loads[1] == loads[2]


@pytest.mark.parametrize(
    ("given", "says"),
    (
        ("multicast:1MB", "switches copy or reduce its messages"),
        ("al-to-all:1MB", "no workload pattern named 'al-to-all'; did you mean all-to-all"),
        ("absent.csv", "absent.csv: No such file"),
    ),
)
def test_traffic_that_is_none_of_a_report(tree, given, says):
    with pytest.raises(softib.InputError, match=re.escape(says)):
        softib.predict(tree, traffic=given)


def test_a_sweep_knows_other_traffic_by_its_values(tree, tmp_path):
    pytest.importorskip("joblib")
    grid = {"parameters": {"engine": ["ftree"]}}
    times = [softib.sweep(tree, {(A, B): size}, grid, workers=1).rows()[0]["simulated_us"] for size in (10**6, 10**7)]
    assert times[0] < times[1]
    from softib.api.sweep.grid import keys_of, read_grid

    points = read_grid(grid).points()
    keys = {keys_of(tree, [softib.Workload.of({(A, B): size})], points, "fluid", None)[0] for size in (1, 2, 2)}
    assert len(keys) == 2


@pytest.mark.parametrize(
    "given, says",
    [
        (5, "int is not traffic; traffic is"),
        (None, "NoneType is not traffic"),
        (object(), "object is not traffic"),
        ([], "traffic"),
        ({}, ("no flow")),
        ({(A, "host-99"): 1}, r"no host 'host-99'; hosts are for example host-0001"),
        ({(A, B): -1}, "-1 is not a number of bytes"),
        ({(A, B): "x"}, ("'x' is not a number")),
        ({(A, B): True}, "True is not a number"),
        ({(A, B): float("inf")}, "inf is not a number"),
        ({(A, 8): 1}, ("no host 8; the fabric has 8")),
        ({A: 1}, "is not a flow"),
        (square(-1), r"traffic\[0, 7\]: -1"),
        (np.zeros((3, 3)), "the array is 3 by 3, but the fabric has 8 host ports"),
        (np.zeros((3, 4)), (r"shape \(3, 4\)")),
        ([(A, B)], "2 values"),
        ({"jobs": 5}, "must be a list"),
        ({"jobs": [{"pattern": "shyft"}]}, "did you mean shift"),
        ({"pattern": "shift", "sizes": 1}, ("did you mean size")),
        ([{"a": 1}], "columns a"),
        ({(A, B): 0}, "no host sends a byte"),
        ({"source": [A], "destination": [B], "bytes": []}, ("one length")),
    ],
)
def test_what_is_no_workload_is_one_line(tree, given, says):
    with pytest.raises(softib.InputError, match=says) as raised:
        softib.simulate(tree, given)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("traffic", "words"),
    [
        ({("host-0001", "host-0002"): 1e30}, "1e+30 bytes in sum"),
        ({"wer": ["host-0001"], "wem": ["host-0002"], "bytes": [3]}, "columns wer, wem, bytes"),
        ({"a": ["host-0001"], "b": ["x"]}, "columns a, b"),
    ],
)
def test_traffic_that_is_none_is_one_line(traffic, words):
    polars = pytest.importorskip("polars")
    given = traffic if any(isinstance(k, tuple) for k in traffic) else polars.DataFrame(traffic)
    with pytest.raises(softib.InputError, match=re.escape(words)) as caught:
        softib.report(softib.generate("fat-tree", radix=4, levels=2), traffic=given)
    assert "\n" not in str(caught.value)
