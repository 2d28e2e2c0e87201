"""What congestion and adaptive routing managers wrote, as the packet layer's tables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from softib.iba.cc import (
    CACongestionEntry,
    CACongestionSetting,
    SwitchCongestionSetting,
    SwitchPortCongestionSettingElement,
)
from softib.iba.vendor.ar import ARInfo
from softib.sim.packet.kernels.switch.adaptive_routing import REPAIR
from softib.sim.packet.options import PacketOptions
from softib.sim.packet.tables.network import MARKING, THROTTLING

if TYPE_CHECKING:
    from softib.fabric.model import Fabric

__all__ = ["adaptive_tables", "congestion_tables"]

TIMER_PS = 1_024_000
"""CCTI_Timer counts in 1.024 us (IBA A10.4.3.8)."""
BLOCK = 64
US = 1_000_000


def congestion_tables(fabric: Fabric, blocks: np.ndarray, wanted: bool, opt: Any) -> dict[str, np.ndarray]:
    """``marking``, ``throttling`` and ``cct`` of :data:`~softib.sim.packet.tables.Net`; sets
    ``opt[CC]`` where a switch marks.

    Threshold ``w`` of 1 to 15 means (16 - w) sixteenths of the receive buffer of a VL: annex A10
    asks for uniformly decreasing values and leaves them to the switch. A table entry is shift (2
    bits) and multiplier (14): the flow waits for multiplier / 2^shift packet times.
    """
    empty = {
        "marking": MARKING.zeros(1),
        "throttling": THROTTLING.zeros(1, 1),
        "cct": np.zeros((1, 1), np.int64),
    }
    marking = _marking(fabric, blocks) if wanted and fabric.sizes.switches else None
    if marking is None or not marking["threshold"].any():
        return empty
    opt["cc"] = 1
    throttling = THROTTLING.zeros(fabric.sizes.ports, 16)
    entries = CACongestionSetting.entries.get(fabric.cc_ca_setting).astype(np.uint8).reshape(fabric.sizes.ports, 16, -1)
    throttling["timer_ps"] = CACongestionEntry.ccti_timer.get(entries).astype(np.int64) * TIMER_PS
    throttling["increase"] = CACongestionEntry.ccti_increase.get(entries)
    throttling["least"] = CACongestionEntry.ccti_min.get(entries)
    entries16 = fabric.cc_table.view(">u2").astype(np.int64)
    throttling["limit"] = entries16[:, :1]
    entry = entries16[:, 2:]
    return {"marking": marking, "throttling": throttling, "cct": 1000 * (entry & 0x3FFF) >> (entry >> 14)}


def _marking(fabric: Fabric, blocks: np.ndarray) -> np.ndarray:
    f, S, P = fabric, SwitchCongestionSetting, SwitchPortCongestionSettingElement
    switch = np.maximum(f.switch_of_node[f.port_node], 0)
    of_switch, of_port = f.cc_switch_setting[switch], f.cc_port_setting
    of_port_itself = (P.valid.get(of_port) == 1) & (P.control_type.get(of_port) == 0)
    threshold = np.where(of_port_itself, P.threshold.get(of_port), S.threshold.get(of_switch)).astype(np.int64)
    out = MARKING.zeros(f.sizes.ports)
    external = f.is_switch[f.port_node] & (f.port_num > 0)
    out["threshold"] = np.where(external & (threshold > 0), np.maximum(blocks * (16 - threshold) // 16, 1), 0)
    out["packet_size"] = (
        np.where(of_port_itself, P.packet_size.get(of_port), S.packet_size.get(of_switch)).astype(np.int64) * BLOCK
    )
    out["rate"] = np.where(of_port_itself, P.cong_parm_marking_rate.get(of_port), S.marking_rate.get(of_switch))
    mask = S.victim_mask.get(f.cc_switch_setting).astype(np.uint8).reshape(f.sizes.switches, 32)
    bits = np.unpackbits(mask, axis=1)[:, ::-1]  # port 0 is the last bit
    out["victim"] = bits[switch, f.port_num]
    return out


def adaptive_tables(fabric: Fabric, options: PacketOptions, opt: Any) -> dict[str, Any]:
    """``ar_lft``, ``ar_group``, ``ar_on`` and ``ageing`` of :data:`~softib.sim.packet.tables.Net`;
    sets ``opt[AR]`` where a switch routes adaptively, and ``opt[PLACEMENT]``."""
    f = fabric
    if not (options.adaptive_routing and f.sizes.switches):
        return _no_adaptive()
    info = f.ar_info
    on = ARInfo.ar_enabled.get(info).astype(bool)
    repairs = ARInfo.fr_enabled.get(info).astype(np.int64)
    if not (on.any() or repairs.any()):
        return _no_adaptive()
    sls = np.where(ARInfo.by_sl_en.get(info).astype(bool), ARInfo.enable_by_sl_mask.get(info), 0xFFFF).astype(np.int64)
    off = ARInfo.by_transport_disable.get(info).astype(np.int64)
    transports = (off >> 1 & 1) | (off >> 2 & 1) << 1 | (off & 1) << 2  # UD, RC, UC there; RC, UC, UD here
    opt["ar"], opt["placement"] = 1, options.placement
    return {
        "ar_lft": f.ar_lft,
        "ar_group": f.ar_group,
        "ar_on": np.where(on, sls | transports << 16, 0) | repairs << REPAIR,
        "ageing": ARInfo.ageing_time_value.get(info).astype(np.int64) * US,
    }


def _no_adaptive() -> dict[str, Any]:
    return {
        "ar_lft": np.zeros((1, 1), np.uint16),
        "ar_group": np.zeros((1, 1, 4), np.uint64),
        "ar_on": np.zeros(1, np.int64),
        "ageing": np.zeros(1, np.int64),
    }
