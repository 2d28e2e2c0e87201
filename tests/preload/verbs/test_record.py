"""``softib run --record`` with stock programs: what they say they sent is in the schedule, and its replay sends just that."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

import softib
from softib.workloads.schedule.schedule import Kind, Schedule, matched
from softib.workloads.traces.forms import read_trace
from tests.preload.verbs.applications import A, Applications, B

pytestmark = pytest.mark.stock

MPI = """
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
int main(int argc, char **argv)
{
    int rank, ranks, rounds = atoi(argv[1]), size = atoi(argv[2]);
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    char *a = calloc(1, size), *b = calloc(1, size);
    MPI_Barrier(MPI_COMM_WORLD);
    double began = MPI_Wtime();
    for (int i = 0; i < rounds; i++) {
        memset(a, rank + i, size);
        MPI_Sendrecv(a, size, MPI_CHAR, (rank + 1) % ranks, 0, b, size, MPI_CHAR, (rank + ranks - 1) % ranks, 0, MPI_COMM_WORLD,
                     MPI_STATUS_IGNORE);
        if (b[size - 1] != (char)((rank + ranks - 1) % ranks + i))
            MPI_Abort(MPI_COMM_WORLD, 3);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0)
        printf("took %.6f s\\n", MPI_Wtime() - began);
    MPI_Finalize();
    return 0;
}
"""
MPIRUN = ("mpirun", "--allow-run-as-root", "--oversubscribe", "--mca", "mpi_yield_when_idle", "1", "-np", "4")


def mpi_program(folder: Path) -> Path:
    if shutil.which("mpicc") is None or shutil.which("mpirun") is None:
        pytest.skip("no Open MPI (mpicc, mpirun) here")
    source = folder / "ring.c"
    source.write_text(MPI)
    subprocess.run(["mpicc", "-O2", source, "-o", folder / "ring"], check=True)
    return folder / "ring"


def recorded(apps: Applications, name: str, script: str) -> tuple[Schedule, str]:
    """The schedule of the shell's ``script`` under one recording, and what was said."""
    done = subprocess.run(
        apps.arguments("run", "--record", name, "--", "env", "-u", "PYTHONPATH", "sh", "-c", script),
        env=apps.env,
        cwd=apps.folder,
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert not list(apps.folder.glob("*.parts")), "the threads' files are gone"
    return read_trace(apps.folder / name), done.stdout + done.stderr


def on(apps: Applications, node: str, command: str) -> str:
    quoted = " ".join(f"'{w}'" for w in apps.arguments("run", "--node", node, "--"))
    return f"PYTHONPATH={apps.env['PYTHONPATH']} {quoted} {command}"


def replayed(path: Path) -> softib.Simulation:
    found = softib.simulate(softib.generate("fat-tree", radix=4, levels=2), str(path))
    assert found.good
    return found


@pytest.mark.parametrize(
    ("program", "opcode", "size"),
    [
        pytest.param("ib_send_bw", "send", 4096, marks=pytest.mark.slow),
        pytest.param("ib_read_bw", "read", 65536, marks=pytest.mark.slow),
        ("ib_write_lat", "write", 64),
    ],
)
def test_perftest_s_messages_are_in_the_schedule_and_in_its_replay(apps, stock, program, opcode, size):
    stock(program)
    n, port = 500, next(apps.ports)
    line = f"{program} -n {n} -s {size} -p {port} -F"
    wait = f"until grep -q :{port:04X} /proc/net/tcp; do sleep 0.05; done"
    s, said = recorded(apps, f"{program}.goal", f"{on(apps, A, line)} & {wait}; {on(apps, B, line)} 127.0.0.1; wait")
    matched(s)
    sends = s.kind == Kind.SEND
    carried = sends & (s.size == size)
    both = 2 if opcode == "write" else 1
    assert int(carried.sum()) == both * n, said
    assert s.octets == both * n * size + int(s.size[sends & ~carried].sum())
    if opcode == "read":
        assert int((sends & (s.size == 0)).sum()) == n, "a request for each"
    found = replayed(apps.folder / f"{program}.goal")
    table = found.messages.filter(found.messages["source"] != found.messages["destination"])
    assert len(table) == int(sends.sum())
    assert table["size"].sum() == int(np.maximum(s.size[sends], 1).sum()), "an empty request is one octet there"
    if opcode == "write":  # each waits for the one before: no two are under way
        by_time = table.sort("began_us")
        assert (by_time["began_us"].to_numpy()[1:] >= by_time["arrived_us"].to_numpy()[:-1] - 1e-6).all()


@pytest.mark.slow
def test_four_ranks_of_openmpi_record_together(apps, stock):
    """Each rank under its own ``softib run``, as mpirun starts them; the ring's octets are there, twice as many with twice the rounds."""
    stock("mpirun")
    program, size = mpi_program(apps.folder), 20000
    octets = {}
    for rounds in (5, 10):
        name = f"ring-{rounds}.goal"
        command = [
            *MPIRUN,
            *apps.arguments("run", "--record", name, "--"),
            "env",
            "-u",
            "PYTHONPATH",
            str(program),
            str(rounds),
            str(size),
        ]
        done = subprocess.run(command, env=apps.env, cwd=apps.folder, capture_output=True, text=True, timeout=240)
        assert done.returncode == 0, done.stdout + done.stderr
        assert len(re.findall("messages of 4 ranks", done.stderr)) == 1
        s = read_trace(apps.folder / name)
        matched(s)
        octets[rounds] = s.octets
    assert s.ranks == 4
    payload = 5 * 4 * size
    assert payload <= octets[10] - octets[5] <= 1.1 * payload, "the rest are UCX's headers"
    found = replayed(apps.folder / "ring-10.goal")
    assert found.messages.filter(found.messages["source"] != found.messages["destination"])["size"].sum() >= s.octets


def test_what_cannot_be_recorded_is_one_line(apps, tmp_path):
    for arguments, line in (
        (("--record", "x.txt"), "x.txt: the suffix of a recording must be"),
        (("--record", "/nowhere/x.goal"), "there is no folder /nowhere"),
        (("--record", "x.goal", "--stock-preload"), "leave out --stock-preload"),
    ):
        done = subprocess.run(
            apps.arguments("run", *arguments, "--", "true"), env=apps.env, cwd=tmp_path, capture_output=True, text=True
        )
        assert done.returncode == 2 and line in done.stderr and "Traceback" not in done.stderr
    done = subprocess.run(
        apps.arguments("run", "--record", "x.goal", "--", "true"),
        env=apps.env,
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 2 and "nothing was recorded: no program created a queue pair" in done.stderr
    assert not list(tmp_path.iterdir())


COLLECTIVES = """
#include <mpi.h>
#include <stdlib.h>
int main(int argc, char **argv)
{
    int rank, size = 5000;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    double *a = calloc(size, 8), *b = calloc(4 * size, 8);
    for (int i = 0; i < 3; i++)
        MPI_Allreduce(a, b, size, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    MPI_Allgather(a, size, MPI_DOUBLE, b, size, MPI_DOUBLE, MPI_COMM_WORLD);
    MPI_Finalize();
    return 0;
}
"""


def between(text: str, name: str) -> list[list[int]]:
    """Octets of the sends (0: of requests to READ) between begin and end of each collective ``name``, of all ranks."""
    found = []
    for part in re.findall(rf"// begin {name}\b.*?// end {name}\n", text, re.DOTALL):
        assert "rank" not in part, "a collective begins and ends in one rank"
        found.append([*map(int, re.findall(r": send (\d+)b", part))])
    return found


@pytest.mark.slow
@pytest.mark.parametrize("launcher", ["openmpi", "mpich"])
def test_messages_stand_in_their_collectives(apps, stock, launcher):
    """Four ranks: three all-reduces of 40,000 octets (each rank sends at least 3/2 of them, by any algorithm) and an all-gather."""
    if shutil.which(f"mpicc.{launcher}") is None:
        pytest.skip(f"no {launcher} here")
    (apps.folder / "c.c").write_text(COLLECTIVES)
    program = apps.folder / f"c-{launcher}"
    subprocess.run([f"mpicc.{launcher}", "-O2", apps.folder / "c.c", "-o", program], check=True)
    run = MPIRUN if launcher == "openmpi" else (f"mpirun.{launcher}", "-np", "4")
    name = f"c-{launcher}.goal"
    command = [*run, *apps.arguments("run", "--record", name, "--"), "env", "-u", "PYTHONPATH", str(program)]
    done = subprocess.run(command, env=apps.env, cwd=apps.folder, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stdout + done.stderr
    text = (apps.folder / name).read_text()
    matched(read_trace(apps.folder / name))
    assert text.count("// begin MPI_Allreduce 40000\n") == 12 == text.count("// end MPI_Allreduce\n")
    assert text.count("// begin MPI_Allgather 40000\n") == 4
    for octets in (*between(text, "MPI_Allreduce"), *between(text, "MPI_Allgather")):
        assert sum(octets) >= 40_000 or 0 in octets, "its vector leaves the rank, by itself or READ by another"


FAILS = """
#include <mpi.h>
#include <signal.h>
#include <unistd.h>
int main(int argc, char **argv)
{
    static char a[50000], b[50000];
    int rank, ranks;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    for (int i = 0; i < 20; i++) {
        MPI_Sendrecv(a, sizeof a, MPI_CHAR, (rank + 1) % ranks, 0, b, sizeof b, MPI_CHAR, (rank + ranks - 1) % ranks, 0, MPI_COMM_WORLD,
                     MPI_STATUS_IGNORE);
        if (i == 10 && rank == 1)
            kill(getpid(), SIGKILL);
    }
    MPI_Finalize();
    return 0;
}
"""


@pytest.mark.slow
def test_what_a_killed_rank_and_its_neighbours_did_is_recorded_and_said(apps):
    """mpirun around softib run: rank 1 dies in round 11, and the launcher ends the others. Ten rounds of three ranks are there, and they replay."""
    mpi_program(apps.folder)
    (apps.folder / "fails.c").write_text(FAILS)
    subprocess.run(["mpicc", "-O1", apps.folder / "fails.c", "-o", apps.folder / "fails"], check=True)
    left = apps.folder / "fails.goal.999999999.parts"
    left.mkdir()
    done = subprocess.run(
        [*MPIRUN[:-1], "3", *apps.arguments("run", "--record", "fails.goal", "--"), apps.folder / "fails"],
        env=apps.env,
        cwd=apps.folder,
        capture_output=True,
        text=True,
        timeout=240,
    )
    said = [line for line in done.stderr.splitlines() if "fails.goal" in line]
    assert done.returncode == 137
    assert len(said) == 1 and said[0].endswith("rank 1 of 3 was ended by SIGKILL: what all ranks had done until then")
    made = read_trace(apps.folder / "fails.goal")
    assert made.octets >= 10 * 3 * 50_000
    assert replayed(apps.folder / "fails.goal").good
    assert not left.exists()


SLEEPS = """
#include <mpi.h>
#include <unistd.h>
int main(int argc, char **argv)
{
    double a = 0, b;
    MPI_Init(&argc, &argv);
    for (int i = 0; i < 5; i++) {
        if (argc > 1)
            usleep(100000);
        MPI_Allreduce(&a, &b, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    }
    MPI_Finalize();
    return 0;
}
"""


@pytest.mark.slow
def test_time_without_a_processor_is_said(apps):
    """Five times 0.1 s asleep are in no computation and no message; a program that does not sleep has nothing of the kind."""
    mpi_program(apps.folder)
    (apps.folder / "sleeps.c").write_text(SLEEPS)
    subprocess.run(["mpicc", "-O1", apps.folder / "sleeps.c", "-o", apps.folder / "sleeps"], check=True)
    command = [*MPIRUN[:-1], "2", *apps.arguments("run", "--record", "sleeps.goal", "--"), apps.folder / "sleeps"]
    said = []
    for more in ([], ["yes"]):
        done = subprocess.run(
            [*command, *more], env=apps.env, cwd=apps.folder, capture_output=True, text=True, timeout=240
        )
        assert done.returncode == 0, done.stderr
        said.append(next(line for line in done.stderr.splitlines() if "sleeps.goal" in line))
    assert "not in it" not in said[0]
    assert re.search(r"not in it: 0\.[4-9] s in which rank [01] slept", said[1])
