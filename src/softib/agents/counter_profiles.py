"""Which counters of performance management a device has: CapabilityMask and CapabilityMask2 of PerfMgt ClassPortInfo, by its generation.

Two are read off real devices (dumps of ``perfquery -x`` of an EDR cluster, which print both masks): 0x5300 and 0x2 of a Switch-IB, 0x5A00 and 0 of a
ConnectX-4. So an EDR switch counts errors in 64 bits too (IBA 16.1.4.11), and answers PortSelect 255; an EDR adapter does neither. Those of older
generations are assumed: RS-FEC came with EDR, and before QDR there is nothing beyond the mandatory counters.
"""

from __future__ import annotations

import numpy as np

from softib.fabric.model import Fabric
from softib.iba.constants import NodeType
from softib.iba.devices import DEVICES
from softib.iba.perf import CapMask, CapMask2
from softib.iba.smp import PortInfo

__all__ = ["perf_capabilities"]

C = CapMask
OLD, WIDE, NEW = range(3)
GENERATIONS = {"SDR": OLD, "DDR": OLD, "QDR": WIDE, "FDR10": WIDE, "FDR": WIDE}
"""Those not named are NEW."""
PROFILES = {
    (OLD, False): (C.ALL_PORT_SELECT, 0),
    (OLD, True): (C.ALL_PORT_SELECT, 0),
    (WIDE, False): (C.ALL_PORT_SELECT | C.EXTENDED_WIDTH | C.PORT_XMIT_WAIT, 0),
    (WIDE, True): (C.ALL_PORT_SELECT | C.EXTENDED_WIDTH | C.PORT_XMIT_WAIT, 0),
    (NEW, False): (C.EXTENDED_WIDTH | C.SAMPLES_ONLY | C.PORT_XMIT_WAIT | C.RSFEC_COUNTERS, 0),
    (NEW, True): (
        C.ALL_PORT_SELECT | C.EXTENDED_WIDTH | C.PORT_XMIT_WAIT | C.RSFEC_COUNTERS,
        CapMask2.ADDITIONAL_EXTENDED_COUNTERS,
    ),
}
"""(age, is it a switch?) → the masks."""
ALL = C.ALL_PORT_SELECT | C.EXTENDED_WIDTH | C.PORT_XMIT_WAIT | C.RSFEC_COUNTERS
EXT_FDR, EXT_NEWER = 1, 0x1E
QDR = 4


def perf_capabilities(fabric: Fabric, additional: bool | None = None) -> np.ndarray:
    """int64[nodes, 2]: CapabilityMask and CapabilityMask2 of each node, by its generation; ``additional`` makes all devices alike, with or without
    the 64-bit error counters and QP1Dropped."""
    n = fabric.sizes.nodes
    if additional is not None:
        same = (ALL | C.QP1_DROPPED, CapMask2.ADDITIONAL_EXTENDED_COUNTERS) if additional else (ALL, 0)
        return np.tile(np.array(same, np.int64), (n, 1))
    ages = _by_speed(fabric)
    for device, what in DEVICES.items():
        ages[fabric.device_id[:n] == device] = GENERATIONS.get(what.generation, NEW)
    is_switch = fabric.node_type[:n] == NodeType.SWITCH
    out = np.zeros((n, 2), np.int64)
    for (age, switch), masks in PROFILES.items():
        out[(ages == age) & (is_switch == switch)] = masks
    return out


def _by_speed(fabric: Fabric) -> np.ndarray:
    """int64[nodes] of devices whose DeviceID tells nothing: by what their ports support."""
    info = fabric.port_info
    ext = PortInfo.link_speed_ext_supported.get(info)
    plain = PortInfo.link_speed_supported.get(info)
    ext2 = PortInfo.link_speed_ext2_supported.get(info)
    ages = np.where(
        (ext & EXT_NEWER > 0) | (ext2 > 0), NEW, np.where((ext & EXT_FDR > 0) | (plain & QDR > 0), WIDE, OLD)
    )
    out = np.zeros(fabric.sizes.nodes, np.int64)
    np.maximum.at(out, fabric.port_node, ages)
    return out
