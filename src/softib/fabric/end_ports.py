"""The end ports that traffic goes between, in one numbering for every layer of the simulator, and
the data rates of ports."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from softib.fabric.model import Fabric

__all__ = ["end_ports", "port_gbps"]


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


def port_gbps(fabric: Fabric, ports: np.ndarray | slice = slice(None)) -> np.ndarray:
    """Data rate of the links of ``ports`` (all of them) in Gb/s from active speed and width
    (float64; 0 = no link)."""
    from softib.fabric.power_up import active_speed_codes
    from softib.iba.rates import LANES_BY_BIT, data_gbps
    from softib.iba.smp import PortInfo

    lanes = np.zeros(256, np.int64)
    for bit, count in LANES_BY_BIT.items():
        lanes[bit] = count
    info = fabric.port_info[ports]
    width = lanes[PortInfo.link_width_active.get(info)]
    speed = active_speed_codes(info, fabric.port_mlnx_speed[ports])
    return np.asarray(np.where(fabric.linked[ports], data_gbps(speed, width), 0.0))
