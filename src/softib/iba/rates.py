"""Link widths, speeds and what they carry.

A *speed* is named by its generation (``"EDR"``), a *width* by its lanes. ``RATES`` gives signalling and data
rates of a 4x link. Sources: IBA 5.6 and 14.2.5.6 (codes); measured and published rates in the trade's tables.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from softib.errors import UnknownName


@dataclass(frozen=True)
class LinkSpeed:
    """One generation of lanes.

    ``lane_gbps`` is the signalling rate of one lane, ``lane_data_gbps`` what is left after encoding.
    ``speed_bit`` is the bit in PortInfo.LinkSpeed* (0: none), ``ext_bit`` in LinkSpeedExt*, ``ext2_bit`` in
    LinkSpeedExt2*, ``mlnx_bit`` in the Mellanox ExtendedPortInfo. ``pam4`` lanes carry two bits a symbol and
    need forward error correction.
    """

    name: str
    code: int
    lane_gbps: float
    lane_data_gbps: float
    speed_bit: int = 0
    ext_bit: int = 0
    ext2_bit: int = 0
    mlnx_bit: int = 0
    pam4: bool = False


SPEEDS: tuple[LinkSpeed, ...] = (
    LinkSpeed("SDR", 1, 2.5, 2.0, speed_bit=1),
    LinkSpeed("DDR", 2, 5.0, 4.0, speed_bit=2),
    LinkSpeed("QDR", 3, 10.0, 8.0, speed_bit=4),
    LinkSpeed("FDR10", 4, 10.3125, 10.0, speed_bit=4, mlnx_bit=1),
    LinkSpeed("FDR", 5, 14.0625, 14.0625 * 64 / 66, ext_bit=1),
    LinkSpeed("EDR", 6, 25.78125, 25.0, ext_bit=2),
    LinkSpeed("HDR", 7, 53.125, 50.0, ext_bit=4, pam4=True),
    LinkSpeed("NDR", 8, 106.25, 100.0, ext_bit=8, pam4=True),
    LinkSpeed("XDR", 9, 212.5, 200.0, ext2_bit=1, pam4=True),
    LinkSpeed("GDR", 10, 425.0, 400.0, ext2_bit=2, pam4=True),
)
"""Slowest first. ``code`` is our own dense number (0 = unknown): a larger code is a faster lane."""

SPEED_BY_NAME = {s.name: s for s in SPEEDS}
SPEED_BY_CODE = {s.code: s for s in SPEEDS}

WIDTH_BITS = {1: 1, 4: 2, 8: 4, 12: 8, 2: 16}
"""Lanes → bit of PortInfo.LinkWidth* (IBA 14.2.5.6)."""
LANES_BY_BIT = {bit: lanes for lanes, bit in WIDTH_BITS.items()}

MTU_BYTES = {1: 256, 2: 512, 3: 1024, 4: 2048, 5: 4096}
"""PortInfo.NeighborMTU code → octets."""


def speed_named(name: str) -> LinkSpeed:
    """The generation called ``name`` (any case); raises :class:`UnknownName`."""
    try:
        return SPEED_BY_NAME[name.upper()]
    except KeyError:
        raise UnknownName("link speed", name, SPEED_BY_NAME) from None


LANE_DATA_GBPS = np.array([0.0, *(s.lane_data_gbps for s in SPEEDS)])
"""Data rate of one lane by speed code."""


def data_gbps(speed_code: np.ndarray | int, lanes: np.ndarray | int) -> np.ndarray:
    """Data rate in Gb/s of links with these speed codes and lane counts (0 where unknown)."""
    return LANE_DATA_GBPS[speed_code] * lanes
