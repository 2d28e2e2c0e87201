"""Facts about a host, as results."""

from __future__ import annotations

from dataclasses import dataclass, field

from softib.result import Result

__all__ = ["AdapterFacts", "HostFacts", "PcieLink", "PortFacts"]


@dataclass(frozen=True)
class PcieLink(Result):
    """A PCIe link; 0: not known."""

    gts: float
    """Speed of a lane in GT/s now."""
    width: int
    most_gts: float
    most_width: int
    """What the card can do."""


@dataclass(frozen=True)
class PortFacts(Result):
    """A port of an adapter."""

    number: int
    state: str
    """``ACTIVE``; empty: not known."""
    physical_state: str
    link_layer: str
    rate: str
    """As the kernel words it: ``400 Gb/sec (4X NDR)``."""
    gbps: float
    """The number of ``rate``; 0: not known."""
    lanes: int
    lid: int
    sm_lid: int
    gids: list[str]
    """Without empty entries."""
    pkeys: list[int]
    """Without empty entries, in the order of the table."""
    counters: dict[str, int]


@dataclass(frozen=True)
class AdapterFacts(Result):
    """An adapter."""

    name: str
    """As libibverbs calls it: ``mlx5_0``."""
    kind: str
    """hca_type, for example ``MT4129``."""
    firmware: str
    psid: str
    """The kernel's board_id."""
    node_guid: str
    slot: str
    """PCI address; empty: not known."""
    pcie: PcieLink | None
    numa_node: int
    """-1: none, or not known."""
    virtual_functions: int
    ports: list[PortFacts]


@dataclass(frozen=True)
class HostFacts(Result):
    """A host."""

    name: str
    kernel: str
    adapters: list[AdapterFacts]
    unread: list[str] = field(default_factory=list)
    """Files that exist and could not be read, with the reason."""
