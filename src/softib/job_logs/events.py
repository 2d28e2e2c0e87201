"""An event of a log: its symptom, its time, and the ports that it names."""

from __future__ import annotations

from dataclasses import dataclass, field

from softib.result import Result, key

__all__ = ["SYMPTOMS", "End", "Event", "JobLog", "RankState"]

SYMPTOMS: dict[str, str] = {
    "device-fatal": "the adapter reported a fatal error",
    "node-failed": "the scheduler or kernel reports that a node failed",
    "out-of-memory": "the kernel killed a process for memory",
    "gpu-fault": "a GPU reported an error",
    "link-down": "a kernel or an adapter reports that a link went down",
    "registration-failed": "memory could not be registered, or queues not created",
    "gid-missing": "the GID index does not exist or is empty",
    "mtu-refused": "the path MTU is more than the port's",
    "no-device": "no RDMA device could be used",
    "no-transport": "no transport reaches the other process",
    "port-not-active": "the port of the adapter is not active",
    "remote-access": "remote access error (10)",
    "invalid-request": "remote invalid request error (9)",
    "local-length": "local length error (1)",
    "local-protection": "local protection error (4)",
    "local-operation": "local QP operation error (2)",
    "remote-operation": "remote operation error (11)",
    "process-died": "a process ended with a signal",
    "collective-mismatch": "ranks called different collectives",
    "rank-behind": "ranks did not begin a collective that others wait in",
    "receiver-not-ready": "RNR retry counter exceeded (13)",
    "retry-exceeded": "transport retry counter exceeded (12)",
    "address-unresolved": "the network address of the other port could not be resolved",
    "connect-failed": "a connection could not be made",
    "completion-error": "a completion failed, and the program does not say how",
    "receive-timeout": "a receiver waited for data until its time limit",
    "collective-stuck": "all ranks began a collective but none ended it",
    "collective-timeout": "a collective reached its time limit",
    "time-limit": "the job reached its time limit",
    "peer-lost": "the other process closed its connection",
    "tcp-used": "traffic went over TCP",
    "openib-unused": "Open MPI's openib component did not start, which does not matter if UCX carries the job",
    "aborted": "the job ended with an error that names no cause",
    "flushed": "work request flushed (5)",
    "no-result": "a program started its work and printed no result",
    "partition-violation": "a port received or sent a wrong P_Key",
    "manager-changed": "a subnet manager became master, ended or reassigned LIDs",
    "node-left": "a manager reports that a node or port left the subnet",
    "link-errors": "a manager or kernel reports errors of a link",
}
"""Symptom → meaning. If a log has several symptoms, the first in this order is the closest to the cause."""


@dataclass(frozen=True)
class End(Result):
    """A log's description of one end of a connection."""

    host: str = ""
    device: str = ""
    """The adapter, for example ``mlx5_0``, followed by ``:1`` if the log names the port."""
    gid: str = ""
    lid: int = 0

    def __bool__(self) -> bool:
        return bool(self.host or self.device or self.gid or self.lid)

    def __str__(self) -> str:
        named = [self.host, self.device, f"GID {self.gid}" if self.gid else "", f"LID {self.lid}" if self.lid else ""]
        return " ".join(n for n in named if n) or "not named"


@dataclass
class Event(Result):
    """Lines of one symptom that name the same two ends."""

    symptom: str
    """A key of :data:`SYMPTOMS`."""
    reader: str
    """The program that printed these lines."""
    text: str
    """The first of the lines."""
    file: str
    line: int
    count: int = 1
    local: End = field(default_factory=End)
    remote: End = field(default_factory=End)
    first_s: float | None = None
    """Seconds since 1970; None: the lines state no time."""
    last_s: float | None = None
    detail: str = ""
    """Further information, for example a signal, a rank or a vendor error."""


@dataclass(frozen=True)
class RankState:
    """State of one process group of one rank in a dump of the flight recorder."""

    rank: int
    group: str
    begun: int
    """Number of the last collective that began."""
    ended: int
    operation: str
    """Name and size of the last collective that began."""


@dataclass
class JobLog:
    """Everything read about one job."""

    events: list[Event] = field(default_factory=list)
    pairs: list[tuple[End, End]] = field(default_factory=list)
    """Connections in the log that are not part of an error: perftest and ibv_rc_pingpong print the addresses of both
    ends."""
    hosts: list[str] = field(default_factory=list)
    """Host names at the beginnings of lines."""
    job_ids: list[str] = field(default_factory=list)
    lines: int = 0
    files: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    ranks: list[RankState] = field(default_factory=list, metadata=key(hidden=True))
    ethernet: str = ""
    """The first device (``mlx5_0:1``) that a line names as Ethernet; "" if there is none, or if a line names an
    InfiniBand device."""
    completed: int = 0
    """Number of programs and jobs that printed the line with which they end normally."""
    written_s: float | None = None
    """Time of the last write to the newest of the files."""
