"""What a fabric or a workload has that the packet layer has no model of."""

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
    """One line for each thing that the layer leaves out of this run; empty where its model holds.
    ``ends``: port of each end port."""
    lavish = int((fabric.port_drain < 0).sum())
    reasons = (
        [
            f"{counted(lavish, 'port')} {plural(lavish, 'grants', 'grant')} credits that they have "
            "not (slow-port --overrun); the packet layer's do not"
        ]
        if lavish
        else []
    )
    return (*reasons, *mixed_adapters(fabric, ends, m, "packet"))


def slow_ports(fabric: Fabric, layer: str) -> tuple[str, ...]:
    """A line where ports drain slower than they receive (``port_drain``): ``layer`` has no buffers
    that fill."""
    slow = int(np.count_nonzero(fabric.port_drain))
    return (
        (
            f"{counted(slow, 'port')} {plural(slow, 'drains', 'drain')} slower than they receive "
            f"(slow-port); the {layer} layer's do not",
        )
        if slow
        else ()
    )


def mixed_adapters(fabric: Fabric, ends: np.ndarray, m: Messages, layer: str) -> tuple[str, ...]:
    """A line where adapters of several generations take part: ``layer`` gives all of them the PCIe,
    message rate and fetching of one."""
    speeds = _adapter_speeds(fabric, ends[np.unique(np.concatenate([m.src, m.dst]))]) if len(m) else []
    if len(speeds) < 2:
        return ()
    return (f"adapters of {', '.join(speeds)} take part; the {layer} layer gives all of them one profile",)


def _adapter_speeds(fabric: Fabric, ports: np.ndarray) -> list[str]:
    """Generations of the adapters' links, slowest first; port 0 of switches has none."""
    from softib.fabric.power_up import active_speed_codes

    ports = ports[fabric.port_num[ports] > 0]
    codes = active_speed_codes(fabric.port_info[ports], fabric.port_mlnx_speed[ports])
    return [SPEEDS[int(code) - 1].name for code in np.unique(codes[codes > 0])]
