"""Which counters of performance management a device has: CapabilityMask and CapabilityMask2 of PerfMgt ClassPortInfo, from the catalogue."""

from __future__ import annotations

import numpy as np

from softib.fabric.model import Fabric
from softib.fabric.plugging import supported_speed_codes
from softib.iba.catalogue import ADAPTER_OF, SWITCH_OF
from softib.iba.constants import NodeType
from softib.iba.devices import DEVICES
from softib.iba.perf import CapMask, CapMask2
from softib.iba.rates import SPEEDS

__all__ = ["perf_capabilities"]

ALL = CapMask.ALL_PORT_SELECT | CapMask.EXTENDED_WIDTH | CapMask.PORT_XMIT_WAIT | CapMask.RSFEC_COUNTERS


def perf_capabilities(fabric: Fabric, additional: bool | None = None) -> np.ndarray:
    """int64[nodes, 2]: CapabilityMask and CapabilityMask2 of each node: of its part, or of the part that stands for its generation where the
    catalogue does not have it; ``additional`` makes all devices alike, with or without the 64-bit error counters and QP1Dropped."""
    n = fabric.sizes.nodes
    if additional is not None:
        same = (ALL | CapMask.QP1_DROPPED, CapMask2.ADDITIONAL_EXTENDED_COUNTERS) if additional else (ALL, 0)
        return np.tile(np.array(same, np.int64), (n, 1))
    is_switch = fabric.node_type[:n] == NodeType.SWITCH
    code = np.ones(n, np.int64)
    np.maximum.at(code, fabric.port_node, supported_speed_codes(fabric, np.arange(fabric.sizes.ports)))
    out = np.zeros((n, 2), np.int64)
    for speed in SPEEDS:
        for switch, part in ((False, ADAPTER_OF[speed.name]), (True, SWITCH_OF[speed.name])):
            out[(code == speed.code) & (is_switch == switch)] = part.perf_capability, part.perf_capability2
    for number, part in DEVICES.items():
        of = (fabric.device_id[:n] == number) & (is_switch == (part.kind == "switch"))
        out[of] = part.perf_capability, part.perf_capability2
    return out
