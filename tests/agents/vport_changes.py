"""What hosts do with virtual ports while a fabric runs: functions come up and go down."""

from __future__ import annotations

from softib.agents.kernels.link_events import raise_trap, set_vport
from softib.agents.plane import AgentPlane
from softib.errors import InputError
from softib.fabric.virtual_ports import vport_count
from softib.iba.vendor.vports import VPORT_STATE_CHANGE, TrapVPortStateChange

__all__ = ["change_vport"]


def change_vport(plane: AgentPlane, port: int, index: int, up: bool, now_ps: int = 0) -> None:
    """Virtual port ``index`` of ``port`` comes up, or goes down: VPortStateChange, and trap 1144. Raises :class:`InputError` where the port
    has none of that index."""
    count = vport_count(plane.fabric, port)
    if index not in range(count):
        raise InputError(f"{plane.fabric.port_name(port)} has no virtual port {index}; it has {count}")
    if set_vport(plane.tables, int(port), int(index), bool(up)):
        details = TrapVPortStateChange.pack(index=index)
        raise_trap(plane.tables, int(port), VPORT_STATE_CHANGE, 0, details, int(now_ps))
