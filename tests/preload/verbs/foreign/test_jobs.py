"""Jobs as users start them: ``mpirun -np 2 softib run -- ./program`` goes over the HCAs, or the user is told that it did not."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

pytestmark = pytest.mark.stock

PROGRAM = Path(__file__).resolve().parents[4] / "examples" / "mpi_bandwidth.c"
OCTETS = 200 << 20
"""What rank 0 of the program sends at least."""
SILENT = "moved no data over the HCAs"


def started(apps, mpi: str, tmp_path: Path, *options: str, **env: str) -> str:
    """The program under this MPI's own compiler and launcher; what it said."""
    compiler, launcher = shutil.which(f"mpicc.{mpi}"), shutil.which(f"mpirun.{mpi}")
    if not compiler or not launcher:
        pytest.skip(f"mpicc.{mpi} and mpirun.{mpi} are not installed")
    program = tmp_path / "mpi_bandwidth"
    subprocess.run([compiler, "-O2", PROGRAM, "-o", program], check=True)
    root = {
        "OMPI_ALLOW_RUN_AS_ROOT": "1",
        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
        "OMPI_MCA_rmaps_base_oversubscribe": "1",
    }
    clean = {k: v for k, v in apps.env.items() if not k.startswith(("UCX_", "OMPI_MCA_", "FI_"))}
    done = subprocess.run(
        [launcher, "-np", "2", *apps.arguments("run", *options, "--", "env", "-u", "PYTHONPATH", str(program))],
        env={**clean, **root, **env},
        cwd=apps.folder,
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


@pytest.mark.parametrize("mpi", ["openmpi", pytest.param("mpich", marks=pytest.mark.slow)])
def test_plain_mpirun_goes_over_the_fabric(apps, stock, tmp_path, mpi):
    before = apps.counters("host-0001")["PortXmitData"], apps.counters("host-0002")["PortRcvData"]
    output = started(apps, mpi, tmp_path)
    assert sorted(re.findall(r"rank (\d) of 2 on (\S+)\[1\]", output)) == [("0", "host-0001"), ("1", "host-0002")]
    assert "last octet 1" in output and SILENT not in output
    after = apps.counters("host-0001")["PortXmitData"], apps.counters("host-0002")["PortRcvData"]
    assert all((b - a) * 4 > OCTETS for a, b in zip(before, after, strict=True))


@pytest.mark.slow
def test_several_names_are_for_the_ranks(apps, stock, tmp_path):
    output = started(apps, "openmpi", tmp_path, "--node", "host-0008,host-0003")
    assert sorted(re.findall(r"rank (\d) of 2 on (\S+)\[1\]", output)) == [("0", "host-0008"), ("1", "host-0003")]


@pytest.mark.slow
@pytest.mark.parametrize("how", ["--no-tuning", "OMPI_MCA_pml"])
def test_who_takes_shared_memory_is_warned_once(apps, stock, tmp_path, how):
    """Of the two ranks, rank 0 speaks."""
    options, env = (("--no-tuning",), {}) if how == "--no-tuning" else ((), {"OMPI_MCA_pml": "ob1"})
    output = started(apps, "openmpi", tmp_path, *options, **env)
    assert output.count(SILENT) == 1 and how in output and "rank 0 of 2" in output
    assert SILENT not in started(apps, "openmpi", tmp_path, *options, SOFTIB_QUIET="1", **env)


def test_a_program_inherits_descriptors(apps):
    """MPICH's ranks speak to their launcher on one."""
    read, write = os.pipe()
    command = ["sh", "-c", f"echo heard > /proc/self/fd/{write}"]
    subprocess.run(apps.arguments("run", "--", *command), env=apps.env, pass_fds=(write,), check=True)
    os.close(write)
    with os.fdopen(read) as pipe:
        assert pipe.read() == "heard\n"


def test_a_variable_that_names_no_device_of_the_node_is_the_cause(apps):
    """NCCL's rules: prefixes, whole names after ``=``, exclusions after ``^``, ports after a colon."""
    values = {
        "NCCL_IB_HCA": (("mlx5_9", "=mlx5", "=mlx5_0:2", "^mlx5"), ("mlx5", "=mlx5_0:1", "^mlx5_9", "mlx5_9,mlx5_0")),
        "UCX_NET_DEVICES": (("mlx5_9:1", "mlx5_0:2"), ("mlx5_9:1,mlx5_0:1", "all")),
    }
    for variable, (absent, present) in values.items():
        for value in (*absent, *present):
            done = subprocess.run(
                apps.arguments("run", "--assert-rdma", "--", "true"),
                env={**apps.env, variable: value},
                capture_output=True,
                text=True,
            )
            cause = f"{variable}={value}: the node has mlx5_0:1"
            assert done.returncode == 3 and (cause in done.stderr) == (value in absent), done.stderr
