"""The result of a comparison of networks: the document that ``softib compare --json`` prints, and from which its text
and page are made."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from softib.result import Result, key

__all__ = ["HalfPrice", "JobOver", "Network", "NetworkComparison", "PriceRange"]


@dataclass
class JobOver(Result):
    """Figures of a job over one network; null if the job did not complete."""

    job: str
    took_us: float | None
    p99_us: float | None


@dataclass
class PriceRange(Result):
    """A price range, because sources disagree."""

    currency: str
    low: float
    high: float

    @property
    def middle(self) -> float:
        """The mean of ``low`` and ``high``."""
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
    """Rate of the hosts' fastest link."""
    completion_us: float | None = None
    ratio: float | None = None
    """Completion time, divided by that of the fabric as it is."""
    p50_us: float | None = None
    p99_us: float | None = None
    cpu_share: float | None = None
    """Mean over hosts: the time that their processors spend on messages, divided by the time of the run."""
    cpu_share_most: float | None = None
    good: bool = False
    end_agrees: bool | None = None
    """Whether its completion time is within 5 % of the packet layer's."""
    why: str = ""
    """Reason why it could not run, or why the layer's answer may be wrong."""
    wall_s: float | None = None
    price: PriceRange | None = None
    """Price of the fabric with this network; null if the cost book lacks an item."""
    per_price: float | None = None
    """Performance (inverse of completion time) per middle price, relative to the fabric as it is.
    """
    jobs: list[JobOver] = field(default_factory=list)


@dataclass
class HalfPrice(Result):
    """A network at half the price or less; figures are relative to the fabric as it is."""

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
    """Assumptions on which the figures depend, and missing figures."""
