"""Forward error correction of ports: what PortInfoExtended reads, for fabrics that advertise it.

The attribute is optional and OpenSM 3.3 does not ask for it, so a fabric has it only after :func:`advertise_fec`.
"""

from __future__ import annotations

import numpy as np

from softib.fabric.model import Fabric
from softib.fabric.power_up import active_speed_codes
from softib.iba.constants import CapMask2
from softib.iba.rates import SPEED_BY_NAME, SPEEDS
from softib.iba.smp import PortInfo, PortInfoExtended

__all__ = ["advertise_fec"]

FEC_MODES = 1
"""PortInfoExtended.CapMask bit 0: the FEC modes are valid."""
NO_FEC, FIRECODE, RS = 1, 2, 4
MODES = {"FDR": NO_FEC | FIRECODE, "EDR": NO_FEC | FIRECODE | RS, "HDR": RS, "NDR": RS}
"""Modes by generation (IBA 14.2.5.19): PAM4 lanes work with RS-FEC only."""
RS_ACTIVE = 2


def advertise_fec(fabric: Fabric) -> None:
    """Set CapabilityMask2 bit 1 on all end ports and fill PortInfoExtended of all ports from their speeds.

    Every mode that a generation allows is supported and enabled; RS-FEC is active on PAM4 links (HDR and faster), none
    on slower ones. XDR has no field in the attribute.
    """
    info, image = fabric.port_info, PortInfoExtended.zeros(fabric.sizes.ports)
    on_switch = fabric.is_switch[fabric.port_node]
    end = ~on_switch | (fabric.port_num == 0)
    PortInfo.cap_mask2.set(info, PortInfo.cap_mask2.get(info) | np.where(end, int(CapMask2.PORT_INFO_EXT), 0))
    PortInfoExtended.cap_mask.set(image, FEC_MODES)
    supported = PortInfo.link_speed_ext_supported.get(info)
    for name, modes in MODES.items():
        able = np.where(supported & SPEED_BY_NAME[name].ext_bit, modes, 0)
        PortInfoExtended.fields[f"{name.lower()}_fec_mode_supported"].set(image, able)
        PortInfoExtended.fields[f"{name.lower()}_fec_mode_enabled"].set(image, able)
    pam4 = np.array([False, *(s.pam4 for s in SPEEDS)])[active_speed_codes(info, fabric.port_mlnx_speed)]
    PortInfoExtended.fec_mode_active.set(image, np.where(pam4 & fabric.linked, RS_ACTIVE, 0))
    fabric.port_info_ext[:] = image[:, : fabric.port_info_ext.shape[1]]
