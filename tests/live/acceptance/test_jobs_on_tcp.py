"""Jobs that fell back to TCP, by a real mpirun on a running fabric: named, with the reason; the same program on verbs is not. Oracle: what mpirun was told, and that it ends well."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest

import softib
from tests.preload.verbs.applications import verbs_library
from tests.scratch import scratch

pytestmark = [pytest.mark.slow, pytest.mark.stock]
RING = r"""
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
int main(int n, char **v) {
    static char out[65536], in[65536];
    int rank, size, go = 1;
    long turns = 0;
    double end;
    MPI_Init(&n, &v);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    end = MPI_Wtime() + atof(v[1]);
    while (go) {
        out[0] = rank;
        MPI_Sendrecv(out, sizeof out, MPI_CHAR, (rank + 1) % size, 0, in, sizeof in, MPI_CHAR, (rank + size - 1) % size, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        if (in[0] != (rank + size - 1) % size) MPI_Abort(MPI_COMM_WORLD, 1);
        go = MPI_Wtime() < end;
        MPI_Bcast(&go, 1, MPI_INT, 0, MPI_COMM_WORLD);
        turns++;
    }
    printf("turns %ld\n", turns);
    MPI_Finalize();
    return 0;
}
"""
UCX = ["--mca", "pml", "ucx", "--mca", "osc", "ucx"]
OB1 = ["--mca", "pml", "ob1", "--mca", "btl", "tcp,self", "--mca", "btl_tcp_if_include", "lo"]
UCX_ANY = [*UCX, "--mca", "pml_ucx_tls", "any", "--mca", "pml_ucx_devices", "any"]
"""Without the last two Open MPI takes pml ucx for HCAs alone."""
JOBS = {"verbs": ["host-0001", "host-0006"], "fallback": ["host-0003", "host-0008"]}
SECONDS = 16


@pytest.fixture(scope="module")
def fabric(stock):
    verbs_library()
    stock("mpirun")
    stock("mpicc")
    patch = pytest.MonkeyPatch()
    folder = scratch("offhcas-", memory=True)
    folder.chmod(0o700)
    patch.setenv("XDG_RUNTIME_DIR", str(folder))
    (folder / "ring.c").write_text(RING)
    subprocess.run(["mpicc", "-O1", "-o", folder / "ring", folder / "ring.c"], check=True)
    with softib.up(softib.generate("fat-tree", radix=8, levels=2, hosts=16), name="offhcas") as f:
        f.ring = folder / "ring"
        yield f
    patch.undo()


def mpirun(fabric, job: str, options: list[str], **env: str) -> subprocess.Popen[str]:
    command = ["mpirun", "--allow-run-as-root", "--oversubscribe", *options]
    for i, host in enumerate(JOBS[job]):
        on = [sys.executable, "-m", "softib", "run", "--fabric", fabric.name, "--node", host, "--"]
        command += [*([":"] if i else []), "-np", "1", *on, str(fabric.ring), str(SECONDS)]
    return subprocess.Popen(
        command,
        env={**os.environ, **env},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


def found_while(fabric, programs: list[subprocess.Popen[str]]):
    """Findings while the jobs run; all end well."""
    try:
        time.sleep(5)
        seen = softib.observe(fabric, rounds=4, every=1.5)
        found = softib.diagnose(seen, fabric, jobs=JOBS, thresholds={"job_observed": 2}).of("job-off-hcas")
        for p in programs:
            output = p.communicate(timeout=120)[0]
            assert p.returncode == 0 and output.count("turns") == 2, output
            assert min(int(x) for x in output.split() if x.isdigit()) > 100, "it communicates"
        return found
    finally:
        for p in programs:
            if p.poll() is None:
                os.killpg(p.pid, signal.SIGKILL)
                p.wait()


@pytest.mark.parametrize(
    ("options", "environment", "because"),
    [
        (OB1, {}, {"OMPI_MCA_pml=ob1", "OMPI_MCA_btl=tcp,self"}),
        (UCX_ANY, {"UCX_TLS": "tcp,self", "UCX_NET_DEVICES": "lo"}, {"UCX_TLS=tcp,self", "UCX_NET_DEVICES=lo"}),
        (OB1, {"NCCL_IB_DISABLE": "1"}, {"OMPI_MCA_pml=ob1", "OMPI_MCA_btl=tcp,self", "NCCL_IB_DISABLE=1"}),
    ],
    ids=["btl tcp", "UCX_TLS=tcp", "NCCL_IB_DISABLE"],
)
def test_mpirun_over_tcp_is_named_with_the_reason_and_over_verbs_is_not(fabric, options, environment, because):
    found = found_while(fabric, [mpirun(fabric, "verbs", UCX), mpirun(fabric, "fallback", options, **environment)])
    assert [f.evidence["job"] for f in found] == ["fallback"]
    assert set(found[0].evidence["environment"]) == because
    told = found[0].evidence["environment"][min(because)]
    assert {x.partition(":")[0] for x in told} == set(JOBS["fallback"]) and any(": ring (" in x for x in told)
    assert all(b in found[0].message for b in because)


def test_two_jobs_over_verbs_are_not_named_whatever_their_environment_says(fabric):
    """A variable accuses nobody: NCCL's is left in a script whose program is MPI's."""
    assert not found_while(fabric, [mpirun(fabric, "verbs", UCX), mpirun(fabric, "fallback", UCX, NCCL_IB_DISABLE="1")])
