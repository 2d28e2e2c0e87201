"""Processes of this machine, and processes of jobs with their environment, read from /proc (proc(5))."""

from __future__ import annotations

import contextlib
import errno
import os
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

__all__ = [
    "JobProcess",
    "JobProcesses",
    "command_name",
    "descendants",
    "descriptor_path",
    "has_ended",
    "is_running",
    "is_stopped",
    "parents",
    "process_start",
    "processes",
    "read_environment",
    "udp_holder",
    "working_directory",
]

STATE, PARENT, START_TIME = 0, 1, 19
"""Fields 3, 4 and 22 of ``/proc/PID/stat``, counted after the command's name."""
ENDED = (b"Z", b"X", b"x")
"""The states of a zombie and of a dead process, which execute no code."""
CANNOT_LOOK = (errno.EMFILE, errno.ENFILE, errno.ENOMEM)
"""Errors of reading /proc that do not mean that the process has ended."""


def _stat(pid: int) -> list[bytes] | None:
    """Return the fields of ``/proc/PID/stat`` from the third on; empty if there is no such process. (The second field
    is the command's name, which may contain spaces and parentheses.) None if this process cannot read them because no
    descriptor or memory is left."""
    try:
        text = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError as error:
        return None if error.errno in CANNOT_LOOK else []
    fields = text[text.rfind(b")") + 2 :].split()
    return fields if len(fields) > START_TIME else []


def process_start(pid: int) -> int:
    """Return the start of ``pid``, in clock ticks after boot; 0 = no such process, or not readable
    now."""
    fields = _stat(pid)
    return int(fields[START_TIME]) if fields else 0


def is_running(pid: int, started: int) -> bool:
    """Return whether the process ``pid`` that began at ``started`` (clock ticks after boot) still runs. A zombie does
    not run. A process that cannot be read now counts as running."""
    fields = _stat(pid)
    return fields is None or (bool(fields) and int(fields[START_TIME]) == started and fields[STATE] not in ENDED)


def has_ended(pid: int) -> bool:
    """Return whether the process does not exist or is a zombie. False if the file cannot be
    read."""
    fields = _stat(pid)
    return fields is not None and (not fields or fields[STATE] in ENDED)


def is_stopped(pid: int) -> bool:
    """Return whether a signal (SIGSTOP, Ctrl-Z) or a debugger stopped the process."""
    fields = _stat(pid)
    return fields is not None and bool(fields) and fields[STATE] in (b"T", b"t")


def parents() -> dict[int, int]:
    """Return the parent of each readable process, by process number."""
    parent_of = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit() and (fields := _stat(int(entry))):
            parent_of[int(entry)] = int(fields[PARENT])
    return parent_of


def processes() -> list[int]:
    """Yield all readable processes, in order."""
    return sorted(parents())


def read_environment(pid: int) -> dict[str, str]:
    """Return the environment with which the process began (``environ``); empty if it may not be
    read or the process has ended."""
    try:
        text = Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return {}
    pairs = (x.partition("=") for x in text.decode("utf-8", "replace").split("\0"))
    return {name: value for name, mark, value in pairs if mark}


def descendants(pid: int) -> list[int]:
    """Return the descendants of process ``pid``, youngest generation first."""
    children = defaultdict(list)
    for child, parent in parents().items():
        children[parent].append(child)
    family, at = [pid], 0
    while at < len(family):
        family += children[family[at]]
        at += 1
    return family[:0:-1]


def working_directory(pid: int) -> str | None:
    """Return the process's current directory; None if it may not be read or the process has ended."""
    try:
        return os.readlink(f"/proc/{pid}/cwd")
    except OSError:
        return None


def command_name(pid: int) -> bytes:
    """Return the command's name of a process (at most 15 bytes); empty if there is no such process."""
    try:
        return Path(f"/proc/{pid}/comm").read_bytes().strip()
    except OSError:
        return b""


def descriptor_path(pid: int, fd: int) -> Path:
    """Return a path that opens the file of descriptor ``fd`` of process ``pid``."""
    return Path(f"/proc/{pid}/fd/{fd}")


def udp_holder(port: int) -> tuple[int, int] | None:
    """Return (user, process) bound to the IPv4 UDP ``port`` in this network namespace; None if the port is free. The
    process is 0 if it belongs to another user or is not visible."""
    try:
        lines = Path("/proc/net/udp").read_text().splitlines()[1:]
    except OSError:
        return None
    for fields in map(str.split, lines):
        if int(fields[1].rpartition(":")[2], 16) == port:
            return int(fields[7]), _holder_of(f"socket:[{fields[9]}]")
    return None


def _holder_of(link: str) -> int:
    """Return the first process with a descriptor of ``link``; 0 if none is visible."""
    for pid in processes():
        try:
            for fd in os.listdir(f"/proc/{pid}/fd"):
                with contextlib.suppress(OSError):
                    if os.readlink(f"/proc/{pid}/fd/{fd}") == link:
                        return pid
        except OSError:
            continue
    return 0


NUMBER = re.compile(r"\((\d+)\)$")
"""The job ID that follows the name of a Slurm job in softib's output: ``NAME (ID)``."""


@dataclass(frozen=True)
class JobProcess:
    """A process of a job. ``environment``: the environment with which the process began. ``host``: the name that the
    job uses for the process's host."""

    host: str
    pid: int
    command: str
    environment: dict[str, str]


class JobProcesses:
    """Processes readable by this user (proc(5): ``environ`` needs the same user, or root), read once,
    on first use.

    ``folder``: the folder of a running fabric, whose programs have the name of their node in ``SOFTIB_PLACE``. Without
    a folder, all processes are on the host with this machine's name.
    """

    def __init__(self, folder: Path | None = None):
        self.folder = folder

    def of(self, job: str, hosts: Sequence[str]) -> Iterator[JobProcess]:
        """Yield processes on the job's hosts, without those that Slurm started for another job."""
        number = NUMBER.search(job)
        for host in hosts:
            for p in self._by_host.get(host.partition(".")[0], ()):
                if number is None or p.environment.get("SLURM_JOB_ID", number[1]) == number[1]:
                    yield JobProcess(host, p.pid, p.command, p.environment)

    @cached_property
    def _by_host(self) -> dict[str, list[JobProcess]]:
        by_host: dict[str, list[JobProcess]] = {}
        for pid in processes():
            environment = read_environment(pid)
            host = self._host(environment).partition(".")[0]
            if host:
                command = command_name(pid).decode("utf-8", "replace")
                by_host.setdefault(host, []).append(JobProcess(host, pid, command, environment))
        return by_host

    def _host(self, environment: dict[str, str]) -> str:
        place = environment.get("SOFTIB_PLACE", "")
        if self.folder is None:
            return "" if place or not environment else os.uname().nodename
        on_it = self.folder in Path(environment.get("SOFTIB_VIEW", "/")).parents
        return place.partition("[")[0].split(" ")[0] if on_it else ""
