"""Compute and storage on one fabric with service levels of their own, and on two fabrics."""

from __future__ import annotations

import pytest

import softib
from softib.errors import SoftibError
from tests.cli.run import softib as run

SHARED = "examples/storage/shared.yaml"
WORKLOADS = "examples/workloads"


@pytest.fixture(scope="module")
def shared():
    return softib.load(SHARED)


def took(simulation):
    return {j["job"]: j["ended_us"] - j["began_us"] for j in simulation.to_json()["jobs"]}


@pytest.mark.parametrize(("layer", "close"), [("fluid", 0.02), ("packet", 0.03)])
def test_a_link_is_shared_by_the_weights_that_the_manager_programs(shared, tmp_path, layer, close):
    """IBA 7.6.9, weights 128 and 64: while both send, VL 0 has two thirds of the link, so it moves twice the octets in the same time."""
    (tmp_path / "w.yaml").write_text(
        "jobs:\n"
        "- {pattern: shift, size: 8MB, hosts: [0, 4], name: compute}\n"
        "- {pattern: storage, operation: write, protocol: rdma, size: 4MB, block: 4MB, stripe: 4MB, hosts: 0, targets: 12, sl: 1, client-time: 0, name: storage}\n".replace(
            "client-time", "client_time"
        )
    )
    times = took(softib.simulate(shared, tmp_path / "w.yaml", layer=layer))
    assert times["compute"] == pytest.approx(12e6 * 8e-3 / 400, rel=close) and times["storage"] == pytest.approx(
        times["compute"], rel=close
    )


def test_a_vl_of_its_own_for_storage_protects_training(shared):
    slower = {}
    for name in ("training-and-storage", "training-and-storage-vl"):
        found = softib.simulate(shared, f"{WORKLOADS}/{name}.yaml", layer="packet")
        slower[name] = found.run_jobs_alone()["training"]["slowdown"]
    assert slower["training-and-storage"] > 4 and slower["training-and-storage-vl"] < 1.6


def test_each_fabric_runs_its_jobs_as_if_alone_and_one_fabric_all_together(shared, tmp_path):
    training = "- {pattern: all-to-all, size: 256KB, hosts: 0-11, name: training}\n"
    storage = "- {pattern: storage, size: 1MiB, hosts: 0-11, targets: 12-15, name: storage%s}\n"
    (tmp_path / "other.yaml").write_text(
        "generation: HDR\ntopology: {kind: fat-tree, radix: 8, levels: 2, hosts: 16}\n"
    )
    (tmp_path / "two.yaml").write_text(
        "fabrics: {disks: {source: other.yaml}}\njobs:\n" + training + storage % ", fabric: disks"
    )
    (tmp_path / "one.yaml").write_text("jobs:\n" + training + storage % "")
    (tmp_path / "disks.yaml").write_text("jobs:\n" + storage % "")
    found = softib.simulate(shared, tmp_path / "two.yaml", what_if="fabrics=one")
    assert took(found) == took(softib.simulate(shared, "all-to-all:256KB,hosts=0-11,name=training"))
    assert took(found.others["disks"]) == took(softib.simulate(tmp_path / "other.yaml", tmp_path / "disks.yaml"))
    assert took(found.what_if) == took(softib.simulate(shared, tmp_path / "one.yaml")) and found.good
    assert found.run_jobs_alone()["training"]["slowdown"] == pytest.approx(1)


def test_all_fabrics_stand_side_by_side(tmp_path):
    from tests.cli.documents import check

    how = (
        "simulate",
        SHARED,
        f"{WORKLOADS}/two-fabrics.yaml",
        "--layer",
        "packet",
        "--what-if",
        "fabrics=one",
        "--alone",
    )
    done = run(*how)
    assert (
        done.code == 0
        and "fabric storage: ethernet, RoCEv2" in done.out
        and "all on SOURCE" in " ".join(done.out.split())
    ), done.err
    document = check("simulate", run(*how, "--json").json())
    assert [f["name"] for f in document["fabrics"]] == ["storage"] and document["fabrics"][0]["network"] == "roce"


JOB = "{pattern: shift, size: 1MB}"


@pytest.mark.parametrize(
    ("text", "how", "said"),
    [
        (
            "fabrics: {a: {source: %s}}\njobs:\n- {pattern: shift, fabric: b}\n",
            {},
            "w.yaml:3: no fabric of the file named 'b'; known: a",
        ),
        ("fabrics: {a: {source: %s}}\njobs:\n- {pattern: shift, fabric: a}\n", {}, "no job runs on SOURCE"),
        ("fabrics: {a: {source: %s}}\njobs:\n- {pattern: shift}\n", {}, "no job runs on fabric a"),
        (
            "fabrics: {a: {source: none.yaml}}\njobs:\n- {pattern: shift}\n- {pattern: shift, fabric: a}\n",
            {},
            "none.yaml",
        ),
        (
            "fabrics: {a: {source: %s, network: roce}}\njobs:\n- {pattern: shift}\n- {pattern: shift, fabric: a}\n",
            {},
            "add --layer packet",
        ),
        ("fabrics: {a: {sourze: %s}}\njobs:\n- {pattern: shift}\n", {}, "w.yaml:1"),
        ("jobs:\n- {pattern: shift, fabric: a}\n", {}, "no fabric of the file named 'a'"),
        ("jobs:\n- {pattern: shift}\n", {"what_if": "fabrics=one"}, "already run on one fabric"),
        ("jobs:\n- {pattern: shift}\n", {"what_if": "fabrics=two"}, "one"),
    ],
)
def test_what_is_wrong_is_one_line(shared, tmp_path, text, how, said):
    (tmp_path / "w.yaml").write_text(text.replace("%s", str(softib.load(SHARED).source)) if "%s" in text else text)
    with pytest.raises(SoftibError) as error:
        softib.simulate(shared, tmp_path / "w.yaml", **how)
    assert said in str(error.value) and "\n" not in str(error.value)


def test_a_comparison_and_a_sweep_take_one_fabric(shared):
    for ask in (lambda w: softib.compare(shared, w), lambda w: softib.sweep(shared, w, {"seeds": 1}, workers=1)):
        with pytest.raises(SoftibError, match="uses several fabrics"):
            ask(f"{WORKLOADS}/two-fabrics.yaml")
