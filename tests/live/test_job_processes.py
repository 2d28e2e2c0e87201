"""Processes of jobs on this machine. Oracle: a process that the test starts, with an environment of its own."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from softib.live.proc import JobProcesses


@contextmanager
def process(**env: str) -> Iterator[int]:
    with subprocess.Popen(["sleep", "60"], env={"PATH": os.environ["PATH"], **env}) as p:
        yield p.pid
        p.kill()


def found(folder: Path | None, job: str, *hosts: str) -> dict[int, str]:
    return {p.pid: p.host for p in JobProcesses(folder).of(job, hosts) if p.command == "sleep"}


def test_programs_on_nodes_of_a_fabric_are_found_by_their_place(tmp_path):
    with process(SOFTIB_PLACE="node-1 mlx5_0[1]", SOFTIB_VIEW=str(tmp_path / "hosts" / "host-1")) as pid:
        assert found(tmp_path, "train", "node-1.site", "node-2") == {pid: "node-1.site"}
        assert pid not in found(tmp_path, "train", "node-2")
        assert pid not in found(tmp_path / "other", "train", "node-1")
        assert pid not in found(None, "train", os.uname().nodename), "it is on a node of softib's, not on this host"


def test_programs_of_another_job_of_slurm_on_this_host_are_left_out():
    here = os.uname().nodename
    with process(SLURM_JOB_ID="71", NCCL_IB_DISABLE="1") as pid:
        assert found(None, "train (71)", here)[pid] == here
        assert pid in found(None, "train", here)
        assert pid not in found(None, "solve (72)", here)
        assert pid not in found(None, "train (71)", "elsewhere")
