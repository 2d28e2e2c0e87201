"""Plug and unplug cables in a fabric at rest. All arrays with cable data are changed together. The
link data of a port (PortInfo's active speed and width, NeighborMTU, states) follows from the
capabilities of both ends, as in :mod:`softib.fabric.builder`. These functions add and delete rows
of cables, so they cannot be used on a running fabric, whose arrays are in a shared mapping.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from softib.errors import InputError
from softib.fabric.columns import CableMedium
from softib.fabric.model import Fabric
from softib.fabric.power_up import MTU_4096
from softib.iba.constants import PhysState, PortState
from softib.iba.rates import LANES_BY_BIT, SPEEDS, WIDTH_BITS
from softib.iba.smp import PortInfo

__all__ = [
    "add_cable",
    "delete_cables",
    "plug",
    "set_active",
    "supported_lanes",
    "supported_speed_codes",
    "train",
    "unplug",
]

_CABLE_COLUMNS = ("cable_port", "cable_length_m", "cable_medium", "cable_ber", "cable_listed")


def supported_speed_codes(fabric: Fabric, ports: Any) -> np.ndarray:
    """Return the fastest speed (code of :mod:`softib.iba.rates`) that each of ``ports`` supports."""
    info, mlnx = fabric.port_info[ports], fabric.port_mlnx_speed[ports]
    plain, ext = PortInfo.link_speed_supported.get(info), PortInfo.link_speed_ext_supported.get(info)
    ext2 = PortInfo.link_speed_ext2_supported.get(info)
    code = np.zeros(np.shape(ports), np.int64)
    for s in SPEEDS:
        column, bit = (
            (ext2, s.ext2_bit)
            if s.ext2_bit
            else (ext, s.ext_bit)
            if s.ext_bit
            else (mlnx[..., 0], s.mlnx_bit)
            if s.mlnx_bit
            else (plain, s.speed_bit)
        )
        code = np.where((column & bit) > 0, s.code, code)
    return code


def supported_lanes(fabric: Fabric, ports: Any) -> np.ndarray:
    """Return PortInfo.LinkWidthSupported of ``ports`` (bits of ``WIDTH_BITS``)."""
    return PortInfo.link_width_supported.get(fabric.port_info[ports])


def set_active(fabric: Fabric, ports: Any, codes: Any, lanes: Any) -> None:
    """Write the active speed (code, 0 = no link) and width (lanes) of ``ports``."""
    rows, P, info = np.atleast_1d(ports), PortInfo, fabric.port_info
    code = np.broadcast_to(np.asarray(codes, np.int64), rows.shape)
    width = np.broadcast_to(np.asarray(lanes, np.int64), rows.shape)
    bits = {
        a: np.array([0, *(getattr(s, a) for s in SPEEDS)])[code]
        for a in ("speed_bit", "ext_bit", "ext2_bit", "mlnx_bit")
    }
    extended = (bits["ext_bit"] > 0) | (bits["ext2_bit"] > 0)
    # LinkSpeedActive is QDR while an extended speed is active, and SDR on a port without a link (as
    # in :mod:`softib.fabric.power_up`).
    P.link_speed_active.set(info, np.where(extended, 4, np.maximum(bits["speed_bit"], 1)), rows)
    P.link_speed_ext_active.set(info, bits["ext_bit"], rows)
    P.link_speed_ext2_active.set(info, bits["ext2_bit"], rows)
    P.link_width_active.set(info, np.array([WIDTH_BITS.get(n, WIDTH_BITS[4]) for n in width.tolist()]), rows)
    P.neighbor_mtu.set(info, np.where(code > 0, MTU_4096, 1), rows)
    fabric.port_mlnx_speed[rows, 2] = bits["mlnx_bit"]


def train(fabric: Fabric, ports: Any) -> None:
    """Set ``ports`` to the result of link training: the best rate that both ends support, or no
    link if there is no peer. The state of a port changes only if the port gains or loses its link:
    to Init (Active if the source records states), or to Down.
    """
    rows = np.atleast_1d(np.asarray(ports, np.int64))
    up = fabric.port_peer[rows] >= 0
    peer = np.where(up, fabric.port_peer[rows], rows)
    code = np.minimum(supported_speed_codes(fabric, rows), supported_speed_codes(fabric, peer))
    common = supported_lanes(fabric, rows) & supported_lanes(fabric, peer)
    lanes = np.array([max((n for bit, n in LANES_BY_BIT.items() if c & bit), default=4) for c in common.tolist()])
    set_active(fabric, rows, np.where(up, code, 0), np.where(up, lanes, 4))
    was_up = PortInfo.port_state.get(fabric.port_info[rows]) > PortState.DOWN
    trained = PortState.ACTIVE if "states" in fabric.source.records else PortState.INIT
    for changed, state, phys in (
        (up & ~was_up, trained, PhysState.LINK_UP),
        (~up & was_up, PortState.DOWN, PhysState.POLLING),
    ):
        PortInfo.port_state.set(fabric.port_info, state, rows[changed])
        PortInfo.port_phys_state.set(fabric.port_info, phys, rows[changed])


def plug(fabric: Fabric, cable: int, a: int, b: int) -> None:
    """Plug ``cable`` into the free ports ``a`` and ``b`` (-1: unknown peer) and train the link."""
    for port in (a, b):
        if port >= 0 and fabric.port_cable[port] not in (-1, cable):
            raise InputError(
                f"{fabric.port_name(port)} already holds a cable to {_peer_name(fabric, port)}; unplug it first"
            )
    fabric.cable_port[cable] = (a, b)
    for port, peer in ((a, b), (b, a)):
        if port >= 0:
            fabric.port_cable[port], fabric.port_peer[port] = cable, peer
    train(fabric, [p for p in dict.fromkeys((a, b)) if p >= 0])


def unplug(fabric: Fabric, cable: int) -> None:
    """Unplug both ends of ``cable``. Its row stays until :func:`delete_cables` deletes it or the
    cable is plugged in again."""
    ends = [int(p) for p in dict.fromkeys(fabric.cable_port[cable].tolist()) if p >= 0]
    fabric.port_cable[ends], fabric.port_peer[ends] = -1, -1
    train(fabric, ends)


def add_cable(fabric: Fabric, a: int, b: int) -> int:
    """Add a cable of unknown medium and length between two free ports; return its row."""
    new = {
        "cable_port": [[-1, -1]],
        "cable_length_m": [np.nan],
        "cable_medium": [CableMedium.UNKNOWN],
        "cable_ber": [0.0],
        "cable_listed": [2],
    }
    for name in _CABLE_COLUMNS:
        column = getattr(fabric, name)
        setattr(fabric, name, np.concatenate([column, np.asarray(new[name], column.dtype)]))
    for key, value in _truth_columns(fabric).items():
        fabric.source.generator[key] = np.concatenate([value, np.full((1, *value.shape[1:]), -1, value.dtype)])
    fabric.sizes = replace(fabric.sizes, cables=fabric.sizes.cables + 1)
    plug(fabric, fabric.sizes.cables - 1, a, b)
    return fabric.sizes.cables - 1


def delete_cables(fabric: Fabric, cables: Any) -> None:
    """Unplug ``cables`` and delete their rows; rows of later cables move up."""
    removed = np.unique(np.atleast_1d(np.asarray(cables, np.int64)))
    for cable in removed.tolist():
        unplug(fabric, cable)
    keep = np.ones(fabric.sizes.cables, bool)
    keep[removed] = False
    for name in _CABLE_COLUMNS:
        setattr(fabric, name, getattr(fabric, name)[keep])
    for key, value in _truth_columns(fabric).items():
        fabric.source.generator[key] = value[keep]
    row = np.cumsum(keep, dtype=np.int32) - 1
    held = fabric.port_cable >= 0
    fabric.port_cable[held] = row[fabric.port_cable[held]]
    fabric.sizes = replace(fabric.sizes, cables=int(keep.sum()))


def _truth_columns(fabric: Fabric) -> dict[str, np.ndarray]:
    """Return those columns of the generator's ground truth that have one row per cable."""
    return {k: v for k, v in fabric.source.generator.items() if k.startswith("cable_") and isinstance(v, np.ndarray)}


def _peer_name(fabric: Fabric, port: int) -> str:
    peer = int(fabric.port_peer[port])
    return fabric.port_name(peer) if peer >= 0 else "an unknown peer"
