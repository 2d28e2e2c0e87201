"""How many data VLs the ports of a fabric have: PortInfo's VLCap and the entries of its arbitration
tables.

Adapters and switches of NVIDIA since FDR report VL0-7 (:data:`softib.fabric.power_up.VL_CAP`), and
so does every device here unless its fabric says otherwise. The architecture has up to 15 (IBA
7.6.1), and so had QLogic's.
"""

from __future__ import annotations

import numpy as np

from softib.errors import InputError
from softib.fabric.model import Fabric
from softib.iba.smp import PortInfo
from softib.iba.virtual_lanes import CODE_OF_DATA_VLS

__all__ = ["set_data_vls"]

FEWEST_ENTRIES = 8
"""Of each arbitration table, whatever the VLs: what NVIDIA's ports report."""


def set_data_vls(fabric: Fabric, count: int) -> None:
    """Give every port that has VLs ``count`` data VLs, in place: before a manager configures the
    fabric, as if built so.

    A port arbitrates among its VLs by tables that have an entry for each at least (IBA 7.6.9: a
    table is as long as it says). A port 0 keeps what it has: it queues nothing. Raises
    :class:`InputError` for a count that no code of VLCap means.
    """
    code = CODE_OF_DATA_VLS.get(count)
    if code is None:
        raise InputError(f"{count} data VLs: a port has 1, 2, 4, 8 or 15")
    P, info = PortInfo, fabric.port_info
    ports = np.flatnonzero(~(fabric.is_switch[fabric.port_node] & (fabric.port_num == 0)))
    image = info[ports]
    P.vl_cap.set(image, code)
    P.operational_vls.set(image, code)
    for cap in (P.vl_arb_high_cap, P.vl_arb_low_cap):
        cap.set(image, max(FEWEST_ENTRIES, count) if count > 1 else 0)
    info[ports] = image
    fabric.power_on()
