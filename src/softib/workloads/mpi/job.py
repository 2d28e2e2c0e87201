"""An MPI job on the hosts of a workload: the placement of its ranks, the ports that they use, and its messages."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from softib.errors import InputError
from softib.plural import counted, plural
from softib.sim.packet.profiles import PROFILES, DeviceProfile
from softib.workloads.mpi.collective import program_of
from softib.workloads.mpi.cost import costs_of
from softib.workloads.pattern import JobMessages
from softib.workloads.schedule.messages import part_of

if TYPE_CHECKING:
    from softib.workloads.mpi_jobs import Mpi

__all__ = ["mpi_part", "rails_of"]

SHARP_PAYLOAD = 256
"""Bytes of one operation of a latency tree (docs/simulate.md)."""
MOST_RAILS = 2
"""Largest number of ports over which one message is striped (the default of UCX_MAX_RNDV_RAILS is 2)."""


def rails_of(rows: np.ndarray, ranks: int, each: int, rails: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the host of each rank, and the rows of the ports through which it may send (int64[ranks, stripes]).
    ``rows[h * rails + k]`` is port k of host h. The ports of a host are assigned to its ranks in blocks, because ranks
    are usually bound in order to the cores near each adapter."""
    host, local = np.divmod(np.arange(ranks), each)
    first = local * rails // each
    rail = np.arange(min(rails, MOST_RAILS))
    return rows[host * rails], rows[host[:, None] * rails + (first[:, None] + rail) % rails]


def mpi_part(job: Mpi, rows: np.ndarray, profile: DeviceProfile = PROFILES["EDR"]) -> JobMessages:
    """Return the messages of ``job`` on the hosts ``rows`` with costs from ``profile``.
    Raises :class:`InputError` if the hosts cannot hold the ranks, and for options that MPI jobs do not have."""
    pattern = str(getattr(job, "pattern", "mpi"))
    if given := {"opcode", "transport", "receives", "rate"} & job.model_fields_set:
        raise InputError(f"{pattern}: {sorted(given)[0]} is the library's choice: leave it out")
    if len(rows) % job.rails:
        raise InputError(
            f"{pattern}: {counted(len(rows), 'port')} {plural(len(rows), 'is', 'are')} not hosts with "
            f"{job.rails} rails each; choose hosts"
        )
    hosts = len(rows) // job.rails
    collective = pattern.removeprefix("mpi-").replace("-", "_")
    ranks = job.ranks or (2 if collective in ("latency", "bandwidth") else hosts * job.ranks_per_host)
    if ranks > hosts * job.ranks_per_host:
        raise InputError(
            f"{pattern}: {counted(ranks, 'rank')}; {counted(hosts, 'host')} with {job.ranks_per_host} each take "
            f"{hosts * job.ranks_per_host:,}"
            f"; use more on each with ranks-per-host={-(-ranks // hosts)}"
        )
    if job.algorithm == "sharp":
        return _sharp(job, rows[:: job.rails][: -(-ranks // job.ranks_per_host)], collective, profile)
    costs = costs_of(job.machine, profile)
    program, chosen = program_of(
        collective,
        job.size,
        ranks,
        costs,
        algorithm=job.algorithm,
        segment=job.segment or 0,
        version=job.version,
        iterations=job.iterations,
        each=job.ranks_per_host,
    )
    host, stripes = rails_of(rows, ranks, job.ranks_per_host, job.rails)
    name = f"{pattern} {chosen.algorithm}"
    part, _ = part_of(program.schedule(name), host, costs.overheads, stripes)
    return part


def _sharp(job: Mpi, rows: np.ndarray, collective: str, profile: DeviceProfile) -> JobMessages:
    """Return an all-reduce in the switches. The library posts operations of at most :data:`SHARP_PAYLOAD` bytes one
    after another, each with the processor time of a send, a receive and a step of a reduction. First, the ranks of a
    host reduce to their leader over a binomial tree in the host's memory; at the end, the leader broadcasts the result
    to them over such a tree. The model adds the time of both before the first operation."""
    if collective != "allreduce" or job.iterations > 1:
        raise InputError("algorithm sharp is for mpi-allreduce, of one iteration")
    costs = costs_of(job.machine, profile)
    each_ns = costs.overheads.send_ns + costs.overheads.receive_ns
    message_ns = each_ns + job.size * costs.overheads.memory_ps / 1e3
    inside_ns = 2 * message_ns + costs.reduce_ns + job.size * costs.reduce_ps / 1e3
    operations_ns = -(-job.size // SHARP_PAYLOAD) * (each_ns + costs.reduce_ns)
    none = np.zeros(0, np.int64)
    start = round(1000 * (operations_ns + inside_ns * (job.ranks_per_host - 1).bit_length()))
    return JobMessages(none, none, none, none, start_ps=start, reduces=rows, name="mpi-allreduce sharp")
