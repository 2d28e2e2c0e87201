"""MPI on a fabric that keeps its links' rates, against what virtual time says of the same messages: latency as osu_latency measures it, and osu_latency itself where it is."""

from __future__ import annotations

import re
import shutil
import subprocess
import time

import pytest

import softib
from tests.preload.verbs.applications import Applications
from tests.preload.verbs.foreign.mpi_launcher import OPTIONS

pytestmark = [pytest.mark.stock, pytest.mark.slow, pytest.mark.timeout(400)]

FABRIC = "name: paced\ngeneration: SDR\ntopology: {kind: fat-tree, radix: 4, levels: 2}\n"
SIZES = (32768, 262144, 1048576)
HALF_ROUND_TRIPS = r"""
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

enum { TRIPS = 61 };

static int by_value(const void *a, const void *b)
{
    return (*(const double *)a > *(const double *)b) - (*(const double *)a < *(const double *)b);
}

int main(int n, char **arguments)
{
    int me;
    MPI_Init(&n, &arguments);
    MPI_Comm_rank(MPI_COMM_WORLD, &me);
    for (int k = 1; k < n; k++) {
        int size = atoi(arguments[k]);
        char *data = calloc(1, size);
        double took[TRIPS];
        for (int i = 0; i < TRIPS; i++) {
            took[i] = MPI_Wtime();
            if (me == 0)
                MPI_Send(data, size, MPI_CHAR, 1, 0, MPI_COMM_WORLD);
            MPI_Recv(data, size, MPI_CHAR, 1 - me, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            if (me == 1)
                MPI_Send(data, size, MPI_CHAR, 0, 0, MPI_COMM_WORLD);
            took[i] = (MPI_Wtime() - took[i]) / 2 * 1e6;
        }
        qsort(took, TRIPS, sizeof *took, by_value);
        if (me == 0)
            printf("%d %.2f\n", size, took[TRIPS / 4]);
        free(data);
    }
    MPI_Finalize();
    return 0;
}
"""


@pytest.fixture(scope="module")
def paced():
    """Two hosts whose links have one lane of SDR, 2 Gb/s: the wire is the limit, and not this machine."""
    fabric = Applications(FABRIC, "--pace")
    for host in ("host-0001", "host-0002"):
        subprocess.run(
            fabric.arguments("fault", "downgrade", f"{host}[1]", "--width", "1"),
            env=fabric.env,
            check=True,
            capture_output=True,
        )
    time.sleep(3)  # they train, and the manager sweeps
    yield fabric
    fabric.close()


def rows(paced, *program: str) -> dict[int, float]:
    """Octets and µs that ``program`` prints, on two ranks."""
    on = lambda host: ["-np", "1", *paced.arguments("run", "--node", host, "--", *program)]
    command = ["mpirun", *OPTIONS, "--mca", "mpi_yield_when_idle", "1", *on("host-0001"), ":", *on("host-0002")]
    done = subprocess.run(command, env=paced.env, cwd=paced.folder, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    return {int(size): float(us) for size, us in re.findall(r"^(\d+) +([\d.]+)$", done.stdout, re.M)}


def predicted_us(paced, monkeypatch, size: int) -> float:
    """Half a round trip on the fabric that runs."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(paced.folder))
    return softib.simulate(softib.running(), f"mpi-latency:{size},hosts=0-1").simulated_us / 2


def test_half_round_trips_are_what_virtual_time_says(paced, stock, monkeypatch, tmp_path):
    """± 15 %, the lower quartile of 61: a program that polls on a busy machine loses its processor often, and is never early."""
    (tmp_path / "half.c").write_text(HALF_ROUND_TRIPS)
    subprocess.run([stock("mpicc"), "-O2", "-o", tmp_path / "half", tmp_path / "half.c"], check=True)
    stock("mpirun")
    found = rows(paced, str(tmp_path / "half"), *map(str, SIZES))
    for size in SIZES:
        expected = predicted_us(paced, monkeypatch, size)
        assert 0.97 * expected < found[size] < 1.15 * expected, (size, found[size], expected)


def test_osu_latency(paced, stock, monkeypatch):
    """The OSU micro-benchmarks' own program: every size, and no row faster than the wire; its rows are means, so only the best is compared from above."""
    stock("mpirun")
    if not (program := shutil.which("osu_latency")):
        pytest.skip("osu_latency is not on the path: build the OSU micro-benchmarks with this MPI")
    found = rows(paced, program)
    assert set(found) == {0, *(1 << k for k in range(23))}
    ratio = {size: found[size] / predicted_us(paced, monkeypatch, size) for size in SIZES}
    assert min(ratio.values()) > 0.97 and min(ratio.values()) < 1.15, ratio
