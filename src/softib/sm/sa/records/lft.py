"""LinearForwardingTableRecord (IBA 15.2.5.6): what was written to the switches."""

from __future__ import annotations

import numpy as np

from softib.iba.constants import LFT_BLOCK
from softib.iba.sa import LFTRecord as R
from softib.sm.sa.subnet import Subnet

__all__ = ["table"]


def table(subnet: Subnet) -> np.ndarray:
    """uint8[switches * blocks, 72], ascending by LID and block; blocks up to LinearFDBTop."""
    rows, lft = subnet.switch_rows, subnet.routing.lft
    blocks = lft.shape[1] // LFT_BLOCK
    out = R.zeros(len(rows) * blocks)
    out[:, 8:] = lft[rows].reshape(-1, LFT_BLOCK)
    R.lid.set(out, np.repeat(subnet.switch_lid[rows], blocks))
    R.block.set(out, np.tile(np.arange(blocks), len(rows)))
    return out
