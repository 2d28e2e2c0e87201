"""The subnets of a fabric, each of which is a part connected by cables and switches. Adapters
forward no packets, so a host may have ports on several subnets. Each subnet has its own LIDs and
subnet manager (IBA 4.1.3)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from softib.components import components
from softib.iba.constants import LFT_NO_ROUTE
from softib.iba.smp import PortInfo

if TYPE_CHECKING:
    from softib.fabric.model import Fabric

__all__ = [
    "in_largest",
    "managed_subnets",
    "mark_internal",
    "master_port",
    "one_subnet",
    "subnet_of",
    "subnets_by_lids",
]


def subnet_of(fabric: Fabric) -> np.ndarray:
    """Return a subnet number for each port (int64[ports]). Links that are down connect too."""
    f = fabric
    device = np.where(f.is_switch[f.port_node], f.node_base[f.port_node], np.arange(f.sizes.ports))
    cabled = np.flatnonzero(f.port_peer >= 0)
    return components(f.sizes.ports, device[cabled], device[f.port_peer[cabled]])[device]


def in_largest(fabric: Fabric, ports: np.ndarray) -> np.ndarray:
    """Return those of ``ports`` that are on the subnet with the most of them. If several have the
    same number, the first such subnet is used."""
    _, part, size = np.unique(subnet_of(fabric)[ports], return_inverse=True, return_counts=True)
    largest = size[part] == size.max(initial=0)
    return ports[largest & (part == part[np.argmax(largest)])] if len(ports) else ports


def master_port(fabric: Fabric, ends: np.ndarray) -> int:
    """Return the port of the master subnet manager: the end port among ``ends``, all of one subnet,
    whose LID is the most common MasterSMLID. -1 if no port has this LID."""
    masters = np.bincount(PortInfo.master_sm_lid.get(fabric.port_info[ends]), minlength=1)
    masters[0] = 0
    owner = ends[fabric.lid[ends] == int(masters.argmax())] if masters.any() else ends[:0]
    return int(owner[0]) if len(owner) else -1


def mark_internal(sms: list[dict[str, Any]], fabric: Fabric, status: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the managers ``sms`` of a running fabric with ``internal`` set for the one that its daemon runs, according
    to the daemon's ``status``."""
    port = status.get("sm", {}).get("node")  # only an internal one has this

    def name_of(sm: dict[str, Any]) -> str:
        return fabric.port_name(int(fabric.node_base[sm["node"]]) + int(sm["portnum"]))

    return [{**sm, "internal": True} if port and port == name_of(sm) else sm for sm in sms]


def managed_subnets(fabric: Fabric) -> list[np.ndarray]:
    """Return the end ports of each subnet that its own manager programmed, beginning with the
    subnet with the most hosts. A part that lost its cables to the manager is not a separate subnet,
    because no port in it has the manager's LID."""
    subnet, ends = subnet_of(fabric), fabric.end_ports()
    order = np.argsort(subnet[ends], kind="stable")
    _, first = np.unique(subnet[ends][order], return_index=True)
    managed = [part for part in np.split(ends[order], first[1:]) if master_port(fabric, part) >= 0]
    return sorted(managed, key=lambda part: -int(fabric.is_host[fabric.port_node[part]].sum()))


def subnets_by_lids(fabric: Fabric) -> list[np.ndarray]:
    """If LIDs occur more than once, return the end ports that have LIDs, grouped by subnet.
    (Disconnected parts of one subnet have no LID in common.) Return an empty list if all LIDs
    belong to one subnet."""
    ends = fabric.end_ports()
    ends = ends[fabric.lid[ends] > 0]
    subnet = subnet_of(fabric)[ends]
    pairs = np.unique(np.stack([fabric.lid[ends].astype(np.int64), subnet], 1), axis=0)
    if len(pairs) == len(np.unique(pairs[:, 0])):
        return []
    order = np.argsort(subnet, kind="stable")
    return np.split(ends[order], np.flatnonzero(np.diff(subnet[order])) + 1)


def one_subnet(fabric: Fabric, ends: np.ndarray) -> Fabric:
    """Return a copy of the fabric in which only ``ends`` have LIDs, and only switches on their
    subnet have tables."""
    fabric = fabric.copy()
    others = np.setdiff1d(fabric.end_ports(), ends)
    PortInfo.lid.set(fabric.port_info, 0, others)
    switches = fabric.switch_of_node[fabric.port_node[others]]
    fabric.lft[switches[switches >= 0]] = LFT_NO_ROUTE
    return fabric
