"""PortInfoRecord (IBA 15.2.5.3): one for each port whose PortInfo is known."""

from __future__ import annotations

import numpy as np

from softib.iba.sa import PortInfoRecord as R
from softib.iba.sa import mask_of
from softib.sm.sa.subnet import Subnet

__all__ = ["bits_match", "table"]

MATCH_BITS = 1 << 31
"""AttributeModifier: CapabilityMask in the question selects ports that have at least these bits
(IBA 15.4.4.1, IsPortInfoCapabilityMaskMatchSupported)."""
CAP_MASK, CAP_MASK2 = mask_of(R, "cap_mask"), mask_of(R, "cap_mask2")


def table(subnet: Subnet) -> np.ndarray:
    """uint8[ports, 72], ascending by LID and portnum. All ports of a switch have the LID of its
    port 0."""
    rows = subnet.ports_with_info
    out = R.zeros(len(rows))
    out[:, 4:68] = subnet.db.port_info[rows]
    R.fields["endport_lid"].set(out, subnet.lid_of_port[rows])
    R.fields["portnum"].set(out, subnet.db.port_num[rows])
    return out


def bits_match(
    table: np.ndarray, comp_mask: int, query: np.ndarray, modifier: int
) -> tuple[np.ndarray | None, frozenset[str]]:
    """(rows that have the capability bits of ``query``, components that are dealt with); (None,
    none) without the modifier."""
    if not modifier & MATCH_BITS:
        return None, frozenset()
    keep = np.ones(len(table), bool)
    for bit, name in ((CAP_MASK, "cap_mask"), (CAP_MASK2, "cap_mask2")):
        if comp_mask & bit:
            wanted = R.fields[name].get(query)
            keep &= (R.fields[name].get(table) & wanted) == wanted
    return np.flatnonzero(keep), frozenset(("cap_mask", "cap_mask2"))
