"""Devices that do not answer: each is left alone for longer and longer, so that it delays nobody."""

from __future__ import annotations

import numpy as np

__all__ = ["MOST_SKIPPED", "SilentDevices"]

MOST_SKIPPED = 64
"""Rounds that a device which never answers is left alone at most; it begins with 1 and doubles."""


class SilentDevices:
    """Which devices (by NodeGUID) missed how many rounds in a row, and until which round each is
    left alone."""

    def __init__(self) -> None:
        self._missed: dict[int, int] = {}
        self._skip_until: dict[int, int] = {}

    def skipped(self, guids: np.ndarray, round_: int) -> np.ndarray:
        """Those of ``guids`` that are left alone in this round. bool[d]"""
        away = [g for g, until in self._skip_until.items() if until > round_]
        return np.isin(guids, np.array(away, np.uint64))

    def missed(self, guid: int, round_: int) -> None:
        """It did not answer in this round."""
        missed = self._missed[guid] = self._missed.get(guid, 0) + 1
        self._skip_until[guid] = round_ + 1 + min(MOST_SKIPPED, 1 << (missed - 1))

    def ask_soon(self, guid: int) -> None:
        """It gave a sign of life: ask it in the next round."""
        self._skip_until.pop(guid, None)

    def settle(self, silent: np.ndarray, well: np.ndarray, round_: int) -> bool:
        """What a round showed: GUIDs that were silent, and that answered. True when one of the
        second had been silent before."""
        for guid in silent.tolist():
            self.missed(guid, round_)
        back = [g for g in well.tolist() if g in self._missed] if self._missed else []
        for guid in back:
            del self._missed[guid]
            self._skip_until.pop(guid, None)
        return bool(back)
