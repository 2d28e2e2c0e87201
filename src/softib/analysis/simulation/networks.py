"""A comparison of networks: document of ``softib compare --json``, and source of its text and
page."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from softib.result import Result, key

__all__ = ["HalfPrice", "JobOver", "Network", "NetworkComparison", "PriceRange"]


@dataclass
class JobOver(Result):
    """A job over one network; null: not completed."""

    job: str
    took_us: float | None
    p99_us: float | None


@dataclass
class PriceRange(Result):
    """Sources disagree, so a price is a range."""

    currency: str
    low: float
    high: float

    @property
    def middle(self) -> float:
        """Mean of both ends."""
        return (self.low + self.high) / 2


@dataclass
class Network(Result):
    """A network to compare; figures are null if it could not run."""

    table_columns = (
        "network",
        "gbps",
        "completion_us",
        "ratio",
        "p50_us",
        "p99_us",
        "cpu_share",
        "cpu_share_most",
        "good",
        "end_agrees",
        "why",
        "wall_s",
        "price",
        "per_price",
    )

    network: str
    """A generation, or roce or tcp with options."""
    gbps: float | None = None
    """Rate of a host's fastest link."""
    completion_us: float | None = None
    ratio: float | None = None
    """Completion over that of the fabric as it is."""
    p50_us: float | None = None
    p99_us: float | None = None
    cpu_share: float | None = None
    """Mean of the hosts: time of their processors for messages over the time of the run."""
    cpu_share_most: float | None = None
    good: bool = False
    end_agrees: bool | None = None
    """Whether its completion is within 5 % of the packet layer's."""
    why: str = ""
    """Why it could not run, or why the layer's answer may be off."""
    wall_s: float | None = None
    price: PriceRange | None = None
    """Price of the fabric with this network; null if the cost book lacks an item."""
    per_price: float | None = None
    """Performance (inverse of completion) for the middle price, over that of the fabric as it is.
    """
    jobs: list[JobOver] = field(default_factory=list)


@dataclass
class HalfPrice(Result):
    """A network at half the price or less: shares of the fabric as it is."""

    network: str
    price: float
    performance: float


@dataclass
class NetworkComparison(Result):
    """A workload over several networks."""

    document = "compare"

    source: str
    fabric: str
    workload: str
    layer: str = field(metadata=key(type=Literal["static", "fluid", "packet"]))
    engine: str
    seed: int
    as_it_is: str
    """The generation of the fabric's links."""
    networks: list[Network]
    half_price: list[HalfPrice] | None
    """Networks at half the price or less; null if the cost book has no price of the present
    fabric."""
    notes: tuple[str, ...]
    """Assumptions of the figures, and missing figures."""
