"""Counters of ports, SLs and VLs, computed from the kernels' counts."""

from __future__ import annotations

from typing import Any

import numpy as np

from softib.fabric.counters import COUNTERS, SL_COUNTERS, VL_COUNTERS

__all__ = ["FCS", "counters_of", "sl_counters_of", "vl_counters_of"]

VCRC, FCS = 2, 4
"""Bytes of the link layer's check at the end of a packet (VCRC) and of a frame (FCS)."""


def counters_of(count: np.ndarray, rare: np.ndarray, check_octets: int = VCRC) -> np.ndarray:
    """Return :data:`~softib.fabric.counters.COUNTERS` from the counts of the kernels. Data is in
    words of four bytes, without the ``check_octets`` of the link layer at the end of each packet
    (IBA 16.1.3.5: from LRH to ICRC)."""
    out = np.zeros(len(count), COUNTERS)
    discards = count["hoq_discards"] + count["life_discards"] + count["inactive"] + count["too_long"]
    columns = {
        "port_xmit_data": (count["xmit_octets"] - check_octets * count["xmit_packets"]) // 4,
        "port_rcv_data": (count["rcv_octets"] - check_octets * count["rcv_packets"]) // 4,
        "port_xmit_pkts": count["xmit_packets"],
        "port_rcv_pkts": count["rcv_packets"],
        "port_unicast_xmit_pkts": count["xmit_packets"] - rare["multicast_xmit"],
        "port_unicast_rcv_pkts": count["rcv_packets"] - rare["multicast_rcv"],
        "port_multicast_xmit_pkts": rare["multicast_xmit"],
        "port_multicast_rcv_pkts": rare["multicast_rcv"],
        "port_xmit_wait": count["wait_ticks"],
        "port_xmit_discards": discards,
        "port_rcv_errors": count["rcv_errors"],
        "port_rcv_switch_relay_errors": count["relay_errors"],
        "port_rcv_remote_physical_errors": rare["remote_errors"],
    }
    for name, column in columns.items():
        out[name] = column
    return out


def sl_counters_of(net: Any, s: Any) -> np.ndarray:
    """Return :data:`~softib.fabric.counters.SL_COUNTERS`: words sent and received, by SL."""
    out = np.zeros(len(net.port), SL_COUNTERS)
    out["xmit_data_sl"], out["rcv_data_sl"] = s.by_sl["sent"], s.by_sl["received"]
    return out


def vl_counters_of(net: Any, s: Any) -> np.ndarray:
    """Return :data:`~softib.fabric.counters.VL_COUNTERS`: ticks of waiting time, by VL."""
    ports, vls = len(net.port), int(net.opt.vls)
    out = np.zeros(ports, VL_COUNTERS)
    out["port_vl_xmit_wait"][:, :vls] = s.vl_wait["ticks"].reshape(ports, vls)
    return out
