"""A real Slurm (slurmctld, a slurmd for every node, munge: Debian's) on the nodes of a running fabric: programs of a step sit on the node of their slurmd.

All slurmd are on this machine (``slurmd -N NAME``, a port each). A task prolog gives the programs their node's environment; a mount namespace gives the slurmd an /etc/hosts that
knows the other nodes. Only root may have that.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from softib.live.proc import has_ended, processes, read_environment
from tests.scratch import scratch

CONFIG = """\
ClusterName=lab
SlurmctldHost={machine}(127.0.0.1)
SlurmctldPort={port}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
StateSaveLocation={folder}/state
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/%n.pid
SlurmdSpoolDir={folder}/spool-%n
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
TaskProlog={folder}/prolog
SelectType=select/cons_tres
SlurmdParameters=config_overrides
ReturnToService=2
MpiDefault=none
KillWait=3
{nodes}
PartitionName=all Nodes=ALL Default=YES State=UP MaxTime=INFINITE
"""
OURS = ("SOFTIB_", "LD_PRELOAD")
SBIN = "/usr/sbin:/usr/bin:/sbin:/bin"


def need_slurm() -> None:
    """Skip with the reason where this cannot be."""
    if os.geteuid():
        pytest.skip("a Slurm of many nodes on one machine needs root")
    for program in ("slurmctld", "slurmd", "srun", "salloc", "munged", "unshare"):
        if shutil.which(program, path=SBIN) is None:
            pytest.skip(f"{program} is not installed")
    if subprocess.run(["unshare", "-m", "true"], capture_output=True).returncode:
        pytest.skip("no mount namespaces here")


class SlurmCluster:
    """``nodes`` of ``fabric`` (a name). ``env`` is for Slurm's commands."""

    def __init__(self, fabric: str, nodes: list[str]):
        self.folder = scratch("slurm-")
        self.folder.chmod(0o755)
        self.nodes, self.begun = nodes, list[subprocess.Popen[bytes]]()
        self.env = {**os.environ, "SLURM_CONF": str(self.folder / "slurm.conf")}
        for name in ("state", *(f"spool-{n}" for n in nodes)):
            (self.folder / name).mkdir()
        self._prolog(fabric)
        ports = _free_ports(len(nodes) + 1)
        machine = os.uname().nodename
        (self.folder / "slurm.conf").write_text(
            CONFIG.format(
                machine=machine,
                port=ports.pop(),
                folder=self.folder,
                nodes="\n".join(
                    f"NodeName={n} NodeHostname={machine} NodeAddr=127.0.0.1 Port={ports.pop()} CPUs=64 RealMemory=100"
                    for n in nodes
                ),
            )
        )
        key = self.folder / "munge.key"
        key.touch(0o600)
        key.write_bytes(os.urandom(1024))
        files = [
            f"--{what}={self.folder}/munge.{end}"
            for what, end in (
                ("socket", "socket"),
                ("key-file", "key"),
                ("pid-file", "pid"),
                ("log-file", "log"),
                ("seed-file", "seed"),
            )
        ]
        try:
            self._begin("munged", ["munged", "-F", "--force", *files])
            self._until(lambda: (self.folder / "munge.socket").exists(), 20)
            self._begin("slurmctld", ["slurmctld", "-D"])
            hosts = shlex.quote(f"{self.folder}/hosts")
            for n in nodes:
                script = f"mount --bind {hosts} /etc/hosts && exec slurmd -D -N {n}"
                self._begin(n, ["unshare", "-m", "sh", "-c", script])
            self._until(lambda: self("sinfo", "-h", "-t", "idle", "-o", "%D").strip() == str(len(nodes)), 60)
        except BaseException:
            self.close()
            raise

    def _prolog(self, fabric: str) -> None:
        """What softib run gives a program on each node, as a task prolog states it (slurm.conf(5): lines ``export NAME=value``)."""
        addresses = ["127.0.0.1 localhost"]
        for node in self.nodes:
            command = [sys.executable, "-m", "softib", "run", "--fabric", fabric, "--node", node, "--", "env", "-0"]
            told = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split("\0")
            mine = [x for x in told if x.startswith(OURS)]
            (self.folder / f"env-{node}").write_text("".join(f"export {x}\n" for x in mine))
            addresses += [f"{x.partition('=')[2]} {node}" for x in mine if x.startswith("SOFTIB_ADDRESS=")]
        (self.folder / "hosts").write_text("\n".join(addresses) + "\n")
        prolog = self.folder / "prolog"
        prolog.write_text(f'#!/bin/sh\ncat {self.folder}/env-"$SLURMD_NODENAME"\n')
        prolog.chmod(0o755)

    def _begin(self, name: str, command: list[str]) -> None:
        path = {**self.env, "PATH": f"{self.env['PATH']}:{SBIN}"}
        with (self.folder / f"{name}.out").open("wb") as log:
            self.begun.append(
                subprocess.Popen(
                    command, env=path, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
                )
            )

    def __call__(self, *command: str) -> str:
        """What a command of Slurm says."""
        return subprocess.run(command, env=self.env, capture_output=True, text=True, timeout=60).stdout

    def programs(self, name: str) -> list[int]:
        """Processes of steps whose command line begins with ``name``."""
        out = []
        for pid in processes():
            with contextlib.suppress(OSError):
                words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
                if words[0] == name.encode() and read_environment(pid).get("SLURM_CONF") == self.env["SLURM_CONF"]:
                    out.append(pid)
        return [p for p in out if not has_ended(p)]

    def log(self) -> str:
        """What the daemons wrote."""
        return "\n".join(
            f"{p.name}: {p.read_text('utf-8', 'replace')[-3000:]}" for p in sorted(self.folder.glob("*.log"))
        )

    def _until(self, true, limit_s: float) -> None:
        end = time.monotonic() + limit_s
        while not true():
            assert time.monotonic() < end, self.log()
            time.sleep(0.2)

    def close(self) -> None:
        """Cancel the jobs, wait until they are gone, end the daemons."""
        if len(self.begun) > 2:
            self("scancel", "--full", "--user=root")
            with contextlib.suppress(AssertionError, subprocess.TimeoutExpired):
                self._until(lambda: not self("squeue", "-h").strip(), 30)
        for daemon in reversed(self.begun):
            with contextlib.suppress(ProcessLookupError):
                os.kill(daemon.pid, signal.SIGTERM)
            try:
                daemon.wait(20)
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.wait()


def _free_ports(n: int) -> list[int]:
    held = [socket.create_server(("127.0.0.1", 0)) for _ in range(n)]
    ports = [int(s.getsockname()[1]) for s in held]
    for s in held:
        s.close()
    return ports
