"""LinkRecord (IBA 15.2.5.13): every cable, once in each direction."""

from __future__ import annotations

import numpy as np

from softib.iba.sa import LinkRecord as R
from softib.sm.sa.subnet import Subnet

__all__ = ["table"]


def table(subnet: Subnet) -> np.ndarray:
    """uint8[2 * cables, 8], ascending by LID and portnum of this end."""
    db, lid = subnet.db, subnet.lid_of_port
    rows = np.flatnonzero(db.port_peer >= 0)
    peer = db.port_peer[rows]
    rows = rows[(lid[rows] > 0) & (lid[peer] > 0)]
    rows = rows[np.lexsort((db.port_num[rows], lid[rows]))]
    peer = db.port_peer[rows]
    return R.pack(from_lid=lid[rows], from_port=db.port_num[rows], to_port=db.port_num[peer], to_lid=lid[peer])
