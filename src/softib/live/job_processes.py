"""Processes of jobs on this machine, with their environment: of a running fabric those that sit on
its nodes, else those of a job on this very host."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from softib.live.proc import command_name, processes, read_environment

__all__ = ["JobProcess", "JobProcesses"]

NUMBER = re.compile(r"\((\d+)\)$")
"""The ID that a job of Slurm has in its name here."""


@dataclass(frozen=True)
class JobProcess:
    """``environment`` is that with which it began; ``host`` as the job has it."""

    host: str
    pid: int
    command: str
    environment: dict[str, str]


class JobProcesses:
    """Those that this user may look at (proc(5): ``environ`` needs the same user, or root), read
    once when first asked for.

    ``folder``: of a running fabric, whose programs know their node (``SOFTIB_PLACE``). Without, a
    process is on the host that this machine is called.
    """

    def __init__(self, folder: Path | None = None):
        self.folder = folder

    def of(self, job: str, hosts: Sequence[str]) -> Iterator[JobProcess]:
        """Processes on the job's hosts, less those that Slurm started for another one."""
        number = NUMBER.search(job)
        for host in hosts:
            for p in self._by_host.get(host.partition(".")[0], ()):
                if number is None or p.environment.get("SLURM_JOB_ID", number[1]) == number[1]:
                    yield JobProcess(host, p.pid, p.command, p.environment)

    @cached_property
    def _by_host(self) -> dict[str, list[JobProcess]]:
        found: dict[str, list[JobProcess]] = {}
        for pid in processes():
            environment = read_environment(pid)
            host = self._host(environment).partition(".")[0]
            if host:
                command = command_name(pid).decode("utf-8", "replace")
                found.setdefault(host, []).append(JobProcess(host, pid, command, environment))
        return found

    def _host(self, environment: dict[str, str]) -> str:
        place = environment.get("SOFTIB_PLACE", "")
        if self.folder is None:
            return "" if place or not environment else os.uname().nodename
        on_it = self.folder in Path(environment.get("SOFTIB_VIEW", "/")).parents
        return place.partition("[")[0].split(" ")[0] if on_it else ""
