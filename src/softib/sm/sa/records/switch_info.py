"""SwitchInfoRecord (IBA 15.2.5.5)."""

from __future__ import annotations

import numpy as np

from softib.iba.sa import SwitchInfoRecord as R
from softib.sm.sa.subnet import Subnet

__all__ = ["table"]


def table(subnet: Subnet) -> np.ndarray:
    """uint8[switches, 24], ascending by LID."""
    rows = subnet.switch_rows
    out = R.zeros(len(rows))
    out[:, 4:24] = subnet.db.switch_info[subnet.graph.switch_node[rows], :20]
    R.fields["lid"].set(out, subnet.switch_lid[rows])
    return out
