"""Documents (results as JSON) about designs, added hosts and advice."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from softib.result import Result, key


@dataclass(frozen=True)
class DeviceCount(Result):
    """Devices of one kind."""

    device: str
    count: int


@dataclass(frozen=True)
class PriceRange(Result):
    """Smallest and largest price, in the currency of the cost book."""

    low: float
    high: float


@dataclass(frozen=True)
class FailureRow(Result):
    """Effect of one failed part."""

    part: str
    lost_host_ports: int
    """Number of host ports that the subnet manager no longer reaches."""
    effective_bisection: float
    """Effective bisection of the other host ports, relative to their links."""


@dataclass(frozen=True)
class GrowthRow(Result):
    """Changes for twice the hosts."""

    switches: int
    """Number of new switches."""
    idle_switches: int
    """Number of present switches that are no longer used."""
    cables_kept: int
    cables_moved: int
    cables_new: int
    """Number of cables to buy if every moved cable is reused."""


@dataclass(frozen=True)
class DesignRow(Result):
    """A design and its figures."""

    table_columns = (
        "design",
        "kind",
        "room",
        "host_ports",
        "switches",
        "cables",
        "switch_hops",
        "bisection",
        "effective_bisection",
        "watts",
        "note",
    )

    design: str
    kind: str
    """The generator's kind of topology."""
    parameters: dict[str, Any]
    """Parameters of the generator."""
    room: int
    """Number of hosts for which its leaves have ports."""
    host_ports: int
    switches: int
    switches_by_tier: dict[str, int]
    cables: int
    cables_by_tier: dict[str, int]
    switch_hops: int
    """Number of switches on the longest of the shortest paths."""
    bisection: float | None
    """Bandwidth of the narrowest cut of the wiring, relative to the hosts' links."""
    effective_bisection: float
    """Share of their link rate that random pairs get with the subnet manager's tables."""
    watts: float
    """Watts of devices and plugs with a published figure."""
    watts_unknown: list[DeviceCount]
    """Devices without a published figure."""
    price: PriceRange | None
    price_missing: list[str]
    """Items that the cost book does not price."""
    failures: list[FailureRow]
    twice_the_hosts: GrowthRow | None
    """Changes for twice the hosts; None: no design of this kind is large enough."""
    note: str


@dataclass(frozen=True)
class DesignComparison(Result):
    """Designs for one demand, side by side."""

    document = "plan-design"

    name: str
    hosts: int
    adapters: int
    """Number of adapters of each host."""
    gpus: int | None
    generation: str
    radix: int
    """Number of ports of a switch."""
    oversubscription: float
    designs: list[DesignRow]
    storage: list[DesignRow]
    """Designs for the separate storage fabric; empty if none was requested."""
    management_switches: int
    """Number of Ethernet switches of 48 ports for management."""
    management_price: PriceRange | None
    """Price of these switches; None: the cost book has no price."""
    management_watts: float
    """Power in watts of the switches with a published figure."""
    management_watts_unknown: list[DeviceCount]
    refused: list[str]
    """Kinds of design that cannot meet the demand, with the reason."""
    currency: str
    prices_of: str


@dataclass(frozen=True)
class NewCable(Result):
    """A new cable."""

    node_a: str
    port_a: int
    node_z: str
    port_z: int


@dataclass(frozen=True)
class MovedCable(Result):
    """A cable whose upper end moves to another port. ``node_a`` and ``port_a`` name the end that stays."""

    node_a: str
    port_a: int
    from_node: str
    from_port: int
    node_z: str
    port_z: int


@dataclass(frozen=True)
class AddedHosts(Result):
    """What is needed for more hosts."""

    document = "plan-grow"

    source: str
    hosts: int
    adapters: int
    """Number of adapters of each host."""
    new_leaves: list[str]
    new_upper_switches: int
    moved_cables: int
    oversubscription: float
    """Oversubscription of the most oversubscribed leaf afterwards."""
    cables: list[NewCable]
    moves: list[MovedCable]
    notes: list[str]


@dataclass(frozen=True)
class Reason(Result):
    """A rule that applies."""

    verdict: str
    reason: str
    decides: bool
    """True if the rule outweighs all rules that do not decide."""


@dataclass(frozen=True)
class NetworkTime(Result):
    """The workload on one network."""

    network: str
    completion_us: float | None
    ratio: float | None
    """Time relative to that on the first network."""
    price: PriceRange | None
    per_price: float | None
    """Performance per price, relative to that of the first network."""
    why: str
    """Reason why it was not run."""


@dataclass(frozen=True)
class BreakEven(Result):
    """Comparison of the fastest InfiniBand network with the fastest Ethernet network."""

    infiniband: str
    ethernet: str
    time_ratio: float
    """Time on Ethernet divided by time on InfiniBand. This is the ratio of prices at which both have equal
    performance per price."""
    price_ratio: float | None = None
    """Price of InfiniBand divided by that of Ethernet, from middle prices."""


@dataclass(frozen=True)
class MessageFigures(Result):
    """The messages of the workload, and how its time depends on the network."""

    messages: int
    mean_bytes: float
    sensitivity: dict[str, dict[str, float]]
    """Time with latency, bandwidth and congestion at ``half`` and ``double``, divided by the unchanged time."""


@dataclass(frozen=True)
class Recommendation(Result):
    """Which network a workload needs, and why."""

    document = "advise"

    verdict: str
    """ethernet, either or infiniband."""
    known: dict[str, Any] = field(metadata=key("facts"))
    """Known facts of the workload."""
    reasons: list[Reason]
    messages: MessageFigures | None
    """Figures of the workload's messages; None without a workload."""
    networks: list[NetworkTime]
    break_even: list[BreakEven]
    notes: list[str]
