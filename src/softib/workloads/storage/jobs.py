"""Storage jobs: clients that read from or write to targets, and checkpoints that all ranks write. The fields of a job
are its options."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from softib.workloads.job import HostName, Job, Number
from softib.workloads.quantities import Rate, Size, Time, Volume

__all__ = ["Checkpoint", "OfStorage", "Storage"]

MIB = 1 << 20


class OfStorage(Job):
    """Options of storage clients and targets. If an option is None, its value in section ``storage`` of
    ``parameters.yaml`` is used."""

    size: Volume = Field(64 * MIB, description="bytes that each client moves")
    targets: list[HostName] | HostName | None = Field(
        None,
        description="storage hosts: names, patterns, ranges; default the "
        "last host. Clients are all other hosts of the job",
    )
    block: Size = Field(MIB, description="bytes of a request")
    stripe: Size = Field(
        MIB, description="bytes on one target before the next; requests are split at the end of a stripe"
    )
    stripe_count: Number | None = Field(
        None, description="targets of one client's data, from target number (client mod targets) on; default all"
    )
    queue_depth: Number = Field(32, description="outstanding requests of a client")
    protocol: Literal["nvme-of", "rdma"] = Field(
        "nvme-of", description="command, data and response, or only data (READ and WRITE by the client)"
    )
    in_capsule: Annotated[int, Field(ge=0, le=16384)] | None = Field(
        None, description="largest write whose data travels with its command"
    )
    device: Literal["nvme", "memory"] = Field("nvme", description="storage medium of a target; memory takes no time")
    device_time: Time | None = Field(None, description="latency of a device per request, without data transfer")
    device_rate: Rate | None = Field(None, description="total rate of a target's devices, in Gb/s")
    client_time: Time | None = Field(None, description="time of a client's processor per request")
    target_time: Time | None = Field(None, description="time of a target's processor per request")
    target_iops: Number | None = Field(
        None,
        description="requests per second that the processors of a target "
        "serve, for all clients and jobs; default no limit",
    )

    @property
    def fewest_hosts(self) -> int:
        """Return 1 if ``targets`` names other hosts, otherwise 2."""
        return 2 if self.targets is None else 1


class Storage(OfStorage):
    """clients read from or write to targets (N:1, N:M by stripes), with the requests of NVMe over
    Fabrics"""

    pattern: Literal["storage"] = "storage"
    operation: Literal["read", "write"] = Field("read", description="operation of the clients")
    bursts: Number = Field(1, description="number of times that each client moves its bytes")
    pause: Time = Field(0, description="time between two bursts of a client")


class Checkpoint(OfStorage):
    """all ranks compute, meet in a barrier, write their share to the targets, and meet again"""

    pattern: Literal["checkpoint"] = "checkpoint"
    rounds: Number = Field(1, description="number of checkpoints")
    compute: Time = Field(0, description="computing time before each checkpoint")
