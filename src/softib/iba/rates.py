"""Link widths, speeds and data rates.

A *speed* is named after its generation (``"EDR"``), a *width* after its number of lanes. The table
is in :mod:`softib.iba.link_speeds`, which the build of the preload libraries also reads.
"""

from __future__ import annotations

import numpy as np

from softib.errors import UnknownName
from softib.iba.link_speeds import SPEEDS, WIDTH_BITS, LinkSpeed

__all__ = [
    "LANES_BY_BIT",
    "LANE_DATA_GBPS",
    "MTU_BYTES",
    "SPEEDS",
    "SPEED_BY_CODE",
    "SPEED_BY_NAME",
    "WIDTH_BITS",
    "LinkSpeed",
    "data_gbps",
    "speed_named",
]


SPEED_BY_NAME = {s.name: s for s in SPEEDS}
SPEED_BY_CODE = {s.code: s for s in SPEEDS}

LANES_BY_BIT = {bit: lanes for lanes, bit in WIDTH_BITS.items()}

MTU_BYTES = {1: 256, 2: 512, 3: 1024, 4: 2048, 5: 4096}
"""Bytes of each PortInfo.NeighborMTU code."""


def speed_named(name: str) -> LinkSpeed:
    """Return the generation named ``name``, in upper or lower case. Raises :class:`UnknownName`."""
    try:
        return SPEED_BY_NAME[name.upper()]
    except KeyError:
        raise UnknownName("link speed", name, SPEED_BY_NAME) from None


LANE_DATA_GBPS = np.array([0.0, *(s.lane_data_gbps for s in SPEEDS)])
"""Data rate of one lane in Gb/s, indexed by speed code."""


def data_gbps(speed_code: np.ndarray | int, lanes: np.ndarray | int) -> np.ndarray:
    """Return the data rate in Gb/s of links with these speed codes and numbers of lanes; 0 =
    unknown."""
    return LANE_DATA_GBPS[speed_code] * lanes
