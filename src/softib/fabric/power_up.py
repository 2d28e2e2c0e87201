"""PortInfo and SwitchInfo after power-up, before a subnet manager sets them. The capabilities are
those of current adapters and switches. A comment names the source of each value.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from softib.fabric.model import Fabric
from softib.iba.constants import DEFAULT_GID_PREFIX, CapMask, CapMask2, PhysState
from softib.iba.rates import SPEED_BY_NAME, SPEEDS, WIDTH_BITS, speed_named
from softib.iba.smp import PortInfo, PortInfoExtended, SwitchInfo

CA_CAP_MASK = (
    CapMask.TRAP
    | CapMask.SL_MAPPING
    | CapMask.SYS_IMAGE_GUID
    | CapMask.EXTENDED_SPEEDS
    | CapMask.CAP_MASK2
    | CapMask.COMM_MGMT
    | CapMask.VENDOR_CLASS
    | CapMask.CAP_MASK_NOTICE
    | CapMask.CLIENT_REREGISTER
    | CapMask.OTHER_LOCAL_CHANGES
)
SWITCH_CAP_MASK = (
    CapMask.TRAP
    | CapMask.SL_MAPPING
    | CapMask.SYS_IMAGE_GUID
    | CapMask.EXTENDED_SPEEDS
    | CapMask.CAP_MASK2
    | CapMask.VENDOR_CLASS
    | CapMask.CAP_MASK_NOTICE
    | CapMask.CLIENT_REREGISTER
    | CapMask.MCAST_FDB_TOP
    | CapMask.OTHER_LOCAL_CHANGES
    # set in 0xe550d848, the CapabilityMask of every Quantum-2 switch in an ibdiagnet dump of 2023
    | CapMask.PKEY_EXT_PORT_TRAP
)
VL_CAP = 4  # VL0-7; NVIDIA devices have reported this value since FDR
MTU_4096 = 5
MCAST_FDB_CAP = 1024
SUBNET_TIMEOUT, EXTERNAL_HOQ_LIFE = 18, 16
PHY_ERRORS = 8
"""Value of the thresholds for local link integrity errors and buffer overruns."""


def speed_codes(speed: Any) -> np.ndarray:
    """Return the codes of :mod:`softib.iba.rates` for a generation name or a sequence of names.
    Codes are returned unchanged."""
    if isinstance(speed, str):
        return np.asarray(speed_named(speed).code)
    values = np.asarray(speed)
    if values.dtype.kind == "U":
        return np.array([speed_named(s).code for s in values.ravel()]).reshape(values.shape)
    return values


def _bits_up_to(attribute: str) -> np.ndarray:
    """Return, for each speed code, the bits of this speed and all slower speeds."""
    table = np.zeros(len(SPEEDS) + 1, np.int64)
    for s in SPEEDS:
        table[s.code] = table[s.code - 1] | getattr(s, attribute)
    return table


def _bit_of(attribute: str) -> np.ndarray:
    return np.array([0, *(getattr(s, attribute) for s in SPEEDS)])


def port_info_image(
    f: Fabric, supported: np.ndarray, lanes: np.ndarray, active: np.ndarray, active_lanes: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the PortInfo (``uint8[ports, 64]``) and the Mellanox speeds (``uint8[ports, 3]``) of
    ports at power-up.

    ``supported`` and ``active`` are speed codes; ``active`` 0 means no link. ``lanes`` and
    ``active_lanes`` are numbers of lanes.
    """
    info = PortInfo.zeros(f.sizes.ports)
    on_switch = f.is_switch[f.port_node]
    port0 = on_switch & (f.port_num == 0)
    external = on_switch & ~port0
    P = PortInfo
    cap = np.where(port0, SWITCH_CAP_MASK, np.where(external, 0, CA_CAP_MASK))
    cap2 = int(CapMask2.SET_NODE_DESC) | np.where(
        supported >= SPEED_BY_NAME["HDR"].code, CapMask2.LINK_WIDTH_2X | CapMask2.LINK_SPEED_HDR, 0
    )
    cap2 = cap2 | np.where(supported >= SPEED_BY_NAME["NDR"].code, CapMask2.LINK_SPEED_NDR, 0)
    xdr = CapMask2.EXTENDED_SPEEDS2 | CapMask2.LINK_SPEED_XDR
    cap2 = cap2 | np.where(supported >= SPEED_BY_NAME["XDR"].code, xdr, 0)
    P.gid_prefix.set(info, DEFAULT_GID_PREFIX)
    P.cap_mask.set(info, cap)
    P.cap_mask2.set(info, np.where(external, 0, cap2))
    P.local_port_num.set(info, f.port_num)
    _write_widths(info, lanes, active_lanes)
    mlnx = write_speeds(info, supported, active)
    P.link_down_default_state.set(info, np.where(port0, 0, PhysState.POLLING))
    P.neighbor_mtu.set(info, np.where(active > 0, MTU_4096, 1))
    P.mtu_cap.set(info, MTU_4096)
    P.vl_cap.set(info, VL_CAP)
    P.operational_vls.set(info, np.where(port0, 1, VL_CAP))
    P.vl_arb_high_cap.set(info, np.where(port0, 0, 8))
    P.vl_arb_low_cap.set(info, np.where(port0, 0, 8))
    P.guid_cap.set(info, np.where(external, 0, np.where(port0, 1, 32)))
    P.subnet_timeout.set(info, np.where(external, 0, SUBNET_TIMEOUT))
    P.resp_time_value.set(info, 16)
    P.hoq_life.set(info, np.where(external, EXTERNAL_HOQ_LIFE, 0))
    P.local_phy_errors.set(info, PHY_ERRORS)
    P.overrun_errors.set(info, PHY_ERRORS)
    return info, mlnx


