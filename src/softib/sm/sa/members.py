"""Partition membership as columns (IBA 10.9.3): two ports may talk when they share a P_Key and one
is a full member."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

__all__ = ["FULL", "LIMITED", "Members"]

LIMITED, FULL = 1, 2
FULL_BIT = 0x8000
BASE = 0x7FFF


@dataclass(frozen=True)
class Members:
    """``pkey`` uint16[partitions] without the membership bit, the one that is preferred first;
    ``state`` uint8[partitions, ends] of bits LIMITED and FULL; ``sl`` uint8[partitions]."""

    pkey: np.ndarray
    state: np.ndarray
    sl: np.ndarray

    @classmethod
    def everybody(cls, ends: int) -> Members:
        """All are full members of the default partition."""
        return cls(np.array([BASE], np.uint16), np.full((1, ends), FULL, np.uint8), np.zeros(1, np.uint8))

    def common(self, source: np.ndarray, target: np.ndarray, wanted: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(P_Key, SL) of each pair of ends, as the source's table has it; P_Key -1 where they share
        none.

        ``wanted`` int64[n] is a P_Key that must be it (its membership bit is ignored), -1 = any.
        """
        found, sl = np.full(len(source), -1), np.zeros(len(source), np.uint8)
        open_ = np.arange(len(source))
        for row, base in enumerate(self.pkey.tolist()):
            if not len(open_):
                break
            of, at = self.state[row, source[open_]], self.state[row, target[open_]]
            fits = (of > 0) & (at > 0) & (((of | at) & FULL) > 0)
            fits &= (wanted[open_] < 0) | ((wanted[open_] & BASE) == base)
            rows = open_[fits]
            found[rows] = base | np.where(of[fits] & FULL, FULL_BIT, 0)
            sl[rows] = self.sl[row]
            open_ = open_[~fits]
        return found, sl

    def has(self, end: int, pkey: int) -> bool:
        """Is the end a member of this partition (full where the P_Key says full)?"""
        rows = np.flatnonzero(self.pkey == (pkey & BASE))
        if not len(rows):
            return False
        state = int(self.state[rows[0], end])
        return bool(state & FULL) if pkey & FULL_BIT else state > 0
