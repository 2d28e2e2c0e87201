"""Features of a fabric or workload that a layer of the simulation does not model."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from softib.iba.rates import SPEEDS
from softib.plural import counted, plural
from softib.sim.messages import Messages

if TYPE_CHECKING:
    from softib.fabric.model import Fabric


__all__ = ["mixed_adapters", "slow_ports", "why_not"]


def why_not(fabric: Fabric, ends: np.ndarray, m: Messages) -> tuple[str, ...]:
    """Return one line for each feature of this run that the packet layer does not model; empty if there is none.
    ``ends``: row of each end port."""
    lavish = int((fabric.port_drain < 0).sum())
    reasons = (
        [
            f"{counted(lavish, 'port')} {plural(lavish, 'grants', 'grant')} credits without room "
            "(slow-port --overrun), which the packet layer does not model"
        ]
        if lavish
        else []
    )
    return (*reasons, *mixed_adapters(fabric, ends, m, "packet"))


def slow_ports(fabric: Fabric, layer: str) -> tuple[str, ...]:
    """Return a line if ports drain more slowly than they receive (``port_drain``), because ``layer`` does not model the
    buffers that then fill."""
    slow = int(np.count_nonzero(fabric.port_drain))
    return (
        (
            f"{counted(slow, 'port')} {plural(slow, 'drains', 'drain')} more slowly than they receive (slow-port), "
            f"which the {layer} layer does not model",
        )
        if slow
        else ()
    )


def mixed_adapters(fabric: Fabric, ends: np.ndarray, m: Messages, layer: str) -> tuple[str, ...]:
    """Return a line if adapters of several generations take part, because ``layer`` uses PCIe rate, message rate and
    fetching time of one generation for all."""
    speeds = _adapter_speeds(fabric, ends[np.unique(np.concatenate([m.src, m.dst]))]) if len(m) else []
    if len(speeds) < 2:
        return ()
    return (f"adapters of {', '.join(speeds)} take part; the {layer} layer uses one profile for all",)


def _adapter_speeds(fabric: Fabric, ports: np.ndarray) -> list[str]:
    """Return the generations of the adapters' links, slowest first; port 0 of a switch has no link."""
    from softib.fabric.power_up import active_speed_codes

    ports = ports[fabric.port_num[ports] > 0]
    codes = active_speed_codes(fabric.port_info[ports], fabric.port_mlnx_speed[ports])
    return [SPEEDS[int(code) - 1].name for code in np.unique(codes[codes > 0])]
