"""Speeds and widths that the ends of links support. They are taken from the source's record of the port, otherwise from
the device catalogue. A part is found by its DeviceID; a switch whose DeviceID is unknown is found by its number of
ports.
"""

from __future__ import annotations

import numpy as np

from softib.diags.view import FabricView
from softib.fabric.identity import Stated
from softib.iba.devices import DEVICES
from softib.iba.rates import SPEED_BY_NAME, WIDTH_BITS
from softib.iba.smp import PortInfo

__all__ = ["device_best", "supported"]

LANES = 4
"""Number of lanes of a port. All parts in the catalogue have this number."""


def _by_ports() -> dict[int, int]:
    """Return number of ports → speed code. Numbers of ports that occur in several generations of switches are left out.
    A switch with SHARP reports one port more than it has external ports: 41 for Quantum, 65 for Quantum-2.
    """
    generations: dict[int, set[str]] = {}
    for part in DEVICES.values():
        if part.kind == "switch":
            generations.setdefault(part.ports, set()).add(part.generation)
    only = {ports: SPEED_BY_NAME[g.copy().pop()].code for ports, g in generations.items() if len(g) == 1}
    return only | {ports + 1: speed for ports, speed in only.items()}


_SPEED_BY_PORTS = _by_ports()


def device_best(device_id: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the best speed code and the maximum number of lanes of the ports of each part in ``device_id``; 0 if the
    catalogue does not have the part.
    """
    code = np.zeros(len(device_id), np.int64)
    for part in np.unique(device_id).tolist():
        device = DEVICES.get(part)
        if device is not None:
            code[device_id == part] = SPEED_BY_NAME[device.generation].code
    return code, np.where(code > 0, LANES, 0)


def supported(view: FabricView, ports: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the best speed code and the maximum number of lanes of each port: as the source records them, otherwise
    from the part's generation (0: unknown). For an adapter without a DeviceID, only the number of lanes is known.
    """
    f = view.fabric
    if "capabilities" not in view.records:
        node = f.port_node[ports]
        stated = f.node_stated[node] & Stated.DEVICE > 0
        code, lanes = device_best(f.device_id[node])
        by_ports = np.zeros(256, np.int64)
        by_ports[list(_SPEED_BY_PORTS)] = list(_SPEED_BY_PORTS.values())
        alike = np.where(f.is_switch[node], by_ports[f.node_nports[node]], 0)
        return np.where(stated, code, alike), np.where(stated, lanes, LANES)
    info = f.port_info[ports]
    best = np.zeros(len(ports), np.int64)
    mlnx = f.port_mlnx_speed[ports, 0]
    for s in SPEED_BY_NAME.values():
        has = np.zeros(len(ports), bool)
        if s.ext2_bit:
            has = (PortInfo.link_speed_ext2_supported.get(info) & s.ext2_bit) > 0
        elif s.ext_bit:
            has = (PortInfo.link_speed_ext_supported.get(info) & s.ext_bit) > 0
        elif s.mlnx_bit:
            has = (mlnx & s.mlnx_bit) > 0
        elif s.speed_bit:
            has = (PortInfo.link_speed_supported.get(info) & s.speed_bit) > 0
        best[has] = s.code
    bits = PortInfo.link_width_supported.get(info).astype(np.int64)
    widest = np.zeros(len(ports), np.int64)
    for n in sorted(WIDTH_BITS):
        widest[(bits & WIDTH_BITS[n]) > 0] = n
    return best, widest
