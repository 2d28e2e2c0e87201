"""The end ports of traffic, numbered in one way for all layers of the simulator, and the data rates
of ports."""

from __future__ import annotations

import numpy as np

from softib.fabric.model import Fabric
from softib.fabric.subnets import subnet_of
from softib.iba.constants import PortState
from softib.iba.lids import may_stand
from softib.iba.smp import SwitchInfo

__all__ = ["assumed_gbps", "common_lmc", "end_ports", "port_gbps", "unmanaged_ends", "valid_lids"]


def valid_lids(fabric: Fabric) -> tuple[np.ndarray, np.ndarray]:
    """Return ``(ports, valid)``. ``ports`` are the rows of all end ports. ``valid`` (bool[ports])
    marks each port whose LID is unicast, aligned to the port's LMC, and unique on its subnet. If
    several ports have the same LID, only the first is valid."""
    ports = fabric.end_ports()
    good = may_stand(fabric.lid[ports], fabric.lmc[ports])
    if not good.all():
        good = may_stand(fabric.lid[ports], fabric.lmc[ports], subnet_of(fabric)[ports])
    return ports, good


def common_lmc(fabric: Fabric) -> int:
    """Return the most common LMC of CA ports with a LID, or 0 if no port has a LID. The previous
    manager set this LMC."""
    ports = fabric.end_ports()
    ports = ports[~fabric.is_switch[fabric.port_node[ports]] & (fabric.lid[ports] > 0)]
    return int(np.bincount(fabric.lmc[ports], minlength=1).argmax()) if len(ports) else 0


def unmanaged_ends(fabric: Fabric) -> np.ndarray:
    """Return a mask (bool[ports]) of the end ports on switches that the manager did not program
    although it programmed others. Such a switch has LinearFDBTop 0 and no link beyond INIT, because
    the manager's port had no path to it. The LIDs of these ports are stale.
    """
    f = fabric
    bare = SwitchInfo.linear_fdb_top.get(f.switch_info) == 0
    out = np.zeros(f.sizes.ports, bool)
    if bare.all() or not bare.any():
        return out
    up = np.flatnonzero((f.port_state > PortState.INIT) & (f.port_num > 0) & f.is_switch[f.port_node])
    bare[f.switch_of_node[f.port_node[up]]] = False
    on_bare = np.zeros(f.sizes.nodes, bool)
    on_bare[f.switch_node[bare]] = True
    ends = f.end_ports()
    peer = np.where(f.is_switch[f.port_node[ends]], ends, np.maximum(f.port_peer[ends], 0))
    out[ends] = on_bare[f.port_node[peer]]
    return out


def end_ports(fabric: Fabric) -> np.ndarray:
    """Return the ports (int32) at which traffic starts and ends: first CA and router ports that
    have a link and a LID, then port 0 of each switch with a LID. Both parts ascend by LID.
    ``Messages.src`` and ``dst`` are indices into this array."""

    ports, good = valid_lids(fabric)
    ports = ports[good & ~unmanaged_ends(fabric)[ports]]
    ports = ports[np.argsort(fabric.lid[ports], kind="stable")]
    of_switch = fabric.port_num[ports] == 0
    return np.concatenate([ports[~of_switch], ports[of_switch]]).astype(np.int32)


def port_gbps(fabric: Fabric, ports: np.ndarray | slice = slice(None)) -> np.ndarray:
    """Return the data rate in Gb/s of the link of each of ``ports`` (default: all), computed from
    active speed and width (float64; 0 = no link)."""
    from softib.fabric.power_up import active_speed_codes
    from softib.iba.rates import LANES_BY_BIT, data_gbps
    from softib.iba.smp import PortInfo

    lanes = np.zeros(256, np.int64)
    for bit, count in LANES_BY_BIT.items():
        lanes[bit] = count
    info = fabric.port_info[ports]
    width = lanes[PortInfo.link_width_active.get(info)]
    speed = active_speed_codes(info, fabric.port_mlnx_speed[ports])
    return np.asarray(np.where(fabric.linked[ports], data_gbps(speed, width), 0.0))


def assumed_gbps(fabric: Fabric) -> np.ndarray:
    """Return :func:`port_gbps` of all ports, with the rate of the slowest known link (1 Gb/s if none is known) for
    ports without a recorded rate."""
    gbps = port_gbps(fabric)
    recorded = gbps[gbps > 0]
    return np.where(gbps > 0, gbps, recorded.min() if len(recorded) else 1.0)
