"""Rows of the MADs that are in the run: the management plane's part of the packet layer's state."""

from __future__ import annotations

from typing import Any

import numpy as np

from softib.iba.constants import MAD_SIZE
from softib.sim.packet import tables as t

__all__ = ["grow_mads", "management_state"]

FIRST_MADS = 256


def management_state(ports: int) -> dict[str, np.ndarray]:
    """What the management plane has; one row where it is not in the run."""
    rows = FIRST_MADS if ports > 1 else 1
    mads, mad_row = np.zeros(t.MADS_REGISTERS, np.int64), np.zeros((rows, t.MR_COLUMNS), np.int64)
    mad_row[1:-1, t.MR_NEXT] = np.arange(2, rows)
    mads[t.MADS_FREE], mads[t.MADS_SPARE] = min(1, rows - 1), rows - 1
    return {
        "mads": mads, "smi": np.zeros((ports, t.SMI_COLUMNS), np.int64), "mad": np.zeros((rows, MAD_SIZE), np.uint8),
        "mad_row": mad_row, "inbox": np.zeros(rows, np.int64),
    }  # fmt: skip


def grow_mads(s: Any, more: int) -> Any:
    """The state with room for at least ``more`` MADs; rows of the new ones are in its list."""
    old = len(s.mad)
    if s.mads[t.MADS_SPARE] >= more:
        return s
    rows = 2 * old + more
    mad, mad_row, inbox = (
        np.zeros((rows, MAD_SIZE), np.uint8),
        np.zeros((rows, t.MR_COLUMNS), np.int64),
        np.zeros(rows, np.int64),
    )
    mad[:old], mad_row[:old], inbox[:old] = s.mad, s.mad_row, s.inbox
    mad_row[old:-1, t.MR_NEXT] = np.arange(old + 1, rows)
    mad_row[-1, t.MR_NEXT] = s.mads[t.MADS_FREE]
    s.mads[t.MADS_FREE] = old
    s.mads[t.MADS_SPARE] += rows - old
    return s._replace(mad=mad, mad_row=mad_row, inbox=inbox)
