"""Link widths, speeds and data rates.

A *speed* is named by its generation (``"EDR"``), a *width* by its lanes. The table itself is
:mod:`softib.iba.link_speeds`, from which the preload libraries are built too.
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
"""PortInfo.NeighborMTU code → bytes."""


def speed_named(name: str) -> LinkSpeed:
    """Return the generation named ``name`` (any case); raises :class:`UnknownName`."""
    try:
        return SPEED_BY_NAME[name.upper()]
    except KeyError:
        raise UnknownName("link speed", name, SPEED_BY_NAME) from None


LANE_DATA_GBPS = np.array([0.0, *(s.lane_data_gbps for s in SPEEDS)])
"""Data rate of one lane by speed code."""


def data_gbps(speed_code: np.ndarray | int, lanes: np.ndarray | int) -> np.ndarray:
    """Return the data rate in Gb/s of links with these speed codes and lane counts (0 where unknown)."""
    return LANE_DATA_GBPS[speed_code] * lanes
