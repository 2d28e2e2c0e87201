"""One line for a job that moved nothing over its HCAs: its user may be measuring shared memory."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from softib.live.launch.jobs import Job, job_of
from softib.live.launch.tuning import MARK

__all__ = ["Watch", "communicates"]

LAUNCHERS = re.compile(r"(?:mpirun|mpiexec|orterun|prterun|torchrun)(?:[.-]\w+)?")
NEEDED = re.compile(rb"\0lib(?:ucp|uct|fabric)\.so[.0-9]*\0")
"""What the dynamic string table of a program over UCX or libfabric holds."""
ASKING = {"-h", "--help", "-V", "--version", "-v"}
MAX_PROGRAM = 64 << 20
NOTHING = 4096
"""Octets below which nothing of an application was moved: a path query and a connection's handshake
of rdma_cm are less."""
CHOOSING = ("UCX_TLS", "OMPI_MCA_pml", "FI_PROVIDER", "MPIR_CVAR_NOLOCAL", "I_MPI_FABRICS")
"""Variables that choose a library's transports (:mod:`softib.live.launch.tuning`)."""
QUIET = "SOFTIB_QUIET"


def communicates(program: Path, command: Sequence[str], environment: Mapping[str, str]) -> bool:
    """Is this a program that one starts to move data between nodes: rank 0 of a job of several, a
    launcher of ranks that does not attach them itself, or a program linked with UCX or libfabric?
    Others may well have nothing to send, and their silence is no news; so is that of ``ucx_info``,
    and of ``--help``."""
    job = job_of(environment)
    if job is not None:
        return job.rank == 0 and job.size > 1
    if any(word in ASKING for word in command[1:]) or "info" in program.name:
        return False
    if LAUNCHERS.fullmatch(program.name):
        return not any(Path(word).name == "softib" or word == "softib.cli.main" for word in command[1:])
    with contextlib.suppress(OSError), program.open("rb") as file:
        return NEEDED.search(file.read(MAX_PROGRAM)) is not None
    return False


class Watch:
    """Counts what the ports of ``view`` send and receive between :meth:`begin` and :meth:`line`.
    ``refresh`` makes the view's files true."""

    def __init__(self, view: Path, refresh: Callable[[], None]):
        self.view, self.refresh, self.before = view, refresh, 0

    def begin(self) -> None:
        """From here on it counts."""
        self.before = self._octets()

    def line(self, place: str, tuned: bool, environment: Mapping[str, str]) -> str | None:
        """The line at the end; None where data was moved."""
        moved = self._octets() - self.before
        if environment.get(QUIET) == "1" or moved >= NOTHING:
            return None
        who = _who(job_of(environment), place)
        ours = environment.get(MARK, "").split()  # of a softib run around this one
        theirs = [n for n in CHOOSING if n in environment and n not in ours]
        if not tuned:
            why = "leave out --no-tuning"
        elif theirs:
            why = f"your environment sets {', '.join(theirs)}"
        else:
            why = f"it sent {'no more' if moved else 'nothing'}, or over shared memory or TCP"
        beyond = f" beyond {moved:,} bytes, such as connections take" if moved else ""
        return (
            f"{who} moved nothing over the HCAs{beyond}: {why}; docs/verbs.md has recipes (SOFTIB_QUIET=1: no such "
            f"line)"
        )

    def _octets(self) -> int:
        """Data of all ports of the view, both ways."""
        self.refresh()
        total = 0
        for path in (self.view / "sys/class/infiniband").glob("*/ports/*/counters/port_*_data"):
            with contextlib.suppress(OSError, ValueError):
                total += 4 * int(path.read_text())
        return total


def _who(job: Job | None, place: str) -> str:
    return f"on {place} the program" if job is None else f"rank {job.rank} of {job.size} on {place}"
