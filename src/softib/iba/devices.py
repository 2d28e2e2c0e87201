"""Device IDs of real InfiniBand parts: what a DeviceID tells about a node's generation.

Facts from the public PCI ID list and vendors' product pages. ``generation`` is the fastest 4x speed of the part.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from softib.iba.constants import NodeType


@dataclass(frozen=True)
class Device:
    """A part: name of the trade, generation, kind (``ca`` or ``switch``), physical ports."""

    name: str
    generation: str
    kind: str
    ports: int


DEVICES: dict[int, Device] = {
    0x5A44: Device("InfiniHost", "SDR", "ca", 2),
    0x6278: Device("InfiniHost III Ex", "DDR", "ca", 2),
    0x6282: Device("InfiniHost III Ex", "DDR", "ca", 2),
    0x6274: Device("InfiniHost III Lx", "DDR", "ca", 1),
    0x634A: Device("ConnectX", "DDR", "ca", 2),
    0x6732: Device("ConnectX", "DDR", "ca", 2),
    0x673C: Device("ConnectX-2", "QDR", "ca", 2),
    0x1003: Device("ConnectX-3", "FDR", "ca", 2),
    0x1007: Device("ConnectX-3 Pro", "FDR", "ca", 2),
    0x1011: Device("Connect-IB", "FDR", "ca", 2),
    0x1013: Device("ConnectX-4", "EDR", "ca", 1),
    0x1017: Device("ConnectX-5", "EDR", "ca", 1),
    0x1019: Device("ConnectX-5 Ex", "EDR", "ca", 1),
    0x101B: Device("ConnectX-6", "HDR", "ca", 1),
    0x1021: Device("ConnectX-7", "NDR", "ca", 1),
    0x1023: Device("ConnectX-8", "XDR", "ca", 1),
    0xA2D2: Device("BlueField", "EDR", "ca", 1),
    0xA2D6: Device("BlueField-2", "HDR", "ca", 1),
    0xA2DC: Device("BlueField-3", "NDR", "ca", 1),
    0xB924: Device("InfiniScale III", "DDR", "switch", 24),
    0xBD36: Device("InfiniScale IV", "QDR", "switch", 36),
    0xC738: Device("SwitchX", "FDR", "switch", 36),
    0xCB20: Device("Switch-IB", "EDR", "switch", 36),
    0xCF08: Device("Switch-IB 2", "EDR", "switch", 36),
    0xD2F0: Device("Quantum", "HDR", "switch", 40),
    0xD2F2: Device("Quantum-2", "NDR", "switch", 64),
    0xD2F4: Device("Quantum-3", "XDR", "switch", 144),
}

CA_BY_GENERATION = {
    "SDR": 0x5A44, "DDR": 0x634A, "QDR": 0x673C, "FDR10": 0x1003, "FDR": 0x1003,
    "EDR": 0x1017, "HDR": 0x101B, "NDR": 0x1021, "XDR": 0x1023, "GDR": 0x1023,
}  # fmt: skip
SWITCH_BY_GENERATION = {
    "SDR": 0xB924, "DDR": 0xB924, "QDR": 0xBD36, "FDR10": 0xC738, "FDR": 0xC738,
    "EDR": 0xCF08, "HDR": 0xD2F0, "NDR": 0xD2F2, "XDR": 0xD2F4, "GDR": 0xD2F4,
}  # fmt: skip
AR_SWITCHES = frozenset({0xCF08, 0xD2F0, 0xD2F2, 0xD2F4})
"""DeviceIDs of switches that can route adaptively: Switch-IB 2 and the Quantums."""
MELLANOX = 0x2C9
"""IEEE OUI that Mellanox/NVIDIA parts carry as VendorID."""

AGGREGATION_NODE_ID = 0xCF09
"""DeviceID that every SHARP aggregation node of an ibdiagnet dump of 2023 has (Quantum-2)."""

AGGREGATION_NODE_DESC = "Mellanox Technologies Aggregation Node"
"""NodeDescription of the same."""
AGGREGATION_NODE = b"Aggregation Node"
"""Part of the NodeDescription of a SHARP aggregation node: a CA inside a switch, on the port behind its last external
one (41 of Quantum, 65 of Quantum-2). It computes for others and runs no program."""


def is_host(node_type: np.ndarray, node_desc: np.ndarray) -> np.ndarray:
    """bool[nodes]: nodes on which programs run, and nothing else is a host anywhere in softib: channel adapters, without SHARP
    aggregation nodes (firmware inside a switch) and without routers (which forward between subnets)."""
    return (node_type == NodeType.CA) & ~is_aggregation_node(node_desc)


def is_aggregation_node(node_desc: np.ndarray) -> np.ndarray:
    """bool[nodes] from NodeDescriptions as wire images (uint8[nodes, 64])."""
    raw = np.ascontiguousarray(node_desc).view("S64").reshape(len(node_desc)) if len(node_desc) else np.zeros(0, "S64")
    return np.char.find(raw, AGGREGATION_NODE) >= 0
