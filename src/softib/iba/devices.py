"""Properties of a device that follow from its NodeInfo: lookups by DeviceID in
:mod:`softib.iba.catalogue`, and recognition of hosts and aggregation nodes."""

from __future__ import annotations

from typing import Any

import numpy as np

from softib.iba.catalogue import ADAPTER_OF, PART_BY_ID, SWITCH_OF, SWITCHES
from softib.iba.constants import NodeType

DEVICES = PART_BY_ID
"""Row of the catalogue by DeviceID. ``generation`` is the device's fastest 4x speed, ``kind`` is
``ca`` or ``switch``, and ``ports`` is the number of physical ports."""


def _first_id(generation: str, parts: dict[str, Any]) -> int:
    """Return the DeviceID of the typical device of a generation. If no device of this generation
    has one, return that of the fastest generation that has one."""
    ids = parts[generation].device_ids
    return int(ids[0] if ids else [p.device_ids[0] for p in parts.values() if p.device_ids][-1])


CA_BY_GENERATION = {generation: _first_id(generation, ADAPTER_OF) for generation in ADAPTER_OF}
SWITCH_BY_GENERATION = {generation: _first_id(generation, SWITCH_OF) for generation in SWITCH_OF}
AR_SWITCHES = frozenset(number for part in SWITCHES if part.adaptive_routing for number in part.device_ids)
"""DeviceIDs of the switches that support adaptive routing."""
MELLANOX = 0x2C9
"""IEEE OUI of Mellanox/NVIDIA, which is the VendorID of its devices."""

MELLANOX_PARTS = frozenset(number for number, part in PART_BY_ID.items() if part.vendor == "NVIDIA")
"""DeviceIDs of the Mellanox/NVIDIA devices in the catalogue."""

AGGREGATION_NODE_ID = 0xCF09
"""DeviceID of SHARP aggregation nodes. All those in an ibdiagnet dump of 2023 (Quantum-2) have
it."""

AGGREGATION_NODE_DESC = "Mellanox Technologies Aggregation Node"
"""NodeDescription of the aggregation nodes in this dump."""
AGGREGATION_NODE = b"Aggregation Node"
"""Text in the NodeDescription of a SHARP aggregation node. It is a CA inside a switch, connected to
the port after the last external port (41 on Quantum, 65 on Quantum-2). It reduces data for hosts
and runs no programs.
"""


def is_host(node_type: np.ndarray, node_desc: np.ndarray) -> np.ndarray:
    """Return a mask (bool[nodes]) of the nodes on which programs run. This is softib's only
    definition of a host: a channel adapter that is not a SHARP aggregation node (firmware inside a
    switch). Routers, which forward between subnets, are not hosts."""
    return (node_type == NodeType.CA) & ~is_aggregation_node(node_desc)


def is_aggregation_node(node_desc: np.ndarray) -> np.ndarray:
    """Return a mask (bool[nodes]) of the aggregation nodes, from the wire images of
    NodeDescriptions (uint8[nodes, 64])."""
    raw = np.ascontiguousarray(node_desc).view("S64").reshape(len(node_desc)) if len(node_desc) else np.zeros(0, "S64")
    return np.char.find(raw, AGGREGATION_NODE) >= 0
