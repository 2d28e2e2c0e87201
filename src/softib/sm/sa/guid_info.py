"""GUIDInfoRecord (IBA 15.2.5.18): the GUID table of an end port. Entry 0 of block 0 is its PortGUID; the subnet manager
gives no alias GUIDs, so the other entries are zero."""

from __future__ import annotations

import numpy as np

from softib.iba.constants import GUID_BLOCK
from softib.iba.sa import GUIDInfoRecord as R
from softib.iba.smp import PortInfo
from softib.sm.sa.subnet import Subnet

__all__ = ["table"]


def table(subnet: Subnet) -> np.ndarray:
    """uint8[blocks, 72], as many blocks of an end port as its GUIDCap needs, ascending by LID and block."""
    cap = PortInfo.guid_cap.get(subnet.db.port_info[subnet.end_port]).astype(np.int64)
    blocks = np.maximum(1, -(-cap // GUID_BLOCK))
    end = np.repeat(np.arange(len(subnet)), blocks)
    block = np.arange(len(end)) - np.repeat(np.cumsum(blocks) - blocks, blocks)
    guid0 = np.where(block == 0, subnet.end_guid[end], np.uint64(0))
    return R.pack(lid=subnet.end_lid[end], block=block, guid0=guid0)
