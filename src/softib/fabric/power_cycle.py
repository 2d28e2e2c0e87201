"""What a power cycle leaves of a fabric: what the hardware is, and the power-up value of all that MADs write.

IBA 14.2.5 gives the power-up values ("initialization" of each component); where it leaves them to the vendor they are
those of :mod:`softib.fabric.power_up` and :mod:`softib.fabric.builder`. What cables carry (active width and speed)
and what devices are called stays: neither is a manager's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from softib.fabric.power_up import EXTERNAL_HOQ_LIFE, MTU_4096, PHY_ERRORS, SUBNET_TIMEOUT
from softib.iba.constants import DEFAULT_GID_PREFIX, DEFAULT_PKEY, CapMask, PhysState, PortState
from softib.iba.smp import PortInfo, PortInfoExtended, SwitchInfo

if TYPE_CHECKING:
    from softib.fabric.model import Fabric

__all__ = ["POWER_UP_SL2VL", "reset"]

POWER_UP_SL2VL = np.array([0x01, 0x23, 0x45, 0x67, 0x01, 0x23, 0x45, 0x67], np.uint8)
"""SL n on VL n mod 8: every SL has a VL that the port has."""
LIFE_TIME = 16


def reset(f: Fabric) -> None:
    """Put every configuration that MADs write to its power-up value; cabled ports train to INIT (IBA 7.2.7)."""
    port0 = f.is_switch[f.port_node] & (f.port_num == 0)
    external = f.is_switch[f.port_node] & ~port0
    _port_info(f, port0, external)
    _switches(f)
    _tables(f, external)
    for column in (f.op_code, f.sample_control, f.sample_ps, f.class_traps, f.cc_key_info, f.cc_port_setting,
                   f.cc_ca_setting, f.cc_table, f.cc_switch_setting, f.vl_arb):  # fmt: skip
        if column.any():  # or pages that nobody wrote would come to life
            column[...] = 0
    if f.port_info_ext.any():
        for speed in ("fdr", "edr", "hdr", "ndr"):
            supported = PortInfoExtended.fields[f"{speed}_fec_mode_supported"].get(f.port_info_ext)
            PortInfoExtended.fields[f"{speed}_fec_mode_enabled"].set(f.port_info_ext, supported)


def _port_info(f: Fabric, port0: np.ndarray, external: np.ndarray) -> None:
    P, info, up = PortInfo, f.port_info, f.linked
    for field in (P.mkey, P.lid, P.master_sm_lid, P.mkey_lease_period, P.mkey_protect, P.lmc, P.master_sm_sl, P.init_type,
                  P.vl_high_limit, P.init_type_reply, P.vl_stall_count, P.partition_enforcement_inbound,
                  P.partition_enforcement_outbound, P.filter_raw_inbound, P.filter_raw_outbound, P.mkey_violations,
                  P.pkey_violations, P.qkey_violations, P.client_reregister, P.mcast_pkey_trap_suppression):  # fmt: skip
        field.set(info, 0)
    P.gid_prefix.set(info, DEFAULT_GID_PREFIX)
    P.cap_mask.set(info, P.cap_mask.get(info) & ~np.uint32(CapMask.IS_SM))
    P.link_width_enabled.set(info, P.link_width_supported.get(info))
    P.link_speed_enabled.set(info, P.link_speed_supported.get(info))
    P.link_speed_ext_enabled.set(info, P.link_speed_ext_supported.get(info))
    P.link_speed_ext2_enabled.set(info, P.link_speed_ext2_supported.get(info))
    f.port_mlnx_speed[:, 1] = f.port_mlnx_speed[:, 0]
    P.link_down_default_state.set(info, np.where(port0, 0, PhysState.POLLING))
    # NeighborMTU is what the port may send at most; beyond the smallest only where there is a link.
    P.neighbor_mtu.set(info, np.where(up, np.minimum(MTU_4096, P.mtu_cap.get(info)), 1))
    P.operational_vls.set(info, np.where(port0, 1, P.vl_cap.get(info)))
    P.subnet_timeout.set(info, np.where(external, 0, SUBNET_TIMEOUT))
    P.hoq_life.set(info, np.where(external, EXTERNAL_HOQ_LIFE, 0))
    P.local_phy_errors.set(info, PHY_ERRORS)
    P.overrun_errors.set(info, PHY_ERRORS)
    P.port_state.set(info, np.where(port0, PortState.ACTIVE, np.where(up, PortState.INIT, PortState.DOWN)))
    P.port_phys_state.set(info, np.where(port0 | up, PhysState.LINK_UP, PhysState.POLLING))


def _switches(f: Fabric) -> None:
    S, info = SwitchInfo, f.switch_info
    for field in (S.linear_fdb_top, S.default_port, S.default_mcast_primary_port, S.default_mcast_not_primary_port,
                  S.mcast_fdb_top):  # fmt: skip
        field.set(info, 0)
    S.life_time_value.set(info, LIFE_TIME)
    trained = np.bincount(f.port_node[f.linked], minlength=f.sizes.nodes)[f.switch_node] > 0
    S.port_state_change.set(info, trained)


def _tables(f: Fabric, external: np.ndarray) -> None:
    """Only the default partition (10.9.1), one GUID an end port, no routes."""
    f.lft[...] = 255
    f.mft[...] = 0
    owners = ~external
    f.pkeys[...] = 0
    f.pkeys[f.pkey_base[owners]] = DEFAULT_PKEY
    f.guids[...] = 0
    f.guids[f.guid_base[owners]] = f.port_guid[owners]
    f.sl2vl[...] = POWER_UP_SL2VL
