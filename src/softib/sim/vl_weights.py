"""What the VL arbitration tables of ports say about shares of a link (IBA 7.6.9, 14.2.5.9)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from softib.iba.smp import PortInfo

if TYPE_CHECKING:
    from softib.fabric.model import Fabric

__all__ = ["Weights", "weights_of"]

UNLIMITED = 255
"""HighLimit: low priority sends only where high has nothing to send."""
LIMIT_OCTETS, LOW_PACKET = 4096, 4096
"""Octets of one unit of HighLimit, and those of the low-priority packet that then may go (one MTU)."""

Weights = tuple[np.ndarray, np.ndarray, np.ndarray]
"""``high`` and ``low`` float64 by channel, ``high_share`` by port: see :func:`weights_of`."""


def weights_of(
    fabric: Fabric, port: np.ndarray, vl: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """``(high, low, share, idle)`` of channels (``port``, ``vl``): weights in both tables, the
    share of the high-priority table where both have something to send, and which channels no table
    serves although it serves others (they get weight 1 of the lowest).

    The high-priority table sends HighLimit × 4 KiB before a packet of the low one may go (0: one
    packet each). Tables without any entry, as ports have before somebody writes them, serve all VLs
    alike.
    """
    tables = fabric.vl_arb[port].reshape(len(port), 2, 64, -1).reshape(len(port), 2, 128)
    entries = tables.reshape(len(port), 2, 64, 2)  # low, high; VL and weight an entry
    wanted = (entries[..., 0] & 15) == vl[:, None, None]
    weight = (entries[..., 1] * wanted).sum(axis=2).astype(np.float64)
    written = entries[..., 1].any(axis=(1, 2))
    idle = written & (weight.sum(axis=1) == 0)
    low = np.where(written, np.where(idle, 1.0, weight[:, 0]), 1.0)
    high = np.where(written, weight[:, 1], 0.0)
    limit = PortInfo.vl_high_limit.get(fabric.port_info[port]).astype(np.float64)
    octets = np.where(limit == 0, LOW_PACKET, limit * LIMIT_OCTETS)
    share = np.where(limit == UNLIMITED, 1.0 - 1e-6, octets / (octets + LOW_PACKET))
    return high, low, share, idle
