"""Incasts, shuffles and checkpoints of a real MPI program over a paced running fabric: EDR switches with SDR hosts, 3 to 16 senders. Healthy, so
every warning is a false alarm; the planted slow host of the last test is the other side."""

from __future__ import annotations

import random
import subprocess
import time

import pytest

import softib
from tests.preload.verbs.applications import Applications, stop

pytestmark = [pytest.mark.stock, pytest.mark.slow]
FABRIC = "name: paced\ngeneration: EDR\ntopology: {kind: fat-tree, radix: 8, levels: 2, host_generation: SDR}\n"
SOURCE = __file__.replace("test_live_incasts.py", "patterns.c")
KINDS = ("incast", "shuffle", "checkpoint")
RUNS = [(KINDS[i % 3], 3 + i % 14) for i in range(14)]
"""Kind and senders; 14 so that each number of senders is one."""


@pytest.fixture(scope="module")
def paced(stock):
    made = Applications(FABRIC, "--pace")
    subprocess.run([stock("mpicc"), "-O2", SOURCE, "-o", str(made.folder / "patterns")], check=True)
    yield made
    made.close()


def judged(fabric, kind, ranks, seed, rounds=4, fault=None):
    """Warnings and errors of ``rounds`` rounds while ``ranks`` hosts talk."""
    hosts = [f"host-{n:04}" for n in random.Random(seed).sample(range(2, 33), ranks)]
    words = ["mpirun", "--allow-run-as-root", "--oversubscribe", "--mca", "mpi_yield_when_idle", "1", "-np", str(ranks)]
    words += fabric.arguments("run", "--node", ",".join(hosts), "--", str(fabric.folder / "patterns"), kind, "60")
    job = subprocess.Popen(
        words,
        env=fabric.env,
        cwd=fabric.folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        assert job.stdout is not None
        begun = next((line for line in job.stdout if "begun" in line), "")
        assert begun, "the job did not begin"
        if fault:
            fabric("fault", *(w.format(target=hosts[0]) for w in fault))
        time.sleep(1.0)
        name = fabric.status()["name"]
        findings = softib.diagnose(softib.observe(name, rounds=rounds, every=1.5), name).at_least("warning")
        assert job.poll() is None, "the job ended early"
        return [(f.code, f.message) for f in findings], hosts
    finally:
        stop(job)
        if fault:
            fabric("fault", "clear")


@pytest.mark.parametrize(("kind", "senders"), RUNS)
def test_healthy_traffic_accuses_nobody(paced, monkeypatch, kind, senders):
    monkeypatch.setenv("XDG_RUNTIME_DIR", paced.env["XDG_RUNTIME_DIR"])
    assert judged(paced, kind, senders + 1, senders)[0] == []


def test_a_slow_receiver_of_an_incast_is_named(paced, monkeypatch):
    monkeypatch.setenv("XDG_RUNTIME_DIR", paced.env["XDG_RUNTIME_DIR"])
    findings, hosts = judged(paced, "incast", 5, 99, fault=("slow-port", "{target}[1]", "0.5"))
    assert any(hosts[0] in message for _, message in findings), findings
