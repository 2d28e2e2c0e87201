"""Which rank of a parallel job this process is. A launcher (mpirun, mpiexec, srun, torchrun) starts
``softib run`` once for each rank and says in the environment which it is. Nothing else is imported
here: every ``softib run`` asks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

__all__ = ["RANK_VARIABLES", "Job", "job_of"]

RANK_VARIABLES = (
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
    ("PMIX_RANK", "PMIX_SIZE"),
    ("PMI_RANK", "PMI_SIZE"),
    ("MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE"),
    ("SLURM_PROCID", "SLURM_NTASKS"),
    ("RANK", "WORLD_SIZE"),
)
"""Where OpenMPI, PMIx, MPICH's hydra, MVAPICH, Slurm and torchrun pass rank and size. The first
that is there counts."""


@dataclass(frozen=True)
class Job:
    """``rank`` of ``size`` (0: unknown)."""

    rank: int
    size: int


def job_of(environment: Mapping[str, str]) -> Job | None:
    """What the launcher passes; None where there is none."""
    for rank, size in RANK_VARIABLES:
        if (text := environment.get(rank, "")).isdecimal():
            number = environment.get(size, "")
            if number.isdecimal() or rank != "RANK":  # a name that anybody may use for anything
                return Job(int(text), int(number) if number.isdecimal() else 0)
    return None
