"""A switch that loses its power: what it forgets, and what is in flash.

GUIDs, capabilities, NodeDescription and cables are the hardware's; everything that a subnet manager wrote is as after
:mod:`softib.fabric.power_up` again (IBA 14.2.5: power-up values of PortInfo and SwitchInfo), and counters are 0.
"""

from __future__ import annotations

import numpy as np

from softib.errors import InputError
from softib.fabric.columns import LAZY_COLUMNS
from softib.fabric.model import Fabric
from softib.fabric.power_up import VL_CAP, switch_info_image
from softib.iba.constants import DEFAULT_GID_PREFIX, DEFAULT_PKEY, PhysState, PortState
from softib.iba.smp import PortInfo, SwitchInfo

__all__ = ["forget"]

_P, _S = PortInfo, SwitchInfo
_ZERO = (
    _P.mkey, _P.lid, _P.master_sm_lid, _P.mkey_lease_period, _P.mkey_protect, _P.lmc, _P.master_sm_sl, _P.init_type,
    _P.vl_high_limit, _P.vl_stall_count, _P.mkey_violations, _P.pkey_violations, _P.qkey_violations,
    _P.partition_enforcement_inbound, _P.partition_enforcement_outbound, _P.filter_raw_inbound, _P.filter_raw_outbound,
)  # fmt: skip
_SWITCH_CONFIG = (
    _S.linear_fdb_top, _S.default_port, _S.default_mcast_primary_port, _S.default_mcast_not_primary_port,
    _S.life_time_value, _S.port_state_change, _S.mcast_fdb_top,
)  # fmt: skip
HOQ_LIFE, THRESHOLD, SUBNET_TIMEOUT = 16, 8, 18
"""As :func:`softib.fabric.power_up.port_info_image` has them."""
SL2VL = np.array([0x01, 0x23, 0x45, 0x67, 0x01, 0x23, 0x45, 0x67], np.uint8)
"""SL n on VL n mod 8, as the builder leaves it."""


def forget(fabric: Fabric, node: int) -> None:
    """Put switch ``node`` to what it reads right after power-up, all links down. Raises :class:`InputError` for a node
    that is no switch."""
    switch = int(fabric.switch_of_node[node])
    if switch < 0:
        raise InputError(f"{fabric.node_name(node)} is not a switch")
    rows = np.array(fabric.ports_of(node, port0=True))
    port0, external = rows[:1], rows[1:]
    _ports(fabric, rows, port0, external)
    fresh = switch_info_image(fabric)[switch : switch + 1]
    for field in _SWITCH_CONFIG:
        field.set(fabric.switch_info, int(field.get(fresh)[0]), [switch])
    fabric.lft[switch], fabric.mft[switch] = 255, 0
    for port in rows.tolist():
        base, entries = int(fabric.pkey_base[port]), int(fabric.pkey_cap[port])
        fabric.pkeys[base : base + entries] = 0
    fabric.pkeys[fabric.pkey_base[port0]] = DEFAULT_PKEY
    n = len(external) + 1
    first = int(fabric.sl2vl_base[port0[0]])
    fabric.sl2vl[first : first + n * n] = SL2VL
    fabric.vl_arb[rows] = 0
    fabric.counters[rows] = np.zeros(1, fabric.counters.dtype)
    for name in sorted(LAZY_COLUMNS):
        column = getattr(fabric, name)
        if len(column) == fabric.sizes.ports and name != "port_info_ext" and column[rows].view(np.uint8).any():
            column[rows] = np.zeros(1, column.dtype)
    fabric.cc_switch_setting[switch] = 0


def _ports(fabric: Fabric, rows: np.ndarray, port0: np.ndarray, external: np.ndarray) -> None:
    info = fabric.port_info
    for field in _ZERO:
        field.set(info, 0, rows)
    _P.gid_prefix.set(info, DEFAULT_GID_PREFIX, rows)
    _P.subnet_timeout.set(info, SUBNET_TIMEOUT, port0)
    _P.hoq_life.set(info, HOQ_LIFE, external)
    _P.local_phy_errors.set(info, THRESHOLD, rows)
    _P.overrun_errors.set(info, THRESHOLD, rows)
    _P.link_down_default_state.set(info, PhysState.POLLING, external)
    _P.operational_vls.set(info, np.minimum(_P.vl_cap.get(info[external]), VL_CAP), external)
    for kind in ("width", "speed", "speed_ext"):
        supported = getattr(_P, f"link_{kind}_supported").get(info[external])
        getattr(_P, f"link_{kind}_enabled").set(info, supported, external)
    _P.link_speed_ext2_enabled.set(info, _P.link_speed_ext2_supported.get(info[external]), external)
    fabric.port_mlnx_speed[external, 1] = fabric.port_mlnx_speed[external, 0]
    _P.port_state.set(info, PortState.DOWN, external)
    _P.port_phys_state.set(info, PhysState.POLLING, external)
