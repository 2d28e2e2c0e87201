"""Jobs of storage: clients that read from or write to targets, and checkpoints of all ranks. Their
fields are their options."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from softib.workloads.job import HostName, Job, Number
from softib.workloads.quantities import Rate, Size, Time, Volume

__all__ = ["Checkpoint", "OfStorage", "Storage"]

MIB = 1 << 20


class OfStorage(Job):
    """What clients and targets of storage take. Options that are None follow ``parameters.yaml``,
    section ``storage``."""

    size: Volume = Field(64 * MIB, description="bytes that each client moves")
    targets: list[HostName] | HostName | None = Field(
        None,
        description="hosts that store: names, patterns, ranges; default the last host. Clients are all "
        "other hosts of the job",
    )
    block: Size = Field(MIB, description="bytes of a request")
    stripe: Size = Field(MIB, description="bytes on one target before the next; requests are cut where a stripe ends")
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
    device_rate: Rate | None = Field(None, description="of all devices of a target together, in Gb/s")
    client_time: Time | None = Field(None, description="of a client's processor for a request")
    target_time: Time | None = Field(None, description="of a target's processor for a request")
    target_iops: Number | None = Field(
        None,
        description="requests a second that the processors of a target serve, of all its clients and jobs; "
        "default no limit",
    )

    @property
    def fewest_hosts(self) -> int:
        """One client, where ``targets`` names other hosts."""
        return 2 if self.targets is None else 1


class Storage(OfStorage):
    """clients read from or write to targets (N:1, N:M by stripes), with the requests of NVMe over
    Fabrics"""

    pattern: Literal["storage"] = "storage"
    operation: Literal["read", "write"] = Field("read", description="what clients do")
    bursts: Number = Field(1, description="how often each client moves its bytes")
    pause: Time = Field(0, description="between two bursts of a client")


class Checkpoint(OfStorage):
    """all ranks compute, meet in a barrier, write their share to the targets, and meet again"""

    pattern: Literal["checkpoint"] = "checkpoint"
    rounds: Number = Field(1, description="how many checkpoints")
    compute: Time = Field(0, description="computing before each checkpoint")
