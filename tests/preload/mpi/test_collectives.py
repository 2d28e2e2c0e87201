"""``libsoftib-mpi.so`` between a program and its MPI library: one library for Open MPI and MPICH, every blocking collective passed on and named."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from softib.live.recording import collective_names
from softib.preload import build

SOURCE = Path(__file__).with_name("collectives.c")
OCTETS = {
    "Barrier": 0,
    "Bcast": 64,
    "Reduce": 24,
    "Allreduce": 24,
    "Scan": 24,
    "Exscan": 24,
    "Reduce_scatter": 0,
    "Reduce_scatter_block": 24,
    "Allgather": 24,
    "Allgatherv": 24,
    "Gather": 24,
    "Gatherv": 24,
    "Scatter": 24,
    "Scatterv": 24,
    "Alltoall": 24,
    "Alltoallv": 0,
    "Alltoallw": 0,
}
"""What the calls of ``collectives.c`` say of their sizes, in their order: 3 doubles, 4 pairs; 0 where an array of counts does."""
IN_PLACE = ("Allreduce", "Allgather", "Gather", "Scatter")


def library(folder: Path, *more: str) -> Path:
    if build.compiler() is None:
        pytest.skip("no C compiler")
    return build.compile_mpi(folder / "libsoftib-mpi.so", more)


def output(folder: Path, compiler: str, preload: list[str], **more: str) -> str:
    if shutil.which(compiler) is None:
        pytest.skip(f"no {compiler} here")
    program = folder / "collectives"
    subprocess.run([compiler, "-O1", "-rdynamic", SOURCE, "-o", program], check=True)
    env = {
        **os.environ,
        "LD_PRELOAD": ":".join(preload),
        "OMPI_ALLOW_RUN_AS_ROOT": "1",
        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
        "OMPI_MCA_plm_rsh_agent": "",
        **more,
    }
    done = subprocess.run([program], env=env, cwd=folder, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def said(names: dict[str, int]) -> list[str]:
    """A begin with its octets and an end for each."""
    number = {name: i for i, name in enumerate(collective_names())}
    return [
        line
        for name, octets in names.items()
        for line in (f"{number['MPI_' + name]} {octets} 1", f"{number['MPI_' + name]} 0 0")
    ]


@pytest.mark.stock
@pytest.mark.parametrize("compiler", ["mpicc.openmpi", "mpicc.mpich"])
def test_every_collective_is_passed_on_and_named(tmp_path, compiler):
    lines = output(tmp_path, compiler, [str(library(tmp_path))]).splitlines()
    cut = lines.index("in place")
    assert lines[:cut] == said(OCTETS)
    assert lines[cut + 1 :] == said(dict.fromkeys(IN_PLACE, 16)), (
        "MPI_IN_PLACE: the type beside it is not asked for its size"
    )


@pytest.mark.slow
@pytest.mark.stock
@pytest.mark.parametrize("compiler", ["mpicc.openmpi", "mpicc.mpich"])
def test_under_sanitizers(tmp_path, compiler):
    made = library(tmp_path, "-fsanitize=address,undefined", "-fno-sanitize-recover=all")
    asan = subprocess.run(
        ["gcc", "-print-file-name=libasan.so"], capture_output=True, text=True, check=True
    ).stdout.strip()
    lines = output(tmp_path, compiler, [asan, str(made)], ASAN_OPTIONS="detect_leaks=0").splitlines()
    assert len(lines) == 2 * len(OCTETS) + 1 + 2 * len(IN_PLACE)


@pytest.mark.stock
def test_a_program_without_mpi_is_left_alone(tmp_path):
    done = subprocess.run(
        ["true"], env={**os.environ, "LD_PRELOAD": str(library(tmp_path))}, capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_python_finds_the_library_that_an_extension_loaded(tmp_path):
    """mpi4py: RTLD_NEXT does not see what Python loads."""
    python = "/usr/bin/python3"
    if subprocess.run([python, "-c", "import mpi4py"], capture_output=True).returncode:
        pytest.skip("python3-mpi4py is not installed")
    line = "from mpi4py import MPI; c = MPI.COMM_WORLD; assert c.allreduce(5) == 5; c.Barrier(); print('right')"
    env = {
        **os.environ,
        "LD_PRELOAD": str(library(tmp_path)),
        "OMPI_ALLOW_RUN_AS_ROOT": "1",
        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    }
    done = subprocess.run([python, "-c", line], env=env, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout) == (0, "right\n"), done.stderr
