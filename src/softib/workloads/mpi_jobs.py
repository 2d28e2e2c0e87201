"""Jobs of workload files: MPI's collectives and point-to-point messages (:mod:`softib.workloads.mpi`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field

from softib.workloads.job import Job, Number
from softib.workloads.quantities import Size

if TYPE_CHECKING:
    from softib.workloads.hosts import Hosts

__all__ = [
    "MPI",
    "Mpi",
    "MpiAllgather",
    "MpiAllreduce",
    "MpiAlltoall",
    "MpiBandwidth",
    "MpiBarrier",
    "MpiBcast",
    "MpiGather",
    "MpiLatency",
    "MpiReduce",
    "MpiReduceScatter",
    "MpiScatter",
]


class Mpi(Job):
    """Options of all MPI patterns."""

    algorithm: str = Field("", description="algorithm, for example ring; default: Open MPI's choice")
    version: Literal["4.0", "4.1", "5.0"] = Field(
        "4.1", description="version of Open MPI whose rules choose the algorithm"
    )
    segment: Size | None = Field(None, description="bytes of a segment, for algorithms that send in segments")
    ranks: Number | None = Field(None, description="ranks; default: all that fit on the hosts")
    ranks_per_host: Number = Field(1, description="ranks on each host, in order; they share its memory")
    rails: Annotated[int, Field(ge=1, le=16)] = Field(
        1, description="ports of each host: this many consecutive hosts of the fabric are the ports of one host"
    )
    machine: Literal["default", "tcp"] = Field("default", description="Open MPI over UCX, or over sockets (tcp)")
    iterations: Number = Field(1, description="repetitions, one after another")

    def figures(self, hosts: Hosts, took_us: float) -> dict[str, Any]:
        """Return the reliability of the predicted time ``took_us``."""
        from softib.workloads.trust import Case, trusted

        if self.machine == "tcp":
            return {}
        operation = self.pattern_name.removeprefix("mpi-")
        nodes = self.nodes(hosts)
        return trusted(Case("mpi", operation, hosts.profile.name, nodes, self.size), took_us, hosts.measured)

    def nodes(self, hosts: Hosts) -> int:
        """Return the number of ``hosts`` that have a rank."""
        from softib.workloads.hosts import rows_of

        if self.pattern_name in ("mpi-latency", "mpi-bandwidth"):
            return 2
        return min(len(rows_of(self, hosts)) // self.rails, -(-(self.ranks or 1 << 40) // self.ranks_per_host))

    @property
    def reduces(self) -> bool:
        """Return whether the job uses reductions in switches (algorithm ``sharp``)."""
        return self.algorithm == "sharp"


class MpiAllreduce(Mpi):
    """MPI_Allreduce of a vector of floats of this size"""

    pattern: Literal["mpi-allreduce"] = "mpi-allreduce"


class MpiReduce(Mpi):
    """MPI_Reduce to rank 0"""

    pattern: Literal["mpi-reduce"] = "mpi-reduce"


class MpiBcast(Mpi):
    """MPI_Bcast from rank 0"""

    pattern: Literal["mpi-bcast"] = "mpi-bcast"


class MpiReduceScatter(Mpi):
    """MPI_Reduce_scatter of a vector of this size"""

    pattern: Literal["mpi-reduce-scatter"] = "mpi-reduce-scatter"


class MpiAllgather(Mpi):
    """MPI_Allgather; size: bytes of a rank's block"""

    pattern: Literal["mpi-allgather"] = "mpi-allgather"


class MpiAlltoall(Mpi):
    """MPI_Alltoall; size: bytes that each rank sends to each other rank"""

    pattern: Literal["mpi-alltoall"] = "mpi-alltoall"


class MpiGather(Mpi):
    """MPI_Gather to rank 0; size: bytes of a rank's block"""

    pattern: Literal["mpi-gather"] = "mpi-gather"


class MpiScatter(Mpi):
    """MPI_Scatter from rank 0; size: bytes of a rank's block"""

    pattern: Literal["mpi-scatter"] = "mpi-scatter"


class MpiBarrier(Mpi):
    """MPI_Barrier"""

    pattern: Literal["mpi-barrier"] = "mpi-barrier"


class MpiLatency(Mpi):
    """two ranks alternately send and receive (MPI_Send, MPI_Recv), as in osu_latency"""

    pattern: Literal["mpi-latency"] = "mpi-latency"


class MpiBandwidth(Mpi):
    """64 MPI_Isend without waiting, then an answer, as in osu_bw"""

    pattern: Literal["mpi-bandwidth"] = "mpi-bandwidth"


MPI = (
    MpiAllreduce,
    MpiReduce,
    MpiBcast,
    MpiReduceScatter,
    MpiAllgather,
    MpiAlltoall,
    MpiGather,
    MpiScatter,
    MpiBarrier,
    MpiLatency,
    MpiBandwidth,
)
