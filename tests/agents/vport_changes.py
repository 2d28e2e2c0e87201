"""What hosts do with virtual ports while a fabric runs: functions come up and go down."""

from __future__ import annotations

import numpy as np

from softib.agents.kernels.link_events import raise_trap
from softib.agents.plane import AgentPlane
from softib.errors import InputError
from softib.fabric.model import Fabric
from softib.iba.constants import CapMask2, PortState
from softib.iba.smp import PortInfo
from softib.iba.vendor.vports import VPORT_STATE_CHANGE, TrapVPortStateChange, VirtualizationInfo, VPortInfo

__all__ = ["change_vport", "vport_count"]

CHANGED = 0x20
"""VPortStateChange, in the octet of VirtualizationEnable."""


def vport_count(fabric: Fabric, port: int) -> int:
    """Return the number of virtual ports of a port, including index 0; 0 if it has none."""
    if not PortInfo.cap_mask2.get(fabric.port_info[port]) & CapMask2.VIRTUALIZATION:
        return 0
    head = VirtualizationInfo.zeros(1)
    head[:, :8] = fabric.virtualization[port]
    return int(VirtualizationInfo.vport_cap.get(head)[0]) + 1


def change_vport(plane: AgentPlane, port: int, index: int, up: bool, now_ps: int = 0) -> None:
    """Virtual port ``index`` of ``port`` comes up (Initialize), or goes down: VPortIndexTop, VPortStateChange, and trap 1144. Raises
    :class:`InputError` where the port has none of that index."""
    t, count = plane.tables, vport_count(plane.fabric, port)
    if index not in range(count):
        raise InputError(f"{plane.fabric.port_name(port)} has no virtual port {index}; it has {count}")
    row = int(t.vport_base[port]) + index
    if bool(t.vport_enabled[row]) == up:
        return
    t.vport_enabled[row] = up
    VPortInfo.vport_state.set(t.vport_info[row], int(PortState.INIT if up else PortState.DOWN))
    if not up:
        VPortInfo.vport_lid.set(t.vport_info[row], 0)
    enabled = np.flatnonzero(t.vport_enabled[int(t.vport_base[port]) :][:count])
    head = t.virtualization[port]
    VirtualizationInfo.vport_index_top.set(head, int(enabled.max(initial=0)))
    head[VirtualizationInfo.virtualization_enable.byte] |= CHANGED
    raise_trap(t, int(port), VPORT_STATE_CHANGE, 0, TrapVPortStateChange.pack(index=index), int(now_ps))
