"""MPI programs of healthy traffic on a paced running fabric, and what diagnose reports of them: EDR switches with SDR hosts."""

from __future__ import annotations

import random
import subprocess
import time
from pathlib import Path

import softib
from tests.preload.verbs.applications import Applications, stop

__all__ = ["KINDS", "judged", "paced_fabric"]

FABRIC = "name: paced\ngeneration: EDR\ntopology: {kind: fat-tree, radix: 8, levels: 2, host_generation: SDR}\n"
KINDS = ("incast", "shuffle", "checkpoint")


def paced_fabric(mpicc: str) -> Applications:
    """A running fabric, with the MPI program compiled in its folder."""
    fabric = Applications(FABRIC, "--pace")
    source = Path(__file__).with_name("patterns.c")
    subprocess.run([mpicc, "-O2", str(source), "-o", str(fabric.folder / "patterns")], check=True)
    return fabric


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
