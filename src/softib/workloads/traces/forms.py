"""Recognises the format of a recorded program's file, and returns its schedule."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from softib.errors import InputError
from softib.input_files import content, uncompressed_name
from softib.plural import counted
from softib.workloads.schedule.messages import place
from softib.workloads.schedule.overheads import Overheads
from softib.workloads.schedule.schedule import Schedule
from softib.workloads.traces.goal import read_goal

if TYPE_CHECKING:
    from softib.workloads.hosts import Hosts
    from softib.workloads.jobs import Trace
    from softib.workloads.traces.chakra import Node
    from softib.workloads.traces.gpu_nodes import GpuNodes

__all__ = ["Program", "gpus_of", "is_profile", "notes_of", "program_of", "read_trace", "refuse"]

DUMPI = b"\xff\xaa\xddDUMPI"
REFUSED = (
    (DUMPI, "a DUMPI trace"),
    (b"# htor's PMPI Tracer", "a trace of liballprof"),
    (b"# collprof", "a trace of liballprof"),
    (b"hostname=", "the head of a DUMPI trace"),
    (b"version=", "a DUMPI trace as text"),
    (b"MPI_Init entering at", "a DUMPI trace as text"),
)
"""First bytes of a file → its format, for formats that are not supported."""
MOST_BYTES = 1 << 32


CHAKRA = (".et", ".json", ".sqlite")


def is_chakra(path: Path) -> bool:
    """Return whether ``path`` is a Chakra trace or a profile of GPUs."""
    return uncompressed_name(path).suffix in CHAKRA or (
        not path.exists() and path.with_name(path.name + ".0.et").exists()
    )


def read_trace(path: Path, ranks: int = 2, groups: str | None = None, dims: str | None = None) -> Schedule:
    """Return the schedule of the file ``path``. If it is a single Chakra trace, ``ranks`` ranks run it. ``groups`` and
    ``dims`` as in a job. Raises :class:`InputError` with the expected format for a file that cannot be read."""
    if is_chakra(path):
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


@dataclass(frozen=True)
class Program:
    """A schedule on hosts: rank r runs on ``host[r]``, and sends through ``ports[r]`` (rows of hosts). ``cost``: costs
    of messages in the library. ``gpus``: the nodes of GPUs if ranks are GPUs; None if ranks are processes."""

    schedule: Schedule
    host: np.ndarray
    ports: np.ndarray
    cost: Overheads
    gpus: GpuNodes | None = None


def program_of(job: Trace, hosts: Hosts, rows: np.ndarray) -> Program:
    """Return the program of ``job`` on ``rows`` of the hosts. Raises the errors of :func:`read_trace`."""
    traces, gpus = _chakra_of(job), gpus_of(job, hosts, rows)
    fits = len(rows) * (job.ranks_per_host or 1) if gpus is None else len(gpus.adapters) * gpus.machine.gpus
    if traces is None:
        if job.machine is not None:
            raise InputError(f"{job.file}: machine applies only to Chakra traces and profiles of GPUs; leave it out")
        schedule = read_trace(Path(job.file), job.ranks or fits, job.groups, job.dims)
    else:
        from softib.workloads.traces.chakra_groups import grouping_of
        from softib.workloads.traces.chakra_schedule import all_ranks, schedule_of
        from softib.workloads.traces.nccl_collectives import NcclCollectives

        grouping = grouping_of(Path(job.file), job.groups, job.dims)
        traces = all_ranks(Path(job.file), traces, job.ranks or fits)
        schedule = schedule_of(
            job.file, traces, grouping=grouping, library=None if gpus is None else NcclCollectives(gpus)
        )
    if job.ranks not in (0, None, schedule.ranks):
        raise InputError(
            f"{job.file}: it has {counted(schedule.ranks, 'rank')}, not {job.ranks:,}; ranks is for a single Chakra "
            f"trace that is the program of all ranks"
        )
    schedule = replace(schedule, processors=job.processors or 0)
    cost = overheads_of(job)
    if gpus is None:
        host = place(schedule, rows, job.ranks_per_host or 1)
        return Program(schedule, host, host, cost)
    gpus.check(schedule.name, schedule.ranks)
    of_nccl, ranks = gpus.overheads, np.arange(schedule.ranks)
    cost = replace(of_nccl, send_ns=cost.send_ns, receive_ns=cost.receive_ns, eager_limit=cost.eager_limit)
    return Program(schedule, gpus.node(ranks), gpus.adapter(ranks), cost, gpus)


def _chakra_of(job: Trace) -> Sequence[list[Node]] | None:
    """Return the nodes of each file of a Chakra trace or profile, and store them in the job; None for GOAL."""
    if job._data is None and is_chakra(Path(job.file)):
        from softib.workloads.traces.chakra_schedule import rank_traces

        if job._nodes is None:
            job._nodes = rank_traces(Path(job.file))
        return list(job._nodes)
    return None if job._data is None else list(job._data)


def is_profile(job: Trace) -> bool:
    """Return whether the trace is a profile of GPUs."""
    from softib.workloads.traces.torch_profile import DEVICE

    traces = _chakra_of(job)
    return traces is not None and bool(traces[0]) and traces[0][0].get(DEVICE) is not None


def gpus_of(job: Trace, hosts: Hosts, rows: np.ndarray) -> GpuNodes | None:
    """Return the nodes of GPUs that ``job`` runs on; None if its ranks are processes."""
    from softib.workloads.traces.gpu_nodes import gpu_nodes

    traces = _chakra_of(job)
    return None if traces is None else gpu_nodes(job, traces, hosts, rows)


def notes_of(job: Trace, hosts: Hosts, rows: np.ndarray) -> list[str]:
    """Return notes. For a profile, or a job that names a machine, a note describes the nodes of GPUs. Otherwise, if
    several ranks of a Chakra trace share a host, a note says that they exchange data through its memory."""
    from softib.workloads.nccl.job import slower_adapters

    gpus = gpus_of(job, hosts, rows)
    if gpus is not None:
        reason = f" ({gpus.source})" if gpus.source else ""
        return [
            f"{job.file}: its ranks are GPUs, on nodes of {gpus.machine}{reason}; NCCL runs the collectives",
            *slower_adapters(job.file, gpus.machine, gpus.link_gbps),
        ]
    if (job.ranks_per_host or 1) > 1 and (job._data is not None or is_chakra(Path(job.file))):
        return [
            f"{job.file}: the {job.ranks_per_host} ranks of a host exchange through its memory; if they are GPUs, "
            "add machine=NAME, for example machine=dgx-h100"
        ]
    return []


def overheads_of(job: Trace) -> Overheads:
    """Return the costs of a trace's messages in addition to the adapter's."""
    return Overheads(
        send_ns=job.send_overhead / 1000, receive_ns=job.receive_overhead / 1000, eager_limit=job.eager_limit
    )


def refuse(path: Path, data: bytes) -> None:
    """Raise :class:`InputError`, one line, if ``data``, the beginning of the file ``path``, has a
    known but unsupported format."""
    for begin, form in REFUSED:
        if data.startswith(begin):
            raise InputError(f"{path} is {form}, which is not supported; convert it to GOAL with schedgen")
