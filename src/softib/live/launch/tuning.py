"""Environment variables that make UCX, OpenMPI, MPICH and libfabric use the HCAs of their node; the rank of a program
in a parallel job; and a message for a job that sent no data over its HCAs.

Programs on two nodes of a fabric share one machine. Communication libraries detect this and use
shared memory: no data passes over the fabric, and a benchmark measures memory instead. Two real hosts have no shared
memory. So ``softib run`` restricts the libraries' transports with environment variables. Variables that the user has
set are kept. The first variable of a group selects a transport: if the user has set it, softib sets none of the group.

An OpenMPI that lacks a component named by a variable does not start (5.0 has no ``osc`` pt2pt, a build may have no
``pml`` ucx or ``mtl`` ofi). So components are excluded, not chosen: an unknown name in an
exclusion is not an error.

Sources: UCX 1.13 ``ucx_info -c -f`` (UCX_TLS, UCX_NET_DEVICES); OpenMPI 4.1 and 5.0 (MCA parameters
``pml``, ``osc``, ``btl``, ``mtl``); MPICH 4.0 README.envvar (MPIR_CVAR_NOLOCAL); Intel MPI's
developer reference (I_MPI_FABRICS); fabric(7) and fi_verbs(7) of libfabric (FI_PROVIDER,
FI_VERBS_DGRAM_NAME_SERVER_PORT).
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

__all__ = ["MARK", "RANK_VARIABLES", "HcaTraffic", "JobRank", "communicates", "job_rank", "on_verbs", "tuned"]


RANK_VARIABLES = (
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
    ("PMIX_RANK", "PMIX_SIZE"),
    ("PMI_RANK", "PMI_SIZE"),
    ("MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE"),
    ("SLURM_PROCID", "SLURM_NTASKS"),
    ("RANK", "WORLD_SIZE"),
)
"""The variables in which OpenMPI, PMIx, MPICH's hydra, MVAPICH, Slurm and torchrun pass rank and size. The first of
these variables that is set is used."""


@dataclass(frozen=True)
class JobRank:
    """``rank`` of ``size`` (0: unknown)."""

    rank: int
    size: int


def job_rank(environment: Mapping[str, str]) -> JobRank | None:
    """Return the rank and size that the launcher passes; None if it passes none."""
    for rank, size in RANK_VARIABLES:
        if (text := environment.get(rank, "")).isdecimal():
            number = environment.get(size, "")
            if number.isdecimal() or rank != "RANK":  # RANK may also be used for other purposes
                return JobRank(int(text), int(number) if number.isdecimal() else 0)
    return None


MARK = "SOFTIB_TUNED"
"""Environment variable with the names of the variables that softib has set. A ``softib run`` inside another one sets
these again, for its own node."""

TRANSPORTS = "rc_v,ud_v,self"
"""UCX's transports for ``softib run``: reliable connections and datagrams over verbs, and messages of a process to
itself, but not shared memory and TCP."""

NAME_SERVER_PORT = "5679"
"""TCP port of libfabric's name server for datagrams (its own default is 5678). With this variable,
the preload library recognises the name server (``cm/name_server.c``), so that each node has a
separate one."""


def tuned(view: Path, environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables to set for a program that sees the devices of ``view``, except those that the user has
    already decided in ``environment``."""
    set_by_softib = set(environment.get(MARK, "").split())
    user_set = {name for name in environment if name not in set_by_softib}
    groups: tuple[dict[str, str], ...] = (
        {"UCX_TLS": TRANSPORTS, "UCX_NET_DEVICES": ",".join(ports(view)) or "all"},
        # Open MPI then uses its pml ucx if it has one, otherwise pml cm over the mtl of libfabric.
        {
            "OMPI_MCA_pml": "^ob1",
            "OMPI_MCA_osc": "^sm,rdma",
            "OMPI_MCA_btl": "self",
            "OMPI_MCA_mtl": "^psm,psm2,portals4",
        },
        {"MPIR_CVAR_NOLOCAL": "1"},
        {"I_MPI_FABRICS": "ofi"},
        {"FI_PROVIDER": "verbs"},
        {"FI_VERBS_DGRAM_NAME_SERVER_PORT": NAME_SERVER_PORT},
    )
    variables: dict[str, str] = {}
    for group in groups:
        if next(iter(group)) not in user_set:
            variables |= {name: value for name, value in group.items() if name not in user_set}
    return variables | {MARK: " ".join(variables)}


def ports(view: Path) -> list[str]:
    """Return the ports of the view, for example ``mlx5_0:1``."""
    devices = sorted(
        (view / "sys/class/infiniband").glob("*/ports/*"), key=lambda p: (len(p.parts[-3]), p.parts[-3], int(p.name))
    )
    return [f"{p.parts[-3]}:{p.name}" for p in devices]


