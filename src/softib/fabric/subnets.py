"""The subnets of a fabric: parts joined by cables and switches. Adapters forward nothing, so a host
may have ports on several subnets. Each subnet has separate LIDs and a separate subnet manager (IBA
4.1.3)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from softib.components import components
from softib.iba.constants import LFT_NO_ROUTE
from softib.iba.smp import PortInfo

if TYPE_CHECKING:
    from softib.fabric.model import Fabric

__all__ = ["in_largest", "managed_subnets", "master_port", "one_subnet", "subnet_of", "subnets_by_lids"]


def subnet_of(fabric: Fabric) -> np.ndarray:
    """Return a subnet number for each port (int64[ports]), whether links are up or down."""
    f = fabric
    device = np.where(f.is_switch[f.port_node], f.node_base[f.port_node], np.arange(f.sizes.ports))
    cabled = np.flatnonzero(f.port_peer >= 0)
    return components(f.sizes.ports, device[cabled], device[f.port_peer[cabled]])[device]


def in_largest(fabric: Fabric, ports: np.ndarray) -> np.ndarray:
    """Return those of ``ports`` that are on the subnet with most of them (on a tie, the first such subnet)."""
    _, part, size = np.unique(subnet_of(fabric)[ports], return_inverse=True, return_counts=True)
    largest = size[part] == size.max(initial=0)
    return ports[largest & (part == part[np.argmax(largest)])] if len(ports) else ports


def master_port(fabric: Fabric, ends: np.ndarray) -> int:
    """Return the end port among ``ends`` of one subnet whose LID is the most common MasterSMLID; -1
    if no port has this LID."""
    masters = np.bincount(PortInfo.master_sm_lid.get(fabric.port_info[ends]), minlength=1)
    masters[0] = 0
    owner = ends[fabric.lid[ends] == int(masters.argmax())] if masters.any() else ends[:0]
    return int(owner[0]) if len(owner) else -1


def managed_subnets(fabric: Fabric) -> list[np.ndarray]:
    """Return the end ports of each subnet programmed by a manager on it, the one with most hosts
    first. A part that lost its cables to the manager is not a separate subnet, because no port in
    it has the manager's LID."""
    subnet, ends = subnet_of(fabric), fabric.end_ports()
    order = np.argsort(subnet[ends], kind="stable")
    _, first = np.unique(subnet[ends][order], return_index=True)
    managed = [part for part in np.split(ends[order], first[1:]) if master_port(fabric, part) >= 0]
    return sorted(managed, key=lambda part: -int(fabric.is_host[fabric.port_node[part]].sum()))


def subnets_by_lids(fabric: Fabric) -> list[np.ndarray]:
    """Return the end ports with LIDs of each subnet, if LIDs occur on several subnets.
    (Disconnected parts of one subnet have no LID in common.) Empty if all LIDs belong to one
    subnet."""
    ends = fabric.end_ports()
    ends = ends[fabric.lid[ends] > 0]
    subnet = subnet_of(fabric)[ends]
    pairs = np.unique(np.stack([fabric.lid[ends].astype(np.int64), subnet], 1), axis=0)
    if len(pairs) == len(np.unique(pairs[:, 0])):
        return []
    order = np.argsort(subnet, kind="stable")
    return np.split(ends[order], np.flatnonzero(np.diff(subnet[order])) + 1)


def one_subnet(fabric: Fabric, ends: np.ndarray) -> Fabric:
    """Return a copy in which only the end ports ``ends`` have LIDs, and only their switches have
    tables."""
    fabric = fabric.copy()
    others = np.setdiff1d(fabric.end_ports(), ends)
    PortInfo.lid.set(fabric.port_info, 0, others)
    switches = fabric.switch_of_node[fabric.port_node[others]]
    fabric.lft[switches[switches >= 0]] = LFT_NO_ROUTE
    return fabric
