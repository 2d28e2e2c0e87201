"""Facts about a host, as results."""

from __future__ import annotations

from dataclasses import dataclass, field

from softib.result import Result

__all__ = ["AdapterFacts", "HostFacts", "PcieLink", "PortFacts"]


@dataclass(frozen=True)
class PcieLink(Result):
    """A PCIe link; 0: unknown."""

    gts: float
    """Current speed of a lane in GT/s."""
    width: int
    most_gts: float
    most_width: int
    """Largest width that the card supports."""


@dataclass(frozen=True)
class PortFacts(Result):
    """A port of an adapter."""

    number: int
    state: str
    """``ACTIVE``; empty: unknown."""
    physical_state: str
    link_layer: str
    rate: str
    """The kernel's text, for example ``400 Gb/sec (4X NDR)``."""
    gbps: float
    """The number in ``rate``; 0: unknown."""
    lanes: int
    lid: int
    sm_lid: int
    gids: list[str]
    """GIDs in the order of the table, without empty entries."""
    pkeys: list[int]
    """P_Keys in the order of the table, without empty entries."""
    counters: dict[str, int]


@dataclass(frozen=True)
class AdapterFacts(Result):
    """An adapter."""

    name: str
    """Name in libibverbs: ``mlx5_0``."""
    kind: str
    """The kernel's hca_type, for example ``MT4129``."""
    firmware: str
    psid: str
    """The kernel's board_id."""
    node_guid: str
    slot: str
    """PCI address; empty: unknown."""
    pcie: PcieLink | None
    numa_node: int
    """-1: the host has no NUMA nodes, or the node is unknown."""
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
