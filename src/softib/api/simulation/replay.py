"""Recorded and generated programs in the LogGOPS layer, which is fast enough for tens of millions of operations."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from softib.api.arguments import Suggests, check_choice
from softib.api.fabric import Fabric, as_fabric, result_of
from softib.errors import InputError
from softib.plural import counted
from softib.result import HIDDEN, Result, also, key

if TYPE_CHECKING:
    from softib.workloads.jobs import Trace

__all__ = ["Replay", "replay"]


@dataclass(eq=False, repr=False)
class Replay(Suggests, Result):
    """A program that ran on a fabric in the LogGOPS layer."""

    document = "replay"

    fabric: Fabric = field(metadata=key(json=lambda fabric: fabric.name, type=str))
    """The fabric's name."""
    program: str
    """The trace's name."""
    layer: str
    engine: str
    """The engine of the forwarding tables."""
    simulated_us: float
    """Virtual time of the end."""
    wall_s: float
    """Wall time of the simulation in seconds."""
    ranks: int
    operations: int
    """Number of sends, receives and computations."""
    messages: int
    """Number of messages between ranks."""
    bytes: int
    """Bytes that they carry."""
    computed_us: float
    """Mean time for which a rank computes."""
    rank_ends_us: list[float] = field(metadata=HIDDEN)
    """Time at which each rank's last operation ended."""

    @property
    @also("source", before="fabric")
    def _source(self) -> str:
        return self.fabric.source

    @property
    @also()
    def first_rank_ends_us(self) -> float:
        """End of the first rank in us."""
        return min(self.rank_ends_us)

    @property
    @also()
    def last_rank_ends_us(self) -> float:
        """Time in us at which the last rank ends."""
        return max(self.rank_ends_us)

    def print(self) -> None:
        """Print the text of ``softib simulate --layer loggops``."""
        from softib.render.simulation.terminal import print_replay
        from softib.render.terminal import console

        print_replay(self.to_json(), console())

    def __repr__(self) -> str:
        return (
            f"<Replay of {self.program!r} on {self.fabric.name!r}: {counted(self.operations, 'operation')} in "
            f"{self.simulated_us:,.3f} us>"
        )


def replay(
    source: Fabric | str | os.PathLike[str],
    program: Any,
    *,
    engine: str | None = None,
    lfts: str | os.PathLike[str] | None = None,
    options: Mapping[str, Any] | None = None,
) -> Replay:
    """Run a program (a GOAL schedule or Chakra trace: its file, or ``trace:FILE,ranks-per-host=8``)
    on the fabric with the LogGOPS layer. It models processors, adapters, and latencies and rates of
    the paths in the fabric's tables, but no congestion between switches. :func:`softib.simulate`
    runs such a program with congestion, and has a row for each message.

    ``engine`` and ``lfts`` are as for :func:`softib.simulate`; ``options`` are those of the
    ``trace`` pattern. Raises :class:`InputError` for an invalid trace, with rank and operation.
    """
    import time
    from contextlib import nullcontext
    from dataclasses import replace

    from softib.analysis.routed import routed
    from softib.analysis.simulation.replay import replay as replay_program
    from softib.sim.paths import Plane
    from softib.workloads.hosts import hosts_of, rows_of
    from softib.workloads.schedule.messages import place
    from softib.workloads.schedule.schedule import Kind, Schedule
    from softib.workloads.traces.forms import overheads_of, program_of

    path = None if lfts is None else os.fspath(lfts)
    check_choice(engine, path)
    if not isinstance(program, str | os.PathLike | Schedule):
        raise InputError(f"replay: program is the path of a trace or a schedule, not a {type(program).__name__}")
    job = _job("bench" if isinstance(program, Schedule) else os.fspath(program), options or {})
    began = time.perf_counter()
    fabric = as_fabric(source)
    tables = routed(result_of(fabric), engine, path, lambda _: nullcontext())
    plane, hosts = Plane(tables.fabric), hosts_of(tables.fabric)
    rows = rows_of(job, hosts)
    if isinstance(program, Schedule):
        schedule = replace(program, processors=job.processors or program.processors)
        host, cost = place(schedule, rows, job.ranks_per_host or 1), overheads_of(job)
    else:
        found = program_of(job, hosts, rows)
        if found.gpus is not None:
            raise InputError(
                f"{job.file}: its ranks are GPUs, whose collectives share adapters; the loggops layer does not model "
                f"this, so use the fluid layer"
            )
        schedule, host, cost = found.schedule, found.host, found.cost
    run = replay_program(plane, schedule, hosts.end[host], cost)
    s = run.schedule
    return Replay(
        fabric=fabric,
        program=s.name,
        layer="loggops",
        engine=tables.part.tables,
        simulated_us=run.outcome.end_ps / 1e6,
        wall_s=time.perf_counter() - began,
        ranks=s.ranks,
        operations=len(s),
        messages=int((s.kind == Kind.SEND).sum()),
        bytes=s.octets,
        computed_us=float(s.compute_ps.sum()) / s.ranks / 1e6,
        rank_ends_us=(run.rank_ends_ps() / 1e6).tolist(),
    )


def _job(text: str, options: Mapping[str, Any]) -> Trace:
    """Return the trace's options. Raises :class:`InputError` for a workload that is not a trace."""
    from softib.workloads.jobs import Trace
    from softib.workloads.registry import patterns
    from softib.workloads.workload import job_of, parse

    is_file = text.partition(":")[0].partition(",")[0] not in patterns() and "," not in text
    job = parse(text).jobs[0] if not is_file else job_of("trace", {"file": text, **options}, text)
    if not isinstance(job, Trace):
        raise InputError(f"{text} is not a trace; with the loggops layer, use a trace of a program")
    return job
