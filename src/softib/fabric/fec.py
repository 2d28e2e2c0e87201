"""Forward error correction of ports: what PortInfoExtended reads, of devices that advertise it.

The attribute is optional. Adapters and switches of the NDR generation advertise it: in an ibdiagnet
dump of a cluster of 2023 CapabilityMask2 is 0x432 on every ConnectX-7 and 0x43a or 0x43b on every
Quantum-2. So devices that support HDR or faster (:data:`ADVERTISED_FROM`), whose lanes know no link
without FEC, do; older ones do after :func:`advertise_fec`. OpenSM 3.3.23 does not ask for it;
perfquery and smpquery do, and show what RS-FEC counts only then.
"""

from __future__ import annotations

import numpy as np

from softib.fabric.model import Fabric
from softib.fabric.power_up import active_speed_codes
from softib.iba.constants import CapMask2
from softib.iba.rates import SPEED_BY_NAME, SPEEDS
from softib.iba.smp import PortInfo, PortInfoExtended

__all__ = ["ADVERTISED_FROM", "advertise_fec"]

ADVERTISED_FROM = "HDR"

FEC_MODES = 1
"""PortInfoExtended.CapMask bit 0: the FEC modes are valid."""
NO_FEC, FIRECODE, RS = 1, 2, 4
MODES = {"FDR": NO_FEC | FIRECODE, "EDR": NO_FEC | FIRECODE | RS, "HDR": RS, "NDR": RS}
"""Modes by generation (IBA 14.2.5.19): PAM4 lanes work with RS-FEC only."""
RS_ACTIVE = 2


def advertise_fec(fabric: Fabric, from_speed: str = "SDR") -> None:
    """Set CapabilityMask2 bit 1 on all end ports of devices that support ``from_speed`` or faster,
    and fill PortInfoExtended of all their ports from their speeds.

    Every mode that a generation allows is supported and enabled; RS-FEC is active on PAM4 links
    (HDR and faster), none on slower ones. XDR has no field in the attribute.
    """
    info, image = fabric.port_info, PortInfoExtended.zeros(fabric.sizes.ports)
    on_switch = fabric.is_switch[fabric.port_node]
    able = _supports(info, from_speed)
    end = able & (~on_switch | (fabric.port_num == 0))
    PortInfo.cap_mask2.set(info, PortInfo.cap_mask2.get(info) | np.where(end, int(CapMask2.PORT_INFO_EXT), 0))
    PortInfoExtended.cap_mask.set(image, FEC_MODES)
    supported = PortInfo.link_speed_ext_supported.get(info)
    for name, modes in MODES.items():
        here = np.where(supported & SPEED_BY_NAME[name].ext_bit, modes, 0)
        PortInfoExtended.fields[f"{name.lower()}_fec_mode_supported"].set(image, here)
        PortInfoExtended.fields[f"{name.lower()}_fec_mode_enabled"].set(image, here)
    pam4 = np.array([False, *(s.pam4 for s in SPEEDS)])[active_speed_codes(info, fabric.port_mlnx_speed)]
    PortInfoExtended.fec_mode_active.set(image, np.where(pam4 & fabric.linked, RS_ACTIVE, 0))
    if able.any() or fabric.port_info_ext.any():  # or pages that nobody wrote would come to life
        fabric.port_info_ext[:] = np.where(able[:, None], image[:, : fabric.port_info_ext.shape[1]], 0)


def _supports(info: np.ndarray, speed: str) -> np.ndarray:
    """bool[ports]: the port supports ``speed``."""
    spec = SPEED_BY_NAME[speed]
    fields = (PortInfo.link_speed_supported, spec.speed_bit), (PortInfo.link_speed_ext_supported, spec.ext_bit)
    return np.asarray(np.logical_or.reduce([(field.get(info) & bit) > 0 for field, bit in fields]))
