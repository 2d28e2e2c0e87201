"""Who gets which LIDs (IBA 4.1.3, 14.4.3).

OpenSM's rules: a LID that a port already has is kept when it is valid; the manager's own port is served first, the
others by ascending PortGUID, each with the lowest LIDs that are free. A CA port owns 2^LMC LIDs, the first a multiple of
2^LMC; port 0 of a switch owns one. With an LMC of 0 the LIDs are OpenSM's; with another one the blocks are given first and
single LIDs fill what is left (OpenSM goes by PortGUID alone), so that blocks are still free when LIDs are nearly used up.
"""

from __future__ import annotations

import numpy as np

from softib.errors import LimitError
from softib.iba.constants import LID_UCAST_MAX
from softib.iba.smp import PortInfo
from softib.sm.database import Database

__all__ = ["assign"]


def assign(db: Database, lmc: int) -> None:
    """Fill ``db.port_lid`` and ``db.port_lmc`` of every end port.

    Raises :class:`LimitError`, naming the limit, when the unicast LIDs do not suffice; nothing was sent by then.
    """
    ports = db.end_ports()
    wide = np.where(db.port_num[ports] == 0, 0, lmc)
    needed = int((1 << wide).sum())
    if needed > LID_UCAST_MAX:
        raise LimitError(
            f"this subnet needs {needed:,} LIDs (LMC {lmc}); a subnet has {LID_UCAST_MAX:,} unicast LIDs"
            " (IBA 4.1.3): split it, or lower the LMC"
        )
    info = db.port_info[ports]
    lid, used = _kept(PortInfo.lid.get(info).astype(np.int64), wide)
    for width in np.unique(wide)[::-1].tolist():  # aligned blocks first: single LIDs fit in what is left
        rows = np.flatnonzero((lid == 0) & (wide == width))
        free = _free_blocks(used, width)
        if len(free) < len(rows):
            raise LimitError(
                f"{len(rows)} ports need blocks of {1 << width} LIDs, and {len(free)} such blocks are free between the"
                f" LIDs that other ports keep; a subnet has {LID_UCAST_MAX:,} unicast LIDs (IBA 4.1.3)"
            )
        lid[rows] = free[: len(rows)]
        used[(lid[rows][:, None] + np.arange(1 << width)).ravel()] = True
    db.port_lid[:], db.port_lmc[:] = 0, 0
    db.port_lid[ports], db.port_lmc[ports] = lid, wide


def _kept(lid: np.ndarray, wide: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """LIDs that may stay (the others 0), and bool[LIDs] of what they take. The first owner in order keeps a LID."""
    size = 1 << wide
    valid = (lid > 0) & (lid % size == 0) & (lid + size - 1 <= LID_UCAST_MAX)
    used = np.zeros(LID_UCAST_MAX + 1, bool)
    used[0] = True
    rows = np.flatnonzero(valid)
    own = np.repeat(rows, size[rows])
    within = np.arange(len(own)) - np.repeat(np.cumsum(size[rows]) - size[rows], size[rows])
    taken = lid[own] + within
    _, first = np.unique(taken, return_index=True)
    is_first = np.zeros(len(own), bool)
    is_first[first] = True
    # A block stays only whole: one LID that an earlier port has, and the port moves.
    lost = np.unique(own[~is_first])
    valid[lost] = False
    keep = valid[own]
    used[taken[keep]] = True
    return np.where(valid, lid, 0), used


def _free_blocks(used: np.ndarray, width: int) -> np.ndarray:
    """First LIDs of the free aligned blocks of 2^``width``, ascending."""
    blocks = used.reshape(-1, 1 << width)
    return np.flatnonzero(~blocks.any(axis=1)) << width
