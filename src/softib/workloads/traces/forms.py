"""Recorded programs: the format of a file, and its schedule."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from softib.errors import InputError
from softib.input_files import content, uncompressed_name
from softib.plural import counted
from softib.workloads.schedule.schedule import Schedule
from softib.workloads.traces.goal import read_goal

if TYPE_CHECKING:
    from softib.workloads.jobs import Trace
    from softib.workloads.traces.chakra import Node

__all__ = ["program_of", "read_trace", "refuse"]

DUMPI = b"\xff\xaa\xddDUMPI"
REFUSED = (
    (DUMPI, "a DUMPI trace"),
    (b"# htor's PMPI Tracer", "a trace of liballprof"),
    (b"# collprof", "a trace of liballprof"),
    (b"hostname=", "the head of a DUMPI trace"),
    (b"version=", "a DUMPI trace as text"),
    (b"MPI_Init entering at", "a DUMPI trace as text"),
)
"""First bytes of formats that are not supported."""
MOST_BYTES = 1 << 32


CHAKRA = (".et", ".json", ".sqlite")


def read_trace(path: Path, ranks: int = 2, groups: str | None = None, dims: str | None = None) -> Schedule:
    """Return the schedule of the file ``path``; a single Chakra trace becomes the program of
    ``ranks`` ranks, with ``groups`` and ``dims`` as in a job. Raises :class:`InputError` for a file
    that cannot be read, with the expected format."""
    if uncompressed_name(path).suffix in CHAKRA or (not path.exists() and path.with_name(path.name + ".0.et").exists()):
        from softib.workloads.traces.chakra_groups import grouping_of
        from softib.workloads.traces.chakra_schedule import read_chakra

        return read_chakra(path, ranks, grouping_of(path, groups, dims))
    if groups or dims:
        raise InputError(f"{path}: groups and dims are only for Chakra traces")
    got = content(path, MOST_BYTES, "trace")
    if got.flaw:
        raise InputError(f"{path}: {got.flaw}")
    data = got.data
    refuse(path, data)
    return read_goal(path, data)


def program_of(job: Trace, hosts: int, nodes: Sequence[list[Node]] | None = None) -> Schedule:
    """Return the program of ``job``, or of the ``nodes`` of each rank, for ``hosts`` hosts,
    with the job's processors. Raises :class:`InputError` as :func:`read_trace` does."""
    ranks = job.ranks or hosts * job.ranks_per_host
    if nodes is None:
        schedule = read_trace(Path(job.file), ranks, job.groups, job.dims)
    else:
        from softib.workloads.traces.chakra_groups import grouping_of
        from softib.workloads.traces.chakra_schedule import schedule_of

        grouping = grouping_of(Path(job.file), job.groups, job.dims)
        schedule = schedule_of(job.file, list(nodes) * ranks if len(nodes) == 1 else nodes, grouping=grouping)
    if job.ranks not in (0, None, schedule.ranks):
        raise InputError(
            f"{job.file}: it has {counted(schedule.ranks, 'rank')}, not {job.ranks:,}; ranks is for a single Chakra "
            f"trace that is the program of all ranks"
        )
    return replace(schedule, processors=job.processors or 0)


def refuse(path: Path, data: bytes) -> None:
    """Raise :class:`InputError`, one line, if ``data``, the beginning of the file ``path``, has a
    known but unsupported format."""
    for begin, form in REFUSED:
        if data.startswith(begin):
            raise InputError(f"{path} is {form}, which is not supported; convert it to GOAL with schedgen")
