"""A message over TCP between two hosts (packet layer)."""

from __future__ import annotations

from functools import cache

import numpy as np

from softib.fabric.builder import FabricBuilder
from softib.fabric.model import Fabric
from softib.iba.constants import NodeType
from softib.scenario.bring_up import bring_up
from softib.sim.messages import messages
from softib.sim.packet import PacketOptions, run

__all__ = ["tcp_us"]

SWITCHES = 3
INTERRUPT_US = 50.0
"""20,000 interrupts a second: what Linux's drivers of Intel's adapters (igb, ixgbe: low latency) allow. Not fitted."""


@cache
def _line() -> Fabric:
    """Two hosts at the ends of a line of switches."""
    b = FabricBuilder("line")
    switch = b.nodes(SWITCHES, NodeType.SWITCH, 2, desc=[f"switch-{i}" for i in range(SWITCHES)], speed="EDR")
    host = b.nodes(2, NodeType.CA, 1, desc=["host-0", "host-1"], speed="EDR")
    b.links(switch[[0, -1]], np.array([1, 2]), host, 1, length_m=2.0)
    b.links(switch[:-1], 2, switch[1:], 1, length_m=2.0)
    fabric = b.build()
    bring_up(fabric, "minhop")
    return fabric


def tcp_us(size: int, receive_ns: float, gbps: float = 1.0) -> float:
    """From MPI_Send to the end of MPI_Recv; ``receive_ns`` is what the receiver's stack and library take."""
    options = PacketOptions(
        network="tcp", ethernet={"gbps": gbps, "receive_us": receive_ns / 1000, "interrupt_us": INTERRUPT_US}
    )
    return float(run(_line(), messages([0], [1], size), options).arrived_ps[0]) / 1e6
