"""Which of the LIDs that ports already have may stay: those that are unicast, aligned to the port's
LMC, and unique (IBA 4.1.3)."""

from __future__ import annotations

import numpy as np

from softib.iba.constants import LID_UCAST_MAX
from softib.ragged import spread

__all__ = ["blocks_of", "may_stand"]


def may_stand(lid: np.ndarray, lmc: np.ndarray, subnet: np.ndarray | None = None) -> np.ndarray:
    """Return a mask (bool[ports]) of the ports that may keep their block of 2^LMC LIDs, which begins at base ``lid``.
    If several ports of a ``subnet`` (int64[ports]; None: all ports are on one subnet) have the same LID, the first
    keeps it. A port that loses one LID of its block loses the whole block.
    """
    lid, size = lid.astype(np.int64), 1 << lmc.astype(np.int64)
    good: np.ndarray = (lid > 0) & (lid % size == 0) & (lid + size - 1 <= LID_UCAST_MAX)
    rows = np.flatnonzero(good)
    row, offset = spread(size[rows])
    owner = rows[row]
    number = lid[owner] + offset
    number = number if subnet is None else subnet[owner].astype(np.int64) << 16 | number
    _, first = np.unique(number, return_index=True)
    is_first = np.zeros(len(owner), bool)
    is_first[first] = True
    good[owner[~is_first]] = False
    return good


def blocks_of(lid: np.ndarray, lmc: np.ndarray) -> np.ndarray:
    """Return all LIDs (int64) of the blocks of 2^LMC LIDs that begin at the base LIDs ``lid``."""
    row, offset = spread(1 << lmc.astype(np.int64))
    lids: np.ndarray = lid.astype(np.int64)[row] + offset
    return lids
