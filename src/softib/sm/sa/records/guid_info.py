"""GUIDInfoRecord (IBA 15.2.5.18): the GUID table of an end port. Entry 0 of block 0 is its
PortGUID, the others are alias GUIDs."""

from __future__ import annotations

import numpy as np

from softib.iba.constants import GUID_BLOCK
from softib.iba.sa import GUIDInfoRecord as R
from softib.iba.smp import PortInfo
from softib.ragged import spread
from softib.sm.sa.alias_guids import AliasGuids
from softib.sm.sa.subnet import Subnet

__all__ = ["table"]


def table(subnet: Subnet, aliases: AliasGuids) -> np.ndarray:
    """uint8[blocks, 72], as many blocks of an end port as its GUIDCap needs, ascending by LID and
    block."""
    cap = PortInfo.guid_cap.get(subnet.db.port_info[subnet.end_port[: subnet.physical]]).astype(np.int64)
    blocks = np.maximum(1, -(-cap // GUID_BLOCK))
    end, block = spread(blocks)
    guid0 = np.where(block == 0, subnet.end_guid[end], np.uint64(0))
    records: np.ndarray = R.pack(lid=subnet.end_lid[end], block=block, guid0=guid0)
    for guid, entries in aliases.tables.items():
        row = int(subnet.ends_of_guid(np.array([guid], np.uint64))[0])
        for at in np.flatnonzero(end == row).tolist() if row >= 0 else ():
            first = int(block[at]) * GUID_BLOCK
            for i, value in enumerate(entries[first : first + GUID_BLOCK].tolist()):
                R.fields[f"guid{i}"].set(records, value, np.array([at]))
    return records
