"""SMInfoRecord (IBA 15.2.5.10): this manager, and those that answered it."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from softib.iba.sa import SMInfoRecord as R
from softib.sm.sa.subnet import Subnet

__all__ = ["table"]


def table(subnet: Subnet, local: np.ndarray, others: Mapping[int, np.ndarray]) -> np.ndarray:
    """uint8[managers, 32]: ``local`` SMInfo (uint8[64]) first, then ``others`` by port of the
    database. The SM_Key is left out."""
    ports = [subnet.db.sm_port, *others]
    out = R.zeros(len(ports))
    out[:, 4:25] = np.stack([local, *others.values()])[:, :21]
    R.fields["lid"].set(out, subnet.lid_of_port[ports])
    R.fields["sm_key"].set(out, 0)
    return out
