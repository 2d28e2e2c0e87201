"""MulticastForwardingTableRecord (IBA 15.2.5.8): what was written to the switches."""

from __future__ import annotations

import numpy as np

from softib.iba.constants import MFT_BLOCK, MFT_PORTS
from softib.iba.sa import MFTRecord as R
from softib.sm.managers.mcast_mgr import McastManager
from softib.sm.sa.subnet import Subnet

__all__ = ["table"]


def table(subnet: Subnet, groups: McastManager) -> np.ndarray:
    """uint8[n, 72], ascending by LID, block and position; blocks in which a switch forwards nothing
    are left out."""
    out = []
    for row in subnet.switch_rows.tolist():
        mft = groups.table_of(int(subnet.graph.switch_guid[row]))
        blocks = len(mft) // MFT_BLOCK
        masks = mft.reshape(blocks, MFT_BLOCK, 16)
        positions = -(-(int(subnet.graph.switch_nports[row]) + 1) // MFT_PORTS)
        for block in np.flatnonzero(masks.any(axis=(1, 2))).tolist():
            lid, mask = int(subnet.switch_lid[row]), masks[block, :, :positions].T
            out.append(R.pack(lid=lid, position=np.arange(positions), block=block, port_mask=mask))
    return np.concatenate(out) if out else R.zeros(0)
