"""The catalogue of devices: adapters, switches, Ethernet switches and cables, with a source for
each figure.

The rows are in the TOML files of this folder: ``figure = [value, "source"]``. Checks, the
simulator, the agents' firmware, the PCI tree of ``softib run`` and planning read them.
``docs/devices.md`` lists the rows and counts the unknown figures. A figure that is absent is
unknown, and its value is None. softib needs some figures that have not been published; their source
begins with ``assumed``. If a figure was fitted to measurements, its source is ``fitted`` and the
dataset.

This module uses only the standard library, because the package's build reads the catalogue before
NumPy is installed.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, ClassVar, TypeVar

__all__ = [
    "ADAPTERS",
    "ADAPTER_OF",
    "CABLES",
    "ETHERNET_SWITCHES",
    "PART_BY_ID",
    "PCIE_GBPS",
    "SWITCHES",
    "SWITCH_OF",
    "Adapter",
    "Cable",
    "EthernetSwitch",
    "Part",
    "Switch",
    "cable",
    "ethernet_switch",
    "pcie_gbps",
]


@dataclass(frozen=True)
class Part:
    """A row of the catalogue. ``sources`` maps each known figure to its source. ``FIGURES`` maps
    the name of each figure to its meaning."""

    FIGURES: ClassVar[Mapping[str, str]] = {}

    name: str
    sources: Mapping[str, str]

    @property
    def unknown(self) -> tuple[str, ...]:
        """Names of the figures without a source."""
        return tuple(name for name in self.FIGURES if name not in self.sources)


@dataclass(frozen=True)
class Adapter(Part):
    """A family of adapters (HCAs). ``generation``: the fastest 4x speed of a port. ``vendor``: the
    company's current name. ``device_ids``: values of NodeInfo.DeviceID. ``typical_of``: the
    generations for which this row is used if the device is not known."""

    FIGURES: ClassVar = {
        "ports": "ports of a node (NodeInfo.NumPorts); a port of ConnectX-4 and later is a node of its own",
        "pcie_generation": "generation of the host interface",
        "pcie_lanes": "lanes of the host interface of a standard card",
        "host_gbps": "Gb/s of payload that the adapter reads from or writes to memory; unknown: what PCIe carries",
        "fetch_ns": "ns from the doorbell until payload that is not inline begins to arrive",
        "inline_ns_per_byte": "ns for each byte of inline payload",
        "message_gap_ns": "ns between two requests of a port: the inverse of the message rate",
        "program_ns": "ns that a program takes to see a message and to post the next one",
        "pair_latency_ns": "ns of a pair of adapters from memory to memory, without cables and switches",
        "vl_blocks": "receive buffer of each of eight data VLs in credits of 64 bytes, at most 2048 (IBA 7.9.4)",
        "perf_capability": "CapabilityMask of PerfMgt ClassPortInfo (IBA 16.1.3.1)",
        "perf_capability2": "CapabilityMask2 of the same",
        "power_w": "W of a card with passive cables, typical",
    }
    kind: ClassVar = "ca"

    generation: str
    vendor: str = "NVIDIA"
    device_ids: tuple[int, ...] = ()
    typical_of: tuple[str, ...] = ()
    ports: int = 1
    pcie_generation: int | None = None
    pcie_lanes: int | None = None
    host_gbps: float | None = None
    fetch_ns: int | None = None
    inline_ns_per_byte: float | None = None
    message_gap_ns: float | None = None
    program_ns: int | None = None
    pair_latency_ns: int | None = None
    vl_blocks: int | None = None
    perf_capability: int = 0
    perf_capability2: int = 0
    power_w: float | None = None

    @property
    def memory_gbps(self) -> float | None:
        """Return ``host_gbps`` if it is known, otherwise the rate of the adapter's PCIe. None if
        neither is known."""
        if self.host_gbps is not None or self.pcie_generation is None or self.pcie_lanes is None:
            return self.host_gbps
        return pcie_gbps(self.pcie_generation, self.pcie_lanes)


@dataclass(frozen=True)
class Switch(Part):
    """A switch chip. ``systems``: products built with this chip. The other fields are those of
    :class:`Adapter`."""

    FIGURES: ClassVar = {
        "radix": "external ports at the full speed",
        "latency_ns": "ns from port to port, without load",
        "packets_mps": "millions of packets a second",
        "adaptive_routing": "does it route adaptively?",
        "sharp_trees": "aggregation trees (SHARP); 0: none",
        "sharp_streaming_trees": "those of them that stream",
        "planes": "chips that carry a part of every port",
        "perf_capability": "CapabilityMask of PerfMgt ClassPortInfo (IBA 16.1.3.1)",
        "perf_capability2": "CapabilityMask2 of the same",
        "power_w": "W of a system with passive cables, typical",
    }
    kind: ClassVar = "switch"

    generation: str
    vendor: str = "NVIDIA"
    systems: tuple[str, ...] = ()
    device_ids: tuple[int, ...] = ()
    typical_of: tuple[str, ...] = ()
    radix: int = 0
    latency_ns: int = 0
    packets_mps: float | None = None
    adaptive_routing: bool = False
    sharp_trees: int = 0
    sharp_streaming_trees: int = 0
    planes: int | None = None
    perf_capability: int = 0
    perf_capability2: int = 0
    power_w: float | None = None

    @property
    def ports(self) -> int:
        """Number of external ports."""
        return self.radix


@dataclass(frozen=True)
class EthernetSwitch(Part):
    """An Ethernet switch whose fastest ports run at ``gbps``."""

    FIGURES: ClassVar = {
        "latency_ns": "ns from port to port, without load",
        "buffer_mib": "MiB of packet memory that radix ports of this speed share",
        "radix": "ports of this speed",
        "cut_through": "whether it sends before it has the whole frame",
        "power_w": "W of a system without load",
    }

    gbps: float
    latency_ns: int
    buffer_mib: float
    radix: int
    cut_through: bool
    power_w: float | None = None


@dataclass(frozen=True)
class Cable(Part):
    """A kind of cable: a ``medium`` (:class:`softib.fabric.columns.CableMedium`) of a
    ``generation``.

    ``orders`` maps each item to the vendor's order numbers by maximum length. Items are ``cable``
    (between two switches, or between a switch and a host if cages have one port), ``splitter``
    (from one cage of a switch to two hosts), ``cage`` and ``host`` (the transceivers of both ends),
    and ``fibre``.
    """

    FIGURES: ClassVar = {
        "reach_m": "longest cable in metres",
        "power_w": "W of the plug in a cage of a switch, which may carry two links",
        "host_power_w": "W of the plug in an adapter",
    }

    medium: str
    generation: str
    reach_m: float
    orders: Mapping[str, str] = field(default_factory=dict)
    power_w: float | None = None
    host_power_w: float | None = None


P = TypeVar("P", bound=Part)


def _rows(kind: type[P], file: str) -> tuple[P, ...]:
    """Return the rows of ``file``. Raises ValueError for a figure without a source, or a field that
    ``kind`` does not have."""
    rows = tomllib.loads((Path(__file__).parent / file).read_text(encoding="utf-8"))["part"]
    return tuple(_row(kind, file, row) for row in rows)


def _row(kind: type[P], file: str, row: dict[str, Any]) -> P:
    names = {f.name for f in fields(kind)} - {"sources"}
    values: dict[str, Any] = {}
    sources: dict[str, str] = {}
    for key, value in row.items():
        match value:
            case [figure, str(source)] if key in kind.FIGURES:
                values[key], sources[key] = figure, source
            case _ if key in names and key not in kind.FIGURES:
                values[key] = tuple(value) if isinstance(value, list) else value
            case _:
                raise ValueError(f"{file}: {row.get('name')}: {key} = {value}; a figure must be [value, source]")
    return kind(sources=sources, **values)


ADAPTERS = _rows(Adapter, "adapters.toml")
SWITCHES = _rows(Switch, "switches.toml")
ETHERNET_SWITCHES = _rows(EthernetSwitch, "ethernet_switches.toml")
CABLES = _rows(Cable, "cables.toml")

PART_BY_ID: dict[int, Adapter | Switch] = {
    **{number: part for part in ADAPTERS for number in part.device_ids},
    **{number: part for part in SWITCHES for number in part.device_ids},
}
"""The adapter or switch with each NodeInfo.DeviceID."""
ADAPTER_OF = {generation: part for part in ADAPTERS for generation in part.typical_of}
"""The typical adapter of each generation."""
SWITCH_OF = {generation: part for part in SWITCHES for generation in part.typical_of}
"""The typical switch of each generation."""


PCIE_GBPS = {1: 2.0, 2: 4.0, 3: 8 * 128 / 130, 4: 16 * 128 / 130, 5: 32 * 128 / 130, 6: 64 * 242 / 256}
"""Gb/s of a PCIe lane by generation, after line coding (8b/10b, 128b/130b, or FLITs of 256 bytes;
PCI Express base specification)."""
PCIE_PAYLOAD, PCIE_HEADERS = 512, 20
"""Bytes of a PCIe packet: the largest payload (assumed; servers set 128 to 512), and the headers
(framing 2, sequence number 2, header 12, CRC 4)."""


def pcie_gbps(generation: int, lanes: int) -> float:
    """Return the payload rate in Gb/s of a PCIe link in one direction."""
    return PCIE_GBPS[generation] * lanes * PCIE_PAYLOAD / (PCIE_PAYLOAD + PCIE_HEADERS)


def ethernet_switch(gbps: float) -> EthernetSwitch:
    """Return the first switch whose ports run at ``gbps`` (within 2 %), or the fastest switch if no
    port is that fast."""
    return next((p for p in ETHERNET_SWITCHES if p.gbps * 1.02 >= gbps), ETHERNET_SWITCHES[-1])


def cable(medium: str, generation: str) -> Cable | None:
    """Return the row of ``medium`` at ``generation``, or None if the catalogue has none."""
    return next((c for c in CABLES if (c.medium, c.generation) == (medium, generation)), None)