def _write_widths(info: np.ndarray, lanes: np.ndarray, active_lanes: np.ndarray) -> None:
    bit = np.zeros(16, np.int64)
    upto = np.zeros(16, np.int64)
    for n in (1, 2, 4, 8, 12):
        bit[n] = WIDTH_BITS[n]
        upto[n] = sum(WIDTH_BITS[m] for m in WIDTH_BITS if m in (1, n))
    PortInfo.link_width_supported.set(info, upto[lanes])
    PortInfo.link_width_enabled.set(info, upto[lanes])
    # A port without a link reports 4x, as Linux and ibsim do.
    PortInfo.link_width_active.set(info, np.where(active_lanes > 0, bit[active_lanes], WIDTH_BITS[4]))


def write_speeds(info: np.ndarray, supported: np.ndarray, active: np.ndarray) -> np.ndarray:
    """Write the speeds of ports into ``info``. Return the ports' Mellanox speeds (``uint8[ports,
    3]``)."""
    P = PortInfo
    speeds, ext, ext2 = (_bits_up_to(a) for a in ("speed_bit", "ext_bit", "ext2_bit"))
    P.link_speed_supported.set(info, speeds[supported])
    P.link_speed_enabled.set(info, speeds[supported])
    P.link_speed_ext_supported.set(info, ext[supported])
    P.link_speed_ext_enabled.set(info, ext[supported])
    P.link_speed_ext2_supported.set(info, ext2[supported] & 3)
    P.link_speed_ext2_enabled.set(info, ext2[supported] & 7)
    plain = _bit_of("speed_bit")[active]
    # While an extended speed is active, LinkSpeedActive is QDR (IBA 14.2.5.6, LinkSpeedExtActive).
    is_ext = (_bit_of("ext_bit")[active] > 0) | (_bit_of("ext2_bit")[active] > 0)
    P.link_speed_active.set(info, np.where(is_ext, 4, np.where(plain > 0, plain, 1)))
    P.link_speed_ext_active.set(info, _bit_of("ext_bit")[active])
    P.link_speed_ext2_active.set(info, _bit_of("ext2_bit")[active] & 3)
    mlnx = np.stack(
        [_bits_up_to("mlnx_bit")[supported] & 1, _bits_up_to("mlnx_bit")[supported] & 1, _bit_of("mlnx_bit")[active]],
        axis=1,
    )
    return mlnx.astype(np.uint8)


def active_speed_codes(info: np.ndarray, mlnx: np.ndarray) -> np.ndarray:
    """Return the speed code of each port, from its PortInfo image and Mellanox speeds. This is the
    inverse of :func:`write_speeds`."""
    P = PortInfo
    code = np.zeros(info.shape[:-1], np.uint8)
    plain, ext, ext2 = (
        P.link_speed_active.get(info),
        P.link_speed_ext_active.get(info),
        P.link_speed_ext2_active.get(info),
    )
    for s in SPEEDS:
        hit = np.zeros(code.shape, bool)
        if s.ext2_bit:
            hit = (ext2 & s.ext2_bit) > 0
        elif s.ext_bit:
            hit = (ext & s.ext_bit) > 0
        elif s.mlnx_bit:
            hit = (mlnx[..., 2] & s.mlnx_bit) > 0
        elif s.speed_bit:
            hit = (plain & s.speed_bit) > 0
        code[hit] = s.code
    return code


def switch_info_image(f: Fabric) -> np.ndarray:
    """Return SwitchInfo (``uint8[switches, 64]``) at power-up."""
    info = SwitchInfo.zeros(f.sizes.switches)
    S = SwitchInfo
    S.linear_fdb_cap.set(info, min(f.sizes.lft_cap, 0xC000))
    S.mcast_fdb_cap.set(info, min(f.sizes.mlids, MCAST_FDB_CAP))
    S.life_time_value.set(info, 16)
    S.lids_per_port.set(info, 0)
    S.partition_enforcement_cap.set(info, 32)
    S.inbound_enforcement_cap.set(info, 1)
    S.outbound_enforcement_cap.set(info, 1)
    S.enhanced_port0.set(info, 0)
    S.optimized_sl2vl.set(info, 1)
    return info


ADVERTISED_FROM = "HDR"

FEC_MODES = 1
"""PortInfoExtended.CapMask bit 0: the attribute's FEC modes are valid."""
NO_FEC, FIRECODE, RS = 1, 2, 4
MODES = {"FDR": NO_FEC | FIRECODE, "EDR": NO_FEC | FIRECODE | RS, "HDR": RS, "NDR": RS}
"""FEC modes of each generation (IBA 14.2.5.19). PAM4 lanes work only with RS-FEC."""
RS_ACTIVE = 2


def advertise_fec(fabric: Fabric, from_speed: str = "SDR") -> None:
    """Set CapabilityMask2 bit 1 on all end ports of the devices that support ``from_speed`` or
    faster. Fill PortInfoExtended of all ports of these devices from their speeds.

    A port supports and enables all modes of its generation. RS-FEC is active on PAM4 links (HDR and
    faster); no FEC is active on slower links. The attribute has no field for XDR.
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
    if able.any() or fabric.port_info_ext.any():  # a write of zeros would also allocate the pages
        fabric.port_info_ext[:] = np.where(able[:, None], image[:, : fabric.port_info_ext.shape[1]], 0)


def _supports(info: np.ndarray, speed: str) -> np.ndarray:
    """Return a mask (bool[ports]) of the ports that support ``speed``."""
    spec = SPEED_BY_NAME[speed]
    fields = (PortInfo.link_speed_supported, spec.speed_bit), (PortInfo.link_speed_ext_supported, spec.ext_bit)
    return np.asarray(np.logical_or.reduce([(field.get(info) & bit) > 0 for field, bit in fields]))
