"""``softib.diagnose`` and ``softib.jobs_on``: jobs as schedulers write them, the links that they use, and what findings say of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import softib
from softib.analysis.jobs import files as job_files
from softib.analysis.jobs.files import expand_hostlist, read_jobs
from tests.diags.cable_rules.observed import observed

TREE: dict[str, Any] = {"radix": 8, "levels": 2}
"""Eight leaves of four hosts, four spines: a full tree."""


def squeue(nodes: Any, state: Any = ("RUNNING",)) -> dict[str, Any]:
    """As ``squeue --json`` of Slurm 22.05 and 23.11 write a job."""
    return {
        "job_id": 41,
        "name": "train",
        "user_name": "ada",
        "job_state": state if isinstance(state, str) else list(state),
        "nodes": nodes,
    }


# Published examples of Slurm's hostlist expressions (scontrol(1), "show hostnames").
@pytest.mark.parametrize(
    ("text", "hosts"),
    [
        ("tux[1-3]", ["tux1", "tux2", "tux3"]),
        ("lx[15,18,32-33]", ["lx15", "lx18", "lx32", "lx33"]),
        ("n[008-010]", ["n008", "n009", "n010"]),
        ("r[1-2]n[1-2],login", ["r1n1", "r1n2", "r2n1", "r2n2", "login"]),
        ("one", ["one"]),
    ],
)
def test_hostlists_are_slurms(text: str, hosts: list[str]) -> None:
    assert list(expand_hostlist(text)) == hosts


@pytest.mark.parametrize("text", ["n[1-", "n[3-1]", "n[a-b]", "n]1["])
def test_a_wrong_hostlist_is_one_line(text: str) -> None:
    with pytest.raises(softib.InputError) as caught:
        expand_hostlist(text)
    assert "\n" not in str(caught.value)


def test_endless_hostlists_are_refused() -> None:
    with pytest.raises(softib.LimitError):
        expand_hostlist("n[0-9999999]")
    with pytest.raises(softib.LimitError):
        expand_hostlist("n[0-999][0-999][0-999]")


def test_slurm_jobs_that_run(tmp_path: Path) -> None:
    file = tmp_path / "squeue.json"
    newer = {
        "job_id": 42,
        "name": "eval",
        "job_state": ["RUNNING"],
        "job_resources": {"nodes": {"count": 2, "list": "host-[0003-0004]"}},
    }
    file.write_text(
        json.dumps(
            {
                "meta": {},
                "jobs": [squeue("host-[0001-0002]"), newer, squeue("", "PENDING"), squeue("host-0009", "COMPLETED")],
            }
        )
    )
    jobs = read_jobs(file)
    assert [(j.name, j.hosts) for j in jobs] == [
        ("train (41)", ("host-0001", "host-0002")),
        ("eval (42)", ("host-0003", "host-0004")),
    ]
    assert jobs[0].user == "ada"


def test_pods_of_one_owner_are_one_job() -> None:
    def pod(node: str, labels: dict[str, str], phase: str = "Running", **meta: Any) -> dict[str, Any]:
        return {
            "metadata": {"name": f"p-{node}", "namespace": "ml", "labels": labels, **meta},
            "spec": {"nodeName": node},
            "status": {"phase": phase},
        }

    label = {"batch.kubernetes.io/job-name": "train"}
    items = [
        pod("n1", label),
        pod("n2", label),
        pod("n3", {}, ownerReferences=[{"kind": "StatefulSet", "name": "db"}]),
        pod("n4", label, "Pending"),
        {"metadata": {"name": "none"}, "spec": {}, "status": {}},
    ]
    jobs = read_jobs({"kind": "PodList", "items": items})
    assert [(j.name, j.hosts, j.user) for j in jobs] == [("train", ("n1", "n2"), "ml"), ("db", ("n3",), "ml")]


@pytest.mark.parametrize("text", ["train: 3", "- {name: x}", "just text", "jobs: [1]", "a: ["])
def test_a_file_without_jobs_is_one_line(tmp_path: Path, text: str) -> None:
    file = tmp_path / "jobs.yaml"
    file.write_text(text)
    with pytest.raises(softib.InputError) as caught:
        read_jobs(file)
    assert "jobs.yaml" in str(caught.value) and "\n" not in str(caught.value)


@pytest.fixture(scope="module")
def tree() -> softib.Fabric:
    return softib.generate("fat-tree", **TREE)


def test_a_job_inside_a_leaf_uses_its_hosts_links_alone(tree: softib.Fabric) -> None:
    jobs = softib.jobs_on(tree, {"small": ["host-0001", "host-0002"], "large": ["host-0003", "host-0031"]})
    assert len(jobs.links("small")) == 4  # two links, each in both directions
    assert len(jobs.links("large")) == 8  # host, leaf, spine, leaf, host: four links a direction
    assert jobs.sharing("small") == {} and jobs.crossing("host-0031[1]") == ["large"]
    assert jobs.crossing("host-0009[1]") == []


def test_jobs_that_share_no_link_do_not_slow_each_other_down(tree: softib.Fabric) -> None:
    jobs = softib.jobs_on(tree, {"a": ["host-0001", "host-0002"], "b": ["host-0003", "host-0004"]})
    assert list(jobs.slowdown().values()) == [pytest.approx(1.0), pytest.approx(1.0)]


def test_two_jobs_of_the_same_hosts_halve_each_other(tree: softib.Fabric) -> None:
    """Each link is shared evenly: twice the flows, half the rate."""
    jobs = softib.jobs_on(tree, {"a": ["host-[0001-0004]"], "b": ["host-[0001-0004]"]})
    assert jobs.slowdown() == {"a": pytest.approx(2.0), "b": pytest.approx(2.0)}


def test_hosts_that_are_not_there_are_listed(tree: softib.Fabric) -> None:
    jobs = softib.jobs_on(tree, {"a": ["host-0001", "ghost"]})
    assert jobs.to_json()[0]["missing_hosts"] == ["ghost"]
    with pytest.raises(softib.UnknownName):
        jobs.links("aa")


def test_domains_and_rails(tree: softib.Fabric) -> None:
    pod = softib.generate("rail-optimized", nodes=8, rails=2, radix=16)
    f = pod.arrays
    host = f.node_name(int(f.cas[0])).rsplit(" ", 1)[0]
    jobs = softib.jobs_on(pod, {"a": [f"{host}.example.org"]})
    assert jobs.to_json()[0]["hosts"] == [f"{host}.example.org"] and jobs.to_json()[0]["missing_hosts"] == []
    assert jobs.links("a") == []  # adapters of one host, each on its own rail, talk to nobody


def test_a_slow_host_slows_the_jobs_that_cross_it(tree: softib.Fabric) -> None:
    from softib.diags.finding import Finding, Location, Severity

    jobs = softib.jobs_on(tree, {"a": ["host-[0001-0002]"], "b": ["host-[0003-0004]"]})
    f = tree.arrays
    guid = int(f.node_guid[f.node_names().index("host-0001")])
    found = [Finding("slow-receiver", Severity.WARNING, (Location("host-0001", guid, 1),), "", {"drained_gbps": 10.0})]
    slow = jobs.with_slow_ports(found).slowdown()
    assert slow["a"] == pytest.approx(40.0) and slow["b"] == pytest.approx(1.0)  # 400 Gb/s of NDR over 10


def test_diagnose_gives_findings_with_filters_and_json() -> None:
    found = softib.diagnose(observed(3600, {"symbol_error_counter": {"h0[1]": 500}}))
    assert [f.code for f in found.at_least("warning")] == ["link-bit-errors"]
    assert found.to_json()["findings"] and not found.good
    assert softib.diagnose(observed(3600, {"symbol_error_counter": {"h0[1]": 500}}), ignore=["link-bit-errors"]).good
    with pytest.raises(softib.UnknownName):
        softib.diagnose(observed(60, {}), thresholds={"ber": 1})
    with pytest.raises(softib.InputError):
        softib.diagnose(observed(60, {}), jobs={"a": ["h0"]})


def test_what_holds_observations_is_taken_too() -> None:
    class Observed:
        observations = observed(3600, {"symbol_error_counter": {"h0[1]": 500}})

    assert not softib.diagnose(Observed()).good


def test_check_says_which_jobs_cross_what_was_found(tmp_path: Path) -> None:
    spec = tmp_path / "pod.yaml"
    spec.write_text(
        "generation: NDR\ntopology: {kind: fat-tree, radix: 8, levels: 2}\nfaults: [{cable: 'host-0003[1]', ber: 1.0e-9}]\n"
    )
    jobs = softib.jobs_on(str(spec), {"train": ["host-[0001-0004]"], "other": ["host-[0005-0008]"]})
    found = softib.check(str(spec), jobs=jobs).of("link-bit-errors")
    assert [f.evidence["jobs"] for f in found] == [["train"]] and "crossed by train" in found[0].message


def test_an_observed_fabric_has_the_cables_that_were_observed() -> None:
    from softib.analysis.observed_fabric import fabric_of_ports
    from tests.diags.cable_rules.observed import ports

    f = fabric_of_ports(ports())
    assert (f.sizes.cables, f.sizes.switches, len(f.cas)) == (6, 3, 4)
    assert np.unique(f.node_guid).tolist() == [1, 2, 3, 4, 10, 11, 20]


def test_isolating_an_uplink_says_what_it_costs_the_bisection() -> None:
    """Two leaves of two hosts and one uplink each (50 % of full): without one uplink nothing crosses."""
    found = softib.diagnose(observed(3600, {"symbol_error_counter": {"leaf-0[3]": 500}})).at_least("warning")
    isolate = found[0].evidence["isolate"]
    assert isolate["disconnected_nodes"] == 3 and isolate["capacity_between_switches_left"]["leaf-0"] == 0.0
    assert isolate["bisection_percent"] == {"now": 50.0, "all_isolated": 0.0}


SLURMS = {
    "20.11": {"job_state": "RUNNING", "nodes": "host-[0001-0002]", "start_time": 1000, "end_time": 9000},
    "22.05": {"job_state": "RUNNING", "nodes": "", "job_resources": {"nodes": "host-[0001-0002]"}, "start_time": 1000},
    "23.02": {"job_state": "RUNNING", "nodes": "host-[0001-0002]", "start_time": {"set": True, "infinite": False, "number": 1000}},
    "23.11": {"job_state": ["RUNNING"], "nodes": None, "start_time": {"set": True, "infinite": False, "number": 1000},
              "job_resources": {"nodes": {"count": 2, "select_type": ["AVAILABLE"], "list": "host-[0001-0002]", "whole": True}}},
    "24.11": {"job_state": ["RUNNING"], "start_time": {"set": True, "infinite": False, "number": 1000},
              "job_resources": {"nodes": {"count": 2, "allocation": [{"index": 0, "name": "host-0001"}, {"index": 1, "name": "host-0002"}]}}},
    "sacct": {"state": {"current": ["RUNNING"], "reason": "None"}, "nodes": "host-[0001-0002]", "time": {"start": 1000, "end": 0}, "user": "ada"},
}  # fmt: skip # a table, its columns aligned


@pytest.mark.parametrize("version", SLURMS)
def test_each_version_of_slurm_states_hosts_and_times_in_its_own_way(version: str) -> None:
    told = {"jobs": [{"job_id": 7, "name": "train", "user_name": "ada"} | SLURMS[version]]}
    for at, there in ((None, True), (999.0, False), (1000.0, True), (99999.0, True)):
        assert [j.hosts for j in read_jobs(told, at)] == ([("host-0001", "host-0002")] if there else []), (version, at)
    assert read_jobs(told)[0].name == "train (7)" and read_jobs(told)[0].user == "ada"


def test_jobs_that_have_ended_ran_from_their_start_to_their_end() -> None:
    ended = {"job_id": 1, "name": "a", "nodes": "n1", "job_state": ["COMPLETED"], "start_time": 100, "end_time": 200}
    soon = {"job_id": 2, "name": "b", "nodes": "n1", "job_state": ["PENDING"], "start_time": 150}
    unknown = {"job_id": 3, "name": "c", "nodes": "n1", "job_state": ["FAILED"], "start_time": 100}
    told = {"jobs": [ended, soon, unknown]}
    assert [[j.name for j in read_jobs(told, t)] for t in (99.0, 150.0, 200.0)] == [[], ["a (1)"], []]
    assert read_jobs(told) == []
    pod = {
        "metadata": {"name": "p"},
        "spec": {"nodeName": "n1"},
        "status": {
            "phase": "Succeeded",
            "startTime": "1970-01-01T00:01:40Z",
            "containerStatuses": [{"state": {"terminated": {"finishedAt": "1970-01-01T00:03:20Z"}}}],
        },
    }
    assert [len(read_jobs({"items": [pod]}, t)) for t in (99.0, 150.0, 200.0)] == [0, 1, 0]


@pytest.mark.parametrize(
    "number",
    [
        -5,
        0,
        True,
        "soon",
        float("nan"),
        float("inf"),
        {"set": False, "number": 4},
        {"infinite": True, "number": 4},
        [],
        {"number": "x"},
    ],
)
def test_a_time_that_is_none_is_unknown(number: Any) -> None:
    job = {"job_id": 1, "name": "a", "nodes": "n1", "job_state": "RUNNING", "start_time": number}
    assert len(read_jobs({"jobs": [job]}, 50.0)) == 1


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (
            '{"jobs": [], "errors": [{"description": "Unable to contact\\nslurm controller", "error_number": 1}]}',
            "Unable to contact slurm controller",
        ),
        ('{"kind": "List", "items": [{"kind": "Job", "metadata": {"name": "x"}}]}', "contains Job instead of pods"),
        ('{"jobs": [{"nodes": "n[' + "9" * 5000 + '-7]"}]}', "digits"),
        ("[" * 100_000, "jobs.yaml"),
        ('{"a": ' * 50_000, "jobs.yaml"),
        ("\0", "jobs.yaml"),
        ('{"jobs": [{"nodes": "n[1"}]}', "bracket"),
        ('{"jobs": [' + ", ".join(['{"nodes": "n[1-90]"}'] * 3) + "]}", "more than 200 hosts"),
    ],
)
def test_hostile_files_of_jobs_are_one_line(tmp_path: Path, monkeypatch, text: str, says: str) -> None:
    monkeypatch.setattr(job_files, "MOST_IN_ALL", 200)
    file = tmp_path / "jobs.yaml"
    file.write_text(text)
    with pytest.raises(softib.SoftibError) as caught:
        read_jobs(file)
    assert says in str(caught.value) and "\n" not in str(caught.value) and len(str(caught.value)) < 400


def test_odd_pods_are_left_out() -> None:
    odd: list[Any] = [
        {"metadata": [], "spec": {"nodeName": "n1"}, "status": "x"},
        {
            "metadata": {"name": "p", "labels": [1], "ownerReferences": [3]},
            "spec": {"nodeName": "n2"},
            "status": {"phase": "Running", "startTime": 7, "containerStatuses": 3},
        },
        {"spec": None},
        5,
        {"metadata": {"name": "q"}, "spec": {"nodeName": "n3"}, "status": {"phase": ["Running"]}},
    ]
    assert [(j.name, j.hosts) for j in read_jobs({"items": odd})] == [("pod", ("n1",)), ("p", ("n2",))]
    alone = {"kind": "Pod", "metadata": {"name": "p"}, "spec": {"nodeName": "n1"}, "status": {"phase": "Running"}}
    assert [(j.name, j.hosts) for j in read_jobs(alone)] == [("p", ("n1",))]


def test_links_that_were_dead_before_are_named_by_the_structure() -> None:
    """No counter moves on a cable that nobody has seen: ``check`` and ``diagnose`` say the same of it."""
    from softib.api.fabric import result_of
    from softib.diags.observations import Observations
    from softib.fabric.plugging import delete_cables
    from softib.monitor.fabric_ports import ports_of, rows_of

    fabric = softib.generate("fat-tree", **TREE)
    f = result_of(fabric).fabric
    between = f.is_switch[f.port_node] & f.is_switch[f.port_node[np.maximum(f.port_peer, 0)]] & (f.port_peer >= 0)
    delete_cables(f, np.array([int(f.port_cable[np.flatnonzero(between)[0]])]))
    rows = rows_of(f)
    n = len(rows)
    known, rose = np.ones((1, n), bool), np.zeros((1, n), np.uint64)
    begin = np.zeros((1, n), np.int64)
    quiet = Observations(
        ports_of(f, rows), begin, begin + 10**12, {"symbol_error_counter": rose}, {"symbol_error_counter": known}
    )
    found = softib.diagnose(quiet, fabric).at_least("warning")
    dead = [g for g in softib.check(fabric) if g.code == "missing-cable"]
    assert len(dead) == 1 and [(g.code, g.where) for g in found] == [(g.code, g.where) for g in dead]
