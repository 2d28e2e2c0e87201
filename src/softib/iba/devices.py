"""Facts about a part, from its NodeInfo: lookups by DeviceID in :mod:`softib.iba.catalogue`, and
recognition of aggregation nodes."""

from __future__ import annotations

from typing import Any

import numpy as np

from softib.iba.catalogue import ADAPTER_OF, PART_BY_ID, SWITCH_OF, SWITCHES
from softib.iba.constants import NodeType

DEVICES = PART_BY_ID
"""DeviceID → part. ``generation`` is its fastest 4x speed, ``kind`` is ``ca`` or ``switch``,
``ports`` counts physical ports."""


def _first_id(generation: str, parts: dict[str, Any]) -> int:
    """Return the DeviceID of the typical part of a generation; if no part of that generation has
    one, of the fastest generation that does."""
    ids = parts[generation].device_ids
    return int(ids[0] if ids else [p.device_ids[0] for p in parts.values() if p.device_ids][-1])


CA_BY_GENERATION = {generation: _first_id(generation, ADAPTER_OF) for generation in ADAPTER_OF}
SWITCH_BY_GENERATION = {generation: _first_id(generation, SWITCH_OF) for generation in SWITCH_OF}
AR_SWITCHES = frozenset(number for part in SWITCHES if part.adaptive_routing for number in part.device_ids)
"""DeviceIDs of switches that can route adaptively."""
MELLANOX = 0x2C9
"""IEEE OUI that is the VendorID of Mellanox/NVIDIA parts."""

MELLANOX_PARTS = frozenset(number for number, part in PART_BY_ID.items() if part.vendor == "NVIDIA")
"""DeviceIDs of Mellanox/NVIDIA parts in the catalogue."""

AGGREGATION_NODE_ID = 0xCF09
"""DeviceID of every SHARP aggregation node in an ibdiagnet dump of 2023 (Quantum-2)."""

AGGREGATION_NODE_DESC = "Mellanox Technologies Aggregation Node"
"""NodeDescription of these nodes."""
AGGREGATION_NODE = b"Aggregation Node"
"""Part of the NodeDescription of a SHARP aggregation node: a CA inside a switch, on the port after
the last external port (41 of Quantum, 65 of Quantum-2). It reduces data for hosts and runs no
programs.
"""


def is_host(node_type: np.ndarray, node_desc: np.ndarray) -> np.ndarray:
    """Return bool[nodes]: the nodes on which programs run. This is softib's only definition of a
    host: channel adapters, without SHARP aggregation nodes (firmware inside a switch) and without
    routers (which forward between subnets)."""
    return (node_type == NodeType.CA) & ~is_aggregation_node(node_desc)


def is_aggregation_node(node_desc: np.ndarray) -> np.ndarray:
    """Return bool[nodes] from NodeDescriptions as wire images (uint8[nodes, 64])."""
    raw = np.ascontiguousarray(node_desc).view("S64").reshape(len(node_desc)) if len(node_desc) else np.zeros(0, "S64")
    return np.char.find(raw, AGGREGATION_NODE) >= 0
