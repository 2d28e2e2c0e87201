"""What several tests of the packet layer use: ideal adapters, tables of managers, credits of a network that is empty."""

from __future__ import annotations

import numpy as np

from softib.iba.smp import PortInfo
from softib.sim.packet import constants

IDEAL = {"message_gap_ns": 0, "pcie_gbps": 1e6, "vl_blocks": 2048}
"""Adapters that limit nothing."""


def drained(net, s):
    """Let flow-control packets that are under way arrive."""
    free = s.vl["fccl"] + s.vl["first_blocks"] + s.vl["second_blocks"]
    for row in np.flatnonzero(s.vl["credits"]).tolist():
        c = int(s.vl["credits"][row])
        while c:
            free[row] += s.credit["blocks"][c]
            c = int(s.credit["next"][c])
    return (free - s.vl["fctbs"]) & constants.WRAP


def arbitration(fabric, low, high=(), limit=0):
    """Write the arbitration tables of all ports."""
    fabric.vl_arb[:] = 0
    for block, entries in ((0, low), (2, high)):
        for i, (vl, weight) in enumerate(entries):
            fabric.vl_arb[:, block, 2 * i], fabric.vl_arb[:, block, 2 * i + 1] = vl, weight
    PortInfo.vl_high_limit.set(fabric.port_info, limit)
    return fabric


def jain(x: np.ndarray) -> float:
    """Jain's index of fairness: 1 where all shares are equal, 1 / n where one has all."""
    return float(x.sum() ** 2 / len(x) / (x**2).sum())
