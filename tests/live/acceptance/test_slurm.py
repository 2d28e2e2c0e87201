"""``softib accept --launcher srun`` inside an allocation of a real Slurm, and jobs as that Slurm tells them. Oracles: squeue, /proc, what was planted."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

import softib
from tests.live.acceptance.slurm_cluster import SlurmCluster, need_slurm
from tests.scratch import scratch

pytestmark = [pytest.mark.slow, pytest.mark.stock]
NODES = [f"host-{i:04}" for i in range(1, 9)]


@pytest.fixture(scope="module")
def fabric(stock) -> Iterator[softib.RunningFabric]:
    need_slurm()
    stock("ib_write_bw")
    patch = pytest.MonkeyPatch()
    patch.setenv("XDG_RUNTIME_DIR", str(scratch("accept-", memory=True)))
    with softib.up(softib.generate("fat-tree", radix=4, levels=2, generation="SDR"), name="slurm", pace=True) as f:
        yield f
    patch.undo()


@pytest.fixture(scope="module")
def slurm(fabric) -> Iterator[SlurmCluster]:
    made = SlurmCluster("slurm", NODES)
    try:
        yield made
    finally:
        made.close()


def accept(slurm: SlurmCluster, *options: str) -> subprocess.Popen[str]:
    """``softib accept`` in an allocation of all nodes."""
    command = [
        "salloc",
        "-N",
        str(len(NODES)),
        sys.executable,
        "-m",
        "softib",
        "accept",
        "slurm",
        "--launcher",
        "srun",
        "--rounds",
        "0",
        *options,
    ]
    return subprocess.Popen(
        command, env=slurm.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )


def entries(journal) -> list[dict]:
    lines = journal.read_text().splitlines() if journal.exists() else []
    return [e for e in map(json.loads, lines) if "values" in e]


def test_srun_measures_what_links_carry_and_a_slow_cable_is_named(fabric, slurm, tmp_path):
    journal = tmp_path / "j"
    fabric.fault("downgrade", "leaf-1[3]", width=1)
    time.sleep(2)
    run = accept(
        slurm,
        "--test",
        "bandwidth-both-loaded",
        "--seconds",
        "0.2",
        "--journal",
        str(journal),
        "--base-port",
        "23000",
        "--json",
    )
    out, err = run.communicate(timeout=280)
    fabric.fault("clear")
    assert sum(len(e["values"]) for e in entries(journal)) == 28, (err, entries(journal), slurm.log())
    assert max(v[2] for e in entries(journal) for v in e["values"]) < 1.02 * 2 * 7.95
    slow = [f for f in json.loads(out)["findings"] if f["code"].startswith("slow-")]
    assert [f["code"] for f in slow] == ["slow-cable"] and "leaf-1[3]" in slow[0]["message"], out
    assert not slurm.programs("ib_write_bw")


def test_a_run_goes_on_after_its_allocation_was_cancelled(slurm, tmp_path):
    journal = tmp_path / "j"
    options = ("--test", "bandwidth", "--seconds", "1", "--journal", str(journal))
    run = accept(slurm, *options, "--base-port", "25500")
    end = time.monotonic() + 120
    while len(entries(journal)) < 2 or not slurm.programs("ib_write_bw"):
        assert time.monotonic() < end and run.poll() is None, slurm.log()
        time.sleep(0.1)
    slurm("scancel", slurm("squeue", "-h", "-o", "%i").strip())
    began = time.monotonic()
    run.communicate(timeout=200)
    assert time.monotonic() - began < 60, "it does not wait for every pair of an allocation that is gone"
    measured = sum(len(e["values"]) for e in entries(journal))
    assert 0 < measured < 28
    assert {f[2] for e in entries(journal) for f in e["failures"]} == {-1}, "no host is at fault"
    assert sum(len(e["failures"]) for e in entries(journal)) == 28 - measured, "what is not measured is said"
    while slurm.programs("ib_write_bw"):
        assert time.monotonic() < began + 60, "nothing is left on nodes"
        time.sleep(0.2)
    _, err = accept(slurm, *options, "--base-port", "27500", "--resume").communicate(timeout=280)
    pairs = [frozenset(v[:2]) for e in entries(journal) for v in e["values"]]
    assert len(pairs) == len(set(pairs)) == 28, (err, slurm.log())


def test_jobs_are_those_that_squeue_and_scontrol_tell(fabric, slurm, tmp_path):
    for name, hosts in (("train", "host-[0001,0003-0004]"), ("solve", "host-[0005-0006]")):
        slurm(
            "sbatch",
            "-J",
            name,
            "-o",
            "/dev/null",
            "-w",
            hosts,
            "-N",
            str(3 if name == "train" else 2),
            "--wrap",
            "sleep 300",
        )
    end = time.monotonic() + 60
    while (
        told := dict(x.split("|") for x in slurm("squeue", "-h", "-t", "R", "-o", "%j (%i)|%N").splitlines())
    ) == {} or len(told) < 2:
        assert time.monotonic() < end, slurm.log()
        time.sleep(0.3)
    slurm("sbatch", "-J", "waits", "-o", "/dev/null", "-N", "8", "--exclusive", "--wrap", "true")
    for command in (("squeue", "--json"), ("scontrol", "--json", "show", "job")):
        text = slurm(*command)
        if not text.startswith("{"):
            assert command[0] == "scontrol", "squeue has JSON since 21.08, scontrol since 23.02"
            continue
        (tmp_path / command[0]).write_text(text)
        jobs = softib.jobs_on(fabric, tmp_path / command[0])
        assert {j["job"]: tuple(j["hosts"]) for j in jobs.to_json()} == {
            next(n for n in told if n.startswith("train")): ("host-0001", "host-0003", "host-0004"),
            next(n for n in told if n.startswith("solve")): ("host-0005", "host-0006"),
        }
    slurm("scancel", "--user=root")
