"""The end ports that traffic goes between: one numbering for every layer."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from softib.fabric.model import Fabric

__all__ = ["end_ports"]


def end_ports(fabric: Fabric) -> np.ndarray:
    """Ports (int32) that traffic begins and ends at: CA and router ports with a link and a LID,
    ascending by LID, then port 0 of each switch with a LID, ascending by LID. A row of this is what
    ``Messages.src`` and ``dst`` mean."""
    from softib.fabric.lids import unmanaged_ends, valid_lids

    ports, good = valid_lids(fabric)
    ports = ports[good & ~unmanaged_ends(fabric)[ports]]
    ports = ports[np.argsort(fabric.lid[ports], kind="stable")]
    of_switch = fabric.port_num[ports] == 0
    return np.concatenate([ports[~of_switch], ports[of_switch]]).astype(np.int32)
