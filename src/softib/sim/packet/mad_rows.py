"""Rows of the MADs that are in the run: the management plane's part of the packet layer's state."""

from __future__ import annotations

from typing import Any

import numpy as np

from softib.iba.constants import MAD_SIZE
from softib.sim.packet.tables.management import MAD_ROW, MADS, SMI

__all__ = ["grow_mads", "management_state"]

FIRST_MADS = 256


def management_state(ports: int) -> dict[str, np.ndarray]:
    """What the management plane has; one row where it is not in the run."""
    rows = FIRST_MADS if ports > 1 else 1
    mads, mad_row = MADS.zeros(1), MAD_ROW.zeros(rows)
    mad_row["next"][1:-1] = np.arange(2, rows)
    mads["free"], mads["spare"] = min(1, rows - 1), rows - 1
    return {
        "mads": mads,
        "smi": SMI.zeros(ports),
        "mad": np.zeros((rows, MAD_SIZE), np.uint8),
        "mad_row": mad_row,
        "inbox": np.zeros(rows, np.int64),
    }


def grow_mads(s: Any, more: int) -> Any:
    """The state with room for at least ``more`` MADs; rows of the new ones are in its list."""
    old = len(s.mad)
    if s.mads.spare >= more:
        return s
    rows = 2 * old + more
    mad, mad_row, inbox = (
        np.zeros((rows, MAD_SIZE), np.uint8),
        MAD_ROW.zeros(rows),
        np.zeros(rows, np.int64),
    )
    mad[:old], mad_row[:old], inbox[:old] = s.mad, s.mad_row, s.inbox
    mad_row["next"][old:-1] = np.arange(old + 1, rows)
    mad_row["next"][-1] = s.mads.free
    s.mads.free = old
    s.mads.spare += rows - old
    return s._replace(mad=mad, mad_row=mad_row, inbox=inbox)
