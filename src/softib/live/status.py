"""The answers of a running fabric's daemon, which ``softib status``, ``sm`` and ``sm job`` print with ``--json``."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from softib.document_reader import read_result
from softib.live.control import ask
from softib.live.instances import Instance
from softib.result import Result, key
from softib.sm.sweep.report import SweepReport

__all__ = [
    "Administration",
    "Client",
    "FabricStatus",
    "JobTree",
    "LastSweep",
    "Mads",
    "ManagerStatus",
    "Moved",
    "PortStates",
    "Status",
    "VerbsUsage",
    "Wait",
    "status_of",
]


@dataclass
class PortStates(Result):
    """Number of linked ports in each PortState (IBA 14.2.5.6)."""

    down: int
    init: int
    armed: int
    active: int


@dataclass
class LastSweep(Result):
    """The last sweep of the internal manager."""

    report: SweepReport = field(metadata=key(flat=SweepReport))
    sent: int
    sets: int
    refused: dict[str, int]
    """Method and attribute → number of requests that a node answered with an error."""
    not_active: int
    """Ports that did not become ACTIVE."""


@dataclass
class Wait(Result):
    """Waiting times of other programs' queries to the subnet administrator."""

    buckets: dict[str, int]
    """Upper bound in s → number of queries that waited at most this time (cumulative; ``inf``: all queries)."""
    sum_s: float
    oldest_s: float
    """Waiting time of the oldest unanswered query; 0 if no query waits."""


@dataclass
class Administration(Result):
    """Queries of other programs to the subnet administrator: the number since the start, the number answered with BUSY,
    and the number that wait now."""

    requests: int
    busy: int
    waiting: int
    wait: Wait


@dataclass
class ManagerStatus(Result):
    """The subnet manager. Only the internal manager has fields other than ``kind``."""

    kind: str = field(metadata=key(type=Literal["internal", "external", "none"]))
    engine: str | None = field(default=None, metadata=key(optional=True))
    state: str | None = field(default=None, metadata=key(optional=True))
    """SMState (IBA 14.4.1), or FAILED."""
    phase: str | None = field(default=None, metadata=key(optional=True))
    """The manager's current activity; empty while it is idle."""
    sweeps: int | None = field(default=None, metadata=key(optional=True))
    node: str | None = field(default=None, metadata=key(optional=True))
    engine_used: str | None = field(default=None, metadata=key(optional=True))
    """The routing engine, of those configured, that computed the tables; empty before the first sweep."""
    problems: list[str] | None = field(default=None, metadata=key(optional=True))
    sa: Administration | None = field(default=None, metadata=key(optional=True))
    report: LastSweep | None = field(default=None, metadata=key(optional=True))


@dataclass
class Client(Result):
    """A program on a port."""

    client: int
    pid: int
    node: str
    portnum: int
    sm: bool
    """Whether the program is a subnet manager."""
    waiting: int
    """Number of MADs that the program has not read."""


@dataclass
class Mads(Result):
    """MADs since the fabric began to run."""

    answered: int
    forwarded: int
    timed_out: int


@dataclass
class VerbsUsage(Result):
    """The objects of programs that use RDMA devices."""

    programs: int
    numbers: int
    """QPs and XRC SRQs."""
    members: int
    """Memberships of multicast groups."""
    keys: int
    chunks: int
    """Chunks of memory."""
    octets: int
    """Bytes of memory that the file occupies."""


@dataclass
class FabricStatus(Result):
    """A running fabric."""

    name: str
    pid: int
    source: str
    ready: bool
    ready_s: float | None
    uptime_s: float
    nodes: int
    switches: int
    cas: int
    links: int
    port_states: PortStates
    sm: ManagerStatus
    pace: bool
    """Programs' messages take as long as on the wire (softib up --pace)."""
    clients: list[Client]
    verbs: VerbsUsage
    mads: Mads
    traps: dict[str, int]
    kernels: str
    bugs: int
    log: str
    epoch: int
    shared_fabric: str
    sockname: str
    version: str
    """The version of softib that runs the fabric."""


@dataclass
class Status(Result):
    """Running fabrics. ``softib up --json`` prints the fabric that it started when it is ready."""

    fabrics: list[FabricStatus]


@dataclass
class JobTree(Result):
    """The aggregation tree of a job; aggregation nodes have the name of their switch."""

    tree: int
    streaming: bool
    top: str
    """The root aggregation node."""
    nodes: list[str]
    """The participating aggregation nodes."""
    hosts: list[str]
    """The aggregation node of each host, in the order of the hosts."""


@dataclass
class Moved(Result):
    """Bytes that programs have moved over ports since the fabric began to run."""

    verbs: int
    ip: int
    """Bytes of IP over InfiniBand."""


def status_of(instance: Instance) -> FabricStatus:
    """Return the status that the daemon of ``instance`` reports."""
    return read_result(FabricStatus, ask(instance, "status"), instance.name)
