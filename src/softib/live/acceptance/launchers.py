"""Launchers, which start programs on hosts: on the nodes of a running fabric, through ssh, or through srun inside an
allocation."""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from typing import IO

from softib.errors import InputError, UnknownName, os_reason

__all__ = ["ALLOCATION_ENDED", "LAUNCHERS", "MISSING", "TIMED_OUT", "HostPort", "Launcher", "Program", "launcher_named"]


MISSING = (126, 127)
"""Exit codes of a shell, env(1) and timeout(1) for a program that does not exist or is not executable.
"""
TIMED_OUT = (124, 137)
"""Exit codes of timeout(1)."""


class Program:
    """A process whose output goes to a file (pipes of hundreds of programs would fill up if they
    are not read). Its standard input is a pipe that closes when :meth:`end` is called, or when this
    process dies."""

    def __init__(self, command: list[str]):
        self._file: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115
        self.missing = ""
        self.process: subprocess.Popen[bytes] | None = None
        try:
            self.process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=self._file, stderr=subprocess.STDOUT, start_new_session=True
            )
        except OSError as error:
            self.missing = f"{command[0]}: {os_reason(error)}"

    @property
    def code(self) -> int | None:
        """Return the exit code; None while the process runs, 127 if it could not be started."""
        return 127 if self.process is None else self.process.poll()

    @property
    def output(self) -> str:
        """Return the output so far."""
        self._file.seek(0)
        return self.missing or self._file.read().decode("utf-8", "replace")

    def end(self) -> None:
        """Stop the process and its children, if it still runs."""
        if self.process is not None and self.process.stdin is not None:
            self.process.stdin.close()
        if self.process is not None and self.process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGTERM)
            try:
                self.process.wait(5)
            except subprocess.TimeoutExpired:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(self.process.pid, signal.SIGKILL)
                self.process.wait()
        self._file.close()


LAUNCHERS = ("local", "ssh", "srun")
SSH = (
    "ssh",
    "-o",
    "BatchMode=yes",
    "-o",
    "ConnectTimeout=10",
    "-o",
    "StrictHostKeyChecking=accept-new",
    "-o",
    "ServerAliveInterval=15",
    "-o",
    "ServerAliveCountMax=3",
)
"""ssh options: never prompt, and never wait indefinitely for a host that is switched off now or later."""
WHILE_CONNECTED = (
    'exec 3<&0; "$@" </dev/null 3<&- & p=$!; (exec >/dev/null 2>&1; read -r _ <&3; kill "$p") & w=$!; '
    'wait "$p"; c=$?; kill "$w" 2>/dev/null; kill -- "-$p" 2>/dev/null; exit "$c"'
)
"""Shell code that runs a program until it or standard input ends: sshd does not end a program when
its connection breaks (sshd(8) sends SIGHUP only if there is a terminal). ``"-$p"`` is the process
group that timeout(1) makes: if timeout is ended while it still forks, its program keeps running."""
SRUN = ("srun", "--overlap", "--nodes=1", "--ntasks=1", "--quiet")
NOT_REACHED = {"ssh": 255}
"""Exit code of a launcher that did not reach the host (ssh(1): 255)."""

ALLOCATION_ENDED = ("has expired", "invalid job id", "has been revoked", "job/step already completing or completed")
"""Messages of srun in an allocation that was cancelled or has expired (Slurm 22.05). Such a failure is no host's
fault."""


@dataclass(frozen=True)
class HostPort:
    """A port that takes part in measurements: ``node`` (NodeDescription), ``host`` (its name for the launcher),
    ``device`` ("": the first adapter), ``portnum``."""

    node: str
    host: str
    device: str
    portnum: int


@dataclass(frozen=True)
class Launcher:
    """``name`` of :data:`LAUNCHERS`; ``fabric``: the running fabric, for ``local``; ``ssh_config``:
    ssh's configuration file ("": the user's)."""

    name: str
    fabric: str = ""
    ssh_config: str = ""

    def command(self, at: HostPort, program: list[str], limit_s: float) -> list[str]:
        """Return the command on this machine that runs ``program`` at ``at``, for at most
        ``limit_s`` seconds there (timeout(1)). With ssh, it also ends when its standard input here
        ends, so the standard input must be a pipe."""
        bounded = ["timeout", "-k", "2", f"{limit_s:.0f}", *program]
        if self.name == "ssh":
            configured = ["-F", self.ssh_config] if self.ssh_config else []
            return [*SSH, *configured, at.host, shlex.join(["sh", "-c", WHILE_CONNECTED, "sh", *bounded])]
        if self.name == "srun":
            return [*SRUN, f"--nodelist={at.host}", *bounded]
        attached = ["--fabric", self.fabric, "--node", at.node, "--port", str(at.portnum)]
        return [sys.executable, "-m", "softib", "run", *attached, "--", *bounded]

    def address(self, at: HostPort) -> str:
        """Return the address at which a client finds the server on this host: on a running fabric
        all programs share the addresses of this machine."""
        return "127.0.0.1" if self.name == "local" else at.host

    def device(self, at: HostPort) -> str:
        """Return the adapter for the command line. It is empty on a node of a running fabric, where a program sees only
        one adapter."""
        return "" if self.name == "local" else at.device


def launcher_named(name: str, fabric: str = "", ssh_config: str = "") -> Launcher:
    """Return the launcher ``name``. Raises :class:`UnknownName` if there is none with this name, and
    :class:`InputError` if the ssh configuration cannot be read, or if this launcher does not use one."""
    if name not in LAUNCHERS:
        raise UnknownName("launcher", name, LAUNCHERS)
    if ssh_config and name != "ssh":
        raise InputError(f"{ssh_config}: an ssh configuration has no effect with --launcher {name}; use --launcher ssh")
    if ssh_config and not os.access(ssh_config, os.R_OK):
        raise InputError(f"{ssh_config}: not a readable ssh configuration; use a file like ~/.ssh/config")
    return Launcher(name, fabric, ssh_config)