LAUNCHERS = re.compile(r"(?:mpirun|mpiexec|orterun|prterun|torchrun)(?:[.-]\w+)?")
NEEDED = re.compile(rb"\0lib(?:ucp|uct|fabric)\.so[.0-9]*\0")
"""Names in the dynamic string table of a program that uses UCX or libfabric."""
VERBS = re.compile(rb"\0lib(?:ibverbs|rdmacm)\.so[.0-9]*\0")
ASKING = {"-h", "--help", "-V", "--version", "-v"}
MAX_PROGRAM = 64 << 20
NOTHING = 4096
"""Smallest number of bytes that counts as application data. A library moves fewer bytes to set up connections."""
CHOOSING = ("UCX_TLS", "OMPI_MCA_pml", "FI_PROVIDER", "MPIR_CVAR_NOLOCAL", "I_MPI_FABRICS")
"""Variables that choose a library's transports (:mod:`softib.live.launch.tuning`)."""
QUIET = "SOFTIB_QUIET"


def communicates(program: Path, command: Sequence[str], environment: Mapping[str, str]) -> bool:
    """Return whether this program is expected to move data between nodes: rank 0 of a job with
    several ranks, a launcher that does not attach its ranks, or a program linked with UCX or
    libfabric. Other programs may have no data to send, so they get no message, and neither do ``ucx_info`` and
    ``--help``."""
    job = job_rank(environment)
    if job is not None:
        return job.rank == 0 and job.size > 1
    if any(word in ASKING for word in command[1:]) or "info" in program.name:
        return False
    if LAUNCHERS.fullmatch(program.name):
        return not any(Path(word).name == "softib" or word == "softib.cli.main" for word in command[1:])
    return _needs(program, NEEDED)


def on_verbs(program: Path, command: Sequence[str], environment: Mapping[str, str]) -> bool:
    """Return whether this program is linked with libibverbs or librdmacm. Return False for all ranks of a job except 0,
    and for ``--help``."""
    job = job_rank(environment)
    if (job is not None and job.rank) or any(word in ASKING for word in command[1:]):
        return False
    return _needs(program, VERBS)


def _needs(program: Path, libraries: re.Pattern[bytes]) -> bool:
    with contextlib.suppress(OSError), program.open("rb") as file:
        return libraries.search(file.read(MAX_PROGRAM)) is not None
    return False


class HcaTraffic:
    """Counter of the data that a node's ports move between :meth:`begin` and :meth:`end`. ``moved`` returns the bytes
    moved by verbs, and the bytes of these that are IP. MADs are not counted."""

    def __init__(self, moved: Callable[[], tuple[int, int]]):
        self.moved = moved
        self.verbs = self.ip = 0

    def begin(self) -> None:
        """Start to count."""
        self.verbs, self.ip = self.moved()

    def end(self) -> None:
        """End the count."""
        verbs, ip = self.moved()
        self.verbs, self.ip = verbs - self.verbs, ip - self.ip

    @property
    def silent(self) -> bool:
        """Return whether verbs moved no application data."""
        return self.verbs < NOTHING

    def line(self, place: str, tuned: bool, environment: Mapping[str, str], causes: Sequence[str] = ()) -> str | None:
        """Return the message to print at the end of the job; None if data was moved. ``causes`` are the possible
        reasons."""
        if environment.get(QUIET) == "1" or not self.silent:
            return None
        return f"{self.text(place, tuned, environment, causes)} ({QUIET}=1: no such line)"

    def text(self, place: str, tuned: bool, environment: Mapping[str, str], causes: Sequence[str] = ()) -> str:
        """Return the message that no data was moved, with the reason."""
        moved = self.verbs
        who = _who(job_rank(environment), place)
        ours = environment.get(MARK, "").split()  # set by an outer softib run
        theirs = [n for n in CHOOSING if n in environment and n not in ours]
        if causes:
            why = "; ".join(causes)
        elif not tuned:
            why = "leave out --no-tuning"
        elif theirs:
            why = f"your environment sets {', '.join(theirs)}"
        else:
            why = f"it sent {'no more' if moved else 'nothing'}, or used shared memory or TCP"
        beyond = f"  beyond {moved:,} bytes, as connections need" if moved else ""
        ip = f"; {self.ip:,} bytes went by IP over InfiniBand" if self.ip else ""
        return f"{who} moved no data over the HCAs{beyond}: {why}{ip}; docs/verbs.md has recipes"


def _who(job: JobRank | None, place: str) -> str:
    return f"on {place} the program" if job is None else f"rank {job.rank} of {job.size} on {place}"
