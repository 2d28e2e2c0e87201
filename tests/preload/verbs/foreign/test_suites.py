"""Programs of foreign suites between two nodes: fabtests, OSU's and Intel's MPI benchmarks, mpi4py's own suite, iperf3 over rsockets.

Debian has none of the first four, so each test skips where its program is not found: on PATH, or below the folder ``$SOFTIB_SUITES``
(``bin``, ``lib``, ``mpi4py/test``: docs/verbs.md says how to fill it). The counts of whole suites are there too.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.preload.verbs.applications import A, B
from tests.preload.verbs.foreign.mpi_launcher import mpirun

pytestmark = [pytest.mark.stock, pytest.mark.slow]

SUITES = Path(os.environ.get("SOFTIB_SUITES", "/nonexistent"))


def suite(name: str) -> str:
    """The path of a suite's program, or of a folder or library of it; skips where it is absent."""
    found = shutil.which(name, path=f"{os.environ.get('PATH', '')}:{SUITES / 'bin'}")
    if found is None and (SUITES / name).exists():
        found = str(SUITES / name)
    return found or pytest.skip(f"{name} is not on PATH, nor below $SOFTIB_SUITES")


FABTESTS = [
    (provider, line) for provider, lines in {
        "verbs": ("fi_msg_pingpong -v", "fi_msg_bw -v", "fi_rma_bw -e msg -o writedata", "fi_cq_data -e msg", "fi_cm_data"),
        "verbs;ofi_rxd": ("fi_rma_bw -e rdm -o write", "fi_rma_bw -e rdm -o writedata", "fi_rma_bw -e rdm -o read -U",
                          "fi_rdm_tagged_bw -v -U", "fi_rdm_atomic -o all"),
        "verbs;ofi_rxm": ("fi_rma_bw -e rdm -o writedata", "fi_rdm_tagged_bw -v -U", "fi_rdm_pingpong -v", "fi_unexpected_msg -e rdm",
                          "fi_cq_data -e rdm"),
    }.items() for line in lines
]  # fmt: skip # a table, its columns aligned


@pytest.mark.parametrize(("provider", "line"), FABTESTS)
def test_fabtests(apps, provider, line):
    """With the data verified where the program can; a message that is lost with its endpoint leaves the other end waiting."""
    name, *options = line.split()
    count = () if name in ("fi_cq_data", "fi_cm_data") else ("-I", "5")
    port = next(apps.ports)
    words = (suite(name), *options, *count, "-p", provider)
    if name == "fi_cm_data":  # its ends agree over TCP what comes next
        manage = ("-q", str(port))
        said = apps.pair((*words, *manage, "-s", apps.address(A)), (*words, *manage, apps.address(A)), tcp=port)
    elif provider == "verbs":  # by rdma_cm
        said = apps.pair((*words, "-s", apps.address(A), "-B", str(port)), (*words, "-P", str(port), apps.address(A)))
    else:
        words = (*words, f"-E={port}")
        said = apps.pair((*words, "-s", apps.address(A)), (*words, "-s", apps.address(B), apps.address(A)), tcp=port)
    assert not re.search(r"fi_\w+\(\): .*(error|, -?\d+ \()", "".join(said), re.I), said


OSU = [
    "osu_latency",
    "osu_bw",
    "osu_bibw",
    "osu_put_bw",
    "osu_get_latency",
    "osu_acc_latency",
    "osu_allreduce",
    "osu_alltoallv",
    "osu_ibcast",
    "osu_iallgather",
]


@pytest.mark.parametrize("name", OSU)
def test_osu(apps, stock, name):
    """A result for every size to 64 KB at least, and as many octets on the sender's port. These options every version has."""
    program, before = suite(name), apps.counters(A)["PortXmitData"]
    said = mpirun(apps, stock, 1, program, "-i", "20", "-x", "5")
    sizes = [int(size) for size in re.findall(r"^(\d+) +[\d.]+", said, re.M)]
    assert {4 << n for n in range(15)} <= set(sizes) and sizes == sorted(sizes), said
    assert (apps.counters(A)["PortXmitData"] - before) * 4 > 5 * sum(sizes)


@pytest.mark.parametrize(
    "line", ["IMB-MPI1 PingPong Allreduce Alltoall", "IMB-P2P Birandom", "IMB-NBC Ibcast", "IMB-RMA Unidir_put"]
)
def test_imb(apps, stock, line):
    name, *which = line.split()
    said = mpirun(
        apps, stock, 1, suite(name), *which, "-msglog", "12:16", *(("-iter", "20") if name != "IMB-P2P" else ())
    )
    assert re.findall(r"^# Benchmarking:? (\w+)", said, re.M | re.I) == which, said
    assert "All processes entering MPI_Finalize" in said


MODULES = ["test_p2p_buf", "test_cco_buf", "test_cco_nb_buf", "test_rma", "test_datatype", "test_comm"]


@pytest.mark.parametrize("module", MODULES)
def test_mpi4py_suite(apps, stock, module):
    """mpi4py 3.1's own tests on two nodes; those that the suite skips by itself are not failures."""
    more = SUITES / "python"  # an mpi4py that is not installed
    if subprocess.run(
        ["/usr/bin/python3", "-c", "import mpi4py"], env={"PYTHONPATH": str(more)}, capture_output=True
    ).returncode:
        pytest.skip("python3-mpi4py is not installed")
    runner = f"{suite('mpi4py')}/test/runtests.py"
    said = mpirun(
        apps, stock, 1, "/usr/bin/python3", runner, "-q", "--no-builddir", "--path", str(more), "-i", f"^{module}$"
    )
    assert len(re.findall(r"^OK", said, re.M)) == 2 and all(int(n) for n in re.findall(r"Ran (\d+) test", said)), said


def test_iperf3_over_rsockets(apps, stock):
    """Debian 12's librspreload.so cannot: its select() marks descriptors that the program does not have (mended in rdma-core in 2024)."""
    library, port = suite("lib/librspreload.so"), str(next(apps.ports))
    preload = ("sh", "-c", f'LD_PRELOAD="{library} $LD_PRELOAD" exec "$@"', "sh", stock("iperf3"), "-p", port)
    before = apps.counters(B)["PortXmitData"]
    _, said = apps.pair((*preload, "-s", "-1", "-B", apps.address(A)), (*preload, "-c", apps.address(A), "-n", "64M"))
    assert re.search(r"sender\s*$", said, re.M), said
    assert (apps.counters(B)["PortXmitData"] - before) * 4 > 64 << 20
