"""Programs of others over rdma_cm and verbs, between two nodes: qperf, fio's rdma engine, QEMU's migration, MPICH."""

from __future__ import annotations

import json
import re
import shutil
import socket
import subprocess
import threading
import time
from pathlib import Path

import pytest

from tests.preload.verbs.applications import A, B, ended, stop, wait_for_listener

pytestmark = [pytest.mark.stock, pytest.mark.slow]

QPERF = (
    "rc_lat",
    "rc_bw",
    "rc_bi_bw",
    "uc_lat",
    "ud_lat",
    "ud_bw",
    "rc_rdma_read_bw",
    "rc_rdma_write_poll_lat",
    "uc_rdma_write_lat",
    "rc_fetch_add_mr",
    "ver_rc_compare_swap",
    "ver_rc_fetch_add",
)


@pytest.fixture(scope="module")
def qperf(apps, stock):
    port = next(apps.ports)
    server = apps.begin(A, stock("qperf"), "-lp", str(port))
    wait_for_listener(port, server)
    yield port
    stop(server)


@pytest.mark.parametrize("test", QPERF)
def test_qperf(apps, stock, qperf, test):
    """``ver_*`` compare what the atomics did with what they must have done."""
    words = apps.on(B, stock("qperf"), "-lp", str(qperf), "-t", "1", "127.0.0.1", test)
    done = subprocess.run(words, env=apps.env, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0 and re.search(r"(latency|bw|msg_rate) += +[\d.]+ ", done.stdout), done


FIO = """[global]
ioengine=rdma
port={port}
bs=64k
size={size}
iodepth={depth}
[one]
rw={rw}
{more}
"""


@pytest.mark.parametrize("verb", ["write", "read", "send"])
def test_fio(apps, stock, verb):
    """fio asks for no RNR retries and says itself that a receiver can be late (engines/rdma.c): of sends there are no more than
    receives that are posted from the start."""
    port, size = next(apps.ports), "2m" if verb == "send" else "16m"
    ends = {"server": ("read", 64, "verb=recv"), "client": ("write", 4, f"verb={verb}\nhostname={apps.address(A)}")}
    for name, (rw, depth, more) in ends.items():
        (apps.folder / f"{name}.fio").write_text(FIO.format(port=port, depth=depth, rw=rw, more=more, size=size))
    server = apps.begin(A, stock("fio"), "server.fio")
    try:
        time.sleep(3)  # nothing tells that it listens
        said = ended(server, apps.begin(B, stock("fio"), "client.fio"), 120)
        assert all(re.search(r"err= 0", one) for one in said), said
    finally:
        stop(server)


class Monitor:
    """QEMU's, by its machine protocol (QMP)."""

    def __init__(self, path: Path, program: subprocess.Popen):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(60)
        end = time.monotonic() + 60
        while True:
            try:
                self.sock.connect(str(path))
                break
            except OSError:
                assert time.monotonic() < end and program.poll() is None, "QEMU did not start"
                time.sleep(0.1)
        self.lines = self.sock.makefile("rw")
        self.lines.readline()
        self("qmp_capabilities")

    def __call__(self, command: str, **arguments: object) -> dict:
        print(json.dumps({"execute": command, "arguments": arguments}), file=self.lines, flush=True)
        while True:
            answer = json.loads(self.lines.readline())
            assert "error" not in answer, answer
            if "return" in answer:
                return answer["return"]

    def until_over(self) -> str:
        end = time.monotonic() + 120
        while (now := self("query-migrate").get("status")) not in ("completed", "failed") and time.monotonic() < end:
            time.sleep(0.1)
        return str(now)


@pytest.mark.parametrize("pin", [False, True], ids=["chunks", "rdma-pin-all"])
def test_qemu_migrates_a_guest(apps, stock, tmp_path, pin):
    """A machine without disk or display, emulated. Its destination reads a CM event before it takes its last completion where
    it can, and gives up then."""
    guest = (
        stock("qemu-system-x86_64"),
        "-machine",
        "isapc",
        "-accel",
        "tcg",
        "-nodefaults",
        "-display",
        "none",
        "-m",
        "64",
    )
    port, paths = next(apps.ports), {node: apps.folder / f"qmp-{node}" for node in (A, B)}
    programs = {
        node: apps.begin(node, *guest, *more, "-qmp", f"unix:{paths[node]},server=on,wait=off")
        for node, more in ((A, ()), (B, ("-incoming", "defer")))
    }
    # What they say is read while they run: a full pipe would stop them.
    said: dict[str, str] = {}
    readers = [
        threading.Thread(target=lambda n=n, p=p: said.update({n: p.stdout.read()}), daemon=True)
        for n, p in programs.items()
    ]
    for reader in readers:
        reader.start()
    try:
        source, destination = (Monitor(paths[node], programs[node]) for node in (A, B))
        for one in (source, destination):
            one("migrate-set-capabilities", capabilities=[{"capability": "rdma-pin-all", "state": pin}])
        uri = f"rdma:{apps.address(B)}:{port}"
        destination("migrate-incoming", uri=uri)
        source("migrate", uri=uri)
        assert source.until_over() == "completed"
        assert destination.until_over() == "completed"
        assert destination("query-status")["status"] == "running"
        for one in (source, destination):
            one("quit")
        assert [program.wait(60) for program in programs.values()] == [0, 0]
        for reader in readers:
            reader.join(10)
        assert "error" not in said[B].lower(), said[B]
    finally:
        for program in programs.values():
            stop(program)


RING = r"""
#include <mpi.h>
#include <stdio.h>
static double a[100000], b[100000];
int main(int argc, char **argv)
{
    int r, n;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &r);
    MPI_Comm_size(MPI_COMM_WORLD, &n);
    for (int size = 1; size <= 100000; size *= 10) {
        for (int i = 0; i < size; i++)
            a[i] = r + i;
        MPI_Sendrecv(a, size, MPI_DOUBLE, (r + 1) % n, 0, b, size, MPI_DOUBLE, (r + n - 1) % n, 0, MPI_COMM_WORLD,
                     MPI_STATUS_IGNORE);
        for (int i = 0; i < size; i++)
            if (b[i] != (r + n - 1) % n + i)
                MPI_Abort(MPI_COMM_WORLD, 1);
        MPI_Allreduce(a, b, size, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
        for (int i = 0; i < size; i++)
            if (b[i] != n * (n - 1) / 2 + n * i)
                MPI_Abort(MPI_COMM_WORLD, 2);
    }
    printf("right %d\n", r);
    return MPI_Finalize();
}
"""


def test_mpich(apps, stock, tmp_path):
    """Its ranks speak to their launcher on a descriptor that they inherit (PMI_FD)."""
    if not shutil.which("mpicc.mpich"):
        pytest.skip("mpich is not installed")
    (tmp_path / "ring.c").write_text(RING)
    ring = str(tmp_path / "ring")
    subprocess.run(["mpicc.mpich", "-o", ring, str(tmp_path / "ring.c")], check=True)
    before = apps.counters(A)["PortXmitData"]
    env = {"UCX_TLS": "rc_v,ud_v,self", "UCX_NET_DEVICES": "mlx5_0:1", "MPIR_CVAR_NOLOCAL": "1"}
    command = ["mpiexec.mpich", "-n", "2", *apps.on(A, ring), ":", "-n", "2", *apps.on(B, ring)]
    done = subprocess.run(command, env={**apps.env, **env}, cwd=tmp_path, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stdout + done.stderr
    assert sorted(re.findall(r"right (\d)", done.stdout)) == list("0123")
    assert (apps.counters(A)["PortXmitData"] - before) * 4 > 2 * 800_000, "it went over the fabric"
