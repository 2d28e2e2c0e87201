"""Aggregation nodes of a fabric as the packet layer's tables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from softib.sim.messages import Messages
from softib.sim.packet import tables as t
from softib.sim.packet.profiles import DeviceProfile

if TYPE_CHECKING:
    from softib.fabric.model import Fabric

__all__ = ["aggregation_columns", "inside_links"]


def aggregation_columns(fabric: Fabric, net: Any, m: Messages, profile: DeviceProfile) -> None:
    """Where messages are reduced: set ``opt[AGGREGATES]``, and of each aggregation node its link, whose two ends are inside the switch, and what
    reducing takes. The node takes data as fast as all ports of its switch bring it."""
    if not m.reduces.any() or not fabric.sizes.sharps:
        return
    net.opt[t.AGGREGATES] = 1
    ports = fabric.node_base[fabric.sharp_node] + 1
    ports = ports[net.port[ports, t.PEER] >= 0]
    peers = net.port[ports, t.PEER]
    fs = np.maximum(net.port[peers, t.FS] // np.maximum(net.port[peers, t.PORTS] - 1, 1), 1)
    for ends in (ports, peers):
        net.port[ends, t.FS], net.port[ends, t.DELAY] = fs, 0
        net.rare[ends, t.BLOCKS] = t.WINDOW
    net.rare[ports, t.REDUCE_FS] = fs
    net.rare[ports, t.REDUCE_PS] = max(profile.reduce_ns * 1000, 1)


def inside_links(net: Any) -> np.ndarray:
    """Both ends of the links between switches and the aggregation nodes inside them (rows of ports), where messages are reduced: their rates and buffers are
    not those that link training says."""
    nodes = np.flatnonzero(net.rare[:, t.REDUCE_FS] > 0)
    return np.concatenate([nodes, net.port[nodes, t.PEER].astype(np.int64)])
