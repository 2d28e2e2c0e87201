"""Programs of Open MPI, MPICH, mpi4py and torch, in the shape of the OSU benchmarks: recorded on four ranks, and replayed with the same counts and octets for every pair of ranks."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import softib
from softib.errors import InputError
from softib.workloads.schedule.schedule import Kind, matched
from softib.workloads.traces.forms import read_trace

pytestmark = [pytest.mark.stock, pytest.mark.slow]

MPIRUN = ("mpirun", "--allow-run-as-root", "--oversubscribe", "--mca", "mpi_yield_when_idle", "1", "-np", "4")

TORCHRUN = (sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "4", "--no-python")
RUNS = {"mpich": ("mpirun.mpich", "-np", "4"), "torch": TORCHRUN}

PROGRAM = """
#include <mpi.h>
#include <stdlib.h>
#include <string.h>
#define WINDOW 16
int main(int argc, char **argv)
{
    int rank, ranks, rounds = atoi(argv[2]), size = atoi(argv[3]);
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    char *a = calloc(ranks * WINDOW, size), *b = calloc(ranks * WINDOW, size), kind = argv[1][0];
    int peer = rank ^ 1;
    MPI_Barrier(MPI_COMM_WORLD);
    for (int i = 0; i < rounds; i++) {
        MPI_Request r[WINDOW];
        if (kind == 'l' && rank % 2) {
            MPI_Recv(b, size, MPI_CHAR, peer, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            MPI_Send(a, size, MPI_CHAR, peer, 1, MPI_COMM_WORLD);
        } else if (kind == 'l') {
            MPI_Send(a, size, MPI_CHAR, peer, 1, MPI_COMM_WORLD);
            MPI_Recv(b, size, MPI_CHAR, peer, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        } else if (kind == 'w') {
            for (int k = 0; k < WINDOW; k++)
                if (rank % 2)
                    MPI_Irecv(b + (size_t)k * size, size, MPI_CHAR, peer, 2, MPI_COMM_WORLD, r + k);
                else
                    MPI_Isend(a + (size_t)k * size, size, MPI_CHAR, peer, 2, MPI_COMM_WORLD, r + k);
            MPI_Waitall(WINDOW, r, MPI_STATUSES_IGNORE);
            MPI_Barrier(MPI_COMM_WORLD);
        } else if (kind == 'b')
            MPI_Bcast(a, size, MPI_CHAR, 0, MPI_COMM_WORLD);
        else if (kind == 'r')
            MPI_Allreduce(a, b, size / 4, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
        else if (kind == 't')
            MPI_Alltoall(a, size, MPI_CHAR, b, size, MPI_CHAR, MPI_COMM_WORLD);
        else if (kind == 'g')
            MPI_Allgather(a, size, MPI_CHAR, b, size, MPI_CHAR, MPI_COMM_WORLD);
    }
    MPI_Finalize();
    return 0;
}
"""
PYTHON = """
import sys
from mpi4py import MPI
w, rounds, size = MPI.COMM_WORLD, int(sys.argv[2]), int(sys.argv[3])
for i in range(rounds):
    got = w.alltoall([bytes(size)] * w.size)
    assert all(len(g) == size for g in got)
"""
TORCH = """
import sys
import torch
import torch.distributed as dist
import softib.ulp.torch
dist.init_process_group("softib")
data, rounds = torch.ones(int(sys.argv[3]) // 4), int(sys.argv[2])
for i in range(rounds):
    dist.all_reduce(data)
assert data[0].item() == 4.0**rounds
dist.barrier()
dist.destroy_process_group()
"""
LEAST = {"latency": 4.0, "windows": 2 * 16.0, "bcast": 3.0, "reduced": 6.0, "twelve": 12.0, "gather": 12.0}
"""Octets that four ranks send at least in a round, over the size: an all-reduce 2 (n - 1), an all-to-all and an all-gather n (n - 1), a broadcast n - 1."""
CASES = [
    ("openmpi", kind, size)
    for kind, size in (
        ("latency", 2000),
        ("windows", 30_000),
        ("bcast", 20_000),
        ("reduced", 40_000),
        ("twelve", 8000),
        ("gather", 100_000),
    )
]
CASES += [("mpich", kind, size) for kind, size in (("latency", 2000), ("reduced", 40_000), ("twelve", 8000))]
CASES += [("mpi4py", "twelve", 5000), ("torch", "reduced", 400_000)]


def has_pyverbs() -> bool:
    """As the backend finds it: Debian's, too, which no virtual environment looks into."""
    from softib.ulp.torch.verbs import load_pyverbs  # which needs torch

    try:
        return load_pyverbs() is not None
    except InputError:
        return False


def launched(apps, launcher: str, kind: str, size: int) -> list[str]:
    """The command up to the number of rounds."""
    if launcher == "mpi4py":
        if importlib.util.find_spec("mpi4py") is None:
            pytest.skip("no mpi4py here")
        where = str(Path(importlib.util.find_spec("mpi4py").origin).parents[1])  # type: ignore[union-attr, arg-type]
        (apps.folder / "p.py").write_text(f"import sys; sys.path.insert(0, {where!r})" + PYTHON)
        return [sys.executable, str(apps.folder / "p.py")]
    if launcher == "torch":
        if importlib.util.find_spec("torch") is None or not has_pyverbs():
            pytest.skip("no torch or pyverbs here")
        (apps.folder / "t.py").write_text(TORCH)
        return [sys.executable, str(apps.folder / "t.py")]
    if shutil.which(f"mpicc.{launcher}") is None:
        pytest.skip(f"no {launcher} here")
    program = Path(apps.folder) / f"p-{launcher}"
    if not program.exists():
        (apps.folder / "p.c").write_text(PROGRAM)
        subprocess.run([f"mpicc.{launcher}", "-O2", apps.folder / "p.c", "-o", program], check=True)
    return [str(program)]


@pytest.mark.parametrize(("launcher", "kind", "size"), CASES)
def test_replay_has_the_program_s_messages(apps, stock, launcher, kind, size):
    stock("mpirun")
    program = launched(apps, launcher, kind, size)
    run = RUNS.get(launcher, MPIRUN)
    octets = {}
    for rounds in (4, 8):
        name = f"{launcher}-{kind}-{rounds}.goal"
        python = () if launcher in ("mpi4py", "torch") else ("env", "-u", "PYTHONPATH")
        command = [
            *run,
            *apps.arguments("run", "--record", name, "--"),
            *python,
            *program,
            kind,
            str(rounds),
            str(size),
        ]
        done = subprocess.run(command, env=apps.env, cwd=apps.folder, capture_output=True, text=True, timeout=240)
        assert done.returncode == 0, done.stdout + done.stderr
        s = read_trace(apps.folder / name)
        matched(s)
        assert s.ranks == 4
        octets[rounds] = s.octets
    if (
        launcher != "mpich"
    ):  # MPICH hands shared memory what stays on the machine's one host unless ranks are on several
        payload = 4 * LEAST[kind] * size
        assert 0.9 * payload <= octets[8] - octets[4] <= 1.35 * payload
    found = softib.simulate(softib.generate("fat-tree", radix=4, levels=2), str(apps.folder / name))
    assert found.good
    table = found.messages.filter(found.messages["source"] != found.messages["destination"])
    sends = s.kind == Kind.SEND
    pairs = np.zeros((4, 4, 2), np.int64)
    np.add.at(
        pairs,
        (s.rank[sends], s.peer[sends]),
        np.stack([np.ones(int(sends.sum()), np.int64), np.maximum(s.size[sends], 1)], axis=1),
    )
    ends = sorted({*table["source"], *table["destination"]})
    row = {end: k for k, end in enumerate(ends)}
    again = np.zeros_like(pairs)
    for a, b, octets_ in zip(table["source"], table["destination"], table["size"], strict=True):
        again[row[a], row[b]] += (1, octets_)
    assert len(ends) == 4 and (again == pairs).all()
