"""Power-cycle a fabric or one switch. Hardware properties stay; all values that MADs write are
reset to their power-up values.

IBA 14.2.5 states the power-up values ("initialization" of each component). Values that it leaves to
the vendor are those of :mod:`softib.fabric.power_up` and :mod:`softib.fabric.builder`. The active
width and speed of cables, and the names of devices, stay, because no manager sets them.
"""

from __future__ import annotations

import numpy as np

from softib.errors import InputError
from softib.fabric.columns import COLUMN_BY_NAME, LAZY_COLUMNS
from softib.fabric.end_ports import valid_lids
from softib.fabric.model import Fabric
from softib.fabric.power_up import EXTERNAL_HOQ_LIFE, MTU_4096, PHY_ERRORS, SUBNET_TIMEOUT
from softib.iba.constants import CODE_OF_DATA_VLS, DEFAULT_GID_PREFIX, DEFAULT_PKEY, CapMask, PhysState, PortState
from softib.iba.smp import PortInfo, PortInfoExtended, SwitchInfo

__all__ = ["POWER_UP_SL2VL", "forget", "power_on", "set_data_vls"]


FEWEST_ENTRIES = 8
"""Minimum number of entries in each VL arbitration table, for any number of VLs. NVIDIA's ports
report this value.
"""


def set_data_vls(fabric: Fabric, count: int) -> None:
    """Set the number of data VLs to ``count`` on every port that has VLs, in place, before a
    manager configures the fabric. A port's VL arbitration tables have at least one entry per VL
    (IBA 7.6.9). Port 0 keeps its VLs, since it has no queues. Raises :class:`InputError` if VLCap
    has no code for ``count``.
    """
    code = CODE_OF_DATA_VLS.get(count)
    if code is None:
        raise InputError(f"{count} data VLs are not possible; use 1, 2, 4, 8 or 15")
    P, info = PortInfo, fabric.port_info
    ports = np.flatnonzero(~(fabric.is_switch[fabric.port_node] & (fabric.port_num == 0)))
    image = info[ports]
    P.vl_cap.set(image, code)
    P.operational_vls.set(image, code)
    for cap in (P.vl_arb_high_cap, P.vl_arb_low_cap):
        cap.set(image, max(FEWEST_ENTRIES, count) if count > 1 else 0)
    info[ports] = image
    power_on(fabric)


POWER_UP_SL2VL = np.array([0x01, 0x23, 0x45, 0x67, 0x01, 0x23, 0x45, 0x67], np.uint8)
"""SL n maps to VL n mod 8, so every SL maps to a VL that the port has."""
LIFE_TIME = 16


def power_on(f: Fabric, keep_lids: bool = False) -> None:
    """Reset all configuration that MADs write to its power-up value; cabled ports train to INIT
    (IBA 7.2.7). Afterwards LIDs are 0, there are no routes, each port has only the default
    partition, and ports whose cable has two known ends are LinkUp/Init. With ``keep_lids``, ports
    keep LIDs and LMCs that are valid and unique, as after a restart of the subnet manager. The next
    manager respects these LIDs (IBA 14.4.3).
    """
    everywhere = np.arange(f.sizes.ports)
    ports, valid = valid_lids(f)
    kept = ports[valid & keep_lids]
    lid, lmc = f.lid[kept], f.lmc[kept]
    _port_info(f, everywhere)
    PortInfo.lid.set(f.port_info, lid, kept)
    PortInfo.lmc.set(f.port_info, lmc, kept)
    _link_states(f, everywhere, f.linked)
    _switches(f, np.arange(f.sizes.switches))
    trained = np.bincount(f.port_node[f.linked], minlength=f.sizes.nodes)[f.switch_node] > 0
    SwitchInfo.port_state_change.set(f.switch_info, trained)
    if f.lft.size and f.lft.min() < 255:
        f.lft[...] = 255
    f.pkeys[...], f.guids[...] = 0, 0
    _default_entries(f, everywhere)
    f.sl2vl[...] = POWER_UP_SL2VL
    for column in (
        f.mft,
        f.op_code,
        f.sample_control,
        f.sample_ps,
        f.class_traps,
        f.cc_key_info,
        f.cc_port_setting,
        f.cc_ca_setting,
        f.cc_table,
        f.cc_switch_setting,
        f.vl_arb,
        f.ar_info,
        f.ar_group,
        f.ar_lft,
        f.sharp_qp_used,
        f.sharp_qp,
        f.sharp_tree,
        f.sharp_child,
        f.sharp_quota,
    ):
        if column.any():  # a write of zeros would also allocate the pages
            column[...] = 0
    if f.sizes.vports:
        from softib.fabric.virtual_ports import power_up_vports

        power_up_vports(f)
    _fec(f, everywhere)


def forget(f: Fabric, node: int) -> None:
    """Power off switch ``node``: its configuration and counters are reset to their power-up values,
    and its links go down. Raises :class:`InputError` if the node is not a switch.
    """
    switch = int(f.switch_of_node[node])
    if switch < 0:
        raise InputError(f"{f.node_name(node)} is not a switch")
    rows = np.array(f.ports_of(node, port0=True))
    _port_info(f, rows)
    _link_states(f, rows, np.zeros(f.sizes.ports, bool))
    _switches(f, np.array([switch]))
    SwitchInfo.port_state_change.set(f.switch_info, 0, [switch])
    f.lft[switch], f.mft[switch] = 255, 0
    for base, entries in zip(f.pkey_base[rows].tolist(), f.pkey_cap[rows].tolist(), strict=True):
        f.pkeys[base : base + entries] = 0
    _default_entries(f, rows)
    first = int(f.sl2vl_base[rows[0]])
    # one entry for each input port (including port 0) and output port
    f.sl2vl[first : first + len(rows) ** 2] = POWER_UP_SL2VL
    f.vl_arb[rows] = 0
    f.counters[rows] = np.zeros(1, f.counters.dtype)
    inside = _aggregation_node_of(f, rows)
    for name in sorted(LAZY_COLUMNS - {"port_info_ext", "module_info"}):
        column = getattr(f, name)
        first_dim = COLUMN_BY_NAME[name].dims[0]
        cleared: np.ndarray = (
            rows if first_dim == "ports" else np.array([switch]) if first_dim == "switches" else inside
        )
        if column[cleared].view(np.uint8).any():
            column[cleared] = np.zeros(1, column.dtype)
    _fec(f, rows)


