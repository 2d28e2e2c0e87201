"""OpenMPI and MPICH over UCX over verbs: ranks on two nodes of the fabric, data checked."""

from __future__ import annotations

import re
import subprocess

import pytest

from tests.preload.verbs.applications import A, B
from tests.preload.verbs.foreign.mpi_launcher import mpirun

pytestmark = pytest.mark.stock

RING = """
from array import array
from mpi4py import MPI
c = MPI.COMM_WORLD
r, n = c.Get_rank(), c.Get_size()
for size in (1, 1000, 100000):
    a, b = array("d", [r]) * size, array("d", [0]) * size
    c.Sendrecv(a, (r + 1) % n, 0, b, (r - 1) % n, 0)
    assert set(b) == {(r - 1) % n}
    c.Allreduce(a, b)
    assert set(b) == {n * (n - 1) / 2}
assert c.allgather(r) == list(range(n))
print(f"right {r}\\n", end="")
"""


def test_four_ranks_on_two_nodes(apps, stock):
    if subprocess.run(["/usr/bin/python3", "-c", "import mpi4py"], capture_output=True).returncode:
        pytest.skip("python3-mpi4py is not installed")
    before = apps.counters(A)["PortXmitData"]
    output = mpirun(apps, stock, 2, "/usr/bin/python3", "-c", RING)
    assert sorted(re.findall(r"right (\d)", output)) == list("0123")
    assert (apps.counters(A)["PortXmitData"] - before) * 4 > 2 * 800_000, "it went over the fabric"


FORKS = r"""
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int main(int n, char **arguments)
{
    long rank, got = -1;
    int me;

    MPI_Init(&n, &arguments);
    MPI_Comm_rank(MPI_COMM_WORLD, &me);
    rank = me;
    for (int i = 0; i < 2; i++)
        if (!fork()) {
            sleep(1);
            exit(0); /* with the destructors of UCX */
        }
    for (long i = 0; i < 1000; i++) {
        long mine = rank + 2 * i;

        MPI_Sendrecv(&mine, 1, MPI_LONG, 1 - me, 0, &got, 1, MPI_LONG, 1 - me, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        if (got != 1 - rank + 2 * i)
            return 4;
    }
    printf("right %d\n", me);
    MPI_Finalize();
    return 0;
}
"""


@pytest.mark.slow
def test_ranks_of_mpich_that_fork_go_on(apps, stock, tmp_path):
    """As osu_latency_mp forks, while UCX's own thread registers memory: the one waited for the other."""
    (tmp_path / "forks.c").write_text(FORKS)
    subprocess.run([stock("mpicc.mpich"), "-o", tmp_path / "forks", tmp_path / "forks.c"], check=True)
    command = [
        stock("mpirun.mpich"),
        "-np",
        "1",
        *apps.on(A, str(tmp_path / "forks")),
        ":",
        "-np",
        "1",
        *apps.on(B, str(tmp_path / "forks")),
    ]
    done = subprocess.run(command, env=apps.env, cwd=apps.folder, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    assert sorted(re.findall(r"right (\d)", done.stdout)) == list("01")


@pytest.mark.slow
def test_netpipe(apps, stock):
    output = mpirun(apps, stock, 1, stock("NPopenmpi"), "-u", "65536", limit_s=240)
    rows = re.findall(r"^ *\d+: +(\d+) bytes +\d+ times --> +([\d.]+) Mbps", output, re.M)
    assert int(rows[-1][0]) >= 65536 and float(rows[-1][1]) > 1000


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_hpcc(apps, stock, tmp_path):
    """The HPC Challenge's own checks of its results: HPL, PTRANS, RandomAccess, FFT over four ranks."""
    stock("hpcc")
    (tmp_path / "hpccinf.txt").write_text(HPCC)
    mpirun(apps, stock, 2, stock("hpcc"), limit_s=360, folder=tmp_path)
    out = (tmp_path / "hpccoutf.txt").read_text()
    assert "Success=1" in out and "FAILED" not in out, out[-3000:]
    assert re.search(r"1 tests completed and passed residual checks", out)


HPCC = """HPLinpack benchmark input file
Innovative Computing Laboratory, University of Tennessee
HPL.out
8
1
500
1
64
0
1
2
2
16.0
1
2
1
4
1
2
1
1
1
0
1
0
1
0
2
64
0
0
1
8
##### This line (no. 32) is ignored (it serves as a separator). ######
0
1200 10000 30000
0
40 9 8 13 13 20 16 32 64
"""
