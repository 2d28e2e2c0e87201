"""Aggregation nodes of a fabric as the packet layer's tables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from softib.sim.messages import Messages
from softib.sim.packet import constants
from softib.sim.packet.profiles import DeviceProfile

if TYPE_CHECKING:
    from softib.fabric.model import Fabric

__all__ = ["aggregation_columns", "inside_links"]


def aggregation_columns(fabric: Fabric, net: Any, m: Messages, profile: DeviceProfile) -> None:
    """Where messages are reduced: set ``opt[AGGREGATES]``, and of each aggregation node its link,
    whose two ends are inside the switch, and what reducing takes. The node takes data as fast as
    all ports of its switch bring it."""
    if not m.reduces.any() or not fabric.sizes.sharps:
        return
    net.opt.aggregates = 1
    ports = fabric.node_base[fabric.sharp_node] + 1
    ports = ports[net.port["peer"][ports] >= 0]
    peers = net.port["peer"][ports]
    fs = np.maximum(net.port["fs"][peers] // np.maximum(net.port["ports"][peers] - 1, 1), 1)
    for ends in (ports, peers):
        net.port["fs"][ends], net.port["delay_ps"][ends] = fs, 0
        net.rare["blocks"][ends] = constants.WINDOW
    net.rare["reduce_fs"][ports] = fs
    net.rare["reduce_ps"][ports] = max(profile.reduce_ns * 1000, 1)


def inside_links(net: Any) -> np.ndarray:
    """Both ends of the links between switches and the aggregation nodes inside them (rows of
    ports), where messages are reduced: their rates and buffers are not those that link training
    says."""
    nodes = np.flatnonzero(net.rare["reduce_fs"] > 0)
    return np.concatenate([nodes, net.port["peer"][nodes].astype(np.int64)])
