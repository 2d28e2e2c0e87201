"""A full file system below the fabric (a container's /dev/shm): errors of calls, never SIGBUS of a program or the daemon."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.preload.verbs.applications import FABRIC, SOURCE, verbs_library
from tests.preload.verbs.c_programs import program
from tests.scratch import scratch

SCENES = Path(__file__).with_name("full_memory.py")
NAMESPACE = ["unshare", "-m"] if os.geteuid() == 0 else ["unshare", "-U", "-r", "-m"]
KINDS = ("cq", "qp", "srq", "mw", "mr")


def permitted() -> bool:
    if shutil.which("unshare") is None:
        return False
    return subprocess.run([*NAMESPACE, "true"], capture_output=True).returncode == 0


pytestmark = pytest.mark.skipif(not permitted(), reason="this machine permits no mount namespace")


def played(size: str, scene: str, words: str) -> dict:
    verbs_library()
    folder = scratch("softib-full-")
    folder.with_suffix(".yaml").write_text(FABRIC)
    try:
        done = subprocess.run(
            [*NAMESPACE, sys.executable, str(SCENES), str(folder), size, scene, words],
            env={**os.environ, "PYTHONPATH": str(SOURCE)},
            capture_output=True,
            text=True,
            timeout=500,
        )
    finally:
        folder.with_suffix(".yaml").unlink()
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout)


def check(seen: dict) -> None:
    """No program was killed by a signal (``softib run`` gives 128 + its number), and the daemon is whole."""
    assert {code for code, _ in seen["ends"]} == {0}, seen["ends"]
    assert len(seen["status"]) == 1 and seen["status"][0]["bugs"] == 0 and seen["down"] == 0
    assert seen["status"][0]["verbs"]["programs"] == seen["status"][0]["verbs"]["chunks"] == 0, "all was given back"
    for _, said in seen["ends"]:
        lines = dict(line.split(" ", 1) for line in said.splitlines() if line.split(" ", 1)[0] in KINDS)
        assert set(lines.values()) <= {"ENOMEM"}, said
        assert said.count("no room for more RDMA objects") <= 1, said


def test_eight_programs_make_objects_until_it_is_full():
    seen = played("3m", "many", f"{program('full')} wait")
    check(seen)
    assert "the file system is full; programs get ENOMEM" in seen["log"]
    whole = [said for _, said in seen["ends"] if all(f"{kind} ENOMEM" in said for kind in KINDS)]
    assert whole and any(said.count("send arrived") == 2 for said in whole), "what was made before goes on"


def steps(last: int, by: int) -> str:
    return json.dumps(list(range(0, last, by)))


@pytest.mark.parametrize(
    "scene", [steps(40, 13), pytest.param(steps(60, 1), marks=pytest.mark.slow)], ids=["some", "every page"]
)
def test_a_program_that_begins_when_so_many_pages_are_left(scene):
    """Each page that a program touches in its life is once the one that is not there."""
    seen = played("4m", scene, f"{program('full')} wait")
    check(seen)
    _, free = seen["ends"][0]
    assert all(f"{kind} ENOMEM" in free for kind in KINDS), free


def test_queues_longer_than_their_memory():
    """Of 32,768 receives and 65,536 completions, made where they do not fit and where the room goes later: posting ends with ENOMEM, a CQ with
    IBV_EVENT_CQ_ERR (IBA 11.6.3.1), and with room all arrive."""
    seen = played("12m", "rings", program("rings"))
    check(seen)
    lines = [
        dict(
            line.split(" ", 1)
            for line in said.splitlines()
            if line.split(" ")[0] in ("receives", "shared", "completions")
        )
        for _, said in seen["ends"]
    ]
    assert lines == [
        {"receives": "whole", "shared": "whole", "completions": "whole"},
        {"receives": "ENOMEM", "shared": "ENOMEM", "completions": "CQ error"},
        {"receives": "ENOMEM", "shared": "ENOMEM", "completions": "CQ error"},
        {"receives": "whole", "shared": "whole", "completions": "CQ error"},
    ]


def test_a_program_that_polls_goes_on_in_the_room_that_there_is():
    """Three laps of a CQ of 65,536 completions whose ring got no more memory than its first pages."""
    seen = played("12m", "rings", f"{program('rings')} polls")
    check(seen)
    assert all("completions whole" in said for _, said in seen["ends"]), seen["ends"]


RANK = r"""
#include <mpi.h>
#include <stdio.h>
#include <unistd.h>

int main(int n, char **arguments)
{
    int rank, sum;

    MPI_Init(&n, &arguments);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    rank++;
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 1)
        printf("sum %d\n", sum);
    fflush(stdout);
    while (access(arguments[1], F_OK))
        usleep(100000);
    MPI_Finalize();
    return 0;
}
"""


@pytest.mark.stock
@pytest.mark.parametrize("pairs", [2, pytest.param(60, marks=[pytest.mark.slow, pytest.mark.timeout(900)])])
def test_a_container_holds_120_ranks(tmp_path, stock, pairs):
    """Of OpenMPI over UCX, which makes a CQ of half a million completions, in Docker's default of 64 MB."""
    (tmp_path / "rank.c").write_text(RANK)
    rank = tmp_path / "rank"
    subprocess.run([stock("mpicc.openmpi"), "-o", rank, tmp_path / "rank.c"], check=True)
    mpirun = f"mpirun --allow-run-as-root --oversubscribe --mca pml ucx -np 2 {rank} {tmp_path}/go"
    seen = played("64m", f"ranks {pairs}", mpirun)
    held = json.loads(seen["ends"].pop(0)[1])
    assert held["programs"] == 2 * pairs and [said for _, said in seen["ends"]] == ["sum 3\n"] * pairs
    assert held["octets"] / held["programs"] < held["free"] / (121 - held["programs"]), "as many more have room"
    check(seen)
