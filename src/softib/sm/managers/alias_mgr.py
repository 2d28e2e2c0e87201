"""Writes alias GUIDs into the GUIDInfo of ports (IBA 14.2.5.5)."""

from __future__ import annotations

import numpy as np

from softib.iba.constants import GUID_BLOCK, SmpAttr
from softib.mad.smp_requests import RequestQueue
from softib.sm.sa.subnet import Subnet

__all__ = ["queue_aliases"]


def queue_aliases(subnet: Subnet, blocks: list[tuple[int, int, np.ndarray]], queue: RequestQueue) -> None:
    """Put a Set(GUIDInfo) for each (PortGUID, block, its entries) of a port that is there. Tags are
    ports."""
    ends = subnet.ends_of_guid(np.array([guid for guid, _, _ in blocks], np.uint64))
    here = np.flatnonzero(ends >= 0)
    if not len(here):
        return
    ports = subnet.end_port[ends[here]]
    data = np.zeros((len(here), GUID_BLOCK), ">u8")
    for row, i in enumerate(here.tolist()):
        data[row, : len(blocks[i][2])] = blocks[i][2]
    modifier = np.array([blocks[i][1] for i in here.tolist()], np.uint32)
    queue.set(SmpAttr.GUID_INFO, subnet.db.port_route[ports], ports, modifier, data.view(np.uint8))
