"""What ``simulate --json`` holds, as :mod:`softib.render.document_types.common` has the others."""

from __future__ import annotations

import sys
from typing import Any, Literal

if sys.version_info >= (3, 12):
    from typing import NotRequired, TypedDict
else:  # pydantic wants it from there
    from typing import NotRequired

    from typing_extensions import TypedDict

__all__ = ["Compare", "Simulate", "Sweep"]


class Fault(TypedDict):
    """A fault of a run; times are null for what did not happen."""

    at_us: float
    kind: str
    where: str
    happened: bool
    lost_on_wire: int
    discarded: int
    paths_broken: int
    trap_us: float | None
    sweep_began_us: float | None
    sweep_ended_us: float | None
    paths_back_us: float | None


class Simulation(TypedDict):
    """A workload on a fabric in virtual time."""

    source: str
    fabric: str
    workload: str
    layer: Literal["static", "fluid", "packet"]
    engine: str
    seed: int
    simulated_us: float
    wall_s: float
    good: bool
    valid: bool
    why_not: list[str]
    notes: list[str]
    messages: int
    """Those that moved: computations are none."""
    computations: NotRequired[int]
    phases: NotRequired[int]
    """Only of a workload that the fluid layer answers by phases, with the two below."""
    phases_by_message: NotRequired[int]
    most_flows: NotRequired[int]
    slowest: list[dict[str, Any]]
    """Messages, or phases, that took longest."""
    bytes: NotRequired[int]
    work: NotRequired[dict[str, Any]]
    """What the layer had to do, by name."""
    deadlock: NotRequired[list[tuple[str, int]]]
    """Ports and virtual lanes that wait for each other."""
    latency_us: NotRequired[dict[str, float]]
    """Percentiles."""
    jobs: NotRequired[list[dict[str, Any]]]
    ports: NotRequired[list[dict[str, Any]]]
    other_engines: NotRequired[dict[str, float]]
    remedies: NotRequired[list[dict[str, Any]]]
    """Changes that causes propose: tried, or why not."""
    over_time: NotRequired[dict[str, Any]]
    """Loads and queues by interval: rows of ``ports``, ``tiers``, ``queues``."""
    congestion_control: NotRequired[str]
    """Only of a run over RoCE."""
    network: NotRequired[Literal["roce", "tcp"]]
    """Only of a run over Ethernet, with the next."""
    ethernet: NotRequired[dict[str, float]]
    """Rate of the hosts' links, pause frames, frames dropped and marked, the longest queue in
    bytes, the largest share of the run in which a port was paused, CPU time of all hosts."""
    faults: NotRequired[list[Fault]]
    """Only of a run in which something failed, with the three below."""
    management: NotRequired[dict[str, Any]]
    """Where the subnet manager ran and its engine; MADs sent, lost and answered, VL15Dropped,
    traps, [begin, end] of sweeps in us."""
    retransmission: NotRequired[dict[str, int]]
    """Messages lost, resent, and late (resent, and arrived); packets resent, discarded at inactive
    ports, lost on the wire."""
    unreachable: NotRequired[list[str]]
    """Ports with traffic that no link joined to the rest at the end."""


class WhatIf(Simulation):
    """The same with something changed."""

    change: str


class OtherFabric(Simulation):
    """The jobs that the workload places on another fabric."""

    name: str
    over: str
    """infiniband, roce or tcp, with options."""


class Simulate(Simulation):
    """softib simulate --json"""

    schema: Literal["softib/simulate/1"]
    fabrics: NotRequired[list[OtherFabric]]
    """Runs on the other fabrics of the workload file."""
    what_if: NotRequired[WhatIf]
    variants: NotRequired[list[dict[str, Any]]]
    """The run as it is and all of ``--what-if``, side by side."""
    sensitivity: NotRequired[dict[str, dict[str, float]]]
    """With ``--sensitivity``: time with latency, bandwidth, congestion at ``half`` and ``double``,
    over that without."""
    trace: NotRequired[dict[str, Any]]
    """The timeline of one message."""
    counters: NotRequired[dict[str, dict[str, int]]]
    """PortCounters that the run added, by port."""


class Replay(TypedDict):
    """``softib simulate --layer loggops --json``: a program by the LogGOPS layer."""

    schema: str
    """softib/replay/1"""
    source: str
    """what was given"""
    fabric: str
    """the fabric's name"""
    program: str
    """the trace's name"""
    layer: str
    """loggops"""
    engine: str
    """whose forwarding tables"""
    simulated_us: float
    """virtual time of the end"""
    wall_s: float
    """seconds that it took"""
    ranks: int
    """ranks of the program"""
    operations: int
    """sends, receives and computations"""
    messages: int
    """messages between ranks"""
    bytes: int
    """octets that they carry"""
    computed_us: float
    """time that a rank computes, on average"""
    first_rank_ends_us: float
    """when the first rank had ended"""
    last_rank_ends_us: float
    """when the last rank had ended"""


class JobOver(TypedDict):
    """A job over one network; null: not completed."""

    job: str
    took_us: float | None
    p99_us: float | None


class PriceRange(TypedDict):
    """Sources disagree, so a price is a range."""

    currency: str
    low: float
    high: float


class Network(TypedDict):
    """One network; figures are null where it could not run, and ``why`` says why."""

    network: str
    """A generation, or roce or tcp with options."""
    gbps: float | None
    """Of the fastest link of a host."""
    completion_us: float | None
    ratio: float | None
    """Completion over that of the fabric as it is."""
    p50_us: float | None
    p99_us: float | None
    cpu_share: float | None
    """Mean of the hosts: time of their processors for messages over the time of the run."""
    cpu_share_most: float | None
    good: bool
    valid: bool | None
    why: str
    wall_s: float | None
    price: PriceRange | None
    """Of the fabric built of this network; null where the cost book lacks an item."""
    per_price: float | None
    """Performance (inverse of completion) for the middle price, over that of the fabric as it is.
    """
    jobs: list[JobOver]


class HalfPrice(TypedDict):
    """A network at half the price or less: shares of the fabric as it is."""

    network: str
    price: float
    performance: float


class Compare(TypedDict):
    """softib compare --json"""

    schema: Literal["softib/compare/1"]
    source: str
    fabric: str
    workload: str
    layer: Literal["static", "fluid", "packet"]
    engine: str
    seed: int
    as_it_is: str
    """The generation of the fabric's links."""
    networks: list[Network]
    half_price: list[HalfPrice] | None
    """What remains at half the price or less: null where the cost book has no price of the fabric
    as it is."""
    notes: list[str]


class Sweep(TypedDict):
    """softib simulate --sweep --json"""

    schema: Literal["softib/sweep/1"]
    source: str
    fabric: str
    workload: str
    parameters: list[str]
    good: bool
    rows: list[dict[str, Any]]
    """A run each, the last parameter and then the seed changing fastest: parameters, seed, good,
    error, valid, simulated_us, latencies, and of each job its time and p99."""
