"""What the agents' kernels see of a fabric: views of its arrays, and the few words of state that firmware keeps."""

from __future__ import annotations

from collections import namedtuple
from typing import Any

import numpy as np

from softib.fabric.columns import COUNTER_NAMES
from softib.fabric.model import Fabric
from softib.fabric.power_up import active_speed_codes
from softib.iba.rates import LANES_BY_BIT
from softib.iba.smp import PortInfo

__all__ = ["FIRMWARE_FIELDS", "NOTICE_SLOTS", "Tables", "tables_of"]

FABRIC_FIELDS = (
    "node_type", "node_nports", "node_base", "node_guid", "sys_guid", "vendor_id", "device_id", "revision",
    "node_desc", "switch_of_node", "port_node", "port_num", "port_guid", "port_peer", "port_info",
    "port_mlnx_speed", "pkey_base", "pkey_cap", "guid_base", "sl2vl_base", "vl_arb", "switch_info", "lft", "mft",
    "pkeys", "guids", "sl2vl",
)  # fmt: skip
"""Columns of the fabric that agents read or write."""

FIRMWARE_FIELDS = ("counters", "mkey_until", "trained", "notices", "notice_count")

Tables: Any = namedtuple("Tables", [*FABRIC_FIELDS, *FIRMWARE_FIELDS])  # type: ignore[misc]
"""One argument for all kernels. Beside the columns of the fabric:

``counters`` uint64[ports, counters] (the fabric's, without names: structured arrays are dear to hand to Numba);
``mkey_until`` int64[ports] time in ps at which the M_Key lease ends, 0 = no lease runs;
``trained`` uint8[ports, 2] lanes and speed code that the cable carried at the start, 255 where it carried nothing;
``notices`` int64[slots, 4] (time in ps, port, trap number, detail), ``notice_count`` int64[2] (used, lost).
"""

NOTICE_SLOTS = 4096


def tables_of(fabric: Fabric) -> Any:
    """Views of ``fabric`` (no copy: what an agent writes, the fabric has) and fresh firmware state."""
    columns = {name: getattr(fabric, name) for name in FABRIC_FIELDS}
    columns["counters"] = fabric.counters.view(np.uint64).reshape(fabric.sizes.ports, len(COUNTER_NAMES))
    columns["mkey_until"] = np.zeros(fabric.sizes.ports, np.int64)
    columns["trained"] = _trained(fabric)
    columns["notices"] = np.zeros((NOTICE_SLOTS, 4), np.int64)
    columns["notice_count"] = np.zeros(2, np.int64)
    return Tables(**columns)


def _trained(fabric: Fabric) -> np.ndarray:
    lanes = np.full(256, 255, np.uint8)
    for bit, n in LANES_BY_BIT.items():
        lanes[bit] = n
    codes = active_speed_codes(fabric.port_info, fabric.port_mlnx_speed)
    known = fabric.linked & (codes > 0)
    width = lanes[PortInfo.link_width_active.get(fabric.port_info)]
    return np.stack([np.where(known, width, 255), np.where(known, codes, 255)], axis=1).astype(np.uint8)
