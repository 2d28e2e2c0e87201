"""Tables of a fabric for users: nodes, ports, links and counters as columns."""

from __future__ import annotations

from typing import Any

import numpy as np

from softib.fabric.columns import CableMedium
from softib.fabric.counters import COUNTER_NAMES
from softib.fabric.model import Fabric
from softib.fabric.power_up import active_speed_codes
from softib.foreign_text import field_text
from softib.iba.constants import NodeType, PhysState, PortState
from softib.iba.rates import LANES_BY_BIT, SPEED_BY_CODE, data_gbps
from softib.iba.smp import PortInfo

__all__ = ["counters", "links", "nodes", "ports", "rate_counts"]

TYPES = {NodeType.SWITCH: "switch", NodeType.CA: "ca", NodeType.ROUTER: "router"}


def nodes(f: Fabric) -> dict[str, Any]:
    """Return one row per device."""
    return {
        "name": f.node_names(),
        "type": [TYPES.get(t, "unknown") for t in f.node_type.tolist()],
        "guid": _hex(f.node_guid),
        "system_guid": _hex(f.sys_guid),
        "system": [f.node_system.get(n) for n in range(f.sizes.nodes)],
        "ports": f.node_nports.astype(np.int64),
        "vendor_id": f.vendor_id.astype(np.int64),
        "device_id": f.device_id.astype(np.int64),
        "firmware": [".".join(map(str, row)) if any(row) else None for row in f.node_firmware.tolist()],
        "psid": [field_text(row) or None for row in f.node_psid],
    }


def ports(f: Fabric) -> dict[str, Any]:
    """Return one row per port; a switch's management port has number 0."""
    names = np.array(f.node_names(), object)
    peer = np.where(f.linked, f.port_peer, 0)
    peers = [p if linked else None for p, linked in zip(_place(f, peer, names), f.linked.tolist(), strict=True)]
    states = {s.value: s.name for s in PortState}
    trained = {s.value: s.name for s in PhysState}
    return {
        "node": names[f.port_node].tolist(),
        "port": f.port_num.astype(np.int64),
        "label": [f.port_label.get(p) for p in range(f.sizes.ports)],
        "guid": _hex(f.port_guid),
        "lid": f.lid.astype(np.int64),
        "lmc": f.lmc.astype(np.int64),
        "state": [states.get(s, "") for s in f.port_state.tolist()],
        "phys_state": [trained.get(s, "") for s in PortInfo.port_phys_state.get(f.port_info).tolist()],
        **_rates(f, np.arange(f.sizes.ports)),
        "peer": peers,
    }


def links(f: Fabric) -> dict[str, Any]:
    """Return one row per cable with two known ends; speed and width are those of its first end."""
    cable = np.flatnonzero((f.cable_port >= 0).all(axis=1))
    a, b = f.cable_port[cable].T
    names = np.array(f.node_names(), object)
    medium = [str(CableMedium.NAMES[m]) for m in f.cable_medium[cable].tolist()]
    return {
        "node_a": names[f.port_node[a]].tolist(),
        "port_a": f.port_num[a].astype(np.int64),
        "node_b": names[f.port_node[b]].tolist(),
        "port_b": f.port_num[b].astype(np.int64),
        **_rates(f, a),
        "length_m": f.cable_length_m[cable].astype(np.float64),
        "medium": medium,
        "ber": f.cable_ber[cable].astype(np.float64),
    }


def counters(f: Fabric) -> dict[str, Any]:
    """Return one row per port with its PerfMgt counters (:data:`softib.fabric.counters.COUNTER_NAMES`): data counters
    are in words of 4 bytes, wait counters in ticks, all others in events."""
    names = np.array(f.node_names(), object)
    return {
        "node": names[f.port_node].tolist(),
        "port": f.port_num.astype(np.int64),
        **{name: f.counters[name] for name in COUNTER_NAMES},
    }


def rate_counts(f: Fabric) -> dict[str, int]:
    """Return the number of links by rate (for example ``4x HDR``), the most frequent rate first."""
    rows = links(f)
    texts = [f"{w}x {s}" for w, s in zip(rows["lanes"].tolist(), rows["speed"], strict=True) if s]
    unique, n = np.unique(texts, return_counts=True) if texts else (np.array([]), np.array([], int))
    order = np.argsort(-n, kind="stable")
    return {str(unique[i]): int(n[i]) for i in order}


def _rates(f: Fabric, rows: np.ndarray) -> dict[str, Any]:
    lanes_of = np.zeros(256, np.int64)
    for bit, count in LANES_BY_BIT.items():
        lanes_of[bit] = count
    codes = active_speed_codes(f.port_info, f.port_mlnx_speed)[rows]
    lanes = np.where(codes > 0, lanes_of[PortInfo.link_width_active.get(f.port_info)[rows]], 0)
    speed_names = {0: "", **{code: speed.name for code, speed in SPEED_BY_CODE.items()}}
    return {
        "speed": [speed_names[c] for c in codes.tolist()],
        "lanes": lanes,
        "gbps": np.asarray(data_gbps(codes, lanes), np.float64),
    }


def _place(f: Fabric, rows: np.ndarray, names: np.ndarray) -> list[str]:
    node, number = names[f.port_node[rows]].tolist(), f.port_num[rows].tolist()
    return [f"{a}[{b}]" for a, b in zip(node, number, strict=True)]


def _hex(guids: np.ndarray) -> list[str]:
    return [f"{g:#018x}" for g in guids.tolist()]
