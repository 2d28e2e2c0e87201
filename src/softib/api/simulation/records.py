"""Parts of the figures of a simulation: busy ports, remedies, variants, loads over time, and the
timeline of a message."""

from __future__ import annotations

from dataclasses import dataclass

from softib.analysis.simulation.victim_flows import Flow
from softib.result import Result

__all__ = [
    "Agreed",
    "BusyPortFigures",
    "EthernetTotals",
    "Heat",
    "JobTimes",
    "LoadsOverTime",
    "MessageTrace",
    "PairShare",
    "Remedy",
    "SlowMessage",
    "SlowPhase",
    "TracedHop",
    "TracedPacket",
    "Variant",
    "VictimFigures",
    "WaitedFor",
]


@dataclass
class Agreed(Result):
    """Results within 5 % of the packet layer."""

    end: bool
    """Whether the end of the run agrees."""
    mean: bool
    """Whether the mean latency of messages agrees."""
    messages: bool
    """The latency of each single message; null if it did not arrive."""


@dataclass
class PairShare(Result):
    """Traffic of two hosts through a port."""

    source: str
    destination: str
    share: float
    """Share of the port's bytes."""


@dataclass
class VictimFigures(Result):
    """Messages that do not cross the port but wait behind its flows."""

    messages: int
    jobs: list[str]
    worst: int
    """Number of the message with the largest slowdown."""
    slowdown: float
    """Its latency, divided by the latency that the message would have alone."""
    source: str
    destination: str
    latency_us: float


@dataclass
class BusyPortFigures(Result):
    """A port with a large load, the cause of that load, and changes that may reduce it."""

    port: str
    peer: str
    gbps: float
    load: float
    """Share of the run in which the link was busy."""
    bytes: float
    vls: list[int]
    """Virtual lanes in use."""
    hop: int
    """Position of the port on the paths of the first pair, from 1 to ``hops``."""
    hops: int
    pairs: int
    """Number of pairs of hosts with traffic through the port."""
    top_pairs: list[PairShare]
    cause: str
    help: str
    changes: list[str]
    """Values for ``--what-if`` that may help: cc, ar, engine, vl."""
    flows: int
    """Number of flows through the port."""
    top_flows: list[Flow]
    victims: VictimFigures | None


@dataclass
class Remedy(Result):
    """A change that the causes of busy ports suggest. Ratios compare the changed run with this run;
    they are null if the change was not run."""

    change: str
    ports: list[str]
    """Ports whose cause suggests this change."""
    verified: bool
    """True if the changed run was simulated."""
    why: str
    """Reason why it was not simulated."""
    ratio: float | None
    """Ratio of the virtual time."""
    mean_ratio: float | None
    """Ratio of the mean latency."""
    p99_ratio: float | None
    """Ratio of the latency p99."""
    jobs: dict[str, float]
    """Ratio of each job's p99 latency."""


@dataclass
class JobTimes(Result):
    """A job of a variant."""

    job: str
    took_us: float
    p99_us: float | None
    """p99 latency."""


@dataclass
class Variant(Result):
    """A run with a change, shown as one column next to other runs."""

    change: str
    engine: str
    good: bool
    agreement: Agreed
    simulated_us: float
    wall_s: float
    ratio: float | None
    """Virtual time relative to that of the unchanged run."""
    latency_us: dict[str, float]
    """Percentiles."""
    busiest: float | None
    """Load of the busiest link."""
    waits: int | None
    """Sum of PortXmitWait over all ports."""
    discards: int | None
    """Sum of PortXmitDiscards over all ports."""
    notes: list[str]
    """Notes that the unchanged run does not have."""
    jobs: list[JobTimes]


@dataclass
class SlowMessage(Result):
    """A message with a long latency."""

    message: int
    job: str
    source: str
    destination: str
    size: int
    began_us: float
    latency_us: float
    gbps: float


@dataclass
class SlowPhase(Result):
    """A long phase of an all-to-all with barriers."""

    shift: int
    took_us: float
    most_flows: int
    """Number of flows on the busiest link."""


@dataclass
class Heat(Result):
    """Loads or queues of a port or tier, one value per interval."""

    name: str
    peak: str
    """The largest value, as text."""
    values: list[float]


@dataclass
class LoadsOverTime(Result):
    """Loads and queues by interval."""

    interval_us: float
    intervals: int
    ports: list[Heat]
    """Share of each interval in which the port's link was busy."""
    tiers: list[Heat]
    queues: list[Heat]
    """Bytes in the buffers of ports."""


@dataclass
class EthernetTotals(Result):
    """Totals over all ports of a run over Ethernet."""

    gbps: float
    """Rate of the hosts' links."""
    pause_frames_sent: int
    tail_drops: int
    headroom_drops: int
    ecn_marked: int
    peak_queue: int
    """The longest queue in bytes."""
    longest_pause_share: float
    """The largest share of the run in which a port was paused."""
    cpu_send_us: float
    """CPU time of all hosts for sending."""
    cpu_receive_us: float


@dataclass
class WaitedFor(Result):
    """A packet for which a traced one waited."""

    message: int
    source: str
    destination: str
    took_us: float | None


@dataclass
class TracedHop(Result):
    """A packet at a port on its path; times are null for events that did not happen."""

    port: str
    vl: int
    arrived_us: float | None
    sent_us: float | None
    left_us: float | None
    waits_us: dict[str, float | None]
    """Waiting time by cause."""
    behind: list[WaitedFor]
    """Packets sent while it waited."""


@dataclass
class TracedPacket(Result):
    """A packet of a traced message."""

    kind: str
    psn: int
    octets: int
    """Bytes on the wire."""
    backward: bool
    """Whether it travels from the destination to the source."""
    hops: list[TracedHop]
    received_us: float | None
    written_us: float | None
    """Time at which its data was in memory."""
    lost_us: float | None
    lost_at: str | None
    """Port at which it was lost."""


@dataclass
class MessageTrace(Result):
    """The timeline of a message; times are null for events that did not happen."""

    message: int
    job: str
    source: str
    destination: str
    size: int
    posted_us: float | None
    ready_us: float | None
    arrived_us: float | None
    completed_us: float | None
    latency_us: float | None
    packets: list[TracedPacket]
    left_out: int
    """Number of packets whose timeline is omitted."""
    last: int | None
    """Index in ``packets`` of the packet that completed the message."""
    parts_us: dict[str, float | None]
    """Parts of the latency of that packet."""