def _aggregation_node_of(f: Fabric, rows: np.ndarray) -> np.ndarray:
    """Return the rows of the aggregation nodes in the switch with the ports ``rows``. They lose
    power together with the switch."""
    peers = f.port_peer[rows]
    sharp = f.sharp_of_node[f.port_node[peers[peers >= 0]]]
    return sharp[sharp >= 0]


def _port_info(f: Fabric, rows: np.ndarray) -> None:
    """Reset PortInfo of ``rows``, except the port states. Fields that depend on the link, for
    example NeighborMTU, are set only if there is a link."""
    P, info, up = PortInfo, f.port_info[rows], f.linked[rows]
    port0 = f.is_switch[f.port_node[rows]] & (f.port_num[rows] == 0)
    external = f.is_switch[f.port_node[rows]] & ~port0
    for field in (
        P.mkey,
        P.lid,
        P.master_sm_lid,
        P.mkey_lease_period,
        P.mkey_protect,
        P.lmc,
        P.master_sm_sl,
        P.init_type,
        P.vl_high_limit,
        P.init_type_reply,
        P.vl_stall_count,
        P.partition_enforcement_inbound,
        P.partition_enforcement_outbound,
        P.filter_raw_inbound,
        P.filter_raw_outbound,
        P.mkey_violations,
        P.pkey_violations,
        P.qkey_violations,
        P.client_reregister,
        P.mcast_pkey_trap_suppression,
    ):
        field.set(info, 0)
    P.gid_prefix.set(info, DEFAULT_GID_PREFIX)
    P.cap_mask.set(info, P.cap_mask.get(info) & ~np.uint32(CapMask.IS_SM))
    P.link_width_enabled.set(info, P.link_width_supported.get(info))
    P.link_speed_enabled.set(info, P.link_speed_supported.get(info))
    P.link_speed_ext_enabled.set(info, P.link_speed_ext_supported.get(info))
    P.link_speed_ext2_enabled.set(info, P.link_speed_ext2_supported.get(info))
    f.port_mlnx_speed[rows, 1] = f.port_mlnx_speed[rows, 0]
    P.link_down_default_state.set(info, np.where(port0, 0, PhysState.POLLING))
    # NeighborMTU is the largest MTU that the port may send. It is above the minimum only if there
    # is a link.
    P.neighbor_mtu.set(info, np.where(up, np.minimum(MTU_4096, P.mtu_cap.get(info)), 1))
    vls = P.vl_cap.get(info)  # a base port 0 has no VLs: an unmanaged switch reports VLCap 0
    P.operational_vls.set(info, np.where(port0, np.minimum(vls, 1), vls))
    P.subnet_timeout.set(info, np.where(external, 0, SUBNET_TIMEOUT))
    P.hoq_life.set(info, np.where(external, EXTERNAL_HOQ_LIFE, 0))
    P.local_phy_errors.set(info, PHY_ERRORS)
    P.overrun_errors.set(info, PHY_ERRORS)
    f.port_info[rows] = info


def _link_states(f: Fabric, rows: np.ndarray, linked: np.ndarray) -> None:
    """Set ports in ``linked`` to INIT and others to DOWN. Port 0 is always up."""
    port0, up = f.is_switch[f.port_node[rows]] & (f.port_num[rows] == 0), linked[rows]
    state = np.where(port0, PortState.ACTIVE, np.where(up, PortState.INIT, PortState.DOWN))
    PortInfo.port_state.set(f.port_info, state, rows)
    PortInfo.port_phys_state.set(f.port_info, np.where(port0 | up, PhysState.LINK_UP, PhysState.POLLING), rows)


def _switches(f: Fabric, rows: np.ndarray) -> None:
    S, info = SwitchInfo, f.switch_info
    for field in (
        S.linear_fdb_top,
        S.default_port,
        S.default_mcast_primary_port,
        S.default_mcast_not_primary_port,
        S.mcast_fdb_top,
    ):
        field.set(info, 0, rows)
    S.life_time_value.set(info, LIFE_TIME, rows)


def _default_entries(f: Fabric, rows: np.ndarray) -> None:
    """Reset the tables of ``rows``: only the default partition (10.9.1), and one GUID per end
    port."""
    owners = rows[~(f.is_switch[f.port_node[rows]] & (f.port_num[rows] != 0))]
    f.pkeys[f.pkey_base[owners]] = DEFAULT_PKEY
    f.guids[f.guid_base[owners]] = f.port_guid[owners]


def _fec(f: Fabric, rows: np.ndarray) -> None:
    of_rows = f.port_info_ext[rows]
    if of_rows.any():
        for speed in ("fdr", "edr", "hdr", "ndr"):
            supported = PortInfoExtended.fields[f"{speed}_fec_mode_supported"].get(of_rows)
            PortInfoExtended.fields[f"{speed}_fec_mode_enabled"].set(f.port_info_ext, supported, rows)
