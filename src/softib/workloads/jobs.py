"""Jobs of softib's patterns, checked by pydantic: a class for each pattern, whose fields are its
options; and workload files.
Imported
only when a workload is read (importing pydantic takes 0.1 s).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field, PrivateAttr

from softib.workloads.faults import AnyFault, Management
from softib.workloads.job import HostName, Job, Number, Repeated, ShownName, Yes
from softib.workloads.quantities import MAX_SIZE, Size, Time

if TYPE_CHECKING:
    from softib.workloads.hosts import Hosts

__all__ = [
    "Aggregation",
    "AllToAll",
    "Bandwidth",
    "Bisection",
    "HotSpot",
    "Incast",
    "Latency",
    "Matrix",
    "MessageRate",
    "Multicast",
    "OtherFabric",
    "Pair",
    "ParkingLot",
    "Permutation",
    "RandomPairs",
    "Shift",
    "Trace",
    "WorkloadFile",
]


MIB = 1 << 20


class Permutation(Repeated):
    """every host sends to another one, each receives from one; drawn at random"""

    pattern: Literal["permutation"] = "permutation"


class Shift(Repeated):
    """host i sends to host i + k"""

    pattern: Literal["shift"] = "shift"
    k: Annotated[int, Field(ge=1)] = Field(1, description="distance from a host to the host that it sends to")


class AllToAll(Job):
    """every host to every other, by shifts 1, 2, …"""

    pattern: Literal["all-to-all"] = "all-to-all"
    window: Annotated[int, Field(ge=0)] = Field(1, description="outstanding messages of a host; 0: all")
    barrier: Yes = Field(False, description="after each shift, all hosts wait for each other (fluid layer)")


class RandomPairs(Job):
    """messages between hosts drawn at random, which begin within a span of time"""

    pattern: Literal["random-pairs"] = "random-pairs"
    messages: Number | None = Field(None, description="number of messages; default: one for each host")
    over: Time = Field(0, description="messages begin at random times within this span")


class Bisection(Repeated):
    """a random matching between two random halves of the hosts, both directions (effective
    bisection bandwidth)"""

    pattern: Literal["bisection"] = "bisection"


class Incast(Repeated):
    """many hosts to one"""

    pattern: Literal["incast"] = "incast"
    senders: Number | None = Field(
        None, description="number of senders, drawn at random; default 32, or all others if there are fewer"
    )
    target: HostName | None = Field(None, description="the receiver; default the first host")


class ParkingLot(Repeated):
    """one host of every switch sends to one sink: flows join, one at each switch"""

    pattern: Literal["parking-lot"] = "parking-lot"
    target: HostName | None = Field(None, description="the sink; default the first host")


class HotSpot(Repeated):
    """an incast, and victims: the other hosts send to each other (a shift), partly over the same links"""

    pattern: Literal["hot-spot"] = "hot-spot"
    senders: Number | None = Field(None, description="senders of the incast; default a quarter of the hosts")
    target: HostName | None = Field(None, description="the hot host; default the first")
    victim_sl: Annotated[int, Field(ge=0, le=15)] | None = Field(
        None, description="service level of the victims; default: that of the incast"
    )

    @property
    def result_rows(self) -> int:
        """Return 2: the incast and the victims each have a row."""
        return 2


class Pair(Job):
    """Patterns between two hosts."""

    source: HostName | None = Field(None, description="the client; default the first host")
    target: HostName | None = Field(None, description="the server; default the last host")
    iterations: Number = Field(1000, description="number of messages, as perftest's -n")

    def trusted(self, hosts: Hosts, took_us: float) -> dict[str, Any]:
        """Return the reliability of the predicted time ``took_us``."""
        from softib.workloads.trust import Case, trusted

        quantity = "latency" if self.pattern_name == "latency" else "bandwidth"
        return trusted(
            Case("perftest", f"{quantity} {self.opcode} {self.transport}", hosts.profile.name, 2, self.size), took_us
        )


class Multicast(Repeated):
    """datagrams of one host to a multicast group, which the subnet manager makes (packet layer)"""

    pattern: Literal["multicast"] = "multicast"
    size: Size = Field(2048, description="bytes of a datagram, at most the path MTU")
    source: HostName | None = Field(None, description="the sender; default the first host")
    receivers: Number | None = Field(None, description="number of members, drawn at random; default: all other hosts")
    opcode: Literal["write", "write-with-imm", "send", "read", "atomic"] = Field(
        "send", description="the only operation of datagrams"
    )
    transport: Literal["rc", "uc", "ud"] = Field("ud", description="multicast exists only for datagrams")


class Aggregation(Job):
    """an all-reduce by the switches' aggregation nodes: every host gets the sum of all vectors
    (packet layer)"""

    pattern: Literal["aggregation"] = "aggregation"
    size: Size = Field(4096, description="bytes of each host's vector")
    tree: Literal["latency", "streaming"] = Field(
        "latency", description="latency: small operations, many at a time; streaming: a stream of packets"
    )

    @property
    def reduces(self) -> bool:
        """Return whether aggregation nodes are used: this pattern always uses them."""
        return True


class Latency(Pair):
    """ping-pong as in ib_write_lat: the answer to each message is the next message; reads and
    atomics follow each other"""

    pattern: Literal["latency"] = "latency"
    size: Size = Field(2, description="bytes of a message")

    @property
    def directions(self) -> int:
        """Return the number of messages in an iteration: 2 for a ping-pong, 1 for READs and atomics."""
        return 1 if self.opcode in ("read", "atomic") else 2

    def figures(self, hosts: Hosts, took_us: float) -> dict[str, Any]:
        """Return the latency that perftest prints: half of a round trip, or the whole time of a READ or atomic."""
        latency = {"latency_us": took_us / self.iterations / self.directions}
        return {"perftest": latency, **self.trusted(hosts, took_us)}


class Bandwidth(Pair):
    """as ib_write_bw: tx_depth messages in flight on each queue pair"""

    pattern: Literal["bandwidth"] = "bandwidth"
    size: Size = Field(65536, description="bytes of a message")
    tx_depth: Number = Field(128, description="messages in flight on a queue pair, as perftest's -t")
    qps: Number = Field(1, description="queue pairs, as perftest's -q")
    bidirectional: Yes = Field(False, description="both hosts send, as perftest's -b")

    def figures(self, hosts: Hosts, took_us: float) -> dict[str, Any]:
        """Return the figures that perftest prints: average bandwidth and message rate of both
        directions."""
        n = self.iterations * self.qps * (2 if self.bidirectional else 1)
        seconds = max(took_us, 1e-9) / 1e6
        rates = {"mib_s": n * self.size / MIB / seconds, "mpps": n / seconds / 1e6}
        return {"perftest": rates, **self.trusted(hosts, took_us)}


class MessageRate(Bandwidth):
    """as ib_write_bw with small messages on several queue pairs"""

    pattern: Literal["message-rate"] = "message-rate"  # type: ignore[assignment]
    size: Size = Field(8, description="bytes of a message")
    qps: Number = Field(4, description="queue pairs, as perftest's -q")


class Matrix(Job):
    """a traffic matrix from a file: bytes from each source to each destination, all at once"""

    pattern: Literal["matrix"] = "matrix"
    first_word: ClassVar[str] = "file"
    file: str = Field(description="CSV: rows of source,destination,bytes; or a square with names along both sides")
    size: Size = Field(MAX_SIZE, description="entries with more bytes become several messages of at most this size")
    _data: Any = PrivateAttr(None)  # a TrafficData that replaces the file


class Trace(Job):
    """a recorded or generated program: a GOAL schedule or Chakra traces with the sends, receives
    and computations of each rank"""

    pattern: Literal["trace"] = "trace"
    first_word: ClassVar[str] = "file"
    file: str = Field(
        description="the schedule, or the trace of one rank; the other ranks' files must be in its folder"
    )
    ranks: Number | None = Field(
        None, description="number of ranks that run a Chakra trace of a single rank; default: all that fit on the hosts"
    )
    ranks_per_host: Number | None = Field(
        None,
        description="ranks on each host, in order; default 1; for GPUs, the number that a profile states for a node",
    )
    machine: str | None = Field(
        None,
        description="ranks are GPUs of this node, as for nccl-all-reduce: they exchange through NVLink inside a "
        "node, and NCCL runs the collectives; default: of a profile, the node of its GPU; of other traces, ranks "
        "are processes of hosts",
    )
    processors: Number | None = Field(
        None,
        description="that all ranks share, rank r on processor r modulo this, as on one machine that "
        "recorded them; default: each thread has its own",
    )
    groups: str | None = Field(
        None, description="Chakra: JSON file of the ranks of process groups; default: name.json beside name.RANK.et"
    )
    dims: str | None = Field(
        None, description="Chakra: sizes of the dimensions of involved_dim, such as 4x2, the innermost first"
    )
    send_overhead: Time = Field(0, description="processor time for each message sent")
    receive_overhead: Time = Field(0, description="processor time for each message received")
    eager_limit: Size = Field(
        MAX_SIZE,
        description="largest message that is sent at once (eager); the receiver READs larger ones (rendezvous)",
    )
    _data: Any = PrivateAttr(None)  # Chakra nodes by rank, which replace the file
    _nodes: Any = PrivateAttr(None)  # Chakra nodes read from the file

    @property
    def assumes_machine(self) -> bool:
        """Return whether the trace is a profile of GPUs, and no machine is named."""
        from softib.workloads.traces.forms import is_profile

        return self.machine is None and is_profile(self)

    def assumed_machine(self, hosts: Hosts) -> str:
        """Return the node of a profile's GPU, or the one assumed for the links of ``hosts``."""
        from softib.workloads.hosts import rows_of
        from softib.workloads.traces.forms import gpus_of

        gpus = gpus_of(self, hosts, rows_of(self, hosts))
        return "" if gpus is None else gpus.machine.name

    def notes(self, hosts: Hosts) -> list[str]:
        """Return a note that describes the nodes of GPUs on which the trace runs."""
        from softib.workloads.hosts import rows_of
        from softib.workloads.traces.forms import notes_of

        return notes_of(self, hosts, rows_of(self, hosts))


class OtherFabric(BaseModel):
    """A fabric beside SOURCE that jobs of the file run on."""

    model_config = ConfigDict(extra="forbid")
    source: str = Field(description="a fabric, as SOURCE; a file is relative to the workload file")
    network: str = Field(
        "infiniband", description="infiniband, roce or tcp, with options as in roce,gbps=100 (packet layer)"
    )
    engine: str | None = Field(None, description="routing engine; default: that of the run")


class WorkloadFile(BaseModel):
    """A workload file: jobs that run together."""

    model_config = ConfigDict(extra="forbid")
    name: ShownName | None = Field(None, description="the workload's name; default: the file's")
    jobs: Annotated[list[Job], Field(min_length=1)]
    fabrics: dict[str, OtherFabric] = Field({}, description="other fabrics that jobs run on, by name")
    faults: list[AnyFault] = Field([], description="faults with their times (packet layer)")
    management: Management | None = Field(None, description="the subnet manager and the agents while faults happen")
